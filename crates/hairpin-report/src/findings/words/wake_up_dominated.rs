use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::{BUSY_POLL, KEEP_AWAKE};
use hairpin_model::quantities::{duration, duration_figure, share_figure};

use super::{Told, Words};

pub(super) const WORDS: Words = Words {
    summary,
    advice,
    checks: &[
        (
            KEEP_AWAKE,
            "keep the CPUs awake",
            "keep the CPUs awake; if the time stays the same, waking from deep idle is not the cause",
        ),
        (
            BUSY_POLL,
            "busy-poll at both ends",
            "busy-poll at both ends; if the time stays the same, waking is not the cause",
        ),
    ],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let cause = told.word(keys::CAUSE)?;
    let without = match cause {
        "awake" => "with the CPUs kept awake",
        "busy-polling" => "with both ends busy-polling",
        "one-cpu" => "with both ends on one CPU",
        _ => return None,
    };
    let seen = format!(
        "{}: waking the other end is {} of the {} round trip; {without} it takes {}.{}",
        told.label(),
        share_figure(told.finding.figure_of(keys::SAVED_SHARE, cause)?),
        told.show(keys::P50, duration)?,
        told.show(keys::P50_WITHOUT, duration)?,
        told.others()
    );
    let Some(piece) = told.finding.evidence.iter().find(|piece| piece.key == keys::IDLE_SAVED.name) else {
        return Some(seen);
    };
    let ruled_out = format!(
        "Keeping the CPUs awake saves {} of {}: deep idle is not the cause",
        duration_figure(piece.value),
        told.label_of(piece.case.as_ref()?)
    );
    // What is undecided comes first.
    Some(if told.has(keys::UNDECIDED) {
        format!("{ruled_out}, and waking itself was not checked. {seen}")
    } else {
        format!("{seen} {ruled_out}.")
    })
}

fn advice(told: &Told<'_>) -> Option<String> {
    let words = |way: &str| {
        Some(match way {
            "busy-polling" => "busy-poll at both ends",
            "awake" => "keep the CPUs out of deep idle states (/dev/cpu_dma_latency, cpupower idle-set)",
            "one-cpu" => "put both ends on one CPU",
            _ => return None,
        })
    };
    let ways: Vec<&str> = told.word(keys::ADVICE)?.split(',').filter_map(words).collect();
    let ways = match ways.as_slice() {
        [ways @ .., last] if !ways.is_empty() => format!("{}, or {last}", ways.join(", ")),
        ways => ways.concat(),
    };
    Some(format!(
        "Where latency matters more than CPU time, {ways}. Otherwise send more data per wake-up. Change the transport last."
    ))
}
