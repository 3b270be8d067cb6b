//! Profiles for sockets and threads, with what took effect and why.
#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod apply;
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

pub use apply::ThreadGuard;
pub use platform::Socket;
pub use profile::Profile;
pub use report::{Outcome, Report, Setting, Status, Value};
