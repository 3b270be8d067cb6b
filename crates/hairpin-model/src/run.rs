//! A run: plan, environment, summaries, findings. `run.json` and `--json` hold it, `rounds.jsonl` its rounds.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::card::SavedCards;
use crate::case::Case;
use crate::choice::Needs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::fields::at_least_one;
use crate::finding::Finding;
use crate::machine::Machine;
use crate::parse::duration_ns;
use crate::periodic::{FoundPeriod, PeriodSearchPlan};
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
        Interrupted = "interrupted",
    }
}

/// The program that made the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Tool {
    pub name: String,
    pub version: String,
    /// The git commit of the build, with `-dirty` if the tree had changes; null without git.
    pub commit: Option<String>,
    /// `release` or `debug`.
    pub build: String,
}

/// The requested measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's question.
    pub question: String,
    /// The experiment's settings as given or by default, in order.
    pub knobs: Vec<(String, Vec<String>)>,
    /// Number of rounds announced before the start, without rounds for evidence and counter-experiments.
    #[serde(default)]
    pub rounds: u64,
    /// Announced duration of these rounds, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// Announced traffic of the one-way loads in these rounds.
    #[serde(default)]
    pub sends: PlannedTraffic,
    /// The needs for which a transport is to be chosen; null for other questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// The search for the shortest period of a control loop; null for other questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_search: Option<PeriodSearchPlan>,
    /// Whether the run has fewer rounds than an ordinary run.
    #[serde(default)]
    pub quick: bool,
    /// 1 - confidence of each interval. Below 0.05, to correct for repeated checks, if the run may end as soon as its
    /// intervals are narrow enough.
    #[serde(default = "five_percent")]
    pub alpha: f64,
    /// Rounds ordered so far.
    pub rounds_ordered: u64,
    /// Planned rounds that were not run, because the announced time was over, the machine too noisy, or the
    /// server not reached.
    #[serde(default)]
    pub rounds_cut: u64,
    /// The cases in the order of the plan.
    #[serde(default)]
    pub cases: Vec<Case>,
}

impl Plan {
    /// The latency whose probability of being exceeded was asked for, in ns.
    pub fn bound_ns(&self) -> Option<u64> {
        let (_, values) = self.knobs.iter().find(|(name, _)| name == "bound")?;
        duration_ns(values.first()?).ok()
    }
}

/// Expected traffic of one-way loads, including the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PlannedTraffic {
    /// Message bytes, if the plan or the rate of a link determines them.
    pub bytes: u64,
    /// Total time of sending at full speed over a path with unknown rate, in seconds.
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
            needs: None,
            period_search: None,
            quick: false,
            alpha: five_percent(),
            rounds_ordered: 0,
            rounds_cut: 0,
            cases: Vec::new(),
        }
    }
}

/// Something that was not run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Skipped {
    /// The transport.
    pub transport: String,
    /// The case in words, if only one case of the transport was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The reason, and what would help.
    pub reason: String,
}

/// A host that ends ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Host {
    /// The end that ran on the host; `client` if all ends ran there.
    pub role: End,
    pub environment: Environment,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Run {
    /// The format's version, [`FORMAT`].
    pub format: u32,
    pub tool: Tool,
    /// The exact command line.
    pub command_line: Vec<String>,
    /// Start time, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// Duration, in ns; 0 while the run is in progress.
    pub duration_ns: u64,
    pub state: State,
    /// The seed of all random choices.
    pub seed: u64,
    pub plan: Plan,
    /// The hosts on which the ends ran, always including the client's host.
    #[serde(deserialize_with = "at_least_one")]
    pub hosts: Vec<Host>,
    /// Cards of all transports of the build, by name. Runs of earlier versions get cards when they are loaded.
    #[serde(default, skip_serializing_if = "SavedCards::is_empty")]
    pub cards: SavedCards,
    /// The states of the machine.
    #[serde(default)]
    pub machine: Machine,
    /// A summary of each case, in the order of the plan.
    pub cases: Vec<CaseSummary>,
    /// Comparisons of two cases.
    pub comparisons: Vec<Comparison>,
    /// Findings that explain the figures, largest share first.
    pub findings: Vec<Finding>,
    /// The result of the search for the shortest period; null for other questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periodic: Option<FoundPeriod>,
    /// The answer in words, and pairs of cases; empty while the run is in progress, and in runs of earlier versions.
    #[serde(default)]
    pub answer: Answer,
    /// What was not run.
    pub skipped: Vec<Skipped>,
    /// Causes of results that were measured but not saved, or not saved completely.
    #[serde(default)]
    pub unsaved: Vec<Failure>,
    /// Rounds in order of execution; saved in `rounds.jsonl`, not in `run.json`.
    #[serde(skip)]
    pub rounds: Vec<RoundRecord>,
}

impl Run {
    /// The environment of the client's host.
    ///
    /// # Panics If the run has no host for the client; such runs are refused when they are read.
    pub fn environment(&self) -> &Environment {
        self.host(End::Client).expect("every run has the host of its client")
    }

    /// The environment of the host listed under `role`; `None` for a server on the client's host.
    pub fn host(&self, role: End) -> Option<&Environment> {
        self.hosts.iter().find(|host| host.role == role).map(|host| &host.environment)
    }

    pub fn case(&self, id: &str) -> Option<&CaseSummary> {
        self.cases.iter().find(|summary| summary.id == id)
    }

    pub fn failed_rounds(&self) -> usize {
        self.cases.iter().map(|summary| summary.failed_rounds.len()).sum()
    }
}
