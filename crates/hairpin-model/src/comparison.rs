//! Two runs compared, as plain data: what `hairpin compare` shows. The facade fills it from the analysis.

use serde::Serialize;

use crate::figure::Figure;
use crate::summary::Verdict;

/// What a comparison of two runs found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ComparisonReport {
    /// The baseline run: its folder or name.
    pub baseline: String,
    /// The candidate run.
    pub candidate: String,
    /// The one choice in which every case of the baseline differs from every case of the candidate (`option nodelay`, `size`,
    /// `link`), and without which the cases were paired; null where cases are the same in both.
    pub differs: Option<Unlike>,
    /// Cases of both runs whose figures must not be used in one of them or in both.
    pub invalid: Vec<InvalidCase>,
    /// One row for each case and figure that both runs have.
    pub rows: Vec<ComparisonRow>,
    /// What the two machines or plans do not have in common.
    pub unlike: Vec<Unlike>,
    /// Cases that only one of the runs has, with the run's name.
    pub only_in: Vec<(String, String)>,
    /// What was the matter with one of the runs, so that a difference may come from it.
    pub cautions: Vec<Caution>,
    /// Budgets that were checked.
    pub budgets: Vec<BudgetResult>,
}

/// A case whose figures must not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InvalidCase {
    /// The case in words.
    pub case: String,
    /// Why not those of the baseline, one reason each; empty where they may be used.
    pub baseline: Vec<String>,
    /// Why not those of the candidate.
    pub candidate: Vec<String>,
}

/// A finding of one of the runs that a comparison cannot remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Caution {
    /// The run: its folder or name.
    pub run: String,
    /// The finding's code, for instance `noisy-machine`.
    pub code: String,
    /// The finding in a sentence.
    pub summary: String,
}

/// One figure of one case in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The case in words.
    pub case: String,
    /// The figure, for instance `p50`.
    pub figure: String,
    /// The unit of both values: `ns`, `per_s` or `bytes_per_s`.
    pub unit: String,
    /// In the baseline.
    pub baseline: Figure,
    /// In the candidate.
    pub candidate: Figure,
    /// candidate / baseline of these two, with its interval.
    pub ratio: Figure,
    /// The verdict, corrected over all rows (Holm); cannot tell where the row is not valid, unlike where the runs were in
    /// different states of the machine.
    pub verdict: Verdict,
    /// The verdict by the interval of this row alone.
    pub pointwise: Verdict,
    /// The smallest change that would be found at a power of 90 %, as a share; null where no interval can be given.
    pub smallest_detectable: Option<f64>,
    /// False where the figures of either run must not be used.
    pub valid: bool,
}

/// Something that is not the same in both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unlike {
    /// What, for instance `environment.kernel`.
    pub what: String,
    /// In the baseline.
    pub baseline: String,
    /// In the candidate.
    pub candidate: String,
}

/// A budget and whether it was kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BudgetResult {
    /// The case in words.
    pub case: String,
    /// The figure that it limits.
    pub figure: String,
    /// The greatest growth allowed: 0.05 for `+5%`; of a rate and of goodput the greatest loss.
    pub allowed_share: f64,
    /// candidate / baseline; null where either has no such figure.
    pub ratio: Option<Figure>,
    /// Whether it was kept; null where the interval (or without one, the batches) hold the budget's edge, or where there is
    /// nothing to compare.
    pub kept: Option<bool>,
    /// False where the baseline's figure must not be used; then the budget was not kept.
    pub baseline_usable: bool,
    /// False where the candidate's must not be used, and where it lost what the baseline has; then neither.
    pub candidate_usable: bool,
}
