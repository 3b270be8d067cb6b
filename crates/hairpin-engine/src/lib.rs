//! The engine runs rounds.
//!
//! A round is [`engine::Engine::run`]: fresh ends ([`ends`]), a fresh connection, warm-up, then samples. The
//! per-message loops of the two ends are in the crate `hairpin-loops`.

mod barrier;
pub mod control;
pub mod ends;
pub mod engine;
pub mod foreign;
#[cfg(any(test, fuzzing))]
mod fuzzing;
#[cfg(target_os = "linux")]
mod linux;
mod observer;
mod observers;
pub mod packets;
mod path;
pub mod placement;
mod probe;
pub mod realtime;
pub mod round_process;
pub mod serve_round;
mod several_flows;
mod threads;
pub mod tracing;
mod usage_by_phase;
mod waking;

pub use engine::Engine;
pub use hairpin_loops::{clock, recorder};
#[cfg(target_os = "linux")]
pub use linux::{capture, child, environment, keep_awake, links, socket_passing, tuning, wait, watching};
#[cfg(target_os = "linux")]
use linux::{
    cgroup, cpu_quota, cpu_time_line, drops, netlink, netstat, noise, scheduling, sysctl, system, topology, usage,
};
