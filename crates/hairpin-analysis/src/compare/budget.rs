//! Budgets: how much worse a figure may become before it counts as a regression.

use std::str::FromStr;

use hairpin_model::figure::Figure;
use hairpin_model::names::UnknownName;
use hairpin_model::parse::{self, BadQuantity};
use hairpin_model::words;
use serde::Serialize;

use super::runs::{Compared, FigureComparison, RunComparison};

/// How much worse one figure may become, from a text such as `p99=+5%`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// The figure.
    pub figure: Compared,
    /// By how much a latency may rise, as a share of the baseline; a rate may fall by as much. Below 0 it must
    /// become better by that much.
    pub share: f64,
}

/// Why a budget was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum BadBudget {
    /// There is no `=` in it.
    NoShare(String),
    /// The figure is not one of [`Compared`].
    Figure(UnknownName),
    /// The share is none.
    Share(BadQuantity),
    /// A rate may fall by less than all of it, a latency must stay above nothing.
    Impossible(String),
}

impl std::fmt::Display for BadBudget {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoShare(given) => {
                write!(out, "budget `{given}` has no share (hint: write figure=share, for instance p99=+5%)")
            }
            Self::Figure(unknown) => write!(out, "budget: {unknown}"),
            Self::Share(bad) => write!(out, "budget: {bad}"),
            Self::Impossible(given) => {
                write!(out, "budget `{given}` cannot be kept or broken (hint: a share within -100% and +100%)")
            }
        }
    }
}

impl std::error::Error for BadBudget {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Figure(unknown) => Some(unknown),
            Self::Share(bad) => Some(bad),
            Self::NoShare(_) | Self::Impossible(_) => None,
        }
    }
}

impl FromStr for Budget {
    type Err = BadBudget;

    /// Reads `p99=+5%`, `p50=0.1`, `rate=-5%` (for a rate the sign is free: it may fall by so much).
    fn from_str(text: &str) -> Result<Self, BadBudget> {
        let (figure, share) = text.split_once('=').ok_or_else(|| BadBudget::NoShare(text.to_owned()))?;
        let figure: Compared = figure.trim().parse().map_err(BadBudget::Figure)?;
        let share = parse::share(share.trim()).map_err(BadBudget::Share)?;
        let share = if figure == Compared::Rate { share.abs() } else { share };
        let possible = if figure == Compared::Rate { share < 1.0 } else { share > -1.0 };
        if !possible {
            return Err(BadBudget::Impossible(text.to_owned()));
        }
        Ok(Self { figure, share })
    }
}

words! {
    /// Whether a budget was kept.
    pub enum Kept: "outcome" {
        /// The whole interval is within the budget.
        Within = "within",
        /// The whole interval is beyond the budget.
        Exceeded = "exceeded",
        /// The interval holds the budget's edge, there is none, or the runs were in different states of the machine.
        CannotTell = "cannot-tell",
    }
}

/// A budget checked on one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BudgetOutcome {
    /// The budget.
    pub budget: Budget,
    /// The case's identity.
    pub case: String,
    /// The case in words.
    pub label: String,
    /// candidate / baseline; null where either has no such figure.
    pub ratio: Option<Figure>,
    /// Whether the baseline's figure may be used: its case is valid.
    pub baseline_usable: bool,
    /// Whether the candidate's may: its case is valid, and it has the figure where the baseline has it.
    pub candidate_usable: bool,
    /// Whether it was kept; cannot tell where either is not usable.
    pub kept: Kept,
}

impl Budget {
    /// Checks every case that both runs have.
    #[must_use]
    pub fn check(&self, compared: &RunComparison) -> Vec<BudgetOutcome> {
        let outcome = |case: &super::runs::CaseComparison| {
            let figure = case.figures.iter().find(|figure| figure.figure == self.figure);
            let ratio = figure.and_then(FigureComparison::ratio);
            let is_lost = figure.is_some_and(|figure| figure.baseline.is_some() && figure.candidate.is_none());
            let baseline_usable = case.baseline_why_invalid.is_empty();
            let candidate_usable = case.candidate_why_invalid.is_empty() && !is_lost;
            BudgetOutcome {
                budget: *self,
                case: case.id.clone(),
                label: case.label.clone(),
                ratio,
                baseline_usable,
                candidate_usable,
                kept: if baseline_usable && candidate_usable && case.is_alike {
                    self.kept(ratio)
                } else {
                    Kept::CannotTell
                },
            }
        };
        compared.cases.iter().map(outcome).collect()
    }

    fn kept(&self, ratio: Option<Figure>) -> Kept {
        let Some((low, high)) = ratio.and_then(|ratio| ratio.low.zip(ratio.high)) else { return Kept::CannotTell };
        // Above 0: worse than the budget allows.
        let (best, worst) = match self.figure {
            Compared::Rate => (1.0 - self.share - high, 1.0 - self.share - low),
            _ => (low - 1.0 - self.share, high - 1.0 - self.share),
        };
        match (best > 0.0, worst > 0.0) {
            (true, _) => Kept::Exceeded,
            (false, false) => Kept::Within,
            (false, true) => Kept::CannotTell,
        }
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;
    use hairpin_model::run::Run;

    use super::*;
    use crate::compare::runs::compare_runs;
    use crate::made_up::MadeUp;

    #[test]
    fn each_side_that_may_not_be_used_is_known() {
        let run = |valid: bool, measured: bool| {
            let mut made_up = MadeUp::new();
            made_up.rounds_of(&Case::ping_pong("tcp"), &[10_000; 6]);
            let mut run: Run = made_up.run();
            run.cases[0].valid = valid;
            run.cases[0].latency_ns.p50 = run.cases[0].latency_ns.p50.filter(|_| measured);
            run
        };
        let budget: Budget = "p50=+5%".parse().unwrap();
        let checked = |one: &Run, other: &Run| {
            let outcome = budget.check(&compare_runs(&[one], &[other])).remove(0);
            (outcome.baseline_usable, outcome.candidate_usable, outcome.kept)
        };
        let (fine, spoiled, none) = (run(true, true), run(false, true), run(true, false));
        assert_eq!(checked(&fine, &fine), (true, true, Kept::Within));
        assert_eq!(checked(&spoiled, &fine), (false, true, Kept::CannotTell));
        assert_eq!(checked(&fine, &spoiled), (true, false, Kept::CannotTell));
        assert_eq!(checked(&spoiled, &spoiled), (false, false, Kept::CannotTell));
        assert_eq!(checked(&fine, &none), (true, false, Kept::CannotTell), "lost");
        assert_eq!(checked(&none, &fine), (true, true, Kept::CannotTell), "gained");
    }

    #[test]
    fn budgets_are_read_and_nonsense_is_refused_with_a_hint() {
        let budget: Budget = "p99=+5%".parse().unwrap();
        assert_eq!(budget.figure, Compared::P99);
        assert!((budget.share - 0.05).abs() < 1e-12);
        assert!(("rate=-5%".parse::<Budget>().unwrap().share - 0.05).abs() < 1e-12);
        let refusal = |text: &str| text.parse::<Budget>().unwrap_err().to_string();
        assert_eq!(refusal("p99"), "budget `p99` has no share (hint: write figure=share, for instance p99=+5%)");
        assert!(refusal("p98=5%").contains("unknown figure `p98`"), "{}", refusal("p98=5%"));
        assert!(refusal("p99=five").contains("`five` is not a share"));
        assert!(refusal("rate=100%").contains("(hint: "));
    }

    #[test]
    fn only_a_whole_interval_beyond_the_edge_exceeds() {
        let budget: Budget = "p99=+5%".parse().unwrap();
        assert_eq!(budget.kept(Some(Figure::new(1.2, 1.06, 1.3))), Kept::Exceeded);
        assert_eq!(budget.kept(Some(Figure::new(1.2, 1.04, 1.3))), Kept::CannotTell);
        assert_eq!(budget.kept(Some(Figure::new(1.0, 0.98, 1.04))), Kept::Within);
        assert_eq!(budget.kept(Some(Figure::bare(2.0))), Kept::CannotTell);
        assert_eq!(budget.kept(None), Kept::CannotTell);
        let rate: Budget = "rate=5%".parse().unwrap();
        assert_eq!(rate.kept(Some(Figure::new(0.8, 0.7, 0.9))), Kept::Exceeded);
        assert_eq!(rate.kept(Some(Figure::new(1.5, 1.4, 1.6))), Kept::Within);
        assert_eq!(rate.kept(Some(Figure::new(0.95, 0.9, 0.97))), Kept::CannotTell);
    }
}
