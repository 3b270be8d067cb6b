//! Unreachable hosts, and a path that fails in the middle of a round.

use hairpin_testing::or_skip;

use super::{Lab, Served};
use crate::support::{list, on_one_line, saved_rounds, text, until};

/// Four causes of an unreachable server, with four different errors. `firewall.rs` tests the errors of a firewall.
#[test]
fn causes_of_an_unreachable_server_are_distinguished() {
    let lab = or_skip!(Lab::direct());
    let own = lab.server.at.v4;
    for (advertised, cause, hint) in [
        ("no-such-host.invalid", "cannot find the host no-such-host.invalid", "getent hosts"),
        ("203.0.113.9", "cannot connect to 203.0.113.9:7420: Network is unreachable", "ip route get"),
        ("192.0.2.99", "cannot connect to 192.0.2.99:7420: No route to host", "and is it up?"),
        (&format!("{own}:7999"), &format!("cannot connect to {own}:7999: Connection refused"), "its port?"),
    ] {
        let _served = Served::start(&lab.server, &format!("--bind {own} --advertise {advertised}"), &lab.client);
        let told = lab.client.hairpin("round-trip --quick --to @ticket").with_code(3).stderr;
        let told = on_one_line(&told);
        assert!(told.contains(cause) && told.contains(hint), "{advertised}: {told}");
        assert_eq!(told.matches("error: ").count(), 1, "{advertised}: {told}");
    }
}

/// Runs two rounds, and breaks the path in the second round. This round must fail with one of the causes and leave
/// nothing behind, and the server must continue to serve.
fn path_fails(plan: &str, breaks: &str, mends: &str, causes: &[&str]) {
    let lab = or_skip!(Lab::routed());
    let mut served = Served::start(&lab.server, &format!("--bind {}", lab.server.at.v4), &lab.client);
    let descriptors = served.descriptors();
    let running = lab.client.start(&format!("{plan} --rounds 2 --to @ticket --out run --json"));
    let run = lab.client.path("run");
    let first = served.running.busy_server();
    until("the first round is saved", || saved_rounds(&run) == 1);
    served.running.busy_server_after(first);
    lab.router.as_root(breaks);
    let told = running.end().with_code(3).json();
    let case = &list(&told["cases"])[0];
    assert_eq!((&case["rounds"], list(&case["failed_rounds"]).len()), (&1.into(), 1), "{plan}: {case}");
    let failed = text(&case["failed_rounds"][0]);
    assert!(causes.iter().any(|cause| failed.contains(cause)), "{plan}: {failed}");
    assert!(failed.contains("is the path"), "{plan}: {failed}");
    assert_eq!(lab.client.json("report run")["cases"], told["cases"], "{plan}: the first round can be read");
    served.until_idle_after(1);
    until("the server's descriptors are closed", || served.descriptors() == descriptors);
    lab.router.as_root(mends);
    lab.client.json("round-trip --transport tcp,udp --count 5 --rounds 1 --to @ticket");
    served.until_idle_after(2);
}

const DOWN: &str = "ip link set toserver down";
const UP: &str = "ip link set toserver up";
/// The path stays up and drops everything.
const DROP: &str =
    "nft 'add table inet f; add chain inet f through { type filter hook forward priority 0; policy drop; }'";
const PASS: &str = "nft flush ruleset";

#[test]
fn a_link_that_goes_down_ends_a_round_over_tcp() {
    path_fails("round-trip --transport tcp --duration 3s", DOWN, UP, &["cannot receive the answer to message"]);
}

#[test]
fn a_link_that_goes_down_ends_a_round_over_udp() {
    let cause = "the server: its host acknowledged nothing for 15 s";
    path_fails("round-trip --transport udp --duration 3s", DOWN, UP, &[cause]);
}

#[test]
fn a_path_that_drops_everything_ends_a_stream_from_the_client() {
    let causes = ["made no progress for 2000 ms", "its host acknowledged nothing for 15 s"];
    path_fails("bulk --transport tcp --direction up --duration 3s", DROP, PASS, &causes);
}

#[test]
fn a_path_that_drops_everything_ends_a_stream_from_the_server() {
    let causes = ["made no progress for 2000 ms", "its host acknowledged nothing for 15 s"];
    path_fails("message-rate --transport udp --batch 8 --direction down --duration 3s", DROP, PASS, &causes);
}
