use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::PINNED;
use hairpin_model::quantities::duration;

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Do not quote the median of unpinned ends. Pin both ends, to one CPU or to two, and say which; do \
             the same in your own program.",
        )
    },
    checks: &[(PINNED, "pin the ends", "pin the ends; each placement must then be steady")],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let seen = [
        ("seen-on-one-cpu", "on one CPU", keys::ROUNDS_SAME_CPU),
        ("seen-on-two-cpus", "on two CPUs", keys::ROUNDS_TWO_CPUS),
        ("seen-on-one-and-then-two-cpus", "on one and then on two", keys::ROUNDS_MOVED),
    ];
    let places = seen.into_iter().filter_map(|(of, words, rounds)| {
        let p50 = told.finding.figure_of(keys::P50_SEEN, of)?;
        Some(format!("{} {words} in {} rounds", duration(p50.value), told.value(rounds)?))
    });
    Some(format!(
        "{}: the scheduler placed the ends differently from round to round: {}. The difference is {} of \
         the slower.{}",
        told.label(),
        places.collect::<Vec<_>>().join(", "),
        told.share(),
        told.others()
    ))
}
