//! The integration tests in one binary: linking one for each file takes longer than running them.

mod allocations;
mod common;
mod paths;
mod profiles;
