//! `packets`: the capture contains these packets, in this order.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::time_sequence::{Event, EventKind, Source};
use hairpin_model::trace::End;
use hairpin_model::{Capture, CaseSummary, Judgement, Reason, Run, Selector, TimeSequence};

use super::place::{error, no_figure};
use super::selection::select;

pub(super) fn judge(case: &Selector, events: &[EventKind], run: &Run) -> Result<Judgement, Box<Judgement>> {
    let case = select(run, case)?;
    let sequence = captured(case)?;
    let mut rest = sequence.events.iter();
    let mut seen = Vec::new();
    let is_absent = |kind: &&EventKind| {
        let event = rest.find(|event| event.kind == **kind);
        seen.extend(event.map(|event| (event.kind, at_client_ns(event))));
        event.is_none()
    };
    let first_absent = events.iter().find(is_absent).copied();
    let verdict = if first_absent.is_none() { Verdict::Confirmed } else { Verdict::Refuted };
    Ok(no_figure(verdict, Reason::Packets { case: case.label.clone(), seen, absent: first_absent }))
}

/// When the client sent the packet, or received it. Unknown arrivals have the time of the server.
fn at_client_ns(event: &Event) -> i64 {
    event.until_ns.filter(|_| event.end == End::Server).unwrap_or(event.at_ns)
}

fn captured(case: &CaseSummary) -> Result<&TimeSequence, Box<Judgement>> {
    let (cannot_run, label) = (|reason: Reason| error(Verdict::NotTested, reason), || case.label.clone());
    let trace = case.trace.as_ref().ok_or_else(|| cannot_run(Reason::NotTraced { case: label() }))?;
    let sequence = trace.sequence.as_ref().filter(|sequence| sequence.source == Source::Capture);
    sequence.ok_or_else(|| match &trace.capture {
        Capture::Skipped { reason } => cannot_run(Reason::NotCaptured { case: label(), reason: reason.clone() }),
        Capture::Saved { .. } => cannot_run(Reason::NoExchange { case: label(), captured: true }),
    })
}
