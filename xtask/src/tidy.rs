//! `cargo xtask tidy`: checks conventions that rustfmt, clippy and cargo-deny do not check.
//!
//! Files have at most 600 lines and no trailing spaces, begin with their purpose, and contain no unfinished work and no
//! machine-specific paths. Tests cannot pass or be skipped unnoticed. Crates have no import cycles. Code does not
//! recognise transports by name or errors by text. Linux-only code is in `linux` folders. deny.toml restricts crates.
//! A changed rule of a claim has a record of its change.

mod circles;
mod error_texts;
mod linux_folders;
mod rule_changes;
mod rules;
mod transport_names;
mod unseen;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::source::{self, Source};

/// Extensions of checked files. All other files (pictures, snapshots, licences) are ignored.
const EXTENSIONS: [&str; 8] = ["rs", "toml", "md", "html", "css", "js", "py", "sh"];

/// A rule. Returns the faults of one file, each with a line number (from 1) and a description.
type Rule = fn(&Source) -> Vec<(usize, String)>;

/// The rules, each with the extensions of the files that it checks; an empty list means all files.
const RULES: &[(Rule, &[&str])] = &[
    (rules::unfinished, &[]),
    (rules::machine_paths, &[]),
    (rules::registry_hosts, &[]),
    (rules::module_docs, &["rs"]),
    (rules::length, &["rs"]),
    (error_texts::error_texts, &["rs"]),
    (unseen::returns, &["rs"]),
    (unseen::ignored, &["rs"]),
    (unseen::doctests, &["rs"]),
];

pub(crate) fn run(root: &Path) -> Result<String> {
    let sources = source::files(root, &EXTENSIONS)?;
    let mut faults: Vec<String> = sources.iter().flat_map(faults_of).collect();
    faults.extend(spaces(root)?);
    faults.extend(unrestricted(&sources));
    faults.extend(circles::circles(&sources));
    faults.extend(linux_folders::linux_folders(&sources));
    faults.extend(transport_names::transport_names(&sources));
    let paths: Vec<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    faults.extend(rule_changes::rule_changes(root, &paths)?);
    faults.extend(unseen::orphans(&sources));
    faults.extend(unseen::targets_without_tests(&sources));
    process::fail_with(&faults)?;
    Ok(format!("{} files, {} rules", sources.len(), RULES.len() + 8))
}

/// Reports the trailing spaces and tabs that git finds.
fn spaces(root: &Path) -> Result<Vec<String>> {
    const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let mut git = Command::new("git");
    git.current_dir(root).args(["-c", "core.whitespace=tab-in-indent", "diff", "--check", EMPTY_TREE, "--"]);
    let output =
        git.args(EXTENSIONS.map(|extension| format!("*.{extension}"))).output().context("cannot start git")?;
    let found = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>();
    ensure!(output.status.success() || !found.is_empty(), "git diff: {}", String::from_utf8_lossy(&output.stderr));
    Ok(found)
}

/// Crates that any other may use: for tests, or for programs that have nothing to do with measuring.
const UNRESTRICTED: [&str; 3] = ["hairpin", "hairpin-testing", "hairpin-socket"];

fn unrestricted(sources: &[Source]) -> Vec<String> {
    let deny = sources.iter().find(|source| source.path == "deny.toml").map_or("", |source| &source.text);
    let crates = sources.iter().filter_map(|source| source.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"));
    crates
        .filter(|name| !UNRESTRICTED.contains(name))
        .filter(|name| !deny.contains(&format!("{{ crate = \"{name}\", wrappers = [")))
        .map(|name| format!("deny.toml does not list the crates that may use {name}"))
        .collect()
}

fn faults_of(source: &Source) -> Vec<String> {
    let extension = source.path.rsplit('.').next().unwrap_or_default();
    let concerned = RULES.iter().filter(|(_, extensions)| extensions.is_empty() || extensions.contains(&extension));
    concerned
        .flat_map(|(rule, _)| rule(source))
        .map(|(line, what)| format!("{}:{line}: {what}", source.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns the lines of `text` in which a rule finds a fault.
    pub(super) fn lines(rule: fn(&Source) -> Vec<(usize, String)>, text: &str) -> Vec<usize> {
        rule(&source("a.rs", text)).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_rule_runs_only_on_files_with_its_extensions() {
        assert_eq!(faults_of(&source("a/b.rs", "fn f() {}\n")).len(), 1);
        assert_eq!(faults_of(&source("a/b.rs", "//! What it is for.\nfn f() {}\n")), [""; 0]);
        assert_eq!(faults_of(&source("a.md", "fn f() {}\n")), [""; 0]);
    }

    #[test]
    fn a_crate_that_deny_toml_does_not_restrict_is_reported() {
        let files =
            ["hairpin", "hairpin-a", "hairpin-b"].map(|name| source(&format!("crates/{name}/Cargo.toml"), ""));
        let deny = source("deny.toml", "{ crate = \"hairpin-a\", wrappers = [] }");
        let faults = unrestricted(&files.into_iter().chain([deny]).collect::<Vec<_>>());
        assert_eq!(faults, ["deny.toml does not list the crates that may use hairpin-b"]);
    }
}
