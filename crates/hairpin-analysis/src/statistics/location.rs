//! Where values lie: median, mean, Hodges-Lehmann.

/// The median: the middle value, or the mean of the two in the middle. `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

/// The same of values already in ascending order.
#[must_use]
pub fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let (upper, lower) = (sorted.len() / 2, sorted.len().checked_sub(1)? / 2);
    Some(sorted[lower].midpoint(sorted[upper]))
}

/// The arithmetic mean. `None` of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (n - 1). `None` below two values.
#[must_use]
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The differences of two samples, `candidate` - `baseline`: their median is the Hodges-Lehmann estimate of the shift
/// between them (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963).
///
/// Weighting each difference by how often a resample drew its two values gives the estimate of the resample without
/// making the differences anew: the sorting is done once.
pub(crate) struct Differences(Vec<(f64, usize, usize)>);

impl Differences {
    pub(crate) fn new(baseline: &[f64], candidate: &[f64]) -> Self {
        let pairs = (0..baseline.len()).flat_map(|i| (0..candidate.len()).map(move |j| (i, j)));
        let mut sorted: Vec<_> = pairs.map(|(i, j)| (candidate[j] - baseline[i], i, j)).collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        Self(sorted)
    }

    /// The median where the baseline's value `i` was drawn `baseline[i]` times and the candidate's `j` likewise.
    pub(crate) fn weighted_median(&self, baseline: &[u32], candidate: &[u32]) -> f64 {
        let drawn = |counts: &[u32]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        let total = drawn(baseline) * drawn(candidate);
        let (mut below, mut lower) = (0, None);
        for &(difference, i, j) in &self.0 {
            below += u64::from(baseline[i]) * u64::from(candidate[j]);
            if lower.is_none() && 2 * below >= total && below > 0 {
                lower = Some(difference);
            }
            if 2 * below > total {
                return lower.unwrap_or(difference).midpoint(difference);
            }
        }
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn locations_of_nothing_are_none() {
        assert_eq!((median(&[]), mean(&[]), standard_deviation(&[1.0])), (None, None, None));
        assert_eq!(
            (median(&[3.0, 1.0]), mean(&[3.0, 2.0]), standard_deviation(&[1.0, 1.0])),
            (Some(2.0), Some(2.5), Some(0.0))
        );
    }

    proptest! {
        #[test]
        fn weights_are_repetitions(a in proptest::collection::vec((0.0..100.0_f64, 0_u32..4), 1..8),
                                   b in proptest::collection::vec((0.0..100.0_f64, 0_u32..4), 1..8)) {
            let repeated = |values: &[(f64, u32)]| -> Vec<f64> {
                values.iter().flat_map(|(value, times)| std::iter::repeat_n(*value, *times as usize)).collect()
            };
            let split = |values: &[(f64, u32)]| -> (Vec<f64>, Vec<u32>) { values.iter().copied().unzip() };
            let ((one, drawn_one), (other, drawn_other)) = (split(&a), split(&b));
            let (long_one, long_other) = (repeated(&a), repeated(&b));
            let all: Vec<f64> = long_one.iter().flat_map(|x| long_other.iter().map(move |y| y - x)).collect();
            let ours = Differences::new(&one, &other).weighted_median(&drawn_one, &drawn_other);
            match median(&all) {
                Some(expected) => prop_assert!((ours - expected).abs() < 1e-9, "{ours} {expected}"),
                None => prop_assert!(ours.is_nan()),
            }
        }
    }
}
