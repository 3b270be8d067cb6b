//! The time in each state over exchanges, and the waits for a CPU in it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hairpin_model::exchange_state::{Actor, ExchangeState, StateSpan, TimeInState};
use hairpin_model::trace::End;

/// Returns the time in each state over exchanges, longest first; the shares sum to 1 unless all exchanges are empty.
pub(in crate::trace) fn times_in_states<'s>(
    exchanges: impl IntoIterator<Item = &'s Vec<StateSpan>>,
) -> Vec<TimeInState> {
    let mut count = 0_u64;
    let mut sums: BTreeMap<(ExchangeState, Actor), u128> = BTreeMap::new();
    for spans in exchanges {
        count += 1;
        for span in spans {
            *sums.entry((span.state, span.who)).or_default() += u128::from(span.until_ns - span.from_ns);
        }
    }
    shares(sums.into_iter().map(|(key, ns)| (key, ns as f64)), count)
}

/// Returns the time in each state over rounds, each with its number of exchanges.
pub(in crate::trace) fn over_rounds<'s>(
    rounds: impl IntoIterator<Item = (&'s [TimeInState], u64)>,
) -> Vec<TimeInState> {
    let mut count = 0;
    let mut sums: BTreeMap<(ExchangeState, Actor), f64> = BTreeMap::new();
    for (states, exchanges) in rounds {
        count += exchanges;
        for time in states {
            *sums.entry((time.state, time.who)).or_default() += time.ns * exchanges as f64;
        }
    }
    shares(sums, count)
}

fn shares(sums: impl IntoIterator<Item = ((ExchangeState, Actor), f64)>, exchanges: u64) -> Vec<TimeInState> {
    let sums: Vec<_> = sums.into_iter().collect();
    let whole_ns: f64 = sums.iter().map(|(_, ns)| ns).sum();
    let time = |((state, who), ns): ((ExchangeState, Actor), f64)| TimeInState {
        state,
        who,
        share: ns / whole_ns.max(1.0),
        ns: ns / exchanges.max(1) as f64,
    };
    let mut all: Vec<TimeInState> = sums.into_iter().map(time).collect();
    all.sort_by_key(|time| Reverse(time.ns as u64));
    all
}

/// Separates the time of an end's program from its waits for a CPU, of which only the sum over the exchanges is known. They
/// may also be part of its wake-ups.
pub(in crate::trace) fn separate_cpu_waits(exchanges: &mut [Vec<StateSpan>], end: End, waited_ns: Option<u64>) {
    let of_program = |span: &StateSpan| {
        matches!(span.state, ExchangeState::ClientIdle | ExchangeState::ServerProgram)
            && span.who == span.state.who(end)
    };
    let of_wake_up = |span: &StateSpan| span.state == ExchangeState::WakeUp && span.who == span.state.who(end);
    let sum = |of: &dyn Fn(&StateSpan) -> bool| -> u128 {
        let spans = exchanges.iter().flatten().filter(|span| of(span));
        spans.map(|span| u128::from(span.until_ns - span.from_ns)).sum()
    };
    let (program_ns, wake_ups_ns) = (sum(&of_program), sum(&of_wake_up));
    let state = match waited_ns.map(u128::from) {
        Some(waited_ns) if waited_ns <= program_ns / 10 => return,
        Some(waited_ns) if waited_ns >= wake_ups_ns + program_ns - program_ns / 10 => ExchangeState::WaitingForCpu,
        _ => ExchangeState::ProgramOrCpu,
    };
    for span in exchanges.iter_mut().flatten().filter(|span| of_program(span)) {
        (span.state, span.who) = (state, state.who(end));
    }
}
