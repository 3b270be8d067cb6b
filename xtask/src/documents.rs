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
    let document = Document { path: "docs/catalog.md", chore: "catalog" };
    write_or_compare(root, &document, &crate::catalog::markdown(&listed), check)
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
        write_or_compare(root, &Document { path: &path, chore: "schema" }, &format!("{schema:#}\n"), check)?;
    }
    for entry in std::fs::read_dir(root.join(SCHEMAS)).with_context(|| format!("cannot list {SCHEMAS}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_known = name.strip_suffix(".json").is_some_and(|name| schemas.contains_key(name));
        ensure!(is_known, "{SCHEMAS}/{name} is not a schema of hairpin-model (hint: remove the file)");
    }
    Ok(format!("{} schemas", schemas.len()))
}

const SCHEMAS: &str = "docs/schemas";

/// A document, and the xtask command that writes the document.
struct Document<'a> {
    path: &'a str,
    chore: &'static str,
}

fn write_or_compare(root: &Path, document: &Document, printed: &str, check: bool) -> Result<String> {
    let path = root.join(document.path);
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(why) = stale(document, &written, printed).filter(|_| check) {
        bail!(why);
    }
    if !check {
        std::fs::write(&path, printed).with_context(|| format!("cannot write {}", document.path))?;
    }
    Ok(format!("{}: {} lines", document.path, printed.lines().count()))
}

/// Returns why the written document is stale; `None` if it is current.
fn stale(Document { path, chore }: &Document, written: &str, printed: &str) -> Option<String> {
    if printed.trim().is_empty() {
        return Some(format!("nothing was printed for {path}"));
    }
    if written == printed {
        return None;
    }
    let same = written.lines().zip(printed.lines()).take_while(|(written, printed)| written == printed).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(end of file)").to_owned();
    Some(format!(
        "{path} is stale from line {} on: found `{}`, expected `{}` (hint: cargo xtask {chore})",
        same + 1,
        line(written),
        line(printed)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_document_is_reported_with_the_first_difference() {
        let stale = |written, printed| stale(&Document { path: "a.md", chore: "a" }, written, printed);
        assert_eq!(stale("a\nb\n", "a\nb\n"), None);
        let why = stale("a\nb\n", "a\nc\n").unwrap();
        assert!(why.contains("a.md is stale from line 2 on: found `b`, expected `c`"), "{why}");
        assert!(stale("a\n", "a\nb\n").unwrap().contains("found `(end of file)`, expected `b`"));
        assert!(stale("", "").unwrap().contains("nothing was printed"));
    }
}
