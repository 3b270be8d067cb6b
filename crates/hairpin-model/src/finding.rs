//! A finding: a cause with a code, its evidence, advice, and a check that could refute it.
//!
//! The analysis fills in data. The texts (`summary`, `advice`, `what`, `change`, `check`) are empty until
//! `hairpin-report` writes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::card::SavedCards;
use crate::case::Case;
use crate::fact::FactValue;
use crate::figure::Figure;
use crate::names;
use crate::phases::PhaseLengths;
use crate::round::Extent;
use crate::words;

words! {
    /// Severity of a finding.
    #[derive(Default)]
    pub enum Severity: "severity" {
        /// Good to know.
        #[default]
        Note = "note",
        /// Affects the figures.
        Warning = "warning",
        /// The figures must not be used.
        Problem = "problem",
    }

    /// Subject of a finding.
    #[derive(Default)]
    pub enum About: "subject of a finding" {
        /// A cause of latency. `cargo xtask diagnose` tests each cause with an injected fault and a decoy.
        #[default]
        Cause = "cause",
        /// An observation about packets that by itself costs no time.
        Traffic = "traffic",
        /// The run or the machine: whether the figures can be used.
        Run = "run",
    }
}

/// The name of a figure or a fact of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: &'static str,
    /// The unit of a figure; empty for a fact that is not a quantity.
    pub unit: &'static str,
}

/// One piece of evidence: what was read, and its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Evidence {
    /// Name of the figure, for instance `bytes-in-the-queue`; empty in runs of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The end, direction or stage that the figure is about, if there are several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// The identity of the case that the figure is from; null for a figure of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// What was read, in words.
    pub what: String,
    pub value: Figure,
    /// The value's unit: `ns`, `share`, `ratio`, `count`, ...
    pub unit: String,
}

impl Evidence {
    pub fn new(key: Key, value: impl Into<Figure>) -> Self {
        Self { key: key.name.to_owned(), value: value.into(), unit: key.unit.to_owned(), ..Self::default() }
    }

    pub fn of(self, which: impl Into<String>) -> Self {
        Self { of: which.into(), ..self }
    }
}

/// A change of exactly one thing whose result can refute the finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct CounterExperiment {
    /// What is changed, for instance `keep-the-cpus-awake`; empty in runs of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// What is changed, in words.
    pub change: String,
    /// The command that runs the check.
    pub command: String,
    /// The cases that `command` runs.
    #[serde(skip)]
    pub repeat: Repeat,
    /// The case with the strongest effect, and the same case with the change. `--prove` runs both, interleaved. Null if
    /// a case cannot express the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Box<[Case; 2]>>,
}

/// Cases to measure, and how. Code that knows the experiments converts a plan to a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeat {
    pub cases: Vec<Case>,
    /// Warm-up; `None` here and in the fields below means the default.
    pub warm_up: Option<Extent>,
    /// Time budget of the run, in ns.
    pub over_ns: Option<u64>,
    pub phases: Option<PhaseLengths>,
    pub seed: Option<u64>,
    /// The transports' cards, which some defaults depend on.
    pub cards: SavedCards,
}

impl Repeat {
    /// These cases with default lengths.
    pub fn of(cases: impl Into<Vec<Case>>) -> Self {
        Self { cases: cases.into(), ..Self::default() }
    }

    /// Returns the distinct values of the cases, in order of the cases; empty if all values equal `usual`.
    pub fn values<I: IntoIterator<Item = String>>(&self, usual: &str, of: impl Fn(&Case) -> I) -> Vec<String> {
        let values = names::distinct(self.cases.iter().flat_map(of));
        if values == [usual] { Vec::new() } else { values }
    }
}

/// The outcome of a counter-experiment that was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Proved {
    /// What was changed, as in [`CounterExperiment::kind`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The identity of the case that was changed, if it is not the first case of the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// What was changed, in words, for instance `set TCP_NODELAY`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub check: String,
    /// `confirmed` or `refuted` or `cannot-tell`.
    pub verdict: String,
    /// The effect of the change.
    pub effect: Figure,
    /// The unit of the effect: `ns`, or `share` for the share of messages lost.
    #[serde(default = "ns")]
    pub unit: String,
}

/// Unit of effects in runs of versions that did not save units.
fn ns() -> String {
    "ns".to_owned()
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Finding {
    /// Code of the finding, for instance `wake-up-dominated`.
    pub code: String,
    /// Subject of the finding. Older runs lack the field; all findings of such runs are causes.
    #[serde(default)]
    pub about: About,
    pub severity: Severity,
    /// The identities of the cases that the finding is about.
    pub cases: Vec<String>,
    /// The share that the finding explains in each case, in the order of `cases`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<f64>,
    /// Data for the texts in addition to the evidence: names, counts, which of several causes. Null in runs of earlier
    /// versions, whose saved texts are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<BTreeMap<String, FactValue>>,
    /// What was found, in one or two plain sentences with the figures.
    pub summary: String,
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub advice: String,
    /// The check that could refute the finding.
    pub counter_experiment: Option<CounterExperiment>,
    /// The counter-experiment's outcome, if it was part of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proved: Option<Proved>,
    /// The share of the latency (or rate) that the finding explains, 0 to 1. Causes are sorted by share; below 1 %
    /// they are notes. For findings from traced exchanges, the share of the time of traced exchanges after the start
    /// of the connection.
    pub share: f64,
}

impl Finding {
    /// Returns the figure with this key from the evidence, or else from the facts.
    pub fn figure(&self, key: Key) -> Option<Figure> {
        let piece = self.evidence.iter().find(|piece| piece.key == key.name);
        piece.map(|piece| piece.value).or_else(|| self.fact(key)?.number().map(Figure::bare))
    }

    pub fn word(&self, key: Key) -> Option<&str> {
        self.fact(key)?.word()
    }

    pub fn has(&self, key: Key) -> bool {
        self.fact(key).is_some()
    }

    fn fact(&self, key: Key) -> Option<&FactValue> {
        self.facts.as_ref()?.get(key.name)
    }

    pub fn with(mut self, key: Key, value: impl Into<FactValue>) -> Self {
        self.facts.get_or_insert_default().insert(key.name.to_owned(), value.into());
        self
    }

    /// Adds the fact `key` with the value 1 if `holds` is true.
    pub fn with_if(self, holds: bool, key: Key) -> Self {
        self.with_some(key, holds.then_some(1.0))
    }

    pub fn with_some(self, key: Key, value: Option<impl Into<FactValue>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }
}

// What `hairpin list` shows about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[schemars(rename = "ListedFinding")]
pub struct FindingCard {
    pub code: &'static str,
    pub about: About,
    // What the finding says.
    pub what: &'static str,
    // Why the finding matters.
    pub why: &'static str,
}
