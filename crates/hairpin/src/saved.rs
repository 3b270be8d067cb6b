//! Opens saved runs, and computes their results again from their samples.

use std::path::Path;

use hairpin_analysis::{Digest, answer, stamped, traced};
use hairpin_model::Run;
use hairpin_model::run::State;
use hairpin_report::words;
use hairpin_store::{Memory, RunFolder, StoreError};

use crate::measure::{fill_figures, summarize_run, word_findings};

/// Opens a run. Computes missing parts: the summaries of a killed run from its saved rounds, and the statements of a
/// run of an earlier version from its summaries. Writes the texts of findings again.
///
/// # Errors
/// [`StoreError`] if there is no run, or it cannot be read.
pub fn open(path: &Path) -> Result<(RunFolder, Run), StoreError> {
    open_within(path, &mut Memory::default())
}

/// Like [`open`], for several runs in memory at the same time.
///
/// # Errors
/// As [`open`], and if the run does not fit in memory together with the runs opened before.
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
/// [`StoreError`] if samples or a trace cannot be read.
pub fn analyse(folder: &RunFolder, run: &mut Run) -> Result<(), StoreError> {
    folder.refuse_missing_rounds()?;
    let mut digest = Digest::new().with_bound(run.plan.bound_ns());
    let mut samples_of = folder.samples()?;
    for record in &mut run.rounds {
        for flow in &record.order.case.flows.clone() {
            let samples = samples_of(record, flow)?;
            fill_figures(record, &run.cards, flow, samples.as_ref());
            if record.order.case.is_judged_by(flow) {
                digest.add(record, samples.as_ref());
            }
        }
        if let Some(trace) = folder.trace_of(record)? {
            traced(record, &trace);
        }
        if let Some(budget) = folder.budget_of(record)? {
            stamped(record, &budget, None);
            digest.add_trips(record, &budget);
        }
    }
    summarize_run(run, &digest, &[]);
    Ok(())
}
