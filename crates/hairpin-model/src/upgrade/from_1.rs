//! From format 1 to format 2: flows and ends in a case, a list of hosts, and the words of the field.
//!
//! Traces, which have no format number, are read in the words of either format ([`crate::trace`]).
//!
//! A case of format 1 is one flow. Its identity was the digest of another text, so identities are computed anew.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::case::Case;

/// Fields that have another name, wherever they stand.
const KEYS: &[(&str, &str)] = &[
    ("lossless", "reliable"),
    ("bare_acks", "pure_acks"),
    ("bare_acks_per_exchange", "pure_acks_per_exchange"),
    ("speed_up_against_none", "speed_up_against_default"),
    ("receive-buffer-overflow-echo", "receive-buffer-overflow-server"),
];

/// Words that are called something else, by the field that they stand in.
const WORDS: &[(&str, &str, &str)] = &[
    ("placement", "together", "same-cpu"),
    ("placement", "apart", "cross-cpu"),
    ("placement", "free", "unpinned"),
    ("remedy", "none", "default"),
    ("kind", "bare-ack", "pure-ack"),
    ("cause", "far-program", "server-program"),
];

/// Words of a command line that are called something else.
const ARGUMENTS: &[(&str, &str)] = &[
    ("--placement together", "--placement same-cpu"),
    ("--placement apart", "--placement cross-cpu"),
    ("--placement free", "--placement unpinned"),
    ("--remedy none", "--remedy default"),
    ("--plant ", "--injected-fault "),
];

/// The run, without its rounds.
pub(super) fn run(run: &mut Value) {
    rename(run);
    if let Some(run) = run.as_object_mut() {
        let environment = run.remove("environment").unwrap_or_default();
        run.insert("hosts".to_owned(), json!([{ "role": "client", "environment": environment }]));
    }
    for case in items(&mut run["plan"]["cases"]) {
        lift_case(case);
    }
    for knob in items(&mut run["plan"]["knobs"]) {
        lift_knob(knob);
    }
    let mut ids = BTreeMap::new();
    for summary in items(&mut run["cases"]) {
        lift_summary(summary, &mut ids);
    }
    for (list, keys) in [("comparisons", &["baseline", "candidate"][..]), ("findings", &["cases"])] {
        items(&mut run[list]).for_each(|item| keys.iter().for_each(|key| replace_ids(&mut item[*key], &ids)));
    }
    for finding in items(&mut run["findings"]) {
        if let Some(Value::String(command)) = finding.pointer_mut("/counter_experiment/command") {
            ARGUMENTS.iter().for_each(|(old, new)| *command = command.replace(old, new));
        }
    }
    // What was concluded in words of format 1 is concluded anew when the run is opened.
    if let Some(run) = run.as_object_mut() {
        run.remove("answer");
    }
}

/// A line of `rounds.jsonl`. It may be lifted already: `analyse` writes the rounds before it writes the run.
pub(super) fn round(record: &mut Value) {
    if record["order"]["case"].get("flows").is_some() {
        return;
    }
    rename(record);
    lift_case(&mut record["order"]["case"]);
    if let Some(id) = id_of(&record["order"]["case"]) {
        record["case_id"] = id.into();
    }
    if record["outcome"]["kind"] == "measured"
        && let Some(measured) = record["outcome"].as_object_mut()
    {
        let names =
            ["figures", "ledger", "setup_ns", "first_message_ns", "samples_file", "samples_kept", "exchange_counts"];
        let flow = taken(measured, &names);
        measured.insert("flows".to_owned(), json!([flow]));
        let ends = [("client", "client"), ("server", "echo")].into_iter().filter_map(|(role, name)| {
            let mut end = measured.remove(name).filter(Value::is_object)?;
            end["role"] = role.into();
            end["host"] = 0.into();
            Some(end)
        });
        let ends: Vec<Value> = ends.collect();
        measured.insert("ends".to_owned(), ends.into());
    }
}

fn lift_case(case: &mut Value) {
    let Some(old) = case.as_object_mut() else { return };
    let mut load = taken(old, &["size_bytes", "reply_size_bytes"]);
    let pattern = old.remove("pattern").unwrap_or_default();
    load.insert("kind".to_owned(), pattern["kind"].clone());
    if let Some(rate_per_s) = pattern.get("rate_per_s") {
        load.insert("rate_per_s".to_owned(), rate_per_s.clone());
    }
    let exchange = taken(old, &["writes", "gap_ns", "pipeline", "remedy"]);
    if pattern["kind"] == "small-writes" {
        load.insert("kind".to_owned(), "exchange".into());
        load.remove("size_bytes");
        load.extend(exchange);
    }
    let mut flow = taken(old, &["transport", "options"]);
    flow.insert("load".to_owned(), load.into());
    flow.extend(object(json!({
        "name": crate::flow::MAIN, "direction": "round-trip", "streams": 1, "connections": 1, "receivers": 1
    })));
    let mut ends = taken(old, &["waiting", "placement", "cpu_idle"]);
    ends.entry("cpu_idle").or_insert_with(|| "deep".into());
    ends.insert("kind".to_owned(), old.remove("ends").unwrap_or_default());
    let mut path = taken(old, &["link"]);
    if let Some(name) = old.remove("link_name") {
        path.insert("name".to_owned(), name);
    }
    let mut lifted = object(json!({ "flows": [flow], "ends": ends, "path": path }));
    for (name, new) in [("plant", "injected_fault"), ("twin", "replicate")] {
        if let Some(value) = old.remove(name) {
            lifted.insert(new.to_owned(), value);
        }
    }
    *case = lifted.into();
}

fn lift_summary(summary: &mut Value, ids: &mut BTreeMap<String, String>) {
    lift_case(&mut summary["case"]);
    let case: Option<Case> = serde_json::from_value(summary["case"].clone()).ok();
    if let Some(case) = case {
        if let Some(old) = summary["id"].as_str() {
            ids.insert(old.to_owned(), case.id());
        }
        summary["id"] = case.id().into();
        summary["label"] = case.label().into();
    }
    let settings = summary["case"].clone();
    let Some(old) = summary.as_object_mut() else { return };
    let names = [
        "samples",
        "latency_ns",
        "service_ns",
        "lateness_ns",
        "rate_per_s",
        "setup_ns",
        "first_message_ns",
        "ledger",
        "curve",
        "modes",
        "exchange_ns",
        "first_exchange_ns",
        "early_exchanges_ns",
        "bytes_per_ms",
        "segments_per_exchange",
        "pure_acks_per_exchange",
        "system_calls_per_exchange",
        "speed_up_against_default",
    ];
    let mut flow = taken(old, &names);
    flow.extend(settings["flows"][0].as_object().cloned().unwrap_or_default());
    flow.insert("goodput_bytes_per_s".to_owned(), Value::Null);
    old.insert("flows".to_owned(), json!([flow]));
    let (cpu_seconds, options, facts) =
        (old.remove("cpu_seconds"), old.remove("effective_options"), old.remove("facts"));
    let of = |part: &Option<Value>, name: &str| part.as_ref().map(|part| part[name].clone()).unwrap_or_default();
    let ends = [("client", "client"), ("server", "echo")].into_iter().filter_map(|(role, name)| {
        let cpu_seconds = of(&cpu_seconds, name);
        let is_there = role == "client" || !cpu_seconds.is_null();
        is_there.then(|| {
            json!({
                "role": role, "host": 0, "cpu_seconds": cpu_seconds,
                "waiting": settings["ends"]["waiting"], "placement": settings["ends"]["placement"],
                "effective_options": list(of(&options, name)), "facts": list(of(&facts, name)),
                // Format 1 did not say at which end.
                "differing_options": list(if role == "client" { of(&options, "differs") } else { Value::Null }),
            })
        })
    });
    let ends: Vec<Value> = ends.collect();
    old.insert("ends".to_owned(), ends.into());
    let mut path = settings["path"].clone();
    if let Some(relay) = old.remove("link") {
        path["relay"] = relay;
    }
    old.insert("path".to_owned(), path);
}

/// A knob of the plan: its name and its values.
fn lift_knob(knob: &mut Value) {
    let name = knob[0].as_str().unwrap_or_default().to_owned();
    for value in items(&mut knob[1]) {
        let of_knob = WORDS.iter().filter(|(field, ..)| *field == name);
        if let Some((_, _, new)) = of_knob.clone().find(|(_, old, _)| value == old) {
            *value = (*new).into();
        }
    }
    for (old, new) in [("plant", "injected-fault"), ("twins", "replicate"), ("plant-twin", "replicate-fault")] {
        if name == old {
            knob[0] = new.into();
        }
    }
}

/// Renames fields and words in the whole tree.
fn rename(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(rename),
        Value::Object(fields) => {
            for (old, new) in KEYS {
                if let Some(field) = fields.remove(*old) {
                    fields.insert((*new).to_owned(), field);
                }
            }
            for (field, old, new) in WORDS {
                if let Some(word) = fields.get_mut(*field).filter(|word| *word == old) {
                    *word = (*new).into();
                }
            }
            fields.values_mut().for_each(rename);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_ids(value: &mut Value, ids: &BTreeMap<String, String>) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|item| replace_ids(item, ids)),
        Value::String(id) => {
            if let Some(new) = ids.get(id) {
                new.clone_into(id);
            }
        }
        _ => {}
    }
}

fn id_of(case: &Value) -> Option<String> {
    serde_json::from_value::<Case>(case.clone()).ok().map(|case| case.id())
}

/// Takes the fields of these names out of an object.
fn taken(object: &mut Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), object.remove(*name)?))).collect()
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}

/// An empty list in place of null.
fn list(value: Value) -> Value {
    if value.is_null() { json!([]) } else { value }
}

/// The entries of a list; none where it is none.
fn items(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    list.as_array_mut().into_iter().flatten()
}
