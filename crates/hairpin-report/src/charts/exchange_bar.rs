//! Shows how an exchange spends its time: a bar to scale, and the duration of each part.

use std::fmt::Write as _;

use hairpin_model::time_sequence::WaitCause;
use hairpin_model::{TimeSequence, Wait, quantities};

use super::svg::{escape, percent};
use crate::page_text::nbsp;
use crate::time_sequence::words;

/// Returns the bar; `None` if the exchange has no duration.
pub(crate) fn chart(sequence: &TimeSequence) -> Option<String> {
    let whole = sequence.duration_ns;
    if whole <= 0 {
        return None;
    }
    let mut bar = String::new();
    let mut parts: Vec<(Option<WaitCause>, i64)> = Vec::new();
    for (cause, from, until) in pieces(&sequence.waits, whole) {
        let share = |ns: i64| percent(ns as f64 / whole as f64);
        let class = cause.map_or_else(|| "active".to_owned(), |cause| cause.to_string());
        let _ = write!(
            bar,
            "<rect class=\"{class}\" x=\"{}\" width=\"{}\" height=\"18\"/>",
            share(from),
            share(until - from)
        );
        match parts.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, sum)) => *sum += until - from,
            None => parts.push((cause, until - from)),
        }
    }
    parts.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    let name = |cause: Option<WaitCause>| cause.map_or("calls, packets on the way, wake-ups", words::cause);
    let said: Vec<String> = parts
        .iter()
        .map(|(cause, ns)| format!("{} {}", name(*cause), nbsp(&quantities::duration(*ns as f64))))
        .collect();
    let said = escape(&said.join("; "));
    Some(format!(
        "<figure class=\"exchange-bar\"><svg width=\"100%\" height=\"18\" role=\"img\" aria-label=\"{said}\">{bar}</svg>\
         <figcaption class=\"caption\">Time of this exchange, to scale: {said}.</figcaption></figure>"
    ))
}

/// Splits the exchange at each start and end of a wait. Returns each piece with the wait that delays the exchange. A
/// wait of held bytes takes precedence over a delayed ACK, because a delayed ACK alone delays nothing.
fn pieces(waits: &[Wait], whole: i64) -> Vec<(Option<WaitCause>, i64, i64)> {
    let mut cuts: Vec<i64> = waits.iter().flat_map(|wait| [wait.from_ns, wait.until_ns]).collect();
    cuts.retain(|cut| (1..whole).contains(cut));
    cuts.extend([0, whole]);
    cuts.sort_unstable();
    cuts.dedup();
    let holding = |from: i64, until: i64| {
        let during = waits.iter().filter(|wait| wait.from_ns <= from && until <= wait.until_ns);
        during.map(|wait| wait.cause).min_by_key(|cause| *cause == WaitCause::DelayedAck)
    };
    cuts.windows(2).map(|pair| (holding(pair[0], pair[1]), pair[0], pair[1])).collect()
}
