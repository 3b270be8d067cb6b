//! Why rounds and cases are invalid. `hairpin-report` writes the texts.

use serde::{Deserialize, Serialize};

use crate::flow::FlowId;
use crate::held_up::HeldUp;
use crate::options::Effective;
use crate::purpose::Purpose;
use crate::trace::End;

/// Why a round is omitted from the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LeftOut {
    /// A flow failed while others continued.
    FlowFailed {
        id: FlowId,
    },
    /// Numbers of packets that the relay dropped for lack of room.
    NoRoom {
        in_sockets: u64,
        in_memory: u64,
    },
    /// The relay was too late. `late_ns` is the median lateness if `tail_of` is null, else the p99 of `tail_of`
    /// packets (the maximum if fewer than 100).
    RelayLate {
        late_ns: u64,
        bound_ns: u64,
        tail_of: Option<u64>,
    },
    /// The emulator was late for this time of a one-way load.
    RelayStalled {
        stalled_ns: u64,
        span_ns: u64,
    },
    /// The ends waited for a CPU, were throttled or lost it to other guests: the lateness of messages at p50, or at p99
    /// if `is_tail`.
    WaitedForCpu {
        late_ns: u64,
        bound_ns: u64,
        is_tail: bool,
        /// Whether the hypervisor or a quota took most of this time.
        #[serde(default)]
        was_taken: bool,
    },
    /// An end of a one-way load was kept from a CPU for this time, beyond what waking it takes.
    CpuTaken {
        lost_ns: u64,
        span_ns: u64,
    },
    /// The server ran another client's round at the same time.
    Overlapped,
    /// A datagram sender stopped: time since the last feedback from the receiver.
    NoFeedback {
        silent_ns: u64,
    },
    /// No message of the probe was answered in the idle phase.
    IdleUnanswered,
    /// Median of the bytes in the link's queue in the idle phase.
    QueueNotIdle {
        bytes: f64,
    },
    /// Median latency in the idle phase, and the minimum latency of all phases.
    NotIdle {
        p50_ns: f64,
        least_ns: f64,
    },
    LoadLate {
        late_ns: u64,
    },
    /// The load was received for only `received_ns` of the loaded phase.
    LoadShort {
        received_ns: f64,
        loaded_ns: f64,
    },
    /// Mean latencies of the two halves of the loaded phase: latency was still rising.
    LoadUnsteady {
        first_ns: f64,
        second_ns: f64,
    },
}

impl LeftOut {
    pub fn is_of_emulator(&self) -> bool {
        matches!(self, Self::NoRoom { .. } | Self::RelayLate { .. } | Self::RelayStalled { .. })
    }

    /// Whether the machine was too slow for the ends or for the emulator: the round may count if it is repeated.
    pub fn is_disturbance(&self) -> bool {
        self.is_of_machine() || matches!(self, Self::RelayLate { .. } | Self::RelayStalled { .. })
    }

    /// Whether other programs, a quota or the hypervisor kept the ends from their CPUs.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Self::WaitedForCpu { .. } | Self::CpuTaken { .. })
    }
}

/// An omitted round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct RoundLeftOut {
    pub round: u32,
    pub purpose: Purpose,
    pub why: LeftOut,
    /// Whether only its p90 and higher percentiles are omitted.
    #[serde(default)]
    pub only_tail: bool,
}

/// Why the figures of a case must not be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Invalid {
    /// No round was measured completely.
    NotMeasured { failed_rounds: u64 },
    /// No message was answered or, for a one-way load, received.
    NoSamples,
    /// The generator did not reach the requested rate because it was saturated or waited for answers.
    Saturated { sent_per_s: f64, asked_per_s: f64, held_up: Option<HeldUp> },
    /// Less than half of the rounds are left.
    RoundsLeftOut { left_out: u64, rounds: u64, first: LeftOut },
    /// The kernel granted a value other than the requested one.
    UnmetOption { end: End, option: Effective },
    /// Losses of a reliable transport.
    Unreliable { lost: u64, duplicated: u64, unexplained: i64 },
}
