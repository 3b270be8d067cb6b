//! Two hosts.
#![forbid(unsafe_code)]
pub mod ticket;
