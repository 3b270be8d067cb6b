use hairpin_model::finding_keys as keys;
use hairpin_model::quantities::{duration, share};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Figures are from the faster state where a case has 8 rounds in it; those from the other state are \
             listed beside them. `hairpin compare` compares runs in one state.",
        )
    },
    checks: &[],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let [fast_ns, slow_ns] =
        ["faster", "slower"].map(|state| told.finding.figure_of(keys::PROBE, state).map(|probe| probe.value));
    let (fast_ns, slow_ns) = (fast_ns?, slow_ns?);
    Some(format!(
        "The machine was {:.2} times slower during {} of the rounds (a shared core?), with {} changes. \
         The probe (100 datagrams of a socket to itself) took {} instead of {}.",
        slow_ns / fast_ns,
        told.show(keys::SLOW_ROUNDS, share)?,
        told.value(keys::STATE_CHANGES)?,
        duration(slow_ns),
        duration(fast_ns)
    ))
}
