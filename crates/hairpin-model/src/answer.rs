//! The answer to the question that a run asked: statements, as the analysis found them. The report has their words.

use serde::{Deserialize, Serialize};

use crate::compared_by::ComparedBy;
use crate::figure::Figure;
use crate::knee::Knee;
use crate::phases::Phase;
use crate::summary::Verdict;
use crate::words;

/// Two cases that are neighbours by the figure that they are ranked by, compared by one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Pair {
    /// Which figure.
    pub figure: ComparedBy,
    /// The identity of the better case: with the lower p50, or the higher rate or goodput.
    pub a: String,
    /// The identity of the other.
    pub b: String,
    /// How `b` compares with `a`, corrected for the number of pairs.
    pub verdict: Verdict,
    /// b / a, with its interval over paired rounds.
    pub ratio: Figure,
}

/// What helps most against stalls of small writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct BestRemedy {
    /// The identity of the case that moves most bytes a millisecond with a remedy.
    pub case: String,
    /// The identities of the cases with another remedy from which no difference was found.
    pub no_difference: Vec<String>,
    /// Its bytes a millisecond over those with default options; null where these were not measured.
    pub speed_up: Option<Figure>,
}

words! {
    /// The CPU that limits a goodput.
    pub enum BusyCpu: "CPU" {
        /// That of both ends.
        Shared = "shared",
        Sender = "sender",
        Receiver = "receiver",
    }
}

/// The gain of a batch over one message per call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct BatchGain {
    /// The case with the batch.
    pub case: String,
    /// Its rate over that of one message per call; null if no difference was found.
    pub ratio: Option<Figure>,
}

/// One thing that an answer says. Cases are given by their identities; their figures are in the summaries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Statement {
    /// No case could be run.
    NothingMeasured,
    /// No case has usable figures.
    NothingUsable,
    /// No case with usable figures can be ranked; whether some are in an open loop, and some have an injected fault.
    NotRanked { open_loop: bool, injected_fault: bool },
    /// The figures of the only case.
    Single { case: String },
    /// A finding that explains a figure of that case.
    Finding { code: String, case: String },
    /// The best case by the figure of its kind, and those without a difference found from it. The verdict is `faster` for
    /// a winner, `cannot-tell` if no difference was found, and null if the best has no interval.
    Best { cases: Vec<String>, verdict: Option<Verdict> },
    /// The fastest round trip over each path, and those without a difference found from it.
    BestOverPaths { paths: Vec<Vec<String>> },
    /// The reference transport, and its p50 over that of the fastest case, which waits and is placed alike or not.
    Reference { case: String, ratio: f64, same_conditions: bool },
    /// The best remedy, which is faster than default options.
    Remedy { default: String, best: String },
    /// No remedy is proved to be faster than default options; whether each has an interval, null if none was measured.
    NoRemedy { default: String, have_intervals: Option<bool> },
    /// The only remedy, without default options to compare it with.
    OnlyRemedy { case: String },
    /// The fastest remedies, without default options to compare them with.
    FastestRemedies { cases: Vec<String> },
    /// The remedies without a difference found from the best.
    EqualRemedies { cases: Vec<String> },
    /// A remedy that is not compared, since it lacks the pauses of the others.
    WithoutPauses { case: String },
    /// Remedies slower than default options.
    SlowerRemedies { cases: Vec<String> },
    /// The same writes with default options over other transports.
    OtherTransports { cases: Vec<String> },
    /// The same exchange over each other path: with default options, and with the best remedy if one is faster.
    OtherPaths { paths: Vec<Vec<String>> },
    /// The gain of the largest batch, for the fastest case of each transport.
    Batches { messages: u64, gains: Vec<BatchGain> },
    /// The one-way latency at the highest message rate, and with one message per call.
    LatencyAtRate { case: String, unbatched: Option<String> },
    /// The CPU time of each end.
    CpuTime { case: String },
    /// A CPU without time to spare.
    BusyCpu { case: String, cpu: BusyCpu },
    /// The goodput of each direction.
    BothWays { case: String },
    /// Connections or streams that share the path unevenly.
    Unfair { case: String },
    /// Losses by cause, of the cases of one transport.
    Lost { cases: Vec<String> },
    /// The knee of the sweep of that case.
    Knee { case: String },
    /// The greatest loss at a rate that counts as delivered.
    LostBelowKnee { case: String },
    /// The rate with the highest power, if it is not the knee of the sweep.
    HighestPower { case: String },
    /// No case delivered this rate.
    NoneDelivered { per_s: f64 },
    /// Sends not as even as they should be: the median gap over the requested one, and the share of gaps below half of it;
    /// null if negligible.
    Uneven { case: String, median_gap: Option<f64>, below_half: Option<f64> },
    /// What the only load makes of the median round trip of a probe: `slower`, `faster`, or `cannot-tell`; null without an
    /// interval.
    Load { case: String, verdict: Option<Verdict> },
    /// Several loads, the lowest latency first; those that add least, empty if some have no interval; and those that add
    /// most, empty if no difference was found.
    Loads { cases: Vec<String>, least: Vec<String>, most: Vec<String> },
    /// Goodput and responsiveness of the only load.
    LoadGets { case: String },
    /// Responsiveness under each load.
    Responsiveness { cases: Vec<String> },
    /// The difference between the phases without a load; the verdict as that of a load.
    WithoutLoad { case: String, verdict: Option<Verdict> },
    /// Losses of a probe in one phase.
    ProbeLost { case: String, phase: Phase },
}

/// The answer. All its texts are ASCII but for the names that its user gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Answer {
    /// The words of the first statement. It names a winner only where a difference was found from every other case.
    pub headline: String,
    /// The words of the others, which put it in proportion.
    #[serde(default)]
    pub sentences: Vec<String>,
    /// What the analysis found; empty while it runs, and in runs of earlier versions.
    #[serde(default)]
    pub statements: Vec<Statement>,
    /// Which of two cases is better, and where no difference was found. Pairs that share a case follow one another, from
    /// the best to the worst.
    #[serde(default)]
    pub pairs: Vec<Pair>,
    /// The best remedy, where the run has exchanges and one of them is proved to be faster than default options.
    #[serde(default)]
    pub best_remedy: Option<BestRemedy>,
    /// The knee of each sweep, where loads were offered at several rates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knees: Vec<Knee>,
}

impl From<Vec<Statement>> for Answer {
    fn from(statements: Vec<Statement>) -> Self {
        Self { statements, ..Self::default() }
    }
}
