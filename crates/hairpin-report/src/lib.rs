//! Renders a saved run as terminal text, CSV and one self-contained HTML page.
//!
//! This crate only displays: every figure on a page is in [`hairpin_model::run::Run`], and the only arithmetic is for
//! display (units, positions on an axis, the ratio of two figures in a sentence). It uses no clock, file, socket,
//! thread or environment variable, so the same run gives the same bytes.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod csv_table;
pub mod findings;
pub mod html;
pub mod terminal;
pub mod words;

pub mod charts;
pub mod time_sequence;

mod claim_wording;
mod columns;
mod exchanges;
mod hosts;
mod links;
mod one_way;
mod orders;
mod page_text;
mod trust;
mod wording;

pub use wording::announcement;
