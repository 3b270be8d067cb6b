//! System calls behind safe functions; the only place of this crate with `unsafe`.
#![allow(unsafe_code, reason = "system calls have no safe wrapper in std")]

pub(crate) mod alarm;
mod control;
pub(crate) mod descriptor;
pub(crate) mod epoll;
#[cfg(not(all(test, loom)))]
pub(crate) mod futex;
#[cfg(all(test, loom))]
pub(crate) mod loom_model;
#[cfg(not(all(test, loom)))]
pub(crate) mod map;
pub(crate) mod messages;
pub(crate) mod pipe;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod received;
pub(crate) mod socket;
pub(crate) mod sockopt;
pub(crate) mod timestamping;

// The loom test checks the code that uses these against models of them.
#[cfg(all(test, loom))]
pub(crate) use loom_model::{futex, map};

use std::io;

/// The result of a system call: -1 is an error, described by `errno`; anything else a count.
#[inline]
fn counted(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// The result of a system call that returns no value.
#[inline]
fn done(answer: i32) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
