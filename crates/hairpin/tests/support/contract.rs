//! The contract of the JSON that a run prints.

use hairpin_testing::{contract, schema};
use serde_json::{Value, json};

use super::list;

/// Asserts every key and type of the contract.
pub(crate) fn assert_kept(run: &Value) {
    assert_eq!(contract::faults(run), [""; 0]);
    assert_eq!(schema::run_faults(run), [""; 0]);
    for flow in list(&run["cases"]).iter().flat_map(|case| list(&case["flows"])) {
        let ledger = &flow["ledger"];
        assert_eq!((&ledger["unexplained"], &ledger["duplicated"]), (&json!(0), &json!(0)), "{ledger}");
    }
}
