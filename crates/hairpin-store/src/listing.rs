//! Lists the runs in a folder. Reads only the head of each `run.json` and the sizes of the files, one run at a time.

use std::io;
use std::path::Path;

use hairpin_model::{RunHeader, SkippedEntry, printable};

use super::error::StoreError;
use super::folder::{Entry, Folder};
use super::limits;
use super::run_folder::RUN;

/// Maximum entries of a folder. A run with the maximum of 20 000 rounds has 20 000 entries in `samples`.
pub(super) const MAX_ENTRIES: usize = 100_000;

#[derive(Debug)]
pub struct SavedRun {
    pub name: String,
    /// The head of its `run.json`.
    pub head: RunHeader,
    pub bytes: u64,
    pub is_being_written: bool,
}

#[derive(Debug)]
pub struct Listing {
    /// Newest first.
    pub runs: Vec<SavedRun>,
    pub skipped: Vec<SkippedEntry>,
    pub(super) folder: Folder,
}

impl Listing {
    /// Reads the folder of runs at this path. Follows no links inside it.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::File { operation: "list", path: path.to_owned(), source };
        let folder = Folder::open(path).map_err(failed)?;
        let mut listing = Self { runs: Vec::new(), skipped: Vec::new(), folder };
        for entry in listing.folder.entries(MAX_ENTRIES).map_err(failed)? {
            match saved_run(&listing.folder, &entry) {
                Ok(run) => listing.runs.push(run),
                Err(reason) => listing.skipped.push(SkippedEntry { name: entry.name, reason }),
            }
        }
        listing.runs.sort_by(|a, b| (b.head.started_unix_s, &b.name).cmp(&(a.head.started_unix_s, &a.name)));
        listing.skipped.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn saved_run(parent: &Folder, entry: &Entry) -> Result<SavedRun, String> {
    if !entry.is_folder() {
        return Err("it is not a folder".to_owned());
    }
    let folder = parent.subfolder(&entry.name).map_err(|error| error.to_string())?;
    let head = read_head(&folder)?;
    let bytes = total_bytes(&folder).map_err(|error| error.to_string())?;
    let is_being_written = folder.lock().is_ok_and(|lock| lock.is_none());
    Ok(SavedRun { name: entry.name.clone(), head, bytes, is_being_written })
}

/// Reads the head of the run in this folder. On failure returns the reason.
pub(super) fn read_head(folder: &Folder) -> Result<RunHeader, String> {
    let json = folder.read(RUN, limits::MAX_RUN_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("it holds no {RUN}"),
        _ => format!("cannot read its {RUN}: {error}"),
    })?;
    let head = limits::check_values(&json).and_then(|()| RunHeader::read(&json));
    head.map_err(|cause| format!("cannot read its {RUN}: {}", printable::line(&cause)))
}

/// Returns the total size of the files in the folder and in its subfolders, which have no subfolders themselves.
fn total_bytes(folder: &Folder) -> io::Result<u64> {
    let mut bytes = 0_u64;
    for entry in folder.entries(MAX_ENTRIES)? {
        let inside =
            if entry.is_folder() { folder.subfolder(&entry.name)?.entries(MAX_ENTRIES)? } else { vec![entry] };
        let files = inside.iter().filter(|entry| entry.is_file());
        bytes = files.fold(bytes, |bytes, file| bytes.saturating_add(file.bytes));
    }
    Ok(bytes)
}
