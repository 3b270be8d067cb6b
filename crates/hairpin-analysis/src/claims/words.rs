//! Figures in the unit in which a text publishes them.

use hairpin_model::figure::Figure;

/// A number with three significant digits: `0.0134`, `4.52`, `1710`.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let places = (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0);
    format!("{value:.*}", places as usize)
}

/// `4.52 bytes/ms`.
pub(super) fn quantity(value: f64, unit: &str) -> String {
    format!("{} {unit}", number(value))
}

/// `4.52 bytes/ms (4.40 to 4.61)`.
pub(super) fn figure(of: &Figure, unit: &str) -> String {
    match (of.low, of.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", quantity(of.value, unit), number(low), number(high)),
        _ => quantity(of.value, unit),
    }
}

/// `0.993 (0.992 to 0.994)`: shares are told to a thousandth, as those near 0 have no digits beyond it that count.
pub(super) fn share(of: &Figure) -> String {
    // Adding 0 turns a negative zero into zero.
    let number = |value: f64| format!("{:.3}", (value * 1e3).round() / 1e3 + 0.0);
    match (of.low, of.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", number(of.value), number(low), number(high)),
        _ => number(of.value),
    }
}

/// A published number as it was published.
pub(super) fn exactly(value: f64, unit: &str) -> String {
    format!("{value} {unit}")
}

/// `0.0406 ms` of nanoseconds.
pub(super) fn milliseconds(ns: i64) -> String {
    quantity(ns as f64 / 1e6, "ms")
}

/// `a, b and c`.
pub(super) fn list(parts: &[impl AsRef<str>]) -> String {
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    match parts.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => parts.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_whatever_their_size() {
        let texts = [0.0134, 0.25, 4.518, 44.0, 1710.4, 0.0].map(number);
        assert_eq!(texts, ["0.0134", "0.250", "4.52", "44.0", "1710", "0"]);
        assert_eq!(figure(&Figure::new(4.5, 4.4, 4.61), "bytes/ms"), "4.50 bytes/ms (4.40 to 4.61)");
        assert_eq!(figure(&Figure::bare(4.5), "x"), "4.50 x");
        assert_eq!(exactly(410_403.72, "ms"), "410403.72 ms");
        assert_eq!(share(&Figure::new(-0.000_2, -0.0893, 0.000_7)), "0.000 (-0.089 to 0.001)");
        assert_eq!(milliseconds(-95_615_000), "-95.6 ms");
        assert_eq!([list(&["a", "b", "c"]), list(&["a", "b"]), list(&["a"])], ["a, b and c", "a and b", "a"]);
    }
}
