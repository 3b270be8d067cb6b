//! Output about a link before and after a program runs over the link.

use std::collections::BTreeMap;
use std::process::Command;

use hairpin_engine::links::addresses::{FAR, NEAR_V4, NEAR_V6};
use hairpin_model::{DirectionRecord, DropCounter, DroppedAfter, LatenessNs, LinkEnds, LinkRecord, quantities};
use hairpin_report::words::left_out;

/// A link and its addresses, as passed to the programs at both ends.
pub(super) struct Addresses<'a> {
    pub(super) link: &'a str,
    /// False for an MTU below 1280 bytes.
    pub(super) has_ipv6: bool,
}

impl Addresses<'_> {
    pub(super) fn named(&self) -> BTreeMap<&'static str, String> {
        let mut named = BTreeMap::from([("near", NEAR_V4.to_string()), ("far", FAR.v4.to_string())]);
        if self.has_ipv6 {
            named.extend([("near_ipv6", NEAR_V6.to_string()), ("far_ipv6", FAR.v6.to_string())]);
        }
        named
    }

    /// Sets the command's environment; removes variables of an outer link.
    pub(super) fn set_environment(&self, command: &mut Command) {
        command.env_remove("HAIRPIN_NEAR_IPV6").env_remove("HAIRPIN_FAR_IPV6");
        let variables =
            self.named().into_iter().map(|(name, address)| (format!("HAIRPIN_{}", name.to_uppercase()), address));
        command.envs(variables).env("HAIRPIN_LINK", self.link);
    }

    /// The lines that are printed before the program runs: the link and both ends.
    pub(super) fn before(&self, link: &str, ends: &LinkEnds, far: &str) -> String {
        let [near_v6, far_v6] =
            [NEAR_V6, FAR.v6].map(|v6| if self.has_ipv6 { format!("  {v6}") } else { String::new() });
        format!("link  {link}\nends  {ends}\nnear  {NEAR_V4}{near_v6}\nfar   {}{far_v6}  {far}", FAR.v4)
    }
}

/// The lines that are printed after the program ran: packet counts, lateness of the relay, frames not carried, and
/// drops at the ends.
pub(super) fn after(record: &LinkRecord) -> String {
    let mut text = format!("up    {}\ndown  {}", packets(&record.up), packets(&record.down));
    if let Some(LatenessNs { p50, p99, max }) = record.lateness_ns {
        let [p50, p99, max] = [p50, p99, max].map(|ns| quantities::duration(ns as f64));
        text += &format!("\nlate  packets released after they were due: p50 {p50}, p99 {p99}, max {max}");
    }
    if let Some(frames) = record.relay.map(|relay| relay.not_carried).filter(|frames| *frames > 0) {
        let frames = quantities::count(frames);
        text += &format!("\nbut   {frames} frames not carried: neither IP nor ARP, or with a VLAN tag");
    }
    let DroppedAfter { near, far } = &record.dropped_after;
    for (end, dropped) in [("near", near), ("far ", far)] {
        for counter in DropCounter::ALL {
            let Some(count) = dropped.get(&counter.full_name()) else { continue };
            text += &format!("\n{end}  {}", counter.describe(*count));
        }
    }
    text
}

/// Why times measured over the link must not be trusted; `None` if the times are valid.
pub(super) fn warning(record: &LinkRecord) -> Option<String> {
    let why = left_out(&record.why_invalid()?);
    let hint = if record.was_overfull() {
        "send less, or use a link that holds fewer packets: a shorter delay, or a rate with a smaller queue"
    } else {
        "leave a CPU free for the emulator, or use a slower link"
    };
    Some(format!("warning: link-late: {why}: do not trust times measured over this link (hint: {hint})"))
}

fn packets(direction: &DirectionRecord) -> String {
    let counts = &direction.packets;
    let mut text = format!("packets in {}, out {}", quantities::count(counts.entered), quantities::count(counts.out));
    let mut tell = |words: String| text += &format!(", {words}");
    let reasons = direction.stages.iter().flat_map(|stage| {
        stage.packets.dropped.iter().map(|(reason, count)| (format!("{} ({reason})", stage.stage), *count))
    });
    let dropped: Vec<String> = reasons.map(|(by, count)| format!("{} by {by}", quantities::count(count))).collect();
    if !dropped.is_empty() {
        tell(format!("dropped {}", dropped.join(" and ")));
    }
    for (what, count) in counts.others() {
        tell(format!("{what} {}", quantities::count(count)));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hairpin_model::{PacketCounts, RelayReport, StageRecord};

    use super::*;

    fn record() -> LinkRecord {
        let stage = |name: &str, reasons: &[(&str, u64)]| StageRecord {
            stage: name.to_owned(),
            packets: PacketCounts {
                dropped: reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
                ..PacketCounts::default()
            },
            ..StageRecord::default()
        };
        let dropped = BTreeMap::from([("queue".to_owned(), 3), ("loss".to_owned(), 1)]);
        let packets = PacketCounts { entered: 12_345, out: 12_340, dropped, inside: 1, ..PacketCounts::default() };
        let [codel, full] = [("codel", 1), ("full", 2)];
        let stages = vec![stage("mtu", &[]), stage("queue", &[codel, full]), stage("loss", &[("random", 1)])];
        let up = DirectionRecord { packets: packets.clone(), stages, ..DirectionRecord::default() };
        let lateness_ns = Some(LatenessNs { p50: 1600, p99: 69_000, max: 200_000 });
        LinkRecord { lateness_ns, packets, up, ..LinkRecord::default() }
    }

    #[test]
    fn a_link_with_an_mtu_too_small_for_ipv6_has_no_ipv6_addresses() {
        let ends = LinkEnds { congestion_control: "cubic".to_owned(), ..LinkEnds::default() };
        let ends_line = format!("ends  {ends}");
        let told = |has_ipv6| {
            let addresses = Addresses { link: "delay=1ms", has_ipv6 };
            let mut command = Command::new("true");
            addresses.set_environment(&mut command);
            let set = command.get_envs().filter(|(_, value)| value.is_some());
            let names: Vec<String> = set.map(|(name, _)| name.to_string_lossy().into_owned()).collect();
            (names, addresses.named(), addresses.before("l", &ends, "echo"))
        };
        let (names, named, before) = told(false);
        assert_eq!(names, ["HAIRPIN_FAR", "HAIRPIN_LINK", "HAIRPIN_NEAR"]);
        assert_eq!(named, [("near", "10.77.0.1".to_owned()), ("far", "10.77.0.2".to_owned())].into());
        assert_eq!(before, format!("link  l\n{ends_line}\nnear  10.77.0.1\nfar   10.77.0.2  echo"));
        let (names, named, before) = told(true);
        assert_eq!(names.len(), 5, "{names:?}");
        assert_eq!(named["far_ipv6"], "fd00:77::2");
        let expected =
            format!("link  l\n{ends_line}\nnear  10.77.0.1  fd00:77::1\nfar   10.77.0.2  fd00:77::2  echo");
        assert_eq!(before, expected);
    }

    #[test]
    fn packet_counts_are_shown_by_stage_and_reason() {
        let expected = "up    packets in 12 345, out 12 340, dropped 1 by queue (codel) and 2 by queue (full) and 1 by loss \
                        (random), still inside 1\n\
                        down  packets in 0, out 0\n\
                        late  packets released after they were due: p50 1.60 us, p99 69.0 us, max 200 us";
        assert_eq!(after(&record()), expected);
        let unseen = after(&LinkRecord { lateness_ns: None, ..record() });
        assert_eq!(unseen.lines().count(), 2, "{unseen}");
        let relay = RelayReport { not_carried: 4, ..RelayReport::default() };
        let told = after(&LinkRecord { relay: Some(relay), ..record() });
        let last = "but   4 frames not carried: neither IP nor ARP, or with a VLAN tag";
        assert_eq!(told, format!("{expected}\n{last}"));
        let counts =
            |counts: &[(&str, u64)]| counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let dropped_after = DroppedAfter {
            near: counts(&[("TcpExtTCPRcvQDrop", 1)]),
            far: counts(&[("UdpRcvbufErrors", 1234), ("TcpExtListenOverflows", 2)]),
        };
        let told = after(&LinkRecord { dropped_after, ..record() });
        let last = "near  1 segment dropped after the link: receive buffer full (TcpExtTCPRcvQDrop)\n\
                    far   1 234 datagrams dropped after the link: receive buffer full (UdpRcvbufErrors)\n\
                    far   2 connections dropped after the link: queue of the listening socket full \
                    (TcpExtListenOverflows)";
        assert_eq!(told, format!("{expected}\n{last}"));
    }

    #[test]
    fn a_relay_that_was_late_or_had_no_room_causes_a_warning() {
        assert_eq!(warning(&record()), None);
        let late = LatenessNs { p50: 150_000, p99: 160_000, max: 170_000 };
        let warned = warning(&LinkRecord { lateness_ns: Some(late), ..record() }).unwrap();
        let start = "warning: link-late: the emulator was late by 150 us at p50, bound 100 us: ";
        assert!(warned.starts_with(start), "{warned}");
        let relay = RelayReport { overrun: 3, ..RelayReport::default() };
        let warned = warning(&LinkRecord { relay: Some(relay), ..record() }).unwrap();
        assert!(warned.contains("the sockets of the emulator had no room for 3 packets"), "{warned}");
        assert!(warned.ends_with("(hint: leave a CPU free for the emulator, or use a slower link)"), "{warned}");
        let relay = RelayReport { memory_overrun: 3, ..relay };
        let warned = warning(&LinkRecord { relay: Some(relay), ..record() }).unwrap();
        let what = "256 MiB of the emulator for packets in the link had no room for 3 packets";
        assert!(warned.contains(what), "{warned}");
        assert!(warned.contains("(hint: send less, or use a link that holds fewer packets"), "{warned}");
    }
}
