//! The transports, one file each, with a common interface, and their system calls.
//!
//! To add a transport, add a file in `transports/` and a line in [`transports::ALL`], or call [`register`] in a
//! program.

#![cfg_attr(
    not(all(feature = "grpc", feature = "http", feature = "quic", feature = "websocket")),
    allow(dead_code, reason = "a few functions serve only transports that this build omits")
)]

pub mod batch;
mod error;
pub mod foreign;
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

#[cfg(all(target_os = "linux", any(test, fuzzing)))]
pub use library::frames::fuzzing as frames_fuzzing;
#[cfg(target_os = "linux")]
pub use linux::binding::apply as bind;
#[cfg(target_os = "linux")]
pub use linux::library::echo;
#[cfg(target_os = "linux")]
pub use linux::wires::awaited::{join, may_use_io_uring};
#[cfg(target_os = "linux")]
pub use linux::{bpf, descriptors, foreign_options, multipath, readiness, received, wire_set};
#[cfg(target_os = "linux")]
use linux::{library, system};
pub use own_type::{OverWire, over_own_type};
#[cfg(target_os = "linux")]
pub use readiness::{DescriptorState, Interest, Readiness, WireState};
pub use transports::{ALL, OMITTED, all, find, own, register};
pub use wire::{
    Connection, Cookie, InRuntime, KernelStamps, Listener, RawStamp, Repeated, Runtime, Segments, ServerAddresses,
    Setup, Stream, Task, Transport, TransportError, Unsupported, Wire, WireError,
};
#[cfg(target_os = "linux")]
pub use wire::{Descriptors, PassedSocket};
#[cfg(target_os = "linux")]
pub use wire_set::{Ready, WireSet};
pub use wires::check;
pub use wires::codes::{CODES, Codes, clear_number, pattern};
#[cfg(all(target_os = "linux", any(test, fuzzing)))]
pub use wires::hello::fuzzing;
#[cfg(target_os = "linux")]
pub use wires::hello::{HELLO_BYTES, HelloKind, Nonce, encode_hello, hello_on_the_wire, is_hello, parse_hello};
