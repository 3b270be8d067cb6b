use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::KEEP_AWAKE;
use hairpin_model::quantities::{duration, duration_figure, share};

use super::{Told, Words};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |told| {
        let full = if told.has(keys::RELAY_FULL) {
            "Send less, or use a link that holds less (a shorter delay, or a rate with a smaller queue): the relay's \
             memory was full. "
        } else {
            ""
        };
        Some(format!(
            "{full}Stop other programs, and measure again. Keep the CPUs awake (--cpu-idle shallow), or leave a \
             CPU to the relay (--placement same-cpu on two CPUs). With a longer link delay the same lateness is a \
             smaller part."
        ))
    },
    checks: &[(
        KEEP_AWAKE,
        "keep the CPUs awake",
        "keep the CPUs awake; if the relay is as late, waking is not the cause",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    Some(format!(
        "{}: the relay released packets late: {} at the median, in all {} of the p50, and {} at p99.{}{}",
        told.label(),
        told.show_figure(keys::RELAY_P50, duration_figure)?,
        told.show(keys::RELAY_SHARE, share)?,
        told.show(keys::RELAY_P99, duration)?,
        left_out(told).unwrap_or_default(),
        told.others()
    ))
}

/// ` 3 of 10 rounds of tcp are left out: round 7: the relay was late by 140 us at p50, bound 100 us; and 2 more.`
fn left_out(told: &Told<'_>) -> Option<String> {
    let id = told.word(keys::WORST_CASE)?;
    let (left_out, rounds) = (told.value(keys::WORST_OUT)?, told.value(keys::WORST_OF)?);
    let case = told.run.case(id)?;
    let reasons = case.path.relay.as_ref().map_or(&[][..], |link| &link.rounds_left_out);
    let what = if case.valid { "are left out" } else { "cannot be used, and are too many to leave out" };
    let more = if reasons.len() > 1 { format!("; and {} more", reasons.len() - 1) } else { String::new() };
    let first = reasons.first().map_or("", String::as_str);
    Some(format!(" {left_out} of {rounds} rounds of {} {what}: {first}{more}.", case.label))
}
