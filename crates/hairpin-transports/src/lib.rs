//! The transports, one file each, with a common interface, and their system calls.
//!
//! To add a transport, add a file in `transports/` and a line in [`transports::ALL`], or call [`register`] in a
//! program.

pub mod batch;
pub mod giving_up;
pub mod options;
pub mod transports;
pub mod wire;

#[cfg(target_os = "linux")]
mod linux;
mod own_type;
mod setup;
mod wires;

pub use batch::Batch;

#[cfg(target_os = "linux")]
pub use linux::binding::apply as bind;
#[cfg(target_os = "linux")]
use linux::system;
#[cfg(target_os = "linux")]
pub use linux::{bpf, descriptors, foreign_options, multipath, received, wire_set};
pub use own_type::{OverWire, over_own_type};
pub use transports::{ALL, all, find, own, register};
pub use wire::{
    Connection, Cookie, KernelStamps, Listener, RawStamp, Repeated, Segments, ServerAddresses, Setup, Stream,
    Transport, TransportError, Unsupported, Wire, WireError,
};
#[cfg(target_os = "linux")]
pub use wire::{Descriptors, PassedSocket};
#[cfg(target_os = "linux")]
pub use wire_set::{Interest, Ready, WireSet};
pub use wires::check;
pub use wires::codes::{CODES, Codes, clear_number, pattern};
#[cfg(all(target_os = "linux", any(test, fuzzing)))]
pub use wires::hello::fuzzing;
#[cfg(target_os = "linux")]
pub use wires::hello::{HELLO_BYTES, HelloKind, Nonce, encode_hello, is_hello, parse_hello};
