//! `--sysctl`: rounds alternate between values of a kernel setting, in their own network namespaces, not on the host.

use hairpin_testing::or_skip;
use serde_json::Value;

use crate::support::{Place, can_link, list, rounds, saved_rounds, signal, until};

const WMEM: &str = "net.ipv4.tcp_wmem";
const TIMESTAMPS: &str = "net.ipv4.tcp_timestamps";
const AUTOCORKING: &str = "net.ipv4.tcp_autocorking";

/// The host's value.
fn on_the_host(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).expect("this kernel has it")
}

fn ends(round: &Value) -> &[Value] {
    let ends = list(&round["outcome"]["ends"]);
    assert_eq!(ends.len(), 2, "{round}");
    ends
}

fn fact<'r>(end: &'r Value, name: &str) -> &'r Value {
    let found = list(&end["facts"]).iter().find(|fact| fact["name"] == name);
    &found.unwrap_or_else(|| panic!("no fact {name}: {end}"))["value"]
}

#[test]
fn names_that_are_not_settings_of_a_namespace_are_refused_before_anything_runs() {
    or_skip!(can_link());
    let place = Place::new();
    let no_name = "is not a kernel setting below `net.` (hint: ";
    for (given, told) in [
        ("kernel.hostname=a", no_name),
        ("net.../../kernel/hostname=a", no_name),
        ("net/ipv4/tcp_sack=1", no_name),
        ("net.ipv4.tcp_sack", "setting `net.ipv4.tcp_sack` has no value (hint: "),
        ("net.ipv4.tcp_sack=", "has no valid value (hint: "),
        ("net.ipv4.none=1", "a new network namespace has no such setting (hint: "),
        ("net.ipv4.tcp_available_congestion_control=bbr", "it cannot be written there: "),
    ] {
        for experiment in ["round-trip", "small-writes", "bulk"] {
            place.hairpin([experiment, "--transport", "tcp", "--sysctl", given, "--out", "run"]).refused().told(told);
        }
    }
    let twice = "round-trip --sysctl net.ipv4.tcp_sack=1 --sysctl net.ipv4.tcp_sack=0 --out run";
    assert!(place.hairpin(twice).refused().stderr.contains("--sysctl net.ipv4.tcp_sack is given twice"));
    assert!(!place.path("run").exists());
}

#[test]
fn values_take_turns_in_one_run_and_hold_at_both_ends() {
    or_skip!(can_link());
    let place = Place::new();
    let before = on_the_host(WMEM);
    let values = format!("{WMEM}=4096 8192 16384,4096 20480 65536");
    let plan = "round-trip --transport tcp --placement same-cpu --rounds 3 --count 50 --quiet";
    place.hairpin((plan, &["--sysctl", &values, "--out", "run"])).with_code(0);
    let rounds = rounds(&place.path("run"));
    let mut blocks = Vec::new();
    for round in &rounds {
        let asked = round["order"]["case"]["sysctls"][WMEM].as_str().expect("a value");
        let most = asked.split(' ').nth(2).expect("its maximum");
        for end in ends(round) {
            assert_eq!(fact(end, &format!("sysctl.{WMEM}")), asked, "read back: {end}");
            let sndbuf = list(&end["options"]).iter().find(|option| option["name"] == "sndbuf").expect("tcp has it");
            assert_eq!(sndbuf["before"], most, "a connected socket has the maximum of tcp_wmem: {end}");
        }
        blocks.push((round["order"]["block"].as_u64().expect("a number"), most.to_owned()));
    }
    blocks.sort();
    let each = |block: u64| [(block, "16384".to_owned()), (block, "65536".to_owned())];
    assert_eq!(blocks, (0..3).flat_map(each).collect::<Vec<_>>(), "both values in each block");
    let json = place.json("report run");
    let labels: Vec<_> = list(&json["cases"]).iter().map(|case| case["label"].as_str().expect("a label")).collect();
    assert!(labels.contains(&"tcp block same-cpu net.ipv4.tcp_wmem=4096 8192 16384"), "{labels:?}");
    assert_eq!(on_the_host(WMEM), before);
}

#[test]
fn over_a_link_a_setting_holds_at_both_ends() {
    or_skip!(can_link());
    let place = Place::new();
    let plan = "bulk --transport tcp --count 50 --rounds 2 --link delay=1ms --quiet";
    let settings = "--sysctl net.ipv4.tcp_timestamps=0,1 --out run";
    place.hairpin((plan, &settings)).with_code(0);
    let rounds = rounds(&place.path("run"));
    assert_eq!(rounds.len(), 4);
    for round in rounds {
        // 1500 B minus the headers of IP and TCP, and minus 12 B for the time stamps of each segment (RFC 7323).
        let (value, mss) =
            if round["order"]["case"]["sysctls"][TIMESTAMPS] == "0" { ("0", 1460.0) } else { ("1", 1448.0) };
        for end in ends(&round) {
            assert_eq!(fact(end, &format!("sysctl.{TIMESTAMPS}")), value);
            assert_eq!(fact(end, "tcp_info.snd_mss_bytes").as_f64(), Some(mss), "{value}: {end}");
        }
    }
}

#[test]
fn a_comparison_with_a_run_on_the_host_reports_the_namespace() {
    or_skip!(can_link());
    let place = Place::new();
    let plan = "round-trip --transport tcp --placement same-cpu --rounds 2 --count 50";
    place.hairpin((plan, "--quiet --out host")).with_code(0);
    let settings = "--sysctl net.ipv4.tcp_timestamps=0 --quiet --out own";
    place.hairpin((plan, &settings)).with_code(0);
    let ran = place.hairpin("compare host own").with_code(0);
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "own: network-namespace: only one side ran in its own network namespace (--sysctl), so other kernel \
                settings may differ";
    assert!(text.contains(told), "{ran:#?}");
}

#[test]
fn a_value_that_the_kernel_rejects_fails_like_an_option() {
    or_skip!(can_link());
    let place = Place::new();
    let plan = "round-trip --transport tcp --placement same-cpu --rounds 1 --count 50";
    let settings = "--sysctl net.ipv4.tcp_sack=1,none";
    place.hairpin((plan, (settings, "--out run"))).with_code(3);
    let failed: Vec<Value> =
        rounds(&place.path("run")).into_iter().filter(|round| round["outcome"]["kind"] == "failed").collect();
    let cause = failed[0]["outcome"]["cause"].as_str().expect("a cause");
    assert_eq!(failed.len(), 1);
    assert!(cause.starts_with("sysctl net.ipv4.tcp_sack=none was not granted in the network namespace"), "{cause}");
    place.hairpin((plan, (settings, "--out again --allow-unmet-options"))).with_code(0);
}

#[test]
fn the_host_keeps_its_value_during_a_run_and_after_a_kill() {
    or_skip!(can_link());
    let place = Place::new();
    let before = on_the_host(AUTOCORKING);
    let other = if before.trim() == "0" { "1" } else { "0" };
    let values = format!("{AUTOCORKING}={other}");
    let plan = "round-trip --transport tcp --placement same-cpu --rounds 900 --duration 60ms";
    let mut running = place.start((plan, &["--sysctl", &values, "--out", "run"]));
    until("a round is saved", || saved_rounds(&place.path("run")) > 0);
    running.busy_server();
    assert_eq!(on_the_host(AUTOCORKING), before, "while a round has the other value");
    signal("KILL", running.id());
    assert_eq!(running.end().code, None);
    assert_eq!(on_the_host(AUTOCORKING), before);
    for round in rounds(&place.path("run")) {
        for end in ends(&round) {
            assert_eq!(fact(end, &format!("sysctl.{AUTOCORKING}")), other);
        }
    }
}
