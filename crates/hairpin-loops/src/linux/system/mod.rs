//! Safe wrappers of system calls. The only module of this crate with `unsafe` code.
#![allow(unsafe_code, reason = "the clocks and the time stamp counter have no safe wrapper in std")]

pub mod time;
pub(crate) mod timers;
