//! An open run folder: creates one or opens a saved one, and saves rounds one at a time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hairpin_model::link::LOGS;
use hairpin_model::run::State;
use hairpin_model::{
    Document, Failure, FailureKind, Flow, FlowSamples, Outcome, RoundRecord, RoundTrace, Run, SampledRound, Samples,
    upgrade,
};

use super::columns;
use super::error::{MAKE, StoreError};
use super::evidence::{self, Evidence};
use super::folder::{self, Folder, Lock};
use super::histograms;
use super::limits::{self, Memory};
use super::rounds;
use super::samples::{self, FOLDER as SAMPLES, KeptSamples};

pub(super) const RUN: &str = "run.json";

/// Reserves disk space for the reason why saving failed, because a full disk has no space left for it. Contains only
/// spaces until saving fails; removed once everything is saved.
pub(super) const UNSAVED: &str = "unsaved.txt";
const UNSAVED_BYTES: usize = 1024;

#[derive(Clone, Debug)]
pub struct RunFolder {
    files: Folder,
    /// Prevents removal by other processes while the run is written; `None` if the file system has no locks.
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
        let created = folder::make_private(&samples).and_then(|()| Folder::open(path));
        let not_created = |source| StoreError::File { operation: MAKE, path: samples, source };
        let files = created.map_err(not_created)?;
        let lock = files.lock().ok().flatten().map(Arc::new);
        let folder = Self { files, _lock: lock, is_cut_short: false };
        // An existing `samples` may be a link: `make_folder` refuses it.
        folder.files.make_folder(SAMPLES).map_err(folder.files.error(MAKE, SAMPLES))?;
        rounds::begin(&folder.files)?;
        histograms::begin(&folder.files)?;
        folder.write(UNSAVED, &[b' '; UNSAVED_BYTES])?;
        Ok(folder)
    }

    /// Opens a saved run: its head and all rounds that were saved, even of an incomplete run.
    pub fn open(path: &Path) -> Result<(Self, Run), StoreError> {
        Self::open_within(path, &mut Memory::default())
    }

    /// Like [`RunFolder::open`], for several runs in memory at once.
    pub fn open_within(path: &Path, memory: &mut Memory) -> Result<(Self, Run), StoreError> {
        let no_run = |source| StoreError::NoRun { path: path.to_owned(), source };
        let mut folder = Self { files: Folder::open(path).map_err(no_run)?, _lock: None, is_cut_short: false };
        let json = folder.files.read(RUN, limits::MAX_RUN_BYTES).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => no_run(source),
            _ => folder.files.error("read", RUN)(source),
        })?;
        let (mut run, format) = folder.parse_head(json, memory)?;
        let read = rounds::read(&folder.files, format, memory)?;
        run.rounds = read.records;
        // In a killed run the last line is the round in progress.
        if read.is_cut_short && run.state != State::Running {
            run.unsaved.push(Failure::new(
                FailureKind::Other,
                format!("the last line of {} is cut short", rounds::FILE),
                "results that need every round lack the rounds from there on; use a complete copy",
            ));
            folder.is_cut_short = true;
        }
        limits::check_cases(&run).map_err(|cause| folder.files.damaged(rounds::FILE, cause))?;
        run.unsaved.extend(folder.unsaved_cause());
        Ok((folder, run))
    }

    fn parse_head(&self, json: Vec<u8>, memory: &mut Memory) -> Result<(Run, u32), StoreError> {
        memory.charge(&json).map_err(|cause| self.files.damaged(RUN, cause))?;
        let text =
            String::from_utf8(json).map_err(|error| self.files.damaged(RUN, error.utf8_error().to_string()))?;
        let (run, format) =
            upgrade::load(&text).map_err(|source| StoreError::Load { path: self.path().join(RUN), source })?;
        limits::check_cases(&run).map_err(|cause| self.files.damaged(RUN, cause))?;
        Ok((run, format))
    }

    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// Fails if the last rounds are missing, so that nothing is recomputed without them.
    pub fn refuse_missing_rounds(&self) -> Result<(), StoreError> {
        let damaged = || self.files.damaged(rounds::FILE, "its last line is cut short".to_owned());
        if self.is_cut_short { Err(damaged()) } else { Ok(()) }
    }

    pub fn files(&self) -> &Folder {
        &self.files
    }

    /// Creates the folder for link logs. Returns the path of the run folder.
    pub fn keep_link_logs(&self) -> Result<PathBuf, StoreError> {
        self.files.make_folder(LOGS).map_err(self.files.error("make", LOGS))?;
        Ok(self.path().to_owned())
    }

    /// Replaces `run.json` atomically: readers see either the old file or the new one.
    pub fn write_run(&self, run: &Run) -> Result<(), StoreError> {
        self.write(RUN, run.to_json().as_bytes())?;
        if run.state != State::Running {
            // `run.json` now contains the cause. If removal fails, a file with only spaces has no effect.
            drop(self.files.remove(UNSAVED));
        }
        Ok(())
    }

    pub fn note_not_saved(&self, cause: &str) {
        let mut end = cause.len().min(UNSAVED_BYTES);
        while !cause.is_char_boundary(end) {
            end -= 1;
        }
        // If even this fails, the run looks like a killed one.
        drop(self.files.overwrite(UNSAVED, &cause.as_bytes()[..end]));
    }

    fn unsaved_cause(&self) -> Option<Failure> {
        let bytes = self.files.read(UNSAVED, UNSAVED_BYTES as u64).ok()?;
        let cause = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!cause.is_empty()).then(|| Failure::new(FailureKind::Other, cause, ""))
    }

    /// Replaces `rounds.jsonl` atomically, with recomputed figures.
    pub fn rewrite_rounds(&self, records: &[RoundRecord]) -> Result<(), StoreError> {
        rounds::rewrite(&self.files, records)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.files.replace(name, bytes).map_err(self.files.error("write", name))
    }

    /// Saves a round: its samples, its histograms, its evidence, and last its record, which makes it part of the run.
    /// Sets the file names in the record. Returns the errors of evidence that could not be saved: the record is then
    /// saved without that evidence and gives the reason for a missing capture.
    pub fn append(
        &self,
        record: &mut RoundRecord,
        samples: &FlowSamples,
        evidence: Option<Evidence>,
    ) -> Result<Vec<StoreError>, StoreError> {
        self.append_samples(record, samples).inspect_err(|error| evidence::mark_capture_skipped(record, error))?;
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

    /// Returns the trace of a round; `None` if none was saved.
    pub fn trace_of(&self, record: &RoundRecord) -> Result<Option<RoundTrace>, StoreError> {
        evidence::read(&self.files, record)
    }

    /// Returns the sampled round trips of a stamped round; `None` if none were saved.
    pub fn budget_of(&self, record: &RoundRecord) -> Result<Option<SampledRound>, StoreError> {
        evidence::read_budget(&self.files, record)
    }

    /// Returns a function that reads the samples and histograms of a flow in a round, or `None` if it has none.
    pub fn samples(
        &self,
    ) -> Result<impl FnMut(&RoundRecord, &Flow) -> Result<Option<Samples>, StoreError>, StoreError> {
        let log = histograms::read(&self.files)?;
        let mut kept = KeptSamples::of(&self.files);
        Ok(move |record: &RoundRecord, flow: &Flow| {
            let Some(results) = record.measured().and_then(|measured| measured.flow(&flow.id)) else {
                return Ok(None);
            };
            // A one-way load may have time stamps for only some messages, or for none.
            let is_timed = results.received.is_none() || results.figures.stamped.is_some_and(|stamped| stamped > 0);
            // Earlier versions saved only the histograms of the primary flow.
            if !is_timed || !record.order.case.is_judged_by(flow) && !log.has_latency(record, flow) {
                return Ok(None);
            }
            let rows = kept.rows(record, flow)?;
            log.complete(record, flow, Samples { measured: results.ledger.sent, ..rows }).map(Some)
        })
    }

    /// Returns a function that reads the raw samples of a flow in a round, without histograms.
    ///
    /// The returned function fails with [`StoreError::Damaged`] if a file cannot be read or exceeds the limits.
    pub fn rows(&self) -> impl FnMut(&RoundRecord, &Flow) -> Result<Samples, StoreError> {
        let mut kept = KeptSamples::of(&self.files);
        move |record: &RoundRecord, flow: &Flow| kept.rows(record, flow)
    }

    /// Merges the samples of all rounds into one file, at the end of a run whose rounds are all saved. If that fails,
    /// or the file would exceed its limit, each round keeps its own file.
    pub fn merge_samples(&self, records: &mut [RoundRecord]) -> Result<(), StoreError> {
        samples::merge(&self.files, records)
    }
}
