//! Summarizes a case over its rounds.

use hairpin_model::flow::{Direction, FlowRole};
use hairpin_model::ladder::CaseKind;
use hairpin_model::names::distinct;
use hairpin_model::round::Purpose;
use hairpin_model::trace::End;
use hairpin_model::{
    AnsweredBy, Case, CaseSummary, CurvePoint, Effective, EndReport, EndSummary, Flow, FlowId, FlowRecord,
    FlowSummary, Invalid, Ledger, Measured, OtherState, PathSummary, Percentiles, RoundFigures, RoundLeftOut,
    RoundPoint, RoundRecord, StateShare,
};
use hdrhistogram::Histogram;

use crate::lateness::Judged;
use crate::over_rounds::{OverRounds, reported};
use crate::set_up::set_up;
use crate::states::States;
use crate::{
    counters, exchanges, links, modes, one_way, open_loop, periodic, streams, trace, under_load, valid_rounds,
};

/// Summarizes `case` from its rounds and three histograms: of all latencies, of the idle phase and of the release jitter, if
/// any. `reliable` says whether the transport of the case is reliable.
pub(crate) fn summary(
    (case, reliable): (&Case, bool),
    id: String,
    rounds: &[&RoundRecord],
    [latencies, idle, jitter]: [Option<&Histogram<u64>>; 3],
    states: &States,
    alpha: f64,
) -> CaseSummary {
    let judged = valid_rounds::judged(rounds.iter().copied());
    let omitted_rounds = omitted_rounds(rounds, &judged);
    let mut kept = valid_rounds::counted(judged);
    kept.sort_by_key(|judged| judged.round.number);
    let measured: Vec<&Measured> = kept.iter().map(|judged| judged.measured).collect();
    let by_state = OverRounds::by_state(&kept, states, alpha);
    let reported = reported(&by_state);
    let none = OverRounds::none();
    let over_rounds = by_state.get(reported).unwrap_or(&none);
    let others = by_state.iter().enumerate().filter(|(place, _)| *place != reported).map(|(_, other)| OtherState {
        index: other.state,
        share: other.share,
        latency_ns: other.latencies(&case.primary().id, |figures| Some(figures.latency_ns)).unwrap_or_default(),
    });
    let mut reasons = reasons(case, reliable, rounds, &measured);
    reasons.extend(rounds_left_out(&kept));
    let failed: Vec<(u64, String)> =
        rounds.iter().filter_map(|round| Some((round.started_ns, failure(round)?))).collect();
    let flows = case.flows.iter().map(|flow| {
        let of_flow = [latencies, jitter].map(|all| all.filter(|_| flow.id == case.primary().id));
        flow_summary(flow, over_rounds, &measured, of_flow)
    });
    CaseSummary {
        path: PathSummary { path: case.path.clone(), relay: links::summary(case, &kept, &omitted_rounds) },
        label: case.label(),
        case: case.clone(),
        rounds: measured.len() as u64,
        failed_rounds: failed.iter().map(|(_, cause)| cause.clone()).collect(),
        refused: distinct(rounds.iter().filter_map(|round| round.failure()?.refused)),
        failed_rounds_started_ns: failed.iter().map(|(started_ns, _)| *started_ns).collect(),
        state: (states.count() > 0).then_some(StateShare { index: over_rounds.state, share: over_rounds.share }),
        other_states: others.collect(),
        flows: flows.collect(),
        goodput_of_all_bytes_per_s: over_rounds.median(one_way::goodput).filter(|_| case.flows.len() > 1),
        cpu_seconds_per_gb_of_all: (case.flows.len() > 1 && case.primary().load.is_one_way()).then(|| {
            one_way::by_end(|role| over_rounds.median(|measured| one_way::cpu_seconds_per_gb(measured, role)))
        }),
        under_load: under_load::summary(
            case,
            over_rounds,
            idle.map(curve).unwrap_or_default(),
            rounds.iter().filter_map(|round| omitted_for_phases(round)).collect(),
        ),
        ends: ends(case, over_rounds, &measured),
        valid: reasons.is_empty(),
        why_invalid: Vec::new(),
        reasons,
        omitted_rounds,
        round_points: kept.iter().map(|judged| round_point(judged, states)).collect(),
        trace: trace::summary(rounds),
        budget: None,
        id,
    }
}

fn flow_summary(
    flow: &Flow,
    over_rounds: &OverRounds,
    measured: &[&Measured],
    [latencies, jitter]: [Option<&Histogram<u64>>; 2],
) -> FlowSummary {
    let records = || measured.iter().filter_map(|measured| measured.flow(&flow.id));
    // Rounds in which the flow failed have no record of the flow.
    let median = |of: &dyn Fn(&FlowRecord) -> f64| over_rounds.median(|measured| measured.flow(&flow.id).map(of));
    let latencies_of = |of: fn(&RoundFigures) -> Option<Percentiles>| over_rounds.latencies(&flow.id, of);
    let has_answers = flow.direction == Direction::RoundTrip;
    let latency_ns = latencies_of(|figures| Some(figures.latency_ns)).unwrap_or_default();
    let service_ns = latencies_of(|figures| figures.service_ns);
    let lateness_ns = latencies_of(|figures| figures.lateness_ns);
    let response_and_jitter = [latency_ns, lateness_ns.unwrap_or_default()];
    FlowSummary {
        flow: flow.clone(),
        answered_by: records().next().map_or_else(AnsweredBy::default, |record| record.answered_by),
        samples: records().map(|record| record.figures.samples).sum(),
        latency_ns,
        set_up: set_up(flow, over_rounds, &latency_ns, service_ns.as_ref()),
        service_ns,
        lateness_ns,
        exceeds: None,
        rate_per_s: median(&|record| record.figures.rate_per_s),
        setup_ns: median(&|record| record.setup_ns as f64),
        first_message_ns: median(&|record| record.first_message_ns as f64).filter(|_| has_answers),
        ledger: records().fold(Ledger::default(), |all, record| all.plus(&record.ledger)),
        curve: latencies.map(curve).unwrap_or_default(),
        modes: latencies.map(modes::modes).unwrap_or_default(),
        exchanges: exchanges::figures(flow, over_rounds, latency_ns),
        periodic: periodic::figures(flow, over_rounds, measured, response_and_jitter, [latencies, jitter]),
        one_way: one_way::figures(flow, over_rounds),
        over_time: one_way::over_time(flow, measured),
        by_stream: streams::by_stream(flow, measured),
    }
}

fn omitted_for_phases(round: &RoundRecord) -> Option<RoundLeftOut> {
    let why = under_load::omission_reason(round.measured()?)?;
    Some(RoundLeftOut { round: round.number, purpose: round.order.purpose, why, only_tail: false })
}

fn failure(round: &RoundRecord) -> Option<String> {
    let failure = round.failure()?;
    let purpose = match round.order.purpose {
        Purpose::Timed => String::new(),
        evidence => format!(" ({evidence})"),
    };
    Some(format!("round {}{purpose}: {failure}", round.number))
}

fn omitted_rounds(rounds: &[&RoundRecord], judged: &[Judged<'_>]) -> Vec<RoundLeftOut> {
    let timed = judged.iter().filter_map(|Judged { round, why, why_tail, .. }| {
        let (only_tail, why) = (why.is_none(), why.clone().or_else(|| why_tail.clone())?);
        Some(RoundLeftOut { round: round.number, purpose: Purpose::Timed, why, only_tail })
    });
    let evidence = rounds.iter().filter(|round| round.order.purpose != Purpose::Timed).filter_map(|round| {
        let why = valid_rounds::evidence_omission(round.measured_as(round.order.purpose)?)?;
        Some(RoundLeftOut { round: round.number, purpose: round.order.purpose, why, only_tail: false })
    });
    let mut all: Vec<RoundLeftOut> = timed.chain(evidence).collect();
    all.sort_by_key(|out| out.round);
    all
}

fn round_point(Judged { round, measured, why_tail, .. }: &Judged<'_>, states: &States) -> RoundPoint {
    let flow = measured.primary();
    let latency = &flow.figures.latency_ns;
    RoundPoint {
        number: round.number,
        block: round.order.block,
        started_ns: round.started_ns,
        state: states.of_round(round.number),
        p50_ns: latency.p50,
        p90_ns: why_tail.is_none().then_some(latency.p90),
        p99_ns: why_tail.is_none().then_some(latency.p99),
        max_ns: latency.max,
        rate_per_s: flow.figures.rate_per_s,
        lost: flow.ledger.sent.saturating_sub(flow.ledger.received),
        goodput_bytes_per_s: one_way::goodput(measured),
    }
}

fn ends(case: &Case, over_rounds: &OverRounds, measured: &[&Measured]) -> Vec<EndSummary> {
    let all = measured.iter().flat_map(|measured| measured.ends.iter().map(|end| (&end.flow, end.role)));
    let mut which = distinct(all);
    if which.is_empty() {
        which.push((&case.primary().id, End::Client));
    }
    let end = |(id, role): (&FlowId, End)| {
        let reports: Vec<&EndReport> = measured.iter().filter_map(|measured| measured.end(id, role)).collect();
        let options = reports.first().map_or(&[][..], |end| end.options.as_slice());
        let mut differing_options = Vec::new();
        reports.iter().for_each(|end| note_differences(options, &end.options, &mut differing_options));
        let own = case.flows.iter().find(|flow| flow.id == *id).map_or(case.ends, |flow| case.ends_of(flow));
        EndSummary {
            role,
            flow: id.clone(),
            host: reports.first().map_or(End::Client, |end| end.host),
            waiting: own.waiting,
            placement: own.placement,
            cpu_seconds: reports.iter().map(|end| end.cpu_ns).fold(0, u64::saturating_add) as f64 / 1e9,
            cpu_seconds_per_message: over_rounds
                .median(|measured| {
                    let samples = measured.flow(id)?.figures.samples;
                    let cpu_ns = measured.end(id, role)?.cpu_ns;
                    (samples > 0 && cpu_ns > 0).then(|| cpu_ns as f64 / 1e9 / samples as f64)
                })
                .filter(|_| CaseKind::of(case) == CaseKind::RoundTrips),
            effective_options: options.to_vec(),
            differing_options,
            facts: counters::merge_facts(reports.iter().map(|end| end.facts.as_slice())),
        }
    };
    which.into_iter().map(end).collect()
}

fn note_differences(first: &[Effective], other: &[Effective], differs: &mut Vec<String>) {
    for option in first.iter().chain(other) {
        let value = |options: &[Effective]| {
            options.iter().find(|candidate| candidate.name == option.name).map(|found| found.before.clone())
        };
        let name = option.name.to_string();
        if value(first) != value(other) && !differs.contains(&name) {
            differs.push(name);
        }
    }
}

fn reasons(case: &Case, reliable: bool, rounds: &[&RoundRecord], measured: &[&Measured]) -> Vec<Invalid> {
    let mut reasons = Vec::new();
    if measured.is_empty() {
        let timed = rounds.iter().filter(|round| round.order.purpose == Purpose::Timed);
        let failed = timed.filter(|round| round.failure().is_some()).count();
        reasons.push(Invalid::NotMeasured { failed_rounds: failed as u64 });
    } else if measured.iter().all(|measured| measured.primary().figures.samples == 0) {
        reasons.push(Invalid::NoSamples);
    }
    if let (Some(asked_per_s), Some(reached)) =
        (case.primary().load.rate_per_s(), open_loop::share_reached(case, measured))
        && reached < open_loop::MIN_SHARE_REACHED
    {
        let held_up = open_loop::why_blocked(case, measured);
        reasons.push(Invalid::Saturated { sent_per_s: asked_per_s * reached, asked_per_s, held_up });
    }
    reasons.extend(unmet_options(measured));
    let is_judged = |flow: &&FlowRecord| flow.role == FlowRole::Measured || flow.id == case.primary().id;
    let flows = measured.iter().flat_map(|measured| measured.flows.iter().filter(is_judged));
    let (mut lost, mut duplicated, mut unexplained) = (0, 0, 0);
    for FlowRecord { ledger, .. } in flows {
        lost += ledger.lost.values().sum::<u64>();
        duplicated += ledger.duplicated;
        // A surplus in one flow must not cancel a deficit in another.
        unexplained += ledger.unexplained.abs();
    }
    if reliable && (unexplained != 0 || lost > 0 || duplicated > 0) {
        reasons.push(Invalid::Unreliable { lost, duplicated, unexplained });
    }
    reasons
}

fn rounds_left_out(kept: &[Judged<'_>]) -> Option<Invalid> {
    let mut left_out = kept.iter().filter_map(|judged| judged.why.as_ref());
    let first = left_out.next()?.clone();
    Some(Invalid::RoundsLeftOut { left_out: 1 + left_out.count() as u64, rounds: kept.len() as u64, first })
}

/// Lists each unmet option once; ignores the values that options had after the rounds.
fn unmet_options(measured: &[&Measured]) -> Vec<Invalid> {
    let ends = measured.iter().flat_map(|measured| [Some(measured.client()), measured.server()]).flatten();
    let unmet = ends.flat_map(|end| end.options.iter().filter(|option| !option.met).map(|option| (end.role, option)));
    distinct(unmet.map(|(end, option)| {
        let option = Effective { after: option.before.clone(), ..option.clone() };
        Invalid::UnmetOption { end, option }
    }))
}

/// Computes the percentile curve: 0, 0.01, 0.05 and 0.1, then six quantiles per power of ten of the remaining share
/// (0.25, 0.5, 0.65, 0.75, 0.85, 0.9, 0.925, ... 0.985, 0.99, ...), then the maximum. A quantile needs at least
/// 1 / (1 - quantile) samples.
fn curve(latencies: &Histogram<u64>) -> Vec<CurvePoint> {
    /// Remaining shares, relative to each power of ten.
    const REMAINING: &[f64] = &[1.0, 0.75, 0.5, 0.35, 0.25, 0.15];
    if latencies.is_empty() {
        return Vec::new();
    }
    let samples = latencies.len() as f64;
    let mut quantiles = vec![0.0, 0.01, 0.05, 0.1];
    let mut power = 1.0;
    while power * samples >= 1.0 - 1e-9 {
        let remaining = REMAINING.iter().map(|share| share * power).filter(|left| left * samples >= 1.0 - 1e-9);
        quantiles.extend(remaining.map(|left| 1.0 - left).filter(|quantile| *quantile > 0.1));
        power /= 10.0;
    }
    quantiles.push(1.0);
    quantiles
        .into_iter()
        // Write 0.9990000000000001 as 0.999.
        .map(|quantile| (quantile * 1e12).round() / 1e12)
        .map(|quantile| CurvePoint { quantile, latency_ns: latencies.value_at_quantile(quantile) as f64 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_any_measured_flow_makes_a_reliable_case_invalid() {
        let case = Case::of(Flow::stream("tcp", 100, Direction::Up)).with(|case| {
            for id in ["second", "third"] {
                case.flows.push(Flow { id: id.into(), ..Flow::stream("tcp", 100, Direction::Up) });
            }
        });
        let flows = case.flows.iter().map(FlowRecord::of).collect();
        let mut measured = Measured { flows, ends: vec![EndReport::default()], ..Measured::default() };
        measured.primary_mut().figures.samples = 1;
        assert_eq!(reasons(&case, true, &[], &[&measured]).len(), 0);
        measured.flows[1].ledger = Ledger { sent: 2, unexplained: 2, ..Ledger::default() };
        assert_eq!(reasons(&case, true, &[], &[&measured]).len(), 1);
        measured.flows[2].ledger = Ledger { received: 2, unexplained: -2, ..Ledger::default() };
        let both = Invalid::Unreliable { lost: 0, duplicated: 0, unexplained: 4 };
        assert_eq!(reasons(&case, true, &[], &[&measured]), [both], "a deficit does not cancel a surplus");
        measured.flows[2].ledger = Ledger::default();
        measured.flows[1].role = FlowRole::Load;
        assert_eq!(reasons(&case, true, &[], &[&measured]).len(), 0, "a load is not judged");
    }
}
