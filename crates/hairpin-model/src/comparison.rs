//! Comparison of two runs as plain data, as `hairpin compare` shows it. The crate `hairpin` fills this data from the
//! analysis.

use serde::Serialize;

use crate::document::Document;
use crate::figure::Figure;
use crate::summary::Verdict;

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
}

impl Document for ComparisonReport {
    const SCHEMA: &'static str = "hairpin:comparison";
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
    /// candidate / baseline, with its interval.
    pub ratio: Figure,
    /// Verdict, corrected over all rows (Holm): `cannot-tell` for an invalid row, `unlike` if the machine's states
    /// differed.
    pub verdict: Verdict,
    /// Verdict from the interval of this row alone.
    pub pointwise: Verdict,
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
    /// Maximum growth: 0.05 for `+5%`; for rates and goodput, maximum loss.
    pub allowed_share: f64,
    /// candidate / baseline; null if either lacks the figure.
    pub ratio: Option<Figure>,
    /// Whether the budget was kept; null if the interval (or without an interval, the batches) contains the limit, or
    /// if there is nothing to compare.
    pub kept: Option<bool>,
    /// False if the baseline's figure must not be used; the budget is then not kept.
    pub baseline_usable: bool,
    /// False if the candidate's figure must not be used, or if the candidate lacks a figure of the baseline; the budget
    /// is then not kept.
    pub candidate_usable: bool,
}
