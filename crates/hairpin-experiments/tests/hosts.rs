//! Plans with servers on another host.

use std::collections::BTreeSet;

use hairpin_experiments::experiments::ALL;
use hairpin_experiments::shared::knobs_applied;
use hairpin_experiments::{Experiment, Knobs};
use hairpin_model::{FarHost, HostCapabilities, Limits};

use crate::common::{capabilities, plan_on};

pub(crate) fn with_servers_elsewhere(is_ipv6: bool) -> HostCapabilities {
    let own = capabilities();
    let far = FarHost {
        is_foreign: false,
        limits: Limits::default(),
        fallback: None,
        name: "lab".to_owned(),
        is_ipv6,
        round_trip_ns: 1_000_000,
        transports: own.names().into_iter().map(str::to_owned).collect(),
        congestion_controls: own.congestion_controls.clone(),
    };
    HostCapabilities { far: Some(far), ..own }
}

/// Between two hosts each end is pinned separately.
fn placed(experiment: &Experiment) -> &'static [(&'static str, &'static str)] {
    let has_placement = experiment.knobs.iter().any(|knob| knob.name == "placement");
    if has_placement { &[("placement", "pinned")] } else { &[] }
}

#[test]
fn every_experiment_has_defaults_over_either_version_of_ip() {
    for (is_ipv6, reached) in [(false, ["mptcp", "tcp", "udp"].as_slice()), (true, &["tcp6", "udp6"])] {
        let reached: BTreeSet<&str> = reached.iter().copied().collect();
        for experiment in ALL {
            let plan = plan_on(&with_servers_elsewhere(is_ipv6), experiment, placed(experiment)).unwrap();
            let flows = plan.cases.iter().flat_map(|case| &case.flows);
            let used: BTreeSet<&str> = flows.map(|flow| flow.transport.as_str()).collect();
            assert!(!used.is_empty() && used.is_subset(&reached), "{}: {used:?}", experiment.name);
        }
    }
}

#[test]
fn a_probe_with_any_connection_use_can_use_ipv6() {
    let under_load = ALL.iter().find(|experiment| experiment.name == "under-load").unwrap();
    let flags = [("probe-connection", "own,per-message,shared"), ("load-cpu", "same"), ("placement", "pinned")];
    let plan = plan_on(&with_servers_elsewhere(true), under_load, &flags).unwrap();
    let transports = |case: &hairpin_model::case::Case| -> Vec<String> {
        case.flows.iter().map(|flow| flow.transport.clone()).collect()
    };
    let found: Vec<Vec<String>> = plan.cases.iter().map(transports).collect();
    // If the probe has its own connection, another flow measures responsiveness.
    let [own, shared, per_message] = [&["udp6", "tcp6", "tcp6"][..], &["tcp6"; 2], &["tcp6"; 3]];
    assert_eq!(found, [own, shared, per_message]);
}

#[test]
fn the_saved_knobs_are_those_applied_between_two_hosts() {
    let here = capabilities();
    let elsewhere = with_servers_elsewhere(false);
    let round_trip = ALL.iter().find(|experiment| experiment.name == "round-trip").unwrap();
    let of = |capabilities: &HostCapabilities, given: &[(&str, &str)]| {
        let given = given.iter().map(|(name, value)| (*name, vec![(*value).to_owned()]));
        let pairs = knobs_applied(&Knobs::from_given(round_trip.knobs, given).unwrap(), capabilities).unwrap();
        let told = pairs.into_iter().filter(|(name, _)| ["placement", "link", "path"].contains(&name.as_str()));
        told.map(|(name, values)| format!("{name} {}", values.join(","))).collect::<Vec<_>>()
    };
    assert_eq!(of(&here, &[]), ["placement same-cpu,cross-cpu", "link loopback"]);
    assert_eq!(of(&elsewhere, &[]), ["placement pinned", "path lab"]);
    assert_eq!(of(&elsewhere, &[("placement", "all")]), ["placement pinned,unpinned", "path lab"]);
    assert_eq!(of(&elsewhere, &[("placement", "unpinned")]), ["placement unpinned", "path lab"]);
}
