//! The contract of loads without answers.

use serde_json::Value;

use super::{Faults, Kind, ROLES, figure_faults, join};

/// Figures of a one-way load, of the flow and of the case that has one.
const FIGURES: &[&str] = &[
    "received_per_s",
    "sent_per_s",
    "goodput_bytes_per_s",
    "warm_up_goodput_bytes_per_s",
    "fairness",
    "delivered_per_s",
];
/// Those that each end has.
const OF_BOTH_ENDS: &[&str] =
    &["system_calls_per_message", "context_switches_per_message", "cpu_seconds_per_million", "cpu_seconds_per_gb"];
/// What else a one-way load has.
const OF_AN_OPEN_LOOP: &[&str] = &["offered_per_s", "delivered_share", "pacing"];

const PACINGS: &[&str] = &["sleep+spin", "spin", "kernel"];

/// The figures that a flow has beside latencies and its ledger, and the case that has one flow too.
pub(super) fn names(flow: &Value) -> Vec<&'static str> {
    if is_one_way(flow) { [FIGURES, OF_BOTH_ENDS, OF_AN_OPEN_LOOP].concat() } else { Vec::new() }
}

/// A flow with answers has none of these figures.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{changed, example, faults};
    use super::*;

    /// The example with such a one-way load instead.
    fn example_of(load: &Value) -> Value {
        let figure = |value: f64| json!({"value": value, "low": value, "high": null});
        let both = json!({"client": figure(0.5), "server": null});
        let mut figures = json!({"received_per_s": figure(100.0), "sent_per_s": figure(101.0),
            "goodput_bytes_per_s": figure(6400.0), "warm_up_goodput_bytes_per_s": null, "fairness": figure(0.98),
            "offered_per_s": null, "delivered_per_s": null, "delivered_share": null, "pacing": null});
        for name in OF_BOTH_ENDS {
            figures[*name] = both.clone();
        }
        if load["kind"] == "offered" {
            figures["offered_per_s"] = load["offered_per_s"].clone();
            figures["delivered_per_s"] = figure(100.0);
            figures["delivered_share"] = figure(0.99);
            figures["pacing"] = json!({"method": load["pacing"], "nominal_ns": 1e7,
                "gap_ns": {"p50": figure(1e7), "p99": figure(2e7), "p999": null}, "share_below_half": figure(0.01)});
        }
        let mut run = example();
        let case = &mut run["cases"][0];
        for pointer in ["/case/flows/0", "/flows/0"] {
            let flow = case.pointer_mut(pointer).expect("the example has it");
            (flow["load"], flow["direction"]) = (load.clone(), json!("up"));
        }
        for (name, value) in figures.as_object().into_iter().flatten() {
            case["flows"][0][name] = value.clone();
            case[name] = value.clone();
        }
        run
    }

    fn loads() -> [Value; 3] {
        [
            json!({"kind": "messages", "size_bytes": 64, "batch": 8}),
            json!({"kind": "stream", "write_size_bytes": 65_536}),
            json!({"kind": "offered", "size_bytes": 64, "offered_per_s": 101.0, "arrivals": "fixed", "pacing": "spin"}),
        ]
    }

    #[test]
    fn one_way_loads_that_keep_the_contract_have_no_fault() {
        for load in loads() {
            assert_eq!(faults(&example_of(&load)), [""; 0], "{load}");
        }
    }

    #[test]
    fn every_break_of_the_contract_of_a_one_way_load_is_named_with_its_place() {
        let figure = |value: f64| json!({"value": value, "low": null, "high": null});
        let flow = "/cases/0/flows/0";
        let breaks = [
            (0, "load/batch", json!(null), "load.batch: is not a count"),
            (0, "received_per_s", json!(5), "received_per_s: is neither {value, low, high} nor null"),
            (0, "sent_per_s", json!({"value": 1.0}), "sent_per_s: has no `low` or no `high`"),
            (0, "system_calls_per_message", figure(1.0), "system_calls_per_message.client: is neither"),
            (0, "cpu_seconds_per_million", json!({"client": null}), "cpu_seconds_per_million.server: is neither"),
            (0, "offered_per_s", json!(5.0), "offered_per_s: is there although nothing was offered"),
            (0, "delivered_per_s", figure(5.0), "delivered_per_s: is there although nothing was offered"),
            (1, "load/write_size_bytes", json!("64 KiB"), "load.write_size_bytes: is not a count"),
            (1, "goodput_bytes_per_s", json!("fast"), "goodput_bytes_per_s: is neither"),
            (1, "fairness", figure(1.5), "fairness: is not above 0 and at most 1"),
            (2, "offered_per_s", json!(5.0), "offered_per_s: is not that of the load"),
            (2, "delivered_share", figure(1.5), "delivered_share: is no share"),
            (2, "pacing/method", json!("soon"), "pacing.method: `soon` is not one of the words"),
            (2, "pacing/gap_ns/p99", json!(7), "pacing.gap_ns.p99: is neither"),
            (2, "pacing/share_below_half", figure(-0.1), "pacing.share_below_half: is no share"),
            (2, "ledger/lost", json!({"link": 5}), "ledger: does not close"),
        ];
        for (which, name, value, expected) in breaks {
            let run = changed(example_of(&loads()[which]), &format!("{flow}/{name}"), value);
            let (found, expected) = (faults(&run), format!("cases[0].flows[0].{expected}"));
            assert!(found.iter().any(|fault| fault.starts_with(&expected)), "{expected}: {found:?}");
        }
        let copy = changed(example_of(&loads()[0]), "/cases/0/received_per_s", figure(7.0));
        assert_eq!(faults(&copy), ["cases[0].received_per_s: is not that of the only flow"]);
    }

    #[test]
    fn a_flow_with_answers_has_no_figures_of_a_one_way_load() {
        let mut run = example();
        run["cases"][0]["flows"][0]["goodput_bytes_per_s"] = json!({"value": 1.0, "low": null, "high": null});
        let expected = "cases[0].flows[0].goodput_bytes_per_s: is there although the flow has answers";
        assert_eq!(faults(&run), [expected]);
    }
}
