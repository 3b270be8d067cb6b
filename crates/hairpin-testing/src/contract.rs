//! The contract of a run's JSON: properties on which scripts may rely, beyond the [`schema`](crate::schema).

mod checks;
mod one_way;
#[cfg(test)]
mod tests;
mod under_load;

use serde_json::Value;

pub use checks::list;
use checks::{Faults, latency_faults, samples_fit, sum};

const NON_EMPTY: &str = "advice code cpu_model draft headline kernel link name reason transport version writes";

/// Returns all faults of a run against the contract, each with its place in the object.
pub fn faults(run: &Value) -> Vec<String> {
    let mut faults = Faults::default();
    every_value(&mut faults, "", run);
    for name in ["hosts", "cases"] {
        faults.unless(!list(run, name).is_empty(), name, "is empty");
    }
    let known = |id: &Value| list(run, "cases").iter().any(|case| case["id"] == *id);
    let answer = &run["answer"];
    faults.unless(!list(answer, "statements").is_empty(), "answer.statements", "is empty");
    for (number, statement) in list(answer, "statements").iter().enumerate() {
        let lists = ["cases", "least", "most"].into_iter().flat_map(|name| list(statement, name));
        let one = ["case", "default", "best", "unbatched"].map(|name| &statement[name]);
        let mut ids = one.into_iter().filter(|id| !id.is_null()).chain(lists);
        faults.unless(ids.all(known), &format!("answer.statements[{number}]"), "names an unknown case");
    }
    for (number, pair) in list(answer, "pairs").iter().enumerate() {
        let names_cases = known(&pair["a"]) && known(&pair["b"]);
        faults.unless(names_cases, &format!("answer.pairs[{number}]"), "names an unknown case");
    }
    for (number, knee) in list(answer, "knees").iter().enumerate() {
        let place = format!("answer.knees[{number}]");
        let ids = list(knee, "cases");
        let are_known = ids.len() > 1 && ids.iter().all(known);
        faults.unless(are_known, &format!("{place}.cases"), "are not two or more cases of the run");
        let [delivered, not] = ["delivered_per_s", "not_delivered_per_s"].map(|name| knee[name].as_f64());
        let rises = delivered.zip(not).is_none_or(|(delivered, not)| delivered < not);
        faults.unless(rises, &format!("{place}.not_delivered_per_s"), "is not above the rate that was delivered");
        let fits = knee["why_not"].is_null() == not.is_none();
        faults.unless(fits, &format!("{place}.why_not"), "does not agree with `not_delivered_per_s`");
    }
    for (number, comparison) in list(run, "comparisons").iter().enumerate() {
        let fits = (comparison["figure"] == "p50") != comparison["difference_ns"].is_null();
        faults.unless(fits, &format!("comparisons[{number}].difference_ns"), "does not agree with `figure`");
    }
    for (number, case) in list(run, "cases").iter().enumerate() {
        case_faults(&mut faults, &format!("cases[{number}]"), case, list(run, "hosts"));
    }
    for (number, finding) in list(run, "findings").iter().enumerate() {
        let all = list(finding, "cases").iter().all(known);
        faults.unless(all, &format!("findings[{number}].cases"), "names an unknown case");
    }
    faults.0
}

fn every_value(faults: &mut Faults, place: &str, value: &Value) {
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        every_value(faults, &format!("{place}[{number}]"), item);
    }
    let Some(fields) = value.as_object() else { return };
    if ["value", "low", "high"].iter().all(|name| fields.contains_key(*name)) {
        figure_faults(faults, place, value);
    }
    if ["sent", "received", "lost", "late", "unexplained"].iter().all(|name| fields.contains_key(*name)) {
        let count = |name: &str| i128::from(value[name].as_i64().unwrap_or(0));
        let rest = count("sent") - count("received") - sum(&value["lost"]) - count("late");
        let unexplained = count("unexplained");
        let what = format!("does not close: {rest} messages are missing, not {unexplained}");
        faults.unless(rest == unexplained, place, &what);
    }
    for (name, field) in fields {
        let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        faults.unless(field != "" || !NON_EMPTY.split_whitespace().any(|text| text == name), &place, "is empty");
        every_value(faults, &place, field);
    }
}

fn figure_faults(faults: &mut Faults, place: &str, figure: &Value) {
    let has_reason = figure["why"].is_null() || figure["low"].is_null();
    faults.unless(has_reason, place, "has both an interval and a reason for a missing interval");
    let bound = |name: &str, none: f64| figure[name].as_f64().unwrap_or(none);
    let interval = bound("low", f64::NEG_INFINITY)..=bound("high", f64::INFINITY);
    let holds = figure["value"].as_f64().is_some_and(|value| interval.contains(&value));
    faults.unless(holds, place, "its interval does not contain its value");
}

fn case_faults(faults: &mut Faults, place: &str, summary: &Value, hosts: &[Value]) {
    let reasons = list(summary, "why_invalid");
    let agrees = (summary["valid"] == true) == reasons.is_empty();
    faults.unless(agrees, &format!("{place}.why_invalid"), "does not agree with `valid`");
    let (flows, asked) = (list(summary, "flows"), list(&summary["case"], "flows"));
    let is_asked = |flow: &Value| {
        let fields = ["id", "role", "transport", "options", "load", "direction"];
        asked.iter().any(|asked| fields.iter().all(|name| flow[*name] == asked[*name]))
    };
    let same = flows.len() == asked.len() && !flows.is_empty() && flows.iter().all(is_asked);
    faults.unless(same, &format!("{place}.flows"), "are not the flows of the case");
    let is_repeated = |flow: &&Value| flows.iter().filter(|other| other["id"] == flow["id"]).count() > 1;
    faults.unless(!flows.iter().any(|flow| is_repeated(&flow)), &format!("{place}.flows"), "have a duplicate id");
    // Figures cover only the rounds in one state of the machine whose slowest messages were not disturbed; `samples`
    // counts all rounds.
    let is_tail = |out: &Value| out["only_tail"] == true;
    let one_state = list(summary, "other_states").is_empty() && !list(summary, "omitted_rounds").iter().any(is_tail);
    for (number, flow) in flows.iter().enumerate() {
        flow_faults(faults, &format!("{place}.flows[{number}]"), flow, one_state);
    }
    under_load::case_faults(faults, place, summary, one_state);
    if let [flow] = flows {
        for name in ["latency_ns", "rate_per_s", "ledger"].into_iter().chain(one_way::names(flow)) {
            let equal = summary.get(name).is_some_and(|value| *value == flow[name]);
            faults.unless(equal, &format!("{place}.{name}"), "differs from the value of the only flow");
        }
    }
    faults.unless(!list(summary, "ends").is_empty(), &format!("{place}.ends"), "is empty");
    for (number, end) in list(summary, "ends").iter().enumerate() {
        let place = format!("{place}.ends[{number}]");
        let known = hosts.iter().any(|host| host["role"] == end["host"]);
        faults.unless(known, &format!("{place}.host"), "is not listed in `hosts`");
        let known = flows.iter().any(|flow| flow["id"] == end["flow"]);
        faults.unless(known, &format!("{place}.flow"), "is not a flow of the case");
    }
    let packets = &summary["path"]["relay"]["packets"];
    let count = |name: &str| i128::from(packets[name].as_u64().unwrap_or(0));
    let rest = count("in") + count("duplicated") - count("out") - count("inside") - sum(&packets["dropped"]);
    let what = format!("does not close: {rest} packets are missing");
    faults.unless(rest == 0, &format!("{place}.path.relay.packets"), &what);
}

/// Checks the results of a flow. With `one_state`, all figures with enough samples must be present.
fn flow_faults(faults: &mut Faults, place: &str, flow: &Value, one_state: bool) {
    let samples = flow["samples"].as_u64().unwrap_or(0);
    // A one-way load stamps only some of its messages.
    let one_state = (!one_way::is_one_way(flow)).then_some(one_state);
    latency_faults(faults, &format!("{place}.latency_ns"), &flow["latency_ns"], samples, one_state);
    let rate = &flow["rate_per_s"];
    faults.unless(
        samples == 0 || !rate.is_null(),
        &format!("{place}.rate_per_s"),
        "is null although there are samples",
    );
    one_way::flow_faults(faults, place, flow);
    // A sample of a control loop is a cycle, with a message to each device; without devices it is a wait.
    let is_loop = flow["load"]["kind"] == "periodic";
    let devices = if is_loop { flow["connections"].as_u64().unwrap_or(1) } else { 1 };
    if flow["load"]["only_waits"] != true {
        let messages = (samples * devices, under_load::has_phases(flow));
        samples_fit(faults, &format!("{place}.ledger"), &flow["ledger"], messages);
    }
}

/// Returns the deviations of a round-trip run from the requested `--count` and `--rounds`. Lost messages are not a
/// deviation: unreliable transports may lose messages, and the ledger counts them.
pub fn not_as_asked(run: &Value, count: u64, rounds: u64) -> Vec<String> {
    let mut faults = Faults::default();
    for (number, summary) in list(run, "cases").iter().enumerate() {
        let place = format!("cases[{number}] ({})", summary["case"]["flows"][0]["transport"].as_str().unwrap_or("?"));
        let done = summary["rounds"].as_u64();
        faults.unless(done == Some(rounds), &place, &format!("{rounds} rounds were requested, not {done:?}"));
        let sent = summary["ledger"]["sent"].as_u64();
        let asked = count * rounds;
        faults.unless(sent == Some(asked), &place, &format!("{asked} messages were requested, not {sent:?}"));
        faults.unless(summary["valid"] == true, &place, &format!("not valid: {}", summary["why_invalid"]));
        faults.unless(summary["ledger"]["unexplained"] == 0, &place, "its ledger has unexplained messages");
    }
    faults.0
}

pub fn example() -> Value {
    serde_json::from_str(include_str!("contract/example.json")).expect("valid JSON")
}

pub fn with(pointer: &str, value: Value) -> Value {
    changed(example(), pointer, value)
}

fn changed(mut run: Value, pointer: &str, value: Value) -> Value {
    *run.pointer_mut(pointer).expect("the example has it") = value;
    run
}
