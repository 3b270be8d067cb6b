//! Linux-only code: system calls, descriptors and `/proc`.

mod batch;
pub(crate) mod binding;
pub mod bpf;
pub mod descriptors;
pub mod foreign_options;
pub(crate) mod library;
pub mod multipath;
pub(crate) mod options;
pub mod readiness;
pub mod received;
pub(crate) mod system;
pub mod wire_set;
pub(crate) mod wires;
