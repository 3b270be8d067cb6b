//! A router between both hosts that translates addresses: the client is behind it, or the server, with one port forwarded.

use hairpin_testing::or_skip;

use super::paths::assert_crossed;
use super::{Lab, ROUTER, Served};

/// The port that is forwarded, another one than that of the server.
const FORWARDED: u16 = 40_000;

/// Every way in which flows begin and end: one or several, of TCP and UDP, each end sending, both at once.
const PLANS: [&str; 5] = [
    "round-trip --transport tcp,udp --count 50 --warmup 10 --rounds 2",
    "bulk --direction up,down --duration 30ms --rounds 1 --streams 4",
    "message-rate --transport udp,tcp --direction up,down --batch 1 --connections 4 --duration 30ms --rounds 1 \
    ",
    "offered-load --transport udp --direction up,down --rate 1000 --count 50 --rounds 1",
    "under-load --probe-connection own,per-message,shared --load both --load-cpu same --idle 100ms --ramp 100ms \
     --duration 100ms --recovery 100ms --rounds 1",
];

/// Fails unless all of them go to the server, which the client knows by that name, and each by its own protocol.
pub(super) fn assert_all_cross(lab: &Lab, served: &Served<'_>, name: &str) {
    for (number, plan) in PLANS.into_iter().enumerate() {
        let run = lab.client.json(&format!("{plan} --to @ticket --out run-{number}"));
        assert_crossed(&run, name, plan);
        let fell_back = r#"{"name":"mptcp.fell_back_to_tcp","value":"yes"}"#;
        assert!(!run.to_string().contains(fell_back), "{plan}: {run}");
    }
    served.until_idle_after(PLANS.len());
}

#[test]
fn a_client_behind_a_router_that_translates_its_address_reaches_the_server() {
    let lab = or_skip!(Lab::routed());
    lab.rules("table ip nat { chain out { type nat hook postrouting priority 100; oifname toserver masquerade; }; }");
    // Nobody there knows the way to the client itself.
    lab.server.as_root("ip route del default");
    let served = Served::start(&lab.server, &format!("--bind {}", lab.server.at.v4), &lab.client);
    assert_all_cross(&lab, &served, lab.server.at.v4);
    let log = served.log();
    let sessions = log.matches(&format!(": {}:", ROUTER[1].v4)).count();
    assert_eq!(sessions, PLANS.len(), "the server knows the router's address only: {log}");
    drop(served);
    lab.assert_nothing_left();
}

#[test]
fn a_server_behind_a_router_is_reached_by_one_forwarded_port() {
    let lab = or_skip!(Lab::routed());
    let to = format!("dnat to {}:{}", lab.server.at.v4, super::PORT);
    lab.rules(&format!(
        "table ip nat {{ chain into {{ type nat hook prerouting priority -100;
           iifname toclient tcp dport {FORWARDED} {to}; iifname toclient udp dport {FORWARDED} {to}; }}; }}"
    ));
    lab.client.as_root("ip route del default");
    let flags = format!("--bind {} --advertise {}:{FORWARDED}", lab.server.at.v4, ROUTER[0].v4);
    let served = Served::start(&lab.server, &flags, &lab.client);
    assert_all_cross(&lab, &served, ROUTER[0].v4);
    drop(served);
    lab.assert_nothing_left();
}
