//! The program: runs the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    let program = hairpin::round_main(&[]);
    hairpin::cli::run(&program, &std::env::args_os().collect::<Vec<_>>())
}
