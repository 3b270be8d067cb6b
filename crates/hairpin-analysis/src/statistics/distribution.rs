//! Distribution functions: normal, Student's t and Kendall's S.

use std::f64::consts::PI;

/// More degrees of freedom of Student's t are treated as this number (2 % points differ by under 0.3 %).
const MAX_DEGREES_OF_FREEDOM: u32 = 500;

/// Computes the standard normal distribution function.
///
/// Series of Marsaglia, "Evaluating the Normal Distribution", Journal of Statistical Software 11(4), 2004; absolute
/// error under 1e-14. Returns 0 or 1 beyond 8 standard deviations.
pub fn normal_cdf(z: f64) -> f64 {
    if z.is_nan() {
        return f64::NAN;
    }
    if z.abs() > 8.0 {
        return if z > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut sum, mut term, mut odd) = (z, z, 1.0);
    while term.abs() > 1e-17 {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
    (0.5 + sum * density).clamp(0.0, 1.0)
}

/// Computes Student's t distribution function for integer degrees of freedom (at least 1).
///
/// Finite series of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
pub fn student_cdf(t: f64, degrees: u32) -> f64 {
    let degrees = degrees.clamp(1, MAX_DEGREES_OF_FREEDOM);
    let angle = (t / f64::from(degrees).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    // A(t | v) is the probability of lying within -t..t.
    let within = if degrees % 2 == 1 {
        let series = cosine_series(cosine, 1, degrees) * cosine;
        let tail = if degrees == 1 { 0.0 } else { sine * series };
        2.0 / PI * (angle + tail)
    } else {
        sine * cosine_series(cosine, 0, degrees)
    };
    0.5 + within / 2.0
}

/// Returns 1 + a cos^2 + ... with the coefficients of the even (`first` 0) or odd (`first` 1) series, up to cos^(v - 2)
/// or cos^(v - 3).
fn cosine_series(cosine: f64, first: u32, degrees: u32) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    let mut k = 2 + first;
    while k < degrees {
        term *= f64::from(k - 1) / f64::from(k) * cosine * cosine;
        sum += term;
        k += 2;
    }
    sum
}

/// Returns the quantile of Student's distribution at `probability`, which must be above 0.5.
pub fn student_quantile(probability: f64, degrees: u32) -> f64 {
    bisect(1e6, 70, |t| student_cdf(t, degrees) < probability)
}

/// Returns the quantile of the standard normal distribution at `probability`, which must be above 0.5.
pub fn normal_quantile(probability: f64) -> f64 {
    bisect(8.0, 60, |z| normal_cdf(z) < probability)
}

/// Returns the interval of a share of which `successes` of `trials` are an estimate, at confidence 1 - `alpha` (Clopper
/// and Pearson, Biometrika 26, 1934).
pub(crate) fn binomial_interval(successes: u64, trials: u64, alpha: f64) -> [f64; 2] {
    // P(X >= k) for X ~ B(trials, p), by the logarithms of its terms, which underflow if there are many trials.
    let at_least = |k: u64, p: f64| {
        let mut term = trials as f64 * (-p).ln_1p();
        let mut below = 0.0;
        for i in 0..k {
            below += term.exp();
            term += ((trials - i) as f64 / (i + 1) as f64).ln() + p.ln() - (-p).ln_1p();
        }
        1.0 - below
    };
    let low = if successes == 0 { 0.0 } else { bisect(1.0, 50, |p| at_least(successes, p) < alpha / 2.0) };
    let is_last = successes >= trials;
    let high = if is_last { 1.0 } else { bisect(1.0, 50, |p| at_least(successes + 1, p) < 1.0 - alpha / 2.0) };
    [low, high]
}

/// Finds by bisection, in `halvings` steps, the boundary in 0..`high` up to which `below` is true.
pub(super) fn bisect(mut high: f64, halvings: u32, below: impl Fn(f64) -> bool) -> f64 {
    let mut low = 0.0;
    for _ in 0..halvings {
        let middle = 0.5 * (low + high);
        *if below(middle) { &mut low } else { &mut high } = middle;
    }
    0.5 * (low + high)
}

/// Returns the probability, without a trend, that Kendall's `|S|` is at least `|statistic|` for `n` values. Exact for
/// up to 30 values without ties (Kendall, "A New Measure of Rank Correlation", Biometrika 30, 1938); otherwise the
/// normal approximation with the given variance and continuity correction.
pub(crate) fn kendall_p(statistic: i64, n: usize, variance: f64, ties: bool) -> f64 {
    let size = statistic.unsigned_abs();
    if size == 0 || n < 2 {
        return 1.0;
    }
    if ties || n > 30 {
        let z = (size as f64 - 1.0) / variance.sqrt();
        return if variance > 0.0 { (2.0 * normal_cdf(-z)).min(1.0) } else { 1.0 };
    }
    // chances[k]: probability of k discordant pairs among n values in random order.
    let mut chances = vec![1.0_f64];
    for values in 2..=n {
        let mut next = vec![0.0; chances.len() + values - 1];
        for (discordant, chance) in chances.iter().enumerate() {
            for more in 0..values {
                next[discordant + more] += chance / values as f64;
            }
        }
        chances = next;
    }
    let pairs = (n * (n - 1) / 2) as u64;
    let discordant = ((pairs - size.min(pairs)) / 2) as usize;
    (2.0 * chances[..=discordant].iter().sum::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 95 % of the standard normal distribution lie within this many standard deviations.
    const NORMAL_95: f64 = 1.959_963_984_540_054;

    #[test]
    fn the_normal_distribution_has_its_known_values() {
        for (z, expected) in [(0.0, 0.5), (1.0, 0.841_344_746_068_542_9), (-3.0, 0.001_349_898_031_630_094_6)] {
            assert!((normal_cdf(z) - expected).abs() < 1e-14, "{z}");
        }
        assert!((normal_cdf(NORMAL_95) - 0.975).abs() < 1e-14);
        assert!((normal_quantile(0.975) - NORMAL_95).abs() < 1e-9);
        assert!((normal_cdf(-100.0), normal_cdf(100.0)) == (0.0, 1.0));
    }

    #[test]
    fn students_quantiles_equal_their_closed_forms() {
        // With one degree of freedom, Student's t is the Cauchy distribution; with two, t is (2p - 1) / sqrt(2p (1 -
        // p)).
        let p = 0.975_f64;
        assert!((student_quantile(p, 1) - (PI * (p - 0.5)).tan()).abs() < 1e-9);
        assert!((student_quantile(p, 2) - (2.0 * p - 1.0) / (2.0 * p * (1.0 - p)).sqrt()).abs() < 1e-9);
        assert!((student_quantile(p, 9) - 2.262_157_162_740_992).abs() < 1e-9, "the tables' value");
        assert!((student_quantile(p, 1_000_000) / NORMAL_95 - 1.0).abs() < 0.003, "nearly normal");
    }

    #[test]
    fn binomial_intervals_equal_those_of_clopper_and_pearson() {
        for (successes, trials, alpha, [low, high]) in [
            (0, 10, 0.05, [0.0, 0.308_497]),
            (10, 10, 0.05, [0.691_503, 1.0]),
            (5, 10, 0.05, [0.187_086, 0.812_914]),
            (1, 10, 0.05, [0.002_529, 0.445_016]),
            (8, 10, 0.05, [0.443_905, 0.974_789]),
            (0, 1, 0.05, [0.0, 0.975]),
            (10, 10, 0.025, [0.645_195, 1.0]),
            // As many rounds as the command line accepts.
            (10_000, 10_000, 0.05, [0.999_631, 1.0]),
            (0, 10_000, 0.05, [0.0, 0.000_369]),
            (9_000, 10_000, 0.05, [0.893_953, 0.905_813]),
        ] {
            let [is_low, is_high] = binomial_interval(successes, trials, alpha);
            let differs = (is_low - low).abs().max((is_high - high).abs());
            assert!(differs < 1e-6, "{successes} of {trials}: {is_low} to {is_high}");
        }
        assert_eq!(binomial_interval(0, 0, 0.05), [0.0, 1.0], "nothing is known without a trial");
    }

    #[test]
    fn a_binomial_interval_covers_its_share_and_narrows_with_trials() {
        let mut width = 1.0;
        for trials in [4, 10, 40, 400, 4000] {
            let [low, high] = binomial_interval(trials / 2, trials, 0.05);
            assert!(low < 0.5 && 0.5 < high && high - low < width && (low + high - 1.0).abs() < 1e-9, "{trials}");
            width = high - low;
            for successes in 0..=trials.min(40) {
                let [low, high] = binomial_interval(successes, trials, 0.05);
                let [mirrored_low, mirrored_high] = binomial_interval(trials - successes, trials, 0.05);
                assert!((low + mirrored_high - 1.0).abs() < 1e-9 && (high + mirrored_low - 1.0).abs() < 1e-9);
                let [wider_low, wider_high] = binomial_interval(successes, trials, 0.01);
                assert!(wider_low <= low && high <= wider_high, "{successes} of {trials}");
            }
        }
    }

    #[test]
    fn kendalls_distribution_counts_orders() {
        // Of the 24 orders of four values, one has S = 6 and three have S = 4; both signs count.
        assert!((kendall_p(6, 4, 0.0, false) - 2.0 / 24.0).abs() < 1e-12);
        assert!((kendall_p(-4, 4, 0.0, false) - 8.0 / 24.0).abs() < 1e-12);
        assert!((kendall_p(0, 4, 0.0, false) - 1.0).abs() < 1e-12);
    }
}
