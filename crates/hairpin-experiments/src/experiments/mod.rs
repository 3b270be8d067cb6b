//! Every experiment, one file each. A test fails if a file in this folder is not in [`ALL`].

pub mod budget;
pub mod bulk;
pub mod message_rate;
pub mod observer;
pub mod offered_load;
pub mod periodic;
pub mod round_trip;
pub mod set_up;
pub mod small_writes;
pub mod streams;
pub mod survey;
pub mod under_load;
pub mod waiting;
pub mod which;

use hairpin_model::Refused;

use crate::experiment::Experiment;

/// Every experiment, in the order in which `hairpin list` shows them.
pub const ALL: &[Experiment] = &[
    survey::SURVEY,
    round_trip::ROUND_TRIP,
    budget::BUDGET,
    small_writes::SMALL_WRITES,
    message_rate::MESSAGE_RATE,
    bulk::BULK,
    offered_load::OFFERED_LOAD,
    periodic::PERIODIC,
    under_load::UNDER_LOAD,
    streams::STREAMS,
    set_up::SET_UP,
    waiting::WAITING,
    observer::OBSERVER,
    which::WHICH,
];

/// Returns the experiment with this name: a built-in one, or one of `own`.
///
/// # Errors
/// [`Refused`] with the nearest name.
pub fn find(name: &str, own: &'static [Experiment]) -> Result<&'static Experiment, Refused> {
    let all: Vec<&Experiment> = ALL.iter().chain(own).collect();
    let known: Vec<&str> = all.iter().map(|experiment| experiment.name).collect();
    Ok(all[hairpin_model::names::place("experiment", name, &known)?])
}
