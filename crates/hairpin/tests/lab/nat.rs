//! A router between both hosts translates addresses, either of the client or of the server, with one forwarded port.

use hairpin_testing::or_skip;

use super::paths::assert_all_cross;
use super::{Lab, PORT, ROUTER, Served};

/// The forwarded port, different from that of the server.
const FORWARDED: u16 = 40_000;

#[test]
fn a_client_behind_a_router_that_translates_its_address_reaches_the_server() {
    let lab = or_skip!(Lab::routed());
    let translates = |ip: &str| {
        format!(
            "table {ip} nat {{ chain out {{ type nat hook postrouting priority 100; oifname toserver masquerade; }}; }}"
        )
    };
    lab.rules(&format!("{}; {}", translates("ip"), translates("ip6")));
    // The server has no route to the client's own address.
    lab.server.as_root("ip route del default; ip -6 route del default");
    for (address, client) in
        [(lab.server.at.v4, ROUTER[1].v4.to_owned()), (lab.server.at.v6, format!("[{}]", ROUTER[1].v6))]
    {
        let served = Served::start(&lab.server, &format!("--bind {address}"), &lab.client);
        assert_all_cross(&lab, &served, address);
        let log = served.log();
        let count = |what: &str| log.matches(what).count();
        let from_router = count(&format!(": {client}:"));
        assert_eq!(from_router, count("begins a run"), "the server knows the router's address only: {log}");
    }
}

#[test]
fn a_server_behind_a_router_is_reached_by_one_forwarded_port() {
    let lab = or_skip!(Lab::routed());
    let forwards = |ip: &str, to: &str| {
        format!(
            "table {ip} nat {{ chain into {{ type nat hook prerouting priority -100;
             iifname toclient tcp dport {FORWARDED} dnat to {to}; iifname toclient udp dport {FORWARDED} dnat to {to}; }}; }}"
        )
    };
    let (own, router) = (lab.server.at, ROUTER[0]);
    let v6 = format!("[{}]:{PORT}", own.v6);
    lab.rules(&format!("{}\n{}", forwards("ip", &format!("{}:{PORT}", own.v4)), forwards("ip6", &v6)));
    lab.client.as_root("ip route del default; ip -6 route del default");
    for (address, advertised) in [(own.v4, router.v4), (own.v6, router.v6)] {
        let shown = if advertised.contains(':') { format!("[{advertised}]") } else { advertised.to_owned() };
        let flags = format!("--bind {address} --advertise {shown}:{FORWARDED}");
        let served = Served::start(&lab.server, &flags, &lab.client);
        assert_all_cross(&lab, &served, advertised);
    }
}
