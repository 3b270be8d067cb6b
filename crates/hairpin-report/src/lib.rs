//! Renders a saved run as terminal text, CSV and one self-contained HTML page.
//!
//! This crate computes no figures: they all come from [`hairpin_model::run::Run`]. Its arithmetic is for display only
//! (units, positions on an axis, the ratio of two figures in a sentence). The same run always gives the same bytes,
//! because the crate uses no clock, file, socket, thread or environment variable.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod csv_table;
pub mod findings;
pub mod html;
pub mod terminal;
pub mod words;

pub mod charts;
pub mod time_sequence;
pub mod tuning;

mod bound;
mod claim_wording;
mod columns;
mod exchange_states;
mod exchanges;
pub mod explanation;
mod figure_words;
mod hosts;
mod latency_budget;
mod links;
mod one_way;
mod orders;
mod page_text;
mod trust;
mod unit;
mod wording;

pub use wording::announcement;
