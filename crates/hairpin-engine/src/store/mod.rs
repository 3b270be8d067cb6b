//! The run folder: `run.json`, `rounds.jsonl`, `latency.hlog` and `samples/*.parquet`, and of traced rounds
//! `traces/*.json` and `captures/*.pcapng`, written after every round.
//!
//! docs/run-format.md describes each file. A crash loses at most the round in flight: each file only ever grows by
//! whole lines or whole files, and `run.json` is replaced in one step.

//! A run folder may come from anybody: `folder` opens files beneath it only, and `limits` bounds what is read.

mod columns;
mod evidence;
mod folder;
mod histograms;
mod limits;
mod pages;

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use hairpin_model::printable;
use hairpin_model::round::{Measured, Outcome, RoundRecord};
use hairpin_model::run::{Run, State};
use hairpin_model::samples::Samples;
use hairpin_model::trace::RoundTrace;
use hairpin_model::upgrade::{self, LoadError};

pub use columns::{Row, Rows};
pub use evidence::Evidence;
pub use folder::{Folder, write_named};
pub use limits::Memory;

const RUN: &str = "run.json";
const ROUNDS: &str = "rounds.jsonl";
const SAMPLES: &str = "samples";
/// What is done first of all where a run is measured.
const MAKE: &str = "make the run folder";

/// Why a run could not be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder operation failed.
    #[error("cannot {operation} {}: {}{}", shown(.path), printable::line(&.source.to_string()), hint(.operation, .source))]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The folder holds a run already.
    #[error("{} holds a run already (hint: choose another --out; a saved run is never overwritten)", shown(.0))]
    Occupied(PathBuf),
    /// There is no run in the folder.
    #[error("{} holds no run: {source} (hint: give the folder in which run.json is)", shown(.path))]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// `run.json` cannot be read as a run.
    #[error("cannot read {}: {}", shown(.path), printable::line(&.source.to_string()))]
    Load {
        /// The file.
        path: PathBuf,
        /// Why.
        source: LoadError,
    },
    /// A samples file or the histogram log is damaged.
    #[error(
        "cannot read {}: {} (hint: was it cut short or edited? the other rounds are untouched)",
        shown(.path),
        printable::line(.cause)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
}

fn shown(path: &Path) -> String {
    printable::line(&path.display().to_string()).into_owned()
}

fn hint(operation: &str, error: &io::Error) -> String {
    if let Some(refusal) = error.get_ref().and_then(|inner| inner.downcast_ref::<folder::Refusal>()) {
        return format!(" (hint: {})", refusal.hint());
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if operation == MAKE => {
            " (hint: choose a folder you may write to with --out)"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            " (hint: use a copy of the run that you may read and write)"
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

/// An open run folder. Clones are the same one.
#[derive(Clone, Debug)]
pub struct RunFolder {
    files: Folder,
}

impl RunFolder {
    /// Makes a new run folder and checks that it can be written to. What it makes is the user's alone.
    ///
    /// # Errors
    /// [`StoreError`] when it holds a run already or cannot be made.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        if Folder::open(path).is_ok_and(|files| files.holds(RUN)) {
            return Err(StoreError::Occupied(path.to_owned()));
        }
        let samples = path.join(SAMPLES);
        let made = folder::make_private(&samples).and_then(|()| Folder::open(path));
        let not_made = |source| StoreError::File { operation: MAKE, path: samples, source };
        let folder = Self { files: made.map_err(not_made)? };
        // One that was there may be a link.
        folder.files.make_folder(SAMPLES).map_err(folder.error(MAKE, SAMPLES))?;
        folder.write(ROUNDS, b"")?;
        histograms::begin(&folder)?;
        Ok(folder)
    }

    /// Opens a saved run: its head, and the rounds that were written, however far it got.
    ///
    /// # Errors
    /// [`StoreError`] when there is no run, it cannot be read, or it is larger than docs/run-format.md allows.
    pub fn open(path: &Path) -> Result<(Self, Run), StoreError> {
        Self::open_within(path, &mut Memory::default())
    }

    /// The same where several runs are in memory at once.
    ///
    /// # Errors
    /// As [`open`](Self::open), and where it does not fit beside those that were opened before.
    pub fn open_within(path: &Path, memory: &mut Memory) -> Result<(Self, Run), StoreError> {
        let no_run = |source| StoreError::NoRun { path: path.to_owned(), source };
        let folder = Self { files: Folder::open(path).map_err(no_run)? };
        let json = folder.files.read(RUN, limits::RUN_BYTES).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => no_run(source),
            _ => folder.error("read", RUN)(source),
        })?;
        let mut run = folder.head(json, memory)?;
        run.rounds = match folder.files.file(ROUNDS, limits::ROUNDS_BYTES) {
            Ok(file) => read_rounds(BufReader::new(file.take(limits::ROUNDS_BYTES)), run.state, memory)
                .map_err(|cause| folder.damaged(ROUNDS, cause))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(folder.error("read", ROUNDS)(error)),
        };
        limits::cases(&run).map_err(|cause| folder.damaged(ROUNDS, cause))?;
        Ok((folder, run))
    }

    fn head(&self, json: Vec<u8>, memory: &mut Memory) -> Result<Run, StoreError> {
        memory.take(&json).map_err(|cause| self.damaged(RUN, cause))?;
        let text = String::from_utf8(json).map_err(|error| self.damaged(RUN, error.utf8_error().to_string()))?;
        let run = upgrade::load(&text).map_err(|source| StoreError::Load { path: self.path().join(RUN), source })?;
        limits::cases(&run).map_err(|cause| self.damaged(RUN, cause))?;
        Ok(run)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// The folder itself.
    #[must_use]
    pub fn files(&self) -> &Folder {
        &self.files
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
        let written = self.files.write::<io::Error>(ROUNDS, |file| {
            let mut file = BufWriter::new(file);
            for record in records {
                serde_json::to_writer(&mut file, record)?;
                file.write_all(b"\n")?;
            }
            file.flush()
        });
        written.map_err(self.error("write", ROUNDS))
    }

    /// Writes a file of the run in one step.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.files.replace(name, bytes).map_err(self.error("write", name))
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
            columns::write(self, &name, record.number, &record.case_id, &record.order, samples)?;
            measured.samples_file = Some(name);
        }
        histograms::append(self, record, samples)
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
        self.files.append(ROUNDS, line.as_bytes()).map_err(self.error("write", ROUNDS))
    }

    /// The samples of every measured round, round by round: only one is in memory at a time.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when the histogram log cannot be read; a samples file that cannot be read, or more
    /// samples than are read of a run, is an error of its own round.
    pub fn samples(&self) -> Result<impl FnMut(&RoundRecord) -> Result<Option<Samples>, StoreError>, StoreError> {
        let log = histograms::read(self)?;
        let folder = self.clone();
        let mut so_far = 0;
        Ok(move |record: &RoundRecord| {
            let Some(measured) = record.measured() else { return Ok(None) };
            let histograms = log.round(record)?;
            let columns = folder.columns(measured, &mut so_far)?;
            let measured = measured.ledger.sent;
            Ok(Some(columns.with(histograms, measured)))
        })
    }

    /// The raw samples of every round, round by round.
    ///
    /// The function that is given answers [`StoreError::Damaged`] when a file cannot be read, or is one too many.
    pub fn rows(&self) -> impl FnMut(&RoundRecord) -> Result<Rows, StoreError> {
        let folder = self.clone();
        let mut so_far = 0;
        move |record: &RoundRecord| match &record.outcome {
            Outcome::Measured(measured) => folder.columns(measured, &mut so_far).map(Rows),
            Outcome::Failed(_) => Ok(Rows::default()),
        }
    }

    /// The kept samples of a round; `so_far` counts those of the rounds before.
    fn columns(&self, measured: &Measured, so_far: &mut u64) -> Result<columns::Columns, StoreError> {
        let Some(name) = &measured.samples_file else { return Ok(columns::Columns::default()) };
        *so_far += measured.samples_kept;
        if *so_far > limits::SAMPLES_OF_A_RUN {
            let cause = format!("with it the run has more than {} samples", limits::SAMPLES_OF_A_RUN);
            return Err(self.damaged(name, cause));
        }
        columns::read(self, name, measured.samples_kept)
    }

    fn error(&self, operation: &'static str, name: &str) -> impl FnOnce(io::Error) -> StoreError {
        let path = self.path().join(name);
        move |source| StoreError::File { operation, path, source }
    }

    fn damaged(&self, name: &str, cause: String) -> StoreError {
        StoreError::Damaged { path: self.path().join(name), cause }
    }
}

/// The records; a last line that was cut short belongs to the round in flight when the run was killed.
fn read_rounds(mut text: impl BufRead, state: State, memory: &mut Memory) -> Result<Vec<RoundRecord>, String> {
    let mut records = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let length = text.by_ref().take(limits::LINE_BYTES + 1).read_until(b'\n', &mut line);
        if length.map_err(|error| error.to_string())? == 0 {
            break;
        }
        let wrong = |cause: String| format!("line {number}: {cause}");
        if line.len() as u64 > limits::LINE_BYTES {
            return Err(wrong("it is too long".to_owned()));
        }
        memory.take(&line).map_err(wrong)?;
        match serde_json::from_slice(&line) {
            Ok(record) => {
                limits::record(&record).map_err(wrong)?;
                records.push(record);
            }
            Err(_) if state == State::Running && text.fill_buf().is_ok_and(<[u8]>::is_empty) => {}
            Err(error) => return Err(wrong(error.to_string())),
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests;
