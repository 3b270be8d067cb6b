//! All integration tests in one binary: linking a binary per file would take longer than running the tests.

#[macro_use]
extern crate hairpin_testing;

mod allocations;
mod contract;
mod counting;
mod rest;
mod runtimes;
mod several_streams;

fn main() -> std::process::ExitCode {
    hairpin_testing::run_tests_and(env!("CARGO_PKG_NAME"), contract::tests())
}
