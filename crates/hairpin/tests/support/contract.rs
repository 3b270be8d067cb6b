//! The contract of the JSON that a run prints.

use hairpin_testing::contract;
use serde_json::{Value, json};

use super::list;

/// Checks the part of the contract that the schema cannot express. [`super::document`] checks the schema.
pub(crate) fn assert_kept(run: &Value) {
    assert_eq!(contract::faults(run), [""; 0]);
    for flow in list(&run["cases"]).iter().flat_map(|case| list(&case["flows"])) {
        let ledger = &flow["ledger"];
        assert_eq!((&ledger["unexplained"], &ledger["duplicated"]), (&json!(0), &json!(0)), "{ledger}");
    }
}
