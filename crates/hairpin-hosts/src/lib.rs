//! Two hosts: how a client finds and knows a server elsewhere, and how that server knows it.
#![forbid(unsafe_code)]

pub mod dial;
pub mod identity;
pub mod proof;
pub mod protocol;
pub mod serve;
pub mod state;
pub mod ticket;
pub mod tls;
