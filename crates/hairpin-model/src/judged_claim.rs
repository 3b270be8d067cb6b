//! A judged claim: published and measured values and the verdict. `hairpin claims --json` prints these.

use serde::{Deserialize, Serialize};

use crate::claim::{About, Coverage, Published};
use crate::document::Document;
use crate::environment::Environment;
use crate::figure::Figure;
use crate::reason::Reason;
pub use crate::reason::Verdict;
use crate::run::{State, Tool};

/// Result for a claim or for one of its rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Judgement {
    /// Measured value in `measured_unit`; null if not measured. For a claim with several rows, the value of the first
    /// row about the claim's own published value; null without such a row.
    pub measured: Option<Figure>,
    /// Unit of `measured`: the published unit, or `x` for a ratio and `share` for a share.
    pub measured_unit: Option<String>,
    /// measured / published; for a published range, measured / the nearer end of the range (1 inside the range). Null
    /// without two numbers to divide.
    pub ratio: Option<f64>,
    /// Null if the claim was only listed.
    pub verdict: Option<Verdict>,
    /// The reason in words.
    pub why: String,
    /// The reason as data; absent if the claim was only listed, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// A row of a claim's table, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct JudgedRow {
    pub name: String,
    pub published: Published,
    #[serde(flatten)]
    pub judgement: Judgement,
    /// The run that tests the row; null if a part is missing.
    pub run: Option<String>,
    /// Reason for the rule; null if a part is missing.
    pub rule_because: Option<String>,
    /// The missing part, if any.
    pub missing: Option<String>,
    pub about: About,
    /// Why the row is not tested between two hosts; such a row does not count for the claim's verdict.
    #[serde(default)]
    pub skipped: Option<String>,
    /// What replaces a missing part of the text's setting, if anything.
    pub stand_in: Option<String>,
    /// The row's setting, if it differs from the claim's; the row then does not count for the claim's verdict.
    pub beside: Option<String>,
}

impl JudgedRow {
    /// Whether the row counts for the claim's verdict.
    pub fn counts(&self) -> bool {
        self.skipped.is_none() && self.beside.is_none()
    }
}

/// A claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct JudgedClaim {
    pub id: String,
    /// What the text says, in our words.
    pub text: String,
    /// Letter of the text.
    pub source: String,
    pub published: Published,
    pub about: About,
    /// Why no row of the claim is tested between two hosts; null if any row is tested.
    #[serde(default)]
    pub skipped: Option<String>,
    pub coverage: Coverage,
    #[serde(flatten)]
    pub judgement: Judgement,
    /// What replaces parts of the text's setting in the claim's rows, each once.
    pub stand_in: Option<String>,
    /// At least one row; the only row of a claim without a table has no name.
    pub rows: Vec<JudgedRow>,
}

/// A text, without its claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Source {
    pub letter: String,
    pub title: String,
    /// Kind of text.
    pub what: String,
    /// Name of the file with the text.
    pub file: String,
    /// Machine or setting of the published figures.
    pub setting: String,
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
    #[serde(default)]
    pub to: Option<String>,
    /// The client's machine; null if nothing was run.
    pub environment: Option<Environment>,
    pub sources: Vec<Source>,
    pub runs: Vec<TestRun>,
    pub claims: Vec<JudgedClaim>,
}

impl Document for ClaimsReport {
    const SCHEMA: &'static str = "hairpin:claims";
}

impl ClaimsReport {
    /// Number of claims with `verdict`, not counting skipped claims.
    pub fn count(&self, verdict: Verdict) -> usize {
        let has = |claim: &&JudgedClaim| claim.skipped.is_none() && claim.judgement.verdict == Some(verdict);
        self.claims.iter().filter(has).count()
    }

    /// Number of claims skipped because they are not about a path.
    pub fn skipped(&self) -> usize {
        self.claims.iter().filter(|claim| claim.skipped.is_some()).count()
    }

    /// Number of claims with `coverage`.
    pub fn covered(&self, coverage: Coverage) -> usize {
        self.claims.iter().filter(|claim| claim.coverage == coverage).count()
    }
}
