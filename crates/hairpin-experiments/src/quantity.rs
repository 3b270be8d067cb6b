//! Parses knob values and checks their bounds.

use hairpin_model::quantities::{exact_bytes, exact_duration};
use hairpin_model::{Extent, InjectedFault, Refused, Sysctls, names, parse};

pub const SECOND_NS: u64 = 1_000_000_000;
/// Maximum duration: 24 hours.
pub const DAY_NS: u64 = 86_400 * SECOND_NS;
pub const MAX_TIMEOUT_NS: u64 = 3600 * SECOND_NS;
/// Maximum number of messages in a round.
pub const MAX_MESSAGES: u64 = 10_000_000_000;
/// Longest stall that an injected fault may cause.
const MAX_STALL_NS: u64 = 10 * SECOND_NS;

/// Parses a whole number with an optional suffix `k` or `M`: `2000`, `2k`, `1_000`.
pub fn whole(text: &str, min: u64, max: u64) -> Result<u64, Refused> {
    parse::exact(&text.replace('_', ""), &[("k", 1000), ("M", 1_000_000), ("", 1)])
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| Refused::new(format!("`{text}` is not valid"), format!("a whole number from {min} to {max}")))
}

fn valid<T>(text: &str, value: T, is_valid: bool, expected: impl Into<String>) -> Result<T, Refused> {
    if is_valid { Ok(value) } else { Err(Refused::new(format!("`{text}` is not valid"), expected)) }
}

/// Parses a number of bytes.
pub fn bytes(text: &str, min: u64, max: u64) -> Result<u64, Refused> {
    let number = parse::bytes(text)?;
    let expected = format!("{} to {}", exact_bytes(min), exact_bytes(max));
    valid(text, number, (min..=max).contains(&number), expected)
}

/// Parses `on` or `off`.
pub fn switch(text: &str) -> Result<bool, Refused> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(Refused::new(format!("`{text}` is not valid"), "on or off")),
    }
}

/// Parses a share between 0 and 1, such as `2%`.
pub fn share(text: &str) -> Result<f64, Refused> {
    let share = parse::share(text)?;
    valid(text, share, share > 0.0 && share < 1.0, "a share above 0% and below 100%")
}

/// Parses a duration to nanoseconds.
pub fn duration_ns(text: &str, min_ns: u64, max_ns: u64) -> Result<u64, Refused> {
    let duration_ns = parse::duration_ns(text)?;
    let hours = max_ns / (3600 * SECOND_NS);
    let from = match min_ns {
        0 => "from 0".to_owned(),
        1 => "above 0 and".to_owned(),
        _ => format!("from {}", exact_duration(min_ns)),
    };
    let expected = format!("a duration {from} up to {hours} h");
    valid(text, duration_ns, (min_ns..=max_ns).contains(&duration_ns), expected)
}

/// Parses a rate in messages per second: at least one per day, at most `max_per_s`.
pub fn rate_per_s(text: &str, max_per_s: f64) -> Result<f64, Refused> {
    let rate = parse::rate_per_s(text)?;
    let expected = format!("from one message per day to {max_per_s} per second");
    valid(text, rate, (1.0 / 86_400.0..=max_per_s).contains(&rate), expected)
}

/// Parses a number of messages (`500`) or a duration (`40ms`). Zero is valid.
pub fn extent(text: &str) -> Result<Extent, Refused> {
    if let Ok(duration_ns) = parse::duration_ns(text)
        && duration_ns <= DAY_NS
    {
        return Ok(Extent::DurationNs(duration_ns));
    }
    whole(text, 0, MAX_MESSAGES).map(Extent::Count).map_err(|refused| {
        Refused::new(refused.what, "a number of messages such as 500, or a duration such as 40ms, up to 24 h")
    })
}

/// Parses an injected fault: `sleep=5ms/100` sleeps 5 ms at every 100th message, `busy=1300ns` spins at each message.
///
/// # Errors
/// [`Refused`] if it has another form, or stalls for more than 10 s.
pub fn injected_fault(text: &str) -> Result<InjectedFault, Refused> {
    let bad = || {
        Refused::new(
            format!("`{text}` is not an injected fault"),
            "for instance sleep=5ms/100 or busy=1300ns; up to 10 s, in every Nth message, N from 1 to 1000000",
        )
    };
    let (kind, rest) = text.split_once('=').ok_or_else(bad)?;
    let sleeps = match kind.trim() {
        "sleep" => true,
        "busy" => false,
        _ => return Err(bad()),
    };
    let (stall, every) = rest.split_once('/').unwrap_or((rest, "1"));
    let stall_ns = duration_ns(stall, 1, MAX_STALL_NS).map_err(|_| bad())?;
    let every = whole(every, 1, 1_000_000).map_err(|_| bad())?;
    Ok(InjectedFault { stall_ns, every, sleeps })
}

/// Parses the values of a kernel setting, `net.ipv4.tcp_sack=0,1`; removes duplicates.
pub fn sysctl(text: &str) -> Result<Vec<Sysctls>, Refused> {
    let Some((name, values)) = text.split_once('=') else { return text.parse().map(|one| vec![one]) };
    let each = values.split(',').map(|value| Sysctls::default().with(name.trim(), value));
    Ok(names::distinct(each.collect::<Result<Vec<_>, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_take_a_suffix_and_keep_to_their_range() {
        assert_eq!(whole("2k", 1, 10_000).unwrap(), 2000);
        assert_eq!(whole("1_000", 1, 10_000).unwrap(), 1000);
        assert_eq!(whole("18446744073709551615", 0, u64::MAX).unwrap(), u64::MAX);
        for text in ["0", "10001", "-1", "1.5", "", "k", "99999999999999999999", "18446744073709551615M"] {
            assert!(whole(text, 1, 10_000).is_err(), "{text}");
        }
    }

    #[test]
    fn an_extent_is_a_count_or_a_duration() {
        assert_eq!(extent("500").unwrap(), Extent::Count(500));
        assert_eq!(extent("40ms").unwrap(), Extent::DurationNs(40_000_000));
        assert_eq!(extent("0").unwrap(), Extent::Count(0));
        assert!(extent("90000s").is_err(), "more than a day");
        assert!(extent("40 parsecs").is_err());
    }

    #[test]
    fn injected_faults_are_parsed() {
        assert_eq!(
            injected_fault("sleep=5ms/100").unwrap(),
            InjectedFault { stall_ns: 5_000_000, every: 100, sleeps: true }
        );
        assert_eq!(injected_fault("busy=1300ns").unwrap(), InjectedFault { stall_ns: 1300, every: 1, sleeps: false });
        assert_eq!(injected_fault("sleep=5ms/100").unwrap().to_string(), "sleep=5ms/100");
        for text in ["", "sleep", "sleep=0ns", "sleep=11s", "nap=5ms", "busy=5ms/0", "busy=5ms/1/2"] {
            assert!(injected_fault(text).is_err(), "{text}");
        }
    }
}
