//! `pattern`: an exchange consists of these writes, then its answer. The program records its calls, so no capture is
//! needed.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::time_sequence::{Event, EventKind};
use hairpin_model::trace::End;
use hairpin_model::{Judgement, Run, Selector, Writes};

use super::place::without;
use super::selection::select;
use super::words;

pub(super) fn judge(case: &Selector, writes: &Writes, run: &Run) -> Result<Judgement, Judgement> {
    let case = select(run, case)?;
    let Some(sequence) = case.trace.as_ref().and_then(|trace| trace.sequence.as_ref()) else {
        return Err(without(Verdict::CannotRun, format!("{}: no exchange was traced completely", case.label)));
    };
    let of =
        |kind: EventKind| sequence.events.iter().filter(move |event| event.end == End::Client && event.kind == kind);
    let ended = |event: &Event| event.until_ns.unwrap_or(event.at_ns);
    let sizes: Vec<String> = of(EventKind::Write).map(|call| (call.end_byte - call.first_byte).to_string()).collect();
    let written = sizes.join(",").parse::<Writes>().ok();
    let last_write = of(EventKind::Write).map(ended).max();
    let answer = of(EventKind::Read).map(ended).max();
    let told = written.as_ref().map_or_else(|| "nothing".to_owned(), |written| format!("{written} B"));
    let at =
        |ns: Option<i64>| ns.map_or_else(|| "never".to_owned(), |ns| format!("after {}", words::milliseconds(ns)));
    let holds = written.as_ref() == Some(writes) && answer.is_some() && answer > last_write;
    let why = format!(
        "In a traced exchange of {} the client wrote {told}, the last of it {}, and had read the answer {}.",
        case.label,
        at(last_write),
        at(answer)
    );
    if holds {
        return Err(without(Verdict::Holds, why));
    }
    Ok(without(Verdict::DoesNotHold, format!("{why} The text has {writes} B, then the answer.")))
}
