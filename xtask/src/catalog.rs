//! `cargo xtask catalog`: docs/catalog.md as the binary itself prints it, so that it cannot tell of what is not there.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;

/// What is generated.
const CATALOG: &str = "docs/catalog.md";

/// Writes the catalog, or with `check` only compares; answers a line for the summary.
///
/// # Errors
/// Where the binary fails, the catalog cannot be written, or, with `check`, it is stale.
pub(crate) fn run(root: &Path, binary: &Path, check: bool) -> Result<String> {
    let mut command = Command::new(binary);
    command.args(["list", "--markdown"]);
    let printed = process::run(&mut command, Duration::from_secs(30))?.succeeded().context("hairpin list")?.stdout;
    let path = root.join(CATALOG);
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if check {
        return stale(&written, &printed).map_or(Ok(format!("{CATALOG} is what the binary lists")), |why| bail!(why));
    }
    std::fs::create_dir_all(root.join("docs")).context("cannot make docs")?;
    std::fs::write(&path, &printed).with_context(|| format!("cannot write {CATALOG}"))?;
    Ok(format!("{CATALOG}: {} lines", printed.lines().count()))
}

/// Why the written catalog is not what the binary prints now.
fn stale(written: &str, printed: &str) -> Option<String> {
    if printed.trim().is_empty() {
        return Some("hairpin list --markdown printed nothing".to_owned());
    }
    if written == printed {
        return None;
    }
    let same = written.lines().zip(printed.lines()).take_while(|(written, printed)| written == printed).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(its end)").to_owned();
    Some(format!(
        "{CATALOG} is stale from line {} on: it has `{}`, the binary lists `{}` (hint: cargo xtask catalog)",
        same + 1,
        line(written),
        line(printed)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_catalog_is_found_with_its_first_difference() {
        assert_eq!(stale("a\nb\n", "a\nb\n"), None);
        let why = stale("a\nb\n", "a\nc\n").unwrap();
        assert!(why.contains("stale from line 2 on: it has `b`, the binary lists `c`"), "{why}");
        assert!(stale("a\n", "a\nb\n").unwrap().contains("it has `(its end)`, the binary lists `b`"));
        assert!(stale("", "").unwrap().contains("printed nothing"));
    }
}
