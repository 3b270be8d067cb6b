//! Budgets: how much worse a figure may become before it counts as a regression.

use std::str::FromStr;

use hairpin_model::figure::Figure;
use hairpin_model::names::UnknownName;
use hairpin_model::parse::{self, BadQuantity};
use hairpin_model::words;
use serde::Serialize;

use super::runs::{Compared, RunComparison};

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
        /// The interval holds the budget's edge, or there is none.
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
    /// Whether it was kept.
    pub kept: Kept,
}

impl Budget {
    /// Checks every case that both runs have.
    #[must_use]
    pub fn check(&self, compared: &RunComparison) -> Vec<BudgetOutcome> {
        let outcome = |case: &super::runs::CaseComparison| {
            let ratio =
                case.figures.iter().find(|figure| figure.figure == self.figure).and_then(|figure| figure.ratio);
            let kept = if case.why_invalid.is_empty() { self.kept(ratio) } else { Kept::CannotTell };
            BudgetOutcome { budget: *self, case: case.id.clone(), label: case.label.clone(), ratio, kept }
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
    use super::*;

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
