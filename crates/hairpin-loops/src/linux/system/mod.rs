//! System calls behind safe functions; the only place of this crate with `unsafe`.
#![allow(unsafe_code, reason = "the clocks and the time stamp counter have no safe wrapper in std")]

pub mod time;
