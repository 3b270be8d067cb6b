//! Every experiment across two hosts, over both IP versions.

use std::collections::BTreeSet;

use hairpin_testing::or_skip;
use serde_json::Value;

use super::{Lab, Served};
use crate::support::contract::assert_kept;
use crate::support::{PROGRAM, Place, Running, can_link, list, text};

/// An experiment, quick settings, and their number of cases over IPv4 and over IPv6.
type Plan = (&'static str, &'static str, [usize; 2]);

/// Plans with one flow and with several flows, over TCP and UDP, sent by either end or by both ends. `TCP` and `UDP`
/// are replaced by the transports of an IP version, `STREAMS` by all transports over TCP.
const PLANS: [Plan; 15] = [
    ("survey", "--rounds 1", [3, 2]),
    ("round-trip", "--transport TCP,UDP --count 50 --warmup 10 --rounds 2", [2; 2]),
    ("budget", "--transport TCP,UDP --count 200 --warmup 10 --rounds 2", [2; 2]),
    ("small-writes", "--transport TCP --exchanges 20 --rounds 1 --remedy default,nodelay", [2; 2]),
    ("message-rate", "--transport UDP,TCP --batch 8 --duration 300ms --rounds 1", [2; 2]),
    (
        "message-rate",
        "--transport UDP,TCP --direction up,down --batch 1 --connections 8 --duration 300ms --rounds 1",
        [4; 2],
    ),
    ("bulk", "--transport STREAMS --direction up,down --connections 4 --duration 300ms --rounds 1", [4, 2]),
    ("offered-load", "--transport UDP --direction up,down --rate 1000 --count 50 --rounds 1", [2; 2]),
    ("periodic", "--transport TCP,UDP --period 5ms --devices 2 --count 50 --rounds 1", [2; 2]),
    ("observer", "--transport TCP --observer counter --duration 200ms --rounds 1", [3; 2]),
    ("which", "--size 64 --rate 500 --reply --transport TCP --duration 200ms --rounds 1", [2; 2]),
    ("streams", "--transport TCP,UDP --rate 300 --count 50 --rounds 1", [2; 2]),
    (
        "waiting",
        "--transport TCP --waiting block,epoll,uring --connections 1 --count 50 --warmup 10 --rounds 1",
        [3; 2],
    ),
    ("set-up", "--transport TCP --count 3 --rounds 1", [1; 2]),
    (
        "under-load",
        "--transport TCP --load-transport TCP --probe-connection own,per-message,shared --load down,both --load-cpu same --idle 100ms \
         --ramp 100ms --duration 100ms --recovery 100ms --rounds 1",
        [5; 2],
    ),
];

/// The arguments of a plan, with the transports of that IP version.
fn words((experiment, flags, _): Plan, is_ipv6: bool) -> String {
    let [streams, tcp, udp] = if is_ipv6 { ["tcp6", "tcp6", "udp6"] } else { ["tcp,mptcp", "tcp", "udp"] };
    format!("{experiment} {flags}").replace("STREAMS", streams).replace("TCP", tcp).replace("UDP", udp)
}

/// Fails unless all plans reach the server at that address, without falling back to another protocol.
pub(super) fn assert_all_cross(lab: &Lab, served: &Served<'_>, address: &str) {
    let is_ipv6 = address.contains(':');
    for (number, plan) in PLANS.into_iter().enumerate() {
        let words = words(plan, is_ipv6);
        let out = if is_ipv6 { "run-6" } else { "run-4" };
        let run = lab.client.json(&format!("{words} --to @ticket --out {out}-{number}"));
        assert_crossed(&run, address, &words);
        assert_eq!(list(&run["cases"]).len(), plan.2[usize::from(is_ipv6)], "{words}");
        let roles: Vec<&str> = list(&run["hosts"]).iter().map(|host| text(&host["role"])).collect();
        assert_eq!(roles, ["client", "server"], "{words}");
        let fell_back = r#"{"name":"mptcp.fell_back_to_tcp","value":"yes"}"#;
        assert!(!run.to_string().contains(fell_back), "{words}: {run}");
    }
    served.until_idle_after(PLANS.len());
}

/// Fails unless every case of the run reached that host and received data of each flow.
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
    let listed = Place::new().json("list");
    let all: BTreeSet<&str> = list(&listed["experiments"]).iter().map(|one| text(&one["name"])).collect();
    assert_eq!(PLANS.iter().map(|(name, ..)| *name).collect::<BTreeSet<_>>(), all);
}

#[test]
fn every_experiment_crosses_an_emulated_link() {
    or_skip!(can_link());
    let place = Place::new();
    let far = format!("exec {PROGRAM} serve --bind $HAIRPIN_FAR --limit turn=2h > ticket 2> log");
    let runs = PLANS.into_iter().enumerate().map(|(number, plan)| {
        format!(
            "\"$0\" {} --quiet --to @ticket --out run-{number} > shown-{number} || [ $? = 5 ]\n",
            words(plan, false)
        )
    });
    let script = format!("set -e; until [ -s ticket ]; do sleep 0.01; done\n{}", runs.collect::<String>());
    let mut command = place.command(PROGRAM);
    command.args(["link", "run", "--quiet", "--link", "delay=2ms up=50mbit down=100mbit", "--far", &far, "--"]);
    let ran =
        Running::start(command.args(["sh", "-c", &script, PROGRAM]).env("XDG_STATE_HOME", place.path("state"))).end();
    // A busy machine delays the relay, which then drops packets and reports this.
    assert!(ran.code == Some(0) || ran.code == Some(3) && ran.stderr.contains("warning: link-late: "), "{ran:#?}");
    for (number, plan) in PLANS.into_iter().enumerate() {
        let run = place.json(["report", &format!("run-{number}")]);
        assert_crossed(&run, "10.77.0.2", plan.0);
        assert_eq!(list(&run["cases"]).len(), plan.2[0], "{}", plan.0);
    }
}
