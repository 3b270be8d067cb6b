//! Captured packets, of any source: their headers, the connections that they belong to, and the bytes that they carry.

pub(crate) mod big_endian;
mod connections;
pub mod file;
pub(crate) mod headers;
pub(crate) mod numbering;
#[cfg(test)]
mod tests;

pub use connections::{CapturedFrame, Connections};
pub use headers::LinkLayer;
