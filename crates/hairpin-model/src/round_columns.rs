//! Columns of a table of samples that have one value for all rows of a flow in a round. The table then has the
//! columns of each message, [`crate::samples::COLUMNS`].

use crate::flow::Flow;
use crate::round::RoundRecord;

/// The value of a column in all rows of a flow in a round.
#[derive(Clone, Copy, Debug)]
pub enum RoundValue {
    Number32(fn(&RoundRecord, &Flow) -> u32),
    Number(fn(&RoundRecord, &Flow) -> u64),
    Text(fn(&RoundRecord, &Flow) -> String),
}

impl RoundValue {
    pub fn text(&self, record: &RoundRecord, flow: &Flow) -> String {
        match self {
            Self::Number32(of) => of(record, flow).to_string(),
            Self::Number(of) => of(record, flow).to_string(),
            Self::Text(of) => of(record, flow),
        }
    }
}

/// Column with the number of the round. Readers find row groups by the columns [`ROUND`] and [`FLOW`].
pub const ROUND: &str = "round";
pub const FLOW: &str = "flow";

/// The columns by name, in file order. Files of earlier versions lack some columns.
pub const ROUND_COLUMNS: &[(&str, RoundValue)] = &[
    (ROUND, RoundValue::Number32(|record, _| record.number)),
    ("case_id", RoundValue::Text(|record, _| record.case_id.clone())),
    ("label", RoundValue::Text(|record, _| record.order.case.label())),
    (FLOW, RoundValue::Text(|_, flow| flow.id.to_string())),
    ("size_bytes", RoundValue::Number(|_, flow| flow.load.size_bytes())),
];
