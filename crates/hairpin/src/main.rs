//! The program: reads the command line and exits with what it says.

use std::process::ExitCode;

fn main() -> ExitCode {
    hairpin::cli::run(std::env::args_os().collect())
}
