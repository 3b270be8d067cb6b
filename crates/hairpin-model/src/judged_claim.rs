//! A claim judged: published against measured, and the verdict. `hairpin claims --json` is made of these.

use serde::{Deserialize, Serialize};

use crate::claim::{About, Coverage, Published};
use crate::environment::Environment;
use crate::figure::Figure;
use crate::run::{State, Tool};
use crate::words;

words! {
    /// What a measurement says of a claim.
    pub enum Verdict: "verdict" {
        /// The whole interval is where the rule wants it.
        Holds = "holds",
        /// The whole interval is elsewhere.
        DoesNotHold = "does-not-hold",
        /// The interval is on both sides, or there is none, or what was measured cannot decide.
        CannotTell = "cannot-tell",
        /// Nothing was measured.
        CannotRun = "cannot-run",
    }
}

/// What came of a claim, or of a row of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// What was measured here, in `measured_unit`; null where nothing was. Of a claim of several rows it is that of the
    /// first row about the claim's own published value, null without such a row.
    pub measured: Option<Figure>,
    /// Its unit: the published one, or `x` for a ratio and `share` for a share.
    pub measured_unit: Option<String>,
    /// measured / published, of a range against its nearer end (1 inside); null without two numbers to divide.
    pub ratio: Option<f64>,
    /// The verdict; null where the claim was only listed.
    pub verdict: Option<Verdict>,
    /// Why, in words.
    pub why: String,
}

/// A row of a claim's table, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedRow {
    /// Its name.
    pub name: String,
    /// What is published of it.
    pub published: Published,
    /// What came of it.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// The run that tests it; null where a part is missing.
    pub run: Option<String>,
    /// Why it is judged by the rule that it is judged by; null where a part is missing.
    pub rule_because: Option<String>,
    /// The part that is missing, if one is.
    pub missing: Option<String>,
    /// What it is about.
    pub about: About,
    /// Why it is not tested between two hosts, where it is not; it is then no part of the claim's verdict.
    #[serde(default)]
    pub skipped: Option<String>,
    /// What stands in for something of the text's setting that is not there, if anything does.
    pub stand_in: Option<String>,
    /// Where it tests another setting than the claim's, and so is no part of the claim's verdict: which.
    pub beside: Option<String>,
}

/// A claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedClaim {
    /// Its id.
    pub id: String,
    /// What the text says, in our words.
    pub text: String,
    /// The letter of the text.
    pub source: String,
    /// What is published.
    pub published: Published,
    /// What it is about.
    pub about: About,
    /// Why nothing of it is tested between two hosts, where that is so.
    #[serde(default)]
    pub skipped: Option<String>,
    /// How much of it can be tested so far.
    pub coverage: Coverage,
    /// What came of it.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// What stands in for something of the text's setting in any of its rows, each once.
    pub stand_in: Option<String>,
    /// Its rows, at least one; the only row of a claim that is no table has no name.
    pub rows: Vec<JudgedRow>,
}

/// What is told of a text beside its claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its letter.
    pub letter: String,
    /// Its title.
    pub title: String,
    /// What it is.
    pub what: String,
    /// The name of its file.
    pub file: String,
    /// The machine or setting that its figures are from.
    pub setting: String,
}

/// A run that tested claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    /// Its name: the text's letter and the run's own, for instance `B-small-writes`.
    pub name: String,
    /// The command that repeats it.
    pub command: String,
    /// Why it is measured like this.
    pub because: String,
    /// Its folder, relative to that of the claims; null where it was not made.
    pub folder: Option<String>,
    /// Why it could not run; null where it could.
    pub problem: Option<String>,
    /// Rounds that failed.
    pub failed_rounds: u64,
    /// The codes of warnings about the run or the machine, such as `noisy-machine`: the verdicts rest on such rounds.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The claims, listed or tested. `claims.json` is this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimsReport {
    /// The program.
    pub tool: Tool,
    /// The exact command line.
    pub command_line: Vec<String>,
    /// When it began: seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// How long it took, in ns; 0 where nothing was run.
    pub duration_ns: u64,
    /// How far it got.
    pub state: State,
    /// The seed of every run; null where nothing was run.
    pub seed: Option<u64>,
    /// The host of the server, where that was another one; null elsewhere.
    #[serde(default)]
    pub to: Option<String>,
    /// The machine, that of the client; null where nothing was run.
    pub environment: Option<Environment>,
    /// The texts.
    pub sources: Vec<Source>,
    /// The runs.
    pub runs: Vec<TestRun>,
    /// The claims.
    pub claims: Vec<JudgedClaim>,
}

impl ClaimsReport {
    /// How many of the claims have that verdict; those that were skipped have none.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        let has = |claim: &&JudgedClaim| claim.skipped.is_none() && claim.judgement.verdict == Some(verdict);
        self.claims.iter().filter(has).count()
    }

    /// How many were skipped, as they are not about a path.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.claims.iter().filter(|claim| claim.skipped.is_some()).count()
    }

    /// How many of the claims are covered so far.
    #[must_use]
    pub fn covered(&self, coverage: Coverage) -> usize {
        self.claims.iter().filter(|claim| claim.coverage == coverage).count()
    }
}
