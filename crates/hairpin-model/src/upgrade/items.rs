//! Lists in JSON of any shape.

use serde_json::Value;

/// Entries of the list called `name`; empty without a list.
pub(super) fn items<'v>(parent: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    parent.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}
