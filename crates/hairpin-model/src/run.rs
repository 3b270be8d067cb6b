//! A run: plan, environment, summaries, findings. `run.json` and `--json` hold it, `rounds.jsonl` its rounds.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::card::SavedCards;
use crate::case::Case;
use crate::document::Document;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::fields::at_least_one;
use crate::finding::Finding;
use crate::machine::Machine;
use crate::round::RoundRecord;
use crate::summary::{CaseSummary, Comparison};
use crate::trace::End;
use crate::words;

/// Version of the saved-run format that this build writes (docs/run-format.md).
pub const FORMAT: u32 = 3;

words! {
    /// How far a run got.
    #[derive(Default)]
    pub enum State: "state" {
        /// Running, or killed.
        #[default]
        Running = "running",
        /// All rounds were attempted.
        Complete = "complete",
        /// The user ended it.
        Interrupted = "interrupted",
    }
}

/// The program that made the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Tool {
    /// `hairpin`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The git commit it was built from, with `-dirty` where the tree had changes; null where there was no git.
    pub commit: Option<String>,
    /// `release` or `debug`.
    pub build: String,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// Its question.
    pub question: String,
    /// Its knobs as given or by default, in order.
    pub knobs: Vec<(String, Vec<String>)>,
    /// Rounds announced before the first, those of evidence and counter-experiments not among them.
    #[serde(default)]
    pub rounds: u64,
    /// How long they were announced to take, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// What their one-way loads were announced to send.
    #[serde(default)]
    pub sends: PlannedTraffic,
    /// Fewer rounds than an ordinary run has.
    #[serde(default)]
    pub quick: bool,
    /// One less the confidence of each interval: below 0.05 where the run was to end when its intervals were narrow
    /// enough, as each look could end it.
    #[serde(default = "five_percent")]
    pub alpha: f64,
    /// Rounds ordered so far.
    pub rounds_ordered: u64,
    /// The cases in the order of the plan.
    #[serde(default)]
    pub cases: Vec<Case>,
}

/// What one-way loads are going to send, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PlannedTraffic {
    /// Bytes of messages where the plan or the rate of a link says how many.
    pub bytes: u64,
    /// For how long messages are sent as fast as a path takes them whose rate is not known, in seconds.
    pub at_full_speed_s: f64,
}

fn five_percent() -> f64 {
    0.05
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            experiment: String::new(),
            question: String::new(),
            knobs: Vec::new(),
            rounds: 0,
            seconds: 0.0,
            sends: PlannedTraffic::default(),
            quick: false,
            alpha: five_percent(),
            rounds_ordered: 0,
            cases: Vec::new(),
        }
    }
}

/// Something that was not run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Skipped {
    /// The transport.
    pub transport: String,
    /// The case in words, where it is about one case and not about the whole transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// Why, and what would help.
    pub reason: String,
}

/// A host that ends ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Host {
    /// The end that ran there; that of the client where all did.
    pub role: End,
    /// The machine.
    pub environment: Environment,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Run {
    /// The format's version, [`FORMAT`].
    pub format: u32,
    /// The program.
    pub tool: Tool,
    /// The exact command line.
    pub command_line: Vec<String>,
    /// When it began: seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// How long it took, in ns; 0 while it runs.
    pub duration_ns: u64,
    /// How far it got.
    pub state: State,
    /// The seed of every random choice.
    pub seed: u64,
    /// What was asked for.
    pub plan: Plan,
    /// The hosts that its ends ran on, that of the client is always there.
    #[serde(deserialize_with = "at_least_one")]
    pub hosts: Vec<Host>,
    /// What each transport is that this build has, by its name. Runs of earlier versions get theirs when they are loaded.
    #[serde(default, skip_serializing_if = "SavedCards::is_empty")]
    pub cards: SavedCards,
    /// The states that the machine was in.
    #[serde(default)]
    pub machine: Machine,
    /// A summary of each case, in the order of the plan.
    pub cases: Vec<CaseSummary>,
    /// Cases compared.
    pub comparisons: Vec<Comparison>,
    /// What explains the figures, the greatest share first.
    pub findings: Vec<Finding>,
    /// The answer in words, and which case is faster than which; empty while it runs, and in runs of earlier versions.
    #[serde(default)]
    pub answer: Answer,
    /// What was not run.
    pub skipped: Vec<Skipped>,
    /// What was measured but could not be saved, or saved but not in full, with the causes.
    #[serde(default)]
    pub unsaved: Vec<Failure>,
    /// In order of execution; saved in `rounds.jsonl`, not in `run.json`.
    #[serde(skip)]
    pub rounds: Vec<RoundRecord>,
}

impl Document for Run {
    const SCHEMA: &'static str = "hairpin:run";
    const VERSION: u32 = FORMAT;
}

impl Run {
    /// The environment of the client's host.
    ///
    /// # Panics
    /// The run has no host of a client; reading a run refuses that.
    pub fn environment(&self) -> &Environment {
        self.host(End::Client).expect("every run has the host of its client")
    }

    /// The environment of the host that is listed for that end; `None` for a server on the client's host.
    pub fn host(&self, role: End) -> Option<&Environment> {
        self.hosts.iter().find(|host| host.role == role).map(|host| &host.environment)
    }

    /// The summary of the case with that identity.
    pub fn case(&self, id: &str) -> Option<&CaseSummary> {
        self.cases.iter().find(|summary| summary.id == id)
    }

    /// Number of failed rounds.
    pub fn failed_rounds(&self) -> usize {
        self.cases.iter().map(|summary| summary.failed_rounds.len()).sum()
    }
}
