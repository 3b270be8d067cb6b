//! Removes a run: deletes only files of a run, relative to the descriptors of its folders, and only if the folder
//! contains no other files.

use std::io;

use hairpin_model::link::LOGS;
use hairpin_model::printable;
use hairpin_model::run::State;

use super::folder::{Entry, Folder};
use super::listing::{Listing, MAX_ENTRIES, SavedRun, read_head};
use super::run_folder::{RUN, UNSAVED};

/// The files in a run's folder. The first is removed last, so that an interrupted removal leaves a run.
const FILES: [&str; 6] = [RUN, "rounds.jsonl", "latency.hlog", "samples.parquet", "report.html", UNSAVED];
/// The subfolders of a run's folder, and the extension of the files in each.
const FOLDERS: [(&str, &str); 5] =
    [("samples", ".parquet"), ("traces", ".json"), ("budgets", ".json"), ("captures", ".pcapng"), (LOGS, ".log")];

#[derive(Debug, thiserror::Error)]
pub enum NotRemoved {
    #[error("it has changed since it was listed")]
    Changed,
    #[error("it is being written")]
    BeingWritten,
    #[error("it belongs to another user")]
    OfAnotherUser,
    #[error("it contains {}, which is not a file of a run", printable::line(.0))]
    Foreign(String),
    #[error("{0}")]
    System(#[from] io::Error),
}

impl Listing {
    /// Removes a listed run. Checks the whole folder first: if the folder contains anything else, removes nothing.
    pub fn remove(&self, run: &SavedRun) -> Result<(), NotRemoved> {
        let folder = self.folder.subfolder(&run.name)?;
        if !folder.is_owned_by_user()? {
            return Err(NotRemoved::OfAnotherUser);
        }
        let _lock = match folder.lock() {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => return Err(NotRemoved::BeingWritten),
            // The file system has no locks: check only the recorded state.
            Err(_) if run.head.state == State::Running => return Err(NotRemoved::BeingWritten),
            Err(_) => None,
        };
        if read_head(&folder).as_ref() != Ok(&run.head) {
            return Err(NotRemoved::Changed);
        }
        let contents = Contents::of(&folder)?;
        contents.remove(&folder)?;
        Ok(self.folder.remove_folder(&run.name)?)
    }
}

struct Contents {
    files: Vec<String>,
    folders: Vec<(Folder, String, Vec<String>)>,
}

impl Contents {
    fn of(folder: &Folder) -> Result<Self, NotRemoved> {
        let mut contents = Self { files: Vec::new(), folders: Vec::new() };
        for entry in folder.entries(MAX_ENTRIES)? {
            let ending = FOLDERS.iter().find(|(name, _)| *name == entry.name).map(|(_, ending)| ending);
            match ending {
                Some(ending) if entry.is_folder() => {
                    let inside = folder.subfolder(&entry.name)?;
                    let prefix = format!("{}/", entry.name);
                    let checked = |file| check_name(file, &prefix, |name| is_round_file(name, ending));
                    let files = inside.entries(MAX_ENTRIES)?.into_iter().map(checked).collect::<Result<_, _>>()?;
                    contents.folders.push((inside, entry.name, files));
                }
                _ => contents.files.push(check_name(entry, "", |name| FILES.contains(&name))?),
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

/// Returns the name of a file if it matches. A partial file of a killed process matches if its final name does.
fn check_name(entry: Entry, prefix: &str, matches: impl Fn(&str) -> bool) -> Result<String, NotRemoved> {
    let is_known = matches(&entry.name) || final_name(&entry.name).is_some_and(&matches);
    if entry.is_file() && is_known {
        Ok(entry.name)
    } else {
        Err(NotRemoved::Foreign(format!("{prefix}{}", entry.name)))
    }
}

/// Returns the final name of a partial file; `None` if it is not a partial file.
fn final_name(name: &str) -> Option<&str> {
    let (name, numbers) = name.strip_prefix('.')?.strip_suffix(".partial")?.rsplit_once('.')?;
    let (process, number) = numbers.split_once('-')?;
    (is_number(process) && is_number(number)).then_some(name)
}

/// Whether a file is named after a round, such as `round-000123.json`.
fn is_round_file(name: &str, ending: &str) -> bool {
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
    fn only_file_names_of_a_run_are_recognized() {
        assert!(is_round_file("round-000012.parquet", ".parquet") && is_round_file("round-1000000.json", ".json"));
        for name in
            ["round-.json", "round-12.json", "round-00001x.json", "round-000012.parquet", "xround-000012.json"]
        {
            assert!(!is_round_file(name, ".json"), "{name}");
        }
        assert_eq!(final_name(".run.json.77-0.partial"), Some("run.json"));
        for name in
            ["run.json", ".run.json.partial", ".run.json.7.partial", ".run.json.7-x.partial", "run.json.7-1.partial"]
        {
            assert_eq!(final_name(name), None, "{name}");
        }
    }
}
