//! All integration tests are in one binary, because linking one binary per file takes longer than running the tests.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod allocations;
mod common;
#[path = "../../hairpin-transports/tests/counting.rs"]
mod counting;
mod paths;
mod profiles;
