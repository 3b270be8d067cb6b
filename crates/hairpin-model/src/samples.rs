//! The samples of one round, as columns, and the histogram of all of them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::phases::{ByPhase, ProbeTimeLine};
use crate::words;

words! {
    /// What became of a message.
    pub enum Fate: "fate" {
        /// The answer arrived in time.
        Received = "received",
        /// The answer arrived after the time-out.
        Late = "late",
        /// No answer arrived.
        Lost = "lost",
    }
}

/// Longest latency a histogram holds, in nanoseconds (one hour); anything longer is recorded as this.
pub const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// An empty histogram of nanoseconds: 1 ns to an hour, three significant digits, fixed size (about 270 KB).
#[must_use]
// The bounds are constants and valid.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).expect("constant bounds are valid")
}

/// The samples of one round: columns of the first `capacity` messages, and a histogram of every measured one.
///
/// Times are nanoseconds since the round began. Rows `0..warm_up` are warm-up and are in no histogram.
#[derive(Clone, Debug)]
pub struct Samples {
    /// How many leading rows are warm-up.
    pub warm_up: usize,
    /// The message's number in the round, from 0, warm-up included.
    pub sequence: Vec<u64>,
    /// When it was due. In a closed loop this is when it was sent.
    pub due_ns: Vec<u64>,
    /// When its send call began.
    pub sent_ns: Vec<u64>,
    /// When its answer had been received; 0 where none was.
    pub received_ns: Vec<u64>,
    /// What became of it.
    pub fate: Vec<Fate>,
    /// Latency of every measured message: from due to received.
    pub latency: Histogram<u64>,
    /// Service time of every measured message: from sent to received. Only where it differs (an open loop).
    pub service: Option<Histogram<u64>>,
    /// How late the generator sent, from due to sent. Only in an open loop.
    pub lateness: Option<Histogram<u64>>,
    /// Measured messages, kept or not.
    pub measured: u64,
    /// Of a round with phases what is not of the loaded one, which alone the histograms above hold; null of other rounds.
    pub phases: Option<Box<PhaseSamples>>,
}

/// The samples of one phase.
#[derive(Clone, Debug)]
pub struct PhaseHistograms {
    /// Latency, as [`Samples::latency`].
    pub latency: Histogram<u64>,
    /// As [`Samples::service`].
    pub service: Option<Histogram<u64>>,
    /// As [`Samples::lateness`].
    pub lateness: Option<Histogram<u64>>,
}

/// What became of the messages that were sent in a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseCounts {
    /// The number of the first; 0 of none.
    pub first_sequence: u64,
    /// How many.
    pub sent: u64,
    /// Answered in time.
    pub received: u64,
    /// Answered later.
    pub late: u64,
    /// Lost by what told which messages it lost, by cause.
    pub lost: BTreeMap<String, u64>,
}

/// The samples of a round by phase.
#[derive(Clone, Debug)]
pub struct PhaseSamples {
    /// Of the phases but the loaded one, which is in [`Samples`].
    pub others: ByPhase<Option<PhaseHistograms>>,
    /// Counts.
    pub counts: ByPhase<PhaseCounts>,
    /// Over time.
    pub over_time: ProbeTimeLine,
}

impl Samples {
    /// Rows kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.sequence.len()
    }

    /// Latencies, in ns, of the kept and received messages after the warm-up, in order of arrival.
    pub fn latencies_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows(self.warm_up..self.kept())
    }

    /// Latencies, in ns, of the received warm-up messages, in order of arrival.
    pub fn warm_up_latencies_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows(0..self.warm_up.min(self.kept()))
    }

    fn rows(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = u64> + '_ {
        range
            .filter(|row| self.fate[*row] != Fate::Lost)
            .map(|row| self.received_ns[row].saturating_sub(self.due_ns[row]))
    }
}
