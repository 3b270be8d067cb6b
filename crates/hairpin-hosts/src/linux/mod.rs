//! Linux only: the server hands over descriptors, its files rely on modes and owners, and ssh is an external program.

pub mod accounts;
pub mod serve;
pub mod ssh;
pub mod state;
pub(crate) mod wait;
