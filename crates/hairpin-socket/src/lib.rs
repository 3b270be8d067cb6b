//! Profiles for sockets and threads, with what took effect and why.
#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
mod profile;
mod report;

#[cfg(not(target_os = "linux"))]
use elsewhere as platform;
#[cfg(target_os = "linux")]
use linux as platform;

pub use platform::Socket;
pub use profile::{Profile, ThreadGuard};
pub use report::{Outcome, Report, Setting, Status, Value};
