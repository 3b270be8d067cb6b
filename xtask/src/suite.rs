//! The tests as continuous integration runs them: README's own command, and then the tests that need a program which few
//! machines have. Each test that could not run is named in one file; one that is not in `allowed-skips.toml` fails.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::skips::{self, AllowedSkips};
use crate::{process, readers};

/// Names the file in which tests list what could not run (`hairpin-testing`).
pub(crate) const LIST: &str = "HAIRPIN_SKIPS";

/// How README marks its test command.
const MARK: &str = "# the tests";

/// How often each property is tried; 256 times where the variable is not set. A longer search sets it by hand.
const CASES: (&str, &str) = ("PROPTEST_CASES", "1000");

/// What follows README's command to run what it leaves out: what is ignored, but for what other tests start.
const NEEDS_PROGRAMS: [&str; 4] = ["--", "--ignored", "--skip", "child_"];

/// README's test command; answers a line for the summary.
///
/// # Errors
/// Where a test fails, or is skipped and not listed.
pub(crate) fn ordinary(root: &Path, scratch: &Path, allowed: &AllowedSkips) -> Result<String> {
    run(root, &scratch.join("skips"), allowed, &[], None)
}

/// The tests that it leaves out, as they need programs that few machines have. Their `python3` is that of the readers,
/// where it can be made.
///
/// # Errors
/// Where a test fails, or is skipped and not listed.
pub(crate) fn with_programs(root: &Path, target: &Path, scratch: &Path, allowed: &AllowedSkips) -> Result<String> {
    let python = readers::environment(target).ok();
    run(root, &scratch.join("skips-with-programs"), allowed, &NEEDS_PROGRAMS, python.as_deref())
}

fn run(root: &Path, list: &Path, allowed: &AllowedSkips, more: &[&str], python: Option<&Path>) -> Result<String> {
    let readme = std::fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    let words = command(&readme)?;
    let mut command = process::cargo(root);
    // All binaries run even if one fails.
    command.args(&words).args(["--locked", "--no-fail-fast"]).args(more).env(LIST, list);
    if std::env::var_os(CASES.0).is_none() {
        command.env(CASES.0, CASES.1);
    }
    if let Some(folder) = python.and_then(Path::parent) {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&others));
        command.env("PATH", std::env::join_paths(all).context("the path of the readers")?);
    }
    let status = command.status().context("cannot start cargo")?;
    // No skip, no file.
    let skipped = skips::listed(&std::fs::read_to_string(list).unwrap_or_default());
    let mut faults = allowed.not_listed(&skipped);
    if !status.success() {
        faults.push(format!("cargo {} failed", words.join(" ")));
    }
    if faults.is_empty() { Ok(format!("{} skipped", skipped.len())) } else { bail!("{}", faults.join("\n")) }
}

/// The words after `cargo` of the test command that README shows.
fn command(readme: &str) -> Result<Vec<String>> {
    let mut marked = readme.lines().filter(|line| line.ends_with(MARK));
    let (Some(line), None) = (marked.next(), marked.next()) else {
        bail!("README.md does not have exactly one line that ends in `{MARK}`: its test command");
    };
    let mut words = line.trim_end_matches(MARK).split_whitespace().map(str::to_owned);
    if words.next().as_deref() != Some("cargo") {
        bail!("README.md: the test command does not begin with `cargo`: {line}");
    }
    let words: Vec<String> = words.collect();
    if words.first().map(String::as_str) != Some("test") || !words.iter().any(|word| word == "--workspace") {
        bail!("README.md: the test command does not test the workspace: {line}");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_that_of_the_readme() {
        let readme = "    cargo run\n    cargo test --workspace --locked    # the tests\n";
        assert_eq!(command(readme).unwrap(), ["test", "--workspace", "--locked"]);
        let why = |readme: &str| command(readme).unwrap_err().to_string();
        assert!(why("    cargo test --workspace\n").starts_with("README.md does not have exactly one line"));
        assert!(why(&readme.repeat(2)).starts_with("README.md does not have exactly one line"));
        assert!(why("    cargo test    # the tests\n").contains("does not test the workspace"));
        assert!(why("    make test    # the tests\n").contains("does not begin with `cargo`"));
    }
}
