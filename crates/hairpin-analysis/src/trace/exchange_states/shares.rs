//! The time in each state over exchanges, and the waits for a CPU in it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hairpin_model::exchange_state::{Actor, ExchangeState, StateSpan, TimeInState};
use hairpin_model::trace::End;

/// Returns the sum of the times in each state, longest first; the shares sum to 1 unless all times are 0.
pub(crate) fn times_in_states(
    times: impl IntoIterator<Item = (ExchangeState, Actor, f64)>,
    exchanges: u64,
) -> Vec<TimeInState> {
    let mut sums: BTreeMap<(ExchangeState, Actor), f64> = BTreeMap::new();
    times.into_iter().for_each(|(state, who, ns)| *sums.entry((state, who)).or_default() += ns);
    let whole_ns = sums.values().sum::<f64>().max(1.0);
    let time = |((state, who), ns): ((ExchangeState, Actor), f64)| TimeInState {
        state,
        who,
        share: ns / whole_ns,
        ns: ns / exchanges.max(1) as f64,
    };
    let mut all: Vec<TimeInState> = sums.into_iter().map(time).collect();
    all.sort_by_key(|time| Reverse(time.ns as u64));
    all
}

/// Separates the time of an end's program from its waits for a CPU, of which only the sum over the exchanges is known. They
/// may also be part of its wake-ups.
pub(in crate::trace) fn separate_cpu_waits(exchanges: &mut [Vec<StateSpan>], end: End, waited_ns: Option<u64>) {
    let program = if end == End::Client { ExchangeState::ClientIdle } else { ExchangeState::ServerProgram };
    let sum_ns = |state: ExchangeState| -> u128 {
        let spans = exchanges.iter().flatten().filter(|span| (span.state, span.who) == (state, state.who(end)));
        spans.map(|span| u128::from(span.until_ns - span.from_ns)).sum()
    };
    let (program_ns, wake_ups_ns) = (sum_ns(program), sum_ns(ExchangeState::WakeUp));
    let state = match waited_ns.map(u128::from) {
        Some(waited_ns) if waited_ns <= program_ns / 10 => return,
        Some(waited_ns) if waited_ns >= wake_ups_ns + program_ns - program_ns / 10 => ExchangeState::WaitingForCpu,
        _ => ExchangeState::ProgramOrCpu,
    };
    for span in exchanges.iter_mut().flatten().filter(|span| span.state == program) {
        (span.state, span.who) = (state, state.who(end));
    }
}
