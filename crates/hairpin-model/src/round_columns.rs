//! The columns of a table of samples that are the same in all rows of a round. They precede those of the message,
//! [`crate::samples::COLUMNS`].

use crate::round::RoundRecord;

/// A column with one value for each round.
#[derive(Clone, Copy, Debug)]
pub struct RoundColumn {
    /// Ends in the unit, if it has one.
    pub name: &'static str,
    pub value: RoundValue,
}

/// How the value is found.
#[derive(Clone, Copy, Debug)]
pub enum RoundValue {
    Number32(fn(&RoundRecord) -> u32),
    Number(fn(&RoundRecord) -> u64),
    Text(fn(&RoundRecord) -> String),
}

impl RoundColumn {
    /// Its value as text.
    #[must_use]
    pub fn text(&self, record: &RoundRecord) -> String {
        match self.value {
            RoundValue::Number32(of) => of(record).to_string(),
            RoundValue::Number(of) => of(record).to_string(),
            RoundValue::Text(of) => of(record),
        }
    }
}

/// The number of the round: row groups are found by it.
pub const ROUND: RoundColumn = RoundColumn { name: "round", value: RoundValue::Number32(|record| record.number) };

/// The columns, in the order in which they are written. Files of earlier versions lack some.
pub const ROUND_COLUMNS: &[RoundColumn] = &[
    ROUND,
    RoundColumn { name: "case_id", value: RoundValue::Text(|record| record.case_id.clone()) },
    RoundColumn { name: "label", value: RoundValue::Text(|record| record.order.case.label()) },
    RoundColumn {
        name: "size_bytes",
        value: RoundValue::Number(|record| record.order.case.primary().load.size_bytes()),
    },
];
