//! Runs over a path that drops datagrams: from the beginning, or from the middle of a load.

use hairpin_testing::or_skip;

use super::firewall::through;
use super::{Lab, Served};
use crate::support::{list, text, until};

#[test]
fn a_run_falls_back_to_tcp_if_udp_is_blocked_and_reports_the_evidence() {
    let lab = or_skip!(Lab::routed());
    let _served = Served::start(&lab.server, &format!("--bind {}", lab.server.at.v4), &lab.client);
    let plan = "round-trip --transport udp,tcp --count 5 --rounds 1 --quiet --to @ticket --fallback tcp";
    for (from, came, way) in [
        ("toclient", "and the server received none: UDP is blocked on the way up", "up"),
        ("toserver", "and answered each, and no answer came back: UDP is blocked on the way down", "down"),
    ] {
        lab.rules(&through(&format!("iifname {from} meta l4proto udp drop")));
        let run = lab.client.json(&format!("{plan} --out {way}"));
        let cases = list(&run["cases"]);
        assert_eq!(cases.len(), 2, "{run}");
        for case in cases {
            assert_eq!(case["case"]["flows"][0]["transport"], "tcp", "{case}");
        }
        let fallbacks: Vec<_> = cases.iter().map(|case| &case["case"]["path"]["fallback"]).collect();
        assert_eq!((text(&fallbacks[0]["from"]), text(&fallbacks[0]["to"])), ("udp", "tcp"), "{run}");
        assert!(text(&fallbacks[0]["evidence"]).contains(came), "{}", fallbacks[0]);
        assert!(fallbacks[1].is_null(), "a case that was requested over tcp is no fallback: {run}");
        let check = lab.client.hairpin("check @ticket").with_code(3).stdout;
        assert!(check.contains("UDP         no: ") && check.contains(way), "{check}");
    }
    let tested = lab.client.json("claims run E15 --rounds 1 --quiet --to @ticket --fallback tcp --out tested");
    let claim = &list(&tested["claims"])[0];
    assert_eq!(claim["headline"], "answered", "{claim}");
    assert!(text(&claim["rows"][0]["why"]).contains("used tcp instead of udp: "), "{claim}");
    lab.rules("");
    let run = lab.client.json(&format!("{plan} --out open"));
    let cases = list(&run["cases"]);
    assert!(cases.iter().all(|case| case["case"]["path"]["fallback"].is_null()), "{run}");
    assert_eq!(cases[0]["case"]["flows"][0]["transport"], "udp");
}

/// The sender at either end stops by itself, and the measured data are kept.
#[test]
fn a_datagram_load_without_feedback_stops_and_is_marked_invalid() {
    let lab = or_skip!(Lab::routed());
    let _served = Served::start(&lab.server, &format!("--bind {}", lab.server.at.v4), &lab.client);
    for (direction, from) in [("up", "toclient"), ("down", "toserver")] {
        let plan = format!(
            "offered-load --transport udp --direction {direction} --rate 2000 --duration 600s --rounds 1 --to @ticket \
             --out {direction} --json"
        );
        let running = lab.client.start(&plan);
        // A counter of the router's forwarded packets shows that the load is running.
        lab.rules(&through(&format!("iifname {from} meta l4proto udp counter")));
        until("the load is running", || {
            let counted = lab.router.as_root("nft list ruleset");
            let packets =
                counted.split("counter packets ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
            packets.is_some_and(|packets: u64| packets > 2000)
        });
        lab.rules(&through(&format!("iifname {from} meta l4proto udp drop")));
        let run = running.end().with_code(0).json();
        let case = &run["cases"][0];
        let why = case["why_invalid"].to_string();
        assert!(why.contains("no feedback: the sender heard nothing from the receiver for"), "{why}");
        assert!(case["flows"][0]["ledger"]["received"].as_u64() > Some(1000), "its data is kept: {case}");
    }
}
