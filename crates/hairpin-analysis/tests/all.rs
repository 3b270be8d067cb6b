//! The integration tests in one binary: linking a binary for each file takes longer than running the tests.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod end_to_end;
mod findings_under_load;
mod latency_budget;
mod observer;
mod one_way;
mod oracle;
mod support;
mod under_load;
