//! All integration tests in one binary: linking a binary per file would take longer than running the tests.

#[macro_use]
extern crate hairpin_testing;

mod allocations;
mod contract;
mod counting;
mod hostile;
mod several_streams;
mod without_io_uring;

fn main() -> std::process::ExitCode {
    hairpin_testing::run_tests_and(env!("CARGO_PKG_NAME"), contract::tests())
}
