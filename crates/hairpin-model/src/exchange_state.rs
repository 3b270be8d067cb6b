//! The states of an exchange over a byte stream: what it waits for at a moment, and who must act.
//!
//! States are exclusive. An exchange is in one state at each moment: the one of the last byte that is still missing,
//! first of the request and then of the answer. A byte that is held for an acknowledgment is in the state of that
//! acknowledgment while its receiver delays it, or while lost data is recovered. `hairpin-analysis` computes the states;
//! what the evidence cannot separate is a [union](ExchangeState::members).

use serde::{Deserialize, Serialize};

use crate::names::distinct;
use crate::trace::End;
use crate::words;

words! {
    /// A state of an exchange, or a union of states that the evidence does not separate. The order lets most unions be
    /// ranges.
    pub enum ExchangeState: "state of an exchange" {
        /// The client's program has not written yet.
        ClientIdle = "client-idle",
        /// A program could run but waits for a CPU.
        WaitingForCpu = "waiting-for-cpu",
        /// The sender's kernel processes a write call.
        SendCall = "send-call",
        /// A write call waits because the send buffer is full.
        SendBuffer = "send-buffer",
        /// Written bytes wait until earlier ones are acknowledged: Nagle's algorithm.
        Nagle = "nagle",
        /// Written bytes wait because the socket is corked.
        Cork = "cork",
        /// Written bytes wait for an earlier packet in the device's queue: autocorking.
        Autocork = "autocork",
        /// Written bytes wait for their time by the pacing rate.
        Pacing = "pacing",
        /// Written bytes wait because the congestion window is full.
        CongestionWindow = "congestion-window",
        /// Written bytes wait because the receiver's window is full, although its program reads all that has arrived.
        ReceiveWindow = "receive-window",
        /// Bytes have arrived, and the receiver's program has not called to read them.
        SlowReader = "slow-reader",
        /// Bytes have arrived, and the waiting program is woken and reads them.
        WakeUp = "wake-up",
        /// Bytes wait for an acknowledgment that the receiver delays.
        DelayedAck = "delayed-ack",
        /// Lost data waits for the acknowledgments that show its loss.
        FastRecovery = "fast-recovery",
        /// Lost data waits for a tail loss probe (RFC 8985, section 7).
        TailLossProbe = "tail-loss-probe",
        /// Lost data waits for the retransmission time-out (RFC 6298).
        RetransmissionTimeout = "retransmission-timeout",
        /// A packet is on its way, for the shortest time seen on this path.
        Propagation = "propagation",
        /// A packet is on its way for longer than the shortest time seen: queues, and the rate of a link.
        Queueing = "queueing",
        /// The server's program has the request and has not written the answer yet.
        ServerProgram = "server-program",
        /// Union: written bytes wait for an unknown rule of the sender or for a window.
        Unexplained = "unexplained",
        /// Union: the client has not written, or its kernel holds the bytes.
        IdleOrHeld = "idle-or-held",
        /// Union: the server has not read, works, or its kernel holds the answer, or the answer is on its way.
        WorkOrHeld = "work-or-held",
        /// Union: the window is full because it is small, or because the program does not read.
        WindowOrReader = "window-or-reader",
        /// Union: Nagle's algorithm waits for an acknowledgment, delayed or not.
        NagleOrDelayedAck = "nagle-or-delayed-ack",
        /// Union: lost data waits for a probe or for the time-out.
        ProbeOrTimeout = "probe-or-timeout",
        /// Union: a program works or idles, or waits for a CPU.
        ProgramOrCpu = "program-or-cpu",
        /// Union: a packet is on its way, in queues or not.
        Path = "path",
        /// Union: a packet is on its way, perhaps lost, or has arrived and is not read.
        PathOrWakeUp = "path-or-wake-up",
        /// Union: everything between a write call and the read call that returns its bytes.
        BetweenCalls = "between-calls",
        /// Union of all states.
        NoEvidence = "no-evidence",
    }

    /// Who must act to end a state.
    pub enum Actor: "actor" {
        ClientProgram = "client-program",
        ClientKernel = "client-kernel",
        /// The client's program or kernel.
        Client = "client",
        ServerProgram = "server-program",
        ServerKernel = "server-kernel",
        /// The server's program or kernel.
        Server = "server",
        Network = "network",
        Unknown = "unknown",
    }
}

impl Actor {
    /// Returns the end that must act; `None` for the network or if unknown.
    pub fn end(self) -> Option<End> {
        match self {
            Self::ClientProgram | Self::ClientKernel | Self::Client => Some(End::Client),
            Self::ServerProgram | Self::ServerKernel | Self::Server => Some(End::Server),
            Self::Network | Self::Unknown => None,
        }
    }
}

impl ExchangeState {
    /// Returns the states of a union; empty for a state.
    pub fn members(self) -> &'static [Self] {
        self.union().0
    }

    /// Returns the states of a union, and the evidence that would separate them.
    fn union(self) -> (&'static [Self], &'static [&'static str]) {
        let states = |from: Self, to: Self| &Self::ALL[from as usize..=to as usize];
        match self {
            Self::Unexplained => (states(Self::SendBuffer, Self::SlowReader), &["sender-samples"]),
            Self::IdleOrHeld => (states(Self::ClientIdle, Self::ReceiveWindow), &["sender-calls", "sender-samples"]),
            Self::WorkOrHeld => {
                (states(Self::WaitingForCpu, Self::ServerProgram), &["sender-calls", "sender-packets"])
            }
            Self::WindowOrReader => {
                (states(Self::ReceiveWindow, Self::SlowReader), &["receiver-samples", "receiver-calls"])
            }
            Self::NagleOrDelayedAck => (&[Self::Nagle, Self::DelayedAck], &["sender-packets"]),
            Self::ProbeOrTimeout => (states(Self::TailLossProbe, Self::RetransmissionTimeout), &["counters"]),
            Self::ProgramOrCpu => (&[Self::ClientIdle, Self::WaitingForCpu, Self::ServerProgram], &["cpu-waits"]),
            Self::Path => (states(Self::Propagation, Self::Queueing), &["receiver-packets"]),
            Self::PathOrWakeUp => (states(Self::SlowReader, Self::Queueing), &["receiver-packets"]),
            Self::BetweenCalls => (states(Self::SendBuffer, Self::Queueing), &["sender-packets"]),
            Self::NoEvidence => (states(Self::ClientIdle, Self::ServerProgram), &["sender-calls", "sender-packets"]),
            _ => (&[], &[]),
        }
    }

    /// Returns who must act to end the state. `at` is the end that is in the state: the sender of held bytes, the
    /// receiver of arrived bytes and of a delayed acknowledgment.
    pub fn who(self, at: End) -> Actor {
        let [program, kernel, either] = match at {
            End::Client => [Actor::ClientProgram, Actor::ClientKernel, Actor::Client],
            End::Server => [Actor::ServerProgram, Actor::ServerKernel, Actor::Server],
        };
        match self {
            Self::ClientIdle | Self::ServerProgram | Self::Cork | Self::SlowReader => program,
            Self::IdleOrHeld | Self::WorkOrHeld | Self::WindowOrReader | Self::ProgramOrCpu => either,
            Self::Propagation | Self::Queueing | Self::Path => Actor::Network,
            _ if self < Self::Unexplained || self == Self::ProbeOrTimeout => kernel,
            _ => Actor::Unknown,
        }
    }
}

/// A span of an exchange in one state, in ns since the exchange began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StateSpan {
    pub state: ExchangeState,
    pub who: Actor,
    pub from_ns: u64,
    pub until_ns: u64,
}

/// The time in one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TimeInState {
    pub state: ExchangeState,
    pub who: Actor,
    /// Share of the time of all exchanges, from 0 to 1.
    pub share: f64,
    /// Mean time per exchange, in ns.
    pub ns: f64,
}

/// A union among the states of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StateUnion {
    pub name: ExchangeState,
    pub of: Vec<ExchangeState>,
    /// Evidence that would separate them, such as `sender-calls` or `receiver-samples`.
    pub separated_by: Vec<String>,
}

impl StateUnion {
    pub fn among(states: &[TimeInState]) -> Vec<Self> {
        let unions = states.iter().map(|time| time.state).filter(|state| !state.members().is_empty());
        let union = |name: ExchangeState| {
            let (of, separated_by) = name.union();
            Self { name, of: of.to_vec(), separated_by: separated_by.iter().map(|one| (*one).to_owned()).collect() }
        };
        distinct(unions).into_iter().map(union).collect()
    }
}
