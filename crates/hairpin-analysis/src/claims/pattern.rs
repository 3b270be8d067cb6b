//! `pattern`: an exchange consists of these writes, then its answer. Needs no capture: the program records its calls.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::time_sequence::{Event, EventKind};
use hairpin_model::trace::End;
use hairpin_model::{Judgement, Reason, Run, Selector, Writes};

use super::place::{error, no_figure};
use super::selection::select;

pub(super) fn judge(case: &Selector, writes: &Writes, run: &Run) -> Result<Judgement, Box<Judgement>> {
    let case = select(run, case)?;
    let Some(sequence) = case.trace.as_ref().and_then(|trace| trace.sequence.as_ref()) else {
        let reason = Reason::NoExchange { case: case.label.clone(), captured: false };
        return Err(error(Verdict::NotTested, reason));
    };
    let of =
        |kind: EventKind| sequence.events.iter().filter(move |event| event.end == End::Client && event.kind == kind);
    let ended = |event: &Event| event.until_ns.unwrap_or(event.at_ns);
    let sizes: Vec<String> = of(EventKind::Write).map(|call| (call.end_byte - call.first_byte).to_string()).collect();
    let written = sizes.join(",").parse::<Writes>().ok();
    let last_write_ns = of(EventKind::Write).map(ended).max();
    let answer_ns = of(EventKind::Read).map(ended).max();
    let holds = written.as_ref() == Some(writes) && answer_ns.is_some() && answer_ns > last_write_ns;
    let published = (!holds).then(|| writes.clone());
    let verdict = if holds { Verdict::Confirmed } else { Verdict::Refuted };
    let case = case.label.clone();
    Ok(no_figure(verdict, Reason::Pattern { case, written, ended_ns: [last_write_ns, answer_ns], published }))
}
