//! The nouns of Hairpin, their units, and the saved-run format.
//!
//! Everything here is plain data: no clock, no file, no socket, no thread. Every other crate may depend on this one; it
//! depends on none of them.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod answer;
pub mod arrivals;
mod between_hosts;
pub mod binding;
pub mod capabilities;
pub mod card;
pub mod case;
pub mod claim;
pub mod compared_by;
pub mod comparison;
pub mod digest;
mod distribution;
pub mod document;
mod end_settings;
pub mod environment;
pub mod exchange;
pub mod fact;
pub mod fact_names;
mod fields;
pub mod figure;
mod figure_name;
pub mod finding;
pub mod finding_keys;
pub mod flow;
mod flows;
pub mod held_up;
pub mod hint;
pub mod judged_claim;
pub mod knee;
pub mod ladder;
pub mod ledger;
pub mod limits;
pub mod link;
pub mod link_ends;
pub mod listed;
pub mod machine;
pub mod names;
pub mod one_way;
pub mod options;
pub mod parse;
pub mod path;
pub mod phases;
pub mod printable;
pub mod quantities;
pub mod refused;
pub mod round;
pub mod round_columns;
pub mod run;
pub mod run_header;
pub mod samples;
#[cfg(feature = "schema")]
pub mod schema;
mod selector;
pub mod served;
pub mod shell;
pub mod summary;
pub mod sysctls;
pub mod time_sequence;
pub mod trace;
pub mod upgrade;
