//! Transports: one interface, a file each, and the system calls they stand on.
//!
//! A new transport is one file in `transports/` and its line in [`transports::ALL`].

pub mod giving_up;
pub mod options;
pub mod transports;
pub mod wire;

#[cfg(target_os = "linux")]
mod system;
mod wires;

pub use transports::{ALL, find};
pub use wire::{
    Accept, Cookie, KernelStamps, RawStamp, Segments, ServerAddresses, Setup, Stream, Transport, TransportError,
    Wire, WireError,
};
#[cfg(target_os = "linux")]
pub use wires::hello::{HELLO_BYTES, is_hello};
