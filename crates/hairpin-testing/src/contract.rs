//! The contract with scripts: the object that `--json` prints and `run.json` holds. Its only definition, against which
//! tests and chores check runs.

mod checks;
mod one_way;
#[cfg(test)]
mod tests;
mod under_load;

use serde_json::{Value, json};

use checks::{Faults, Kind, ROLES, by_cause, figure_faults, join, latency_faults, ledger_faults};

const FIGURES: &[&str] = &["p50", "p90", "p99", "p999", "mean", "rate", "goodput"];
const WAITINGS: &[&str] = &["block", "poll", "spin", "uring", "async"];
const PLACEMENTS: &[&str] = &["same-cpu", "cross-cpu", "unpinned", "pinned"];

/// The list at that name, or an empty one.
#[must_use]
pub fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Every break of the contract in a run, each with the place in the object.
#[must_use]
pub fn faults(run: &Value) -> Vec<String> {
    let mut faults = Faults::default();
    faults.need(run, "", "format", Kind::Count);
    let tool = faults.need(run, "", "tool", Kind::Object);
    for name in ["name", "version"] {
        faults.need(tool, "tool", name, Kind::Text);
    }
    faults.unless(!list(run, "hosts").is_empty(), "hosts", "is empty");
    for (number, host) in list(run, "hosts").iter().enumerate() {
        let place = format!("hosts[{number}]");
        faults.word(host, &place, "role", ROLES);
        let environment = faults.need(host, &place, "environment", Kind::Object);
        for name in ["kernel", "cpu_model"] {
            faults.need(environment, &join(&place, "environment"), name, Kind::Text);
        }
    }
    faults.need(run, "", "seed", Kind::Count);
    for name in ["cases", "findings", "skipped"] {
        faults.need(run, "", name, Kind::List);
    }
    let answer = faults.need(run, "", "answer", Kind::Object);
    faults.need(answer, "answer", "headline", Kind::Text);
    let known = |id: &Value| list(run, "cases").iter().any(|case| case["id"] == *id);
    faults.unless(!list(answer, "statements").is_empty(), "answer.statements", "is empty");
    for (place, statement) in list(answer, "statements").iter().enumerate() {
        let place = format!("answer.statements[{place}]");
        faults.need(statement, &place, "kind", Kind::Text);
        let lists = ["cases", "least", "most"].into_iter().flat_map(|name| list(statement, name));
        let one = ["case", "default", "best", "unbatched"].map(|name| &statement[name]);
        let mut ids = one.into_iter().filter(|id| !id.is_null()).chain(lists);
        faults.unless(ids.all(known), &place, "names a case that is not there");
    }
    for (place, pair) in list(answer, "pairs").iter().enumerate() {
        for name in ["figure", "a", "b", "verdict"] {
            faults.need(pair, &format!("answer.pairs[{place}]"), name, Kind::Text);
        }
        figure_faults(&mut faults, &format!("answer.pairs[{place}].ratio"), pair.get("ratio"), true);
        let names_cases = known(&pair["a"]) && known(&pair["b"]);
        faults.unless(names_cases, &format!("answer.pairs[{place}]"), "names a case that is not there");
    }
    for (number, knee) in list(answer, "knees").iter().enumerate() {
        knee_faults(&mut faults, &format!("answer.knees[{number}]"), knee, list(run, "cases"));
    }
    for (number, comparison) in list(run, "comparisons").iter().enumerate() {
        let place = format!("comparisons[{number}]");
        faults.word(comparison, &place, "figure", FIGURES);
        let is_latency = comparison["figure"] == "p50";
        let fits = is_latency != comparison["difference_ns"].is_null();
        faults.unless(fits, &join(&place, "difference_ns"), "does not fit the figure");
    }
    faults.unless(!list(run, "cases").is_empty(), "cases", "is empty");
    for (number, case) in list(run, "cases").iter().enumerate() {
        case_faults(&mut faults, &format!("cases[{number}]"), case, list(run, "hosts").len());
    }
    let ids: Vec<&Value> = list(run, "cases").iter().map(|case| &case["id"]).collect();
    for (number, finding) in list(run, "findings").iter().enumerate() {
        finding_faults(&mut faults, &format!("findings[{number}]"), finding, &ids);
    }
    for (number, skipped) in list(run, "skipped").iter().enumerate() {
        let place = format!("skipped[{number}]");
        faults.need(skipped, &place, "transport", Kind::Text);
        faults.need(skipped, &place, "reason", Kind::Text);
    }
    faults.0
}

fn knee_faults(faults: &mut Faults, place: &str, knee: &Value, cases: &[Value]) {
    let known = |id: &Value| cases.iter().any(|case| case["id"] == *id);
    let ids = list(knee, "cases");
    faults.unless(
        ids.len() > 1 && ids.iter().all(known),
        &join(place, "cases"),
        "are not cases of the run, two or more",
    );
    let mut rate = |name: &str| match knee.get(name) {
        Some(Value::Null) => None,
        _ => faults.need(knee, place, name, Kind::Number).as_f64(),
    };
    let bracket = rate("delivered_per_s").zip(rate("not_delivered_per_s"));
    rate("highest_power_per_s");
    let rises = bracket.is_none_or(|(delivered, not)| delivered < not);
    faults.unless(rises, &join(place, "not_delivered_per_s"), "is not above the rate that was delivered");
    let fits = knee["why_not"].is_null() == knee["not_delivered_per_s"].is_null();
    faults.unless(fits, &join(place, "why_not"), "does not fit the rate that was not delivered");
}

fn finding_faults(faults: &mut Faults, place: &str, finding: &Value, ids: &[&Value]) {
    for (name, kind) in [
        ("code", Kind::Text),
        ("severity", Kind::Text),
        ("cases", Kind::List),
        ("evidence", Kind::List),
        ("advice", Kind::Text),
    ] {
        faults.need(finding, place, name, kind);
    }
    let known = list(finding, "cases").iter().all(|id| ids.contains(&id));
    faults.unless(known, &join(place, "cases"), "names a case that the run does not have");
    for (number, evidence) in list(finding, "evidence").iter().enumerate() {
        figure_faults(faults, &format!("{place}.evidence[{number}].value"), evidence.get("value"), true);
    }
}

fn case_faults(faults: &mut Faults, place: &str, summary: &Value, hosts: usize) {
    let case = faults.need(summary, place, "case", Kind::Object);
    let inner = join(place, "case");
    for (number, flow) in list(case, "flows").iter().enumerate() {
        settings_faults(faults, &format!("{inner}.flows[{number}]"), flow);
    }
    let ends = faults.need(case, &inner, "ends", Kind::Object);
    let settings = [("waiting", WAITINGS), ("placement", PLACEMENTS), ("kind", &["processes", "threads"])];
    settings.iter().for_each(|(name, words)| faults.word(ends, &join(&inner, "ends"), name, words));
    faults.need(summary, place, "rounds", Kind::Count);
    let valid = faults.need(summary, place, "valid", Kind::Switch).as_bool().unwrap_or(false);
    faults.need(summary, place, "why_invalid", Kind::List);
    let reasons = list(summary, "why_invalid");
    faults.unless(reasons.iter().all(Value::is_string), &join(place, "why_invalid"), "has a reason that is no text");
    faults.unless(valid == reasons.is_empty(), &join(place, "why_invalid"), "does not agree with `valid`");
    let flows = list(summary, "flows");
    let same = flows.len() == list(case, "flows").len() && !flows.is_empty();
    faults.unless(same, &join(place, "flows"), "are not the flows of the case");
    // Figures are of the rounds in one state of the machine, samples of all rounds.
    let one_state = list(summary, "other_states").is_empty();
    for (number, flow) in flows.iter().enumerate() {
        flow_faults(faults, &format!("{place}.flows[{number}]"), flow, one_state);
    }
    under_load::case_faults(faults, place, summary, one_state);
    if let [flow] = flows {
        for name in ["latency_ns", "rate_per_s", "ledger"].into_iter().chain(one_way::names(flow)) {
            let equal = summary.get(name).is_some_and(|value| *value == flow[name]);
            faults.unless(equal, &join(place, name), "is not that of the only flow");
        }
    }
    faults.unless(!list(summary, "ends").is_empty(), &join(place, "ends"), "is empty");
    for (number, end) in list(summary, "ends").iter().enumerate() {
        end_faults(faults, &format!("{place}.ends[{number}]"), end, hosts);
    }
    let path = faults.need(summary, place, "path", Kind::Object);
    faults.need(path, &join(place, "path"), "link", Kind::Text);
    if let Some(relay) = path.get("relay") {
        link_faults(faults, &join(place, "path.relay"), relay);
    }
}

/// Checks the settings of a flow.
fn settings_faults(faults: &mut Faults, place: &str, flow: &Value) {
    for name in ["name", "transport"] {
        faults.need(flow, place, name, Kind::Text);
    }
    faults.need(flow, place, "options", Kind::Object);
    faults.word(flow, place, "direction", &["round-trip", "up", "down"]);
    for name in ["streams", "connections", "receivers"] {
        faults.need(flow, place, name, Kind::Count);
    }
    let load = faults.need(flow, place, "load", Kind::Object);
    let place = join(place, "load");
    faults.word(load, &place, "kind", &["ping-pong", "paced", "exchange", "messages", "stream", "offered"]);
    let needed: &[(&str, Kind)] = match load["kind"].as_str().unwrap_or_default() {
        "ping-pong" => &[("size_bytes", Kind::Count), ("reply_size_bytes", Kind::Count)],
        "paced" => &[("size_bytes", Kind::Count), ("reply_size_bytes", Kind::Count), ("rate_per_s", Kind::Number)],
        "exchange" => &[("writes", Kind::Text), ("reply_size_bytes", Kind::Count), ("remedy", Kind::Text)],
        "messages" => &[("size_bytes", Kind::Count), ("batch", Kind::Count)],
        "offered" => &[
            ("size_bytes", Kind::Count),
            ("offered_per_s", Kind::Number),
            ("arrivals", Kind::Text),
            ("pacing", Kind::Text),
        ],
        _ => &[("write_size_bytes", Kind::Count)],
    };
    needed.iter().for_each(|(name, kind)| {
        faults.need(load, &place, name, *kind);
    });
}

/// Checks the results of a flow; in one state of the machine a figure is present if the samples suffice.
fn flow_faults(faults: &mut Faults, place: &str, flow: &Value, one_state: bool) {
    settings_faults(faults, place, flow);
    let samples = faults.need(flow, place, "samples", Kind::Count).as_u64().unwrap_or(0);
    // Some messages of a one-way load have no time stamp.
    let one_state = (!one_way::is_one_way(flow)).then_some(one_state);
    latency_faults(faults, &join(place, "latency_ns"), &flow["latency_ns"], samples, one_state);
    figure_faults(faults, &join(place, "rate_per_s"), flow.get("rate_per_s"), samples > 0);
    if one_way::is_one_way(flow) {
        one_way::figures_faults(faults, place, flow);
    } else {
        one_way::absent_faults(faults, place, flow);
    }
    let of_samples = (samples, under_load::has_phases(flow));
    ledger_faults(faults, &join(place, "ledger"), &flow["ledger"], of_samples);
}

fn end_faults(faults: &mut Faults, place: &str, end: &Value, hosts: usize) {
    for (name, words) in [("role", ROLES), ("waiting", WAITINGS), ("placement", PLACEMENTS)] {
        faults.word(end, place, name, words);
    }
    let host = faults.need(end, place, "host", Kind::Count).as_u64().unwrap_or(u64::MAX);
    let known = usize::try_from(host).is_ok_and(|host| host < hosts);
    faults.unless(known, &join(place, "host"), "is no place in `hosts`");
    faults.need(end, place, "cpu_seconds", Kind::Number);
    faults.need(end, place, "effective_options", Kind::List);
}

fn link_faults(faults: &mut Faults, place: &str, link: &Value) {
    faults.need(link, place, "seed", Kind::Count);
    let late = &link["lateness_ns"];
    for name in ["p50", "p99", "max"].into_iter().filter(|_| !late.is_null()) {
        faults.need(late, &join(place, "lateness_ns"), name, Kind::Count);
    }
    let packets = faults.need(link, place, "packets", Kind::Object);
    let place = join(place, "packets");
    let dropped = by_cause(faults, packets, &place, "dropped");
    let mut count = |name: &str| i128::from(faults.need(packets, &place, name, Kind::Count).as_u64().unwrap_or(0));
    let came = count("in") + count("duplicated");
    let rest = came - count("out") - count("inside") - dropped;
    count("reordered");
    faults.unless(rest == 0, &place, &format!("does not close: {rest} are left"));
}

/// Deviations of a round trip from the requested `--count` and `--rounds`. Loss is no fault: it is in the ledger, and
/// unreliable transports may lose messages.
#[must_use]
pub fn not_as_asked(run: &Value, count: u64, rounds: u64) -> Vec<String> {
    let mut faults = Faults::default();
    for (number, summary) in list(run, "cases").iter().enumerate() {
        let place = format!("cases[{number}] ({})", summary["case"]["flows"][0]["transport"].as_str().unwrap_or("?"));
        let done = summary["rounds"].as_u64();
        faults.unless(done == Some(rounds), &place, &format!("{rounds} rounds were asked, not {done:?}"));
        let sent = summary["ledger"]["sent"].as_u64();
        let asked = count * rounds;
        faults.unless(sent == Some(asked), &place, &format!("{asked} messages were asked, not {sent:?}"));
        faults.unless(summary["valid"] == true, &place, &format!("not valid: {}", summary["why_invalid"]));
        faults.unless(summary["ledger"]["unexplained"] == 0, &place, "its ledger does not close to zero");
    }
    faults.0
}

/// A run that keeps the contract, for tests.
#[must_use]
pub fn example() -> Value {
    let figure = |value: f64| json!({"value": value, "low": value - 1.0, "high": null});
    let settings = json!({
        "name": "main", "transport": "tcp", "options": {}, "direction": "round-trip", "streams": 1, "connections": 1,
        "receivers": 1, "load": {"kind": "ping-pong", "size_bytes": 4, "reply_size_bytes": 4},
    });
    let latency = json!({"p50": figure(10.0), "p90": figure(20.0), "p99": null, "p999": null, "max": figure(99.0),
        "mean": figure(12.0)});
    let ledger =
        json!({"sent": 400, "received": 398, "lost": {"link": 1}, "late": 1, "duplicated": 0, "unexplained": 0});
    let mut flow = settings.clone();
    let measured = json!({"samples": 398, "latency_ns": latency, "rate_per_s": figure(100.0),
        "ledger": ledger});
    let fields = measured.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
    flow.as_object_mut().expect("it is one").extend(fields);
    let end = |role: &str| {
        json!({"role": role, "host": 0, "waiting": "block", "placement": "cross-cpu", "cpu_seconds": 0.1,
            "effective_options": [], "facts": []})
    };
    json!({
        "format": 2, "tool": {"name": "hairpin", "version": "1.0.0"},
        "hosts": [{"role": "client", "environment":
            {"kernel": "Linux 6.18", "cpu_model": "a CPU", "cpus_used": [0, 1]}}],
        "seed": 7, "state": "complete",
        "cases": [{
            "id": "1",
            "case": {"flows": [settings], "ends": {"kind": "processes", "waiting": "block", "placement": "cross-cpu",
                "cpu_idle": "deep"}, "path": {"link": "delay=2ms"}},
            "rounds": 2, "valid": true, "why_invalid": [],
            "flows": [flow], "latency_ns": latency, "rate_per_s": figure(100.0), "ledger": ledger,
            "ends": [end("client"), end("server")],
            "path": {"link": "delay=2ms", "relay": {"seed": 7, "lateness_ns": {"p50": 1, "p99": 2, "max": 3},
                "packets": {"in": 10, "out": 9, "dropped": {"loss": 2}, "duplicated": 1, "reordered": 0, "inside": 0}}},
        }],
        "comparisons": [{"role": "a-a", "figure": "p50", "verdict": "cannot-tell", "ratio": {"value": 1.0},
            "difference_ns": {"value": 0.0, "low": null, "high": null}}],
        "answer": {"headline": "tcp takes 10 ns.", "statements": [{"kind": "best", "cases": ["1"], "verdict": "faster"},
            {"kind": "single", "case": "1"}], "pairs": [{"figure": "p50", "a": "1", "b": "1",
            "verdict": "cannot-tell", "ratio": {"value": 1.0, "low": null, "high": null}}]},
        "findings": [{"code": "drift", "severity": "note", "cases": ["1"], "evidence": [{"value": figure(1.5)}],
            "advice": "wait"}],
        "skipped": [{"transport": "icmp", "reason": "no permission"}],
    })
}

/// The example with the value at a JSON pointer changed.
///
/// # Panics
/// The example has no value there.
#[must_use]
pub fn with(pointer: &str, value: Value) -> Value {
    changed(example(), pointer, value)
}

fn changed(mut run: Value, pointer: &str, value: Value) -> Value {
    *run.pointer_mut(pointer).expect("the example has it") = value;
    run
}
