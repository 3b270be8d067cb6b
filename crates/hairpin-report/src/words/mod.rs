//! What the analysis found, in words: for the terminal, the page, and the texts of JSON.

mod answer;

pub use answer::{answer, write_answer};
