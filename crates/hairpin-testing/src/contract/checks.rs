//! The list of contract faults, and checks shared by several parts of the contract.

use serde_json::{Map, Value};

/// Latency figures in ascending order, each with the minimum number of samples.
const LATENCIES: &[(&str, u64)] = &[("p50", 1), ("p90", 1), ("p99", 1_000), ("p999", 10_000), ("max", 1)];

#[derive(Default)]
pub(super) struct Faults(pub(super) Vec<String>);

impl Faults {
    pub(super) fn unless(&mut self, fine: bool, place: &str, what: &str) {
        if !fine {
            self.0.push(format!("{place}: {what}"));
        }
    }
}

/// Returns the list with that name; empty if `value` has no such list.
pub fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn sum(causes: &Value) -> i128 {
    causes.as_object().into_iter().flat_map(Map::values).filter_map(Value::as_u64).map(i128::from).sum()
}

/// Checks that figures have enough samples and ascend. If `one_state` is `None`, any figure may be missing.
pub(super) fn latency_faults(
    faults: &mut Faults,
    place: &str,
    latency: &Value,
    samples: u64,
    one_state: Option<bool>,
) {
    let mut smaller = ("", 0.0);
    for (name, needs) in LATENCIES.iter().copied().chain([("mean", 1)]) {
        let place = format!("{place}.{name}");
        // Each state of the machine has at least one round, and thus at least one sample. The tail of all its rounds may
        // be omitted.
        let is_needed = samples >= needs && one_state.is_some_and(|one| one || (needs <= 1 && name != "p90"));
        let Some(value) = latency[name]["value"].as_f64() else {
            faults.unless(!is_needed, &place, "is null although it has enough samples");
            continue;
        };
        let what = format!("has {samples} samples but needs {needs}");
        faults.unless(samples >= needs || name == "mean", &place, &what);
        if name != "mean" {
            faults.unless(value >= smaller.1, &place, &format!("is less than {}", smaller.0));
            smaller = (name, value);
        }
    }
}

/// Checks that a ledger agrees with the number of samples. With `in_part`, only some messages have samples.
pub(super) fn samples_fit(faults: &mut Faults, place: &str, ledger: &Value, (samples, in_part): (u64, bool)) {
    let [received, late] = ["received", "late"].map(|name| ledger[name].as_u64().unwrap_or(0));
    // If messages of the warm-up were lost, the ledger includes the warm-up.
    let suffice = samples >= received || sum(&ledger["lost"]) > 0 || in_part;
    let what = format!("{samples} samples, but {received} received and {late} late");
    faults.unless(suffice && samples <= received + late, place, &what);
}
