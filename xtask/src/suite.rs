//! Runs the tests for continuous integration: README's command, then the targets that README's command omits. Tests
//! that cannot run write their names to a file; each must be in `allowed-skips.toml`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use hairpin_testing::LIST;

use crate::skips::{self, AllowedSkips, Skip};
use crate::{process, readers};

const MARK: &str = "# the tests";

/// Environment variable with the number of cases per property test; `.cargo/config.toml` sets a smaller number.
const CASES: &str = "PROPTEST_CASES";
const MIN_CASES: u32 = 1000;

/// Feature that makes tests check documents against their schemas. README's command omits it to save build time.
pub(crate) const SCHEMA: &str = "hairpin-testing/schema,hairpin/full";

/// Feature that adds the reference programs with the protocol libraries to `bare-loop`.
pub(crate) const LIBRARIES: &str = "xtask/libraries";

/// Targets that README's command omits, each with a name and the arguments of `cargo test`.
const OTHERS: [(&str, &str); 2] = [
    ("lab", "--features hairpin-testing/schema,hairpin/full -p hairpin --test lab"),
    ("coverage", "--release -p hairpin-analysis --test coverage"),
];

/// Whether CI runs this test target of a package although README's command omits it.
pub(crate) fn runs(package: &str, target: &str) -> bool {
    OTHERS.iter().any(|(_, words)| words.ends_with(&format!("-p {package} --test {target}")))
}

pub(crate) fn ordinary(root: &Path, scratch: &Path, allowed: &AllowedSkips) -> Result<String> {
    let readme = std::fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    let words = command(&readme)?;
    let mut command = process::cargo(root);
    command.args(&words).args(["--locked", "--features", SCHEMA, "--features", LIBRARIES]);
    run(&mut command, &scratch.join("skips"), "", allowed)
}

/// Runs the other targets, which need much time or rare programs. Puts the readers' `python3` on the path if possible.
pub(crate) fn others(root: &Path, target: &Path, scratch: &Path, allowed: &AllowedSkips) -> Result<String> {
    let python = readers::environment(target).ok();
    let mut lines = Vec::new();
    for (name, words) in OTHERS {
        let mut command = process::cargo(root);
        command.args(["test", "--locked"]).args(words.split(' '));
        if let Some(folder) = python.as_deref().and_then(Path::parent) {
            let others = std::env::var_os("PATH").unwrap_or_default();
            let all = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&others));
            command.env("PATH", std::env::join_paths(all).context("cannot add the readers to PATH")?);
        }
        let line = run(&mut command, &scratch.join(format!("skips-{name}")), "", allowed);
        lines.push(format!("{name}: {}", line.with_context(|| name.to_owned())?));
    }
    Ok(lines.join("; "))
}

/// Fails if the arguments of `cargo test` select no test, since cargo succeeds without tests.
pub(crate) fn check_selection(mut command: Command) -> Result<()> {
    let output = command.arg("--list").output().context("cannot start cargo")?;
    if !String::from_utf8_lossy(&output.stdout).contains(": test\n") {
        bail!("{command:?} selects no test: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Runs `cargo test` with `list` as the file for skips. Adds the prefix to their names. Returns a line for the summary.
pub(crate) fn run(command: &mut Command, list: &Path, prefix: &str, allowed: &AllowedSkips) -> Result<String> {
    let given = std::env::var(CASES).ok().and_then(|given| given.parse().ok()).unwrap_or(MIN_CASES);
    command.env(CASES, given.max(MIN_CASES).to_string());
    let mut child = command.env(LIST, list).stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let mut faults = Vec::new();
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line.context("cannot read the output of cargo")?;
        println!("{line}");
        faults.extend(parse_failed(&line).map(str::to_owned));
    }
    let status = child.wait().context("cannot wait for cargo")?;
    // Without skips the file does not exist.
    let mut skipped = skips::listed(&std::fs::read_to_string(list).unwrap_or_default());
    skipped.iter_mut().for_each(|Skip { what, .. }| what.insert_str(0, prefix));
    if !faults.is_empty() {
        faults = vec![format!("failed: {}", faults.join(", "))];
    } else if !status.success() {
        faults.push("cargo test failed".to_owned());
    }
    faults.extend(allowed.not_listed(&skipped));
    process::fail_with(&faults)?;
    Ok(format!("{} skipped", skipped.len()))
}

/// Returns the name of the failed test, if this line of a test program's output reports one.
fn parse_failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::trim)
}

/// Returns the arguments of `cargo` in README's test command.
pub(crate) fn command(readme: &str) -> Result<Vec<String>> {
    let mut marked = readme.lines().filter(|line| line.ends_with(MARK));
    let (Some(line), None) = (marked.next(), marked.next()) else {
        bail!("README.md does not have exactly one line that ends in `{MARK}` (the test command)");
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
    fn the_names_of_failed_tests_are_parsed() {
        assert_eq!(parse_failed("test driver::a_load ... FAILED"), Some("driver::a_load"));
        assert_eq!(parse_failed("test driver::a_load ... ok"), None);
        assert_eq!(parse_failed("test result: FAILED. 1 passed; 1 failed"), None);
    }

    #[test]
    fn the_test_command_is_read_from_the_readme() {
        let readme = "    cargo run\n    cargo test --workspace --locked    # the tests\n";
        assert_eq!(command(readme).unwrap(), ["test", "--workspace", "--locked"]);
        let why = |readme: &str| command(readme).unwrap_err().to_string();
        assert!(why("    cargo test --workspace\n").starts_with("README.md does not have exactly one line"));
        assert!(why(&readme.repeat(2)).starts_with("README.md does not have exactly one line"));
        assert!(why("    cargo test    # the tests\n").contains("does not test the workspace"));
        assert!(why("    make test    # the tests\n").contains("does not begin with `cargo`"));
    }
}
