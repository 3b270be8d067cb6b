//! The list of skipped tests.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Environment variable with the path of the list, relative to the workspace.
pub const LIST: &str = "HAIRPIN_SKIPS";

/// Adds a skipped test, or a skipped part of a test, to the list if the environment variable [`LIST`] is set.
pub(crate) fn note(package: &str, name: &str, reason: &str) -> Result<(), String> {
    let list = std::env::var_os(LIST).filter(|path| !path.is_empty());
    list.map_or(Ok(()), |list| append(Path::new(&list), package, name, reason))
}

fn append(list: &Path, package: &str, name: &str, reason: &str) -> Result<(), String> {
    let list: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(list);
    let reason = reason.replace('\n', " ");
    let file = OpenOptions::new().create(true).append(true).open(&list);
    // A single write, so that the lines of concurrent tests do not mix.
    let written = file.and_then(|mut file| file.write_all(format!("{package} {name}\t{reason}\n").as_bytes()));
    written.map_err(|error| format!("cannot list a skip in {}: {error}", list.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skip_is_a_line() {
        let list = std::env::temp_dir().join(format!("hairpin-skips-{}", std::process::id()));
        append(&list, "a", "b::c", "no\nnamespaces").unwrap();
        append(&list, "a", "b::d", "no root").unwrap();
        let text = std::fs::read_to_string(&list).unwrap();
        std::fs::remove_file(&list).unwrap();
        assert_eq!(text, "a b::c\tno namespaces\na b::d\tno root\n");
        assert!(
            append(Path::new("/dev/null/list"), "a", "b", "c").unwrap_err().starts_with("cannot list a skip in ")
        );
    }
}
