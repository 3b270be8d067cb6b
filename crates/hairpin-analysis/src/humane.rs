//! Figures in words: three significant digits and a unit that fits.

use hairpin_model::figure::Figure;

/// A duration: `140 ns`, `12.3 us`, `1.50 ms`, `2.00 s`.
#[must_use]
pub fn duration(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    // 999.5 ns would read `1000 ns`, so a unit begins where three digits of the smaller one end.
    match units.iter().find(|(scale, _)| ns.abs() >= scale * 0.9995) {
        Some((scale, unit)) => format!("{} {unit}", three_digits(ns / scale)),
        None => format!("{ns:.0} ns"),
    }
}

/// A share: `83 %`, `4.5 %`, `0.12 %`.
#[must_use]
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if size >= 9.95 => format!("{percent:.0} %"),
        size if size >= 0.995 || size == 0.0 => format!("{percent:.1} %"),
        _ => format!("{percent:.2} %"),
    }
}

/// A count or a rate: `950`, `12 300`, `1 200 000`.
#[must_use]
pub fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let grouped: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    let sign = if number < -0.5 { "-" } else { "" };
    format!("{sign}{}", grouped.join(" "))
}

/// A duration with its interval: `55.0 us (54.1 us to 56.2 us)`.
#[must_use]
pub fn duration_figure(ns: &Figure) -> String {
    with_interval(ns, duration)
}

/// A share with its interval: `83 % (81 % to 84 %)`.
#[must_use]
pub fn share_figure(of: &Figure) -> String {
    with_interval(of, share)
}

fn with_interval(figure: &Figure, words: fn(f64) -> String) -> String {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", words(figure.value), words(low), words(high)),
        _ => words(figure.value),
    }
}

/// Some names in a sentence: `tcp`, `tcp and udp`, `tcp, udp and 3 others`.
#[must_use]
pub fn names(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [one, two, three] => format!("{one}, {two} and {three}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} others", rest.len()),
    }
}

fn three_digits(number: f64) -> String {
    match number.abs() {
        size if size >= 99.95 => format!("{number:.0}"),
        size if size >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_unit_that_fits() {
        let cases = [
            (0.0, "0 ns"),
            (140.0, "140 ns"),
            (999.6, "1.00 us"),
            (12_340.0, "12.3 us"),
            (66_000.0, "66.0 us"),
            (123_456.0, "123 us"),
            (999_600.0, "1.00 ms"),
            (1.5e6, "1.50 ms"),
            (2e9, "2.00 s"),
            (-55_000.0, "-55.0 us"),
        ];
        for (ns, words) in cases {
            assert_eq!(duration(ns), words);
        }
    }

    #[test]
    fn shares_counts_and_names_read_well() {
        assert_eq!([share(0.834), share(0.045), share(0.0012), share(0.0)], ["83 %", "4.5 %", "0.12 %", "0.0 %"]);
        assert_eq!(
            [count(950.0), count(12_300.0), count(1_200_000.0), count(-1000.0)],
            ["950", "12 300", "1 200 000", "-1 000"]
        );
        let list: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!([names(&list[..1]), names(&list[..3]), names(&list)], ["a", "a, b and c", "a, b and 2 others"]);
        assert_eq!(duration_figure(&Figure::new(55e3, 54e3, 56e3)), "55.0 us (54.0 us to 56.0 us)");
        assert_eq!(share_figure(&Figure::bare(0.5)), "50 %");
    }
}
