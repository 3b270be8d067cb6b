//! A finding: a cause with a code, its evidence, advice, and the check that would refute it.
//!
//! The analysis fills in data. The texts (`summary`, `advice`, `what`, `change`, `check`) are empty until
//! `hairpin-report` words them.

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
    /// How much it matters.
    #[derive(Default)]
    pub enum Severity: "severity" {
        /// Good to know.
        #[default]
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

/// Names a figure or a fact of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: &'static str,
    /// The unit of a figure; empty for a fact that is no quantity.
    pub unit: &'static str,
}

/// One piece of evidence: what was read, and its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Names the figure, for instance `bytes-in-the-queue`; empty in runs of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Which of several: an end, a direction, a stage.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// The identity of the case that it was read from; null if it is of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// What was read, in words.
    pub what: String,
    /// Its value.
    pub value: Figure,
    /// The value's unit: `ns`, `share`, `ratio`, `count`, ...
    pub unit: String,
}

impl Evidence {
    /// A figure, still without words.
    pub fn new(key: Key, value: impl Into<Figure>) -> Self {
        Self { key: key.name.to_owned(), value: value.into(), unit: key.unit.to_owned(), ..Self::default() }
    }

    /// The same of one of several.
    pub fn of(self, which: impl Into<String>) -> Self {
        Self { of: which.into(), ..self }
    }
}

/// A change of exactly one thing that would refute the finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterExperiment {
    /// What is changed, for instance `keep-the-cpus-awake`; empty in runs of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
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
    pub fn of(cases: impl Into<Vec<Case>>) -> Self {
        Self { cases: cases.into(), ..Self::default() }
    }

    /// The distinct values of the cases, in their order; empty if all are `usual`.
    pub fn values<I: IntoIterator<Item = String>>(&self, usual: &str, of: impl Fn(&Case) -> I) -> Vec<String> {
        let values = names::distinct(self.cases.iter().flat_map(of));
        if values == [usual] { Vec::new() } else { values }
    }
}

/// The outcome of a counter-experiment that was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proved {
    /// What was changed, as in [`CounterExperiment::kind`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The identity of the case on which it was done, if it is not the first of the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// What was done, in words, for instance `set TCP_NODELAY`.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The share that it explains of each case, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<f64>,
    /// What its words need beside the evidence: names, counts, which of several causes. Null in runs of earlier versions,
    /// whose texts are kept as they were saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<BTreeMap<String, FactValue>>,
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

impl Finding {
    /// The figure with that key: evidence, or else a fact.
    pub fn figure(&self, key: Key) -> Option<Figure> {
        let piece = self.evidence.iter().find(|piece| piece.key == key.name);
        piece.map(|piece| piece.value).or_else(|| match self.fact(key)? {
            FactValue::Number(number) => Some(Figure::bare(*number)),
            FactValue::Word(_) => None,
        })
    }

    /// The evidence with that key of one of several.
    pub fn figure_of(&self, key: Key, of: &str) -> Option<Figure> {
        self.evidence.iter().find(|piece| piece.key == key.name && piece.of == of).map(|piece| piece.value)
    }

    /// The fact in words with that key.
    pub fn word(&self, key: Key) -> Option<&str> {
        match self.fact(key)? {
            FactValue::Word(word) => Some(word),
            FactValue::Number(_) => None,
        }
    }

    /// Whether there is such a fact.
    pub fn has(&self, key: Key) -> bool {
        self.fact(key).is_some()
    }

    fn fact(&self, key: Key) -> Option<&FactValue> {
        self.facts.as_ref()?.get(key.name)
    }

    /// The finding with one more fact.
    pub fn with(mut self, key: Key, value: impl Into<FactValue>) -> Self {
        self.facts.get_or_insert_default().insert(key.name.to_owned(), value.into());
        self
    }

    /// The same with a fact that is only noted where it holds.
    pub fn with_if(self, holds: bool, key: Key) -> Self {
        if holds { self.with(key, 1.0) } else { self }
    }
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
