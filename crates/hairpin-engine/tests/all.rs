//! All integration tests are in one binary, because linking one binary per file takes longer than running the tests.

#[macro_use]
extern crate hairpin_testing;

mod allocations;
mod capture;
mod common;
#[path = "../../hairpin-transports/tests/counting.rs"]
mod counting;
mod driver;
mod server_end;
mod small_writes;
mod traced;

fn main() -> std::process::ExitCode {
    hairpin_testing::run_tests()
}
