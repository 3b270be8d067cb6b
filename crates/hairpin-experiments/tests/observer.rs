//! The plans of `observer`.

use hairpin_experiments::experiments::observer::OBSERVER;
use hairpin_model::flow::Observer;
use hairpin_model::{Extent, HostCapabilities, WhyNot};

use crate::common::{Plan, assert_refused, capabilities, plan_on};

fn planned(capabilities: &HostCapabilities, flags: &[(&str, &str)]) -> Plan {
    plan_on(capabilities, &OBSERVER, flags).unwrap()
}

/// The observers of a transport's cases, with replicates.
fn observers(plan: &Plan, transport: &str) -> Vec<(Observer, u8)> {
    let cases = plan.rounds.iter().map(|order| &order.case).filter(|case| case.primary().transport == transport);
    let mut all: Vec<_> = cases.map(|case| (case.primary().load.observer(), case.replicate)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn without_flags_three_transports_have_every_observer_and_none_twice() {
    let plan = planned(&capabilities(), &[]);
    let all: Vec<(Observer, u8)> = Observer::ALL[1..].iter().map(|observer| (*observer, 0)).collect();
    let all = [&[(Observer::None, 0), (Observer::None, 1)], &all[1..]].concat();
    for transport in ["tcp", "udp"] {
        assert_eq!(observers(&plan, transport), all, "{transport}");
    }
    let of_programs: Vec<_> = all.into_iter().filter(|(observer, _)| !observer.sees_packets()).collect();
    assert_eq!(observers(&plan, "unix-stream"), of_programs);
    let skipped: Vec<&str> = plan.skipped.iter().map(|skip| skip.reason.as_str()).collect();
    let packets = |observer| {
        format!("it sends no packets for the observer {observer} (hint: use tcp or udp, or another --observer)")
    };
    assert_eq!(skipped, [packets("timestamps"), packets("capture")]);
    for order in &plan.rounds {
        let load = &order.case.primary().load;
        assert_eq!((load.size_bytes(), load.batch()), (64, 1));
        assert_eq!((order.extent, order.warm_up), (Extent::DurationNs(100_000_000), Extent::DurationNs(50_000_000)));
    }
}

#[test]
fn the_baseline_is_always_measured_and_given_lengths_are_kept() {
    let plan = planned(&capabilities(), &[("transport", "tcp"), ("observer", "hdr,sampled"), ("count", "1000")]);
    let expected = [(Observer::Sampled, 0), (Observer::None, 0), (Observer::None, 1), (Observer::Hdr, 0)];
    assert_eq!(observers(&plan, "tcp"), expected);
    assert!(plan.rounds.iter().all(|order| order.extent == Extent::Count(1000)));
}

#[test]
fn a_capture_without_the_right_is_skipped_with_its_reason() {
    let may_capture = || Err(WhyNot::new("cannot open a packet socket", "run as root"));
    let plan = planned(&HostCapabilities { may_capture, ..capabilities() }, &[("transport", "udp")]);
    assert!(!observers(&plan, "udp").contains(&(Observer::Capture, 0)));
    assert_eq!(plan.skipped[0].reason, "cannot open a packet socket (hint: run as root)");
    let sees = |observer| observers(&plan, "udp").contains(&(observer, 0));
    assert!(sees(Observer::Timestamps) && sees(Observer::TracingFile));
}

#[test]
fn bad_input_is_refused_with_its_reason() {
    let refused: &[(&[(&str, &str)], &str)] = &[
        (&[("observer", "clocks")], "unknown value `clocks` (hint: did you mean `clock`?)"),
        (&[("transport", "icmp")], "no program receives a stream"),
        (&[("batch", "8")], "unknown knob `batch`"),
        (&[("count", "5"), ("duration", "1s")], "count"),
    ];
    assert_refused(&OBSERVER, refused);
}
