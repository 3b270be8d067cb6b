//! From format 2 to format 3: flows have an identity and a role instead of a name, and ends refer to a flow by its
//! identity instead of its index.
//!
//! Identities of cases are recomputed because they are digests of the case's JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use super::items::items;
use crate::case::Case;

/// Names of flows, with their identities and roles. Flows with other names are measured flows.
const ROLES: &[(&str, &str, &str)] = &[
    ("probe", "probe", "probe"),
    ("load", "load", "load"),
    ("load-back", "load-back", "load"),
    ("foreign", "foreign-probe", "foreign-probe"),
];

/// Renamed causes of losses.
const CAUSES: &[(&str, &str)] = &[("receive_buffer", "receive-buffer-overflow"), ("send_buffer", "send-buffer")];

/// Upgrades the run, without its rounds. Removes the run's answer, which is computed again when the run is opened.
pub(super) fn run(run: &mut Value) {
    if let Some(plan) = run.get_mut("plan") {
        items(plan, "cases").for_each(lift_flows);
    }
    let mut ids = BTreeMap::new();
    for summary in items(run, "cases") {
        summary.get_mut("case").into_iter().for_each(lift_flows);
        lift_flows(summary);
        let is_across = is_across(&summary["case"]);
        lift_ends(summary, is_across);
        let case = serde_json::from_value::<Case>(summary["case"].clone());
        if let (Ok(case), Some(fields)) = (case, summary.as_object_mut()) {
            fields.insert("label".to_owned(), case.label().into());
            let old = fields.insert("id".to_owned(), case.id().into());
            ids.extend(old.as_ref().and_then(Value::as_str).map(|old| (old.to_owned(), case.id())));
        }
    }
    for (list, keys) in [("comparisons", &["baseline", "candidate"][..]), ("findings", &["cases"])] {
        for item in items(run, list) {
            for key in keys {
                item.get_mut(*key).into_iter().for_each(|value| replace_ids(value, &ids));
            }
        }
    }
    for finding in items(run, "findings") {
        let experiment = finding.get_mut("counter_experiment").filter(|one| one.is_object());
        experiment.into_iter().for_each(|experiment| items(experiment, "pair").for_each(lift_flows));
    }
    rename_causes(run);
    if let Some(run) = run.as_object_mut() {
        run.remove("answer");
    }
}

/// Upgrades a line of `rounds.jsonl`, unless already upgraded: `analyse` rewrites `rounds.jsonl` before `run.json`.
pub(super) fn round(record: &mut Value) {
    let Some(case) = record.pointer_mut("/order/case").filter(|case| case["flows"][0].get("id").is_none()) else {
        return;
    };
    lift_flows(case);
    let (flows, is_across) = (case["flows"].clone(), is_across(case));
    let id = serde_json::from_value::<Case>(case.clone()).ok().map(|case| case.id());
    if let (Some(id), Some(record)) = (id, record.as_object_mut()) {
        record.insert("case_id".to_owned(), id.into());
    }
    let Some(measured) = record.get_mut("outcome").filter(|outcome| outcome["kind"] == "measured") else { return };
    for (place, result) in items(measured, "flows").enumerate() {
        if let Some(fields) = result.as_object_mut() {
            fields.extend(["id", "role"].map(|name| (name.to_owned(), flows[place][name].clone())));
        }
    }
    lift_ends(measured, is_across);
    rename_causes(measured);
}

/// Replaces the name of each flow of a case or of its summary by an identity and a role.
fn lift_flows(of: &mut Value) {
    for flow in items(of, "flows").filter_map(Value::as_object_mut) {
        let Some(Value::String(name)) = flow.remove("name") else { continue };
        let known = ROLES.iter().find(|(old, ..)| *old == name);
        let (id, role) = known.map_or((name.as_str(), "measured"), |(_, id, role)| (id, role));
        flow.extend([("id", id), ("role", role)].map(|(field, word)| (field.to_owned(), word.into())));
    }
}

fn is_across(case: &Value) -> bool {
    !case["path"]["host"].is_null()
}

/// In each end, replaces the index of the flow by the flow's identity, and the index of the host by the host's role.
fn lift_ends(of: &mut Value, is_across: bool) {
    let ids: Vec<Value> = items(of, "flows").map(|flow| flow["id"].clone()).collect();
    for end in items(of, "ends").filter_map(Value::as_object_mut) {
        let place = end.get("flow").and_then(Value::as_u64).unwrap_or(0);
        let id = usize::try_from(place).ok().and_then(|place| ids.get(place)).cloned();
        end.insert("flow".to_owned(), id.unwrap_or_default());
        // Format 2 saved host index 0 for every end; between two hosts each end ran on its own host.
        let role = end.get("role").filter(|_| is_across).cloned();
        end.insert("host".to_owned(), role.unwrap_or_else(|| "client".into()));
    }
}

fn rename_causes(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(rename_causes),
        Value::Object(fields) => {
            if let Some(lost) = fields.get_mut("lost").and_then(Value::as_object_mut) {
                for (old, new) in CAUSES {
                    lost.remove(*old).into_iter().for_each(|count| drop(lost.insert((*new).to_owned(), count)));
                }
            }
            fields.values_mut().for_each(rename_causes);
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
