//! Removing a run: deletes only files of a run, relative to the descriptors of its folders, and only if the folder has
//! no others.

use std::io;

use hairpin_model::link::LOGS;
use hairpin_model::printable;
use hairpin_model::run::State;

use super::folder::{Entry, Folder};
use super::listing::{ENTRIES, Listing, SavedRun, head};
use super::run_folder::{RUN, UNSAVED};

/// The files of a run in its own folder. The first is removed last, so that an interrupted removal leaves a run.
const FILES: [&str; 6] = [RUN, "rounds.jsonl", "latency.hlog", "samples.parquet", "report.html", UNSAVED];
/// The folders of a run, and the extensions of the files in them.
const FOLDERS: [(&str, &str); 4] =
    [("samples", ".parquet"), ("traces", ".json"), ("captures", ".pcapng"), (LOGS, ".log")];

/// Why a run was not removed.
#[derive(Debug, thiserror::Error)]
pub enum NotRemoved {
    /// It is not the listed run, or no longer a run.
    #[error("it has changed since it was listed")]
    Changed,
    #[error("it is being written")]
    BeingWritten,
    #[error("it belongs to another user")]
    OfAnotherUser,
    /// Something in it does not belong to a run.
    #[error("{} in it is not a file of a run", printable::line(.0))]
    Foreign(String),
    #[error("{0}")]
    System(#[from] io::Error),
}

impl Listing {
    /// Removes a listed run. Checks the contents of its folder first and removes nothing if there is anything else.
    pub fn remove(&self, run: &SavedRun) -> Result<(), NotRemoved> {
        let folder = self.folder.subfolder(&run.name)?;
        if !folder.is_own()? {
            return Err(NotRemoved::OfAnotherUser);
        }
        let _lock = match folder.lock() {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => return Err(NotRemoved::BeingWritten),
            // Without locks in the file system, only its state can be checked.
            Err(_) if run.head.state == State::Running => return Err(NotRemoved::BeingWritten),
            Err(_) => None,
        };
        if head(&folder).as_ref() != Ok(&run.head) {
            return Err(NotRemoved::Changed);
        }
        let contents = Contents::of(&folder)?;
        contents.remove(&folder)?;
        Ok(self.folder.remove_folder(&run.name)?)
    }
}

/// The contents of a run's folder.
struct Contents {
    files: Vec<String>,
    folders: Vec<(Folder, String, Vec<String>)>,
}

impl Contents {
    fn of(folder: &Folder) -> Result<Self, NotRemoved> {
        let mut contents = Self { files: Vec::new(), folders: Vec::new() };
        for entry in folder.entries(ENTRIES)? {
            let ending = FOLDERS.iter().find(|(name, _)| *name == entry.name).map(|(_, ending)| ending);
            match ending {
                Some(ending) if entry.is_folder() => {
                    let inside = folder.subfolder(&entry.name)?;
                    let files = files(&inside, &format!("{}/", entry.name), |name| is_of_a_round(name, ending))?;
                    contents.folders.push((inside, entry.name, files));
                }
                _ => contents.files.push(file(entry, "", |name| FILES.contains(&name))?),
            }
        }
        contents.files.sort_by_key(|name| name == RUN);
        Ok(contents)
    }

    fn remove(&self, folder: &Folder) -> io::Result<()> {
        for (inside, name, files) in &self.folders {
            files.iter().try_for_each(|file| inside.remove(file))?;
            folder.remove_folder(name)?;
        }
        self.files.iter().try_for_each(|file| folder.remove(file))
    }
}

/// The names of the files in a folder, all of which must match `is_such`.
fn files(folder: &Folder, prefix: &str, is_such: impl Fn(&str) -> bool) -> Result<Vec<String>, NotRemoved> {
    folder.entries(ENTRIES)?.into_iter().map(|entry| file(entry, prefix, &is_such)).collect()
}

/// The name of a file, if it matches, or is a partial file of a killed process whose final name does.
fn file(entry: Entry, prefix: &str, is_such: impl Fn(&str) -> bool) -> Result<String, NotRemoved> {
    let is_known = is_such(&entry.name) || partial_of(&entry.name).is_some_and(&is_such);
    if entry.is_file() && is_known {
        Ok(entry.name)
    } else {
        Err(NotRemoved::Foreign(format!("{prefix}{}", entry.name)))
    }
}

/// The final name of a partial file.
fn partial_of(name: &str) -> Option<&str> {
    let (name, numbers) = name.strip_prefix('.')?.strip_suffix(".partial")?.rsplit_once('.')?;
    let (process, number) = numbers.split_once('-')?;
    (is_number(process) && is_number(number)).then_some(name)
}

/// Whether a file is named after a round, as in `round-000123.json`.
fn is_of_a_round(name: &str, ending: &str) -> bool {
    let number = name.strip_prefix("round-").and_then(|name| name.strip_suffix(ending));
    number.is_some_and(|number| number.len() >= 6 && is_number(number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_run_has_are_of_a_run() {
        assert!(is_of_a_round("round-000012.parquet", ".parquet") && is_of_a_round("round-1000000.json", ".json"));
        for name in
            ["round-.json", "round-12.json", "round-00001x.json", "round-000012.parquet", "xround-000012.json"]
        {
            assert!(!is_of_a_round(name, ".json"), "{name}");
        }
        assert_eq!(partial_of(".run.json.77-0.partial"), Some("run.json"));
        for name in
            ["run.json", ".run.json.partial", ".run.json.7.partial", ".run.json.7-x.partial", "run.json.7-1.partial"]
        {
            assert_eq!(partial_of(name), None, "{name}");
        }
    }
}
