//! `packets`: a capture shows these packets, in this order.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::names::joined;
use hairpin_model::time_sequence::{EventKind, Source};
use hairpin_model::{Capture, CaseSummary, Judgement, Run, Selector, TimeSequence};

use super::place::without;
use super::selection::select;
use super::words;

pub(super) fn judge(case: &Selector, events: &[EventKind], run: &Run) -> Result<Judgement, Judgement> {
    let case = select(run, case)?;
    let cannot_run = |why: String| without(Verdict::CannotRun, format!("{}: {why}", case.label));
    let sequence = captured(case).map_err(cannot_run)?;
    let mut seen = Vec::new();
    let mut rest = sequence.events.iter();
    for kind in events {
        match rest.find(|event| event.kind == *kind) {
            Some(event) => seen.push(format!("{} at {}", packet(*kind), words::milliseconds(event.at_ns))),
            None => {
                let after = if seen.is_empty() { String::new() } else { format!(" after {}", joined(&seen)) };
                let why = format!("A captured exchange of {} shows no {}{after}.", case.label, packet(*kind));
                return Err(without(Verdict::DoesNotHold, why));
            }
        }
    }
    let seen = joined(&seen);
    let why = format!("A captured exchange of {} shows, from its first write on: {seen}.", case.label);
    Ok(without(Verdict::Holds, why))
}

fn captured(case: &CaseSummary) -> Result<&TimeSequence, String> {
    let trace = case.trace.as_ref().ok_or("it was not traced")?;
    let sequence = trace.sequence.as_ref().filter(|sequence| sequence.source == Source::Capture);
    sequence.ok_or_else(|| match &trace.capture {
        Capture::Skipped { reason } => format!("it was not captured: {reason}"),
        Capture::Saved { .. } => "no exchange was captured completely".to_owned(),
    })
}

fn packet(kind: EventKind) -> String {
    match kind {
        EventKind::Syn => "SYN".to_owned(),
        EventKind::SynAck => "SYN-ACK".to_owned(),
        EventKind::PureAck => "pure ACK".to_owned(),
        EventKind::Segment => "segment with data".to_owned(),
        other => other.to_string(),
    }
}
