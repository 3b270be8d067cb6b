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
    fn kendalls_distribution_counts_orders() {
        // Of the 24 orders of four values, one has S = 6 and three have S = 4; both signs count.
        assert!((kendall_p(6, 4, 0.0, false) - 2.0 / 24.0).abs() < 1e-12);
        assert!((kendall_p(-4, 4, 0.0, false) - 8.0 / 24.0).abs() < 1e-12);
        assert!((kendall_p(0, 4, 0.0, false) - 1.0).abs() < 1e-12);
    }
}
