//! Hairpin as a library: plan, rounds, samples, summaries, findings, report, in one direction.
//!
//! The loop is [`measure::carry_out`]; it prints nothing. The command line in [`cli`] is thin: it parses arguments,
//! calls the library, and is the only place that prints or chooses an exit code.

pub mod claims;
pub mod cli;
#[cfg(target_os = "linux")]
mod linux;
pub mod measure;
pub mod progress;
mod prove;
pub mod saved;
pub mod tool;

#[cfg(target_os = "linux")]
pub use linux::interrupt;
