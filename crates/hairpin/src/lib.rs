//! Measures transports: how fast a transport is on this machine, and what makes it slow.
//!
//! A [`Session`] plans rounds, runs them, saves them and explains the results. It returns a [`Run`](model::run::Run),
//! which [`report`] shows, and prints nothing. The command line in [`cli`] parses arguments and calls the library; only
//! the command line prints and chooses exit codes.
//!
//! # Your own transport
//!
//! A transport is a type that implements [`Transport`](transports::Transport), in any crate. A program adds it to the
//! built-in ones by calling [`round_main`] first:
//!
//! ```no_run
//! # use hairpin::transports::Transport;
//! # fn transports() -> &'static [&'static dyn Transport] { &[] }
//! let program = hairpin::round_main(transports());
//! # #[cfg(feature = "cli")]
//! hairpin::cli::run(&program, &std::env::args_os().collect::<Vec<_>>());
//! ```
//!
//! This program also has all commands of `hairpin`. Use its own `serve` on other hosts: both ends of a round must be
//! the same program, and other programs are refused. `examples/own-transport` in the repository is such a program.
//!
//! # Features
//!
//! `cli`, on by default: the command line, with its own dependencies (clap, indicatif and others).

#[cfg(feature = "cli")]
pub mod claims;
#[cfg(feature = "cli")]
mod claims_folder;
#[cfg(feature = "cli")]
pub mod cli;
pub mod foreign;
#[cfg(target_os = "linux")]
mod linux;
mod measure;
mod program;
mod prove;
pub mod remote;
pub mod saved;
mod session;
pub mod tool;

pub use hairpin_experiments::{self as experiments, Refused};
pub use hairpin_hosts as hosts;
pub use hairpin_model as model;
pub use hairpin_report as report;
pub use hairpin_transports as transports;
#[cfg(target_os = "linux")]
pub use linux::interrupt;
pub use measure::Event;
pub use program::{Program, round_main};
pub use session::Session;
