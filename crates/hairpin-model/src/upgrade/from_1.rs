//! From format 1 to format 2: flows and ends in a case, a list of hosts, and renamed words.
//!
//! Traces have no format number; [`crate::trace`] reads the names of both formats.
//!
//! A case of format 1 is one flow.

use serde_json::{Map, Value, json};

use super::items::items;

/// Fields that were renamed anywhere in the tree.
const KEYS: &[(&str, &str)] = &[
    ("lossless", "reliable"),
    ("bare_acks", "pure_acks"),
    ("bare_acks_per_exchange", "pure_acks_per_exchange"),
    ("speed_up_against_none", "speed_up_against_default"),
    ("receive-buffer-overflow-echo", "receive-buffer-overflow-server"),
];

/// Renamed values: field, old value, new value.
const WORDS: &[(&str, &str, &str)] = &[
    ("placement", "together", "same-cpu"),
    ("placement", "apart", "cross-cpu"),
    ("placement", "free", "unpinned"),
    ("remedy", "none", "default"),
    ("kind", "bare-ack", "pure-ack"),
    ("cause", "far-program", "server-program"),
];

/// Renamed arguments in command lines.
const ARGUMENTS: &[(&str, &str)] = &[
    ("--placement together", "--placement same-cpu"),
    ("--placement apart", "--placement cross-cpu"),
    ("--placement free", "--placement unpinned"),
    ("--remedy none", "--remedy default"),
    ("--plant ", "--injected-fault "),
];

/// Upgrades the run, without its rounds.
pub(super) fn run(run: &mut Value) {
    rename(run);
    if let Some(run) = run.as_object_mut() {
        let environment = run.remove("environment").unwrap_or_default();
        run.insert("hosts".to_owned(), json!([{ "role": "client", "environment": environment }]));
    }
    if let Some(plan) = run.get_mut("plan") {
        items(plan, "cases").for_each(lift_case);
        items(plan, "knobs").for_each(lift_knob);
    }
    items(run, "cases").for_each(lift_summary);
    for finding in items(run, "findings") {
        let Some(experiment) = finding.get_mut("counter_experiment").filter(|one| one.is_object()) else { continue };
        items(experiment, "pair").for_each(lift_case);
        if let Some(Value::String(command)) = experiment.get_mut("command") {
            ARGUMENTS.iter().for_each(|(old, new)| *command = command.replace(old, new));
        }
    }
}

/// Upgrades a line of `rounds.jsonl`, unless already upgraded: `analyse` rewrites `rounds.jsonl` before `run.json`.
pub(super) fn round(record: &mut Value) {
    let Some(case) = record.pointer_mut("/order/case").filter(|case| case.get("flows").is_none()) else { return };
    rename(case);
    lift_case(case);
    let outcome = record.get_mut("outcome").filter(|outcome| outcome["kind"] == "measured");
    if let Some(outcome) = outcome {
        rename(outcome);
    }
    let outcome = record.get_mut("outcome").filter(|outcome| outcome["kind"] == "measured");
    if let Some(measured) = outcome.and_then(Value::as_object_mut) {
        let names =
            ["figures", "ledger", "setup_ns", "first_message_ns", "samples_file", "samples_kept", "exchange_counts"];
        let flow = take_fields(measured, &names);
        measured.insert("flows".to_owned(), json!([flow]));
        let ends = [("client", "client"), ("server", "echo")].into_iter().filter_map(|(role, name)| {
            let mut end = measured.remove(name).filter(Value::is_object)?;
            let fields = end.as_object_mut()?;
            fields.extend([("role".to_owned(), role.into()), ("host".to_owned(), 0.into())]);
            Some(end)
        });
        let ends: Vec<Value> = ends.collect();
        measured.insert("ends".to_owned(), ends.into());
    }
}

fn lift_case(case: &mut Value) {
    let Some(old) = case.as_object_mut() else { return };
    let mut load = take_fields(old, &["size_bytes", "reply_size_bytes"]);
    let pattern = old.remove("pattern").unwrap_or_default();
    load.insert("kind".to_owned(), pattern["kind"].clone());
    if let Some(rate_per_s) = pattern.get("rate_per_s") {
        load.insert("rate_per_s".to_owned(), rate_per_s.clone());
    }
    let exchange = take_fields(old, &["writes", "gap_ns", "pipeline", "remedy"]);
    if pattern["kind"] == "small-writes" {
        load.insert("kind".to_owned(), "exchange".into());
        load.remove("size_bytes");
        load.extend(exchange);
    }
    let mut flow = take_fields(old, &["transport", "options"]);
    flow.insert("load".to_owned(), load.into());
    flow.extend(object(json!({
        "name": "main", "direction": "round-trip", "streams": 1, "connections": 1, "receivers": 1
    })));
    let mut ends = take_fields(old, &["waiting", "placement", "cpu_idle"]);
    ends.entry("cpu_idle").or_insert_with(|| "deep".into());
    ends.insert("kind".to_owned(), old.remove("ends").unwrap_or_default());
    let mut path = take_fields(old, &["link"]);
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

fn lift_summary(summary: &mut Value) {
    let Some(old) = summary.as_object_mut() else { return };
    let Some(settings) = old.get_mut("case") else { return };
    lift_case(settings);
    let settings = settings.clone();
    let names = "samples latency_ns service_ns lateness_ns rate_per_s setup_ns first_message_ns ledger curve modes \
                 exchange_ns first_exchange_ns early_exchanges_ns bytes_per_ms segments_per_exchange \
                 pure_acks_per_exchange system_calls_per_exchange speed_up_against_default";
    let mut flow = take_fields(old, &names.split_whitespace().collect::<Vec<_>>());
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
                // Format 1 did not record at which end options differed.
                "differing_options": list(if role == "client" { of(&options, "differs") } else { Value::Null }),
            })
        })
    });
    let ends: Vec<Value> = ends.collect();
    old.insert("ends".to_owned(), ends.into());
    let mut path = settings["path"].as_object().cloned().unwrap_or_default();
    path.extend(old.remove("link").map(|relay| ("relay".to_owned(), relay)));
    old.insert("path".to_owned(), path.into());
}

/// Upgrades the name and the values of a setting of the plan.
fn lift_knob(knob: &mut Value) {
    let Some([Value::String(name), Value::Array(values)]) = knob.as_array_mut().map(Vec::as_mut_slice) else {
        return;
    };
    for value in values {
        let renamed = WORDS.iter().find(|(field, old, _)| field == name && value == old);
        if let Some((_, _, new)) = renamed {
            *value = (*new).into();
        }
    }
    let names = [("plant", "injected-fault"), ("twins", "replicate"), ("plant-twin", "replicate-fault")];
    if let Some((_, new)) = names.iter().find(|(old, _)| old == name) {
        (*new).clone_into(name);
    }
}

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

fn take_fields(object: &mut Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), object.remove(*name)?))).collect()
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}

fn list(value: Value) -> Value {
    if value.is_null() { json!([]) } else { value }
}
