//! Linux only: signals, descriptors and `/proc`.

pub mod interrupt;
#[cfg(feature = "cli")]
pub(crate) mod programs;
#[cfg(feature = "cli")]
pub(crate) mod service;
#[cfg(feature = "cli")]
pub(crate) mod streams;
