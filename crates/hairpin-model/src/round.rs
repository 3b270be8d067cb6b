//! A round: one trial of one case, with new ends and a new connection. Rounds are the independent replicates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::card::AnsweredBy;
use crate::case::Case;
use crate::fact::Fact;
use crate::failure::Failure;
use crate::fields::{at_least_one, is_default};
use crate::flow::{Flow, FlowId, FlowRole};
use crate::flows::{OfFlow, flows};
use crate::latency_budget::{Sampled, SampledRound, StampedFigures};
use crate::ledger::Ledger;
use crate::link::LinkRecord;
use crate::one_way::{CpuTimeLine, Received, Sent, Streamed};
use crate::options::Effective;
use crate::periodic::PeriodicCounts;
use crate::phases::{ByPhase, PhaseLengths, PhaseUsage, ProbePhases, Span};
pub use crate::purpose::Purpose;
use crate::samples::Samples;
use crate::set_up::Opened;
use crate::summary::RoundFigures;
use crate::time_sequence::TraceFigures;
use crate::trace::{End, EndTrace, RoundTrace};

/// Number of messages or a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    Count(u64),
    DurationNs(u64),
}

/// An order to the engine: one round of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundOrder {
    pub case: Case,
    #[serde(default, skip_serializing_if = "is_default")]
    pub purpose: Purpose,
    /// The round's block, from 0: one repetition of the whole set of cases. Rounds of a block are close in time, so
    /// comparisons may pair them.
    pub block: u32,
    /// How much to measure.
    pub extent: Extent,
    /// How much to send before the measurement.
    pub warm_up: Extent,
    /// Number of messages for each sampled one in a stamped round; null in other rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_every: Option<u64>,
    /// Time-out of an answer. After the time-out, the answer counts as late or lost; on a reliable transport the
    /// round fails.
    pub timeout_ns: u64,
    /// Time limit of the round from its first message, in ns; exceeding it is a failure. `u64::MAX` in runs of
    /// versions without a time limit.
    #[serde(default = "never", skip_serializing_if = "is_never")]
    pub deadline_ns: u64,
    /// Maximum raw samples to keep; a histogram holds all samples.
    pub keep_samples: u64,
    /// Whether to continue if an option was not granted.
    pub allow_unmet_options: bool,
    /// Length of each phase, if a load begins and ends during a probe; null for other rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<PhaseLengths>,
    /// Port to listen on; 0 lets the kernel choose a free one.
    pub port: u16,
    /// Earliest start, in ns since the run began, to spread the rounds of a case over time. 0 starts at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub not_before_ns: u64,
    /// Seed of the link's random choices: the run's seed plus the block's number. All cases of a block get the same
    /// choices; blocks get different ones. 0 on the loopback.
    #[serde(default)]
    pub link_seed: u64,
}

impl RoundOrder {
    /// A timed round of `count` messages without warm-up, with a time-out of 1 s for answers.
    pub fn of(case: Case, count: u64) -> Self {
        Self {
            case,
            purpose: Purpose::Timed,
            block: 0,
            extent: Extent::Count(count),
            warm_up: Extent::Count(0),
            sample_every: None,
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

// Takes a reference because serde's `skip_serializing_if` passes one.
fn is_never(number: &u64) -> bool {
    *number == never()
}

/// A line of `rounds.jsonl`: an order and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Number in order of execution, from 0.
    pub number: u32,
    /// Start, in ns since the run began.
    pub started_ns: u64,
    /// Identity of the round's case.
    pub case_id: String,
    pub order: RoundOrder,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    Measured(Box<Measured>),
    /// Not run, or not completed.
    Failed(Failure),
}

/// A flow of a round that failed while others continued. It has no results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct FailedFlow {
    pub id: FlowId,
    pub failure: Failure,
}

/// Results of one flow of a round. The sender counts sent messages, the receiver received ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Identity and role of the flow in the case.
    pub id: FlowId,
    pub role: FlowRole,
    /// Who answered the messages; Hairpin's server if it is absent.
    #[serde(default, skip_serializing_if = "AnsweredBy::is_server")]
    pub answered_by: AnsweredBy,
    /// Figures that `hairpin-analysis` computed from the flow's samples.
    pub figures: RoundFigures,
    pub ledger: Ledger,
    /// Time from the connect call until the wire is connected, in ns.
    pub setup_ns: u64,
    /// Latency of the connection's first message, in ns; 0 for a stream.
    pub first_message_ns: u64,
    /// File with the flow's raw samples, relative to the run folder; null if none was written.
    pub samples_file: Option<String>,
    /// Number of samples in this file, including the warm-up.
    pub samples_kept: u64,
    /// Counts of the measured exchanges; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_counts: Option<ExchangeCounts>,
    /// Counts of a control loop; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periodic: Option<PeriodicCounts>,
    /// Counts of a one-way load's receiver; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Received>,
    /// Counts of a one-way load's sender; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// A probe's results by phase; null in rounds without phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<ProbePhases>,
    /// The connections of a flow whose set-up is measured; null for other flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<Opened>,
    /// Start of the flow's load, in ns since all flows of the round were connected; null if all flows begin at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
}

impl OfFlow for FlowRecord {
    fn flow_id(&self) -> &FlowId {
        &self.id
    }
}

impl FlowRecord {
    pub fn of(flow: &Flow) -> Self {
        Self { id: flow.id.clone(), role: flow.role, ..Self::default() }
    }
}

/// A measured round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    #[serde(deserialize_with = "flows")]
    pub flows: Vec<FlowRecord>,
    /// The flows of the case that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_flows: Vec<FailedFlow>,
    /// Time from the first measured message to the end of the last, in ns.
    pub duration_ns: u64,
    /// Reports of the ends; without a server if the kernel answered.
    #[serde(deserialize_with = "at_least_one")]
    pub ends: Vec<EndReport>,
    /// The machine during the round.
    pub noise: Noise,
    /// The link between the ends, as recorded by the relay; null on the loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkRecord>,
    /// Planned begin and end of each phase; null in rounds without phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<ByPhase<Span>>,
    /// Figures of the round's trace; null if not traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<TraceFigures>,
    /// File with the round's trace, relative to the run folder; null if none was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_file: Option<String>,
    /// Figures of a stamped round; null for other rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamped: Option<StampedFigures>,
    /// File with the round's sampled round trips, relative to the run folder; null if none was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_file: Option<String>,
    /// The user ended the round early; the figures are saved but not used.
    #[serde(default)]
    pub interrupted: bool,
    /// The user requested its figures even if other programs disturbed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_if_disturbed: bool,
}

impl Measured {
    pub fn primary(&self) -> &FlowRecord {
        &self.flows[self.primary_index()]
    }

    pub fn primary_mut(&mut self) -> &mut FlowRecord {
        let place = self.primary_index();
        &mut self.flows[place]
    }

    fn primary_index(&self) -> usize {
        FlowRole::primary_index(self.flows.iter().map(|flow| flow.role))
    }

    /// The flow with this identity; `None` if the round has no results for the flow.
    pub fn flow(&self, id: &FlowId) -> Option<&FlowRecord> {
        self.flows.iter().find(|flow| flow.id == *id)
    }

    /// The end of a flow with this role; `None` for a server if the kernel answered, or on another flow's connection.
    pub fn end(&self, flow: &FlowId, role: End) -> Option<&EndReport> {
        self.ends.iter().find(|end| end.role == role && end.flow == *flow)
    }

    /// The client of the primary flow; if the primary flow uses another flow's connection, the client of that flow.
    ///
    /// # Panics If the round has no client; such rounds are refused when they are read.
    pub fn client(&self) -> &EndReport {
        let any = || self.ends.iter().find(|end| end.role == End::Client);
        self.end(&self.primary().id, End::Client).or_else(any).expect("every round has a client")
    }

    /// The server of the primary flow; `None` if the kernel answered.
    pub fn server(&self) -> Option<&EndReport> {
        self.end(&self.primary().id, End::Server)
    }
}

/// One end's report after a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    pub role: End,
    /// Identity of the end's flow; if several flows share the connection, of the first flow.
    pub flow: FlowId,
    /// The end's host: the role under which [`crate::run::Run::hosts`] lists the host.
    pub host: End,
    /// The CPU to which the end was pinned; null if not pinned.
    pub pinned_cpu: Option<usize>,
    /// CPUs on which the end ran before the first and after the last message; one entry if they are the same CPU. For
    /// a flow with several threads, the CPUs of all its threads.
    pub seen_cpus: Vec<usize>,
    /// CPU time of the end's thread for the measured messages, in ns: CPU time of the whole connection * measured
    /// messages / all messages.
    pub cpu_ns: u64,
    /// Voluntary context switches: the thread slept. Of all threads of an end whose way to wait has more.
    pub voluntary_switches: u64,
    /// Involuntary context switches: the thread was preempted.
    pub involuntary_switches: u64,
    /// Time in ns for which its thread was ready to run and had no CPU (`run_delay` of `/proc/PID/schedstat`), for the
    /// measured messages; null if the kernel does not report it, and with a thread per connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for_cpu_ns: Option<u64>,
    /// Moves to another CPU; null if the kernel does not report them.
    pub migrations: Option<u64>,
    /// System calls on the wires of a one-way load, including the warm-up and calls that wait; null for other loads
    /// and for transports that do not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<u64>,
    /// Largest resident memory of the end's process until its load ended, in bytes (`VmHWM` of `/proc/PID/status`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Warm-up messages of a one-way load that the end sent or received; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_messages: Option<u64>,
    /// CPU time of the end's thread over time, in a one-way load; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time_line: Option<CpuTimeLine>,
    /// Usage by phase; null in rounds without phases, and for a server on another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_usage: Option<ByPhase<PhaseUsage>>,
    /// Total usage of the end's thread when it ended, to compute the usage by phase; not in saved runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_in_all: Option<PhaseUsage>,
    /// The end's options, requested and effective.
    pub options: Vec<Effective>,
    /// Kernel counters, for instance `tcp_info.retransmits`.
    pub facts: Vec<Fact>,
    /// How long the server held each message; null at the client, and if clock reads would distort the latency
    /// (spinning `shm` or `memory`).
    pub turnaround: Option<Turnaround>,
    /// Machine-state probe on the end's CPU, before the first and after the last message; null if the run has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ns: Option<Probe>,
    /// Median round trip of one byte between the ends, measured before the first message and not over the transport,
    /// in ns; null at the server, and if no other CPU has to be woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waking_ns: Option<u64>,
    /// The end's counts of each one-way flow; later moved to the flows' records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streamed: Vec<Streamed>,
    /// The end's points of the sampled messages of a stamped round; later moved to the round's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampled: Vec<Sampled>,
    /// The end's part of a traced round; later moved to the round's trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<EndTrace>>,
}

/// Duration of a fixed computation on the CPU of an end, in ns. It distinguishes the states of a shared machine,
/// independent of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Before the first message.
    pub before: u64,
    /// After the last message.
    pub after: u64,
}

/// Counts of a round's measured exchanges, read by the client from the end of the warm-up to the last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeCounts {
    pub exchanges: u64,
    /// Segments with payload, both directions (`tcpi_data_segs_out` and `_in`); null if not counted.
    pub segments: Option<u64>,
    /// Segments without payload, both directions: pure acknowledgments; null if not counted.
    pub pure_acks: Option<u64>,
    /// System calls of the client on the wire.
    pub system_calls: u64,
}

/// How long the server held messages: counts by power of two of nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turnaround {
    /// `counts[k]` messages were held for 2^k to 2^(k+1) - 1 ns (0 ns counts as 1).
    pub counts: Vec<u64>,
    /// Sum over all messages, in ns.
    pub total_ns: u64,
    pub max_ns: u64,
}

/// State of the machine during a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Load average over one minute before the round.
    pub load_before: f64,
    /// Load average over one minute after the round.
    pub load_after: f64,
    /// CPU time that the hypervisor gave to other guests, on all CPUs, in ns (10 ms resolution).
    pub steal_ns: u64,
    /// CPU time that all processes used, on all CPUs, in ns (10 ms resolution).
    pub busy_ns: u64,
    /// Wall time of the round, in ns.
    pub wall_ns: u64,
    /// Runnable tasks (`/proc/loadavg`'s fourth field) before the round, including this process's own.
    pub runnable_before: u64,
    /// The CPUs of this host on which its ends ran; empty in older runs, and if an end was not pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuNoise>,
}

/// One CPU during a round; both times have a resolution of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuNoise {
    pub cpu: usize,
    /// CPU time that the hypervisor gave to other guests, in ns.
    pub steal_ns: u64,
    /// CPU time that all processes used, in ns.
    pub busy_ns: u64,
}

impl Noise {
    /// Keeps the CPUs of `ends` that the client's host has; none if one of them was not pinned.
    pub fn keep_cpus_of(&mut self, ends: &[EndReport]) {
        let here = || ends.iter().filter(|end| end.host == End::Client);
        let all_pinned = here().all(|end| end.pinned_cpu.is_some());
        self.cpus.retain(|noise| all_pinned && here().any(|end| end.pinned_cpu == Some(noise.cpu)));
    }

    /// CPU time that the hypervisor certainly took from the ends, in ns: steal of their CPUs beyond the resolution of
    /// `/proc/stat`; 0 if their CPUs are not known.
    pub fn steal_of_ends_ns(&self) -> u64 {
        const RESOLUTION_NS: u64 = 10_000_000;
        self.cpus.iter().map(|noise| noise.steal_ns.saturating_sub(RESOLUTION_NS)).sum()
    }
}

/// Samples by flow.
pub type FlowSamples = BTreeMap<FlowId, Samples>;

/// A round as the engine returns it: the record, and its samples if it was measured.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The record, with empty figures.
    pub record: RoundRecord,
    /// The samples of each flow whose messages carry timestamps, except for the loads of a case with a probe.
    pub samples: FlowSamples,
    /// The trace of a traced round, and the packets of its capture as a pcapng file.
    pub trace: Option<(RoundTrace, Option<Vec<u8>>)>,
    /// The sampled round trips of a stamped round.
    pub budget: Option<SampledRound>,
}

impl RoundRecord {
    /// Whether the results match the flows of the case, and the ends belong to these flows and include a client.
    pub fn is_of_its_case(&self) -> bool {
        let Outcome::Measured(measured) = &self.outcome else { return true };
        let flows = &self.order.case.flows;
        let has_ended = |flow: &Flow| match measured.flow(&flow.id) {
            Some(record) => record.role == flow.role,
            None => measured.failed_flows.iter().any(|failed| failed.id == flow.id),
        };
        flows.len() == measured.flows.len() + measured.failed_flows.len()
            && flows.iter().all(has_ended)
            && measured.ends.iter().all(|end| measured.flow(&end.flow).is_some())
            && measured.ends.iter().any(|end| end.role == End::Client)
    }

    /// The results of a timed round that was measured completely.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured_as(Purpose::Timed)
    }

    /// The results of a round with this purpose that was measured completely and has results of the primary flow.
    pub fn measured_as(&self, purpose: Purpose) -> Option<&Measured> {
        let Outcome::Measured(measured) = &self.outcome else { return None };
        let counts = !measured.interrupted && self.order.purpose == purpose;
        (counts && measured.flow(&self.order.case.primary().id).is_some()).then_some(measured)
    }

    /// Why the round failed, or else why its first failed flow failed.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Measured(measured) => measured.failed_flows.first().map(|failed| &failed.failure),
            Outcome::Failed(failure) => Some(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_by_its_role_and_a_round_without_one_is_refused() {
        let end = |role, flow: &str| EndReport { role, flow: flow.into(), ..EndReport::default() };
        let case = Case::of(Flow::ping_pong("tcp"));
        let id = case.primary().id.to_string();
        let ends = vec![end(End::Server, &id), end(End::Client, &id)];
        let measured = Measured { flows: vec![FlowRecord::of(case.primary())], ends, ..Measured::default() };
        assert_eq!(measured.client().role, End::Client);
        let record = |measured: Measured| RoundRecord {
            number: 0,
            started_ns: 0,
            case_id: case.id(),
            order: RoundOrder::of(case.clone(), 1),
            outcome: Outcome::Measured(Box::new(measured)),
        };
        assert!(record(measured.clone()).is_of_its_case());
        assert!(!record(Measured { ends: vec![end(End::Server, &id)], ..measured }).is_of_its_case());
    }
}
