//! For tests and xtask only: a harness for tests that some machines cannot run, checks of the JSON against its
//! [`contract`] and its [`schema`], and the [`corpus`] of each fuzz target.
//!
//! A test that cannot run on this machine calls [`skip!`] or [`or_skip!`]. The harness ([`run_tests`]) then reports
//! the test as ignored, with the reason. If the environment variable [`LIST`] names a file, the harness also appends
//! a line to the file. `cargo xtask ci` sets the variable, and fails if a skip is not in `xtask/allowed-skips.toml`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a skip is shown to the user who runs the tests")]

pub mod contract;
pub mod corpus;
mod harness;
pub mod schema;
mod skips;

use std::path::PathBuf;

pub use hairpin_testing_macros::test;
pub use harness::{Test, end_as_skipped, run_tests, run_tests_and};
#[doc(hidden)]
pub use inventory;
pub use skips::LIST;
use skips::note;

/// Ends a test that cannot run here. The arguments give the reason, as in `format!`.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => { $crate::end_as_skipped(format!($($reason)+)) };
}

/// Returns the value of a `Result`. An error skips the test, with the error as the reason.
#[macro_export]
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(reason) => $crate::skip!("{reason}"),
        }
    };
}

/// Reports that a part of a test, such as one transport, cannot run here.
pub fn skipped(package: &str, part: &str, reason: &str) {
    eprintln!("not tested: {package} {part}: {reason}");
    let listed = note(package, part, reason);
    assert!(listed.is_ok(), "{listed:?}");
}

pub fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file());
    found.ok_or_else(|| format!("no program {name} (hint: install its Debian package)"))
}

/// Checks that a command runs here and succeeds.
pub fn works(command: &[&str]) -> Result<(), String> {
    let output = std::process::Command::new(command[0]).args(&command[1..]).output();
    if output.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    Err(format!("`{}` is missing or fails on this machine", command.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::{program, works};

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(program("sh").is_ok() && works(&["sh", "-c", "true"]).is_ok());
        assert!(program("no-such-program").unwrap_err().starts_with("no program no-such-program"));
        assert_eq!(works(&["sh", "-c", "exit 1"]).unwrap_err(), "`sh -c exit 1` is missing or fails on this machine");
        assert!(works(&["no-such-program"]).is_err());
    }
}
