//! The JSON that others script against: every key path of the contract, with its type and its nulls.

use serde_json::Value;

use hairpin_model::run::Run;
use hairpin_report::json;

use crate::support;

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&json::render(run)).expect("it is JSON")
}

/// What may stand at a path.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Count,
    Number,
    Text,
    Truth,
    List,
    Object,
    /// `{value, low, high}`, where the bounds may be null.
    Figure,
    FigureOrNull,
    NumberOrNull,
}

fn fits(value: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Count => value.is_u64(),
        Kind::Number => value.is_number(),
        Kind::Text => value.is_string(),
        Kind::Truth => value.is_boolean(),
        Kind::List => value.is_array(),
        Kind::Object => value.is_object(),
        Kind::FigureOrNull => value.is_null() || fits(value, Kind::Figure),
        Kind::NumberOrNull => value.is_null() || value.is_number(),
        Kind::Figure => value.as_object().is_some_and(|figure| {
            let keys: Vec<&str> = figure.keys().map(String::as_str).collect();
            let bound = |name: &str| figure[name].is_null() || figure[name].is_number();
            keys == ["value", "low", "high"] && figure["value"].is_number() && bound("low") && bound("high")
        }),
    }
}

/// Checks `path.to.key`, which must be there, below `value`.
fn check(value: &Value, path: &str, kind: Kind) {
    let found = path.split('.').try_fold(value, |below, key| below.get(key));
    let found = found.unwrap_or_else(|| panic!("{path} is missing"));
    assert!(fits(found, kind), "{path} is not a {kind:?}: {found}");
}

const RUN: &[(&str, Kind)] = &[
    ("format", Kind::Count),
    ("tool.name", Kind::Text),
    ("tool.version", Kind::Text),
    ("environment", Kind::Object),
    ("environment.kernel", Kind::Text),
    ("environment.cpu_model", Kind::Text),
    ("seed", Kind::Count),
    ("cases", Kind::List),
    ("answer.headline", Kind::Text),
    ("answer.pairs", Kind::List),
    ("findings", Kind::List),
    ("skipped", Kind::List),
];

const CASE: &[(&str, Kind)] = &[
    ("case.transport", Kind::Text),
    ("case.waiting", Kind::Text),
    ("case.placement", Kind::Text),
    ("case.ends", Kind::Text),
    ("case.size_bytes", Kind::Count),
    ("case.options", Kind::Object),
    ("case.link", Kind::Text),
    ("rounds", Kind::Count),
    ("samples", Kind::Count),
    ("latency_ns.p50", Kind::FigureOrNull),
    ("latency_ns.p90", Kind::FigureOrNull),
    ("latency_ns.p99", Kind::FigureOrNull),
    ("latency_ns.p999", Kind::FigureOrNull),
    ("latency_ns.max", Kind::FigureOrNull),
    ("latency_ns.mean", Kind::FigureOrNull),
    ("rate_per_s", Kind::FigureOrNull),
    ("ledger.sent", Kind::Count),
    ("ledger.received", Kind::Count),
    ("ledger.lost", Kind::Object),
    ("ledger.late", Kind::Count),
    ("ledger.duplicated", Kind::Count),
    ("ledger.unexplained", Kind::Number),
    ("cpu_seconds.client", Kind::Number),
    ("cpu_seconds.echo", Kind::NumberOrNull),
    ("effective_options", Kind::Object),
    ("valid", Kind::Truth),
    ("why_invalid", Kind::List),
];

const PAIR: &[(&str, Kind)] =
    &[("figure", Kind::Text), ("a", Kind::Text), ("b", Kind::Text), ("verdict", Kind::Text), ("ratio", Kind::Figure)];

const FINDING: &[(&str, Kind)] = &[
    ("code", Kind::Text),
    ("severity", Kind::Text),
    ("cases", Kind::List),
    ("evidence", Kind::List),
    ("advice", Kind::Text),
];

#[test]
fn every_key_path_of_the_contract_is_there_with_its_type() {
    let json = parsed(&support::survey(1));
    RUN.iter().for_each(|(path, kind)| check(&json, path, *kind));
    let list = |key: &str| json[key].as_array().expect("checked above").clone();
    for case in list("cases") {
        CASE.iter().for_each(|(path, kind)| check(&case, path, *kind));
        assert!(case["ledger"]["lost"].as_object().unwrap().values().all(Value::is_u64));
        assert!(case["why_invalid"].as_array().unwrap().iter().all(Value::is_string));
    }
    for finding in list("findings") {
        FINDING.iter().for_each(|(path, kind)| check(&finding, path, *kind));
        assert!(finding["cases"].as_array().unwrap().iter().all(Value::is_string));
        for evidence in finding["evidence"].as_array().unwrap() {
            check(evidence, "value", Kind::Figure);
        }
    }
    for pair in json["answer"]["pairs"].as_array().expect("checked above") {
        PAIR.iter().for_each(|(path, kind)| check(pair, path, *kind));
        assert!(["a", "b"].iter().all(|case| list("cases").iter().any(|row| row["id"] == pair[case])), "{pair}");
    }
    for skip in list("skipped") {
        check(&skip, "transport", Kind::Text);
        check(&skip, "reason", Kind::Text);
    }
    assert_eq!((list("cases").len(), list("findings").len(), list("skipped").len()), (38, 3, 4));
}

#[test]
fn words_are_those_of_the_command_line_and_figures_those_of_the_run() {
    let run = support::survey(1);
    let json = parsed(&run);
    let tcp = json["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["label"] == "tcp block apart")
        .expect("the fixture has it");
    let words = ["transport", "waiting", "placement", "ends", "link"].map(|key| tcp["case"][key].as_str().unwrap());
    assert_eq!(words, ["tcp", "block", "apart", "processes", "loopback"]);
    let p50 = run.case(tcp["id"].as_str().unwrap()).unwrap().latency_ns.p50.unwrap();
    assert_eq!(tcp["latency_ns"]["p50"]["value"].as_f64(), Some(p50.value));
    assert_eq!(tcp["latency_ns"]["p50"]["low"].as_f64(), p50.low);
    let invalid = json["cases"].as_array().unwrap().last().unwrap();
    assert_eq!(invalid["case"]["options"], serde_json::json!({"nodelay": "on", "sndbuf": "4096"}));
    assert_eq!(invalid["valid"], false);
}

#[test]
fn nulls_stand_where_samples_do_not_suffice_or_there_is_no_echo_half() {
    let json = parsed(&support::survey(1));
    let case = |label: &str| {
        json["cases"].as_array().unwrap().iter().find(|case| case["label"] == label).expect("it is there").clone()
    };
    let open_loop = case("udp block apart 1000/s");
    assert!(open_loop["latency_ns"]["p99"].is_null() && open_loop["latency_ns"]["p999"].is_null());
    assert_eq!(open_loop["ledger"]["lost"], serde_json::json!({"receive-buffer-overflow": 2}));
    assert_eq!(open_loop["ledger"]["unexplained"], 1);
    assert!(case("icmp block apart")["cpu_seconds"]["echo"].is_null());
}

#[test]
fn what_is_not_finite_becomes_null_and_the_text_stays_json() {
    let mut run = support::survey(1);
    run.cases[0].cpu_seconds.client = f64::NAN;
    run.cases[0].curve[0].latency_ns = f64::INFINITY;
    let json = parsed(&run);
    assert!(json["cases"][0]["cpu_seconds"]["client"].is_null());
}

#[test]
fn what_is_printed_loads_again_as_the_same_run() {
    let run = support::survey(1);
    assert!(hairpin_model::upgrade::load(&json::render(&run)).expect("it loads") == run);
}
