//! A run under load as the run of one of its phases, so that a phase can be compared with any other run of the same round trips.

use hairpin_model::flow::MAIN;
use hairpin_model::names::distinct;
use hairpin_model::phases::Phase;
use hairpin_model::round::{Measured, Outcome, RoundRecord};
use hairpin_model::run::Run;
use hairpin_model::summary::RoundFigures;

use crate::digest::Digest;
use crate::states::States;
use crate::under_load::why_left_out;

/// The run with each of its cases under load as the plain case of its probe, measured in that phase. The idle phases of cases that
/// differ in their load only are one case. Other cases stay as they are.
#[must_use]
pub fn of_phase(run: &Run, phase: Phase) -> Run {
    if !run.cases.iter().any(|row| row.case.is_under_load()) {
        return run.clone();
    }
    let counted = counted_rounds(run);
    let rounds: Vec<RoundRecord> = counted.map(|round| round_of(round, phase)).collect();
    let planned =
        run.cases.iter().map(|row| if row.case.is_under_load() { probe_of(&row.case) } else { row.case.clone() });
    let planned: Vec<_> = planned.collect();
    let planned = distinct(&planned).into_iter().cloned().collect::<Vec<_>>();
    let states = States::of(&rounds);
    let cases = Digest::new().summaries(&planned, &run.cards, &rounds, &states, run.plan.alpha);
    Run { cases, rounds, machine: states.machine().clone(), ..run.clone() }
}

/// All rounds but those of cases under load that do not count: the reason is in the phases, which are gone from here on.
fn counted_rounds(run: &Run) -> impl Iterator<Item = &RoundRecord> {
    run.rounds.iter().filter(|round| match &round.outcome {
        Outcome::Measured(measured) => why_left_out(measured).is_none(),
        _ => true,
    })
}

/// The case of the probe alone.
fn probe_of(case: &hairpin_model::case::Case) -> hairpin_model::case::Case {
    let mut alone = case.alone(0);
    alone.flow_mut().name = MAIN.to_owned();
    alone
}

fn round_of(round: &RoundRecord, phase: Phase) -> RoundRecord {
    if !round.order.case.is_under_load() {
        return round.clone();
    }
    let mut round = round.clone();
    round.order.case = probe_of(&round.order.case);
    round.order.phases = None;
    round.case_id = round.order.case.id();
    if let Outcome::Measured(measured) = &mut round.outcome {
        in_phase(measured, phase);
    }
    round
}

/// The round as if only that phase of the probe had been measured.
fn in_phase(measured: &mut Measured, phase: Phase) {
    measured.flows.truncate(1);
    measured.ends.retain(|end| end.flow == 0);
    let span = measured.phases.take().map(|spans| *spans.get(phase)).unwrap_or_default();
    measured.duration_ns = span.until_ns.saturating_sub(span.from_ns);
    let flow = measured.flow_mut();
    let Some(phases) = flow.phases.take() else { return };
    let of_phase = phases.by_phase.get(phase);
    let seconds = measured.duration_ns as f64 / 1e9;
    let flow = measured.flow_mut();
    flow.ledger = of_phase.ledger.clone();
    flow.figures = RoundFigures {
        samples: of_phase.samples,
        latency_ns: of_phase.latency_ns,
        rate_per_s: if seconds > 0.0 { of_phase.samples as f64 / seconds } else { 0.0 },
        ..RoundFigures::default()
    };
}
