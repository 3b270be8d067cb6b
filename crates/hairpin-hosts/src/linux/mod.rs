//! Linux only: the server passes descriptors to its processes, its files rely on modes and owners, and it runs `ssh`.

pub mod accounts;
pub mod named_tickets;
pub mod serve;
pub mod ssh;
pub mod state;
