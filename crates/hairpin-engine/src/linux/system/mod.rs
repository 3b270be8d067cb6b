//! Safe wrappers of system calls. The only module of this crate with `unsafe` code.
#![allow(unsafe_code, reason = "system calls have no safe wrapper in std")]

use std::io;

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
pub(crate) mod seccomp;
pub(crate) mod stream;

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
