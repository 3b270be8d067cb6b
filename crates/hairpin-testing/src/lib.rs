//! For tests and chores alone: what a test says that cannot run on this machine, the [`contract`] and the
//! [`schema`] of the JSON, and the [`corpus`] of each fuzz target.
//!
//! No test passes where it did not run. A test that finds that the machine lacks what it needs calls [`skip!`] or
//! [`or_skip!`]. Without the environment variable [`LIST`] that fails the test and says what is missing. With it the
//! skip is appended to the file that the variable names, one line for each, and the test ends. `cargo xtask ci` sets the
//! variable, and fails for every skip that is not in `xtask/allowed-skips.toml`.
//!
//! A test that needs a program which few machines have is `#[ignore = "needs PROGRAM"]`: cargo then says so, and
//! `cargo xtask ci` runs it beside the others.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a skip is shown to whoever runs the tests")]

pub mod contract;
pub mod corpus;
pub mod schema;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The environment variable that names the file in which skips are listed. A relative path begins at the workspace.
pub const LIST: &str = "HAIRPIN_SKIPS";

/// Ends the test as one that cannot run here; takes the reason as `format!` does.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        fn here() {}
        $crate::skipped(&$crate::name_of(env!("CARGO_PKG_NAME"), &here), &format!($($reason)+));
        return;
    }};
}

/// The value of a `Result`; its error is the reason for which the test cannot run here.
#[macro_export]
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(reason) => $crate::skip!("{reason}"),
        }
    };
}

/// Notes that something was not tested: `name` is the test, or the part of it.
///
/// # Panics
/// Where no list is asked for, or it cannot be written.
pub fn skipped(name: &str, reason: &str) {
    let list = std::env::var_os(LIST).filter(|path| !path.is_empty());
    let written = note(list.map(PathBuf::from).as_deref(), name, reason);
    assert!(written.is_ok(), "{}", written.unwrap_err());
}

fn note(list: Option<&Path>, name: &str, reason: &str) -> Result<(), String> {
    let reason = reason.replace('\n', " ");
    let Some(list) = list else {
        return Err(format!(
            "cannot run here: {reason} (hint: to run the other tests all the same, set {LIST} to a file in which such \
             tests are listed: {LIST}=skips.txt cargo test --workspace)"
        ));
    };
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(list);
    let file = OpenOptions::new().create(true).append(true).open(&list);
    // One call, so that the lines of tests that run at the same time do not mix.
    let written = file.and_then(|mut file| file.write_all(format!("{name}\t{reason}\n").as_bytes()));
    written.map_err(|error| format!("cannot list a skip in {}: {error}", list.display()))
}

/// The name of the test in which `here` is defined, as cargo prints it, after the name of its package.
#[doc(hidden)]
pub fn name_of<T>(package: &str, here: &T) -> String {
    let path = std::any::type_name_of_val(here);
    let path = path.strip_suffix("::here").unwrap_or(path).trim_end_matches("::{{closure}}");
    let test = path.split_once("::").map_or(path, |(_, test)| test);
    format!("{package} {test}")
}

/// Whether a program is on the path.
///
/// # Errors
/// That it is missing.
pub fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file());
    found.ok_or_else(|| format!("no program {name} (hint: install Debian's package of it)"))
}

/// Whether a command runs here and ends well.
///
/// # Errors
/// That it is missing or refused.
pub fn works(command: &[&str]) -> Result<(), String> {
    let output = std::process::Command::new(command[0]).args(&command[1..]).output();
    if output.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    Err(format!("`{}` is missing or refused here", command.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_list_a_skip_fails_and_with_one_it_is_a_line() {
        let why = note(None, "a b::c", "no\nnamespaces").unwrap_err();
        assert!(why.starts_with("cannot run here: no namespaces (hint: "), "{why}");
        let list = std::env::temp_dir().join(format!("hairpin-skips-{}", std::process::id()));
        note(Some(&list), "a b::c", "no\nnamespaces").unwrap();
        note(Some(&list), "a b::d", "no root").unwrap();
        let text = std::fs::read_to_string(&list).unwrap();
        std::fs::remove_file(&list).unwrap();
        assert_eq!(text, "a b::c\tno namespaces\na b::d\tno root\n");
        assert!(note(Some(Path::new("/dev/null/list")), "a", "b").unwrap_err().starts_with("cannot list a skip in "));
    }

    #[test]
    fn a_skip_has_the_name_of_its_test() {
        fn here() {}
        assert_eq!(name_of("crate", &here), "crate tests::a_skip_has_the_name_of_its_test");
        let inside = || {
            fn here() {}
            name_of("crate", &here)
        };
        assert_eq!(inside(), "crate tests::a_skip_has_the_name_of_its_test");
    }

    #[test]
    fn a_result_that_is_an_error_ends_the_test() {
        fn test(result: Result<u8, String>, reached: &mut bool) {
            assert_eq!(or_skip!(result), 1);
            *reached = true;
        }
        let mut reached = false;
        test(Ok(1), &mut reached);
        assert!(reached);
    }

    #[test]
    fn programs_are_looked_for() {
        assert!(program("sh").is_ok() && works(&["sh", "-c", "true"]).is_ok());
        assert!(program("no-such-program").unwrap_err().starts_with("no program no-such-program"));
        assert_eq!(works(&["sh", "-c", "exit 1"]).unwrap_err(), "`sh -c exit 1` is missing or refused here");
        assert!(works(&["no-such-program"]).is_err());
    }
}
