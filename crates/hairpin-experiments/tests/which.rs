//! The plans of `which`: the cases that matter, and needs that contradict each other.

use hairpin_experiments::experiments::which::{WHICH, needs};
use hairpin_experiments::{Knobs, Refused};
use hairpin_model::{Extent, Load};

use crate::common::{Plan, assert_refused, capabilities, plan_on, turned};

fn which(flags: &[(&str, &str)]) -> Result<Plan, Refused> {
    plan_on(&capabilities(), &WHICH, &[&[("placement", "cross-cpu")], flags].concat())
}

fn transports(plan: &Plan) -> Vec<String> {
    hairpin_model::names::distinct(plan.cases.iter().map(|case| case.primary().transport.clone()))
}

fn labels(flags: &[(&str, &str)]) -> Vec<String> {
    which(flags).unwrap().labels()
}

#[test]
fn the_cards_say_which_cases_matter() {
    let plan = which(&[]).unwrap();
    let local = ["shm", "pipe", "fifo", "unix-stream", "unix-seqpacket", "unix-datagram", "tcp"];
    assert_eq!(transports(&plan), local);
    let of_tcp: Vec<String> = plan.labels().into_iter().filter(|label| label.starts_with("tcp ")).collect();
    let [block, spin] = ["block", "spin"].map(|how| format!("tcp {how} cross-cpu up 200 B 5000/s"));
    assert_eq!(of_tcp, [block.clone(), spin.clone(), block + " nodelay=on", spin + " nodelay=on"]);
    let skipped: Vec<&str> = plan.skipped.iter().map(|skip| skip.transport.as_str()).collect();
    assert_eq!(skipped, ["shm", "udp"], "shm cannot block, udp may lose");
    assert!(transports(&which(&[("may-lose", "on")]).unwrap()).contains(&"udp".to_owned()));
    assert!(transports(&which(&[("ends", "threads")]).unwrap()).contains(&"memory".to_owned()));
    let over = [("link", "delay=2ms"), ("placement", "same-cpu")];
    let over_link = plan_on(&capabilities(), &WHICH, &over).unwrap();
    assert_eq!(transports(&over_link), ["tcp"]);
    assert!(over_link.labels().iter().all(|label| label.contains(" block ")));
    let large = which(&[("size", "70000"), ("may-lose", "on")]).unwrap();
    assert!(!transports(&large).contains(&"udp".to_owned()), "more than a datagram holds");
}

#[test]
fn with_a_reply_round_trips_are_paced_and_buffers_follow_the_rate() {
    let plan = which(&[("reply", "on"), ("transport", "tcp"), ("waiting", "block")]).unwrap();
    assert_eq!(plan.labels(), ["tcp block cross-cpu 200 B 5000/s", "tcp block cross-cpu 200 B 5000/s nodelay=on"]);
    assert!(matches!(plan.cases[0].primary().load, Load::Paced { .. }));
    let datagrams = |rate| labels(&[("rate", rate), ("transport", "unix-datagram"), ("waiting", "block")]);
    // 10 ms of messages of 968 B fit 208 KiB up to 22 003 messages/s.
    assert_eq!(datagrams("22000").len(), 1);
    let buffers = " sndbuf=968000 rcvbuf=968000";
    assert!(datagrams("100000")[1].ends_with(buffers), "{:?}", datagrams("100000"));
}

#[test]
fn all_rounds_fit_the_time() {
    for flags in [&[][..], &[("may-lose", "on"), ("reply", "on")], &[("rate", "10")], &[("link", "delay=2ms")]] {
        let plan = which(flags).unwrap();
        assert!(plan.forecast.lasts_ns <= 46_000_000_000, "{flags:?}: {:?}", plan.forecast);
        let quick = which(&[flags, &[("quick", "on")]].concat()).unwrap();
        assert!(quick.forecast.lasts_ns <= 9_000_000_000, "{flags:?}: {:?}", quick.forecast);
    }
    let slow = which(&[("rate", "10"), ("transport", "pipe")]).unwrap();
    assert_eq!(slow.rounds[0].extent, Extent::DurationNs(1_000_000_000), "more messages");
    let has_time_limit = |flags: &[(&str, &str)]| which(flags).unwrap().forecast.has_time_limit;
    assert!(has_time_limit(&[]) && has_time_limit(&[("quick", "on")]) && !has_time_limit(&[("rounds", "8")]));
}

#[test]
fn contradicting_needs_are_refused_before_anything_is_measured() {
    let refused: &[(&[(&str, &str)], &str)] = &[
        (&[("rate", "1e9"), ("size", "1GiB")], "no transport carries more than 100 M messages/s or 100 GB/s"),
        (&[("rate", "2e8"), ("size", "1")], "no transport carries"),
        (&[("rate", "10000"), ("link", "satellite")], "the link carries 10.0 Mbit/s up"),
        (&[("reply", "on"), ("p99", "1ms"), ("link", "delay=2ms")], "takes 4 ms, more than --p99 1 ms"),
        (&[("link", "all")], "one path"),
        (&[("transport", "udp")], "may lose"),
    ];
    assert_refused(&WHICH, refused);
    let knobs: Knobs = turned(&WHICH, &[("size", "1400"), ("p99", "1ms"), ("link", "delay=2ms")]).unwrap();
    let stated = needs(&WHICH, &knobs, &capabilities()).unwrap();
    assert_eq!((stated.size_bytes, stated.p99_ns, stated.mtu_bytes), (1400, Some(1_000_000), Some(1500)));
}
