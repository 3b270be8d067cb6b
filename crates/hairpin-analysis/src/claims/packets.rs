//! `packets`: a capture shows these packets, in this order.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::time_sequence::{EventKind, Source};
use hairpin_model::{Capture, CaseSummary, Judgement, Reason, Run, Selector, TimeSequence};

use super::place::without;
use super::selection::select;

pub(super) fn judge(case: &Selector, events: &[EventKind], run: &Run) -> Result<Judgement, Judgement> {
    let case = select(run, case)?;
    let sequence = captured(case).map_err(|reason| without(Verdict::CannotRun, reason))?;
    let mut rest = sequence.events.iter();
    let mut seen = Vec::new();
    let is_absent = |kind: &&EventKind| {
        let event = rest.find(|event| event.kind == **kind);
        seen.extend(event.map(|event| (event.kind, event.at_ns)));
        event.is_none()
    };
    let absent = events.iter().find(is_absent).copied();
    let verdict = if absent.is_none() { Verdict::Holds } else { Verdict::DoesNotHold };
    Ok(without(verdict, Reason::Packets { case: case.label.clone(), seen, absent }))
}

fn captured(case: &CaseSummary) -> Result<&TimeSequence, Reason> {
    let label = || case.label.clone();
    let trace = case.trace.as_ref().ok_or_else(|| Reason::NotTraced { case: label() })?;
    let sequence = trace.sequence.as_ref().filter(|sequence| sequence.source == Source::Capture);
    sequence.ok_or_else(|| match &trace.capture {
        Capture::Skipped { reason } => Reason::NotCaptured { case: label(), reason: reason.clone() },
        Capture::Saved { .. } => Reason::NoExchange { case: label(), captured: true },
    })
}
