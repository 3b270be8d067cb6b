//! Comparison of two runs as plain data, as `hairpin compare` shows it. The crate `hairpin` fills this data from the
//! analysis.

use serde::Serialize;

use crate::figure::Figure;
use crate::summary::Verdict;
use crate::words;

/// Result of comparing two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct ComparisonReport {
    /// The baseline run: its folder or name.
    pub baseline: String,
    pub candidate: String,
    /// The one setting in which all cases of the baseline differ from all cases of the candidate (`option nodelay`,
    /// `size`, `link`); pairing ignores this setting. Null if the cases are the same in both.
    pub differs: Option<Unlike>,
    /// Cases whose figures must not be used in one run or in both.
    pub invalid: Vec<InvalidCase>,
    /// One row for each case and figure that both runs have.
    pub rows: Vec<ComparisonRow>,
    /// Differences between the two machines or plans.
    pub unlike: Vec<Unlike>,
    /// Cases that only one of the runs has, with the run's name.
    pub only_in: Vec<(String, String)>,
    /// Problems of one run that may cause a difference.
    pub cautions: Vec<Caution>,
    pub budgets: Vec<BudgetResult>,
    /// The looks at interleaved runs, the last one at the end; empty for saved runs.
    pub looks: Vec<Look>,
}

words! {
    /// The result of all budgets.
    pub enum Decision: "decision" {
        /// Every budget was kept.
        Held = "held",
        /// A budget was broken.
        Broken = "broken",
        /// A figure of a budget must not be used or is missing; without budgets, no figure may be used.
        Unusable = "unusable",
        /// The interval of a budget contains its limit; without budgets, a figure is neither faster nor slower.
        Undecided = "undecided",
        /// Without budgets: every figure is faster or slower.
        Decided = "decided",
    }
}

/// A look at two interleaved runs.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct Look {
    /// Time since the start of the runs, in s.
    pub after_s: f64,
    /// Significance level of this look (Pocock); 5 % over all looks.
    pub bound: f64,
    pub verdict: Decision,
}

impl ComparisonReport {
    pub fn decision(&self) -> Decision {
        let usable = |budget: &BudgetResult| budget.baseline_usable && budget.candidate_usable;
        let mut kept = self.budgets.iter().map(|budget| budget.kept.filter(|_| usable(budget)));
        let has_verdict = |row: &ComparisonRow| matches!(row.verdict, Verdict::Faster | Verdict::Slower);
        match self.budgets.as_slice() {
            [] if !self.rows.iter().any(|row| row.valid) => Decision::Unusable,
            [] if self.rows.iter().all(has_verdict) => Decision::Decided,
            [] => Decision::Undecided,
            _ if kept.any(|kept| kept == Some(false)) => Decision::Broken,
            all if !all.iter().all(usable) => Decision::Unusable,
            all if all.iter().all(|budget| budget.kept == Some(true)) => Decision::Held,
            _ => Decision::Undecided,
        }
    }
}

/// A case whose figures must not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct InvalidCase {
    /// The case in words.
    pub case: String,
    /// Why the baseline's figures must not be used; empty if they may be used.
    pub baseline: Vec<String>,
    /// Why the candidate's figures must not be used; empty if they may be used.
    pub candidate: Vec<String>,
}

/// A finding about one run whose effect on the comparison cannot be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Caution {
    /// The run: its folder or name.
    pub run: String,
    /// The finding's code, for instance `noisy-machine`.
    pub code: String,
    /// The finding in a sentence.
    pub summary: String,
}

/// One figure of one case in both runs.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct ComparisonRow {
    /// The case in words.
    pub case: String,
    /// The figure, for instance `p50`.
    pub figure: String,
    /// The unit of both values: `ns`, `per_s` or `bytes_per_s`.
    pub unit: String,
    pub baseline: Figure,
    pub candidate: Figure,
    /// candidate / baseline, with the interval that decides `verdict`.
    pub ratio: Figure,
    /// Verdict, corrected over all rows (Holm): `cannot-tell` for an invalid row, `unlike` if the machine's states
    /// differed.
    pub verdict: Verdict,
    /// Smallest change found at a power of 90 %, as a share; null without an interval.
    pub smallest_detectable: Option<f64>,
    /// False if the figures of either run must not be used.
    pub valid: bool,
}

/// A difference between the two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Unlike {
    /// What differs, for instance `environment.kernel`.
    pub what: String,
    pub baseline: String,
    pub candidate: String,
}

/// A budget and whether it was kept.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct BudgetResult {
    /// The case in words.
    pub case: String,
    /// The figure that the budget limits.
    pub figure: String,
    /// Maximum growth: 0.05 for `+5%`; for rates and goodput, maximum loss. Null for an absolute budget.
    pub allowed_share: Option<f64>,
    /// Of an absolute budget: the maximum in ns, or for rates and goodput the minimum per second.
    pub limit: Option<f64>,
    /// candidate / baseline, with the interval that decides; null for an absolute budget, or if either lacks the figure.
    pub ratio: Option<Figure>,
    /// Of an absolute budget: the candidate's figure with the interval that decides.
    pub value: Option<Figure>,
    /// Whether the budget was kept; null if the interval (or without an interval, the batches) contains the limit, or
    /// if there is nothing to compare.
    pub kept: Option<bool>,
    /// False if the baseline's figure must not be used; the budget is then not kept.
    pub baseline_usable: bool,
    /// False if the candidate's figure must not be used, or if the candidate lacks a figure of the baseline; the budget
    /// is then not kept.
    pub candidate_usable: bool,
}
