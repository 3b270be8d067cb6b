//! A direction as arguments of `tc qdisc ... netem` (tc-netem(8); Linux net/sched/sch_netem.c), or the word for which
//! netem has none.
//!
//! What netem does otherwise than the stages, and what is done about it:
//!
//! - It counts link headers in a packet's size: the rate gets an overhead of -14 bytes (an Ethernet header).
//! - It lets packets overtake each other when the delay varies, but not with a rate: `order=kept` gets the highest rate
//!   that a profile may have. A rate and jitter together would have the queue absorb the jitter, so they are refused.
//! - Its limit counts those on their way too: it gets as many more as the rate puts there, of the size of the MTU.
//! - It loses, damages and copies packets before they wait, so that a lost packet uses no rate and a copy does.
//! - Its random choices do not follow the link's seed.

use crate::profile::PathProfile;
use crate::quantity::{HIGHEST_BITS_PER_S, Share, shown_share, shown_time};
use crate::stages::delay::{Order, Shape};
use crate::stages::loss::Loss;
use crate::stages::queue::MOST_PACKETS;

/// A word of the profile that netem has no argument for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inexpressible {
    /// The word.
    pub word: &'static str,
    /// What netem lacks.
    pub because: &'static str,
}

/// The header before an IP packet on Ethernet, in bytes, which netem counts and a profile does not.
const HEADER_BYTES: &str = "-14";

/// What stands behind `netem` on tc's command line, for one direction.
///
/// # Errors
/// The first word that cannot be said.
pub fn arguments(path: &PathProfile, mtu_bytes: u32) -> Result<Vec<String>, Inexpressible> {
    refuse(path)?;
    let mut words = Words(Vec::new());
    words.add(["limit", &limit(path, mtu_bytes).to_string()]);
    let delay = path.delay;
    if delay.base_ns > 0 {
        words.add(["delay", &shown_time(delay.base_ns)]);
    }
    if delay.spread_ns > 0 {
        words.add([&shown_time(delay.spread_ns)]);
        match delay.shape {
            Shape::Uniform => {}
            Shape::Normal | Shape::Pareto => words.add(["distribution", &delay.shape.to_string()]),
        }
    }
    if path.loss.random > Share::NONE {
        words.add(["loss", "random", &shown_share(path.loss.random)]);
    }
    if let Some(burst) = path.loss.burst {
        words.add(["loss", "gemodel"]);
        let shares = [burst.turns_bad, burst.turns_good, burst.lost_when_bad, burst.lost_when_good];
        shares.iter().for_each(|share| words.add([&shown_share(*share)]));
    }
    for (name, share) in [("corrupt", path.corrupt), ("duplicate", path.duplicate)] {
        if share > Share::NONE {
            words.add([name, &shown_share(share)]);
        }
    }
    let keeps_order = delay.spread_ns > 0 && delay.order == Order::Kept;
    let rate = path.bottleneck.rate_bits_per_s.or(keeps_order.then_some(HIGHEST_BITS_PER_S));
    if let Some(bits_per_s) = rate {
        words.add(["rate", &format!("{bits_per_s}bit"), HEADER_BYTES]);
    }
    Ok(words.0)
}

/// How many packets netem may hold, at most.
fn limit(path: &PathProfile, mtu_bytes: u32) -> u64 {
    let (Some(bits_per_s), Some(waiting)) = (path.bottleneck.rate_bits_per_s, path.bottleneck.limit.packets) else {
        return MOST_PACKETS;
    };
    let bits = u128::from(bits_per_s) * u128::from(path.delay.base_ns);
    let on_their_way = bits.div_ceil(8 * 1_000_000_000 * u128::from(mtu_bytes.max(1)));
    let all = u128::from(waiting) + 1 + on_their_way;
    u64::try_from(all).unwrap_or(MOST_PACKETS).min(u64::from(u32::MAX))
}

fn refuse(path: &PathProfile) -> Result<(), Inexpressible> {
    let Loss { packets, data_packets, .. } = &path.loss;
    let varies = path.delay.spread_ns > 0;
    let rated = path.bottleneck.rate_bits_per_s.is_some();
    let faults = [
        (!path.outages.is_empty(), "outage", "it has no times"),
        (path.bottleneck.replay.is_some(), "replay", "it replays no trace"),
        (path.bottleneck.limit.bytes.is_some(), "queue", "its queue is limited in packets and not in bytes"),
        (path.bottleneck.codel.is_some(), "codel", "its queue has no other discipline"),
        (packets.shown().is_some(), "drop", "it loses no packets by number"),
        (data_packets.shown().is_some(), "drop-data", "it loses no packets by number"),
        (rated && varies, "delay", "its queue would absorb the jitter"),
        (path.reorder.is_some(), "reorder", "it sends packets ahead, and holds none back"),
    ];
    let fault = faults.iter().find(|(is_there, _, _)| *is_there);
    fault.map_or(Ok(()), |(_, word, because)| Err(Inexpressible { word, because }))
}

struct Words(Vec<String>);

impl Words {
    fn add<const COUNT: usize>(&mut self, words: [&str; COUNT]) {
        self.0.extend(words.map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use crate::profile::Profile;

    fn said(line: &str) -> Result<String, (&'static str, &'static str)> {
        let profile: Profile = line.parse().unwrap();
        let arguments = arguments(&profile.up, profile.mtu_bytes);
        arguments.map(|words| words.join(" ")).map_err(|fault| (fault.word, fault.because))
    }

    #[test]
    fn what_netem_has_is_said_in_its_words() {
        let texts = [
            ("delay=0ms", "limit 1000000"),
            ("delay=23.5ms", "limit 1000000 delay 23.5ms"),
            ("delay=20ms±2ms order=free", "limit 1000000 delay 20ms 2ms"),
            ("delay=20ms±2ms jitter=normal order=free", "limit 1000000 delay 20ms 2ms distribution normal"),
            (
                "delay=20ms±2ms jitter=pareto",
                "limit 1000000 delay 20ms 2ms distribution pareto rate 1000000000000bit -14",
            ),
            ("loss=0.1% delay=1ms", "limit 1000000 delay 1ms loss random 0.1%"),
            ("burst-loss=1%/20%/90%/0.5%", "limit 1000000 loss gemodel 1% 20% 90% 0.5%"),
            ("corrupt=0.01% duplicate=1%", "limit 1000000 corrupt 0.01% duplicate 1%"),
            ("rate=10mbit queue=99packets", "limit 100 rate 10000000bit -14"),
        ];
        for (line, text) in texts {
            assert_eq!(said(line), Ok(text.to_owned()), "{line}");
        }
    }

    #[test]
    fn the_limit_has_room_for_those_on_their_way() {
        // 12 Mbit/s are 1000 packets of 1500 B a second: 10 of them in 10 ms.
        assert_eq!(
            said("rate=12mbit queue=89packets delay=10ms").unwrap(),
            "limit 100 delay 10ms rate 12000000bit -14"
        );
        assert!(said("rate=12mbit queue=89packets delay=10000001ns").unwrap().starts_with("limit 101 "));
        assert!(said("mtu=750B rate=12mbit queue=89packets delay=10ms").unwrap().starts_with("limit 110 "));
        assert!(said("rate=1000gbit queue=1000000packets delay=1min").unwrap().starts_with("limit 4294967295 "));
    }

    #[test]
    fn what_netem_lacks_is_refused_by_its_word() {
        let faults = [
            ("outage=1s-2s", "outage"),
            ("up.replay=a.trace down.replay=a.trace queue=10packets", "replay"),
            ("rate=1mbit queue=64KiB", "queue"),
            ("rate=1mbit queue=10packets codel=5ms/100ms", "codel"),
            ("drop=0", "drop"),
            ("drop-data=1", "drop-data"),
            ("rate=1mbit queue=10packets delay=5ms±1ms", "delay"),
            ("reorder=1%/5ms", "reorder"),
        ];
        for (line, word) in faults {
            assert_eq!(said(line).map_err(|(word, _)| word), Err(word), "{line}");
        }
    }

    #[test]
    fn each_direction_is_said_by_itself() {
        let profile: Profile = "up.loss=1% down.outage=1s-2s delay=1ms".parse().unwrap();
        assert!(arguments(&profile.up, 1500).is_ok());
        assert_eq!(arguments(&profile.down, 1500).unwrap_err().word, "outage");
    }

    #[test]
    fn the_built_in_profiles_that_netem_can_run_are_known() {
        let can = |name: &str| {
            let profile = builtin::find(name).unwrap().profile();
            [&profile.up, &profile.down].into_iter().all(|path| arguments(path, profile.mtu_bytes).is_ok())
        };
        let names: Vec<&str> = builtin::names().into_iter().filter(|name| *name != "loopback" && can(name)).collect();
        assert_eq!(names, ["datacenter", "bridged-vm", "plc"]);
    }
}
