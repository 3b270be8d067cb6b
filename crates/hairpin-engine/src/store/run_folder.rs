//! An open run folder: making one, opening a saved one, and saving round by round.

use std::io;
use std::path::Path;
use std::sync::Arc;

use hairpin_model::round::{Failure, Measured, Outcome, RoundRecord};
use hairpin_model::run::{Run, State};
use hairpin_model::samples::Samples;
use hairpin_model::trace::RoundTrace;
use hairpin_model::upgrade;

use super::columns::{self, Rows};
use super::error::{MAKE, StoreError};
use super::evidence::{self, Evidence};
use super::folder::{self, Folder, Lock};
use super::histograms;
use super::limits::{self, Memory};
use super::rounds;
use super::samples::{self, FOLDER as SAMPLES, KeptSamples};

pub(super) const RUN: &str = "run.json";

/// Room for the cause why a run could not be saved, kept from its beginning, as a full disk has none. It is spaces until
/// then, and gone once all is saved.
pub(super) const UNSAVED: &str = "unsaved.txt";
/// Its size.
const UNSAVED_BYTES: usize = 1024;

/// An open run folder. Clones are the same one.
#[derive(Clone, Debug)]
pub struct RunFolder {
    files: Folder,
    /// Held while the run is written, so that nobody removes it meanwhile; none where the file system has no locks.
    _lock: Option<Arc<Lock>>,
    is_cut_short: bool,
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
        let files = made.map_err(not_made)?;
        let lock = files.lock().ok().flatten().map(Arc::new);
        let folder = Self { files, _lock: lock, is_cut_short: false };
        // One that was there may be a link.
        folder.files.make_folder(SAMPLES).map_err(folder.files.error(MAKE, SAMPLES))?;
        rounds::begin(&folder.files)?;
        histograms::begin(&folder.files)?;
        folder.write(UNSAVED, &[b' '; UNSAVED_BYTES])?;
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
        let mut folder = Self { files: Folder::open(path).map_err(no_run)?, _lock: None, is_cut_short: false };
        let json = folder.files.read(RUN, limits::RUN_BYTES).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => no_run(source),
            _ => folder.files.error("read", RUN)(source),
        })?;
        let (mut run, format) = folder.head(json, memory)?;
        let read = rounds::read(&folder.files, format, memory)?;
        run.rounds = read.records;
        // Of a run that was killed it is the round in flight.
        if read.is_cut_short && run.state != State::Running {
            run.unsaved.push(Failure {
                cause: format!("the last line of {} is cut short", rounds::FILE),
                hint: "what needs each round lacks those from there on; take a whole copy".to_owned(),
            });
            folder.is_cut_short = true;
        }
        limits::cases(&run).map_err(|cause| folder.files.damaged(rounds::FILE, cause))?;
        run.unsaved.extend(folder.not_saved());
        Ok((folder, run))
    }

    fn head(&self, json: Vec<u8>, memory: &mut Memory) -> Result<(Run, u32), StoreError> {
        memory.take(&json).map_err(|cause| self.files.damaged(RUN, cause))?;
        let text =
            String::from_utf8(json).map_err(|error| self.files.damaged(RUN, error.utf8_error().to_string()))?;
        let (run, format) =
            upgrade::load(&text).map_err(|source| StoreError::Load { path: self.path().join(RUN), source })?;
        limits::cases(&run).map_err(|cause| self.files.damaged(RUN, cause))?;
        Ok((run, format))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// Refuses to compute anything anew from rounds of which the last are missing.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where the last line of a complete run's rounds is cut short.
    pub fn refuse_missing_rounds(&self) -> Result<(), StoreError> {
        let damaged = || self.files.damaged(rounds::FILE, "its last line is cut short".to_owned());
        if self.is_cut_short { Err(damaged()) } else { Ok(()) }
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
        self.write(RUN, json.as_bytes())?;
        if run.state != State::Running {
            // It stands in the run now. A file that stays is blank and says nothing.
            drop(self.files.remove(UNSAVED));
        }
        Ok(())
    }

    /// Notes why the summary of the run could not be saved, so that a later reader knows.
    pub fn note_not_saved(&self, cause: &str) {
        let mut end = cause.len().min(UNSAVED_BYTES);
        while !cause.is_char_boundary(end) {
            end -= 1;
        }
        // Where not even this can be written, the run reads as one that was killed.
        drop(self.files.overwrite(UNSAVED, &cause.as_bytes()[..end]));
    }

    /// What was noted so.
    fn not_saved(&self) -> Option<Failure> {
        let bytes = self.files.read(UNSAVED, UNSAVED_BYTES as u64).ok()?;
        let cause = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!cause.is_empty()).then(|| Failure { cause, hint: String::new() })
    }

    /// Writes `rounds.jsonl` anew, in one step, after the figures were computed anew.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn rewrite_rounds(&self, records: &[RoundRecord]) -> Result<(), StoreError> {
        rounds::rewrite(&self.files, records)
    }

    /// Writes a file of the run in one step.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.files.replace(name, bytes).map_err(self.files.error("write", name))
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
        evidence::append(&self.files, record, evidence)
    }

    fn append_samples(&self, record: &mut RoundRecord, samples: &Samples) -> Result<(), StoreError> {
        if let Outcome::Measured(measured) = &mut record.outcome
            && samples.kept() > 0
        {
            let name = format!("{SAMPLES}/round-{:06}.parquet", record.number);
            columns::write(&self.files, &name, record.number, &record.case_id, &record.order, samples)?;
            measured.flow_mut().samples_file = Some(name);
        }
        histograms::append(&self.files, record, samples)
    }

    /// The trace of a round; `None` where none was saved.
    ///
    /// # Errors
    /// [`StoreError::File`] or [`StoreError::Damaged`] when the file that the record names cannot be read.
    pub fn trace_of(&self, record: &RoundRecord) -> Result<Option<RoundTrace>, StoreError> {
        evidence::read(&self.files, record)
    }

    /// The samples of every measured round, round by round: only one is in memory at a time.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when the histogram log cannot be read; a samples file that cannot be read, or more
    /// samples than are read of a run, is an error of its own round.
    pub fn samples(&self) -> Result<impl FnMut(&RoundRecord) -> Result<Option<Samples>, StoreError>, StoreError> {
        let log = histograms::read(&self.files)?;
        let mut kept = KeptSamples::of(&self.files);
        Ok(move |record: &RoundRecord| {
            // Of a one-way load some messages are stamped, or none.
            let is_timed = |measured: &&Measured| {
                let flow = measured.flow();
                flow.received.is_none() || flow.figures.stamped.is_some_and(|stamped| stamped > 0)
            };
            let Some(measured) = record.measured().filter(is_timed) else { return Ok(None) };
            let histograms = log.round(record)?;
            let columns = kept.columns(record.number, measured)?;
            let measured = measured.flow().ledger.sent;
            Ok(Some(columns.with(histograms, measured)))
        })
    }

    /// The raw samples of every round, round by round.
    ///
    /// The function that is given answers [`StoreError::Damaged`] when a file cannot be read, or is one too many.
    pub fn rows(&self) -> impl FnMut(&RoundRecord) -> Result<Rows, StoreError> {
        let mut kept = KeptSamples::of(&self.files);
        move |record: &RoundRecord| match &record.outcome {
            Outcome::Measured(measured) => kept.columns(record.number, measured).map(Rows),
            Outcome::Failed(_) => Ok(Rows::default()),
        }
    }

    /// Merges the samples of all rounds into one file, at the end of a run of which every round was saved. Where that
    /// fails, or would make a file larger than is read, each round keeps its own.
    ///
    /// # Errors
    /// [`StoreError::File`]; the folder and the records are then as they were.
    pub fn merge_samples(&self, records: &mut [RoundRecord]) -> Result<(), StoreError> {
        samples::merge(&self.files, records)
    }
}
