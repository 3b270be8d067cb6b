//! The columns of a table of samples that are the same in all rows of a round. They precede those of the message,
//! [`crate::samples::COLUMNS`].

use crate::round::RoundRecord;

/// The value of a column in all rows of a round.
#[derive(Clone, Copy, Debug)]
pub enum RoundValue {
    Number32(fn(&RoundRecord) -> u32),
    Number(fn(&RoundRecord) -> u64),
    Text(fn(&RoundRecord) -> String),
}

impl RoundValue {
    /// The value as text.
    pub fn text(&self, record: &RoundRecord) -> String {
        match self {
            Self::Number32(of) => of(record).to_string(),
            Self::Number(of) => of(record).to_string(),
            Self::Text(of) => of(record),
        }
    }
}

/// The column with the number of the round: row groups are found by it.
pub const ROUND: &str = "round";

/// The columns by name, in the order in which they are written. Files of earlier versions lack some.
pub const ROUND_COLUMNS: &[(&str, RoundValue)] = &[
    (ROUND, RoundValue::Number32(|record| record.number)),
    ("case_id", RoundValue::Text(|record| record.case_id.clone())),
    ("label", RoundValue::Text(|record| record.order.case.label())),
    ("size_bytes", RoundValue::Number(|record| record.order.case.primary().load.size_bytes())),
];
