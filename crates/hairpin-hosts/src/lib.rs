//! How a client and a server on two hosts find and authenticate each other.
#![forbid(unsafe_code)]

pub mod datagram_check;
pub mod dial;
pub mod identity;
#[cfg(target_os = "linux")]
mod linux;
pub mod proof;
pub mod protocol;
pub mod ssh_host;
pub mod ticket;
pub mod tls;

#[cfg(target_os = "linux")]
pub use linux::{accounts, named_tickets, serve, ssh, state};
