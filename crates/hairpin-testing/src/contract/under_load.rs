//! The contract of a probe under load.

use serde_json::Value;

use super::checks::{Faults, latency_faults, list, samples_fit};

/// Fields that only such a case has.
const OF_CASE: &[&str] = &["phases", "added_ns", "responsiveness_rpm", "recovered_after_ns"];
/// The phases that have figures.
const PHASES: &[&str] = &["idle", "loaded", "recovering"];
/// Name of the first flow.
const PROBE: &str = "probe";
/// Names of the load flows; the second only if the load goes both ways.
const LOADS: &[&str] = &["load", "load-back"];
/// Name of a flow that opens new connections during the load, for responsiveness; the last flow, if present.
const FOREIGN: &str = "foreign";

/// Whether a flow's samples are of the loaded phase, but its ledger of all phases.
pub(super) fn has_phases(flow: &Value) -> bool {
    flow["name"] == PROBE || flow["name"] == FOREIGN
}

/// Checks the figures of a case, in one state of the machine or not; without a probe it must have no such fields.
pub(super) fn case_faults(faults: &mut Faults, place: &str, case: &Value, one_state: bool) {
    let flows = list(case, "flows");
    let has_probe = flows.first().is_some_and(|flow| flow["name"] == PROBE);
    let what = if has_probe { "is missing" } else { "is there although no flow is a probe" };
    for name in OF_CASE {
        faults.unless(case.get(*name).is_some() == has_probe, &format!("{place}.{name}"), what);
    }
    if !has_probe {
        return;
    }
    let loads = flows.iter().filter(|flow| LOADS.iter().any(|name| flow["name"] == *name)).count();
    for (number, flow) in flows.iter().enumerate() {
        let place = format!("{place}.flows[{number}]");
        let name =
            if number == 0 { PROBE } else { LOADS.get(number - 1).filter(|_| number <= loads).unwrap_or(&FOREIGN) };
        let in_place = flow["name"] == name && number <= loads + 1;
        faults.unless(in_place, &place, "has not the name of its place");
        let has_answers = flow["direction"] == "round-trip";
        faults.unless(has_answers != LOADS.contains(&name), &place, "is not a probe with answers or a load without");
    }
    for name in PHASES {
        let loaded = *name == "loaded" && loads > 0;
        phase_faults(faults, &format!("{place}.phases.{name}"), &case["phases"][*name], (one_state, loaded));
    }
    let same = case["phases"]["loaded"]["probe"]["latency_ns"] == case["flows"][0]["latency_ns"];
    faults.unless(same, &format!("{place}.phases.loaded.probe.latency_ns"), "is not that of the probe");
}

/// Checks a phase; goodput only while the load runs.
fn phase_faults(faults: &mut Faults, place: &str, phase: &Value, (one_state, loaded): (bool, bool)) {
    let (probe, of_probe) = (&phase["probe"], format!("{place}.probe"));
    let samples = probe["samples"].as_u64().unwrap_or(0);
    latency_faults(faults, &format!("{of_probe}.latency_ns"), &probe["latency_ns"], samples, Some(one_state));
    samples_fit(faults, &format!("{of_probe}.ledger"), &probe["ledger"], (samples, false));
    let goodput = &phase["load"]["goodput_bytes_per_s"];
    let what = "is there although no load runs";
    faults.unless(loaded || goodput.is_null(), &format!("{place}.load.goodput_bytes_per_s"), what);
    let queue = &phase["queue_bytes"];
    let fits = queue["p50"]["value"].as_f64() <= queue["max"].as_f64();
    faults.unless(fits, &format!("{place}.queue_bytes.max"), "is less than p50");
}
