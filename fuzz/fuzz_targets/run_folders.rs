//! Run folders from untrusted sources.
#![no_main]

use std::sync::LazyLock;

use tempfile::TempDir;

/// The folder for all inputs. The folder remains, since the process ends without dropping this value.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder can be made"));

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = hairpin_store::fuzzing::run_folders(FOLDER.path(), input);
});
