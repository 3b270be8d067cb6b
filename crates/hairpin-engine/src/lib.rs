//! The engine: the only clock. It runs rounds, paces, stamps and stores them.
//!
//! A round is [`engine::Engine::run`]: fresh ends ([`ends`]), a fresh connection, warm-up, then samples. What the two
//! ends do stands in [`loads`]; what is stamped stands in [`recorder`], and no transport can reach it.

pub mod capture;
mod child;
pub mod clock;
pub mod control;
pub mod ends;
pub mod engine;
pub mod environment;
pub mod keep_awake;
pub mod links;
pub mod loads;
mod netstat;
pub mod noise;
pub mod pacing;
mod path;
pub mod placement;
mod probe;
pub mod realtime;
pub mod recorder;
pub mod round_process;
pub mod store;
mod system;
pub mod tracing;
pub mod usage;
mod waking;

pub use engine::Engine;
pub use store::RunFolder;
