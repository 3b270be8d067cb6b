//! The integration tests of this crate in one binary, on Linux. Options are read back by calls of the tests' own.
#![allow(unsafe_code, reason = "the tests ask the kernel by calls of their own")]

#[macro_use]
extern crate hairpin_testing;

mod example;
mod sockets;
mod system;
mod threads;

fn main() -> std::process::ExitCode {
    hairpin_testing::run_tests()
}
