//! Errors while saving or reading a run. Each names the file and gives a hint.

use std::io;
use std::path::{Path, PathBuf};

use hairpin_model::printable;
use hairpin_model::upgrade::LoadError;

use super::folder::{Folder, Refusal};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {operation} {}: {}{}", shown(.path), printable::line(&.source.to_string()), hint(.operation, .source))]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{} already holds a run (hint: choose another --out; a saved run is never overwritten)", shown(.0))]
    Occupied(PathBuf),
    #[error("{} holds no run: {source} (hint: give the folder that contains run.json)", shown(.path))]
    NoRun { path: PathBuf, source: io::Error },
    /// `run.json` cannot be read as a run.
    #[error("cannot read {}: {}", shown(.path), printable::line(&.source.to_string()))]
    Load { path: PathBuf, source: LoadError },
    /// A samples file or the histogram log is damaged.
    #[error(
        "cannot read {}: {} (hint: was it cut short or edited? the other rounds are unchanged)",
        shown(.path),
        printable::line(.cause)
    )]
    Damaged { path: PathBuf, cause: String },
}

fn shown(path: &Path) -> String {
    printable::line(&path.display().to_string()).into_owned()
}

/// Name of the operation that creates the run folder. Its errors have their own hint.
pub(super) const MAKE: &str = "make the run folder";

fn hint(operation: &str, error: &io::Error) -> String {
    if let Some(refusal) = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>()) {
        return format!(" (hint: {})", refusal.hint());
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if operation == MAKE => {
            " (hint: choose a folder you may write to with --out)"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            " (hint: use a copy of the run that you can read and write)"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (hint: free some space, or choose another disk with --out)"
        }
        io::ErrorKind::FileTooLarge => " (hint: raise the limit on the size of files (ulimit -f), or measure less)",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => " (hint: choose another --out)",
        _ => "",
    }
    .to_owned()
}

impl Folder {
    pub(super) fn error(&self, operation: &'static str, name: &str) -> impl FnOnce(io::Error) -> StoreError {
        let path = self.path().join(name);
        move |source| StoreError::File { operation, path, source }
    }

    pub(super) fn damaged(&self, name: &str, cause: String) -> StoreError {
        StoreError::Damaged { path: self.path().join(name), cause }
    }
}
