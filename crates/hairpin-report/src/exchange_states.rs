//! The words for the states of exchanges.

use hairpin_model::exchange_state::{Actor, ExchangeState};
use hairpin_model::{CaseSummary, TimeInState, quantities};

/// Maximum number of states in a line, and the minimum share of one.
const MAX_STATES: usize = 3;
const MIN_SHARE: f64 = 0.01;

pub(crate) fn name(state: ExchangeState) -> String {
    match state {
        ExchangeState::Nagle => "held by Nagle's algorithm".to_owned(),
        ExchangeState::DelayedAck => "delayed ACK".to_owned(),
        ExchangeState::WakeUp => "wake-up".to_owned(),
        ExchangeState::WaitingForCpu => "waiting for a CPU".to_owned(),
        ExchangeState::NagleOrDelayedAck => "Nagle's algorithm or a delayed ACK".to_owned(),
        ExchangeState::ProgramOrCpu => "the program or waiting for a CPU".to_owned(),
        ExchangeState::Unexplained => "held, cause unknown".to_owned(),
        other => other.word().replace('-', " "),
    }
}

/// Returns the name with the end that is in the state: `delayed ACK at the server`.
pub(crate) fn placed(state: ExchangeState, who: Actor) -> String {
    let end = match (state, who) {
        // Their names have the end.
        (ExchangeState::ClientIdle | ExchangeState::ServerProgram, _) | (_, Actor::Network | Actor::Unknown) => "",
        (_, Actor::ClientProgram | Actor::ClientKernel | Actor::Client) => " at the client",
        (_, Actor::ServerProgram | Actor::ServerKernel | Actor::Server) => " at the server",
    };
    format!("{}{end}", name(state))
}

/// Returns where the time of a case's traced exchanges goes: `delayed ACK at the server 91 %, ... (24 traced exchanges)`.
pub(crate) fn line(row: &CaseSummary) -> Option<String> {
    let trace = row.trace.as_ref().filter(|trace| !trace.states.is_empty())?;
    let shown = trace.states.iter().take(MAX_STATES).filter(|time| time.share >= MIN_SHARE);
    let part = |time: &TimeInState| format!("{} {}", placed(time.state, time.who), quantities::share(time.share));
    let mut parts: Vec<String> = shown.map(part).collect();
    let rest = 1.0 - trace.states.iter().take(parts.len()).map(|time| time.share).sum::<f64>();
    if rest >= MIN_SHARE {
        parts.push(format!("other {}", quantities::share(rest)));
    }
    Some(format!("{} ({})", parts.join(", "), quantities::counted(trace.exchanges, "traced exchange")))
}
