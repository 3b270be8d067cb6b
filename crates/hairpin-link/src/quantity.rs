//! The quantities in a profile: exact decimal numbers with a unit, stored as whole numbers of the smallest unit.
//!
//! Nothing is rounded: `23.5ms` is 23 500 000 ns, and a value finer than the smallest unit is refused. Parsing a
//! displayed quantity gives the same quantity.

use std::fmt::Write as _;

use hairpin_model::parse::{BIT_UNITS, BYTE_UNITS, exact};
use hairpin_model::{Inexact, Refused, Unit};

/// A probability, in whole billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u32);

impl Share {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(1_000_000_000);

    /// `None` if above one.
    pub fn billionths(billionths: u32) -> Option<Self> {
        (billionths <= Self::ALL.0).then_some(Self(billionths))
    }

    /// The probability, from 0 to 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e9
    }

    /// This share of the 2^64 values of a `u64`, rounded down.
    pub(crate) fn of_u64_range(self) -> u128 {
        (u128::from(self.0) << 64) / 1_000_000_000
    }
}

/// Units of time. `m` is not among them because it could mean milli.
const TIME: &[Unit] =
    &[("ms", 1_000_000), ("us", 1_000), ("µs", 1_000), ("ns", 1), ("min", 60_000_000_000), ("s", 1_000_000_000)];
const SHOWN_TIME: &[Unit] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const PERCENT: &[Unit] = &[("%", 10_000_000)];

/// Maximum time in a profile: an hour.
pub const MAX_TIME_NS: u64 = 3_600_000_000_000;

/// Maximum rate in a profile: 1 Tbit/s.
pub const MAX_BITS_PER_S: u64 = 1_000_000_000_000;

/// Maximum bytes in a profile: 1 GiB.
pub const MAX_BYTES: u64 = 1 << 30;

/// Parses a time in ns: `23.5ms`. The unit is required; at most an hour.
pub fn time_ns(text: &str) -> Result<u64, Refused> {
    let examples = "for instance 23.5ms, 200us or 1s";
    let what =
        What { quantity: "a time", units: TIME, smallest: "1 ns", examples, most: MAX_TIME_NS, most_text: "1 hour" };
    what.read(text)
}

/// Parses a rate in bit/s: `5.5mbit`. The unit is required, and decimal; at most 1 Tbit/s.
pub fn rate_bits_per_s(text: &str) -> Result<u64, Refused> {
    let lower = text.to_lowercase();
    let plain = lower.strip_suffix("/s").unwrap_or(&lower);
    if let Some(hint) = bits_for(text).filter(|_| !plain.ends_with("bit")) {
        return Err(Refused::new(format!("`{text}` is not a rate in bits per second"), hint));
    }
    let examples = "for instance 5.5mbit, 500kbit or 1gbit";
    let what = What {
        quantity: "a rate",
        units: BIT_UNITS,
        smallest: "1 bit/s",
        examples,
        most: MAX_BITS_PER_S,
        most_text: "1000 gbit",
    };
    let rate = what.read(plain).map_err(|bad| Refused { what: bad.what.replace(plain, text), ..bad })?;
    if rate == 0 {
        return Err(Refused::new("a rate of 0 lets nothing through", "for an outage use `outage=2s-5s`"));
    }
    Ok(rate)
}

/// A hint to write the rate in bits, if `text` is in bytes (`1MB/s`) or in a unit that can mean bits or bytes.
fn bits_for(text: &str) -> Option<String> {
    let bytes = text.strip_suffix("/s").unwrap_or(text);
    if bytes.ends_with('B') {
        let bytes_per_s = exact(bytes, BYTE_UNITS).ok()?;
        let shown = shown_rate(bytes_per_s.saturating_mul(8));
        return Some(format!("rates are in bits: {shown}"));
    }
    let lower = text.to_lowercase();
    let number = lower.strip_suffix("bps")?;
    let (number, unit) = match number.chars().next_back()? {
        prefix @ ('k' | 'm' | 'g') => (&number[..number.len() - 1], format!("{prefix}bit")),
        _ => (number, "bit".to_owned()),
    };
    exact(&format!("{number}{unit}"), BIT_UNITS).ok()?;
    Some(format!("write {number}{unit}; `bps` can mean bits or bytes"))
}

/// Parses a number of bytes: `64KiB`. The unit is required; at most 1 GiB.
pub fn bytes(text: &str) -> Result<u64, Refused> {
    let examples = "for instance 64KiB, 3000B or 1MiB";
    let what = What {
        quantity: "a number of bytes",
        units: BYTE_UNITS,
        smallest: "1 byte",
        examples,
        most: MAX_BYTES,
        most_text: "1GiB",
    };
    what.read(text)
}

/// Parses a share: `0.1%`. The percent sign is required; at most 100 %.
pub fn share(text: &str) -> Result<Share, Refused> {
    let most = u64::from(Share::ALL.0);
    let examples = "for instance 0.1% or 25%";
    let what =
        What { quantity: "a share", units: PERCENT, smallest: "0.0000001 %", examples, most, most_text: "100%" };
    let billionths = what.read(text)?;
    Ok(Share(u32::try_from(billionths).expect("at most 100 %")))
}

/// Parses a whole number: `17`.
pub fn whole(text: &str) -> Result<u64, Refused> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Refused::new(format!("`{text}` is not a whole number"), "for instance 17"))
}

/// A time as a profile shows it.
pub fn shown_time(ns: u64) -> String {
    shown(ns, SHOWN_TIME, "0ms")
}

/// A rate as a profile shows it.
pub fn shown_rate(bits_per_s: u64) -> String {
    shown(bits_per_s, BIT_UNITS, "0bit")
}

/// A share as a profile shows it.
pub fn shown_share(share: Share) -> String {
    shown(u64::from(share.0), PERCENT, "0%")
}

/// A number of bytes as a profile shows it, in the largest power of 1024 that divides the number.
pub fn shown_bytes(bytes: u64) -> String {
    let unit = BYTE_UNITS[..3].iter().find(|(_, scale)| bytes > 0 && bytes.is_multiple_of(*scale));
    let (spelling, scale) = unit.copied().unwrap_or(("B", 1));
    format!("{}{spelling}", bytes / scale)
}

/// The exact decimal, in the largest unit that does not exceed the value.
fn shown(value: u64, units: &[Unit], zero: &str) -> String {
    if value == 0 {
        return zero.to_owned();
    }
    let fitting = units.iter().find(|(_, scale)| value >= *scale);
    let (spelling, scale) = *fitting.or(units.last()).expect("there are units");
    let mut text = (value / scale).to_string();
    let rest = value % scale;
    if rest > 0 {
        let digits = scale.ilog10() as usize;
        let _ = write!(text, ".{rest:0digits$}");
        text.truncate(text.trim_end_matches('0').len());
    }
    text + spelling
}

/// The requirements for a valid value.
struct What {
    quantity: &'static str,
    units: &'static [Unit],
    smallest: &'static str,
    examples: &'static str,
    most: u64,
    most_text: &'static str,
}

impl What {
    fn read(&self, text: &str) -> Result<u64, Refused> {
        let value = exact(text, self.units).map_err(|why| match why {
            Inexact::NoNumber => Refused::new(format!("`{text}` is not {}", self.quantity), self.examples),
            Inexact::NoUnit => Refused::new(format!("`{text}` has no unit"), self.examples),
            Inexact::TooFine => {
                Refused::new(format!("`{text}` is finer than {}", self.smallest), "write fewer decimals")
            }
            Inexact::TooLarge => self.too_large(text),
        })?;
        if value > self.most { Err(self.too_large(text)) } else { Ok(value) }
    }

    fn too_large(&self, text: &str) -> Refused {
        Refused::new(format!("`{text}` is too large"), format!("at most {}", self.most_text))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_exact() {
        assert_eq!(time_ns("23.5ms"), Ok(23_500_000));
        assert_eq!(time_ns("1.000000001s"), Ok(1_000_000_001));
        assert_eq!(rate_bits_per_s("5.5mbit"), Ok(5_500_000));
        assert_eq!(rate_bits_per_s("5.5Mbit/s"), Ok(5_500_000));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1.5kB"), Ok(1500));
        assert_eq!(share("0.0000001%").map(Share::as_f64), Ok(1e-9));
        assert_eq!(share("100.000%"), Ok(Share::ALL));
        assert_eq!(whole("0017"), Ok(17));
    }

    #[test]
    fn errors_have_a_problem_and_a_hint() {
        for (result, said) in [
            (time_ns("5"), "`5` has no unit (for instance 23.5ms, 200us or 1s)"),
            (time_ns("-5ms"), "`-5ms` is not a time (for instance 23.5ms, 200us or 1s)"),
            (time_ns("0.5ns"), "`0.5ns` is finer than 1 ns (write fewer decimals)"),
            (time_ns("2000min"), "`2000min` is too large (at most 1 hour)"),
            (rate_bits_per_s("0mbit"), "a rate of 0 lets nothing through (for an outage use `outage=2s-5s`)"),
            (rate_bits_per_s("1MB/s"), "`1MB/s` is not a rate in bits per second (rates are in bits: 8mbit)"),
            (
                rate_bits_per_s("80Mbps"),
                "`80Mbps` is not a rate in bits per second (write 80mbit; `bps` can mean bits or bytes)",
            ),
            (share("120%").map(|_| 0), "`120%` is too large (at most 100%)"),
            (bytes("64k"), "`64k` is not a number of bytes (for instance 64KiB, 3000B or 1MiB)"),
            (whole("-1"), "`-1` is not a whole number (for instance 17)"),
        ] {
            let bad = result.unwrap_err();
            assert_eq!(format!("{} ({})", bad.what, bad.hint), said);
        }
    }

    proptest! {
        #[test]
        fn displayed_values_parse_to_the_same(value in 0_u64..=MAX_TIME_NS, rate in 1_u64..=MAX_BITS_PER_S, part in 0_u32..=1_000_000_000, size in 0_u64..=MAX_BYTES) {
            prop_assert_eq!(time_ns(&shown_time(value)), Ok(value));
            prop_assert_eq!(rate_bits_per_s(&shown_rate(rate)), Ok(rate));
            prop_assert_eq!(bytes(&shown_bytes(size)), Ok(size));
            let part = Share::billionths(part).unwrap();
            prop_assert_eq!(share(&shown_share(part)), Ok(part));
        }

        #[test]
        fn no_text_panics(text in ".*", digits in "[0-9.]{0,60}(ms|mbit|KiB|%|MB/s|bps)?") {
            for text in [text, digits] {
                let _ = (time_ns(&text), rate_bits_per_s(&text), bytes(&text), share(&text).map(shown_share), whole(&text));
            }
        }
    }
}
