//! The engine: the only clock. It runs rounds, paces, stamps and stores them.
//!
//! A round is [`engine::Engine::run`]: fresh ends ([`ends`]), a fresh connection, warm-up, then samples. What the two
//! ends do stands in [`loads`]; what is stamped stands in [`recorder`], and no transport can reach it.

pub mod clock;
pub mod control;
pub mod ends;
pub mod engine;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod joins;
#[cfg(target_os = "linux")]
mod linux;
pub mod loads;
pub mod pacing;
mod path;
pub mod phases;
pub mod placement;
mod probe;
pub mod realtime;
pub mod recorder;
pub mod round_process;
pub mod serve_round;
mod several_flows;
mod stamps;
pub mod store;
pub mod tracing;
mod waking;

pub use engine::Engine;
#[cfg(target_os = "linux")]
pub use linux::{capture, child, environment, handing, keep_awake, links, noise, usage};
#[cfg(target_os = "linux")]
use linux::{drops, netstat, sysctl, system};
pub use store::RunFolder;
