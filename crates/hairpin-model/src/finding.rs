//! A finding: a cause with a code, its evidence, advice, and the check that would refute it.

use serde::{Deserialize, Serialize};

use crate::card::SavedCards;
use crate::case::Case;
use crate::figure::Figure;
use crate::names;
use crate::phases::PhaseLengths;
use crate::round::Extent;
use crate::words;

words! {
    /// How much it matters.
    pub enum Severity: "severity" {
        /// Good to know.
        Note = "note",
        /// It affects the figures.
        Warning = "warning",
        /// The figures must not be used as they are.
        Problem = "problem",
    }
}

words! {
    /// Subject of a finding.
    #[derive(Default)]
    pub enum About: "subject of a finding" {
        /// A cause of the latency, tested by an injection and a decoy (`cargo xtask diagnose`).
        #[default]
        Cause = "cause",
        /// What packets did; costs nothing by itself.
        Traffic = "traffic",
        /// The run or the machine: whether the figures can be used.
        Run = "run",
    }
}

/// One piece of evidence: what was read, and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// What was read, in words.
    pub what: String,
    /// Its value.
    pub value: Figure,
    /// The value's unit: `ns`, `share`, `ratio`, `count`, ...
    pub unit: String,
}

/// A change of exactly one thing that would refute the finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterExperiment {
    /// What is changed, in words.
    pub change: String,
    /// The command that runs it.
    pub command: String,
    /// What that command runs.
    #[serde(skip)]
    pub repeat: Repeat,
    /// The strongest case and the same with that one thing changed: what `--prove` runs, interleaved; null where the
    /// change is not one of a case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Box<[Case; 2]>>,
}

/// Cases to measure, and how; whoever knows the experiments makes a command of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeat {
    pub cases: Vec<Case>,
    /// Default if `None`, here and below.
    pub warm_up: Option<Extent>,
    /// Time budget of the run, in ns.
    pub over_ns: Option<u64>,
    pub phases: Option<PhaseLengths>,
    pub seed: Option<u64>,
    /// Defaults depend on the transport.
    pub cards: SavedCards,
}

impl Repeat {
    /// These cases with default lengths.
    #[must_use]
    pub fn of(cases: impl Into<Vec<Case>>) -> Self {
        Self { cases: cases.into(), ..Self::default() }
    }

    /// The distinct values of the cases, in their order; empty if all are `usual`.
    pub fn values(&self, usual: &str, of: impl Fn(&Case) -> Option<String>) -> Vec<String> {
        let values = names::distinct(self.cases.iter().filter_map(of));
        if values == [usual] { Vec::new() } else { values }
    }
}

/// The outcome of a counter-experiment that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proved {
    /// What was done, for instance `set TCP_NODELAY`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub check: String,
    /// `confirmed` or `refuted` or `cannot-tell`.
    pub verdict: String,
    /// The effect of the change.
    pub effect: Figure,
    /// The unit of the effect: `ns`, or `share` of the messages that were lost.
    #[serde(default = "ns")]
    pub unit: String,
}

/// Unit of effects in runs saved before units were.
fn ns() -> String {
    "ns".to_owned()
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Its code, for instance `wake-up-dominated`.
    pub code: String,
    /// What it is about. Runs that were saved before this was noted have causes only.
    #[serde(default)]
    pub about: About,
    /// How much it matters.
    pub severity: Severity,
    /// The identities of the cases it speaks of.
    pub cases: Vec<String>,
    /// What was found, in one or two plain sentences with the figures.
    pub summary: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub advice: String,
    /// What would refute it.
    pub counter_experiment: Option<CounterExperiment>,
    /// The counter-experiment's outcome, where it was part of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proved: Option<Proved>,
    /// The part of the latency (or of the rate) that it explains, 0 to 1: causes are listed by it, and one of less than
    /// 1 % is a note. Where it rests on traced exchanges it is the part of the time of those past the start of their
    /// connection.
    pub share: f64,
}

/// What `hairpin list` shows of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FindingCard {
    pub code: &'static str,
    pub about: About,
    /// What it says.
    pub what: &'static str,
    /// Why it matters.
    pub why: &'static str,
}
