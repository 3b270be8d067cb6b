//! Quantities as typed by the user: `4KiB`, `1.5ms`, `10000`.

use crate::refused::Refused;

/// A unit: spelling, and size in the smallest unit. In a list, a spelling must precede its suffixes: `ms` before `s`.
pub type Unit = (&'static str, u64);

pub const BYTE_UNITS: &[Unit] = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
    // Binary, as for iperf3.
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
];
pub const BIT_UNITS: &[Unit] = &[("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
const TIME_UNITS: &[Unit] = &[
    ("d", 86_400_000_000_000),
    ("min", 60_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
    ("s", 1_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
];

/// Why a text is not a whole number of the smallest unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inexact {
    NoNumber,
    NoUnit,
    TooFine,
    TooLarge,
}

/// Parses a decimal number with a unit and returns the exact number of smallest units.
///
/// # Errors [`Inexact`] if the quantity is not a whole number of smallest units.
pub fn exact(text: &str, units: &[Unit]) -> Result<u64, Inexact> {
    let text = text.trim();
    let suffixed = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?.trim_end(), *scale)));
    let Some((number, scale)) = suffixed else {
        return Err(if decimal(text).is_some() { Inexact::NoUnit } else { Inexact::NoNumber });
    };
    let (digits, decimals) = decimal(number).ok_or(Inexact::NoNumber)?;
    let divisor = 10_u128.checked_pow(decimals).ok_or(Inexact::TooFine)?;
    let scaled = digits.ok_or(Inexact::TooLarge)?.checked_mul(u128::from(scale)).ok_or(Inexact::TooLarge)?;
    if !scaled.is_multiple_of(divisor) {
        return Err(Inexact::TooFine);
    }
    u64::try_from(scaled / divisor).map_err(|_| Inexact::TooLarge)
}

/// Returns the digits of `12.5` as one number (`None` if there are too many), and the number of decimals.
fn decimal(text: &str) -> Option<(Option<u128>, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let all_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits || text.ends_with('.') {
        return None;
    }
    Some((format!("{whole}{fraction}").parse().ok(), u32::try_from(fraction.len()).unwrap_or(u32::MAX)))
}

/// A number of bytes: `4096`, `4KiB`, `1.5MB`.
///
/// # Errors [`Refused`] if `text` is not a whole, finite number of bytes.
pub fn bytes(text: &str) -> Result<u64, Refused> {
    let number = match exact(text, BYTE_UNITS) {
        Err(Inexact::NoUnit) => exact(text, &[("", 1)]),
        number => number,
    };
    let number = number.ok().filter(|number| *number <= MAX_NUMBER);
    number.ok_or_else(|| invalid(text, "a number of bytes", "for instance 4096, 64KiB or 1MiB"))
}

/// A duration in nanoseconds: `250ms`, `1.5s`, `20us`. The unit is required.
///
/// # Errors
/// [`Refused`] if the unit is missing or the duration is not a whole number of nanoseconds.
pub fn duration_ns(text: &str) -> Result<u64, Refused> {
    let examples = "for instance 250ms, 1.5s or 20us";
    match exact(text, TIME_UNITS) {
        Ok(ns) if ns <= MAX_NUMBER => Ok(ns),
        Ok(_) | Err(Inexact::TooLarge) => {
            Err(Refused::new(format!("`{text}` is too long"), "for instance 30d, 12h or 250ms"))
        }
        Err(Inexact::NoUnit) => Err(invalid(text, "a duration: its unit is missing", examples)),
        Err(Inexact::NoNumber | Inexact::TooFine) => Err(invalid(text, "a duration", examples)),
    }
}

/// A positive rate per second: `1000`, `1k`, `2.5M`.
///
/// # Errors [`Refused`] if `text` is not finite and above zero.
pub fn rate_per_s(text: &str) -> Result<f64, Refused> {
    let units = &[("k", 1e3), ("K", 1e3), ("M", 1e6)];
    let rate = scaled(text.trim_end_matches("/s"), units).filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| invalid(text, "a rate", "a number of messages per second above 0, for instance 1000 or 20k"))
}

/// A positive rate in bits per second: `9.5mbit`, as for links.
///
/// # Errors [`Refused`] if `text` lacks a unit or is not a whole number above zero.
pub fn bits_per_s(text: &str) -> Result<f64, Refused> {
    let rate = exact(text, BIT_UNITS).ok().filter(|rate| (1..=MAX_NUMBER).contains(rate));
    let rate =
        rate.ok_or_else(|| invalid(text, "a rate", "bits per second with a unit, for instance 500kbit or 9.5mbit"));
    rate.map(|rate| rate as f64)
}

/// A share: `5%` or `0.05`.
///
/// # Errors [`Refused`] if `text` is not a finite number.
pub fn share(text: &str) -> Result<f64, Refused> {
    let share = scaled(text.trim_start_matches('+'), &[("%", 0.01)]).filter(|share| share.is_finite());
    share.ok_or_else(|| invalid(text, "a share", "for instance 5% or 0.05"))
}

fn invalid(given: &str, expected: &str, hint: &str) -> Refused {
    Refused::new(format!("`{given}` is not {expected}"), hint)
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let suffixed = units.iter().find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number, *scale)));
    let (number, scale) = suffixed.unwrap_or((text, 1.0));
    number.trim().parse::<f64>().ok().map(|number| number * scale)
}

const MAX_NUMBER: u64 = 9_000_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_read() {
        assert_eq!(bytes("64KiB").unwrap(), 65_536);
        assert_eq!(bytes("64K").unwrap(), 65_536);
        assert_eq!(bytes("1.5kB").unwrap(), 1500);
        assert_eq!(duration_ns("1.5ms").unwrap(), 1_500_000);
        assert_eq!(duration_ns("30d").unwrap(), 2_592_000_000_000_000);
        assert_eq!(duration_ns("20us").unwrap(), 20_000);
        assert_eq!(duration_ns(" 1.000000001 s").unwrap(), 1_000_000_001);
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
        assert!(rate_per_s("0").is_err() && duration_ns("0.5ns").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (bytes(&text), duration_ns(&text), rate_per_s(&text), bits_per_s(&text), share(&text));
        }
    }
}
