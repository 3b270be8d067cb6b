//! An open run folder: creating one, opening a saved one, and saving round by round.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hairpin_model::link::LOGS;
use hairpin_model::run::State;
use hairpin_model::{Document, Failure, Flow, FlowSamples, Outcome, RoundRecord, RoundTrace, Run, Samples, upgrade};

use super::columns;
use super::error::{MAKE, StoreError};
use super::evidence::{self, Evidence};
use super::folder::{self, Folder, Lock};
use super::histograms;
use super::limits::{self, Memory};
use super::rounds;
use super::samples::{self, FOLDER as SAMPLES, KeptSamples};

pub(super) const RUN: &str = "run.json";

/// Disk space reserved from the beginning for the cause of a failure to save, because a full disk has none. Contains
/// spaces until then; removed once everything is saved.
pub(super) const UNSAVED: &str = "unsaved.txt";
const UNSAVED_BYTES: usize = 1024;

/// An open run folder. Clones share it.
#[derive(Clone, Debug)]
pub struct RunFolder {
    files: Folder,
    /// Held while the run is written, so that no other process removes it; `None` if the file system has no locks.
    _lock: Option<Arc<Lock>>,
    is_cut_short: bool,
}

impl RunFolder {
    /// Creates a run folder, accessible only to the user, and checks that it can be written to.
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
        // An existing one may be a link.
        folder.files.make_folder(SAMPLES).map_err(folder.files.error(MAKE, SAMPLES))?;
        rounds::begin(&folder.files)?;
        histograms::begin(&folder.files)?;
        folder.write(UNSAVED, &[b' '; UNSAVED_BYTES])?;
        Ok(folder)
    }

    /// Opens a saved run: its head, and all rounds written, even of an incomplete run.
    pub fn open(path: &Path) -> Result<(Self, Run), StoreError> {
        Self::open_within(path, &mut Memory::default())
    }

    /// The same for several runs in memory at once.
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
        // In a killed run it is the current round.
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

    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// Refuses to recompute anything from rounds of which the last are missing.
    pub fn refuse_missing_rounds(&self) -> Result<(), StoreError> {
        let damaged = || self.files.damaged(rounds::FILE, "its last line is cut short".to_owned());
        if self.is_cut_short { Err(damaged()) } else { Ok(()) }
    }

    pub fn files(&self) -> &Folder {
        &self.files
    }

    /// Creates the folder for the logs of links. Returns the path of the run folder.
    pub fn keep_link_logs(&self) -> Result<PathBuf, StoreError> {
        self.files.make_folder(LOGS).map_err(self.files.error("make", LOGS))?;
        Ok(self.path().to_owned())
    }

    /// Rewrites `run.json` atomically: a reader finds the old file or the new one.
    pub fn write_run(&self, run: &Run) -> Result<(), StoreError> {
        self.write(RUN, run.to_json().as_bytes())?;
        if run.state != State::Running {
            // The run contains the cause now. A file that stays is blank, which means nothing.
            drop(self.files.remove(UNSAVED));
        }
        Ok(())
    }

    /// Notes why the summary of the run could not be saved, for later readers.
    pub fn note_not_saved(&self, cause: &str) {
        let mut end = cause.len().min(UNSAVED_BYTES);
        while !cause.is_char_boundary(end) {
            end -= 1;
        }
        // If not even this can be written, the run reads as a killed one.
        drop(self.files.overwrite(UNSAVED, &cause.as_bytes()[..end]));
    }

    fn not_saved(&self) -> Option<Failure> {
        let bytes = self.files.read(UNSAVED, UNSAVED_BYTES as u64).ok()?;
        let cause = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!cause.is_empty()).then(|| Failure { cause, hint: String::new() })
    }

    /// Rewrites `rounds.jsonl` atomically, with recomputed figures.
    pub fn rewrite_rounds(&self, records: &[RoundRecord]) -> Result<(), StoreError> {
        rounds::rewrite(&self.files, records)
    }

    /// Writes a file of the run atomically.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.files.replace(name, bytes).map_err(self.files.error("write", name))
    }

    /// Saves a round: its samples, its histograms, its trace with its capture, then its line, which makes it part of
    /// the run. The record then names its files. Returns the errors of its evidence: the record is saved without it,
    /// and says why it has no capture.
    pub fn append(
        &self,
        record: &mut RoundRecord,
        samples: &FlowSamples,
        evidence: Option<Evidence>,
    ) -> Result<Vec<StoreError>, StoreError> {
        self.append_samples(record, samples).inspect_err(|error| evidence::not_saved(record, error))?;
        evidence::append(&self.files, record, evidence)
    }

    fn append_samples(&self, record: &mut RoundRecord, samples: &FlowSamples) -> Result<(), StoreError> {
        let is_kept = |flow: &Flow| samples.get(&flow.id).is_some_and(|samples| samples.kept() > 0);
        if record.order.case.flows.iter().any(is_kept) {
            let name = format!("{SAMPLES}/round-{:06}.parquet", record.number);
            columns::write(&self.files, &name, record, samples)?;
            if let Outcome::Measured(measured) = &mut record.outcome {
                for flow in record.order.case.flows.iter().filter(|flow| is_kept(flow)) {
                    let records = measured.flows.iter_mut().filter(|record| record.id == flow.id);
                    records.for_each(|record| record.samples_file = Some(name.clone()));
                }
            }
        }
        histograms::append(&self.files, record, samples)
    }

    /// The trace of a round; `None` if none was saved.
    pub fn trace_of(&self, record: &RoundRecord) -> Result<Option<RoundTrace>, StoreError> {
        evidence::read(&self.files, record)
    }

    /// The samples of each flow of every measured round, those of one in memory at a time; `None` for a flow without.
    pub fn samples(
        &self,
    ) -> Result<impl FnMut(&RoundRecord, &Flow) -> Result<Option<Samples>, StoreError>, StoreError> {
        let log = histograms::read(&self.files)?;
        let mut kept = KeptSamples::of(&self.files);
        Ok(move |record: &RoundRecord, flow: &Flow| {
            let Some(results) = record.measured().and_then(|measured| measured.flow(&flow.id)) else {
                return Ok(None);
            };
            // A one-way load has stamps for some messages, or for none.
            let is_timed = results.received.is_none() || results.figures.stamped.is_some_and(|stamped| stamped > 0);
            // Earlier versions saved those of the primary flow only.
            if !is_timed || !record.order.case.is_judged_by(flow) && !log.has(record, flow) {
                return Ok(None);
            }
            let rows = kept.rows(record, flow)?;
            log.round(record, flow, Samples { measured: results.ledger.sent, ..rows }).map(Some)
        })
    }

    /// The raw samples of each flow of every round, without histograms.
    ///
    /// The returned function fails with [`StoreError::Damaged`] if a file cannot be read or exceeds the limits.
    pub fn rows(&self) -> impl FnMut(&RoundRecord, &Flow) -> Result<Samples, StoreError> {
        let mut kept = KeptSamples::of(&self.files);
        move |record: &RoundRecord, flow: &Flow| kept.rows(record, flow)
    }

    /// Merges the samples of all rounds into one file, at the end of a run with all rounds saved. If that fails, or the
    /// file would exceed its limit, each round keeps its own.
    pub fn merge_samples(&self, records: &mut [RoundRecord]) -> Result<(), StoreError> {
        samples::merge(&self.files, records)
    }
}
