//! Reads the JSON that a run of Hairpin prints.

use anyhow::{Result, bail};
use hairpin_testing::contract;
use serde_json::Value;

pub(crate) fn only_case(run: &Value) -> Result<&Value> {
    match contract::list(run, "cases") {
        [case] => Ok(case),
        cases => bail!("{} cases instead of one; skipped: {}", cases.len(), run["skipped"]),
    }
}

/// Returns the CPUs that the ends on the client's or the server's host used, the client's first.
pub(crate) fn cpus_used(run: &Value, role: &str) -> Vec<u64> {
    let host = contract::list(run, "hosts").iter().find(|host| host["role"] == role);
    let used = host.map(|host| contract::list(&host["environment"], "cpus_used"));
    used.unwrap_or_default().iter().filter_map(Value::as_u64).collect()
}
