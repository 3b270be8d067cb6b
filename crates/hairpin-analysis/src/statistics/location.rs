//! Location and spread of values.

/// Returns the median: the middle value, or the mean of the two middle values. `None` if `values` is empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

pub fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let (upper, lower) = (sorted.len() / 2, sorted.len().checked_sub(1)? / 2);
    Some(sorted[lower].midpoint(sorted[upper]))
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (n - 1). `None` below two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_of_empty_slices_are_none() {
        assert_eq!((median(&[]), mean(&[]), standard_deviation(&[1.0])), (None, None, None));
        assert_eq!(
            (median(&[3.0, 1.0]), mean(&[3.0, 2.0]), standard_deviation(&[1.0, 1.0])),
            (Some(2.0), Some(2.5), Some(0.0))
        );
    }
}
