//! Measures transports: how fast can this one go here, and what makes it slow?
//!
//! A [`Session`] plans rounds, runs them, saves them and explains them; what it returns is a
//! [`Run`](model::run::Run), which [`report`] shows. It prints nothing. The command line in [`cli`] is thin: it parses
//! arguments, calls the library, and is the only place that prints or chooses an exit code.
//!
//! # Your own transport
//!
//! A transport is a type that implements [`Transport`](transports::Transport), in any crate. A program has it beside the
//! built-in ones if it begins with [`round_main`]:
//!
//! ```no_run
//! # use hairpin::transports::Transport;
//! # fn transports() -> &'static [&'static dyn Transport] { &[] }
//! let program = hairpin::round_main(transports());
//! # #[cfg(feature = "cli")]
//! hairpin::cli::run(&program, &std::env::args_os().collect::<Vec<_>>());
//! ```
//!
//! It then has all commands of `hairpin` too. Its `serve` is the server for its clients on other hosts: both ends of a
//! round are one program, and another one is refused. `examples/own-transport` in the repository is such a program.
//!
//! # Features
//!
//! `cli`, on by default: the command line, with what only it needs (clap, indicatif and others).

#[cfg(feature = "cli")]
pub mod claims;
#[cfg(feature = "cli")]
pub mod cli;
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
