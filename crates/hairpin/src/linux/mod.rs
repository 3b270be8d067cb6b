//! Linux only: signals, descriptors and `/proc`.

pub mod interrupt;
pub(crate) mod streams;
