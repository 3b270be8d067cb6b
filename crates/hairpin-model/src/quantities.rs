//! Quantities for people: three significant digits and a unit of suitable size.
//!
//! Functions take plain numbers in base units (ns, bytes, 1/s) and return ASCII text. Non-finite numbers become a dash.

use crate::figure::Figure;

/// Printed in place of a missing figure.
pub const DASH: &str = "-";

/// A unit of time: its length and its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeUnit {
    /// Nanoseconds per unit.
    pub ns: f64,
    /// `ns`, `us`, `ms` or `s`.
    pub name: &'static str,
}

/// The unit that shows `ns` nanoseconds with three significant digits.
pub fn time_unit(ns: f64) -> TimeUnit {
    match ns.abs() {
        size if size < 999.5 => TimeUnit { ns: 1.0, name: "ns" },
        size if size < 999.5e3 => TimeUnit { ns: 1e3, name: "us" },
        size if size < 999.5e6 => TimeUnit { ns: 1e6, name: "ms" },
        _ => TimeUnit { ns: 1e9, name: "s" },
    }
}

/// `870 ns`, `12.3 us`, `4.56 ms`.
pub fn duration(ns: f64) -> String {
    if !ns.is_finite() {
        return DASH.to_owned();
    }
    let unit = time_unit(ns);
    format!("{} {}", significant(ns / unit.ns), unit.name)
}

/// A duration with its interval: `54.1 us (52.0-56.3)`, `5.90 us (-64.0 us .. 150 us)` if a bound is negative.
pub fn duration_figure(ns: Figure) -> String {
    let value = duration(ns.value);
    match ns.interval() {
        Some((low, high)) if low >= 0.0 => format!("{value} ({})", bounds(ns.value, low, high)),
        Some((low, high)) => format!("{value} ({} .. {})", duration(low), duration(high)),
        None => value,
    }
}

/// A duration without needless zeros, for axes: `10 us`, `2.5 ms`, `0`.
pub fn round_duration(ns: f64) -> String {
    if ns == 0.0 {
        return "0".to_owned();
    }
    let shown = duration(ns);
    match shown.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => shown,
    }
}

/// An exact duration in the largest unit without decimals: `1 ms`, `1500 us`, `0 ns`.
pub fn exact_duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    let unit = units.into_iter().find(|(scale, _)| ns > 0 && ns.is_multiple_of(*scale));
    let (scale, unit) = unit.unwrap_or((1, "ns"));
    format!("{} {unit}", ns / scale)
}

/// An exact duration for the command line: `1500us`.
pub fn duration_argument(ns: u64) -> String {
    exact_duration(ns).replace(' ', "")
}

/// A bit rate for the command line: `9.5mbit`.
pub fn bit_rate_argument(bits_per_s: f64) -> String {
    let whole = bits_per_s.round();
    let units = [(1e9, "gbit"), (1e6, "mbit"), (1e3, "kbit")];
    let (size, unit) = units.into_iter().find(|(size, _)| whole >= *size).unwrap_or((1.0, "bit"));
    format!("{}{unit}", whole / size)
}

/// Bits per second: `10.7 Mbit/s`.
pub fn bit_rate(bits_per_s: f64) -> String {
    rate(bits_per_s).replace("/s", "bit/s")
}

/// Both bounds in the unit and precision of `of_ns`: `12.9-14.1` for `13.4 us`, `-0.20 .. 1.10` if one is negative.
pub fn bounds(of_ns: f64, low_ns: f64, high_ns: f64) -> String {
    if !(of_ns.is_finite() && low_ns.is_finite() && high_ns.is_finite()) {
        return DASH.to_owned();
    }
    let unit = time_unit(of_ns);
    let places = decimals(of_ns / unit.ns);
    let between = if low_ns < 0.0 { " .. " } else { "-" };
    format!("{:.places$}{between}{:.places$}", low_ns / unit.ns, high_ns / unit.ns)
}

/// Both bounds of a rate, in the unit of the upper one: `98.1-102 k/s`.
pub fn rate_bounds(low_per_s: f64, high_per_s: f64) -> String {
    let (size, unit) = rate_unit(high_per_s);
    let number = |per_s: f64| if per_s.is_finite() { significant(per_s / size) } else { DASH.to_owned() };
    format!("{}-{} {unit}", number(low_per_s), number(high_per_s))
}

fn rate_unit(per_s: f64) -> (f64, &'static str) {
    let steps = [(1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s")];
    steps.into_iter().find(|(size, _)| per_s.abs() >= 0.9995 * size).unwrap_or((1.0, "/s"))
}

/// Messages per second: `980 /s`, `74.6 k/s`, `1.34 M/s`.
pub fn rate(per_s: f64) -> String {
    if !per_s.is_finite() {
        return DASH.to_owned();
    }
    let (size, unit) = rate_unit(per_s);
    format!("{} {unit}", significant(per_s / size))
}

/// Messages per second in words: `980 messages/s`, `74.6 k messages/s`.
pub fn message_rate(per_s: f64) -> String {
    message_unit(&rate(per_s))
}

/// An interval of messages per second: `1.30-1.41 M messages/s`.
pub fn message_rate_bounds(low_per_s: f64, high_per_s: f64) -> String {
    message_unit(&rate_bounds(low_per_s, high_per_s))
}

fn message_unit(rate: &str) -> String {
    rate.replace(" /s", "/s").replace("/s", " messages/s").replace("  ", " ")
}

/// Bytes per second, in powers of 1000: `980 B/s`, `74.6 kB/s`, `1.34 GB/s`.
pub fn byte_rate(bytes_per_s: f64) -> String {
    byte_unit(&rate(bytes_per_s))
}

/// An interval of bytes per second: `1.30-1.41 GB/s`.
pub fn byte_rate_bounds(low_bytes_per_s: f64, high_bytes_per_s: f64) -> String {
    byte_unit(&rate_bounds(low_bytes_per_s, high_bytes_per_s))
}

fn byte_unit(rate: &str) -> String {
    rate.replace("/s", "B/s")
}

/// A number of bytes, in powers of 1024: `64 B`, `4 KiB`, `1.50 GiB`.
pub fn bytes(count: f64) -> String {
    if !count.is_finite() {
        return DASH.to_owned();
    }
    let (size, unit) = size_unit(count);
    let number = count / size;
    if number.fract() == 0.0 { format!("{number:.0} {unit}") } else { format!("{} {unit}", significant(number)) }
}

fn size_unit(count: f64) -> (f64, &'static str) {
    const KIB: f64 = 1024.0;
    let steps = [(KIB * KIB * KIB, "GiB"), (KIB * KIB, "MiB"), (KIB, "KiB")];
    steps.into_iter().find(|(size, _)| count >= *size).unwrap_or((1.0, "B"))
}

/// Both bounds in the unit of `of`: `201-214` for `207 KiB`.
pub fn byte_bounds(of: f64, low: f64, high: f64) -> String {
    let (size, _) = size_unit(of);
    number_bounds(of / size, low / size, high / size)
}

/// An exact number of bytes: `1 B`, `64 KiB`, `1500 B`.
pub fn exact_bytes(count: u64) -> String {
    let steps = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let step = steps.into_iter().find(|(size, _)| count >= *size && count.is_multiple_of(*size));
    let (size, unit) = step.unwrap_or((1, "B"));
    format!("{} {unit}", count / size)
}

/// A share of one as a percentage: `83 %`, `5.2 %`, `0.41 %`.
pub fn share(of_one: f64) -> String {
    let percent = of_one * 100.0;
    match percent.abs() {
        _ if !percent.is_finite() => DASH.to_owned(),
        0.0 => "0 %".to_owned(),
        size if size < 0.005 => "under 0.01 %".to_owned(),
        size if size < 0.995 => format!("{percent:.2} %"),
        size if size < 9.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// A share with all its digits, as a limit has been given: `0.1 %`.
pub fn exact_share(of_one: f64) -> String {
    format!("{} %", (of_one * 1e14).round() / 1e12)
}

/// A share with its interval: `83 % (81-84)`.
pub fn share_figure(of_one: Figure) -> String {
    let bound = |bound: f64| share(bound).trim_end_matches(" %").to_owned();
    match of_one.interval() {
        Some((low, high)) if low >= 0.0 => format!("{} ({}-{})", share(of_one.value), bound(low), bound(high)),
        Some((low, high)) => format!("{} ({} .. {})", share(of_one.value), share(low), share(high)),
        None => share(of_one.value),
    }
}

/// A ratio as a signed change: 1.008 is `+0.8 %`.
pub fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent.abs() {
        _ if !percent.is_finite() => DASH.to_owned(),
        size if size < 9.95 => format!("{percent:+.1} %"),
        _ => format!("{percent:+.0} %"),
    }
}

/// A ratio as a signed change with its interval: `+5.3 % (+4.1 .. +6.6)`.
pub fn change_figure(ratio: Figure) -> String {
    let bound = |bound: f64| change(bound).trim_end_matches(" %").to_owned();
    match ratio.interval() {
        Some((low, high)) => format!("{} ({} .. {})", change(ratio.value), bound(low), bound(high)),
        None => change(ratio.value),
    }
}

/// A factor: `0.21x`, `58.1x`, `839x`.
pub fn factor(ratio: f64) -> String {
    if ratio.is_finite() { format!("{}x", significant(ratio)) } else { DASH.to_owned() }
}

/// A number without a unit: integers without decimals, others with at most three significant digits. Tiny values are
/// `<0.001` instead of 0.
pub fn number(value: f64) -> String {
    match value {
        _ if !value.is_finite() => DASH.to_owned(),
        _ if value > 0.0 && value < 0.0005 => "<0.001".to_owned(),
        _ => plain(value),
    }
}

/// A number with three significant digits at any size: `0.0134`, `4.52`, `1710`.
pub fn three_digits(value: f64) -> String {
    match value {
        _ if !value.is_finite() => DASH.to_owned(),
        0.0 => "0".to_owned(),
        _ => format!("{value:.*}", (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize),
    }
}

/// Both bounds of a number without a unit, in its precision: `812-861` for `839`; integers if all three numbers are.
pub fn number_bounds(of: f64, low: f64, high: f64) -> String {
    if !(of.is_finite() && low.is_finite() && high.is_finite()) {
        return DASH.to_owned();
    }
    let places = if [of, low, high].iter().all(|number| number.fract() == 0.0) { 0 } else { decimals(of) };
    format!("{low:.places$}-{high:.places$}")
}

/// A count with separated thousands: `1 204 311`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 round`, `1 204 rounds`.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// An estimate of a count: `950`, `12 300`.
pub fn rounded(number: f64) -> String {
    if number.is_finite() { count(number.round() as u64) } else { DASH.to_owned() }
}

/// A count for narrow columns: `987`, `12.3k`, `4.56M`.
pub fn short_count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..999_500 => format!("{}k", significant(number as f64 / 1e3)),
        _ => format!("{}M", significant(number as f64 / 1e6)),
    }
}

/// A value in the named unit: times, shares, sizes and rates are scaled; others are a number with the unit's name.
pub fn in_unit(value: f64, unit: &str) -> String {
    match unit {
        _ if !value.is_finite() => DASH.to_owned(),
        "ns" => duration(value),
        "us" => duration(value * 1e3),
        "s" => duration(value * 1e9),
        "share" => share(value),
        "bytes" => bytes(value),
        "per_s" | "1/s" => rate(value),
        "bytes_per_s" => byte_rate(value),
        "ratio" => format!("{} x", significant(value)),
        "count" | "" => plain(value),
        other => format!("{} {other}", plain(value)),
    }
}

/// Seconds since 1970-01-01 as `2026-11-21 10:36:17 UTC`.
///
/// Converts days to a date with Howard Hinnant's `civil_from_days`
/// (<https://howardhinnant.github.io/date_algorithms.html>).
pub fn utc(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Whether a word, without trailing punctuation, is a unit of this file, which must stay on the line of its number.
pub fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches(PUNCTUATION);
    let units = [
        "ns", "us", "ms", "s", "%", "B", "KiB", "MiB", "GiB", "/s", "k/s", "M/s", "G/s", "kB/s", "MB/s", "GB/s", "x",
    ];
    units.contains(&word)
}

/// Whether a word is the last three digits of a count, as `200` in `41 200`.
pub fn is_thousands(word: &str) -> bool {
    let word = word.trim_end_matches(PUNCTUATION);
    word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit())
}

const PUNCTUATION: &[char] = &[',', ';', '.', ':', ')'];

fn plain(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { significant(value) }
}

fn significant(number: f64) -> String {
    if number == 0.0 { "0".to_owned() } else { format!("{number:.*}", decimals(number)) }
}

/// Decimal places for three significant digits, for numbers of at least 0.1.
fn decimals(number: f64) -> usize {
    match number.abs() {
        size if size < 0.9995 => 3,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_rate_argument_is_parsed_back_to_the_same_rate() {
        let rates =
            [(5e6, "5mbit"), (9.5e6, "9.5mbit"), (9_137_000.0, "9.137mbit"), (1e9, "1gbit"), (999.0, "999bit")];
        for (bits_per_s, argument) in rates {
            assert_eq!(bit_rate_argument(bits_per_s), argument);
            assert_eq!(crate::parse::bits_per_s(argument).unwrap().to_bits(), bits_per_s.to_bits());
        }
        assert_eq!(bit_rate_argument(446.428_571_428_571_4 * 1400.0 * 8.0), "5mbit");
    }

    #[test]
    fn times_have_three_digits_in_a_suitable_unit() {
        let given = [0.0, 8.5, 99.96, 870.0, 999.4, 999.6, 12_345.0, 99_960.0, 4_560_000.0, 999_600_000.0, 12.5e9];
        let shown = given.map(duration);
        let expected = [
            "0 ns", "8.50 ns", "100 ns", "870 ns", "999 ns", "1.00 us", "12.3 us", "100 us", "4.56 ms", "1.00 s",
            "12.5 s",
        ];
        assert_eq!(shown, expected);
        assert_eq!(duration(-1500.0), "-1.50 us");
    }

    #[test]
    fn bounds_share_unit_and_precision_with_their_figure() {
        assert_eq!(bounds(13_400.0, 12_900.0, 14_080.0), "12.9-14.1");
        assert_eq!(bounds(1020.0, 980.0, 12_300.0), "0.98-12.30");
        assert_eq!(bounds(-6656.0, -66_434.0, 53_122.0), "-66.43 .. 53.12");
        assert_eq!(byte_bounds(217_812.0, 210_000.0, 221_000.0), "205-216");
        assert_eq!(number_bounds(2.0, 2.0, 3.0), "2-3");
        assert_eq!(number_bounds(2.0, 1.996, 2.5), "2.00-2.50");
    }

    #[test]
    fn figures_are_printed_with_their_interval() {
        let told = |value, low, high| duration_figure(Figure::new(value, low, high));
        assert_eq!(told(54_100.0, 52_000.0, 56_300.0), "54.1 us (52.0-56.3)");
        assert_eq!(told(5900.0, -64_000.0, 150_000.0), "5.90 us (-64.0 us .. 150 us)");
        assert_eq!(duration_figure(Figure::bare(54_100.0)), "54.1 us");
        assert_eq!(share_figure(Figure::new(0.83, 0.81, 0.84)), "83 % (81-84)");
        assert_eq!(change_figure(Figure::new(1.053, 1.041, 1.066)), "+5.3 % (+4.1 .. +6.6)");
    }

    #[test]
    fn exact_forms_round_nothing() {
        let durations = [1_000_000, 1_500_000, 3_000_000_000, 1001, 0].map(exact_duration);
        assert_eq!(durations, ["1 ms", "1500 us", "3 s", "1001 ns", "0 ns"]);
        assert_eq!(duration_argument(1_500_000), "1500us");
        assert_eq!([0, 1500, 65_536, 1 << 30].map(exact_bytes), ["0 B", "1500 B", "64 KiB", "1 GiB"]);
    }

    #[test]
    fn three_digits_at_any_size() {
        let texts = [0.0134, 0.25, 4.518, 44.0, 1710.4, 0.0, f64::NAN].map(three_digits);
        assert_eq!(texts, ["0.0134", "0.250", "4.52", "44.0", "1710", "0", DASH]);
    }

    #[test]
    fn a_unit_and_the_thousands_stay_with_their_number() {
        assert!(is_unit("us,") && is_unit("k/s)") && !is_unit("tcp") && !is_unit("uss"));
        assert!(is_thousands("200.") && !is_thousands("1200") && !is_thousands("20a"));
    }

    #[test]
    fn non_finite_numbers_are_a_dash() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let texts = [
                duration(number),
                rate(number),
                bytes(number),
                share(number),
                change(number),
                factor(number),
                bounds(1.0, number, 2.0),
                in_unit(number, "count"),
            ];
            assert!(texts.iter().all(|text| text == DASH), "{texts:?}");
        }
    }

    #[test]
    fn rates_bytes_shares_and_counts() {
        assert_eq!([rate(12.0), rate(74_600.0), rate(999_900.0)], ["12.0 /s", "74.6 k/s", "1.00 M/s"]);
        assert_eq!([bytes(64.0), bytes(4096.0), bytes(1_600_000.0)], ["64 B", "4 KiB", "1.53 MiB"]);
        assert_eq!([share(0.83), share(0.052), share(0.0041), share(0.0)], ["83 %", "5.2 %", "0.41 %", "0 %"]);
        assert_eq!([change(1.008), change(0.988), change(1.25)], ["+0.8 %", "-1.2 %", "+25 %"]);
        assert_eq!([count(7), count(1000), count(1_204_311)], ["7", "1 000", "1 204 311"]);
        assert_eq!(
            [counted(1, "round"), counted(1200, "round"), rounded(12_299.7)],
            ["1 round", "1 200 rounds", "12 300"]
        );
        assert_eq!([short_count(9999), short_count(12_345), short_count(4_560_000)], ["9999", "12.3k", "4.56M"]);
    }

    #[test]
    fn tiny_numbers_are_not_zero() {
        assert_eq!([number(0.0), number(0.0003), number(0.0006), number(12.3)], ["0", "<0.001", "0.001", "12.3"]);
    }

    #[test]
    fn dates_agree_with_known_instants() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(utc(4_102_444_799), "2099-12-31 23:59:59 UTC");
    }
}
