//! The integration tests in one binary: linking one for each file takes longer than running them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod allocations;
mod common;
mod paths;
mod profiles;
