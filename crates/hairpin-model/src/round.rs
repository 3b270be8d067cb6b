//! A round: one trial of one case, with fresh ends and a fresh connection. The unit of replication.

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::fact::Fact;
use crate::fields::{at_least_one, is_default};
use crate::hint::Hint;
use crate::ledger::Ledger;
use crate::link::LinkRecord;
use crate::one_way::{CpuTimeLine, Received, Sent, Streamed};
use crate::options::Effective;
use crate::phases::{ByPhase, PhaseLengths, PhaseUsage, ProbePhases, Span};
use crate::samples::Samples;
use crate::summary::RoundFigures;
use crate::time_sequence::TraceFigures;
use crate::trace::{End, EndTrace, RoundTrace};
use crate::words;

/// How much to do: so many messages, or so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// A number of messages.
    Count(u64),
    /// A duration in nanoseconds.
    DurationNs(u64),
}

words! {
    /// What a round is for.
    #[derive(Default)]
    pub enum Purpose: "purpose" {
        /// Its figures are the answer.
        #[default]
        Timed = "timed",
        /// It is traced: its figures are no answer, its trace is evidence.
        Traced = "traced",
        /// As a traced one, without the tracing: what the observer costs is the difference.
        Untraced = "untraced",
    }
}

/// What the engine is asked to do: one round of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundOrder {
    /// The case.
    pub case: Case,
    /// What the round is for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub purpose: Purpose,
    /// Which repetition of the whole set of cases this round belongs to, from 0. Rounds of one block are neighbours
    /// in time, so a comparison may pair them.
    pub block: u32,
    /// How much to measure.
    pub extent: Extent,
    /// How much to send first, unmeasured.
    pub warm_up: Extent,
    /// How long an answer may take before it counts as late or lost (or the round as failed, on a reliable transport).
    pub timeout_ns: u64,
    /// How long the round may take from its first message on, in ns: one that takes longer fails. `u64::MAX` in runs of versions
    /// without it.
    #[serde(default = "never", skip_serializing_if = "is_never")]
    pub deadline_ns: u64,
    /// How many samples to keep raw at most; a histogram holds all of them.
    pub keep_samples: u64,
    /// Go on although an option was not granted.
    pub allow_unmet_options: bool,
    /// How long each phase lasts, where a load begins and ends beside a probe; null of other rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<PhaseLengths>,
    /// The port to listen on; 0 lets the kernel choose a free one.
    pub port: u16,
    /// The round does not begin before so many ns of the run are over, so that the rounds of a case stand apart in time.
    /// 0 begins it at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub not_before_ns: u64,
    /// The seed of the link's random choices: the run's plus the block's number, so that all cases of a block meet the
    /// same chances and no two blocks do. 0 on the loopback.
    #[serde(default)]
    pub link_seed: u64,
}

impl RoundOrder {
    /// A timed round of so many messages after no warm-up, in which an answer may take a second.
    #[must_use]
    pub fn of(case: Case, count: u64) -> Self {
        Self {
            case,
            purpose: Purpose::Timed,
            block: 0,
            extent: Extent::Count(count),
            warm_up: Extent::Count(0),
            timeout_ns: 1_000_000_000,
            deadline_ns: never(),
            keep_samples: 1000,
            allow_unmet_options: false,
            phases: None,
            port: 0,
            not_before_ns: 0,
            link_seed: 0,
        }
    }
}

fn never() -> u64 {
    u64::MAX
}

// By reference, as serde's skip_serializing_if passes one.
fn is_never(number: &u64) -> bool {
    *number == never()
}

/// One line of `rounds.jsonl`: what was ordered and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// The round's number in order of execution, from 0.
    pub number: u32,
    /// When it began, in nanoseconds since the run began.
    pub started_ns: u64,
    /// The identity of its case.
    pub case_id: String,
    /// The order.
    pub order: RoundOrder,
    /// The outcome.
    pub outcome: Outcome,
}

/// What came of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran.
    Measured(Box<Measured>),
    /// It did not, or not to its end.
    Failed(Failure),
}

/// Why a round failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{cause}{}", Hint(.hint))]
pub struct Failure {
    /// The operation, its object and the cause, in one sentence.
    pub cause: String,
    /// What would help; empty where nobody knows.
    pub hint: String,
}

/// What was measured of one flow of a round. Counts are those of the end that saw them: sent by the sender, received by the
/// receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// The figures that `hairpin-analysis` computed from its samples.
    pub figures: RoundFigures,
    /// Its ledger.
    pub ledger: Ledger,
    /// From the connect call to a connected wire, in ns.
    pub setup_ns: u64,
    /// Latency of the very first message of the connection, in ns; 0 for a stream.
    pub first_message_ns: u64,
    /// The file with its raw samples, relative to the run folder; null where none was written.
    pub samples_file: Option<String>,
    /// How many samples are in that file, warm-up included.
    pub samples_kept: u64,
    /// What the measured exchanges took; null where the load has no exchanges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_counts: Option<ExchangeCounts>,
    /// What the receiver of a one-way load counted; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Received>,
    /// What the sender of a one-way load counted; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// What a probe measured by phase; null in rounds without phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<ProbePhases>,
    /// When its load began, in ns since all flows of the round were connected; null where all begin at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
}

/// A measured round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What was measured of each flow, in the order of the case.
    #[serde(deserialize_with = "at_least_one")]
    pub flows: Vec<FlowRecord>,
    /// From the first measured message to the end of the last, in ns.
    pub duration_ns: u64,
    /// The ends, the client first; without a server where the kernel answered.
    #[serde(deserialize_with = "at_least_one")]
    pub ends: Vec<EndReport>,
    /// The machine meanwhile.
    pub noise: Noise,
    /// The link between its ends, with the relay's own log; null on the loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkRecord>,
    /// When each phase was to begin and end; null in rounds without phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<ByPhase<Span>>,
    /// What its trace says; null where it was not traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<TraceFigures>,
    /// The file with its trace, relative to the run folder; null where none was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_file: Option<String>,
    /// Ended early by the user: its figures count for nothing but are kept.
    #[serde(default)]
    pub interrupted: bool,
}

impl Default for Measured {
    /// One flow and a client, with nothing measured.
    fn default() -> Self {
        Self {
            flows: vec![FlowRecord::default()],
            duration_ns: 0,
            ends: vec![EndReport::default()],
            noise: Noise::default(),
            link: None,
            phases: None,
            traced: None,
            trace_file: None,
            interrupted: false,
        }
    }
}

impl Measured {
    /// What was measured of the flow that the case is judged by.
    #[must_use]
    pub fn flow(&self) -> &FlowRecord {
        &self.flows[0]
    }

    /// The same, to change it.
    pub fn flow_mut(&mut self) -> &mut FlowRecord {
        &mut self.flows[0]
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &EndReport {
        &self.ends[0]
    }

    /// The server; null where the kernel answered.
    #[must_use]
    pub fn server(&self) -> Option<&EndReport> {
        self.ends.get(1)
    }
}

/// What one end says of itself after a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// Which end it is.
    pub role: End,
    /// Its flow: a place in the flows of the case.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flow: usize,
    /// Its host: a place in [`crate::run::Run::hosts`].
    pub host: usize,
    /// The CPU it was pinned to; null where it was free.
    pub pinned_cpu: Option<usize>,
    /// The CPUs on which it was seen at the start and at the end.
    pub seen_cpus: Vec<usize>,
    /// CPU time of its thread for the measured messages, in ns: that of the whole connection, shared out by messages.
    pub cpu_ns: u64,
    /// Times it slept (voluntary context switches).
    pub voluntary_switches: u64,
    /// Times it was pushed off its CPU (involuntary context switches).
    pub involuntary_switches: u64,
    /// Times it moved to another CPU; null where the kernel does not tell.
    pub migrations: Option<u64>,
    /// System calls on the wires of a one-way load, its warm-up and waiting included; null for other loads, and where a
    /// transport does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<u64>,
    /// Messages of a one-way load's warm-up that it sent or received; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_messages: Option<u64>,
    /// CPU time of its thread over the time of a one-way load; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time_line: Option<CpuTimeLine>,
    /// What it used by phase; null in rounds without phases, and of a server on another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_usage: Option<ByPhase<PhaseUsage>>,
    /// What its thread had used in all when it ended, from which the phases are computed; in no saved run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_in_all: Option<PhaseUsage>,
    /// Its options, asked and effective.
    pub options: Vec<Effective>,
    /// Counters of the kernel, for instance `tcp_info.retransmits`.
    pub facts: Vec<Fact>,
    /// How long the server held each message; null at the client, and where stamping would disturb (a
    /// spinning `shm` or `memory`).
    pub turnaround: Option<Turnaround>,
    /// The machine-state probe on its CPU, before the first message and after the last; null in runs without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ns: Option<Probe>,
    /// Median round trip of a byte between the ends beside the wire, before the first message, in ns; null at the server,
    /// and where nothing has to wake another CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waking_ns: Option<u64>,
    /// What it counted of each one-way flow; the records of the flows take it over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streamed: Vec<Streamed>,
    /// What it saw in a traced round; the round's trace takes it over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<EndTrace>>,
}

/// How long a fixed piece of work took on the CPU of one end, in ns. It tells the states of a shared machine apart,
/// whatever is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Before the first message.
    pub before: u64,
    /// After the last.
    pub after: u64,
}

/// What the measured exchanges of a round took, read by the client from the end of the warm-up to the last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeCounts {
    /// Exchanges counted over.
    pub exchanges: u64,
    /// Segments with payload, both directions (`tcpi_data_segs_out` and `_in`); null where there are none to count.
    pub segments: Option<u64>,
    /// Segments without payload, both directions: pure acknowledgments; null where there are none to count.
    pub pure_acks: Option<u64>,
    /// System calls of the client on the wire.
    pub system_calls: u64,
}

/// How long the server held messages: counts by power of two of nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turnaround {
    /// `counts[k]` messages were held for 2^k to 2^(k+1) - 1 ns (0 ns counts as 1).
    pub counts: Vec<u64>,
    /// Their sum, in ns.
    pub total_ns: u64,
    /// The longest, in ns.
    pub max_ns: u64,
}

/// The machine while a round ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Load average over one minute before the round.
    pub load_before: f64,
    /// The same after it.
    pub load_after: f64,
    /// CPU time that the hypervisor gave to others, all CPUs, in ns (10 ms resolution).
    pub steal_ns: u64,
    /// CPU time that all processes used, all CPUs, in ns (10 ms resolution).
    pub busy_ns: u64,
    /// Wall time of the round, in ns.
    pub wall_ns: u64,
    /// Runnable tasks (`/proc/loadavg`'s fourth field) before the round, this process's own among them.
    pub runnable_before: u64,
}

/// A round as it leaves the engine: the record, and its samples where it was measured.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The record, its figures still empty.
    pub record: RoundRecord,
    /// The samples of the flow that the case is judged by.
    pub samples: Option<Samples>,
    /// Those of other flows with answers, by their place in the case; they are not saved.
    pub other_samples: Vec<(usize, Samples)>,
    /// The trace of a traced round, and the packets of its capture as a pcapng file.
    pub trace: Option<(RoundTrace, Option<Vec<u8>>)>,
}

impl RoundRecord {
    /// The measured part, if it is a timed round that was measured to its end.
    #[must_use]
    pub fn measured(&self) -> Option<&Measured> {
        self.measured_as(Purpose::Timed)
    }

    /// The measured part of a round of that purpose, if it was measured to its end.
    #[must_use]
    pub fn measured_as(&self, purpose: Purpose) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) if !measured.interrupted && self.order.purpose == purpose => Some(measured),
            Outcome::Measured(_) | Outcome::Failed(_) => None,
        }
    }
}
