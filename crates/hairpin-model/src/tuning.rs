//! Which one change makes a program faster: the answer of `hairpin tune`.

use serde::{Deserialize, Serialize};

use crate::explanation::{Cause, RangeNs};
use crate::figure::Figure;
use crate::options::Options;
use crate::words;

/// One change of a program's surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Options of all TCP sockets of the program.
    Options(Options),
    /// A setting of the program's own network namespace: name and value.
    Sysctl(String, String),
    /// A setting of its processes: `affinity=0`, `scheduling=batch` or `timer-slack=1us`.
    Process(String),
}

impl std::fmt::Display for Change {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Options(options) => write!(out, "{options}"),
            Self::Sysctl(name, value) => write!(out, "{name}={value}"),
            Self::Process(text) => out.write_str(text),
        }
    }
}

words! {
    /// What a change did.
    pub enum TuneVerdict: "verdict" {
        Helps = "helps",
        Hurts = "hurts",
        NoEffect = "no-effect",
        /// The change could not be made, or did not hold.
        NotMade = "not-made",
    }

    /// What is compared.
    pub enum TuneMetric: "metric" {
        /// Mean duration of an exchange with the server that takes most time, in ns.
        Exchange = "exchange",
        /// Run time of the command, in ns.
        Time = "time",
        Output = "output",
    }
}

/// A change, its prediction and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TriedChange {
    pub change: String,
    /// The cause that suggests it; null if the user named it.
    pub because: Option<Cause>,
    /// What it saves by the states of the exchanges, in the metric's unit; null if unknown.
    pub predicted: Option<RangeNs>,
    /// What it saved: the mean over runs, with its interval.
    pub measured: Option<Figure>,
    /// The same as a share of the metric without the change.
    pub measured_share: Option<f64>,
    /// Whether the sockets had the requested values when the program continued.
    pub held: bool,
    /// How often the program set such an option itself, without effect.
    pub held_back: u64,
    pub verdict: TuneVerdict,
    /// How to keep what helped.
    pub keep: String,
}

/// The answer of `hairpin tune`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Tuning {
    pub subject: String,
    pub metric: TuneMetric,
    /// Runs of each arm.
    pub runs: u64,
    /// The metric without a change: the mean over runs.
    pub baseline: Option<Figure>,
    /// What a second arm without a change saved (A/A), and one with the supervisor alone.
    pub same_again: Option<Figure>,
    pub supervised: Option<Figure>,
    pub tune: Vec<TriedChange>,
    /// Causes for which there is no option, each with its fix.
    pub not_tried: Vec<String>,
}
