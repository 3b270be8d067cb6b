//! The contract of a probe under load.

use serde_json::Value;

use super::checks::{Faults, Kind, figure_faults, join, latency_faults, ledger_faults};

/// Fields that only such a case has.
const OF_CASE: &[&str] = &["phases", "added_ns", "responsiveness_rpm", "recovered_after_ns"];
/// The phases that have figures.
const PHASES: &[&str] = &["idle", "loaded", "recovering"];
/// Whether a flow's samples are of the loaded phase, but its ledger of all phases.
pub(super) fn has_phases(flow: &Value) -> bool {
    flow["role"] == "probe" || flow["role"] == "foreign-probe"
}

/// Checks the figures of a case, in one state of the machine or not; without a probe it must have no such fields.
pub(super) fn case_faults(faults: &mut Faults, place: &str, case: &Value, one_state: bool) {
    let flows: Vec<&Value> = case["flows"].as_array().into_iter().flatten().collect();
    let probes: Vec<&Value> = flows.iter().copied().filter(|flow| flow["role"] == "probe").collect();
    let [probe] = probes.as_slice() else {
        faults.unless(probes.is_empty(), &join(place, "flows"), "has several probes");
        for name in OF_CASE.iter().filter(|name| case.get(**name).is_some()) {
            faults.unless(false, &join(place, name), "is there although no flow is a probe");
        }
        return;
    };
    let loads = flows.iter().filter(|flow| flow["role"] == "load").count();
    for (number, flow) in flows.iter().enumerate() {
        let has_answers = flow["direction"] == "round-trip";
        let place = format!("{place}.flows[{number}]");
        let fits = if has_phases(flow) { has_answers } else { flow["role"] == "load" && !has_answers };
        faults.unless(fits, &place, "is not a probe with answers or a load without");
    }
    let phases = faults.need(case, place, "phases", Kind::Object);
    for name in PHASES {
        let phase = faults.need(phases, &join(place, "phases"), name, Kind::Object);
        let loaded = *name == "loaded" && loads > 0;
        phase_faults(faults, &format!("{place}.phases.{name}"), phase, (one_state, loaded));
    }
    let same = phases["loaded"]["probe"]["latency_ns"] == probe["latency_ns"];
    faults.unless(same, &join(place, "phases.loaded.probe.latency_ns"), "is not that of the probe");
    let added = faults.need(case, place, "added_ns", Kind::Object);
    for name in ["p50", "p99"] {
        figure_faults(faults, &format!("{place}.added_ns.{name}"), added.get(name), false);
    }
    responsiveness_faults(faults, &join(place, "responsiveness_rpm"), case.get("responsiveness_rpm"));
    figure_faults(faults, &join(place, "recovered_after_ns"), case.get("recovered_after_ns"), false);
}

/// Checks a phase; goodput only while the load runs.
fn phase_faults(faults: &mut Faults, place: &str, phase: &Value, (one_state, loaded): (bool, bool)) {
    let (probe, of_probe) = (faults.need(phase, place, "probe", Kind::Object), join(place, "probe"));
    let samples = faults.need(probe, &of_probe, "samples", Kind::Count).as_u64().unwrap_or(0);
    latency_faults(faults, &join(&of_probe, "latency_ns"), &probe["latency_ns"], samples, Some(one_state));
    ledger_faults(faults, &join(&of_probe, "ledger"), &probe["ledger"], (samples, false));
    let load = faults.need(phase, place, "load", Kind::Object);
    let (goodput, of_load) = (load.get("goodput_bytes_per_s"), join(place, "load.goodput_bytes_per_s"));
    figure_faults(faults, &of_load, goodput, false);
    faults.unless(loaded || goodput.is_none_or(Value::is_null), &of_load, "is there although no load runs");
    let place = join(place, "queue_bytes");
    match phase.get("queue_bytes") {
        Some(Value::Null) => {}
        Some(queue @ Value::Object(_)) => {
            figure_faults(faults, &join(&place, "p50"), queue.get("p50"), true);
            let most = faults.need(queue, &place, "max", Kind::Number).as_f64();
            let fits = most.zip(queue["p50"]["value"].as_f64()).is_none_or(|(most, p50)| p50 <= most);
            faults.unless(fits, &join(&place, "max"), "is less than p50");
        }
        _ => faults.unless(false, &place, "is neither {p50, max} nor null"),
    }
}

/// A figure with the text that defines it, or null.
fn responsiveness_faults(faults: &mut Faults, place: &str, responsiveness: Option<&Value>) {
    let mut figure = responsiveness.cloned();
    if let Some(fields) = figure.as_mut().and_then(Value::as_object_mut) {
        let draft = fields.remove("draft");
        let named = draft.is_some_and(|draft| draft.as_str().is_some_and(|text| !text.is_empty()));
        faults.unless(named, &join(place, "draft"), "is not a text");
    }
    figure_faults(faults, place, figure.as_ref(), false);
}
