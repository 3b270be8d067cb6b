//! Shows how an exchange spends its time: a bar to scale, and the duration of each part.

use std::cmp::Reverse;
use std::fmt::Write as _;

use hairpin_model::exchange_state::{Actor, ExchangeState};
use hairpin_model::{CaseSummary, TimeSequence, quantities};

use super::svg::{escape, percent};
use crate::exchange_states::{line, placed};
use crate::page_text::nbsp;

/// Returns the bar of an exchange with the states of all traced exchanges below it; `None` if the exchange has no duration
/// or no states.
pub(crate) fn chart(row: &CaseSummary, sequence: &TimeSequence) -> Option<String> {
    let whole_ns = sequence.states.last()?.until_ns as f64;
    let mut bar = String::new();
    let mut parts: Vec<((ExchangeState, Actor), u64)> = Vec::new();
    for span in &sequence.states {
        let (from_ns, ns) = (span.from_ns, span.until_ns.saturating_sub(span.from_ns));
        let share = |ns: u64| percent(ns as f64 / whole_ns);
        let class = span.state.word();
        let _ =
            write!(bar, "<rect class=\"{class}\" x=\"{}\" width=\"{}\" height=\"18\"/>", share(from_ns), share(ns));
        match parts.iter_mut().find(|(known, _)| *known == (span.state, span.who)) {
            Some((_, sum)) => *sum += ns,
            None => parts.push(((span.state, span.who), ns)),
        }
    }
    parts.sort_by_key(|(_, sum)| Reverse(*sum));
    let said: Vec<String> = parts
        .iter()
        .map(|((state, who), ns)| format!("{} {}", placed(*state, *who), nbsp(&quantities::duration(*ns as f64))))
        .collect();
    let said = escape(&said.join("; "));
    let all = line(row).map(|line| format!(" All traced exchanges: {}.", escape(&nbsp(&line)))).unwrap_or_default();
    Some(format!(
        "<figure class=\"exchange-bar\"><svg width=\"100%\" height=\"18\" role=\"img\" aria-label=\"{said}\">{bar}</svg>\
         <figcaption class=\"caption\">Time of this exchange, to scale: {said}.{all}</figcaption></figure>"
    ))
}
