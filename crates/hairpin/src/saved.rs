//! Opens saved runs, or computes them again from their samples.

use std::path::Path;

use hairpin_analysis::{Digest, answer};
use hairpin_model::Run;
use hairpin_model::run::State;
use hairpin_report::words;
use hairpin_store::{Memory, RunFolder, StoreError};

use crate::measure::{conclude, figure, word_findings};

/// Opens a run. A killed run has no summaries: they are computed from its saved rounds. A run of an earlier version has
/// no statements: they are computed from the summaries. Findings are worded anew.
///
/// # Errors
/// [`StoreError`] when there is no run, or it cannot be read.
pub fn open(path: &Path) -> Result<(RunFolder, Run), StoreError> {
    open_within(path, &mut Memory::default())
}

/// Like [`open`], for several runs in memory at the same time.
///
/// # Errors
/// As [`open`], and if the run does not fit in memory with those opened before.
pub fn open_within(path: &Path, memory: &mut Memory) -> Result<(RunFolder, Run), StoreError> {
    let (folder, mut run) = RunFolder::open_within(path, memory)?;
    if run.state == State::Running {
        analyse(&folder, &mut run)?;
    }
    word_findings(&mut run);
    if run.answer.statements.is_empty() {
        run.answer = answer(&run);
    }
    words::write_answer(&mut run);
    Ok((folder, run))
}

/// Computes figures, summaries, comparisons, findings and the answer again, with one round's data in memory at a time.
///
/// # Errors
/// [`StoreError`] when samples or a trace cannot be read.
pub fn analyse(folder: &RunFolder, run: &mut Run) -> Result<(), StoreError> {
    folder.refuse_missing_rounds()?;
    let mut digest = Digest::new();
    let mut samples_of = folder.samples()?;
    for record in &mut run.rounds {
        let samples = samples_of(record)?;
        let trace = folder.trace_of(record)?;
        figure(record, &run.cards, samples.as_ref(), trace.as_ref());
        digest.add(record, samples.as_ref());
    }
    conclude(run, &digest, &[]);
    Ok(())
}
