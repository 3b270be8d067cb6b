//! The raw samples of a run: one file per round during the run, merged into one file afterwards.

use hairpin_model::names::distinct;
use hairpin_model::samples::COLUMNS;
use hairpin_model::{Flow, FlowRecord, Outcome, RoundRecord, Samples};

use super::columns::{self, MERGED, SamplesFile};
use super::error::StoreError;
use super::folder::Folder;
use super::{limits, rounds};

pub(super) const FOLDER: &str = "samples";

/// Merges the files of all rounds into one. Every step leaves a readable run: the records name the old files until
/// the merged file is complete, and the old files are removed last.
pub(super) fn merge(folder: &Folder, records: &mut [RoundRecord]) -> Result<(), StoreError> {
    let mut parts = Vec::new();
    let (mut groups, mut kept) = (0, 0);
    for record in records.iter() {
        let flows = || flows_of(record).iter().filter(|flow| flow.samples_file.is_some());
        parts.extend(distinct(flows().filter_map(|flow| flow.samples_file.clone())));
        groups += flows().count();
        kept += flows().map(|flow| flow.samples_kept).sum::<u64>();
    }
    if groups > limits::MAX_MERGED_GROUPS || kept > limits::MAX_RUN_SAMPLES {
        return Ok(());
    }
    if !parts.is_empty() {
        columns::merge(folder, parts.iter().map(String::as_str), MERGED)?;
        let before: Vec<String> = files_of(records).map(|file| std::mem::replace(file, MERGED.to_owned())).collect();
        if let Err(error) = rounds::rewrite(folder, records) {
            files_of(records).zip(before).for_each(|(file, before)| *file = before);
            // Report the first error only.
            drop(folder.remove(MERGED));
            return Err(error);
        }
    }
    // A file that cannot be removed does no harm.
    parts.iter().for_each(|part| drop(folder.remove(part)));
    drop(folder.remove_folder(FOLDER));
    Ok(())
}

/// Returns the results of a record's flows. An interrupted round has samples too.
fn flows_of(record: &RoundRecord) -> &[FlowRecord] {
    match &record.outcome {
        Outcome::Measured(measured) => &measured.flows,
        Outcome::Failed(_) => &[],
    }
}

fn files_of(records: &mut [RoundRecord]) -> impl Iterator<Item = &mut String> {
    let measured = records.iter_mut().filter_map(|record| match &mut record.outcome {
        Outcome::Measured(measured) => Some(measured),
        Outcome::Failed(_) => None,
    });
    measured.flat_map(|measured| &mut measured.flows).filter_map(|flow| flow.samples_file.as_mut())
}

pub(super) struct KeptSamples {
    folder: Folder,
    samples_read: u64,
    merged: Option<SamplesFile>,
}

impl KeptSamples {
    pub(super) fn of(folder: &Folder) -> Self {
        Self { folder: folder.clone(), samples_read: 0, merged: None }
    }

    /// Returns the rows of a flow in a round, without histograms; empty if no samples were kept.
    pub(super) fn rows(&mut self, record: &RoundRecord, flow: &Flow) -> Result<Samples, StoreError> {
        let results = flows_of(record).iter().find(|results| results.id == flow.id);
        let named = results.and_then(|results| Some((results.samples_file.as_ref()?, results.samples_kept)));
        let Some((name, kept)) = named else { return Ok(Samples::with_rows(0)) };
        self.samples_read += kept;
        if self.samples_read > limits::MAX_RUN_SAMPLES {
            let cause = format!("up to this round the run has more than {} samples", limits::MAX_RUN_SAMPLES);
            return Err(self.folder.damaged(name, cause));
        }
        if name != MERGED {
            return SamplesFile::open(&self.folder, name)?.read(record, flow, kept, COLUMNS);
        }
        let merged = match self.merged.take() {
            Some(merged) => merged,
            None => SamplesFile::open(&self.folder, MERGED)?,
        };
        self.merged.insert(merged).read(record, flow, kept, COLUMNS)
    }
}
