//! Every experiment across two hosts, over both versions of IP.

use std::collections::BTreeSet;

use hairpin_testing::or_skip;
use serde_json::Value;

use super::{Lab, Served};
use crate::json_contract::assert_kept;
use crate::support::{PROGRAM, Place, Running, can_link, list, text};

/// An experiment, quick settings, and how many cases they have over IPv4 and over IPv6.
type Plan = (&'static str, &'static str, [usize; 2]);

/// `TCP` and `UDP` stand for the transports of a version of IP.
const PLANS: [Plan; 9] = [
    ("survey", "--rounds 1", [3, 2]),
    ("round-trip", "--transport TCP,UDP --count 50 --warmup 10 --rounds 2", [2; 2]),
    ("small-writes", "--transport TCP --exchanges 20 --rounds 1 --remedy default,nodelay", [2; 2]),
    ("message-rate", "--transport UDP,TCP --batch 8 --duration 30ms --rounds 1", [2; 2]),
    ("message-rate", "--transport UDP,TCP --batch 1 --connections 8 --duration 30ms --rounds 1", [2; 2]),
    ("bulk", "--transport TCP --direction up,down --duration 30ms --rounds 1", [2; 2]),
    ("offered-load", "--transport UDP --rate 1000 --count 50 --rounds 1", [1; 2]),
    ("offered-load", "--transport UDP --direction down --rate 1000 --count 50 --rounds 1", [1; 2]),
    (
        "under-load",
        "--transport TCP --load-transport TCP --probe-connection own,per-message,shared --load-cpu same --idle 100ms --ramp 100ms \
      --duration 100ms --recovery 100ms --rounds 1",
        [3; 2],
    ),
];

/// The plans, in which the transports are those of that version of IP.
fn words((experiment, flags, _): Plan, is_ipv6: bool) -> String {
    let [tcp, udp] = if is_ipv6 { ["tcp6", "udp6"] } else { ["tcp", "udp"] };
    format!("{experiment} {flags}").replace("TCP", tcp).replace("UDP", udp)
}

/// Fails unless every case of the run crossed to that host and something of each flow came.
pub(super) fn assert_crossed(run: &Value, host: &str, what: &str) {
    assert_kept(run);
    assert_eq!(run["state"], "complete", "{what}");
    for case in list(&run["cases"]) {
        assert_eq!(case["case"]["path"]["kind"], "hosts", "{what}: {case}");
        assert_eq!(case["case"]["path"]["host"], host, "{what}: {case}");
        assert_eq!(list(&case["failed_rounds"]), [Value::Null; 0], "{what}: {case}");
        for flow in list(&case["flows"]) {
            assert!(flow["ledger"]["received"].as_u64() > Some(0), "{what}: {flow}");
        }
    }
}

#[test]
fn every_experiment_is_among_the_plans() {
    let listed = Place::new().json(&["list"]);
    let all: BTreeSet<&str> = list(&listed["experiments"]).iter().map(|one| text(&one["name"])).collect();
    assert_eq!(PLANS.iter().map(|(name, ..)| *name).collect::<BTreeSet<_>>(), all);
}

fn every_experiment_crosses(is_ipv6: bool) {
    let lab = or_skip!(Lab::routed());
    let address = if is_ipv6 { lab.server.at.v6 } else { lab.server.at.v4 };
    let served = Served::start(&lab.server, &format!("--bind {address}"), &lab.client);
    for (number, plan) in PLANS.into_iter().enumerate() {
        let words = words(plan, is_ipv6);
        let run = lab.client.json(&format!("{words} --to @ticket --out run-{number}"));
        assert_crossed(&run, address, &words);
        assert_eq!(list(&run["cases"]).len(), plan.2[usize::from(is_ipv6)], "{words}");
        let roles: Vec<&str> = list(&run["hosts"]).iter().map(|host| text(&host["role"])).collect();
        assert_eq!(roles, ["client", "server"], "{words}");
    }
    served.until_idle_after(PLANS.len());
    drop(served);
    lab.assert_nothing_left();
}

#[test]
fn every_experiment_crosses_over_ipv4() {
    every_experiment_crosses(false);
}

#[test]
fn every_experiment_crosses_over_ipv6() {
    every_experiment_crosses(true);
}

#[test]
fn every_experiment_crosses_an_emulated_link() {
    or_skip!(can_link());
    let place = Place::new();
    let far = format!("exec {PROGRAM} serve --bind $HAIRPIN_FAR > ticket 2> log");
    let runs = PLANS.into_iter().enumerate().map(|(number, plan)| {
        format!("\"$0\" {} --quiet --to @ticket --out run-{number} > shown-{number}\n", words(plan, false))
    });
    let script = format!("set -e; until [ -s ticket ]; do sleep 0.01; done\n{}", runs.collect::<String>());
    let mut command = place.command(PROGRAM);
    command.args(["link", "run", "--quiet", "--link", "delay=2ms up=50mbit down=100mbit", "--far", &far, "--"]);
    Running::start(command.args(["sh", "-c", &script, PROGRAM]).env("XDG_STATE_HOME", place.path("state")))
        .end()
        .with_code(0);
    for (number, plan) in PLANS.into_iter().enumerate() {
        let run = place.json(&["report", &format!("run-{number}")]);
        assert_crossed(&run, "10.77.0.2", plan.0);
        assert_eq!(list(&run["cases"]).len(), plan.2[0], "{}", plan.0);
    }
    place.assert_nothing_left();
}
