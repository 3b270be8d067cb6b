//! Safe wrappers of system calls; the only place of this crate with `unsafe`.
#![allow(unsafe_code, reason = "system calls have no safe wrapper in std")]

pub(crate) mod cpu;
pub(crate) mod device;
pub(crate) mod ending;
pub(crate) mod guest;
pub(crate) mod interface;
pub(crate) mod isolation;
pub(crate) mod namespace;
pub(crate) mod packet_ring;
pub(crate) mod packet_socket;
pub(crate) mod process;
pub(crate) mod stream;
