//! The runs in a folder. Reads only the head of each `run.json` and the sizes of the files, one run at a time.

use std::io;
use std::path::Path;

use hairpin_model::{RunHeader, printable};

use super::error::StoreError;
use super::folder::{Entry, Folder};
use super::limits;
use super::run_folder::RUN;

/// Maximum entries read in a folder. A run of 20 000 rounds, the maximum planned, has 20 000 in `samples`.
pub(super) const ENTRIES: usize = 100_000;

#[derive(Debug)]
pub struct SavedRun {
    pub name: String,
    /// The head of its `run.json`.
    pub head: RunHeader,
    /// Total size of its files.
    pub bytes: u64,
    pub is_being_written: bool,
}

/// An entry of a folder of runs that is not listed as a run.
#[derive(Debug)]
pub struct Skipped {
    pub name: String,
    pub reason: String,
}

#[derive(Debug)]
pub struct Listing {
    /// Newest first.
    pub runs: Vec<SavedRun>,
    /// All other entries, by name.
    pub skipped: Vec<Skipped>,
    pub(super) folder: Folder,
}

impl Listing {
    /// Reads the folder of runs at that path. Follows no links in it.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::File { operation: "list", path: path.to_owned(), source };
        let folder = Folder::open(path).map_err(failed)?;
        let mut listing = Self { runs: Vec::new(), skipped: Vec::new(), folder };
        for entry in listing.folder.entries(ENTRIES).map_err(failed)? {
            match saved_run(&listing.folder, &entry) {
                Ok(run) => listing.runs.push(run),
                Err(reason) => listing.skipped.push(Skipped { name: entry.name, reason }),
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
    let head = head(&folder)?;
    let bytes = bytes(&folder).map_err(|error| error.to_string())?;
    let is_being_written = folder.lock().is_ok_and(|lock| lock.is_none());
    Ok(SavedRun { name: entry.name.clone(), head, bytes, is_being_written })
}

/// The head of the run in that folder, or why it cannot be read.
pub(super) fn head(folder: &Folder) -> Result<RunHeader, String> {
    let json = folder.read(RUN, limits::RUN_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("it holds no {RUN}"),
        _ => format!("cannot read its {RUN}: {error}"),
    })?;
    let head = limits::values(&json).and_then(|()| RunHeader::read(&json));
    head.map_err(|cause| format!("cannot read its {RUN}: {}", printable::line(&cause)))
}

/// Total size of its files and of those in its folders, which have no subfolders.
fn bytes(folder: &Folder) -> io::Result<u64> {
    let mut bytes = 0_u64;
    for entry in folder.entries(ENTRIES)? {
        let inside = if entry.is_folder() { folder.subfolder(&entry.name)?.entries(ENTRIES)? } else { vec![entry] };
        let files = inside.iter().filter(|entry| entry.is_file());
        bytes = files.fold(bytes, |bytes, file| bytes.saturating_add(file.bytes));
    }
    Ok(bytes)
}
