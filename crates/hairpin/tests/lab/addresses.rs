//! A server on a host with several addresses of both IP versions, or with a link-local address.

use hairpin_testing::or_skip;

use super::paths::assert_crossed;
use super::{Addresses, Host, Lab, Served};
use crate::support::{list, until};

/// Runs rounds with one flow and with several flows, over TCP and UDP, to the server's name.
fn assert_answers(lab: &Lab, name: &str) {
    let version = if name.contains(':') { "6" } else { "" };
    let over = format!("--transport tcp{version},udp{version} --rounds 1 --to @ticket");
    let run = lab.client.json(&format!("round-trip --count 20 {over}"));
    assert_crossed(&run, name, name);
    let run = lab
        .client
        .json(&format!("message-rate --connections 4 --batch 1 --direction up,down --duration 30ms {over}"));
    assert_crossed(&run, name, name);
    assert_eq!(list(&run["cases"]).len(), 4, "{name}");
}

#[test]
fn a_server_on_all_addresses_answers_from_the_address_that_the_client_used() {
    let lab = or_skip!(Lab::routed());
    let others = ["198.51.100.7", "2001:db8:2::7"];
    let [v4, v6] = others;
    lab.server.as_root(&format!("ip address add {v4}/24 dev eth0; ip address add {v6}/64 dev eth0 nodad"));
    let at = lab.server.at;
    for (bind, reached) in [
        ("0.0.0.0", &[at.v4, v4][..]),
        // All addresses of both IP versions.
        ("[::]", &[at.v4, v4, at.v6, v6]),
    ] {
        for name in reached {
            let served = Served::start(&lab.server, &format!("--bind {bind} --advertise {name}"), &lab.client);
            assert_answers(&lab, name);
            let Addresses { v4, v6 } = lab.client.at;
            let client = if name.contains(':') { format!("[{v6}]") } else { v4.to_owned() };
            assert!(served.log().contains(&format!(": {client}:")), "{}", served.log());
            served.until_idle_after(2);
        }
    }
}

/// The server's host accepts only packets from that source.
#[test]
fn a_client_sends_from_the_given_address_interface_and_ports() {
    let lab = or_skip!(Lab::direct());
    let other = Addresses { v4: "192.0.2.9", v6: "2001:db8:1::9" };
    let Addresses { v4, v6 } = other;
    lab.client.as_root(&format!("ip address add {v4}/24 dev eth0; ip address add {v6}/64 dev eth0 nodad"));
    let ports = "40000-40999";
    let (server, own) = (lab.server.at, lab.client.at.v4);
    for (name, from, bind) in [
        (server.v4, format!("ip saddr {v4}"), v4.to_owned()),
        (server.v4, format!("ip saddr {own} th sport {ports}"), format!("eth0:{ports}")),
        (server.v4, format!("th sport {ports}"), format!(":{ports}")),
        (server.v6, format!("ip6 saddr {v6} th sport {ports}"), format!("[{v6}]:{ports}")),
    ] {
        let served = Served::start(&lab.server, &format!("--bind [::] --advertise {name}"), &lab.client);
        let rules = format!(
            "meta l4proto {{ tcp, udp }} {from} accept; meta l4proto icmpv6 accept; meta l4proto tcp reject with tcp reset; drop"
        );
        lab.server.as_root(&format!(
            "nft 'flush ruleset; table inet own {{ chain in {{ type filter hook input priority 0; {rules}; }}; }}'"
        ));
        let version = if name.contains(':') { "6" } else { "" };
        let over = format!("--transport tcp{version},udp{version} --rounds 2 --to @ticket --bind {bind}");
        assert_crossed(&lab.client.json(&format!("round-trip --count 20 --fallback tcp {over}")), name, &bind);
        let several = "message-rate --connections 4 --batch 1 --direction up,down --duration 30ms";
        assert_crossed(&lab.client.json(&format!("{several} {over}")), name, &bind);
        lab.client.hairpin(&format!("check @ticket --bind {bind}")).with_code(0);
        // Without --bind, the kernel may choose one of the ports by chance.
        lab.client.hairpin("check @ticket --bind :50000-50999").with_code(3);
        lab.server.as_root("nft flush ruleset");
        served.until_idle_after(3);
    }
}

#[test]
fn a_server_on_ipv4_only_is_unreachable_over_ipv6() {
    let lab = or_skip!(Lab::direct());
    let _served =
        Served::start(&lab.server, &format!("--bind 0.0.0.0 --advertise {}", lab.server.at.v6), &lab.client);
    let told = lab.client.hairpin("round-trip --to @ticket --quick").with_code(3).stderr;
    assert!(told.contains(&format!("[{}]:7420: Connection refused", lab.server.at.v6)), "{told}");
}

/// A host's link-local address on that device, once duplicate address detection has finished.
fn link_local(host: &Host, device: &str) -> String {
    let mut own = String::new();
    until("the device has a link-local address", || {
        let shown = host.as_root(&format!("ip -6 -oneline address show dev {device} scope link"));
        let address = shown.split_once("inet6 ").and_then(|(_, rest)| rest.split_once('/'));
        own = address.filter(|_| !shown.contains("tentative")).map_or("", |(address, _)| address).to_owned();
        !own.is_empty()
    });
    own
}

#[test]
fn a_link_local_address_has_the_device_of_each_host() {
    let lab = or_skip!(Lab::direct());
    let own = link_local(&lab.server, "eth0");
    lab.server.hairpin(&format!("serve --bind {own}%eth0")).refused().told(&format!("--advertise {own}%DEVICE"));
    let refused = lab.server.hairpin(&format!("serve --bind {own}%eth9 --advertise x")).refused();
    assert!(refused.stderr.contains("is not a valid address"), "{}", refused.stderr);
    lab.client.as_root("ip link set eth0 down; ip link set eth0 name uplink; ip link set uplink up");
    link_local(&lab.client, "uplink");
    for bind in [format!("{own}%eth0"), format!("[{own}%eth0]:7421")] {
        let name = format!("{own}%uplink");
        let served = Served::start(&lab.server, &format!("--bind {bind} --advertise {name}"), &lab.client);
        assert_answers(&lab, &name);
        served.until_idle_after(2);
    }
}
