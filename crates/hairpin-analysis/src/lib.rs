//! Computes summaries, comparisons and findings from samples.
//!
//! Reads no clock, file or socket and starts no thread: equal rounds and seeds give equal figures. The steps, in order:
//!
//! 1. [`round_figures()`] computes the figures of a round from its samples, [`traced()`] from its trace, and
//!    [`stamped()`] from its sampled round trips, between rounds.
//! 2. [`Digest`] summarizes the rounds of each case as a [`hairpin_model::summary::CaseSummary`].
//! 3. [`comparisons`] computes the differences between cases, with intervals; [`compare_runs`] between two runs.
//! 4. [`findings()`] detects the causes of the figures.
//! 5. [`answer()`] selects the headline results, as data: the faster case of each pair, and the best remedy.

#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod answer;
pub mod causes;
pub mod claims;
pub mod compare;
pub mod counters;
pub mod digest;
mod drops;
mod exceedances;
mod exchanges;
pub mod explain;
pub mod findings;
mod in_span;
mod knees;
pub mod latency_budget;
mod lateness;
mod links;
pub mod modes;
mod observer_costs;
mod of_phase;
pub mod one_way;
pub mod open_loop;
mod over_rounds;
mod periodic;
mod responsiveness;
pub mod round_figures;
mod set_up;
pub mod states;
pub mod statistics;
mod streams;
mod summary;
pub mod trace;
pub mod tuning;
mod two_hosts;
pub mod under_load;
mod valid_rounds;

pub use answer::answer;
pub use compare::budget::Budget;
pub use compare::cases::comparisons;
pub use compare::choices::choices_that_differ;
pub use compare::runs::{RunComparison, compare_interleaved, compare_runs};
pub use compare::unlike::{side_in_own_namespaces, unlike};
pub use digest::Digest;
pub use explain::explain;
pub use findings::findings;
pub use latency_budget::stamped;
pub use of_phase::of_phase;
pub use one_way::one_way_figures;
pub use round_figures::round_figures;
pub use states::States;
pub use trace::{AtEnd, trace_figures, traced};
pub use under_load::phase_figures;
pub use valid_rounds::disturbed_rounds;

// The unit tests share the fixture runs of tests/, which refer to this crate by name.
#[cfg(test)]
extern crate self as hairpin_analysis;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod fixture;
