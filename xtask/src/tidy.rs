//! `cargo xtask tidy`: habits of the code that neither rustfmt nor clippy checks, each a small function.
//!
//! Files of at most 600 lines (a ratchet: `tidy-exceptions.toml` lists longer ones with a reason, and an exception may
//! only shrink); no tabs or trailing spaces; no unfinished work; a reason for every exemption from a lint; the purpose
//! of every file at its top; no paths of one machine; no test that passes or is skipped unnoticed; no import cycles in
//! a crate; no transport recognised by its name and no error by its text; Linux-only code in folders named `linux`.
//! Clippy checks that functions have at most 70 lines; that it is configured to is checked here.

mod circles;
mod error_texts;
mod exceptions;
mod linux_folders;
mod rules;
mod transport_names;
mod unseen;

use std::path::Path;

use anyhow::{Result, bail};

use crate::source::{self, Source};

/// Checked files; all others (pictures, snapshots, licences) are ignored.
const EXTENSIONS: &[&str] = &["rs", "toml", "md", "html", "css", "js", "py", "sh"];

/// List of longer files.
const EXCEPTIONS: &str = "xtask/tidy-exceptions.toml";

/// A rule: the faults of one file, each a line number (from 1) and a description.
type Rule = fn(&Source) -> Vec<(usize, String)>;

/// The rules, and the extensions of the files that each is for; an empty list means all.
const RULES: &[(Rule, &[&str])] = &[
    (rules::spaces, &[]),
    (rules::unfinished, &[]),
    (rules::machine_paths, &[]),
    (rules::registry_hosts, &[]),
    (rules::exemptions_without_reason, &["rs"]),
    (rules::module_docs, &["rs"]),
    (rules::function_length_threshold, &["toml"]),
    (error_texts::error_texts, &["rs"]),
    (unseen::returns, &["rs"]),
    (unseen::ignored, &["rs"]),
    (unseen::doctests, &["rs"]),
];

/// Checks every file; returns a line for the summary.
///
/// # Errors
/// Every fault with its place, or why a file could not be read.
pub(crate) fn run(root: &Path) -> Result<String> {
    let sources = source::files(root, EXTENSIONS)?;
    let mut faults: Vec<String> = sources.iter().flat_map(faults_of).collect();
    let listed = exceptions::read(&std::fs::read_to_string(root.join(EXCEPTIONS)).unwrap_or_default());
    match listed {
        Ok(listed) => faults.extend(exceptions::long_files(&sources, &listed)),
        Err(why) => faults.push(format!("{EXCEPTIONS}: {why:#}")),
    }
    faults.extend(circles::circles(&sources));
    faults.extend(linux_folders::linux_folders(&sources));
    faults.extend(transport_names::transport_names(&sources));
    faults.extend(unseen::orphans(&sources));
    faults.extend(unseen::targets_without_tests(&sources));
    if faults.is_empty() {
        Ok(format!("{} files, {} rules", sources.len(), RULES.len() + 6))
    } else {
        bail!("{}", faults.join("\n"))
    }
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

    #[test]
    fn a_rule_is_run_on_the_files_that_it_is_for() {
        let faults = |path: &str, text: &str| faults_of(&Source { path: path.to_owned(), text: text.to_owned() });
        assert_eq!(faults("a/b.rs", "fn f() {} \n").len(), 2);
        assert_eq!(faults("a/b.rs", "//! What it is for.\nfn f() {}\n"), [""; 0]);
        assert_eq!(faults("a.md", "Text \n"), ["a.md:1: a space at the end of the line"]);
    }
}
