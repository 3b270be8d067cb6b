//! Parses the links that a plan can request from the user's text.

use std::sync::OnceLock;

use hairpin_link::builtin;
use hairpin_link::profile::{PathProfile, Profile};
use hairpin_link::stages::loss::Loss;
use hairpin_link::trace::Trace;
use hairpin_model::{KnownLink, LinkCapabilities, Receipt, WhyNot};

use super::{namespace, traces};

pub fn capabilities() -> LinkCapabilities {
    LinkCapabilities { names: builtin::ALL.iter().map(|one| one.name).collect(), read, relay }
}

/// Whether the relay can run here. Tried once per process.
fn relay() -> Result<Receipt, WhyNot> {
    static TRIED: OnceLock<Result<Receipt, WhyNot>> = OnceLock::new();
    let here = || Receipt { detail: "network namespaces and packet sockets".to_owned() };
    TRIED.get_or_init(|| namespace::may_prepare().map(|()| here())).clone()
}

pub fn read(text: &str) -> Result<KnownLink, WhyNot> {
    let profile: Profile = text.parse().map_err(|error: hairpin_link::profile::error::ProfileError| {
        let word = error.text.get(error.range.clone()).unwrap_or_default();
        let at = if word == text { String::new() } else { format!(", at `{word}`") };
        let each_is_one = text.contains(',') && text.split(',').all(|part| part.parse::<Profile>().is_ok());
        let hint = if each_is_one { "repeat --link for each of them".to_owned() } else { error.hint.clone() };
        WhyNot::new(format!("link `{text}`{at}: {}", error.problem), hint)
    })?;
    let traces = traces::read(&profile)
        .map_err(|failure| WhyNot::new(format!("link `{text}`: {}", failure.cause), failure.hint))?;
    let rates = [&profile.up, &profile.down].map(|path| bits_per_s(path, &traces));
    let queues = [&profile.up, &profile.down].into_iter().zip(rates);
    Ok(KnownLink {
        name: name(text),
        line: profile.to_string(),
        round_trip_ns: profile.round_trip_ns(),
        bits_per_s: rates,
        mtu_bytes: profile.mtu_bytes,
        queue_ns: queues.map(|(path, rate)| queue_ns(path, rate, profile.mtu_bytes)).fold(0, u64::saturating_add),
        may_lose: may_lose(&profile.up) || may_lose(&profile.down),
    })
}

/// The user's name for a link: the text as given if it begins with the name of a built-in profile, else `None`.
fn name(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let first = words.first()?;
    builtin::ALL.iter().any(|one| one.name == *first).then(|| words.join(" "))
}

/// The rate of a direction (the mean rate of a trace); `None` if unlimited.
fn bits_per_s(path: &PathProfile, traces: &[(String, String)]) -> Option<u64> {
    path.bottleneck.rate_bits_per_s.or_else(|| {
        let replayed = path.bottleneck.replay.as_ref()?;
        let (_, text) = traces.iter().find(|(name, _)| name == replayed)?;
        Trace::parse(text).ok().map(|trace| trace.mean_bits_per_s())
    })
}

/// Whether the link can lose packets of a legal size.
fn may_lose(path: &PathProfile) -> bool {
    !path.outages.is_empty()
        || path.bottleneck.sends()
        || path.loss != Loss::default()
        || path.corrupt != PathProfile::default().corrupt
}

/// Time in ns to empty a full queue of MTU-sized packets.
fn queue_ns(path: &PathProfile, rate_bits_per_s: Option<u64>, mtu_bytes: u32) -> u64 {
    let Some(bits_per_s) = rate_bits_per_s else { return 0 };
    let limit = path.bottleneck.limit;
    let by_packets = limit.packets.map(|packets| packets.saturating_mul(u64::from(mtu_bytes)));
    let holds_bytes = limit.bytes.into_iter().chain(by_packets).min().unwrap_or(0);
    let ns = u128::from(holds_bytes) * 8_000_000_000 / u128::from(bits_per_s.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_that_scale_plans_are_computed() {
        let home = read("home-uplink").unwrap();
        assert_eq!((home.name.as_deref(), home.round_trip_ns), (Some("home-uplink"), 47_000_000));
        assert_eq!(home.bits_per_s, [Some(5_500_000), Some(87_160_000)]);
        // 2752 KiB at 5.5 Mbit/s and 512 KiB at 87.16 Mbit/s.
        assert_eq!(home.queue_ns, 4_098_978_909 + 48_121_890);
        let by_packets = read("rate=12mbit queue=1MiB,10packets mtu=1000B").unwrap();
        assert_eq!(by_packets.queue_ns, 2 * 6_666_666, "the smaller of the two limits");
        assert_eq!(read("delay=2ms").unwrap().queue_ns, 0);
        assert_eq!(read("loopback").unwrap().line, "loopback");
    }

    #[test]
    fn a_trace_counts_with_its_mean_rate_and_an_unreadable_trace_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let line = format!("up.replay={} down=6mbit queue=1MiB,10packets", path.display());
        let refused = read(&line).unwrap_err();
        assert!(refused.reason.contains("cannot read the trace `") && refused.hint.contains("current folder"));
        std::fs::write(&path, "1\n2ms\n").unwrap();
        assert!(read(&line).unwrap_err().reason.contains("line 2 of the trace `"));
        // One opportunity of 1500 bytes per ms.
        std::fs::write(&path, "1\n2\n").unwrap();
        let known = read(&line).unwrap();
        assert_eq!(known.bits_per_s, [Some(12_000_000), Some(6_000_000)]);
        assert_eq!(known.queue_ns, 10_000_000 + 20_000_000);
    }

    #[test]
    fn a_misspelled_name_gets_the_right_name_as_hint() {
        let text = read("home-uplnk").unwrap_err().to_string();
        assert!(text.contains("home-uplink"), "{text}");
        let text = read("home-uplink lose=1%").unwrap_err().to_string();
        assert!(text.contains("at `lose`") && text.contains("loss"), "{text}");
    }

    #[test]
    fn a_changed_profile_keeps_its_name_and_a_list_is_refused() {
        assert_eq!(read(" home-uplink   up.loss=3% ").unwrap().name.as_deref(), Some("home-uplink up.loss=3%"));
        assert_eq!(read("delay=2ms").unwrap().name, None);
        assert_eq!(read("lte,plc").unwrap_err().hint, "repeat --link for each of them");
        assert_ne!(read("lte,nosuch").unwrap_err().hint, "repeat --link for each of them");
    }
}
