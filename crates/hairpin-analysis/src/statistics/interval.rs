//! Computes intervals over rounds that also cover the variation between runs.
//!
//! Consecutive rounds are correlated, and part of the machine's variation is too slow for one run to show. An interval
//! is therefore computed from consecutive batches of rounds, not from single rounds, and widened by the variation that
//! a run of that length cannot show.
//!
//! 1. Take the values of the rounds in time order, as logarithms if all are above 0; `m` is their median, `s_r` their
//!    standard deviation.
//! 2. Cut the values into 8 consecutive batches, or 5 below 16 rounds; `s_b` is the standard deviation of the
//!    batches' medians. Batches remove the correlation of neighbours (Schmeiser, "Batch size effects in the analysis
//!    of simulation output", Operations Research 30, 1982), and Student's t over a few of them is valid even if their
//!    variances differ (Ibragimov and Mueller, "t-statistic based correlation and heterogeneity robust inference",
//!    Journal of Business and Economic Statistics 28, 2010).
//! 3. Half the width is `sqrt((t s_b / sqrt(q))^2 + (z sqrt(rho_T) s_r)^2)`, with `q` batches. The second part is a
//!    floor for variation slower than the run: `rho_T = rho sqrt(10 s / T)`, with `rho` = [`SLOW_SHARE`] measured by
//!    `cargo xtask coverage`. The floor is our own: no published method covers the states of a shared machine.
//! 4. No interval is given below [`MIN_ROUNDS`] rounds, if the batches' medians rise or fall (Mann-Kendall, p under
//!    0.01), or if neighbouring medians are correlated by more than 0.4.

use hairpin_model::Figure;
use hairpin_model::figure::NoInterval;

use super::distribution::{bisect, normal_quantile, student_quantile};
use super::location::{mean, median, standard_deviation};
use super::trend::trend;

pub const MIN_ROUNDS: usize = 5;
/// Minimum number of rounds for a verdict without an interval. By chance, all of 4 independent normal values lie on one
/// side of zero by more than their own range in 0.7 % of cases; all of 3 values in 4 %.
pub const MIN_ROUNDS_FOR_VERDICT: usize = 4;
/// Minimum number of evidence rounds for an interval: with two, Student's t (one degree of freedom) is 12.7.
const MIN_EVIDENCE_ROUNDS: usize = 3;
const MIN_ROUNDS_FOR_MAX_BATCHES: usize = 16;
/// Number of batches with at least [`MIN_ROUNDS_FOR_MAX_BATCHES`] rounds, and with fewer.
const MAX_BATCHES: usize = 8;
const MIN_BATCHES: usize = 5;
/// Maximum correlation of neighbouring batches; a higher one shows variation slower than the run.
const MAX_CORRELATION: f64 = 0.4;
/// The batches have a trend if its p-value is below this.
const TREND_ALPHA: f64 = 0.01;
/// Maximum ratio of the upper to the lower bound; a wider interval says nothing about the figure.
pub const MAX_BOUNDS_RATIO: f64 = 100.0;
/// The share of the rounds' variance that a run of 10 s cannot show because this part varies more slowly. Measured on
/// a virtual machine with 2 CPUs; `cargo xtask coverage` measures it again.
pub const SLOW_SHARE: f64 = 0.13;
/// The run length to which [`SLOW_SHARE`] refers, in s.
const SLOW_SHARE_AT_S: f64 = 10.0;
/// One minus the confidence of printed intervals.
pub const ALPHA: f64 = 0.05;
/// The power of the reported smallest detectable effect.
const POWER: f64 = 0.9;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Over {
    /// The time over which the rounds are spread, in s.
    pub span_s: f64,
    /// One minus the confidence.
    pub alpha: f64,
    pub min_rounds: usize,
}

impl Over {
    /// Options for 95 % intervals over rounds spread over `span_s` seconds.
    pub fn seconds(span_s: f64) -> Self {
        Self { span_s, alpha: ALPHA, min_rounds: MIN_ROUNDS }
    }

    /// Options for evidence rounds, which are few and predict no later run.
    pub fn evidence(span_s: f64) -> Self {
        Self { min_rounds: MIN_EVIDENCE_ROUNDS, ..Self::seconds(span_s) }
    }

    /// Returns the share of the rounds' variance that is slower than the run.
    fn slow_share(self) -> f64 {
        if self.span_s > 0.0 { (SLOW_SHARE * (SLOW_SHARE_AT_S / self.span_s).sqrt()).min(1.0) } else { 1.0 }
    }
}

/// Returns the time over which rounds with these starts are spread, in s: first to last start, plus one average round.
pub(crate) fn span_s(started_ns: impl Iterator<Item = u64>) -> f64 {
    let (mut first, mut last, mut count) = (u64::MAX, 0, 0_u64);
    for started in started_ns {
        (first, last, count) = (first.min(started), last.max(started), count + 1);
    }
    if count < 2 { 0.0 } else { (last - first) as f64 / 1e9 * count as f64 / (count - 1) as f64 }
}

/// Returns the median over rounds, in time order, with its interval. `None` if `values` is empty.
pub fn median_over(values: &[f64], over: Over) -> Option<Figure> {
    if values.iter().any(|value| *value <= 0.0) {
        return Some(Estimate::of(values, over)?.figure(over.alpha));
    }
    let estimate = Estimate::of_logarithms(values, over)?;
    let figure = estimate.figure(over.alpha);
    if matches!((figure.low, figure.high), (Some(low), Some(high)) if high - low < 1e-9) {
        // exp(ln(x)) may differ from x.
        return median(values).map(|value| Figure::new(value, value, value));
    }
    let says_nothing =
        matches!((figure.low, figure.high), (Some(low), Some(high)) if high - low > MAX_BOUNDS_RATIO.ln());
    let value = median(values)?;
    if says_nothing {
        return Some(Figure::without(value, NoInterval::SaysNothing));
    }
    // An even number of values and their logarithms have different medians: the bounds must contain both.
    let Figure { low, high, why, .. } = figure.rising(f64::exp);
    Some(Figure { value, low: low.map(|low| low.min(value)), high: high.map(|high| high.max(value)), why })
}

#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// Standard errors with their degrees of freedom.
    errors: Vec<(f64, u32)>,
    /// Standard deviation of the variation that is slower than the run.
    floor: f64,
    why: Option<NoInterval>,
    /// Outer bounds, with or without an interval: the batches' range, extended by its width on both sides.
    widest: Option<(f64, f64)>,
}

impl Estimate {
    /// Estimates the median of values in time order. `None` if `values` is empty.
    pub fn of(values: &[f64], over: Over) -> Option<Self> {
        let value = median(values)?;
        let bare = Self { value, errors: Vec::new(), floor: 0.0, why: Some(NoInterval::TooFewRounds), widest: None };
        if values.len() < over.min_rounds.min(MIN_ROUNDS_FOR_VERDICT) {
            return Some(bare);
        }
        let too_few = (values.len() < over.min_rounds).then_some(NoInterval::TooFewRounds);
        let batches = batches(values);
        let spread = standard_deviation(&batches)?;
        let (least, most) = range(&batches);
        let degrees = u32::try_from(batches.len() - 1).unwrap_or(1);
        Some(Self {
            errors: vec![(spread / (batches.len() as f64).sqrt(), degrees)],
            floor: over.slow_share().sqrt() * standard_deviation(values)?,
            why: too_few.or_else(|| slow_variation(&batches)),
            widest: Some((least - (most - least), most + (most - least))),
            ..bare
        })
    }

    /// Estimates the median of the logarithms; values must be above 0.
    pub fn of_logarithms(values: &[f64], over: Over) -> Option<Self> {
        let logarithms: Vec<f64> = values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).collect();
        Self::of(&logarithms, over)
    }

    pub fn minus(&self, other: &Self) -> Self {
        Self {
            value: self.value - other.value,
            errors: [&self.errors[..], &other.errors].concat(),
            floor: self.floor.hypot(other.floor),
            why: self.why.or(other.why),
            widest: self.widest.zip(other.widest).map(|(own, other)| (own.0 - other.1, own.1 - other.0)),
        }
    }

    /// Returns the mean of independent estimates of one quantity. `None` if `estimates` is empty.
    pub fn mean(estimates: &[Self]) -> Option<Self> {
        let share = 1.0 / estimates.len() as f64;
        let values: Vec<f64> = estimates.iter().map(|estimate| estimate.value).collect();
        let bounds: Option<Vec<(f64, f64)>> = estimates.iter().map(|estimate| estimate.widest).collect();
        Some(Self {
            value: mean(&values)?,
            errors: estimates.iter().flat_map(|one| one.errors.iter().map(|(e, d)| (e * share, *d))).collect(),
            floor: share * estimates.iter().map(|one| one.floor.powi(2)).sum::<f64>().sqrt(),
            why: estimates.iter().find_map(|estimate| estimate.why),
            widest: bounds.map(|all| range(&all.iter().flat_map(|(low, high)| [*low, *high]).collect::<Vec<_>>())),
        })
    }

    /// Estimates the difference of the means of `candidate` and `baseline`, with one value per run (Welch, Biometrika
    /// 34, 1947; degrees of freedom rounded down). `None` if either has fewer than two values.
    pub fn welch(baseline: &[f64], candidate: &[f64]) -> Option<Self> {
        let part = |values: &[f64]| Some(standard_deviation(values)?.powi(2) / values.len() as f64);
        let (a, b) = (part(baseline)?, part(candidate)?);
        let share = |part: f64, n: usize| part * part / (n - 1) as f64;
        let degrees = (a + b).powi(2) / (share(a, baseline.len()) + share(b, candidate.len()));
        // Between 1 and n + m.
        let degrees = if degrees.is_finite() { degrees.max(1.0) as u32 } else { 1 };
        Some(Self {
            value: mean(candidate)? - mean(baseline)?,
            errors: vec![((a + b).sqrt(), degrees)],
            floor: 0.0,
            why: None,
            widest: None,
        })
    }

    pub fn half_width(&self, alpha: f64) -> f64 {
        let upper = 1.0 - alpha / 2.0;
        let squares = self.errors.iter().map(|(error, degrees)| (student_quantile(upper, *degrees) * error).powi(2));
        (squares.sum::<f64>() + (normal_quantile(upper) * self.floor).powi(2)).sqrt()
    }

    /// Returns the estimate with its interval, or with the reason why it has none.
    pub fn figure(&self, alpha: f64) -> Figure {
        match self.why {
            Some(why) => Figure::without(self.value, why),
            None => {
                let half = self.half_width(alpha);
                Figure::new(self.value, self.value - half, self.value + half)
            }
        }
    }

    /// Returns the bounds of the estimate: the interval at confidence 1 - `alpha`, or without an interval the batches'
    /// range, extended by its width on both sides. `None` with too few rounds.
    pub fn bounds(&self, alpha: f64) -> Option<(f64, f64)> {
        if self.why.is_some() {
            return self.widest;
        }
        let half = self.half_width(alpha);
        Some((self.value - half, self.value + half))
    }

    /// Returns the probability of an estimate more than `step` from 0 if the true difference is at most `step`: the
    /// largest alpha whose interval still contains such a difference.
    ///
    /// Without an interval, the result is 1 unless both outer bounds are more than `step` from 0 on one side. If they
    /// are, the result is 0, or with too few rounds the p-value of Student's t over these rounds.
    pub fn p_value(&self, step: f64) -> f64 {
        if let Some(why) = self.why {
            let is_beyond = self.widest.is_some_and(|(low, high)| low > step || high < -step);
            if !is_beyond || why != NoInterval::TooFewRounds {
                return if is_beyond { 0.0 } else { 1.0 };
            }
        }
        let beyond = self.value.abs() - step;
        if beyond <= 0.0 {
            return 1.0;
        }
        let nats = bisect(-(1e-12_f64.ln()), 40, |nats| self.half_width((-nats).exp()) < beyond);
        (-nats).exp()
    }

    /// Returns the smallest true difference detected at `alpha` with a power of 90 %; `None` without an interval.
    pub fn smallest_detectable(&self, alpha: f64) -> Option<f64> {
        let errors = self.errors.iter().map(|(error, _)| error.powi(2)).sum::<f64>();
        let deviation = (errors + self.floor.powi(2)).sqrt();
        self.why.is_none().then(|| self.half_width(alpha) + normal_quantile(POWER) * deviation)
    }
}

fn batches(values: &[f64]) -> Vec<f64> {
    let count = if values.len() < MIN_ROUNDS_FOR_MAX_BATCHES { MIN_BATCHES.min(values.len()) } else { MAX_BATCHES };
    let batch = |k: usize| median(&values[k * values.len() / count..(k + 1) * values.len() / count]);
    (0..count).filter_map(batch).collect()
}

fn range(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(*value), most.max(*value)))
}

/// Returns the reason if the batches vary so slowly that the run is too short for an interval.
fn slow_variation(batches: &[f64]) -> Option<NoInterval> {
    let (least, most) = range(batches);
    // Rounding differences are not variation.
    if most - least <= 1e-9 * most.abs() {
        return None;
    }
    let points: Vec<(f64, f64)> = batches.iter().enumerate().map(|(k, batch)| (k as f64, *batch)).collect();
    if trend(&points).is_some_and(|trend| trend.p < TREND_ALPHA) {
        return Some(NoInterval::Trend);
    }
    (correlation_of_neighbours(batches) > MAX_CORRELATION).then_some(NoInterval::SlowVariation)
}

/// Returns the correlation of each value with the next; 0 if all are equal.
fn correlation_of_neighbours(values: &[f64]) -> f64 {
    let centre = mean(values).unwrap_or(0.0);
    let of =
        |pairs: &mut dyn Iterator<Item = (f64, f64)>| pairs.map(|(a, b)| (a - centre) * (b - centre)).sum::<f64>();
    let squares = of(&mut values.iter().map(|value| (*value, *value)));
    let products = of(&mut values.windows(2).map(|pair| (pair[0], pair[1])));
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Returns the level at which each hypothesis is decided at a family-wise error of `alpha`: it is confirmed if its
/// p-value is not above its level (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
/// of Statistics 6, 1979).
pub fn holm(p_values: &[f64], alpha: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut levels = vec![alpha; p_values.len()];
    let mut is_over = false;
    for (rank, place) in order.iter().enumerate() {
        // The first hypothesis that is not confirmed decides all that follow.
        levels[*place] = if is_over { levels[order[rank - 1]] } else { alpha / (p_values.len() - rank) as f64 };
        is_over |= p_values[*place] > levels[*place];
    }
    levels
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEN: Over = Over { span_s: 10.0, alpha: ALPHA, min_rounds: MIN_ROUNDS };

    #[test]
    fn without_rounds_there_is_no_figure_and_few_have_no_interval() {
        assert_eq!(median_over(&[], TEN), None);
        assert_eq!(median_over(&[7.0, 9.0, 8.0, 7.0], TEN), Some(Figure::without(7.5, NoInterval::TooFewRounds)));
        let evidence = median_over(&[7.0, 9.0, 8.0], Over::evidence(10.0)).unwrap();
        assert!(evidence.low.is_some() && evidence.why.is_none(), "{evidence:?}");
    }

    #[test]
    fn the_width_combines_the_batches_and_the_floor() {
        // Batches of two: medians 0, 1, -1, 1, -1; their SD is 1, t of 4 degrees 2.776; all values have an SD of 2.
        let values = [-2.0, 2.0, -1.0, 3.0, -3.0, 1.0, -1.0, 3.0, -3.0, 1.0];
        let estimate = Estimate::of(&values, TEN).unwrap();
        let deviation = standard_deviation(&values).unwrap();
        let expected = (2.776_445_f64.powi(2) * 1.0 / 5.0 + (1.959_964 * deviation).powi(2) * SLOW_SHARE).sqrt();
        assert!((estimate.half_width(0.05) - expected).abs() < 1e-4, "{} {expected}", estimate.half_width(0.05));
        // In a run four times as long, the slow part is half as large.
        let longer = Estimate::of(&values, Over { span_s: 40.0, ..TEN }).unwrap();
        let expected =
            (2.776_445_f64.powi(2) * 1.0 / 5.0 + (1.959_964 * deviation).powi(2) * SLOW_SHARE / 2.0).sqrt();
        assert!((longer.half_width(0.05) - expected).abs() < 1e-4);
    }

    #[test]
    fn rising_or_wandering_values_have_a_reason_instead_of_an_interval() {
        let rising: Vec<f64> = (0..32).map(|k| 100.0 + f64::from(k)).collect();
        assert_eq!(median_over(&rising, TEN).unwrap().why, Some(NoInterval::Trend));
        let wandering: Vec<f64> = (0..32).map(|k| if k < 12 { 120.0 } else { 100.0 + f64::from(k % 3) }).collect();
        assert_eq!(median_over(&wandering, TEN).unwrap().why, Some(NoInterval::SlowVariation));
        let wild = median_over(&[1.0, 1e6, 2.0, 1e7, 1.0, 1e5, 3.0], TEN).unwrap();
        assert_eq!((wild.low, wild.why), (None, Some(NoInterval::SaysNothing)));
    }

    #[test]
    fn a_verdict_without_an_interval_needs_all_batches_far_from_zero() {
        let rising = |from: f64| (0..32).map(|k| from + f64::from(k) / 32.0).collect::<Vec<_>>();
        assert!(Estimate::of(&rising(5.0), TEN).unwrap().p_value(0.0) < 1e-9);
        assert!((Estimate::of(&rising(0.1), TEN).unwrap().p_value(0.0) - 1.0).abs() < 1e-9);
        assert!((Estimate::of(&[9.0; 3], TEN).unwrap().p_value(0.0) - 1.0).abs() < 1e-9, "too few rounds");
    }

    #[test]
    fn four_rounds_have_no_interval_but_a_verdict_where_all_are_far_from_zero() {
        let four = |values: [f64; 4]| Estimate::of(&values, TEN).unwrap();
        let server = four([2.5, 2.4, 2.55, 2.45]);
        assert_eq!(server.figure(0.05).why, Some(NoInterval::TooFewRounds));
        assert!(server.p_value(0.0) < 1e-3, "{}", server.p_value(0.0));
        assert!((server.p_value(2.4) - 1.0).abs() < 1e-9, "not farther than the step");
        assert!((four([2.5, 1.0, 2.55, 2.45]).p_value(0.0) - 1.0).abs() < 1e-9, "within their range of zero");
        assert!((four([2.5, -1.0, 2.55, 2.45]).p_value(0.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_p_value_is_the_alpha_whose_interval_just_contains_zero() {
        let values: Vec<f64> = (0..40).map(|k| 1.0 + f64::from(k * 7 % 11) / 5.0 - 1.0).collect();
        let estimate = Estimate::of(&values, TEN).unwrap();
        for step in [0.0, 0.3] {
            let p = estimate.p_value(step);
            assert!((estimate.half_width(p) - (estimate.value - step)).abs() < 1e-3, "{p}");
        }
        assert!((estimate.p_value(estimate.value + 1.0) - 1.0).abs() < 1e-9, "within the resolution");
        assert!(estimate.smallest_detectable(0.05).unwrap() > estimate.half_width(0.05));
    }

    #[test]
    fn a_difference_adds_errors_and_a_mean_reduces_them() {
        let values: Vec<f64> = (0..40).map(|k| f64::from(k * 7 % 11)).collect();
        let one = Estimate::of(&values, TEN).unwrap();
        let difference = one.minus(&one);
        assert!((difference.half_width(0.05) - one.half_width(0.05) * 2.0_f64.sqrt()).abs() < 1e-9);
        let mean = Estimate::mean(&[one.clone(), one.clone(), one.clone(), one.clone()]).unwrap();
        assert!((mean.half_width(0.05) - one.half_width(0.05) / 2.0).abs() < 1e-9);
        assert_eq!(Estimate::mean(&[]), None);
    }

    #[test]
    fn holm_stops_at_the_first_hypothesis_that_is_not_confirmed() {
        assert_eq!(holm(&[0.04, 0.001, 0.03, 0.012], 0.05), [0.025, 0.0125, 0.025, 0.05 / 3.0]);
        assert_eq!(holm(&[], 0.05), [0.0; 0]);
    }

    #[test]
    fn equal_values_have_an_interval_of_width_zero() {
        for n in [5, 6, 16, 40] {
            let figure = median_over(&vec![1234.0; n], TEN).unwrap();
            assert!((figure.low.unwrap() - 1234.0).abs() < 1e-6 && (figure.high.unwrap() - 1234.0).abs() < 1e-6);
        }
    }

    proptest! {
        #[test]
        fn intervals_contain_their_figure_for_all_values(values in proptest::collection::vec(-1e18..1e18_f64, 1..60)) {
            let figure = median_over(&values, TEN).unwrap();
            prop_assert!(figure.low.is_none_or(|low| low <= figure.value), "{figure:?}");
            prop_assert!(figure.high.is_none_or(|high| figure.value <= high), "{figure:?}");
            prop_assert_eq!(figure.low.is_some(), figure.why.is_none());
        }

        #[test]
        fn scaled_values_have_scaled_intervals(values in proptest::collection::vec(1.0..1e9_f64, 5..60), scale in 1e-3..1e3_f64) {
            let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
            let (one, other) = (median_over(&values, TEN).unwrap(), median_over(&scaled, TEN).unwrap());
            prop_assert_eq!(one.why, other.why);
            let client = |a: Option<f64>, b: Option<f64>| a.zip(b).is_none_or(|(a, b)| (a * scale / b - 1.0).abs() < 1e-6);
            prop_assert!(client(one.low, other.low) && client(one.high, other.high), "{:?} {:?}", one, other);
        }
    }
}
