//! The contract of one-way loads.

use serde_json::Value;

use super::checks::Faults;

/// Figures of a one-way load. A case with one flow has these fields too.
const FIGURES: &[&str] = &[
    "received_per_s",
    "sent_per_s",
    "goodput_bytes_per_s",
    "warm_up_goodput_bytes_per_s",
    "fairness",
    "delivered_per_s",
];
const OF_BOTH_ENDS: &[&str] = &[
    "system_calls_per_message",
    "context_switches_per_message",
    "cpu_seconds_per_million",
    "cpu_seconds_per_gb",
    "peak_memory_bytes",
];
const OF_AN_OPEN_LOOP: &[&str] = &["offered_per_s", "delivered_share", "pacing"];
/// Figures from 0 to 1.
const SHARES: &[&str] = &["/fairness", "/delivered_share", "/pacing/share_below_half"];

/// Returns the fields of a one-way flow, or of a case with only this flow, in addition to latencies and ledger.
pub(super) fn names(flow: &Value) -> Vec<&'static str> {
    if is_one_way(flow) { [FIGURES, OF_BOTH_ENDS, OF_AN_OPEN_LOOP].concat() } else { Vec::new() }
}

pub(super) fn is_one_way(flow: &Value) -> bool {
    ["messages", "stream", "offered"].iter().any(|kind| flow["load"]["kind"] == *kind)
}

/// Checks that a flow has no figures of other kinds of load.
pub(super) fn flow_faults(faults: &mut Faults, place: &str, flow: &Value) {
    let mut refuse = |names: &[&str], what: &str| {
        for name in names {
            faults.unless(flow[*name].is_null(), &format!("{place}.{name}"), what);
        }
    };
    if !is_one_way(flow) {
        return refuse(&[FIGURES, OF_BOTH_ENDS, OF_AN_OPEN_LOOP].concat(), "is present, but the flow has answers");
    }
    if flow["load"]["kind"] == "offered" {
        let asked = flow["load"]["offered_per_s"] == flow["offered_per_s"];
        faults.unless(asked, &format!("{place}.offered_per_s"), "differs from the rate of the load");
    } else {
        refuse(&[OF_AN_OPEN_LOOP, &["delivered_per_s"]].concat(), "is present although the load has no fixed rate");
    }
    for pointer in SHARES {
        let share = flow.pointer(&format!("{pointer}/value")).and_then(Value::as_f64);
        let least = if *pointer == "/fairness" { f64::MIN_POSITIVE } else { 0.0 };
        let fits = share.is_none_or(|share| (least..=1.0).contains(&share));
        faults.unless(fits, &format!("{place}{}", pointer.replace('/', ".")), "is not a share");
    }
}
