//! Statistics for measurements: medians, quantiles, and an interval of a median.

/// Returns the median; NaN without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns the quantile, interpolated linearly (type 7 of Hyndman and Fan, 1996); NaN without values.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let sorted = sorted(values);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// Returns an interval that contains the true median with a probability of at least 95 %, for any distribution.
///
/// The interval is from order statistic k to n+1-k (inverted sign test): k is the largest number for which a fair coin
/// shows fewer than k heads in n throws with a probability of at most 2.5 %. With fewer than 6 values no such k exists,
/// and the interval is the whole range.
pub(crate) fn median_interval(values: &[f64]) -> (f64, f64) {
    let sorted = sorted(values);
    let count = sorted.len();
    if count == 0 {
        return (f64::NAN, f64::NAN);
    }
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut below = 0.0;
    let mut rank = 0;
    while rank < count / 2 && below + term <= 0.025 {
        below += term;
        rank += 1;
        term *= (count + 1 - rank) as f64 / rank as f64;
    }
    let rank = rank.max(1);
    (sorted[rank - 1], sorted[count - rank])
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!((quantile(&[0.0, 10.0], 0.05) - 0.5).abs() < 1e-12);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_interval_of_a_median_agrees_with_tables_of_the_sign_test() {
        // Numbers of values, and the ranks of the interval's bounds.
        for (count, low, high) in [(1, 1, 1), (5, 1, 5), (6, 1, 6), (10, 2, 9), (21, 6, 16), (100, 40, 61)] {
            let values: Vec<f64> = (1..=count).map(f64::from).collect();
            assert_eq!(median_interval(&values), (f64::from(low), f64::from(high)), "{count}");
        }
    }
}
