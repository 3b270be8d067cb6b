//! What only Linux has: the server stands on descriptors that it hands over, and its files on modes and owners.

pub mod serve;
pub mod state;
pub(crate) mod wait;
