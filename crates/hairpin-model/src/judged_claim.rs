//! A judged claim: published and measured values and the verdict. `hairpin claims --json` prints these.

use serde::{Deserialize, Serialize};

use crate::claim::{About, Axis, ClaimKind, Knob, Published};
use crate::environment::Environment;
use crate::figure::Figure;
pub use crate::reason::Verdict;
use crate::reason::{OuterBounds, Reason};
use crate::run::{State, Tool};
use crate::words;

/// Result of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Judgement {
    /// Measured value in `measured_unit`; null if not measured.
    pub measured: Option<Figure>,
    /// By these bounds a figure without an interval is judged; null with an interval, or with too few rounds.
    pub outer_bounds: Option<OuterBounds>,
    /// Unit of `measured`: the published unit, or `x` for a ratio and `share` for a share.
    pub measured_unit: Option<String>,
    /// measured / published; for a published range, measured / the nearer end of the range (1 inside the range). Null
    /// without two numbers to divide.
    pub ratio: Option<f64>,
    /// The values that confirm the row, in `measured_unit`: from, to; null where the range has no end. For a direction,
    /// the ratios that count as equal.
    pub margin: Option<[Option<f64>; 2]>,
    /// Null if the claim was only listed.
    pub verdict: Option<Verdict>,
    /// The reason in words.
    pub why: String,
    /// The reason as data; absent if the claim was only listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// A row of a claim's table, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct JudgedRow {
    pub name: String,
    pub axis: Axis,
    pub published: Published,
    #[serde(flatten)]
    pub judgement: Judgement,
    /// Whether the figure is only what the set-up returns.
    pub given_back: bool,
    /// Whether the published figure is one of the text's hardware.
    pub other_hardware: bool,
    /// Why the row is only shown and decides nothing; null if it decides.
    pub shown: Option<String>,
    pub knob: Option<Knob>,
    /// Labels of the cases that the figure is from.
    pub case: Option<String>,
    /// The report of the run that tests the row, relative to the folder of the claims.
    pub evidence: Option<String>,
    /// The run that tests the row; null if a part is missing.
    pub run: Option<String>,
    /// Reason for the rule; null if a part is missing.
    pub rule_because: Option<String>,
    /// Date of the rule's last change; null if a part is missing.
    pub rule_changed: Option<String>,
    /// The missing part, if any.
    pub missing: Option<String>,
    pub about: About,
    /// Why the row is not tested between two hosts.
    pub skipped: Option<String>,
    /// What replaces a missing part of the text's setting, if anything.
    pub stand_in: Option<String>,
}

impl JudgedRow {
    /// Whether the row is tested and decides an axis of its claim.
    pub fn decides(&self) -> bool {
        self.shown.is_none() && self.missing.is_none() && self.skipped.is_none()
    }
}

words! {
    /// The verdict on a claim, in the order of the table in `docs/claims.md`: the first that applies.
    pub enum Headline: "headline" {
        /// Only absolute figures of other hardware are claimed; they are shown next to the measured ones.
        OtherHardware = "other-hardware",
        /// A question or a procedure was carried out.
        Answered = "answered",
        NotYet = "not-yet",
        /// A capability of this machine or path is missing.
        NotTestable = "not-testable",
        /// The direction or the cause is refuted, or only a size is claimed and it is refuted.
        Contradicted = "contradicted",
        Undecided = "undecided",
        /// A direction is claimed, and the figures are equal.
        NoDifference = "no-difference",
        /// Two settings of a knob give opposite verdicts.
        HoldsOnlyIf = "holds-only-if",
        /// The direction or the cause is confirmed, the size refuted.
        HoldsOtherSize = "holds-other-size",
        Holds = "holds",
    }
}

/// The verdict on each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Axes {
    pub direction: Verdict,
    pub size: Verdict,
    pub cause: Verdict,
}

/// The texts of a claim's page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ClaimText {
    /// The verdict in one sentence; empty if the claim was only listed.
    pub sentence: String,
    /// The mechanism.
    pub why: String,
    /// What follows for an engineer.
    pub so_what: String,
}

/// A published text, and the words of the claim in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Source {
    /// First letter of the claims' ids.
    pub letter: String,
    pub title: String,
    pub author: String,
    pub publisher: String,
    pub url: String,
    /// Date of retrieval.
    pub retrieved: String,
    /// Kind of text.
    pub what: String,
    /// Machine or setting of the published figures.
    pub setting: String,
    pub quote: String,
}

/// A claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct JudgedClaim {
    pub id: String,
    pub kind: ClaimKind,
    /// What the text says, in our words.
    pub statement: String,
    pub source: Source,
    pub published: Published,
    pub about: About,
    /// Null if the claim was only listed and an experiment exists.
    pub headline: Option<Headline>,
    /// The side of a knob on which the claim holds, with `holds-only-if`.
    pub only_if: Option<Knob>,
    pub text: ClaimText,
    pub axes: Axes,
    /// At least one row; the only row of a claim without a table has no name.
    pub rows: Vec<JudgedRow>,
    /// Where the text contradicts itself.
    pub text_errors: Vec<String>,
    /// Codes of findings that warn of the cases that the claim used, or of their runs.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Granted congestion controls of the streams that the claim used.
    #[serde(default)]
    pub congestion_controls: Vec<String>,
    /// What would decide an undecided claim, or what is missing.
    pub decides: Option<String>,
    /// Time since the test, in s; null if the claim was only listed.
    pub age_s: Option<u64>,
}

/// A run that tested claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TestRun {
    /// The text's letter and the run's own name, for instance `B-small-writes`.
    pub name: String,
    /// Command that repeats the run.
    pub command: String,
    /// Why the run measures in this way.
    pub because: String,
    /// The run's folder, relative to the folder of the claims; null if not created.
    pub folder: Option<String>,
    /// Why the run could not start; null if it started.
    pub problem: Option<String>,
    pub failed_rounds: u64,
    /// Codes of warnings about the run or the machine, such as `noisy-machine`; they also apply to the verdicts.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The claims, listed or tested: the content of `claims.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ClaimsReport {
    pub tool: Tool,
    pub command_line: Vec<String>,
    /// Start time, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// Duration, in ns; 0 if nothing was run.
    pub duration_ns: u64,
    pub state: State,
    /// Seed of every run; null if nothing was run.
    pub seed: Option<u64>,
    /// The server's host, if it is not the client's; else null.
    pub to: Option<String>,
    /// The client's machine; null if nothing was run.
    pub environment: Option<Environment>,
    /// What to know about merged results: other versions, machines or rules.
    #[serde(default)]
    pub remarks: Vec<String>,
    pub runs: Vec<TestRun>,
    pub claims: Vec<JudgedClaim>,
}

impl ClaimsReport {
    pub fn count(&self, headline: Headline) -> usize {
        self.claims.iter().filter(|claim| claim.headline == Some(headline)).count()
    }
}
