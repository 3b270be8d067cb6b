//! The ratchet on long files: those over the limit are listed with size and reason, and may only shrink.

use anyhow::{Context, Result, bail};

use crate::source::Source;

/// Maximum lines of a file.
const LIMIT: usize = 600;

/// A file that may be longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exception {
    path: String,
    lines: usize,
}

/// Parses `[[long_file]]` tables of `path`, `lines` and `reason`.
pub(super) fn read(text: &str) -> Result<Vec<Exception>> {
    let table: toml::Table = text.parse().context("it is not TOML")?;
    if let Some(key) = table.keys().find(|key| *key != "long_file") {
        bail!("unknown table `{key}` (hint: each exception is a [[long_file]])");
    }
    let Some(entries) = table.get("long_file") else { return Ok(Vec::new()) };
    entries.as_array().context("long_file is not a list of tables")?.iter().map(exception).collect()
}

fn exception(entry: &toml::Value) -> Result<Exception> {
    let path = entry.get("path").and_then(toml::Value::as_str).context("an exception has no `path`")?.to_owned();
    let lines = entry.get("lines").and_then(toml::Value::as_integer);
    let lines = lines.and_then(|lines| usize::try_from(lines).ok());
    let lines = lines.with_context(|| format!("the exception of {path} has no `lines`"))?;
    if entry.get("reason").and_then(toml::Value::as_str).is_none_or(|reason| reason.trim().is_empty()) {
        bail!("the exception of {path} has no `reason`");
    }
    Ok(Exception { path, lines })
}

/// Rust files over the limit that are not listed, and exceptions that no longer fit their file.
pub(super) fn long_files(sources: &[Source], listed: &[Exception]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".rs")) {
        let lines = source.text.lines().count();
        if lines > LIMIT && !listed.iter().any(|exception| exception.path == source.path) {
            faults.push(format!(
                "{}: {lines} lines, {LIMIT} are the limit (hint: split it by what its parts are for)",
                source.path
            ));
        }
    }
    faults.extend(listed.iter().filter_map(|exception| {
        let source = sources.iter().find(|source| source.path == exception.path);
        unfit(exception, source.map(|source| source.text.lines().count()))
    }));
    faults
}

fn unfit(exception: &Exception, lines: Option<usize>) -> Option<String> {
    let Exception { path, lines: listed } = exception;
    match lines {
        None => Some(format!("{path}: listed as a long file but not there (hint: remove the exception)")),
        Some(lines) if lines <= LIMIT => {
            Some(format!("{path}: {lines} lines are within the limit (hint: remove the exception)"))
        }
        Some(lines) if lines < *listed => {
            Some(format!("{path}: {lines} lines, listed with {listed} (hint: lower it, so that it cannot grow back)"))
        }
        Some(lines) if lines > *listed => {
            Some(format!("{path}: {lines} lines, listed with {listed} (hint: an exception may only shrink)"))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: usize) -> Source {
        Source { path: path.to_owned(), text: "x\n".repeat(lines) }
    }

    #[test]
    fn a_long_file_needs_an_exception_of_its_exact_size() {
        let listed = read("[[long_file]]\npath = \"a.rs\"\nlines = 700\nreason = \"one table\"\n").unwrap();
        assert_eq!(long_files(&[file("a.rs", 700), file("b.rs", 600), file("c.md", 900)], &listed), [""; 0]);
        for (sources, expected) in [
            (vec![file("a.rs", 700), file("b.rs", 601)], "b.rs: 601 lines, 600 are the limit"),
            (vec![file("a.rs", 699)], "a.rs: 699 lines, listed with 700 (hint: lower it"),
            (vec![file("a.rs", 701)], "a.rs: 701 lines, listed with 700 (hint: an exception may only shrink"),
            (vec![file("a.rs", 600)], "a.rs: 600 lines are within the limit (hint: remove"),
            (vec![], "a.rs: listed as a long file but not there"),
        ] {
            let faults = long_files(&sources, &listed);
            assert!(faults.len() == 1 && faults[0].starts_with(expected), "{faults:?}");
        }
    }

    #[test]
    fn an_exception_without_a_reason_or_a_size_is_refused() {
        let why = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(why("[[long_file]]\npath = \"a.rs\"\nlines = 700"), "the exception of a.rs has no `reason`");
        assert_eq!(why("[[long_file]]\npath = \"a.rs\"\nreason = \"x\""), "the exception of a.rs has no `lines`");
        assert!(why("[[longfile]]\n").starts_with("unknown table `longfile`"));
        assert_eq!(read("").unwrap(), []);
    }
}
