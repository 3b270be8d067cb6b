//! The contract of a probe under load.

use serde_json::Value;

use super::checks::{Faults, latency_faults, list, samples_fit};

const PROBE_FIELDS: &[&str] = &["phases", "added_ns", "responsiveness_rpm", "recovered_after_ns"];
const PHASES: &[&str] = &["idle", "loaded", "recovering"];
/// Whether a flow has samples of the loaded phase only but a ledger of all phases.
pub(super) fn has_phases(flow: &Value) -> bool {
    flow["role"] == "probe" || flow["role"] == "foreign-probe"
}

/// Checks the fields of a case with a probe. A case without a probe must not have these fields.
pub(super) fn case_faults(faults: &mut Faults, place: &str, case: &Value, one_state: bool) {
    let flows = list(case, "flows");
    let probes: Vec<&Value> = flows.iter().filter(|flow| flow["role"] == "probe").collect();
    faults.unless(probes.len() < 2, &format!("{place}.flows"), "has several probes");
    let what = if probes.is_empty() { "is present although no flow is a probe" } else { "is missing" };
    for name in PROBE_FIELDS {
        faults.unless(case.get(*name).is_some() != probes.is_empty(), &format!("{place}.{name}"), what);
    }
    let [probe] = probes.as_slice() else {
        return;
    };
    let loads = flows.iter().filter(|flow| flow["role"] == "load").count();
    for (number, flow) in flows.iter().enumerate() {
        let has_answers = flow["direction"] == "round-trip";
        let place = format!("{place}.flows[{number}]");
        let fits = if has_phases(flow) { has_answers } else { flow["role"] == "load" && !has_answers };
        faults.unless(fits, &place, "is neither a round-trip probe nor a one-way load");
    }
    for name in PHASES {
        let loaded = *name == "loaded" && loads > 0;
        phase_faults(faults, &format!("{place}.phases.{name}"), &case["phases"][*name], (one_state, loaded));
    }
    let same = case["phases"]["loaded"]["probe"]["latency_ns"] == probe["latency_ns"];
    faults.unless(same, &format!("{place}.phases.loaded.probe.latency_ns"), "differs from the value of the probe");
}

/// Checks a phase. A phase has goodput only if a load runs.
fn phase_faults(faults: &mut Faults, place: &str, phase: &Value, (one_state, loaded): (bool, bool)) {
    let (probe, of_probe) = (&phase["probe"], format!("{place}.probe"));
    let samples = probe["samples"].as_u64().unwrap_or(0);
    latency_faults(faults, &format!("{of_probe}.latency_ns"), &probe["latency_ns"], samples, Some(one_state));
    samples_fit(faults, &format!("{of_probe}.ledger"), &probe["ledger"], (samples, false));
    let goodput = &phase["load"]["goodput_bytes_per_s"];
    let what = "is present although no load runs";
    faults.unless(loaded || goodput.is_null(), &format!("{place}.load.goodput_bytes_per_s"), what);
    let queue = &phase["queue_bytes"];
    let fits = queue["p50"]["value"].as_f64() <= queue["max"].as_f64();
    faults.unless(fits, &format!("{place}.queue_bytes.max"), "is less than p50");
}
