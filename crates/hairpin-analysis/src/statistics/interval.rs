//! 95 % intervals over rounds.
//!
//! Six values and more: the bootstrap (Efron 1979) of the median, of the ratio of two, or of
//! the (unpaired) Hodges-Lehmann shift, 2 000 resamples,
//! with the *expanded* percentile interval of Hesterberg, "What Teachers Should Know About the Bootstrap" (The
//! American Statistician 69(4), 2015, section on the t-adjustment): the plain percentile interval of ten values is
//! too narrow, so alpha/2 = 2.5 % is replaced by Phi(-sqrt(n / (n - 1)) t), where t is Student's 97.5 % point of
//! n - 1 degrees of freedom.
//!
//! Three to five values: no resample can lie beyond the values seen, and those hold the true median with less than
//! 95 % (1 - 2^(1-n)). There the interval is Student's on the logarithms, which is wide, as it should be. Where its
//! bounds are more than [`SAYS_NOTHING_FROM`] times apart it says nothing, and there is none.
//!
//! One or two values: no interval. Of two, one degree of freedom is left, and Student's t is 12.7: rounds that differ
//! by half would have bounds 170 times apart.

use hairpin_model::figure::Figure;
use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::distribution::{normal_cdf, student_quantile};
use super::generator;
use super::location::{Differences, mean, median, median_of_sorted, standard_deviation};

/// Resamples of every bootstrap.
pub const RESAMPLES: usize = 2000;
/// Fewer values than this cannot give 95 % by resampling.
pub const FEWEST_TO_RESAMPLE: usize = 6;
/// Fewer values than this have no interval.
pub const FEWEST: usize = 3;
/// Bounds this many times apart say nothing of a figure.
pub const SAYS_NOTHING_FROM: f64 = 100.0;
/// More pairs than this make the Hodges-Lehmann estimate too slow; the median takes its place.
const MOST_TO_PAIR: usize = 200;

/// The median over rounds and its 95 % interval. `about` names the figure, so that each has its own random numbers.
/// `None` of nothing.
#[must_use]
pub fn median_figure(values: &[f64], seed: u64, about: &str) -> Option<Figure> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let value = median_of_sorted(&sorted)?;
    let (low, high) = match sorted.len() {
        too_few if too_few < FEWEST => return Some(Figure::bare(value)),
        few if few < FEWEST_TO_RESAMPLE => match student_on_logarithms(&sorted) {
            Some(bounds) => bounds,
            None => return Some(Figure::bare(value)),
        },
        _ => percentiles(resampled_medians(&sorted, &mut generator(seed, about)), expanded_tail(sorted.len())),
    };
    Some(Figure::new(value, low.min(value), high.max(value)))
}

/// The median of differences (of either sign, for instance log-ratios of paired rounds) and its 95 % interval.
/// `None` of nothing.
///
/// The median and not the Hodges-Lehmann estimate: with ten pairs and 4 % noise both call a +10 % shift (96 % and
/// 99 % of the time), but where one round in twenty is 1.5 times too slow the median still does so in 84 %, the other
/// in 65 %, as resamples hold such pairs several times.
#[must_use]
pub fn median_difference(differences: &[f64], seed: u64, about: &str) -> Option<Figure> {
    let mut sorted = differences.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let value = median_of_sorted(&sorted)?;
    let (low, high) = match sorted.len() {
        too_few if too_few < FEWEST => return Some(Figure::bare(value)),
        few if few < FEWEST_TO_RESAMPLE => student(&sorted)?,
        _ => percentiles(resampled_medians(&sorted, &mut generator(seed, about)), expanded_tail(sorted.len())),
    };
    Some(Figure::new(value, low.min(value), high.max(value)))
}

/// The shift from `baseline` to `candidate`, unpaired (Hodges-Lehmann), and its 95 % interval. `None` of nothing.
///
/// Both samples are resampled; the tail is expanded as for a pooled sample of n + m values with n + m - 2 degrees of
/// freedom. Below six values in either, Welch's interval of the difference of means stands in; below three, none.
#[must_use]
pub fn shift(baseline: &[f64], candidate: &[f64], seed: u64, about: &str) -> Option<Figure> {
    let fewest = baseline.len().min(candidate.len());
    let plain = median(candidate)? - median(baseline)?;
    if fewest < FEWEST {
        return Some(Figure::bare(plain));
    }
    if fewest < FEWEST_TO_RESAMPLE {
        return Some(welch(baseline, candidate).unwrap_or(Figure::bare(plain)));
    }
    let (baseline, candidate) = (thinned(baseline), thinned(candidate));
    let table = Differences::new(&baseline, &candidate);
    let (n, m) = (baseline.len(), candidate.len());
    let value = table.weighted_median(&vec![1; n], &vec![1; m]);
    let mut random = generator(seed, about);
    let resampled = (0..RESAMPLES).map(|_| {
        let left = draw(n, &mut random);
        table.weighted_median(&left, &draw(m, &mut random))
    });
    let degrees = n + m - 2;
    let widening = ((n + m) as f64 / degrees as f64).sqrt();
    let (low, high) = percentiles(resampled.collect(), tail(widening, degrees));
    Some(Figure::new(value, low.min(value), high.max(value)))
}

/// The median of `candidate` over that of `baseline`, unpaired, as a logarithm, and its 95 % interval: what a table
/// that shows both medians may call the change between them. `None` of nothing, and where a median is not above 0.
///
/// Both samples are resampled, with the tail of [`shift`]. Below six values in either, Welch's interval on the logarithms
/// stands in, about the medians' ratio; below three, none.
#[must_use]
pub fn ratio_of_medians(baseline: &[f64], candidate: &[f64], seed: u64, about: &str) -> Option<Figure> {
    let sorted = [baseline, candidate].map(|values| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    });
    let [one, other] = &sorted;
    let (low, high) = (median_of_sorted(one)?, median_of_sorted(other)?);
    if low <= 0.0 || high <= 0.0 {
        return None;
    }
    let value = (high / low).ln();
    let (n, m) = (one.len(), other.len());
    if n.min(m) < FEWEST {
        return Some(Figure::bare(value));
    }
    if n.min(m) < FEWEST_TO_RESAMPLE {
        let logarithms =
            |values: &[f64]| values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).collect::<Vec<_>>();
        let half = welch(&logarithms(one), &logarithms(other)).and_then(|about| Some(about.high? - about.value));
        return Some(half.map_or(Figure::bare(value), |half| Figure::new(value, value - half, value + half)));
    }
    let mut random = generator(seed, about);
    let (baselines, candidates) = (resampled_medians(one, &mut random), resampled_medians(other, &mut random));
    let resampled = baselines.iter().zip(&candidates).map(|(one, other)| (other / one).ln()).collect();
    let degrees = n + m - 2;
    let (low, high) = percentiles(resampled, tail(((n + m) as f64 / degrees as f64).sqrt(), degrees));
    Some(Figure::new(value, low.min(value), high.max(value)))
}

/// In ascending order, and at most [`MOST_TO_PAIR`] of them, evenly spaced by rank.
fn thinned(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    if sorted.len() <= MOST_TO_PAIR {
        return sorted;
    }
    (0..MOST_TO_PAIR).map(|k| sorted[(2 * k + 1) * sorted.len() / (2 * MOST_TO_PAIR)]).collect()
}

/// How often each of `n` positions was drawn in `n` draws with replacement.
fn draw(n: usize, random: &mut Xoshiro256PlusPlus) -> Vec<u32> {
    let mut drawn = vec![0; n];
    for _ in 0..n {
        drawn[random.random_range(0..n)] += 1;
    }
    drawn
}

fn resampled_medians(sorted: &[f64], random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    (0..RESAMPLES)
        .map(|_| {
            let drawn = draw(sorted.len(), random);
            let at_rank = |rank: usize| {
                let mut below = 0;
                let position = drawn.iter().position(|count| {
                    below += *count as usize;
                    below > rank
                });
                sorted[position.unwrap_or(sorted.len() - 1)]
            };
            at_rank((sorted.len() - 1) / 2).midpoint(at_rank(sorted.len() / 2))
        })
        .collect()
}

/// The interval between the `tail` and the 1 - `tail` quantile of a bootstrap distribution.
fn percentiles(mut resampled: Vec<f64>, tail: f64) -> (f64, f64) {
    resampled.sort_unstable_by(f64::total_cmp);
    let tail = (tail * resampled.len() as f64).floor() as usize;
    let tail = tail.min((resampled.len() - 1) / 2);
    (resampled[tail], resampled[resampled.len() - 1 - tail])
}

/// What replaces alpha/2 = 2.5 % for `n` values: Phi(-sqrt(n / (n - 1)) t).
#[must_use]
pub fn expanded_tail(n: usize) -> f64 {
    let n = n.max(2);
    tail((n as f64 / (n - 1) as f64).sqrt(), n - 1)
}

fn tail(widening: f64, degrees: usize) -> f64 {
    normal_cdf(-widening * student_quantile(0.975, u32::try_from(degrees).unwrap_or(u32::MAX)))
}

/// Student's interval of the mean; `None` below two values.
fn student(values: &[f64]) -> Option<(f64, f64)> {
    let (mean, deviation) = (mean(values)?, standard_deviation(values)?);
    let n = values.len();
    let half = student_quantile(0.975, u32::try_from(n - 1).ok()?) * deviation / (n as f64).sqrt();
    Some((mean - half, mean + half))
}

/// Student's interval on the logarithms where all values are positive, else on the values; `None` where it says nothing.
fn student_on_logarithms(values: &[f64]) -> Option<(f64, f64)> {
    if values.iter().any(|value| *value <= 0.0) {
        return student(values);
    }
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let (low, high) = student(&logarithms)?;
    (high - low <= SAYS_NOTHING_FROM.ln()).then(|| (low.exp(), high.exp()))
}

/// Welch's interval of the difference of means (Welch, Biometrika 34, 1947), degrees of freedom rounded down.
fn welch(baseline: &[f64], candidate: &[f64]) -> Option<Figure> {
    let part = |values: &[f64]| Some(standard_deviation(values)?.powi(2) / values.len() as f64);
    let value = mean(candidate)? - mean(baseline)?;
    let (a, b) = (part(baseline)?, part(candidate)?);
    let share = |part: f64, n: usize| part * part / (n - 1) as f64;
    let degrees = (a + b).powi(2) / (share(a, baseline.len()) + share(b, candidate.len()));
    let degrees = if degrees.is_finite() { degrees.max(1.0) as u32 } else { 1 };
    let half = student_quantile(0.975, degrees) * (a + b).sqrt();
    Some(Figure::new(value, value - half, value + half))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_has_no_figure_and_two_values_no_interval() {
        assert_eq!(median_figure(&[], 1, ""), None);
        assert_eq!(median_figure(&[7.0], 1, ""), Some(Figure::bare(7.0)));
        assert_eq!(median_figure(&[7.0, 9.0], 1, ""), Some(Figure::bare(8.0)));
        assert_eq!(median_difference(&[-7.0], 1, ""), Some(Figure::bare(-7.0)));
        assert_eq!(median_difference(&[-7.0, 9.0], 1, ""), Some(Figure::bare(1.0)));
        assert_eq!(shift(&[1.0], &[], 1, ""), None);
        assert_eq!(shift(&[1.0], &[3.0], 1, ""), Some(Figure::bare(2.0)));
        assert_eq!(shift(&[1.0, 2.0, 3.0], &[3.0, 5.0], 1, ""), Some(Figure::bare(2.0)));
    }

    #[test]
    fn three_values_have_an_interval_unless_it_says_nothing() {
        // ln(1.1) is 0.0953, the standard deviation of -0.0953, 0, 0.0953; 4.3027 is t of two degrees of freedom.
        let steady = median_figure(&[10.0 / 1.1, 10.0, 11.0], 1, "").unwrap();
        let fold = (4.302_65 * 1.1_f64.ln() / 3.0_f64.sqrt()).exp();
        assert!((steady.low.unwrap() - 10.0 / fold).abs() < 1e-3, "{steady:?}");
        assert!((steady.high.unwrap() - 10.0 * fold).abs() < 1e-3, "{steady:?}");
        assert_eq!(median_figure(&[44e6, 2.3e6, 0.1e6], 1, ""), Some(Figure::bare(2.3e6)));
        assert!(shift(&[1.0, 1.1, 1.2], &[3.0, 3.1, 3.2], 1, "").unwrap().excludes(0.0));
    }

    #[test]
    fn the_ratio_of_medians_is_that_of_the_medians_whatever_the_rounds_between() {
        // Of two modes: the medians are in one each, while the median of all differences lies between them.
        let baseline = [1.0, 1.0, 1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 4.0];
        let candidate = [1.0, 1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 4.0, 4.0];
        let ratio = ratio_of_medians(&baseline, &candidate, 1, "").unwrap();
        assert!((ratio.value.exp() - 4.0).abs() < 1e-9 && !ratio.excludes(0.0), "{ratio:?}");
        assert!(shift(&baseline, &candidate, 1, "").unwrap().value.abs() < 1e-9);
        let even = ratio_of_medians(&[1.0, 2.0, 3.0, 4.0], &[2.0, 4.0, 6.0, 8.0], 1, "").unwrap();
        assert!((even.value.exp() - 2.0).abs() < 1e-9, "of 2.5 and 5: {even:?}");
        assert_eq!(ratio_of_medians(&[1.0], &[3.0], 1, ""), Some(Figure::bare(3.0_f64.ln())));
        assert_eq!(ratio_of_medians(&[0.0; 7], &[3.0; 7], 1, ""), None);
        assert_eq!(ratio_of_medians(&[], &[3.0; 7], 1, ""), None);
    }

    #[test]
    fn values_all_alike_have_an_interval_of_no_width() {
        for n in [3, 5, 6, 10] {
            let figure = median_figure(&vec![1234.0; n], 1, "").unwrap();
            assert!((figure.low.unwrap() - 1234.0).abs() < 1e-6 && (figure.high.unwrap() - 1234.0).abs() < 1e-6);
        }
    }

    #[test]
    fn ten_values_expand_the_tail_as_the_paper_says() {
        // Hesterberg 2015: sqrt(10/9) x 2.2622 = 2.3845 standard deviations, 0.86 % beyond.
        assert!((expanded_tail(10) - 0.008_55).abs() < 0.000_05, "{}", expanded_tail(10));
        assert!((expanded_tail(1000) - 0.025).abs() < 0.000_5);
    }

    #[test]
    fn the_seed_and_the_name_choose_the_resamples() {
        let values: Vec<f64> = (0..15).map(|k| f64::from(k * k)).collect();
        assert_eq!(median_figure(&values, 1, "a"), median_figure(&values, 1, "a"));
        let draws = |seed, about| draw(50, &mut generator(seed, about));
        assert_ne!(draws(1, "a"), draws(2, "a"));
        assert_ne!(draws(1, "a"), draws(1, "b"));
    }

    proptest! {
        #[test]
        fn intervals_hold_their_figure_whatever_the_values(values in proptest::collection::vec(-1e18..1e18_f64, 2..20)) {
            for figure in [median_figure(&values, 3, "x"), median_difference(&values, 3, "x"), shift(&values, &values, 3, "x")] {
                let figure = figure.unwrap();
                prop_assert!(figure.low.is_none_or(|low| low <= figure.value), "{figure:?}");
                prop_assert!(figure.high.is_none_or(|high| figure.value <= high), "{figure:?}");
                prop_assert_eq!(figure.low.is_some(), figure.high.is_some());
                prop_assert!(values.len() < FEWEST_TO_RESAMPLE || figure.low.is_some());
            }
        }

        #[test]
        fn the_order_of_values_does_not_matter(mut values in proptest::collection::vec(1.0..1e9_f64, 2..20)) {
            let forwards = median_figure(&values, 3, "x");
            values.reverse();
            prop_assert_eq!(median_figure(&values, 3, "x"), forwards);
        }
    }
}
