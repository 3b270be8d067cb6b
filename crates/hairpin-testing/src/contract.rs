//! What others script against: the object that `--json` prints and `run.json` holds. This is its one definition, which
//! tests and chores check runs against.

use serde_json::{Value, json};

/// Figures of a latency, in the order in which they may only grow, and the samples that each needs.
const LATENCIES: &[(&str, u64)] = &[("p50", 1), ("p90", 1), ("p99", 1_000), ("p999", 10_000), ("max", 1)];

const ROLES: &[&str] = &["client", "server"];
const WAITINGS: &[&str] = &["block", "poll", "spin", "uring", "async"];
const PLACEMENTS: &[&str] = &["same-cpu", "cross-cpu", "unpinned"];

/// Collects faults, each with the place in the object.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn unless(&mut self, fine: bool, place: &str, what: &str) {
        if !fine {
            self.0.push(format!("{place}: {what}"));
        }
    }

    /// One of these words.
    fn word(&mut self, parent: &Value, place: &str, name: &str, words: &[&str]) {
        let word = self.need(parent, place, name, Kind::Text).as_str().unwrap_or_default();
        self.unless(words.contains(&word), &join(place, name), &format!("`{word}` is not one of the words"));
    }

    /// The value at a place, checked to be of a kind; Null where it is not.
    fn need<'v>(&mut self, parent: &'v Value, place: &str, name: &str, kind: Kind) -> &'v Value {
        let value = &parent[name];
        self.unless(kind.holds(value), &join(place, name), &format!("is not {}", kind.in_words()));
        value
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Count,
    Number,
    Switch,
    List,
    Object,
}

impl Kind {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Text => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::Count => value.is_u64(),
            Self::Number => value.as_f64().is_some_and(f64::is_finite),
            Self::Switch => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Count => "a count",
            Self::Number => "a number",
            Self::Switch => "true or false",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

/// The list at that name, empty where it is none.
#[must_use]
pub fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Every way in which a run breaks the contract, each with the place in the object. A run that keeps it has none.
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
    for (place, pair) in list(answer, "pairs").iter().enumerate() {
        for name in ["figure", "a", "b", "verdict"] {
            faults.need(pair, &format!("answer.pairs[{place}]"), name, Kind::Text);
        }
        figure_faults(&mut faults, &format!("answer.pairs[{place}].ratio"), pair.get("ratio"), true);
        let known = |id: &Value| list(run, "cases").iter().any(|case| case["id"] == *id);
        let names_cases = known(&pair["a"]) && known(&pair["b"]);
        faults.unless(names_cases, &format!("answer.pairs[{place}]"), "names a case that is not there");
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
    // Figures are of the rounds in one state of the machine, samples of all.
    let one_state = list(summary, "other_states").is_empty();
    for (number, flow) in flows.iter().enumerate() {
        flow_faults(faults, &format!("{place}.flows[{number}]"), flow, one_state);
    }
    if let [flow] = flows {
        for name in ["latency_ns", "rate_per_s", "ledger"] {
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

/// What a flow is, as it is asked for.
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
        "offered" => &[("size_bytes", Kind::Count), ("offered_per_s", Kind::Number)],
        _ => &[("write_size_bytes", Kind::Count)],
    };
    needed.iter().for_each(|(name, kind)| {
        faults.need(load, &place, name, *kind);
    });
}

/// What was measured of a flow; in one state of the machine a figure is there where the samples suffice.
fn flow_faults(faults: &mut Faults, place: &str, flow: &Value, one_state: bool) {
    settings_faults(faults, place, flow);
    let samples = faults.need(flow, place, "samples", Kind::Count).as_u64().unwrap_or(0);
    let is_one_way = ["messages", "stream", "offered"].iter().any(|kind| flow["load"]["kind"] == *kind);
    // Not all messages of a one-way load are stamped, nor those of all loads.
    if !is_one_way || !flow["latency_ns"]["p50"].is_null() {
        let of_all = one_state && !is_one_way;
        latency_faults(faults, &join(place, "latency_ns"), &flow["latency_ns"], samples, of_all);
    }
    figure_faults(faults, &join(place, "rate_per_s"), flow.get("rate_per_s"), samples > 0);
    let measured = samples > 0;
    if is_one_way {
        one_way_faults(faults, place, flow, measured);
    } else {
        let has_none = flow.get("goodput_bytes_per_s").is_none_or(Value::is_null);
        faults.unless(has_none, &join(place, "goodput_bytes_per_s"), "is there although the flow is no one-way load");
    }
    ledger_faults(faults, &join(place, "ledger"), &flow["ledger"], samples);
}

/// What only loads without answers have. A round too short for a rate has none.
fn one_way_faults(faults: &mut Faults, place: &str, flow: &Value, measured: bool) {
    if !measured && flow.get("received_per_s").is_none() {
        return;
    }
    for name in ["received_per_s", "sent_per_s", "goodput_bytes_per_s", "fairness"] {
        figure_faults(faults, &join(place, name), flow.get(name), false);
    }
    for name in ["system_calls_per_message", "cpu_seconds_per_million", "cpu_seconds_per_gb"] {
        let both = faults.need(flow, place, name, Kind::Object);
        for end in ["client", "server"] {
            figure_faults(faults, &format!("{place}.{name}.{end}"), both.get(end), false);
        }
    }
    if flow["load"]["kind"] != "offered" {
        return;
    }
    faults.need(flow, place, "offered_per_s", Kind::Number);
    figure_faults(faults, &join(place, "delivered_per_s"), flow.get("delivered_per_s"), false);
    let pacing = &flow["pacing"];
    if !pacing.is_null() {
        let place = join(place, "pacing");
        faults.need(pacing, &place, "method", Kind::Text);
        for name in ["p50", "p99", "p999"] {
            figure_faults(faults, &format!("{place}.gap_ns.{name}"), pacing["gap_ns"].get(name), false);
        }
        figure_faults(faults, &join(&place, "share_below_half"), pacing.get("share_below_half"), false);
    }
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

fn latency_faults(faults: &mut Faults, place: &str, latency: &Value, samples: u64, one_state: bool) {
    let mut smaller = ("", 0.0);
    for (name, needs) in LATENCIES {
        let place = join(place, name);
        let figure = latency.get(name);
        // A state has at least one round, and each round some samples.
        figure_faults(faults, &place, figure, samples >= *needs && (one_state || *needs <= 1));
        let Some(value) = figure.and_then(|figure| figure["value"].as_f64()) else { continue };
        faults.unless(
            samples >= *needs,
            &place,
            &format!("is shown, but {samples} samples do not suffice ({needs})"),
        );
        faults.unless(value >= smaller.1, &place, &format!("is less than {}", smaller.0));
        smaller = (name, value);
    }
    figure_faults(faults, &join(place, "mean"), latency.get("mean"), samples > 0);
}

/// `{value, low, high}`, with `why` where there is no interval; or null where it may be missing.
fn figure_faults(faults: &mut Faults, place: &str, figure: Option<&Value>, needed: bool) {
    match figure {
        Some(Value::Null) => faults.unless(!needed, place, "is null although there are samples enough"),
        Some(figure @ Value::Object(fields)) => {
            let known = |name: &String| ["value", "low", "high", "why"].contains(&name.as_str());
            faults.unless(fields.keys().all(known), place, "has a field that no figure has");
            let has_reason = figure["why"].is_null() || figure["low"].is_null();
            faults.unless(has_reason, place, "has an interval, and a reason why it has none");
            let value = faults.need(figure, place, "value", Kind::Number).as_f64().unwrap_or(0.0);
            let bound = |name: &str, none: f64| match figure.get(name) {
                Some(Value::Null) => Some(none),
                bound => bound.and_then(Value::as_f64),
            };
            match (bound("low", f64::NEG_INFINITY), bound("high", f64::INFINITY)) {
                (Some(low), Some(high)) => {
                    faults.unless(low <= value && value <= high, place, "its interval does not hold its value");
                }
                _ => faults.unless(false, place, "has no `low` or no `high`"),
            }
        }
        _ => faults.unless(false, place, "is neither {value, low, high} nor null"),
    }
}

fn ledger_faults(faults: &mut Faults, place: &str, ledger: &Value, samples: u64) {
    let mut count = |name: &str| {
        let value = faults.need(ledger, place, name, Kind::Count);
        i128::from(value.as_u64().unwrap_or(0))
    };
    let (sent, received, late) = (count("sent"), count("received"), count("late"));
    count("duplicated");
    let lost = by_cause(faults, ledger, place, "lost");
    let unexplained = faults.need(ledger, place, "unexplained", Kind::Number).as_i64().unwrap_or(0);
    let rest = sent - received - lost - late;
    faults.unless(
        rest == i128::from(unexplained),
        place,
        &format!("does not close: {rest} are left, not {unexplained}"),
    );
    // Where the warm-up lost messages the ledger covers it too.
    let samples_fit = i128::from(samples) >= received || lost > 0;
    let fine = samples_fit && i128::from(samples) <= received + late;
    faults.unless(fine, place, &format!("{samples} samples, but {received} received and {late} late"));
}

/// The sum of the counts by cause of an object at that name.
fn by_cause(faults: &mut Faults, parent: &Value, place: &str, name: &str) -> i128 {
    let causes = faults.need(parent, place, name, Kind::Object).as_object();
    let counts: Vec<Option<u64>> = causes.into_iter().flat_map(|causes| causes.values().map(Value::as_u64)).collect();
    faults.unless(counts.iter().all(Option::is_some), &join(place, name), "has a cause without a count");
    counts.into_iter().flatten().map(i128::from).sum()
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

/// Ways in which a round trip asked for by `--count` and `--rounds` did something else. Loss is no fault here: the
/// ledger tells it, and unreliable transports may lose.
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
        "goodput_bytes_per_s": null, "ledger": ledger});
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
        "comparisons": [{"role": "a-a", "verdict": "cannot-tell", "ratio": {"value": 1.0}}],
        "answer": {"headline": "tcp takes 10 ns.", "pairs": [{"figure": "p50", "a": "1", "b": "1",
            "verdict": "cannot-tell", "ratio": {"value": 1.0, "low": null, "high": null}}]},
        "findings": [{"code": "drift", "severity": "note", "cases": ["1"], "evidence": [{"value": figure(1.5)}],
            "advice": "wait"}],
        "skipped": [{"transport": "icmp", "reason": "no permission"}],
    })
}

/// The example with one value changed, by JSON pointer.
///
/// # Panics
/// The example has nothing there.
#[must_use]
pub fn with(pointer: &str, value: Value) -> Value {
    let mut run = example();
    *run.pointer_mut(pointer).expect("the example has it") = value;
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_keeps_the_contract_has_no_fault() {
        assert_eq!(faults(&example()), [""; 0]);
        assert_eq!(not_as_asked(&example(), 200, 2), [""; 0]);
    }

    /// Each change breaks the contract at that place.
    fn assert_breaks(changes: impl IntoIterator<Item = (&'static str, Value, &'static str)>) {
        for (pointer, value, expected) in changes {
            let found = faults(&with(pointer, value));
            assert!(found.iter().any(|fault| fault.starts_with(expected)), "{expected}: {found:?}");
        }
    }

    #[test]
    fn every_break_of_the_contract_of_a_run_is_named_with_its_place() {
        assert_breaks([
            ("/seed", json!(null), "seed: is not a count"),
            ("/answer/headline", json!(""), "answer.headline: is not a text"),
            ("/answer/pairs/0/b", json!("2"), "answer.pairs[0]: names a case that is not there"),
            ("/cases", json!([]), "cases: is empty"),
            ("/tool/version", json!(1), "tool.version: is not a text"),
            ("/findings/0/advice", json!(""), "findings[0].advice: is not a text"),
            ("/findings/0/evidence/0/value", json!(null), "findings[0].evidence[0].value: is null although"),
            ("/skipped/0/reason", json!(null), "skipped[0].reason: is not a text"),
            ("/hosts", json!([]), "hosts: is empty"),
        ]);
    }

    #[test]
    fn every_break_of_the_contract_of_a_case_is_named_with_its_place() {
        let figure = |value: f64| json!({"value": value, "low": null, "high": null});
        assert_breaks([
            ("/findings/0/cases/0", json!("2"), "findings[0].cases: names a case that the run does not have"),
            (
                "/cases/0/flows/0/ledger/lost/link",
                json!(-1),
                "cases[0].flows[0].ledger.lost: has a cause without a count",
            ),
            (
                "/cases/0/path/relay/lateness_ns/max",
                json!(null),
                "cases[0].path.relay.lateness_ns.max: is not a count",
            ),
            (
                "/cases/0/flows/0/rate_per_s/low",
                json!({"low": 1}),
                "cases[0].flows[0].rate_per_s: has no `low` or no `high`",
            ),
            (
                "/cases/0/case/ends/waiting",
                json!("sleep"),
                "cases[0].case.ends.waiting: `sleep` is not one of the words",
            ),
            (
                "/cases/0/flows/0/latency_ns/p50",
                json!(null),
                "cases[0].flows[0].latency_ns.p50: is null although there are samples",
            ),
            (
                "/cases/0/flows/0/latency_ns/p90",
                json!(3),
                "cases[0].flows[0].latency_ns.p90: is neither {value, low, high} nor null",
            ),
            (
                "/cases/0/flows/0/latency_ns/p99",
                figure(30.0),
                "cases[0].flows[0].latency_ns.p99: is shown, but 398 samples",
            ),
            (
                "/cases/0/flows/0/latency_ns/mean/low",
                json!(13.0),
                "cases[0].flows[0].latency_ns.mean: its interval does not hold",
            ),
            (
                "/cases/0/flows/0/rate_per_s",
                json!({"value": 1.0}),
                "cases[0].flows[0].rate_per_s: has no `low` or no `high`",
            ),
            (
                "/cases/0/flows/0/ledger/sent",
                json!(401),
                "cases[0].flows[0].ledger: does not close: 1 are left, not 0",
            ),
            ("/cases/0/why_invalid", json!([1]), "cases[0].why_invalid: has a reason that is no text"),
            ("/cases/0/path/relay/packets/out", json!(8), "cases[0].path.relay.packets: does not close: 1 are left"),
            ("/cases/0/case/flows/0/options", json!([]), "cases[0].case.flows[0].options: is not an object"),
            ("/cases/0/flows/0/samples", json!(-1), "cases[0].flows[0].samples: is not a count"),
            ("/cases/0/valid", json!(false), "cases[0].why_invalid: does not agree with `valid`"),
            ("/cases/0/flows/0/latency_ns/p90", figure(9.0), "cases[0].flows[0].latency_ns.p90: is less than p50"),
            ("/cases/0/ends/1/cpu_seconds", json!("0"), "cases[0].ends[1].cpu_seconds: is not a number"),
            ("/cases/0/ends/1/host", json!(1), "cases[0].ends[1].host: is no place in `hosts`"),
            ("/cases/0/ends/0/role", json!("near"), "cases[0].ends[0].role: `near` is not one of the words"),
            ("/cases/0/flows", json!([]), "cases[0].flows: are not the flows of the case"),
            ("/cases/0/flows/0/load/kind", json!("flood"), "cases[0].flows[0].load.kind: `flood` is not one"),
            ("/cases/0/flows/0/goodput_bytes_per_s", figure(1.0), "cases[0].flows[0].goodput_bytes_per_s: is there"),
            ("/cases/0/ledger/sent", json!(7), "cases[0].ledger: is not that of the only flow"),
            ("/cases/0/flows/0/samples", json!(450), "cases[0].flows[0].ledger: 450 samples, but 398 received"),
        ]);
    }

    #[test]
    fn a_run_that_did_something_else_is_found() {
        assert!(not_as_asked(&example(), 200, 3)[0].contains("3 rounds were asked, not Some(2)"));
        assert!(not_as_asked(&example(), 100, 2)[0].contains("200 messages were asked, not Some(400)"));
        let invalid = with("/cases/0/valid", json!(false));
        assert!(not_as_asked(&invalid, 200, 2)[0].contains("not valid"));
    }
}
