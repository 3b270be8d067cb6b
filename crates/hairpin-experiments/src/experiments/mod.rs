//! Every experiment, a file each. A test fails when a file in this folder is not in [`ALL`].

pub mod bulk;
pub mod round_trip;
pub mod small_writes;
pub mod survey;

use crate::experiment::Experiment;
use crate::refused::Refused;

/// Every experiment, in the order in which `hairpin list` shows them.
pub const ALL: &[&dyn Experiment] =
    &[&survey::Survey, &round_trip::RoundTrip, &small_writes::SmallWrites, &bulk::Bulk];

/// The experiment of that name.
///
/// # Errors
/// [`Refused`] with the nearest name.
pub fn find(name: &str) -> Result<&'static dyn Experiment, Refused> {
    let known: Vec<&str> = ALL.iter().map(|experiment| experiment.name()).collect();
    let name = hairpin_model::names::find("experiment", name, &known)?;
    Ok(ALL.iter().copied().find(|experiment| experiment.name() == name).expect("found among their names"))
}
