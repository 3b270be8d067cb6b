//! A router between both hosts that passes only the server's port, or not even that port.

use hairpin_testing::or_skip;

use super::paths::assert_all_cross;
use super::{Lab, PORT, Served};
use crate::support::{Place, is_built_in, on_one_line};

/// Rules for packets that the router forwards. Without a rule, it forwards everything.
pub(super) fn through(rules: &str) -> String {
    format!("table inet firewall {{ chain through {{ type filter hook forward priority 0; {rules}; }}; }}")
}

const ROUND: &str = "round-trip --count 5 --rounds 1 --quiet --to @ticket";

#[test]
fn one_open_port_is_enough() {
    let lab = or_skip!(Lab::routed());
    let opened = format!("iifname toclient meta l4proto {{ tcp, udp }} th dport {PORT} ct state new accept");
    lab.rules(&through(&format!("policy drop; ct state established accept; {opened}")));
    for address in [lab.server.at.v4, lab.server.at.v6] {
        let served = Served::start(&lab.server, &format!("--bind {address}"), &lab.client);
        assert_all_cross(&lab, &served, address);
    }
}

/// The error says how much the client sent, that no answer arrived, and how much the server received.
#[test]
fn dropped_udp_is_reported_by_direction() {
    let lab = or_skip!(Lab::routed());
    let served = Served::start(&lab.server, &format!("--bind {}", lab.server.at.v4), &lab.client);
    let at = format!("{}:{PORT}", lab.server.at.v4);
    let directions = [
        ("toclient", "a firewall may drop UDP to the server: open port 7420 for UDP too"),
        ("toserver", "a firewall may drop UDP to the client"),
    ];
    let transports = with_quic("udp");
    let mut rounds = 1;
    for (transport, (from, hint)) in transports.iter().flat_map(|transport| directions.map(|one| (transport, one))) {
        let no_answer = format!("no answer over {transport}: ");
        let arrived = format!(" of the client's datagrams arrived over {transport} to {at}");
        let mut counts = Vec::new();
        // On a busy machine, the server's time-out may end before the client's last datagram has arrived.
        let as_expected = |[sent, came, dropped]: &[u32; 3]| {
            let expected = if from == "toclient" { 0 } else { *sent };
            *came == expected && dropped == sent
        };
        while !counts.last().is_some_and(as_expected) {
            assert!(counts.len() < 3, "{from}, {transport}: sent, arrived, dropped: {counts:?}");
            lab.rules(&through(&format!("iifname {from} meta l4proto udp counter drop")));
            let plan = format!("{ROUND} --transport {transport} --out {from}-{transport}-{}", counts.len());
            let told = on_one_line(&lab.client.hairpin(&plan).with_code(3).stdout);
            rounds += 1;
            let sent = count_after(&told, &no_answer);
            let was_sent = format!("{sent} datagrams were sent to {at} in 10 s, and none came back");
            assert!(told.contains(&was_sent), "{told}");
            let (before, _) = told.split_once(&arrived).unwrap_or_else(|| panic!("{told}"));
            let came = match before.rsplit(' ').next().expect("a word") {
                "none" => 0,
                count => count.parse().unwrap_or_else(|_| panic!("{told}")),
            };
            assert!(sent > 1 && told.contains(hint), "{told}");
            assert!(told.contains("`hairpin check` tries UDP alone, and --fallback tcp does without it"), "{told}");
            // The router dropped all datagrams of the client, or all answers.
            let dropped = count_after(&lab.router.as_root("nft list ruleset"), "counter packets ");
            counts.push([sent, came, dropped]);
        }
        lab.client.json(&format!("{ROUND} --transport tcp --out {from}-{transport}-tcp"));
        rounds += 1;
    }
    lab.rules("");
    lab.client.json(&format!("{ROUND} --transport udp"));
    served.until_idle_after(rounds);
}

fn count_after(text: &str, words: &str) -> u32 {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("no {words}: {text}"));
    rest.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count: {rest}"))
}

/// The transport, and QUIC if it is built in.
fn with_quic(transport: &'static str) -> Vec<&'static str> {
    let quic = is_built_in(&Place::new(), "quic").is_ok().then_some("quic");
    [transport].into_iter().chain(quic).collect()
}

/// A hello passes, and no packet of QUIC.
#[test]
fn a_path_too_narrow_for_quic_is_reported_with_the_size_of_its_packets() {
    or_skip!(is_built_in(&Place::new(), "quic"));
    let lab = or_skip!(Lab::routed());
    let _served = Served::start(&lab.server, &format!("--bind {}", lab.server.at.v4), &lab.client);
    lab.rules(&through("meta l4proto udp meta length > 1227 drop"));
    let told = on_one_line(&lab.client.hairpin(&format!("{ROUND} --transport quic")).with_code(3).stdout);
    let at = format!("{}:{PORT}", lab.server.at.v4);
    assert!(told.contains(&format!(" datagrams of 1200 B were sent to {at} in 10 s, and none came back")), "{told}");
    assert!(told.contains("or a path with a smaller MTU larger datagrams"), "{told}");
}

#[test]
fn a_filtered_port_and_a_rejected_one_are_distinguished() {
    let lab = or_skip!(Lab::routed());
    let _served = Served::start(&lab.server, &format!("--bind {}", lab.server.at.v4), &lab.client);
    let at = format!("{}:{PORT}", lab.server.at.v4);
    for (rules, cause, hint) in [
        ("iifname toclient meta l4proto tcp drop", "no answer for 15 s", "a firewall may drop the packets"),
        ("meta l4proto tcp reject with tcp reset", "Connection refused", "is `hairpin serve` running"),
        (
            "meta l4proto tcp reject with icmp type host-unreachable",
            "No route to host",
            "a firewall may send this too",
        ),
    ] {
        lab.rules(&through(rules));
        let told = on_one_line(&lab.client.hairpin(&format!("{ROUND} --transport tcp,udp")).with_code(3).stderr);
        assert!(told.contains(&format!("cannot connect to {at}: {cause}")) && told.contains(hint), "{rules}: {told}");
    }
    lab.rules(&through("meta l4proto udp reject"));
    let told = on_one_line(&lab.client.hairpin(&format!("{ROUND} --transport udp")).with_code(3).stdout);
    assert!(told.contains(&format!("{at} over udp: Connection refused")), "{told}");
    assert!(told.contains("a firewall may reject it too"), "{told}");
}
