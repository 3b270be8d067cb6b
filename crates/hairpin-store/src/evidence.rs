//! The evidence of a traced round besides its samples: its trace as JSON, and its packets as a pcapng file.

use hairpin_model::{Capture, Measured, Outcome, RoundRecord, RoundTrace};

use super::error::StoreError;
use super::folder::Folder;
use super::{limits, rounds};

const TRACES: &str = "traces";
const CAPTURES: &str = "captures";

/// A round's trace, and its packets as a pcapng file.
pub type Evidence = (RoundTrace, Option<Vec<u8>>);

/// Appends the record's line, after as much of its evidence as fits. The record has priority, then the trace, then the
/// capture. Returns why anything was omitted.
pub(super) fn append(
    folder: &Folder,
    record: &mut RoundRecord,
    evidence: Option<Evidence>,
) -> Result<Vec<StoreError>, StoreError> {
    let mut left_out = Vec::new();
    let Some((mut trace, mut capture)) = evidence else { return rounds::append(folder, record).map(|()| left_out) };
    loop {
        let Err(error) = append_with(folder, record, &mut trace, capture.as_deref()) else { return Ok(left_out) };
        let had_capture = capture.take().is_some();
        if had_capture {
            trace.capture = Capture::Skipped { reason: error.to_string() };
        }
        forget(folder, record, &trace);
        left_out.push(error);
        if !had_capture {
            return rounds::append(folder, record).map(|()| left_out);
        }
    }
}

/// Saves the capture, the trace that names it, and the line that names the trace.
fn append_with(
    folder: &Folder,
    record: &mut RoundRecord,
    trace: &mut RoundTrace,
    capture: Option<&[u8]>,
) -> Result<(), StoreError> {
    let number = record.number;
    if let Outcome::Measured(measured) = &mut record.outcome {
        if let (Capture::Saved { file, .. }, Some(bytes)) = (&mut trace.capture, capture) {
            *file = name(CAPTURES, number);
            write(folder, CAPTURES, file, bytes)?;
        }
        update_capture(measured, trace);
        let json = serde_json::to_vec(trace).expect("a trace has only string keys");
        let file = name(TRACES, number);
        write(folder, TRACES, &file, &json)?;
        measured.trace_file = Some(file);
    }
    rounds::append(folder, record)
}

/// Marks the capture of a round that could not be saved as skipped.
pub(super) fn not_saved(record: &mut RoundRecord, error: &StoreError) {
    if let Outcome::Measured(measured) = &mut record.outcome
        && let Some(traced) = &mut measured.traced
        && matches!(traced.capture, Capture::Saved { .. })
    {
        traced.capture = Capture::Skipped { reason: error.to_string() };
    }
}

/// Removes the written evidence, to make room for data of higher priority, and empty folders.
fn forget(folder: &Folder, record: &mut RoundRecord, trace: &RoundTrace) {
    for sort in [TRACES, CAPTURES] {
        drop(folder.remove(&name(sort, record.number)));
        // The folder stays if other rounds have files in it.
        drop(folder.remove_folder(sort));
    }
    if let Outcome::Measured(measured) = &mut record.outcome {
        measured.trace_file = None;
        update_capture(measured, trace);
    }
}

/// Copies the outcome of the capture to the record's figures.
fn update_capture(measured: &mut Measured, trace: &RoundTrace) {
    if let Some(traced) = &mut measured.traced {
        traced.capture.clone_from(&trace.capture);
    }
}

pub(super) fn read(folder: &Folder, record: &RoundRecord) -> Result<Option<RoundTrace>, StoreError> {
    let Outcome::Measured(measured) = &record.outcome else { return Ok(None) };
    let Some(name) = &measured.trace_file else { return Ok(None) };
    let json = folder.read(name, limits::TRACE_BYTES).map_err(folder.error("read", name))?;
    limits::values(&json)
        .and_then(|()| serde_json::from_slice(&json).map_err(|error| error.to_string()))
        .map(Some)
        .map_err(|cause| folder.damaged(name, cause))
}

fn name(sort: &str, number: u32) -> String {
    let extension = if sort == CAPTURES { "pcapng" } else { "json" };
    format!("{sort}/round-{number:06}.{extension}")
}

fn write(folder: &Folder, sort: &str, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    folder.make_folder(sort).map_err(folder.error("make", sort))?;
    folder.replace(name, bytes).map_err(folder.error("write", name))
}
