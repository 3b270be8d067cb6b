//! Converts results of the analysis to texts for the terminal, the page and the JSON.

mod answer;
mod claims;
mod invalid;

pub use answer::{answer, write_answer};
pub(crate) use answer::{short_name, unmet};
pub use claims::write_claims;
pub(crate) use invalid::held_up_by;
pub use invalid::{left_out, write_reasons};
