//! Experiments: each has a question and a pure function from its knobs and the results so far to the next rounds.
//!
//! A new experiment is a new file in `experiments/` and a line in [`experiments::ALL`]. Command-line flags, `hairpin
//! list` and the catalogue derive from its [`experiment::Experiment::knobs`].
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod budget;
pub mod combinations;
pub mod command;
pub mod estimate;
pub mod evidence;
pub mod exchange_time;
pub mod experiment;
pub mod experiments;
pub mod find_period;
pub mod knee;
pub mod knob;
pub mod knobs;
pub mod links;
pub mod one_way;
pub mod period_search;
pub mod possible;
mod possible_waiting;
pub mod proof;
pub mod quantity;
pub mod selection;
mod sends;
pub mod sequence;
pub mod shared;
pub mod value;
pub mod warm_up;

pub use experiment::{Done, Experiment, Forecast, Step};
pub use hairpin_model::refused::Refused;
pub use knob::{Knob, KnobKind};
pub use knobs::Knobs;
