//! Reduces a run under load to one of its phases, to compare it with any other run of the same round trips.

use hairpin_model::flow::FlowRole;
use hairpin_model::names::distinct;
use hairpin_model::phases::Phase;
use hairpin_model::{Case, Flow, FlowId, Measured, Outcome, RoundFigures, RoundRecord, Run};

use crate::digest::Digest;
use crate::states::States;
use crate::under_load::omission_reason;

/// Returns the run with its cases under load reduced to that phase. For the idle phase, each becomes the plain case of
/// its probe, so cases that differ only in their load are merged; in later phases the load remains part of the case.
/// Other cases stay unchanged.
pub fn of_phase(run: &Run, phase: Phase) -> Run {
    if !run.cases.iter().any(|row| row.case.is_under_load()) {
        return run.clone();
    }
    let counted = counted_rounds(run);
    let rounds: Vec<RoundRecord> = counted.map(|round| round_of(round, phase)).collect();
    let planned: Vec<Case> = run.cases.iter().map(|row| case_of(&row.case, phase)).collect();
    let planned = distinct(&planned).into_iter().cloned().collect::<Vec<_>>();
    let states = States::of(&rounds);
    let cases = Digest::new().summaries(&planned, &run.cards, &rounds, &states, run.plan.alpha);
    Run { cases, rounds, machine: states.machine.clone(), ..run.clone() }
}

/// Skips rounds under load whose phases are invalid. This needs the phases, which the reduced run no longer has.
fn counted_rounds(run: &Run) -> impl Iterator<Item = &RoundRecord> {
    run.rounds.iter().filter(|round| match &round.outcome {
        Outcome::Measured(measured) => omission_reason(measured).is_none(),
        _ => true,
    })
}

fn case_of(case: &Case, phase: Phase) -> Case {
    if !case.is_under_load() || phase != Phase::Idle {
        return case.clone();
    }
    let probe = case.primary();
    case.alone(&Flow { id: FlowId::default(), role: FlowRole::Measured, ..probe.clone() })
}

fn round_of(round: &RoundRecord, phase: Phase) -> RoundRecord {
    let mut round = round.clone();
    if !round.order.case.is_under_load() {
        return round;
    }
    round.order.case = case_of(&round.order.case, phase);
    round.order.phases = None;
    round.case_id = round.order.case.id();
    if let Outcome::Measured(measured) = &mut round.outcome {
        if phase == Phase::Idle {
            keep_only_probe(measured);
        }
        in_phase(measured, phase);
    }
    round
}

/// Removes the loads and gives the probe the id and role that [`case_of`] gives it.
fn keep_only_probe(measured: &mut Measured) {
    let probe = measured.primary().id.clone();
    measured.flows.retain(|flow| flow.id == probe);
    measured.ends.retain(|end| end.flow == probe);
    for flow in &mut measured.flows {
        (flow.id, flow.role) = (FlowId::default(), FlowRole::Measured);
    }
    measured.ends.iter_mut().for_each(|end| end.flow = FlowId::default());
}

fn in_phase(measured: &mut Measured, phase: Phase) {
    let span = measured.phases.take().map(|spans| *spans.get(phase)).unwrap_or_default();
    measured.duration_ns = span.until_ns.saturating_sub(span.from_ns);
    let flow = measured.primary_mut();
    let Some(phases) = flow.phases.take() else { return };
    let of_phase = phases.by_phase.get(phase);
    let seconds = measured.duration_ns as f64 / 1e9;
    let flow = measured.primary_mut();
    flow.ledger = of_phase.ledger.clone();
    flow.figures = RoundFigures {
        samples: of_phase.samples,
        latency_ns: of_phase.latency_ns,
        rate_per_s: if seconds > 0.0 { of_phase.samples as f64 / seconds } else { 0.0 },
        ..RoundFigures::default()
    };
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::Direction;

    use super::*;
    use crate::fixture::Fixture;
    use crate::fixture::under_load::{Beside, probed_over_link};

    #[test]
    fn idle_phases_of_all_loads_merge_into_one_case_and_later_phases_stay_separate() {
        let down = probed_over_link().with(|case| case.flows[1].direction = Direction::Down);
        let mut fixture = Fixture::new();
        fixture.all_beside(&probed_over_link(), Beside::latencies(10_000_000, 30_000_000));
        fixture.all_beside(&down, Beside::latencies(10_000_000, 70_000_000));
        let run = fixture.run();
        let p50s = |phase| -> Vec<f64> {
            let of_phase = of_phase(&run, phase);
            of_phase.cases.iter().map(|row| row.primary().latency_ns.p50.expect("a measured p50").value).collect()
        };
        assert_eq!(p50s(Phase::Idle), [10_000_000.0]);
        assert_eq!(p50s(Phase::Loaded), [30_000_000.0, 70_000_000.0]);
        assert_eq!(p50s(Phase::Recovering).len(), 2);
    }
}
