//! Figures in the unit of the published text.

use hairpin_model::Figure;
use hairpin_model::quantities::{thousandths, three_digits};

/// `4.52 bytes/ms`.
pub(super) fn quantity(value: f64, unit: &str) -> String {
    format!("{} {unit}", three_digits(value))
}

/// `4.52 bytes/ms (4.40 to 4.61)`.
pub(super) fn figure(of: &Figure, unit: &str) -> String {
    match (of.low, of.high) {
        (Some(low), Some(high)) => {
            format!("{} ({} to {})", quantity(of.value, unit), three_digits(low), three_digits(high))
        }
        _ => quantity(of.value, unit),
    }
}

/// `0.993 (0.992 to 0.994)`.
pub(super) fn share(of: &Figure) -> String {
    match (of.low, of.high) {
        (Some(low), Some(high)) => {
            format!("{} ({} to {})", thousandths(of.value), thousandths(low), thousandths(high))
        }
        _ => thousandths(of.value),
    }
}

/// A published number, unrounded.
pub(super) fn exactly(value: f64, unit: &str) -> String {
    format!("{value} {unit}")
}

/// `0.0406 ms`.
pub(super) fn milliseconds(ns: i64) -> String {
    quantity(ns as f64 / 1e6, "ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_printed_in_the_unit_of_the_text() {
        assert_eq!(figure(&Figure::new(4.5, 4.4, 4.61), "bytes/ms"), "4.50 bytes/ms (4.40 to 4.61)");
        assert_eq!(figure(&Figure::bare(4.5), "x"), "4.50 x");
        assert_eq!(exactly(410_403.72, "ms"), "410403.72 ms");
        assert_eq!(share(&Figure::new(-0.000_2, -0.0893, 0.000_7)), "0.000 (-0.089 to 0.001)");
        assert_eq!(milliseconds(-95_615_000), "-95.6 ms");
    }
}
