//! The words for the states of exchanges.

use hairpin_model::exchange_state::{Actor, ExchangeState};
use hairpin_model::{CaseSummary, TimeInState, quantities};

/// Maximum number of states in a line, and the minimum share of one.
const MAX_STATES: usize = 3;
const MIN_SHARE: f64 = 0.01;

/// Returns the name of a state.
pub(crate) fn name(state: ExchangeState) -> &'static str {
    match state {
        ExchangeState::ClientIdle => "the client's program, before it writes",
        ExchangeState::ServerProgram => "the server's program",
        ExchangeState::WaitingForCpu => "waiting for a CPU",
        ExchangeState::SendCall => "write calls",
        ExchangeState::SendBuffer => "full send buffer",
        ExchangeState::Nagle => "Nagle's algorithm",
        ExchangeState::Cork => "cork",
        ExchangeState::Autocork => "autocorking",
        ExchangeState::Pacing => "pacing",
        ExchangeState::ReceiveWindow => "receive window",
        ExchangeState::SlowReader => "arrived and not read",
        ExchangeState::CongestionWindow => "congestion window",
        ExchangeState::FastRecovery => "fast recovery",
        ExchangeState::TailLossProbe => "tail loss probe",
        ExchangeState::RetransmissionTimeout => "retransmission time-out",
        ExchangeState::Propagation => "propagation",
        ExchangeState::Queueing => "queueing and the link's rate",
        ExchangeState::DelayedAck => "delayed ACK",
        ExchangeState::WakeUp => "wake-up and read",
        ExchangeState::Unexplained => "held by an unknown rule or window",
        ExchangeState::IdleOrHeld => "not written, or held",
        ExchangeState::WorkOrHeld => "work, or the answer held",
        ExchangeState::WindowOrReader => "small window or slow reader",
        ExchangeState::NagleOrDelayedAck => "Nagle's algorithm or a delayed ACK",
        ExchangeState::ProbeOrTimeout => "loss probe or retransmission time-out",
        ExchangeState::ProgramOrCpu => "the program, or waiting for a CPU",
        ExchangeState::Path => "on the way",
        ExchangeState::PathOrWakeUp => "on the way or not read",
        ExchangeState::BetweenCalls => "between write and read",
        ExchangeState::NoEvidence => "no evidence",
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
