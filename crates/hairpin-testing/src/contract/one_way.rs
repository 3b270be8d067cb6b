//! The contract of loads without answers.

use serde_json::Value;

use super::checks::{Faults, Kind, ROLES, figure_faults, join};

/// Figures of a one-way load, of the flow and of a case with one flow.
const FIGURES: &[&str] = &[
    "received_per_s",
    "sent_per_s",
    "goodput_bytes_per_s",
    "warm_up_goodput_bytes_per_s",
    "fairness",
    "delivered_per_s",
];
/// Figures of each end.
pub(super) const OF_BOTH_ENDS: &[&str] =
    &["system_calls_per_message", "context_switches_per_message", "cpu_seconds_per_million", "cpu_seconds_per_gb"];
/// Other fields of a one-way load.
const OF_AN_OPEN_LOOP: &[&str] = &["offered_per_s", "delivered_share", "pacing"];

const PACINGS: &[&str] = &["sleep+spin", "spin", "kernel"];

/// Figures of a flow in addition to latencies and its ledger; also of a case with one flow.
pub(super) fn names(flow: &Value) -> Vec<&'static str> {
    if is_one_way(flow) { [FIGURES, OF_BOTH_ENDS, OF_AN_OPEN_LOOP].concat() } else { Vec::new() }
}

/// Checks that a flow with answers has no such figure.
pub(super) fn absent_faults(faults: &mut Faults, place: &str, flow: &Value) {
    let all = [FIGURES, OF_BOTH_ENDS, OF_AN_OPEN_LOOP].concat();
    for name in all.iter().filter(|name| !flow[**name].is_null()) {
        faults.unless(false, &join(place, name), "is there although the flow has answers");
    }
}

/// Whether the load of a flow has no answers.
pub(super) fn is_one_way(flow: &Value) -> bool {
    ["messages", "stream", "offered"].iter().any(|kind| flow["load"]["kind"] == *kind)
}

/// The figures of a load without answers.
pub(super) fn figures_faults(faults: &mut Faults, place: &str, flow: &Value) {
    for name in FIGURES {
        figure_faults(faults, &join(place, name), flow.get(name), false);
    }
    for name in OF_BOTH_ENDS {
        let ends = faults.need(flow, place, name, Kind::Object);
        for end in ROLES {
            figure_faults(faults, &format!("{place}.{name}.{end}"), ends.get(end), false);
        }
    }
    let fair = flow["fairness"]["value"].as_f64().is_none_or(|fairness| fairness > 0.0 && fairness <= 1.0);
    faults.unless(fair, &join(place, "fairness"), "is not above 0 and at most 1");
    if flow["load"]["kind"] != "offered" {
        for name in OF_AN_OPEN_LOOP.iter().chain(&["delivered_per_s"]).filter(|name| !flow[**name].is_null()) {
            faults.unless(false, &join(place, name), "is there although nothing was offered at a rate");
        }
        return;
    }
    let asked = flow["load"]["offered_per_s"] == flow["offered_per_s"];
    faults.unless(asked, &join(place, "offered_per_s"), "is not that of the load");
    figure_faults(faults, &join(place, "delivered_share"), flow.get("delivered_share"), false);
    let share = flow["delivered_share"]["value"].as_f64().is_none_or(|share| (0.0..=1.0).contains(&share));
    faults.unless(share, &join(place, "delivered_share"), "is no share");
    if !flow["pacing"].is_null() {
        pacing_faults(faults, &join(place, "pacing"), &flow["pacing"]);
    }
}

fn pacing_faults(faults: &mut Faults, place: &str, pacing: &Value) {
    faults.word(pacing, place, "method", PACINGS);
    faults.need(pacing, place, "nominal_ns", Kind::Number);
    let gaps = faults.need(pacing, place, "gap_ns", Kind::Object);
    for name in ["p50", "p99", "p999"] {
        figure_faults(faults, &format!("{place}.gap_ns.{name}"), gaps.get(name), false);
    }
    figure_faults(faults, &join(place, "share_below_half"), pacing.get("share_below_half"), false);
    let below = pacing["share_below_half"]["value"].as_f64().is_none_or(|share| (0.0..=1.0).contains(&share));
    faults.unless(below, &join(place, "share_below_half"), "is no share");
}
