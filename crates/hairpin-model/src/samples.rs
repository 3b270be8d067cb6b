//! The samples of one round as columns, and a histogram of all of them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::phases::{ByPhase, ProbeTimeLine};
use crate::words;

words! {
    /// Outcome of a message.
    pub enum Fate: "fate" {
        /// The answer arrived in time.
        Received = "received",
        /// The answer arrived after the time-out.
        Late = "late",
        /// No answer arrived.
        Lost = "lost",
    }
}

/// Longest latency in a histogram, in ns (one hour); longer ones are recorded as this.
pub const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// An empty histogram of nanoseconds: 1 ns to an hour, three significant digits, fixed size (about 270 KB).
#[must_use]
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).expect("constant bounds are valid")
}

/// The samples of one round: columns of the first `capacity` messages, and a histogram of every measured one.
///
/// Times are in ns since the round began. Rows `0..warm_up` are warm-up and in no histogram.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Number of leading warm-up rows.
    pub warm_up: usize,
    /// Number in the round, from 0, warm-up included.
    pub sequence: Vec<u64>,
    /// When it was due; in a closed loop, when it was sent.
    pub due_ns: Vec<u64>,
    /// When its send call began.
    pub sent_ns: Vec<u64>,
    /// When its answer had been received; 0 without an answer.
    pub received_ns: Vec<u64>,
    pub fate: Vec<Fate>,
    /// Latency of every measured message: from due to received.
    pub latency: Histogram<u64>,
    /// Service time of every measured message: from sent to received. Only if it differs (in an open loop).
    pub service: Option<Histogram<u64>>,
    /// Lateness of the generator, from due to sent. Only in an open loop.
    pub lateness: Option<Histogram<u64>>,
    /// Measured messages, kept or not.
    pub measured: u64,
    /// In a round with phases, the samples outside the loaded phase, which alone is in the histograms above; else null.
    pub phases: Option<Box<PhaseSamples>>,
}

/// Histograms of one phase.
#[derive(Clone, Debug)]
pub struct PhaseHistograms {
    /// Latency, as [`Samples::latency`].
    pub latency: Histogram<u64>,
    /// As [`Samples::service`].
    pub service: Option<Histogram<u64>>,
    /// As [`Samples::lateness`].
    pub lateness: Option<Histogram<u64>>,
}

/// Outcomes of the messages sent in a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseCounts {
    /// Number of the first message; 0 without any.
    pub first_sequence: u64,
    pub sent: u64,
    /// Answered in time.
    pub received: u64,
    /// Answered too late.
    pub late: u64,
    /// Losses reported per message, by cause.
    pub lost: BTreeMap<String, u64>,
}

/// The samples of a round by phase.
#[derive(Clone, Debug)]
pub struct PhaseSamples {
    /// Phases other than the loaded one, which is in [`Samples`].
    pub others: ByPhase<Option<PhaseHistograms>>,
    pub counts: ByPhase<PhaseCounts>,
    pub over_time: ProbeTimeLine,
}

impl Samples {
    /// Rows kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.sequence.len()
    }

    /// Latencies, in ns, of kept and received messages after the warm-up, in order of arrival.
    pub fn latencies_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows(self.warm_up..self.kept())
    }

    /// Latencies, in ns, of received warm-up messages, in order of arrival.
    pub fn warm_up_latencies_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows(0..self.warm_up.min(self.kept()))
    }

    fn rows(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = u64> + '_ {
        range
            .filter(|row| self.fate[*row] != Fate::Lost)
            .map(|row| self.received_ns[row].saturating_sub(self.due_ns[row]))
    }
}
