//! Detects drift: Theil-Sen slope and Mann-Kendall test.

use super::distribution::kendall_p;
use super::location::median;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Change of the value per unit of time: the median of the slopes between all pairs of points (Theil 1950; Sen,
    /// Journal of the American Statistical Association 63, 1968).
    pub slope: f64,
    /// Probability of a trend at least as clear if there is no true trend: two-sided Mann-Kendall test (Mann,
    /// Econometrica 13, 1945; Kendall 1938), exact for up to 30 values without ties.
    pub p: f64,
}

/// Computes the trend of `points` (time, value); `None` for fewer than three points or if all times are equal.
///
/// Quadratic in the number of points; above 1 000 points, a regular subsample is used.
pub fn trend(points: &[(f64, f64)]) -> Option<Trend> {
    let step = points.len().div_ceil(1000).max(1);
    let mut points: Vec<(f64, f64)> = points.iter().copied().step_by(step).collect();
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    if points.len() < 3 {
        return None;
    }
    let (mut slopes, mut statistic) = (Vec::new(), 0_i64);
    for (later, &(time, value)) in points.iter().enumerate() {
        for &(earlier_time, earlier_value) in &points[..later] {
            if time > earlier_time {
                slopes.push((value - earlier_value) / (time - earlier_time));
                statistic += i64::from(value > earlier_value) - i64::from(value < earlier_value);
            }
        }
    }
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    let (variance, ties) = variance_of_statistic(&values);
    Some(Trend { slope: median(&slopes)?, p: kendall_p(statistic, points.len(), variance, ties) })
}

/// Returns the variance of Kendall's S, corrected for ties, and whether there are ties.
fn variance_of_statistic(values: &[f64]) -> (f64, bool) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let groups = sorted.chunk_by(|a, b| a.total_cmp(b).is_eq()).map(|group| group.len() as f64);
    let (mut tied, mut ties) = (0.0, false);
    for group in groups.filter(|group| *group > 1.0) {
        tied += term(group);
        ties = true;
    }
    ((term(values.len() as f64) - tied) / 18.0, ties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_outliers_keeps_its_slope() {
        let mut points: Vec<(f64, f64)> = (0..20).map(|k| (f64::from(k), 5.0 + 2.0 * f64::from(k))).collect();
        points[3].1 = 1000.0;
        points[17].1 = -1000.0;
        let trend = trend(&points).unwrap();
        assert!((trend.slope - 2.0).abs() < 1e-9);
        assert!(trend.p < 0.001, "{}", trend.p);
    }

    #[test]
    fn constant_or_short_series_have_no_trend() {
        assert_eq!(trend(&[(0.0, 1.0), (1.0, 2.0)]), None, "two points");
        assert_eq!(trend(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None, "one moment");
        let flat = trend(&[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]).unwrap();
        assert_eq!((flat.slope, flat.p), (0.0, 1.0));
    }

    #[test]
    fn ties_reduce_the_variance() {
        // Kendall's variance of 4 values is 4 x 3 x 13 / 18; a tie of two subtracts 2 x 1 x 9 / 18.
        assert_eq!(variance_of_statistic(&[1.0, 2.0, 3.0, 4.0]), (156.0 / 18.0, false));
        assert_eq!(variance_of_statistic(&[1.0, 2.0, 2.0, 4.0]), (138.0 / 18.0, true));
    }
}
