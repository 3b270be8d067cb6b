//! The link emulator: packets and time in, packets and fates out.
//!
//! - A [`profile::Profile`] is one line of text: `delay=23.5ms±1ms up=5.5mbit queue=64KiB loss=0.1%`.
//!   [`builtin::ALL`] lists the built-in profiles.
//! - A [`link::Link`] is two [`path::Path`]s, `up` and `down`, built from a profile and a seed.
//! - A path is a sequence of stages. [`stages::ALL`] lists them in the order in which packets pass through them.
//! - [`simulate`] runs a link on a manual clock; [`log`] formats the fate of each packet.
//!
//! This crate uses no clock, files, sockets or threads. Time is an argument, in whole nanoseconds since the link
//! started. The same profile, seed, packets and times give the same fates, byte for byte, on every machine.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod builtin;
mod figures;
pub mod generator;
mod held;
pub mod link;
pub mod log;
pub mod numbers;
pub mod packet;
pub mod path;
pub mod profile;
pub mod quantity;
pub mod simulate;
pub mod stage;
pub mod stages;
#[cfg(test)]
mod tests;
mod timeline;
pub mod trace;
pub mod word;

pub use hairpin_model::link::Direction;
