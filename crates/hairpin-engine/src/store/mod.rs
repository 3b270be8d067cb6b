//! The run folder: `run.json`, `rounds.jsonl`, `latency.hlog` and `samples/*.parquet`, and of traced rounds
//! `traces/*.json` and `captures/*.pcapng`, written after every round.
//!
//! docs/run-format.md describes each file. A crash loses at most the round in flight: each file only ever grows by
//! whole lines or whole files, and `run.json` is replaced in one step.

mod columns;
mod evidence;
mod histograms;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hairpin_model::round::{Outcome, RoundRecord};
use hairpin_model::run::{Run, State};
use hairpin_model::samples::Samples;
use hairpin_model::trace::RoundTrace;
use hairpin_model::upgrade::{self, LoadError};

pub use columns::Row;
pub use evidence::Evidence;

const RUN: &str = "run.json";
const ROUNDS: &str = "rounds.jsonl";
const SAMPLES: &str = "samples";

/// Why a run could not be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder operation failed.
    #[error("cannot {operation} {}: {source}{}", .path.display(), hint(.source))]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The folder holds a run already.
    #[error("{} holds a run already (hint: choose another --out; a saved run is never overwritten)", .0.display())]
    Occupied(PathBuf),
    /// There is no run in the folder.
    #[error("{} holds no run: {source} (hint: give the folder in which run.json is)", .path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// `run.json` cannot be read as a run.
    #[error("cannot read {}: {source}", .path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// Why.
        source: LoadError,
    },
    /// A samples file or the histogram log is damaged.
    #[error("cannot read {}: {cause} (hint: was it cut short or edited? the other rounds are untouched)", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            " (hint: choose a folder you may write to with --out)"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (hint: free some space, or choose another disk with --out)"
        }
        io::ErrorKind::FileTooLarge => " (hint: raise the limit on the size of files (ulimit -f), or measure less)",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => " (hint: choose another --out)",
        _ => "",
    }
}

fn file_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::File { operation, path, source }
}

/// An open run folder.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes a new run folder and checks that it can be written to.
    ///
    /// # Errors
    /// [`StoreError`] when it holds a run already or cannot be made.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        if path.join(RUN).exists() {
            return Err(StoreError::Occupied(path.to_owned()));
        }
        let samples = path.join(SAMPLES);
        fs::create_dir_all(&samples).map_err(file_error("make the run folder", &samples))?;
        let rounds = path.join(ROUNDS);
        File::create(&rounds).map_err(file_error("write", &rounds))?;
        histograms::begin(path)?;
        Ok(Self { path: path.to_owned() })
    }

    /// Opens a saved run: its head, and the rounds that were written, however far it got.
    ///
    /// # Errors
    /// [`StoreError`] when there is no run or it cannot be read.
    pub fn open(path: &Path) -> Result<(Self, Run), StoreError> {
        let file = path.join(RUN);
        let text = fs::read_to_string(&file).map_err(|source| StoreError::NoRun { path: path.to_owned(), source })?;
        let mut run = upgrade::load(&text).map_err(|source| StoreError::Load { path: file, source })?;
        let rounds = path.join(ROUNDS);
        let text = match fs::read_to_string(&rounds) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(file_error("read", &rounds)(error)),
        };
        run.rounds = read_rounds(&text, run.state).map_err(|cause| StoreError::Damaged { path: rounds, cause })?;
        Ok((Self { path: path.to_owned() }, run))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `run.json` anew, in one step: a reader finds the old one or the new one.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn write_run(&self, run: &Run) -> Result<(), StoreError> {
        let json = serde_json::to_string_pretty(run).expect("a run has only string keys");
        self.write(RUN, json.as_bytes())
    }

    /// Writes `rounds.jsonl` anew, in one step, after the figures were computed anew.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn rewrite_rounds(&self, records: &[RoundRecord]) -> Result<(), StoreError> {
        let line =
            |record: &RoundRecord| serde_json::to_string(record).expect("a record has only string keys") + "\n";
        self.write(ROUNDS, records.iter().map(line).collect::<String>().as_bytes())
    }

    /// Writes a file of the run in one step.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path.join(name);
        write_whole(&path, bytes).map_err(file_error("write", &path))
    }

    /// Saves a round: its samples, its histograms, its trace with its capture, then its line, which makes it part of
    /// the run. The record then names its files. Answers what of its evidence could not be saved: the record is there
    /// without it, and says why it has no capture.
    ///
    /// # Errors
    /// [`StoreError::File`]; the folder is then as it was, but for files that no line names.
    pub fn append(
        &self,
        record: &mut RoundRecord,
        samples: Option<&Samples>,
        evidence: Option<Evidence>,
    ) -> Result<Vec<StoreError>, StoreError> {
        if let Some(samples) = samples {
            self.append_samples(record, samples).inspect_err(|error| evidence::not_saved(record, error))?;
        }
        evidence::append(self, record, evidence)
    }

    fn append_samples(&self, record: &mut RoundRecord, samples: &Samples) -> Result<(), StoreError> {
        if let Outcome::Measured(measured) = &mut record.outcome {
            let name = format!("{SAMPLES}/round-{:06}.parquet", record.number);
            columns::write(&self.path.join(&name), record.number, &record.case_id, &record.order, samples)?;
            measured.samples_file = Some(name);
        }
        histograms::append(&self.path, record, samples)
    }

    /// The trace of a round; `None` where none was saved.
    ///
    /// # Errors
    /// [`StoreError::File`] or [`StoreError::Damaged`] when the file that the record names cannot be read.
    pub fn trace_of(&self, record: &RoundRecord) -> Result<Option<RoundTrace>, StoreError> {
        evidence::read(self, record)
    }

    /// Appends a round's line.
    fn append_line(&self, record: &RoundRecord) -> Result<(), StoreError> {
        let mut line = serde_json::to_string(record).expect("a record has only string keys");
        line.push('\n');
        append_whole(&self.path.join(ROUNDS), line.as_bytes())
    }

    /// The samples of every measured round, round by round: only one is in memory at a time.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when the histogram log cannot be read; a samples file that cannot be read is an error
    /// of its own round.
    pub fn samples(&self) -> Result<impl FnMut(&RoundRecord) -> Result<Option<Samples>, StoreError>, StoreError> {
        let log = histograms::read(&self.path)?;
        let folder = self.path.clone();
        Ok(move |record: &RoundRecord| {
            let Some(measured) = record.measured() else { return Ok(None) };
            let histograms = log.round(record)?;
            let columns = match &measured.samples_file {
                Some(name) => columns::read(&folder.join(name))?,
                None => columns::Columns::default(),
            };
            let measured = measured.ledger.sent;
            Ok(Some(columns.with(histograms, measured)))
        })
    }

    /// Calls `take` with every raw sample of a round.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when the file cannot be read.
    pub fn rows(&self, record: &RoundRecord) -> Result<Vec<Row>, StoreError> {
        let name = match &record.outcome {
            Outcome::Measured(measured) => measured.samples_file.as_ref(),
            Outcome::Failed(_) => None,
        };
        name.map_or(Ok(Vec::new()), |name| Ok(columns::read(&self.path.join(name))?.rows()))
    }
}

/// Writes a file in one step: a reader finds the old one or the new one, and a full disk leaves the old one, or none.
/// What is no file, such as a device or a pipe, is written to as it is.
///
/// # Errors
/// As [`fs::write`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fs::write(path, bytes);
    }
    // What a symbolic link points to is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{file_name}.partial"));
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, &path));
    written.inspect_err(|_| drop(fs::remove_file(&partial)))
}

/// Appends all of `bytes` or nothing: what a full disk cut short is taken back.
fn append_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let append = || -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        let before = file.metadata()?.len();
        file.write_all(bytes).inspect_err(|_| drop(file.set_len(before)))
    };
    append().map_err(file_error("write", path))
}

/// The records; a last line that was cut short belongs to the round in flight when the run was killed.
fn read_rounds(text: &str, state: State) -> Result<Vec<RoundRecord>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut records = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(record) => records.push(record),
            Err(_) if state == State::Running && index + 1 == lines.len() => {}
            Err(error) => return Err(format!("line {}: {error}", index + 1)),
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests;
