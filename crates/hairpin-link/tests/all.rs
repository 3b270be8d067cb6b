//! The integration tests in one binary: linking one for each file takes longer than running them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod allocations;
mod common;
#[path = "../../hairpin-transports/tests/counting.rs"]
mod counting;
mod paths;
mod profiles;
