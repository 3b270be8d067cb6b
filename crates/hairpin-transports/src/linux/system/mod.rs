//! System calls behind safe functions. In this crate, only these modules use `unsafe`.
#![allow(unsafe_code, reason = "system calls have no safe wrapper in std")]

pub(crate) mod alarm;
mod control;
pub(crate) mod descriptor;
pub(crate) mod epoll;
#[cfg(not(all(test, loom)))]
pub(crate) mod futex;
#[cfg(feature = "http")]
pub(crate) mod hyper_io;
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
pub(crate) mod uring;
#[cfg(feature = "async")]
pub(crate) mod watched;

// The loom test replaces these modules by models.
#[cfg(all(test, loom))]
pub(crate) use loom_model::{futex, map};

use std::io;

/// Converts the result of a system call that returns a count, or -1 for the error in `errno`.
#[inline]
fn to_count(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// Converts the result of a system call that returns no value, or -1 for the error in `errno`.
#[inline]
fn check(answer: i32) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
