//! Budgets: how much worse a figure may become, or how bad it may be, before it counts as a regression.

use std::str::FromStr;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::{BudgetResult, Refused, UnknownName, parse};

use super::runs::{CaseComparison, Change, FigureComparison, RunComparison};

/// The limit of one figure, from a text such as `p99=+5%` or `p99<=5ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    pub figure: ComparedBy,
    pub limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Maximum rise of a latency, or maximum fall of a rate or goodput, as a share of the baseline. If negative, a
    /// latency must fall by at least this share.
    Share(f64),
    /// Maximum latency in ns, or minimum rate or goodput per second, of the candidate.
    Value(f64),
}

impl FromStr for Budget {
    type Err = Refused;

    /// Parses `p99=+5%`, `goodput=-5%`, `p99<=5ms` or `rate>=20k`. In a share of a rate or goodput the sign is ignored:
    /// the share is the maximum fall.
    fn from_str(text: &str) -> Result<Self, Refused> {
        let bad = |what: &str, hint: &str| Refused::new(format!("budget `{text}` {what}"), hint);
        let (sign, share) = text.split_once('=').ok_or_else(|| {
            bad("has no limit", "write figure=share or figure<=value, for instance p99=+5% or p99<=5ms")
        })?;
        let of_budget = |refused: Refused| refused.while_reading("budget");
        let name = sign.trim_end_matches(['<', '>']);
        let figure: ComparedBy = name.trim().parse().map_err(|unknown: UnknownName| of_budget(unknown.into()))?;
        if name != sign {
            let value = match figure {
                _ if sign.ends_with('>') != figure.more_is_better() => {
                    return Err(bad("limits the wrong side", "write p99<=5ms for latencies, rate>=20k for rates"));
                }
                ComparedBy::Rate => parse::rate_per_s(share.trim()),
                ComparedBy::Goodput => parse::bytes(share.trim().trim_end_matches("/s")).map(|bytes| bytes as f64),
                _ => parse::duration_ns(share.trim()).map(|ns| ns as f64),
            };
            // The logarithm needs a value above 0.
            return Ok(Self { figure, limit: Limit::Value(value.map_err(of_budget)?.max(1e-9)) });
        }
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
        Ok(Self { figure, limit: Limit::Share(share) })
    }
}

impl Budget {
    /// Checks all cases that both runs have against the budgets. The error of all results together is that of the
    /// comparison (Bonferroni).
    pub fn check_all(budgets: &[Self], compared: &RunComparison) -> Vec<BudgetResult> {
        let alpha = compared.alpha / (budgets.len() * compared.cases.len()).max(1) as f64;
        budgets.iter().flat_map(|budget| compared.cases.iter().map(move |case| budget.check(case, alpha))).collect()
    }

    fn check(&self, case: &CaseComparison, alpha: f64) -> BudgetResult {
        let figure = case.figures.iter().find(|figure| figure.figure == self.figure);
        let is_lost = figure.is_some_and(|figure| figure.baseline.is_some() && figure.candidate.is_none());
        let (allowed_share, limit, decides) = match self.limit {
            Limit::Share(share) => (Some(share), None, figure.and_then(|figure| figure.change.clone())),
            Limit::Value(limit) => (None, Some(limit), figure.and_then(FigureComparison::candidate_alone)),
        };
        let decides = decides.map(|change| Change { alpha, ..change });
        let baseline_usable = limit.is_some() || case.baseline_why_invalid.is_empty();
        let candidate_usable = case.candidate_why_invalid.is_empty() && !is_lost;
        let shown = decides.as_ref().map(Change::ratio);
        BudgetResult {
            case: case.label.clone(),
            figure: self.figure.to_string(),
            allowed_share,
            limit,
            ratio: shown.filter(|_| limit.is_none()),
            value: shown.filter(|_| limit.is_some()),
            kept: match (baseline_usable && candidate_usable, case.is_alike || limit.is_some()) {
                (false, _) => Some(false),
                (true, false) => None,
                (true, true) => self.is_kept(decides.as_ref()),
            },
            baseline_usable,
            candidate_usable,
        }
    }

    /// Returns `Some(true)` if the whole interval is within the budget, `Some(false)` if the whole interval exceeds it,
    /// else `None`. Without an interval, uses the range of the batch medians, extended by its own width on both sides.
    fn is_kept(&self, decides: Option<&Change>) -> Option<bool> {
        let (low, high) = decides.and_then(Change::bounds)?;
        let is_minimum = self.figure.more_is_better();
        let limit = match self.limit {
            Limit::Share(share) => if is_minimum { -share } else { share }.ln_1p(),
            Limit::Value(value) => value.ln(),
        };
        // Above 0: worse than the budget allows.
        let (best, worst) = if is_minimum { (limit - high, limit - low) } else { (low - limit, high - limit) };
        match (best > 0.0, worst > 0.0) {
            (true, _) => Some(false),
            (false, false) => Some(true),
            (false, true) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Run};

    use super::*;
    use crate::compare::runs::compare_interleaved;
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
            let outcome = Budget::check_all(&[budget], &compare_runs(&[one], &[other])).remove(0);
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
    fn the_shown_interval_decides_and_grows_with_the_number_of_budgets() {
        let before = run(&[10_000, 10_010, 9_990, 10_000, 10_005, 9_995]);
        let after = run(&[12_000, 12_900, 11_500, 12_000, 12_500, 11_400]);
        let one: Budget = "p50=+5%".parse().unwrap();
        let checked = |budgets: &[Budget], compared: &RunComparison| {
            let first = Budget::check_all(budgets, compared).remove(0);
            (first.ratio.and_then(|ratio| ratio.low).unwrap() > 1.05, first.kept)
        };
        let compared = compare_runs(&[&before], &[&after]);
        assert_eq!(checked(&[one], &compared), (true, Some(false)));
        assert_eq!(checked(&[one; 50], &compared), (false, None));
        let looked = |alpha| checked(&[one], &compare_interleaved(&before, &after, alpha));
        assert_eq!([looked(0.05), looked(0.001)], [(true, Some(false)), (false, None)]);
    }

    #[test]
    fn an_absolute_budget_limits_the_candidate_alone() {
        let (fast, slow) =
            (run(&[10_000, 10_010, 9_990, 10_000, 10_005]), run(&[30_000, 30_010, 29_990, 30_000, 30_005]));
        let mut spoiled = slow.clone();
        spoiled.cases[0].valid = false;
        let kept = |budget: &str, one: &Run, other: &Run| {
            let budget = budget.parse().unwrap();
            let result = Budget::check_all(&[budget], &compare_runs(&[one], &[other])).remove(0);
            assert!(result.value.is_some() && result.ratio.is_none(), "{result:?}");
            result.kept
        };
        assert_eq!(kept("p50<=20us", &slow, &fast), Some(true));
        assert_eq!(kept("p50<=20us", &fast, &slow), Some(false));
        assert_eq!(kept("p50<=30us", &fast, &slow), None, "the interval contains the limit");
        assert_eq!(kept("p50<=20us", &spoiled, &fast), Some(true), "the baseline does not matter");
        assert_eq!(kept("p50<=20us", &fast, &spoiled), Some(false));
        assert_eq!(kept("rate>=50k", &slow, &fast), Some(true));
        assert_eq!(kept("rate>=50k", &fast, &slow), Some(false));
    }

    #[test]
    fn budgets_are_read_and_nonsense_is_refused_with_a_hint() {
        let budget: Budget = "p99=+5%".parse().unwrap();
        assert_eq!(budget.figure, ComparedBy::P99);
        assert_eq!(budget.limit, Limit::Share(0.05));
        let limit = |text: &str| text.parse::<Budget>().unwrap().limit;
        assert_eq!([limit("rate=-5%"), limit("p99 <= 5ms")], [Limit::Share(0.05), Limit::Value(5e6)]);
        assert_eq!([limit("rate>=20k"), limit("goodput>=1MB/s")], [Limit::Value(2e4), Limit::Value(1e6)]);
        let refusal = |text: &str| text.parse::<Budget>().unwrap_err().to_string();
        let none =
            "budget `p99` has no limit (hint: write figure=share or figure<=value, for instance p99=+5% or p99<=5ms)";
        assert_eq!(refusal("p99"), none);
        assert!(refusal("p99<=5").contains("`5` is not a duration: its unit is missing"));
        for wrong in ["p99>=5ms", "rate<=20k"] {
            assert!(refusal(wrong).contains("limits the wrong side (hint: "), "{}", refusal(wrong));
        }
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
        Change { logarithm: Estimate::of_logarithms(values, over).unwrap(), step: 0.0, alpha: 0.05 }
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
