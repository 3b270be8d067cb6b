//! Quantities as typed by the user: `4KiB`, `1.5ms`, `10000`.

use crate::refused::Refused;

const BYTE_UNITS: &[(&str, f64)] = &[
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1024.0),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("B", 1.0),
];
const TIME_UNITS: &[(&str, f64)] = &[
    ("d", 86_400e9),
    ("min", 60e9),
    ("ms", 1e6),
    ("us", 1e3),
    ("µs", 1e3),
    ("ns", 1.0),
    ("s", 1e9),
    ("h", 3600e9),
    ("m", 60e9),
];

/// A number of bytes: `4096`, `4KiB`, `1.5MB`.
///
/// # Errors
/// [`Refused`] if it is not a whole, finite number of bytes.
pub fn bytes(text: &str) -> Result<u64, Refused> {
    let number = whole(scaled(text, BYTE_UNITS, Some(1.0)));
    number.ok_or_else(|| is_not(text, "a number of bytes", "for instance 4096, 64KiB or 1MiB"))
}

/// A duration in nanoseconds: `250ms`, `1.5s`, `20us`. The unit is required.
///
/// # Errors
/// [`Refused`] if the unit is missing or the number is negative or not finite.
pub fn duration_ns(text: &str) -> Result<u64, Refused> {
    let bare = text.trim().parse::<f64>().is_ok_and(|number| number.is_finite());
    let expected = if bare { "a duration: its unit is missing" } else { "a duration" };
    let scaled = scaled(text, TIME_UNITS, None).map(f64::round);
    if scaled.is_some_and(|ns| ns.is_finite() && ns > MAX_NUMBER) {
        return Err(Refused::new(format!("`{text}` is too long"), "for instance 30d, 12h or 250ms"));
    }
    let number = whole(scaled);
    number.ok_or_else(|| is_not(text, expected, "for instance 250ms, 1.5s or 20us"))
}

/// A positive rate per second: `1000`, `1k`, `2.5M`.
///
/// # Errors
/// [`Refused`] if it is not finite and above zero.
pub fn rate_per_s(text: &str) -> Result<f64, Refused> {
    let units = &[("k", 1e3), ("K", 1e3), ("M", 1e6)];
    let rate = scaled(text.trim_end_matches("/s"), units, Some(1.0)).filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| is_not(text, "a rate", "a number of messages per second above 0, for instance 1000 or 20k"))
}

/// A positive rate in bits per second: `9.5mbit`, as for links.
///
/// # Errors
/// [`Refused`] if its unit is missing, or it is not finite and above zero.
pub fn bits_per_s(text: &str) -> Result<f64, Refused> {
    let units = &[("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
    let rate = scaled(text, units, None).filter(|rate| (1.0..=MAX_NUMBER).contains(rate));
    rate.ok_or_else(|| is_not(text, "a rate", "bits per second with a unit, for instance 500kbit or 9.5mbit"))
}

/// A share: `5%` or `0.05`.
///
/// # Errors
/// [`Refused`] if it is not a finite number.
pub fn share(text: &str) -> Result<f64, Refused> {
    let share = scaled(text.trim_start_matches('+'), &[("%", 0.01)], Some(1.0)).filter(|share| share.is_finite());
    share.ok_or_else(|| is_not(text, "a share", "for instance 5% or 0.05"))
}

fn is_not(given: &str, expected: &str, hint: &str) -> Refused {
    Refused::new(format!("`{given}` is not {expected}"), hint)
}

fn scaled(text: &str, units: &[(&str, f64)], bare: Option<f64>) -> Option<f64> {
    let text = text.trim();
    let suffixed = units.iter().find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number, *scale)));
    let (number, scale) = suffixed.or_else(|| bare.map(|scale| (text, scale)))?;
    number.trim().parse::<f64>().ok().map(|number| number * scale)
}

const MAX_NUMBER: f64 = 9e18;

// Range and wholeness are checked first.
fn whole(number: Option<f64>) -> Option<u64> {
    let number = number?;
    let fits = number.is_finite() && (0.0..=MAX_NUMBER).contains(&number) && number.fract() == 0.0;
    fits.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_read() {
        assert_eq!(bytes("64KiB").unwrap(), 65_536);
        assert_eq!(bytes("1.5kB").unwrap(), 1500);
        assert_eq!(duration_ns("1.5ms").unwrap(), 1_500_000);
        assert_eq!(duration_ns("30d").unwrap(), 2_592_000_000_000_000);
        assert_eq!(duration_ns("20us").unwrap(), 20_000);
        assert!((rate_per_s("20k").unwrap() - 20_000.0).abs() < f64::EPSILON);
        assert!((bits_per_s("9.5mbit").unwrap() - 9.5e6).abs() < 1e-3);
        assert!(bits_per_s("9").is_err() && bits_per_s("0mbit").is_err() && bits_per_s("infbit").is_err());
        assert!((share("+5%").unwrap() - 0.05).abs() < 1e-12);
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "-1", "nan", "inf", "1.5", "4 KB B", "1e30"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        let bare = duration_ns("5").unwrap_err().to_string();
        assert!(bare.starts_with("`5` is not a duration: its unit is missing (hint: for instance 250ms"), "{bare}");
        let long = duration_ns("1000000d").unwrap_err().to_string();
        assert_eq!(long, "`1000000d` is too long (hint: for instance 30d, 12h or 250ms)");
        assert!(rate_per_s("0").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (bytes(&text), duration_ns(&text), rate_per_s(&text), share(&text));
        }
    }
}
