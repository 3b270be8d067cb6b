//! The evidence of a round, in addition to its samples: of a traced round, a trace as JSON and packets as a pcapng
//! file; of a stamped round, its sampled round trips as JSON.

use hairpin_model::latency_budget::MAX_TRIPS;
use hairpin_model::{Capture, Measured, Outcome, RoundRecord, RoundTrace, SampledRound};

use super::error::StoreError;
use super::folder::Folder;
use super::{limits, rounds};

const TRACES: &str = "traces";
const CAPTURES: &str = "captures";
const BUDGETS: &str = "budgets";

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "made and moved once a round")]
pub enum Evidence {
    /// The trace, and its packets as a pcapng file.
    Trace(RoundTrace, Option<Vec<u8>>),
    Budget(SampledRound),
}

/// Appends a record to `rounds.jsonl`, after saving as much of its evidence as fits. The record has priority, then
/// the trace, then the capture. Returns the errors of the parts that were not saved.
pub(super) fn append(
    folder: &Folder,
    record: &mut RoundRecord,
    evidence: Option<Evidence>,
) -> Result<Vec<StoreError>, StoreError> {
    let mut errors = Vec::new();
    let (mut trace, mut capture) = match evidence {
        None => return rounds::append(folder, record).map(|()| errors),
        Some(Evidence::Budget(budget)) => return append_budget(folder, record, &budget),
        Some(Evidence::Trace(trace, capture)) => (trace, capture),
    };
    loop {
        let Err(error) = append_with(folder, record, &mut trace, capture.as_deref()) else { return Ok(errors) };
        let had_capture = capture.take().is_some();
        if had_capture {
            trace.capture = Capture::Skipped { reason: error.to_string() };
        }
        remove_evidence(folder, record, &trace);
        errors.push(error);
        if !had_capture {
            return rounds::append(folder, record).map(|()| errors);
        }
    }
}

/// Saves the capture, then the trace, which names the capture, then the record, which names the trace.
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

/// Saves the sampled round trips, then the record, which names their file. Without room for both, saves the record.
fn append_budget(
    folder: &Folder,
    record: &mut RoundRecord,
    budget: &SampledRound,
) -> Result<Vec<StoreError>, StoreError> {
    let file = name(BUDGETS, record.number);
    let json = serde_json::to_vec(budget).expect("sampled round trips have only string keys");
    let saved = write(folder, BUDGETS, &file, &json).and_then(|()| {
        set_budget_file(record, Some(file.clone()));
        rounds::append(folder, record)
    });
    let Err(error) = saved else { return Ok(Vec::new()) };
    drop(folder.remove(&file));
    drop(folder.remove_folder(BUDGETS));
    set_budget_file(record, None);
    rounds::append(folder, record).map(|()| vec![error])
}

fn set_budget_file(record: &mut RoundRecord, file: Option<String>) {
    if let Outcome::Measured(measured) = &mut record.outcome {
        measured.budget_file = file;
    }
}

/// Marks the capture of a round as skipped if the round could not be saved.
pub(super) fn mark_capture_skipped(record: &mut RoundRecord, error: &StoreError) {
    if let Outcome::Measured(measured) = &mut record.outcome
        && let Some(traced) = &mut measured.traced
        && matches!(traced.capture, Capture::Saved { .. })
    {
        traced.capture = Capture::Skipped { reason: error.to_string() };
    }
}

/// Removes the evidence written so far and its folders, if empty, to make room for data of higher priority.
fn remove_evidence(folder: &Folder, record: &mut RoundRecord, trace: &RoundTrace) {
    for kind in [TRACES, CAPTURES] {
        drop(folder.remove(&name(kind, record.number)));
        // The folder stays if other rounds have files in it.
        drop(folder.remove_folder(kind));
    }
    if let Outcome::Measured(measured) = &mut record.outcome {
        measured.trace_file = None;
        update_capture(measured, trace);
    }
}

/// Copies the outcome of the capture from the trace to the record.
fn update_capture(measured: &mut Measured, trace: &RoundTrace) {
    if let Some(traced) = &mut measured.traced {
        traced.capture.clone_from(&trace.capture);
    }
}

pub(super) fn read(folder: &Folder, record: &RoundRecord) -> Result<Option<RoundTrace>, StoreError> {
    let Outcome::Measured(measured) = &record.outcome else { return Ok(None) };
    read_json(folder, measured.trace_file.as_deref(), |json| {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    })
}

pub(super) fn read_budget(folder: &Folder, record: &RoundRecord) -> Result<Option<SampledRound>, StoreError> {
    let Outcome::Measured(measured) = &record.outcome else { return Ok(None) };
    read_json(folder, measured.budget_file.as_deref(), |json| {
        let budget: SampledRound = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let fits = budget.trips.len() <= MAX_TRIPS;
        fits.then_some(budget).ok_or_else(|| format!("it has more than {MAX_TRIPS} round trips"))
    })
}

fn read_json<T>(
    folder: &Folder,
    name: Option<&str>,
    parse: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<Option<T>, StoreError> {
    let Some(name) = name else { return Ok(None) };
    let json = folder.read(name, limits::MAX_TRACE_BYTES).map_err(folder.error("read", name))?;
    let parsed = limits::check_values(&json).and_then(|()| parse(&json));
    parsed.map(Some).map_err(|cause| folder.damaged(name, cause))
}

fn name(kind: &str, number: u32) -> String {
    let extension = if kind == CAPTURES { "pcapng" } else { "json" };
    format!("{kind}/round-{number:06}.{extension}")
}

fn write(folder: &Folder, kind: &str, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    folder.make_folder(kind).map_err(folder.error("make", kind))?;
    folder.replace(name, bytes).map_err(folder.error("write", name))
}
