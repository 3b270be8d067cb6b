//! `cargo xtask lines`: counts the lines of code, without tests, comments and blank lines.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::source;

/// Files and folders compiled only for tests.
const FOR_TESTS: [&str; 4] = ["tests", "fuzzing", "loom_model", "loom_tests"];

/// Returns a line per crate, and the sum.
pub(crate) fn run(root: &Path) -> Result<String> {
    let mut crates: BTreeMap<String, usize> = BTreeMap::new();
    for source in source::files(&root.join("crates"), &["rs"])? {
        let Some((name, file)) = source.path.split_once("/src/") else { continue };
        if file.split(['/', '.']).any(|part| FOR_TESTS.contains(&part)) {
            continue;
        }
        let lines = source::production(&source.text, true).lines().filter(|line| !line.trim().is_empty()).count();
        *crates.entry(name.to_owned()).or_default() += lines;
    }
    let all = crates.values().sum::<usize>();
    let lines = crates.iter().map(|(name, lines)| format!("{lines:>6} {name}\n")).collect::<String>();
    Ok(format!("{lines}{all:>6} lines of code, without tests, comments and blank lines"))
}
