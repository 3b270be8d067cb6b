//! `presence`: what the text shows can be seen here too.

use hairpin_model::claim::{Kept, Selector};
use hairpin_model::judged_claim::{Judgement, Verdict};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;
use hairpin_model::time_sequence::{EventKind, Source};
use hairpin_model::trace::Capture;

use super::selection::select;
use super::without;

pub(super) fn judge(case: &Selector, kept: &[Kept], events: &[EventKind], run: &Run) -> Judgement {
    let case = match select(run, case) {
        Ok(case) => case,
        Err(absent) => return absent,
    };
    let mut seen: Vec<String> = Vec::new();
    let mut absent: Vec<String> = Vec::new();
    for kind in kept {
        let list = if holds(*kind, case, run) { &mut seen } else { &mut absent };
        list.push(kind.to_string());
    }
    match captured(case, events) {
        Captured::All(times) => seen.extend(times),
        Captured::Until(found, missing) => {
            seen.extend(found);
            absent.push(format!("{missing} after these"));
        }
        Captured::Not(why) => return without(Verdict::CannotRun, format!("{}: {why}", case.label)),
    }
    if absent.is_empty() {
        return without(Verdict::Holds, format!("Seen of {}: {}.", case.label, seen.join(", ")));
    }
    let seen = if seen.is_empty() { "nothing".to_owned() } else { seen.join(", ") };
    let why = format!("Seen of {}: {seen}; not seen: {}.", case.label, absent.join(", "));
    without(Verdict::DoesNotHold, why)
}

fn holds(kind: Kept, case: &CaseSummary, run: &Run) -> bool {
    match kind {
        Kept::Percentiles => {
            let latency = &case.latency_ns;
            latency.p50.is_some() && latency.p99.is_some() && latency.mean.is_some()
        }
        Kept::Max => case.latency_ns.max.is_some(),
        Kept::Curve => !case.curve.is_empty(),
        Kept::Samples => {
            let of_case = run.rounds.iter().filter(|round| round.case_id == case.id);
            of_case.filter_map(|round| round.measured()).any(|measured| measured.samples_file.is_some())
        }
    }
}

/// How far the packets of a capture follow a list.
enum Captured {
    All(Vec<String>),
    Until(Vec<String>, EventKind),
    Not(String),
}

fn captured(case: &CaseSummary, events: &[EventKind]) -> Captured {
    if events.is_empty() {
        return Captured::All(Vec::new());
    }
    let Some(trace) = &case.trace else { return Captured::Not("it was not traced".to_owned()) };
    let sequence = trace.sequence.as_ref().filter(|sequence| sequence.source == Source::Capture);
    let Some(sequence) = sequence else {
        return Captured::Not(match &trace.capture {
            Capture::Skipped { reason } => format!("there is no capture: {reason}"),
            Capture::Saved { .. } => "no exchange was captured to its end".to_owned(),
        });
    };
    let mut found = Vec::new();
    let mut rest = sequence.events.iter();
    for kind in events {
        match rest.find(|event| event.kind == *kind) {
            Some(event) => found.push(format!("{kind} at {:.3} ms", event.at_ns as f64 / 1e6)),
            None => return Captured::Until(found, *kind),
        }
    }
    Captured::All(found)
}
