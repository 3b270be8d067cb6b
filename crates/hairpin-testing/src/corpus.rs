//! Replays the corpora of the fuzz targets in ordinary tests; see `fuzz/README.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// If this environment variable is set, to any value, [`replay`] rewrites the valid inputs.
pub const WRITE: &str = "HAIRPIN_FUZZ_WRITE";

/// Prefix of the names of valid inputs. All other inputs were found by a fuzzer.
const VALID: &str = "valid-";

/// Passes every input of the corpus `fuzz/corpus/TARGET` to `parse`, which returns whether it accepts the input; also
/// the inputs in `valid`, which the current encoders created.
///
/// # Panics
/// `parse` panics or does not accept a valid input, or the corpus is missing, is empty, or lacks a valid input.
pub fn replay(target: &str, valid: &[(&str, Vec<u8>)], mut parse: impl FnMut(&[u8]) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    if std::env::var_os(WRITE).is_some() {
        write(&folder, valid);
    }
    let saved = inputs(&folder);
    assert!(!valid.is_empty() && !saved.is_empty(), "{target} has no inputs");
    for (name, bytes) in valid {
        assert!(saved.contains_key(&format!("{VALID}{name}")), "{target}/{VALID}{name} is missing: set {WRITE}");
        assert!(parse(bytes), "{target}: {name}, newly encoded, is not accepted");
    }
    for (name, bytes) in saved {
        let accepted = parse(&bytes);
        assert!(accepted || !name.starts_with(VALID), "{target}/{name} is not accepted");
    }
}

fn write(folder: &Path, valid: &[(&str, Vec<u8>)]) {
    fs::create_dir_all(folder).expect("the corpus can be made");
    for (name, bytes) in valid {
        fs::write(folder.join(format!("{VALID}{name}")), bytes).expect("the corpus can be written");
    }
}

fn inputs(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.map(|path| (name(&path), fs::read(&path).expect("an input can be read"))).collect()
}
