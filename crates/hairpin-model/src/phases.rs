//! Phases of a round in which a probe measures before, during and after a load.

use serde::{Deserialize, Serialize};

use crate::distribution::{CurvePoint, LatencyFigures, Percentiles};
use crate::figure::Figure;
use crate::invalid::RoundLeftOut;
use crate::ledger::Ledger;
use crate::words;

words! {
    /// A part of a round under load.
    pub enum Phase: "phase" {
        Idle = "idle",
        /// The load has begun but is not steady; this phase has no figures.
        Ramp = "ramp",
        Loaded = "loaded",
        /// The load has ended; the queues drain.
        Recovering = "recovering",
    }
}

/// One value for each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByPhase<T> {
    pub idle: T,
    pub ramp: T,
    pub loaded: T,
    pub recovering: T,
}

impl<T> ByPhase<T> {
    pub fn of(mut make: impl FnMut(Phase) -> T) -> Self {
        Self {
            idle: make(Phase::Idle),
            ramp: make(Phase::Ramp),
            loaded: make(Phase::Loaded),
            recovering: make(Phase::Recovering),
        }
    }

    pub fn get(&self, phase: Phase) -> &T {
        [&self.idle, &self.ramp, &self.loaded, &self.recovering][phase as usize]
    }

    pub fn get_mut(&mut self, phase: Phase) -> &mut T {
        let Self { idle, ramp, loaded, recovering } = self;
        [idle, ramp, loaded, recovering].into_iter().nth(phase as usize).expect("one for each phase")
    }

    pub fn each(&self) -> impl Iterator<Item = (Phase, &T)> {
        Phase::ALL.iter().map(|phase| (*phase, self.get(*phase)))
    }

    pub fn map<U>(&self, mut change: impl FnMut(&T) -> U) -> ByPhase<U> {
        ByPhase::of(|phase| change(self.get(phase)))
    }
}

/// Command-line names of the phase lengths.
pub const LENGTH_KNOBS: ByPhase<&str> =
    ByPhase { idle: "idle", ramp: "ramp", loaded: "duration", recovering: "recovery" };

/// Length of each phase of a round, in ns.
pub type PhaseLengths = ByPhase<u64>;

impl PhaseLengths {
    /// Default lengths. They are longer over a link because a connection takes seconds to fill a deep queue (CUBIC
    /// leaves slow start early, RFC 9406); five rounds still fit 30 s.
    pub fn usual(is_emulated: bool) -> Self {
        const MS: u64 = 1_000_000;
        if is_emulated {
            Self { idle: 400 * MS, ramp: 2800 * MS, loaded: 2000 * MS, recovering: 400 * MS }
        } else {
            Self { idle: 300 * MS, ramp: 300 * MS, loaded: 700 * MS, recovering: 300 * MS }
        }
    }

    pub fn total_ns(&self) -> u64 {
        self.each().map(|(_, lasts_ns)| *lasts_ns).fold(0, u64::saturating_add)
    }

    /// Time from the start of the first phase to the start of `phase`, in ns.
    pub fn before_ns(&self, phase: Phase) -> u64 {
        self.each().take_while(|(other, _)| *other != phase).map(|(_, ns)| *ns).fold(0, u64::saturating_add)
    }

    /// Begin and end of each phase if the first phase begins at `begin_ns`.
    pub fn spans(&self, begin_ns: u64) -> ByPhase<Span> {
        ByPhase::of(|phase| {
            let from_ns = begin_ns.saturating_add(self.before_ns(phase));
            Span { from_ns, until_ns: from_ns.saturating_add(*self.get(phase)) }
        })
    }
}

/// Begin and end of a phase; in ns since all flows of the round were connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub from_ns: u64,
    pub until_ns: u64,
}

impl ByPhase<Span> {
    /// The phase at `at_ns`: the first phase before all of them, the last phase after all of them.
    pub fn at(&self, at_ns: u64) -> Phase {
        let begun = self.each().take_while(|(_, span)| span.from_ns <= at_ns);
        begun.last().map_or(Phase::Idle, |(phase, _)| phase)
    }

    /// Makes clock times relative to `origin_ns`.
    pub fn since(&self, origin_ns: u64) -> Self {
        self.map(|span| Span {
            from_ns: span.from_ns.saturating_sub(origin_ns),
            until_ns: span.until_ns.saturating_sub(origin_ns),
        })
    }
}

/// A probe's results in one phase of a round, for the messages sent in this phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbePhase {
    /// Answered messages.
    pub samples: u64,
    /// Latency, in ns; all 0 without an answer.
    pub latency_ns: Percentiles,
    /// Minimum latency, in ns; 0 without an answer.
    pub least_ns: f64,
    /// Ledger of these messages. A loss has a cause if the path reported the lost message, or if all losses of the
    /// flow have the same cause.
    pub ledger: Ledger,
    /// Trimmed means for the responsiveness; null without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trimmed: Option<Trimmed>,
}

/// Means without the largest 5 % of values, in ns (draft-ietf-ippm-responsiveness, "Aggregating the Measurements").
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trimmed {
    /// Mean time from due to sent: the time to open a connection if each message has its own; null in a closed loop.
    pub before_ns: Option<f64>,
    /// Mean time from sent to answered.
    pub request_ns: f64,
    /// Mean latency.
    pub latency_ns: f64,
}

/// A probe's results over time, in equal intervals since the start of the first phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeTimeLine {
    /// Width of an interval, in ns.
    pub interval_ns: u64,
    /// Answered messages that were due in each interval.
    pub answered: Vec<u64>,
    /// Mean latency of these messages, in ns; 0 without any.
    pub mean_ns: Vec<f64>,
}

/// A probe's results in a round with phases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbePhases {
    #[serde(flatten)]
    pub by_phase: ByPhase<ProbePhase>,
    pub over_time: ProbeTimeLine,
}

/// Resources that an end used in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseUsage {
    /// CPU time of the end's process, in ns.
    pub cpu_ns: u64,
    /// Time for which the thread was runnable but had no CPU (`run_delay` of /proc/PID/schedstat), in ns.
    pub waited_for_cpu_ns: u64,
}

/// The state of a TCP connection that sends the load (`struct tcp_info`, include/uapi/linux/tcp.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderState {
    /// Time in ns since the load began.
    pub at_ns: u64,
    /// Bytes sent and not yet acknowledged.
    pub in_flight_bytes: u64,
    /// Bytes written and not yet sent.
    pub not_sent_bytes: u64,
    /// The smoothed round-trip time, in ns.
    pub round_trip_ns: u64,
    /// The kernel's recent minimum round-trip time, in ns.
    pub least_round_trip_ns: u64,
    /// Latest delivery rate, in bytes per second.
    pub delivered_bytes_per_s: u64,
}

/// Depth of a queue in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct QueueBytes {
    /// Median over the rounds of the median over time, in bytes.
    pub p50: Figure,
    /// Maximum of all rounds, in bytes.
    pub max: f64,
}

/// Results of the probe in a phase of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ProbeFigures {
    /// Answered messages over all rounds.
    pub samples: u64,
    /// Latency of messages that were sent in the phase.
    pub latency_ns: LatencyFigures,
    /// Ledger of these messages over all rounds.
    pub ledger: Ledger,
    /// The percentile curve of all samples of the phase; empty if the run has no histogram for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
}

/// Results of the load in a phase of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LoadFigures {
    /// Bytes received per second, summed over the flows of the load; null in phases without the load.
    pub goodput_bytes_per_s: Option<Figure>,
}

/// Use of CPUs in a phase of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct CpuFigures {
    /// CPU time of all ends per second: 2 if two CPUs are busy.
    pub used: Option<Figure>,
    /// Time that both ends of the probe waited for a CPU, per message, in ns.
    pub probe_waited_ns: Option<Figure>,
}

/// A phase of a case over its rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PhaseFigures {
    pub probe: ProbeFigures,
    pub load: LoadFigures,
    /// The queue that the load fills; null if the path does not report it.
    pub queue_bytes: Option<QueueBytes>,
    pub cpu: CpuFigures,
}

/// The phases of a case; the ramp has no figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PhasesOfCase {
    /// The probe alone.
    pub idle: PhaseFigures,
    /// Under load.
    pub loaded: PhaseFigures,
    /// After the load.
    pub recovering: PhaseFigures,
}

impl PhasesOfCase {
    pub fn each(&self) -> [(Phase, &PhaseFigures); 3] {
        [(Phase::Idle, &self.idle), (Phase::Loaded, &self.loaded), (Phase::Recovering, &self.recovering)]
    }
}

/// What the load adds to the latency of the probe, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct AddedFigures {
    /// Added to the median.
    pub p50: Option<Figure>,
    /// Added to the 99th percentile; null if either phase has fewer than 1 000 samples.
    pub p99: Option<Figure>,
}

/// Round trips per minute under working conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Responsiveness {
    /// The figure with its interval over rounds.
    #[serde(flatten)]
    pub figure: Figure,
    /// The draft that defines the figure, with its revision.
    pub draft: String,
}

/// The draft that defines [`Responsiveness`]. Hairpin measures the draft's TCP-only variant.
pub const RESPONSIVENESS_DRAFT: &str = "draft-ietf-ippm-responsiveness-09";

/// A case under load over its rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct UnderLoad {
    pub phases: PhasesOfCase,
    pub added_ns: AddedFigures,
    /// Round trips per minute; null if no flow of the case measures them.
    pub responsiveness_rpm: Option<Responsiveness>,
    /// Time from the load's end until the probe's latency was at most twice that of the idle phase, in ns; null if
    /// most rounds did not reach this.
    pub recovered_after_ns: Option<Figure>,
    /// One sentence for each round that does not count, with the reason. These rounds are in the figures only if too
    /// few other rounds are left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds_left_out: Vec<String>,
    /// Rounds that do not count, as data; empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<RoundLeftOut>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_time: Option<LoadedOverTime>,
}

/// A case under load over time, as medians over the rounds. Times are in ns since the first phase began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LoadedOverTime {
    /// When the load began.
    pub load_from_ns: u64,
    /// When the load counted as steady.
    pub loaded_from_ns: u64,
    /// When the load ended.
    pub recovering_from_ns: u64,
    /// The end of the last phase.
    pub until_ns: u64,
    /// Moments in order of time.
    pub moments: Vec<LoadedMoment>,
}

/// An interval of a case under load: medians over the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LoadedMoment {
    /// The end of the interval, in ns since the first phase began.
    pub at_ns: u64,
    /// Mean latency of the probe's messages due in the interval, in ns: median, minimum and maximum over the rounds.
    pub latency_ns: Option<Figure>,
    /// Bytes of the load received per second.
    pub goodput_bytes_per_s: Option<f64>,
    /// Bytes in the queue.
    pub queue_bytes: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_one_another() {
        let lengths = PhaseLengths { idle: 1, ramp: 20, loaded: 300, recovering: 4000 };
        assert_eq!(lengths.total_ns(), 4321);
        let before: Vec<u64> = Phase::ALL.iter().map(|phase| lengths.before_ns(*phase)).collect();
        assert_eq!(before, [0, 1, 21, 321]);
    }

    #[test]
    fn a_phase_lasts_until_the_next_and_the_last_has_no_end() {
        let spans = PhaseLengths { idle: 100, ramp: 200, loaded: 300, recovering: 400 }.spans(1_000);
        let phases = [999, 1_000, 1_099, 1_100, 1_299, 1_300, 1_599, 1_600, 5_000].map(|at_ns| spans.at(at_ns));
        let [idle, ramp, loaded, after] = [Phase::Idle, Phase::Ramp, Phase::Loaded, Phase::Recovering];
        assert_eq!(phases, [idle, idle, idle, ramp, ramp, loaded, loaded, after, after]);
        let since = spans.since(900);
        assert_eq!(since.ramp, Span { from_ns: 200, until_ns: 400 });
        assert_eq!(since.recovering, Span { from_ns: 700, until_ns: 1_100 });
    }
}
