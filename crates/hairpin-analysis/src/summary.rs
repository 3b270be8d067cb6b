//! The summary of a case over its rounds.

use hairpin_model::flow::{Direction, FlowRole};
use hairpin_model::names::distinct;
use hairpin_model::quantities::rounded;
use hairpin_model::round::Purpose;
use hairpin_model::trace::End;
use hairpin_model::{
    Case, CaseSummary, CurvePoint, Effective, EndReport, EndSummary, Flow, FlowId, FlowRecord, FlowSummary, Ledger,
    Measured, OtherState, Outcome, PathSummary, Percentiles, RoundFigures, RoundPoint, RoundRecord, StateShare,
};
use hdrhistogram::Histogram;

use crate::over_rounds::{OverRounds, reported};
use crate::states::States;
use crate::{counters, exchanges, links, modes, one_way, open_loop, trace, under_load, valid_rounds};

/// The summary of `case` from its rounds, the histogram of all their latencies, and that of the idle phase, if any;
/// `reliable` says whether its transport is reliable.
pub(crate) fn summary(
    (case, reliable): (&Case, bool),
    id: String,
    rounds: &[&RoundRecord],
    [latencies, idle]: [Option<&Histogram<u64>>; 2],
    states: &States,
    alpha: f64,
) -> CaseSummary {
    let mut kept = valid_rounds::timed(rounds.iter().copied());
    kept.sort_by_key(|(round, _)| round.number);
    let measured: Vec<&Measured> = kept.iter().map(|(_, measured)| *measured).collect();
    let by_state = OverRounds::by_state(&kept, states, alpha);
    let reported = reported(&by_state);
    let none = OverRounds::none();
    let over_rounds = by_state.get(reported).unwrap_or(&none);
    let others = by_state.iter().enumerate().filter(|(place, _)| *place != reported).map(|(_, other)| OtherState {
        index: other.state,
        share: other.share,
        latency_ns: other.latencies(&case.primary().id, |figures| Some(figures.latency_ns)).unwrap_or_default(),
    });
    let why_invalid = why_invalid(case, reliable, rounds, &measured);
    let failed: Vec<(u64, String)> =
        rounds.iter().filter_map(|round| Some((round.started_ns, failure(round)?))).collect();
    let flows = case.flows.iter().map(|flow| {
        let latencies = latencies.filter(|_| flow.id == case.primary().id);
        flow_summary(flow, over_rounds, &measured, latencies)
    });
    CaseSummary {
        path: PathSummary { path: case.path.clone(), relay: links::summary(case, rounds, &kept) },
        label: case.label(),
        case: case.clone(),
        rounds: measured.len() as u64,
        failed_rounds: failed.iter().map(|(_, cause)| cause.clone()).collect(),
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
            rounds.iter().filter_map(|round| phases_left_out(round)).collect(),
        ),
        ends: ends(case, &measured),
        valid: why_invalid.is_empty(),
        why_invalid,
        round_points: kept.iter().map(|(round, measured)| round_point(round, measured, states)).collect(),
        trace: trace::summary(rounds),
        id,
    }
}

/// The flow over the rounds, with the histogram of all its latencies, if any.
fn flow_summary(
    flow: &Flow,
    over_rounds: &OverRounds,
    measured: &[&Measured],
    latencies: Option<&Histogram<u64>>,
) -> FlowSummary {
    let record = |measured: &Measured| measured.flow(&flow.id).cloned().unwrap_or_default();
    let latencies_of = |of: fn(&RoundFigures) -> Option<Percentiles>| over_rounds.latencies(&flow.id, of);
    let has_answers = flow.direction == Direction::RoundTrip;
    let latency_ns = latencies_of(|figures| Some(figures.latency_ns)).unwrap_or_default();
    FlowSummary {
        flow: flow.clone(),
        samples: measured.iter().map(|measured| record(measured).figures.samples).sum(),
        latency_ns,
        service_ns: latencies_of(|figures| figures.service_ns),
        lateness_ns: latencies_of(|figures| figures.lateness_ns),
        rate_per_s: over_rounds.median(|measured| Some(record(measured).figures.rate_per_s)),
        setup_ns: over_rounds.median(|measured| Some(record(measured).setup_ns as f64)),
        first_message_ns: over_rounds
            .median(|measured| has_answers.then(|| record(measured).first_message_ns as f64)),
        ledger: measured.iter().fold(Ledger::default(), |all, measured| all.plus(&record(measured).ledger)),
        curve: latencies.map(curve).unwrap_or_default(),
        modes: latencies.map(modes::modes).unwrap_or_default(),
        exchanges: exchanges::figures(flow, over_rounds, latency_ns),
        one_way: one_way::figures(flow, over_rounds),
        over_time: one_way::over_time(flow, measured),
    }
}

/// `round 7: the load began 300 ms late`.
fn phases_left_out(round: &RoundRecord) -> Option<String> {
    let why = under_load::why_left_out(round.measured()?)?;
    Some(format!("round {}: {why}", round.number))
}

fn failure(round: &RoundRecord) -> Option<String> {
    match &round.outcome {
        Outcome::Failed(failure) => {
            let purpose = match round.order.purpose {
                Purpose::Timed => String::new(),
                evidence => format!(" ({evidence})"),
            };
            Some(format!("round {}{purpose}: {failure}", round.number))
        }
        Outcome::Measured(_) => None,
    }
}

fn round_point(round: &RoundRecord, measured: &Measured, states: &States) -> RoundPoint {
    let flow = measured.primary();
    let latency = &flow.figures.latency_ns;
    RoundPoint {
        number: round.number,
        block: round.order.block,
        started_ns: round.started_ns,
        state: states.of_round(round.number),
        p50_ns: latency.p50,
        p90_ns: Some(latency.p90),
        p99_ns: latency.p99,
        max_ns: latency.max,
        rate_per_s: flow.figures.rate_per_s,
        lost: flow.ledger.sent.saturating_sub(flow.ledger.received),
        goodput_bytes_per_s: one_way::goodput(measured),
    }
}

/// The ends over the rounds; the client alone if nothing was measured.
fn ends(case: &Case, measured: &[&Measured]) -> Vec<EndSummary> {
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
            effective_options: options.to_vec(),
            differing_options,
            facts: counters::merged(reports.iter().map(|end| end.facts.as_slice())),
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

fn why_invalid(case: &Case, reliable: bool, rounds: &[&RoundRecord], measured: &[&Measured]) -> Vec<String> {
    let mut reasons = Vec::new();
    if measured.is_empty() {
        let timed = rounds.iter().filter(|round| round.order.purpose == Purpose::Timed);
        let failed = timed.filter(|round| matches!(round.outcome, Outcome::Failed(_))).count();
        let reason = match failed {
            0 => "none of its rounds was measured completely".to_owned(),
            _ => format!("all {failed} rounds failed"),
        };
        reasons.push(reason);
    } else if measured.iter().all(|measured| measured.primary().figures.samples == 0) {
        let what = match case.primary().load.is_one_way() {
            true => "no message arrived",
            false if case.loads().is_empty() => "no message was answered",
            false => "no message was answered beside the load",
        };
        reasons.push(what.to_owned());
    }
    if let (Some(asked), Some(reached)) = (open_loop::asked_per_s(case), open_loop::share_reached(case, measured))
        && reached < open_loop::SATURATED_BELOW
    {
        let (sent, asked) = (rounded(asked * reached), rounded(asked));
        let sent = format!("it sent {sent} of the {asked} messages/s requested");
        reasons.push(match open_loop::held_up(case, measured) {
            Some(limit) => {
                let (cause, remedy) = (limit.cause(), limit.remedy());
                format!("the generator had to wait for answers: {sent}, as {cause} (hint: {remedy})")
            }
            None => format!("the generator was saturated: {sent}"),
        });
    }
    reasons.extend(links_not_as_told(rounds, measured));
    reasons.extend(unmet_options(measured));
    let is_judged = |flow: &&FlowRecord| flow.role == FlowRole::Measured || flow.id == case.primary().id;
    let flows = measured.iter().flat_map(|measured| measured.flows.iter().filter(is_judged));
    let ledger = flows.fold(Ledger::default(), |all, flow| all.plus(&flow.ledger));
    if reliable {
        let lost = ledger.lost.values().sum::<u64>();
        if ledger.unexplained != 0 || lost > 0 || ledger.duplicated > 0 {
            reasons.push(format!(
                "{} is reliable, but {lost} messages were lost, {} came twice and {} are unaccounted for",
                case.primary().transport,
                ledger.duplicated,
                ledger.unexplained
            ));
        }
    }
    reasons
}

/// Why too few rounds of a case are valid.
fn links_not_as_told(rounds: &[&RoundRecord], measured: &[&Measured]) -> Option<String> {
    if !valid_rounds::too_few(rounds.iter().copied()) {
        return None;
    }
    let reasons: Vec<String> = measured.iter().filter_map(|measured| valid_rounds::left_out(measured)).collect();
    let first = reasons.first()?;
    Some(format!("{} of {} rounds are invalid, the first because {first}", reasons.len(), measured.len()))
}

fn unmet_options(measured: &[&Measured]) -> Vec<String> {
    let of = |measured: &Measured| {
        let server = measured.server().into_iter().flat_map(|end| &end.options).map(|option| ("server", option));
        let all = measured.client().options.iter().map(|option| ("client", option)).chain(server);
        let told = |(end, option): (&str, &Effective)| {
            let (name, asked) = (option.name, option.asked.as_deref().unwrap_or("nothing"));
            format!("option {name} at the {end}: asked for {asked}, the kernel granted {}", option.before)
        };
        all.filter(|(_, option)| !option.met).map(told).collect::<Vec<_>>()
    };
    distinct(measured.iter().flat_map(|measured| of(measured)))
}

/// The percentile curve: six quantiles for each power of ten of the remainder (0, 0.25, 0.5, 0.65, 0.75, 0.85, then
/// 0.9, 0.925, ... 0.985, then 0.99, ...), as long as there are 1 / (1 - quantile) samples, and the maximum.
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
        // 0.999 instead of 0.9990000000000001.
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
        let mut measured = Measured { flows: case.flows.iter().map(FlowRecord::of).collect(), ..Measured::default() };
        measured.primary_mut().figures.samples = 1;
        assert_eq!(why_invalid(&case, true, &[], &[&measured]).len(), 0);
        measured.flows[1].ledger = Ledger { sent: 2, unexplained: 2, ..Ledger::default() };
        assert_eq!(why_invalid(&case, true, &[], &[&measured]).len(), 1);
        measured.flows[1].role = FlowRole::Load;
        assert_eq!(why_invalid(&case, true, &[], &[&measured]).len(), 0, "a load is not judged");
    }
}
