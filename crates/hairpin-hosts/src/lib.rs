//! Two hosts: how client and server find and authenticate each other.
#![forbid(unsafe_code)]

pub mod dial;
pub mod identity;
#[cfg(target_os = "linux")]
mod linux;
pub mod proof;
pub mod protocol;
pub mod ssh_host;
pub mod ticket;
pub mod tls;
pub mod trial;

#[cfg(target_os = "linux")]
pub use linux::{books, serve, ssh, state};
