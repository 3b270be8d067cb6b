//! The raw samples of a run: a file per round while it runs, one file of all rounds afterwards.

use hairpin_model::samples::COLUMNS;
use hairpin_model::{Measured, Outcome, RoundRecord, Samples};

use super::columns::{self, SamplesFile};
use super::error::StoreError;
use super::folder::Folder;
use super::{limits, rounds};

pub(super) const FOLDER: &str = "samples";
pub(super) const MERGED: &str = "samples.parquet";

/// Merges the rounds' files into one. Each step leaves a readable run: the records name the rounds' files until the
/// merged one is complete, and those are removed last.
pub(super) fn merge(folder: &Folder, records: &mut [RoundRecord]) -> Result<(), StoreError> {
    let (mut parts, mut kept) = (Vec::new(), 0);
    for record in records.iter() {
        // An interrupted round has samples too.
        if let Outcome::Measured(measured) = &record.outcome {
            parts.extend(file_of(measured).cloned());
            kept += measured.primary().samples_kept;
        }
    }
    if parts.len() > limits::MERGED_ROUNDS || kept > limits::SAMPLES_OF_A_RUN {
        return Ok(());
    }
    if !parts.is_empty() {
        columns::merge(folder, parts.iter().map(String::as_str), MERGED)?;
        name_files(records, parts.iter().map(|_| MERGED));
        if let Err(error) = rounds::rewrite(folder, records) {
            name_files(records, parts.iter().map(String::as_str));
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

fn file_of(measured: &Measured) -> Option<&String> {
    measured.primary().samples_file.as_ref()
}

/// Names the samples file of each record that has one.
fn name_files<'n>(records: &mut [RoundRecord], mut names: impl Iterator<Item = &'n str>) {
    for record in records {
        if let Outcome::Measured(measured) = &mut record.outcome
            && let Some(file) = &mut measured.primary_mut().samples_file
        {
            names.next().expect("one for each").clone_into(file);
        }
    }
}

/// The kept samples of a run, read round by round.
pub(super) struct KeptSamples {
    folder: Folder,
    /// Samples of the rounds read so far.
    so_far: u64,
    merged: Option<SamplesFile>,
}

impl KeptSamples {
    pub(super) fn of(folder: &Folder) -> Self {
        Self { folder: folder.clone(), so_far: 0, merged: None }
    }

    /// The rows of a round, without its histograms; none if it kept none.
    pub(super) fn rows(&mut self, round: u32, measured: &Measured) -> Result<Samples, StoreError> {
        let Some(name) = file_of(measured) else { return Ok(Samples::with_rows(0)) };
        let kept = measured.primary().samples_kept;
        self.so_far += kept;
        if self.so_far > limits::SAMPLES_OF_A_RUN {
            let cause = format!("with it the run has more than {} samples", limits::SAMPLES_OF_A_RUN);
            return Err(self.folder.damaged(name, cause));
        }
        if name != MERGED {
            return columns::of_a_round(&self.folder, name)?.read(round, kept, COLUMNS);
        }
        let merged = match self.merged.take() {
            Some(merged) => merged,
            None => columns::of_a_run(&self.folder, MERGED)?,
        };
        self.merged.insert(merged).read(round, kept, COLUMNS)
    }
}
