//! Budgets: how much worse a figure may become before it counts as a regression.

use std::str::FromStr;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::summary::Verdict;
use hairpin_model::{BudgetResult, Refused, UnknownName, parse};

use super::runs::{Change, FigureComparison, RunComparison};

/// The allowed change of one figure, from a text such as `p99=+5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    pub figure: ComparedBy,
    /// Maximum rise of a latency, or maximum fall of a rate or goodput, as a share of the baseline. If negative, a
    /// latency must fall by at least this share.
    pub share: f64,
}

impl FromStr for Budget {
    type Err = Refused;

    /// Parses `p99=+5%` or `goodput=-5%`. For rates and goodput the sign is ignored; the share is the maximum fall.
    fn from_str(text: &str) -> Result<Self, Refused> {
        let bad = |what: &str, hint: &str| Refused::new(format!("budget `{text}` {what}"), hint);
        let (figure, share) =
            text.split_once('=').ok_or_else(|| bad("has no share", "write figure=share, for instance p99=+5%"))?;
        let of_budget = |refused: Refused| refused.while_reading("budget");
        let figure: ComparedBy = figure.trim().parse().map_err(|unknown: UnknownName| of_budget(unknown.into()))?;
        let in_percent = share.trim().ends_with('%');
        let share = parse::share(share.trim()).map_err(of_budget)?;
        // Without a unit, 5 would mean 500 %.
        if !in_percent {
            return Err(bad("has no unit", "write the share in percent, for instance p99=+5%"));
        }
        let share = if figure.more_is_better() { share.abs() } else { share };
        // A rate may fall by less than 100 %; a latency may change by more than -100 % and at most +100 %.
        let possible = if figure.more_is_better() { share < 1.0 } else { share > -1.0 && share <= 1.0 };
        if !possible {
            return Err(bad("is out of range", "latencies: above -100%, at most +100%; rates: below 100%"));
        }
        Ok(Self { figure, share })
    }
}

impl Budget {
    /// Checks all cases that both runs have against the budget.
    pub fn check(&self, compared: &RunComparison) -> Vec<BudgetResult> {
        let outcome = |case: &super::runs::CaseComparison| {
            let figure = case.figures.iter().find(|figure| figure.figure == self.figure);
            let ratio = figure.and_then(FigureComparison::ratio);
            let is_lost = figure.is_some_and(|figure| figure.baseline.is_some() && figure.candidate.is_none());
            let baseline_usable = case.baseline_why_invalid.is_empty();
            let candidate_usable = case.candidate_why_invalid.is_empty() && !is_lost;
            BudgetResult {
                case: case.label.clone(),
                figure: self.figure.to_string(),
                allowed_share: self.share,
                ratio,
                kept: match (baseline_usable && candidate_usable, case.is_alike) {
                    (false, _) => Some(false),
                    (true, false) => None,
                    // With many rows, some differ by chance: ignore a difference that the correction removes.
                    (true, true) if figure.is_some_and(is_removed_by_correction) && self.share >= 0.0 => None,
                    (true, true) => self.is_kept(figure.and_then(|figure| figure.change.as_ref())),
                },
                baseline_usable,
                candidate_usable,
            }
        };
        compared.cases.iter().map(outcome).collect()
    }

    /// Returns `Some(true)` if the whole interval is within the budget, `Some(false)` if the whole interval exceeds it,
    /// else `None`. Without an interval, uses the range of the batch medians, extended by its own width on both sides.
    fn is_kept(&self, change: Option<&Change>) -> Option<bool> {
        let (low, high) = change.and_then(Change::bounds)?;
        // Above 0: worse than the budget allows.
        let (best, worst) = if self.figure.more_is_better() {
            ((-self.share).ln_1p() - high, (-self.share).ln_1p() - low)
        } else {
            (low - self.share.ln_1p(), high - self.share.ln_1p())
        };
        match (best > 0.0, worst > 0.0) {
            (true, _) => Some(false),
            (false, false) => Some(true),
            (false, true) => None,
        }
    }
}

/// Whether only the interval without the correction shows a difference.
fn is_removed_by_correction(figure: &FigureComparison) -> bool {
    figure.pointwise == Verdict::Slower && figure.verdict == Verdict::CannotTell
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Run};

    use super::*;
    use crate::compare::runs::compare_runs;
    use crate::fixture::Fixture;
    use crate::statistics::interval::{Estimate, Over};

    fn run(latencies: &[u64]) -> Run {
        Fixture::of(&[(&Case::ping_pong("tcp"), latencies)]).run()
    }

    #[test]
    fn each_invalid_side_is_marked() {
        let of = |valid: bool, measured: bool| {
            let mut run = run(&[10_000; 6]);
            run.cases[0].valid = valid;
            run.cases[0].primary_mut().latency_ns.p50 = run.cases[0].primary().latency_ns.p50.filter(|_| measured);
            run
        };
        let budget: Budget = "p50=+5%".parse().unwrap();
        let checked = |one: &Run, other: &Run| {
            let outcome = budget.check(&compare_runs(&[one], &[other])).remove(0);
            (outcome.baseline_usable, outcome.candidate_usable, outcome.kept)
        };
        let (fine, spoiled, none) = (of(true, true), of(false, true), of(true, false));
        assert_eq!(checked(&fine, &fine), (true, true, Some(true)));
        assert_eq!(checked(&spoiled, &fine), (false, true, Some(false)));
        assert_eq!(checked(&fine, &spoiled), (true, false, Some(false)));
        assert_eq!(checked(&spoiled, &spoiled), (false, false, Some(false)));
        assert_eq!(checked(&fine, &none), (true, false, Some(false)), "lost");
        assert_eq!(checked(&none, &fine), (true, true, None), "gained");
    }

    #[test]
    fn a_difference_removed_by_the_correction_breaks_no_budget() {
        let before = run(&[10_000, 10_010, 9_990, 10_000, 10_005, 9_995]);
        let after = run(&[12_000, 12_010, 11_990, 12_000, 12_005, 11_995]);
        let mut compared = compare_runs(&[&before], &[&after]);
        let kept = |compared: &RunComparison, budget: &str| budget.parse::<Budget>().unwrap().check(compared)[0].kept;
        assert_eq!(kept(&compared, "p50=+5%"), Some(false));
        let p50 = compared.cases[0].figures.iter_mut().find(|figure| figure.figure == ComparedBy::P50).unwrap();
        (p50.pointwise, p50.verdict) = (Verdict::Slower, Verdict::CannotTell);
        assert_eq!(kept(&compared, "p50=+5%"), None);
        assert_eq!(kept(&compared, "p50=-5%"), Some(false), "the budget requires a lower p50");
    }

    #[test]
    fn budgets_are_read_and_nonsense_is_refused_with_a_hint() {
        let budget: Budget = "p99=+5%".parse().unwrap();
        assert_eq!(budget.figure, ComparedBy::P99);
        assert!((budget.share - 0.05).abs() < 1e-12);
        assert!(("rate=-5%".parse::<Budget>().unwrap().share - 0.05).abs() < 1e-12);
        let refusal = |text: &str| text.parse::<Budget>().unwrap_err().to_string();
        assert_eq!(refusal("p99"), "budget `p99` has no share (hint: write figure=share, for instance p99=+5%)");
        assert!(refusal("p98=5%").contains("unknown figure `p98`"), "{}", refusal("p98=5%"));
        assert!(refusal("p99=five").contains("`five` is not a share"));
        assert!(refusal("rate=100%").contains("(hint: "));
        let bare = "budget `p50=+5` has no unit (hint: write the share in percent, for instance p99=+5%)";
        assert_eq!(refusal("p50=+5"), bare);
        assert!(refusal("p50=0.05").contains(" has no unit "));
        assert!(refusal("p50=+600%").contains("above -100%, at most +100%"));
        assert!("p50=+100%".parse::<Budget>().is_ok());
    }

    fn change(values: &[f64]) -> Change {
        let over = Over::seconds(10.0);
        Change { logarithm: Estimate::of_logarithms(values, over).unwrap(), step: 0.0 }
    }

    #[test]
    fn only_a_whole_interval_above_the_limit_exceeds_the_budget() {
        let around = |ratio: f64, by: f64| change(&[-1.0, 1.0, 0.0, 1.0, -1.0, 0.0].map(|k| ratio * (1.0 + k * by)));
        let budget: Budget = "p99=+5%".parse().unwrap();
        assert_eq!(budget.is_kept(Some(&around(1.2, 0.01))), Some(false));
        assert_eq!(budget.is_kept(Some(&around(1.2, 0.3))), None);
        assert_eq!(budget.is_kept(Some(&around(1.0, 0.01))), Some(true));
        assert_eq!(budget.is_kept(Some(&change(&[2.0; 3]))), None, "too few rounds");
        assert_eq!(budget.is_kept(None), None);
        let rate: Budget = "rate=5%".parse().unwrap();
        assert_eq!(rate.is_kept(Some(&around(0.8, 0.01))), Some(false));
        assert_eq!(rate.is_kept(Some(&around(1.5, 0.01))), Some(true));
        assert_eq!(rate.is_kept(Some(&around(0.95, 0.03))), None);
    }

    #[test]
    fn without_an_interval_all_batches_far_above_the_limit_exceed_the_budget() {
        let budget: Budget = "p50=+5%".parse().unwrap();
        let rising = |from: f64, to: f64| {
            let step = (to / from).powf(1.0 / 31.0);
            change(&(0..32).map(|k| from * step.powi(k)).collect::<Vec<_>>())
        };
        assert!(rising(1.4, 1.5).ratio().low.is_none(), "a rising trend has no interval");
        assert_eq!(budget.is_kept(Some(&rising(1.4, 1.5))), Some(false));
        assert_eq!(budget.is_kept(Some(&rising(1.06, 1.5))), None, "the excess is smaller than the range");
        assert_eq!(budget.is_kept(Some(&rising(0.8, 0.85))), Some(true));
        let coarse = Change { step: 0.5, ..rising(1.4, 1.5) };
        assert_eq!(budget.is_kept(Some(&coarse)), None, "no more than the change of the machine");
    }
}
