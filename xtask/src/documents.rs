//! `cargo xtask catalog` and `cargo xtask schema`: write the documents that programs print.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// Writes docs/catalog.md from `hairpin list --json`; with `check`, only compares. Returns a line for the summary.
pub(crate) fn catalog(root: &Path, binary: &Path, check: bool) -> Result<String> {
    let mut command = Command::new(binary);
    command.args(["list", "--json"]);
    let listed = process::run(&mut command, Duration::from_secs(30))?.succeeded().context("hairpin list")?.json()?;
    write_or_compare(root, ["docs/catalog.md", "catalog"], &crate::catalog::markdown(&listed), check)
}

/// Writes hairpin-model's schemas to docs/schemas; with `check`, only compares. Returns a line for the summary.
pub(crate) fn schemas(root: &Path, check: bool) -> Result<String> {
    let mut command = process::cargo(root);
    command.args(["run", "--quiet", "--locked", "--package", "hairpin-model", "--features", "schema"]);
    command.args(["--example", "schema"]);
    let printed =
        process::run(&mut command, Duration::from_mins(5))?.succeeded().context("cannot derive the schemas")?;
    let schemas = printed.json()?;
    let schemas = schemas.as_object().context("the schemas are not in an object")?;
    for (name, schema) in schemas {
        let path = format!("{SCHEMAS}/{name}.json");
        write_or_compare(root, [&path, "schema"], &format!("{schema:#}\n"), check)?;
    }
    for entry in std::fs::read_dir(root.join(SCHEMAS)).with_context(|| format!("cannot list {SCHEMAS}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_known = name.strip_suffix(".json").is_some_and(|name| schemas.contains_key(name));
        ensure!(is_known, "{SCHEMAS}/{name} is not a schema of hairpin-model (hint: remove the file)");
    }
    Ok(format!("{} schemas", schemas.len()))
}

const SCHEMAS: &str = "docs/schemas";

/// Writes the document at this path, or compares it; `chore` is the xtask command that writes it.
fn write_or_compare(root: &Path, [path, chore]: [&str; 2], printed: &str, check: bool) -> Result<String> {
    if check {
        let written = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        ensure_current([path, chore], &written, printed)?;
    } else {
        std::fs::write(root.join(path), printed).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(format!("{path}: {} lines", printed.lines().count()))
}

fn ensure_current([path, chore]: [&str; 2], written: &str, printed: &str) -> Result<()> {
    ensure!(!printed.trim().is_empty(), "{path} would be empty");
    if written == printed {
        return Ok(());
    }
    let same = written.lines().zip(printed.lines()).take_while(|(written, printed)| written == printed).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(end of file)").to_owned();
    bail!(
        "{path} is stale from line {} on: found `{}`, expected `{}` (hint: cargo xtask {chore})",
        same + 1,
        line(written),
        line(printed)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_document_is_reported_with_the_first_difference() {
        let stale =
            |written, printed| ensure_current(["a.md", "a"], written, printed).err().map(|why| why.to_string());
        assert_eq!(stale("a\nb\n", "a\nb\n"), None);
        let why = stale("a\nb\n", "a\nc\n").unwrap();
        assert!(why.contains("a.md is stale from line 2 on: found `b`, expected `c`"), "{why}");
        assert!(stale("a\n", "a\nb\n").unwrap().contains("found `(end of file)`, expected `b`"));
        assert!(stale("", "").unwrap().contains("a.md would be empty"));
    }
}
