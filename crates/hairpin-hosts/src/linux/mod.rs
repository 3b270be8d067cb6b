//! What only Linux has: the server stands on descriptors that it hands over, its files on modes and
//! owners, and ssh is a program of its own.

pub mod books;
pub mod serve;
pub mod ssh;
pub mod state;
pub(crate) mod wait;
