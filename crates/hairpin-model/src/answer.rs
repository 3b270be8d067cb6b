//! The answer to a run's question, as statements from the analysis. `hairpin-report` writes the texts.

use serde::{Deserialize, Serialize};

use crate::choice::Choice;
use crate::compared_by::ComparedBy;
use crate::figure::Figure;
use crate::invalid::LeftOut;
use crate::knee::Knee;
use crate::phases::Phase;
use crate::summary::Verdict;
use crate::words;

/// Two cases with adjacent ranks, compared by one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Pair {
    /// The figure that is compared.
    pub figure: ComparedBy,
    /// The identity of the better case: with the lower p50, or the higher rate or goodput.
    pub a: String,
    /// The identity of the worse case.
    pub b: String,
    /// How `b` compares with `a`, corrected for the number of pairs.
    pub verdict: Verdict,
    /// b / a, with its interval over paired rounds.
    pub ratio: Figure,
}

/// The remedy that helps most against stalls of small writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct BestRemedy {
    /// The identity of the case with a remedy that moves the most bytes per millisecond.
    pub case: String,
    /// The identities of the cases with other remedies near `case` for which no difference from it was found.
    pub no_difference: Vec<String>,
    /// Bytes per millisecond of `case` / bytes per millisecond with default options; null if these were not measured.
    pub speed_up: Option<Figure>,
}

words! {
    /// The CPU that limits a goodput.
    pub enum BusyCpu: "CPU" {
    /// Both ends run on this CPU.
        Shared = "shared",
        Sender = "sender",
        Receiver = "receiver",
    }
}

/// The gain from sending batches instead of one message per call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct BatchGain {
    /// The case with the batch.
    pub case: String,
    /// Rate with the batch / rate with one message per call; null if no difference was found.
    pub ratio: Option<Figure>,
}

words! {
    /// Conditions of protocols that are compared on one path.
    pub enum Condition: "condition" {
        /// `yes` or `no`.
        Encryption = "encryption",
        Congestion = "congestion control",
        /// The largest packet, as `1452 B`: the largest TCP segment, or the largest QUIC datagram.
        PacketSize = "largest packet",
    }
}

/// A condition that differs between transports although it is not their subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Unequal {
    pub condition: Condition,
    /// Each value, with its transports.
    pub values: Vec<(String, Vec<String>)>,
}

/// CPU seconds that a second of waiting for answers is worth, in [`Statement::HowToWait`].
pub const CPU_SECONDS_PER_SECOND_SAVED: f64 = 10.0;

/// One statement of an answer. Cases are given by their identities; their figures are in the summaries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Statement {
    /// Other programs, a CPU quota or the hypervisor disturbed more than half of the rounds, the first for this reason.
    TooNoisy { disturbed: u64, rounds: u64, first: LeftOut },
    /// No case could be run.
    NothingMeasured,
    /// No case has usable figures.
    NothingUsable,
    /// No case with usable figures can be ranked. The fields say whether any case has these properties.
    NotRanked { open_loop: bool, injected_fault: bool },
    /// Conditions that differ between the compared transports.
    Unequal { conditions: Vec<Unequal> },
    /// The figures of the only case.
    Single { case: String },
    /// The result of a search for the shortest period of a control loop: see [`crate::run::Run::periodic`].
    ShortestPeriod,
    /// The largest part of the latency budget of a case.
    Budget { case: String },
    /// A finding that explains a figure of `case`.
    Finding { code: String, case: String },
    /// The best case by the figure of its kind, and the cases near it for which no difference from it was found. The
    /// verdict is `faster` for a winner, `cannot-tell` if any case is not separated from the best, and null if the best
    /// case has no interval.
    Best { cases: Vec<String>, verdict: Option<Verdict> },
    /// At a given rate over one path: the case with the lowest latency from the due time by this figure among the cases
    /// that reached the rate, and the cases within reach of it. The verdict is as in `Best`.
    BestAtRate { cases: Vec<String>, figure: ComparedBy, verdict: Option<Verdict> },
    /// Cases that did not reach their rate.
    RateMissed { cases: Vec<String> },
    /// A case whose latency by this figure is higher without the socket option `nodelay`: `without`.
    NeedsNodelay { case: String, without: String, figure: ComparedBy },
    /// The transport chosen for the needs of the plan, or that no case meets them: see [`Answer::choice`].
    Chosen,
    /// Options and cost of the chosen case.
    ChosenOptions,
    /// What would change the choice.
    ChangesChoice,
    /// `Best` among the cases whose ends block on two CPUs, as those of most programs do.
    BestBlocking { cases: Vec<String>, verdict: Option<Verdict> },
    /// Cases that this run does not separate from the best case, although their figures are not near those of the best.
    NotSeparated { cases: Vec<String> },
    /// For each path, the case with the fastest round trip, and the cases for which no difference from it was found.
    BestOverPaths { paths: Vec<Vec<String>> },
    /// The reference transport, and its p50 divided by that of the fastest case. `same_conditions`: both cases wait
    /// in the same way and have the same placement.
    Reference { case: String, ratio: f64, same_conditions: bool },
    /// The best remedy, which is faster than default options.
    Remedy { default: String, best: String },
    /// No remedy is proved to be faster than default options. `have_intervals`: each remedy has an interval; null if
    /// no remedy was measured.
    NoRemedy { default: String, have_intervals: Option<bool> },
    /// A request and an answer of one write each, and the same with the request or the answer in two writes, all with
    /// default options, without a remedy that is proved to be faster.
    InTwoWrites { default: String, request: Option<String>, answer: Option<String> },
    /// The only remedy, without default options to compare it with.
    OnlyRemedy { case: String },
    /// The fastest remedies, without default options to compare them with.
    FastestRemedies { cases: Vec<String> },
    /// The remedies near the best for which no difference from it was found.
    EqualRemedies { cases: Vec<String> },
    /// A remedy that is not compared because it omits pauses that the other remedies have.
    WithoutPauses { case: String },
    /// Remedies slower than default options.
    SlowerRemedies { cases: Vec<String> },
    /// Cases with the same writes and default options over other transports.
    OtherTransports { cases: Vec<String> },
    /// For each other path, the same exchange with default options, and with the best remedy if a remedy is faster.
    OtherPaths { paths: Vec<Vec<String>> },
    /// The gain of the largest batch, for the fastest case of each transport.
    Batches { messages: u64, gains: Vec<BatchGain> },
    /// Up to which rate the ends of `sleeping`, the fastest case whose ends sleep, cost less than those of `spinning`: above it,
    /// spinning takes less than [`CPU_SECONDS_PER_SECOND_SAVED`]. Null if spinning is not proved to be faster.
    HowToWait { sleeping: String, spinning: String, up_to_per_s: Option<f64> },
    /// The costs of an observer, in these cases that differ in transport, size or ends.
    ObserverCosts { cases: Vec<String> },
    /// The one-way latency at the highest message rate, and with one message per call.
    LatencyAtRate { case: String, unbatched: Option<String> },
    /// CPU time of each end.
    CpuTime { case: String },
    /// A fully used CPU.
    BusyCpu { case: String, cpu: BusyCpu },
    /// The goodput of each direction.
    BothWays { case: String },
    /// Connections or streams share the path unevenly.
    Unfair { case: String },
    /// Losses by cause, for the cases of one transport.
    Lost { cases: Vec<String> },
    /// The knee of the sweep to which `case` belongs.
    Knee { case: String },
    /// In runs of earlier versions: the case with the highest loss among the rates that count as delivered.
    LostBelowKnee { case: String },
    /// The rate with the highest power, if it is not the knee of the sweep.
    HighestPower { case: String },
    /// No case delivered this rate.
    NoneDelivered { per_s: f64 },
    /// Sends are less even than requested: median gap / requested gap, and the share of gaps shorter than half the
    /// requested gap; each null if negligible.
    Uneven { case: String, median_gap: Option<f64>, below_half: Option<f64> },
    /// Effect of the only load on a probe's median round trip: `slower`, `faster`, `cannot-tell`; null without
    /// interval.
    Load { case: String, verdict: Option<Verdict> },
    /// Several loads, lowest latency first. `least`: the loads that add the least latency, empty if any has no
    /// interval. `most`: the loads that add the most, empty if no difference was found.
    Loads { cases: Vec<String>, least: Vec<String>, most: Vec<String> },
    /// Goodput and responsiveness of the only load.
    LoadGets { case: String },
    /// Responsiveness under each load.
    Responsiveness { cases: Vec<String> },
    /// The difference between the phases of a case without a load. The verdict is as in `Load`.
    WithoutLoad { case: String, verdict: Option<Verdict> },
    /// Losses of a probe in one phase.
    ProbeLost { case: String, phase: Phase },
}

/// The answer. Its texts are ASCII, except for names given by the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Answer {
    /// The text of the first statement. It names a winner only if a difference from every other case was found.
    pub headline: String,
    /// The texts of the other statements.
    #[serde(default)]
    pub sentences: Vec<String>,
    /// What the analysis found; empty while the run is in progress, and in runs of earlier versions.
    #[serde(default)]
    pub statements: Vec<Statement>,
    /// Which of two cases is better, or that no difference was found. Consecutive pairs share a case, from the best
    /// case to the worst.
    #[serde(default)]
    pub pairs: Vec<Pair>,
    /// The best remedy, if the run has exchanges and a remedy is proved to be faster than default options.
    pub best_remedy: Option<BestRemedy>,
    /// The knee of each sweep, if loads were offered at several rates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knees: Vec<Knee>,
    /// The chosen transport, if the plan states needs.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
}

impl From<Vec<Statement>> for Answer {
    fn from(statements: Vec<Statement>) -> Self {
        Self { statements, ..Self::default() }
    }
}
