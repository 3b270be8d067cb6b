//! Responsiveness: round trips per minute under working conditions, as defined by draft-ietf-ippm-responsiveness-09 for
//! TCP without TLS ("For the TCP-Only Case"):
//!
//! - foreign: `60000 / ((TM(tcp_f) + TM(http_f)) / 2)`, for new connections: times to connect, and from request to
//!   answer;
//! - loaded: `60000 / TM(http_l)`, for requests on a connection of the load. Without such requests the RTT estimated by
//!   TCP is used instead, as the draft allows;
//! - responsiveness: the mean of both. `TM` is the mean of the smallest 95 %; times are in ms.
//!
//! Differences from the draft: the probe's request and answer are plain bytes, not HTTP; the load has a fixed number of
//! connections and counts as steady after the ramp, while the draft adds connections until goodput is stable.

use hairpin_model::flow::ConnectionUse;
use hairpin_model::phases::{Phase, RESPONSIVENESS_DRAFT};
use hairpin_model::{Case, FlowId, FlowRecord, Measured, PhaseSamples, Responsiveness, Samples, Trimmed};
use hdrhistogram::Histogram;

use crate::in_span::{loaded_states, loads};
use crate::over_rounds::OverRounds;

/// The share of values that a trimmed mean includes.
const TRIMMED_SHARE: f64 = 0.95;
const NS_PER_MINUTE: f64 = 60e9;

pub(crate) fn trimmed(samples: &Samples, phases: &PhaseSamples, phase: Phase) -> Trimmed {
    let other = phases.others.get(phase).as_ref();
    let latency = other.map_or(&samples.latency, |other| &other.latency);
    let service = other.map_or(samples.service.as_ref(), |other| other.service.as_ref());
    let lateness = other.map_or(samples.lateness.as_ref(), |other| other.lateness.as_ref());
    Trimmed {
        before_ns: lateness.map(trimmed_mean),
        request_ns: trimmed_mean(service.unwrap_or(latency)),
        latency_ns: trimmed_mean(latency),
    }
}

fn trimmed_mean(values: &Histogram<u64>) -> f64 {
    let value_ns = |ns: u64| values.median_equivalent(ns) as f64;
    let all = values.iter_recorded().map(|one| (value_ns(one.value_iterated_to()), one.count_at_value()));
    trimmed_mean_of(all, values.len())
}

/// Returns the mean of the smallest 95 % of `count` values, given in ascending order with their counts.
fn trimmed_mean_of(values: impl Iterator<Item = (f64, u64)>, count: u64) -> f64 {
    // Rounded up, at least one value.
    let kept = ((count as f64 * TRIMMED_SHARE).ceil() as u64).max(1);
    let (mut left, mut sum) = (kept, 0.0);
    for (value, count) in values {
        sum += count.min(left) as f64 * value;
        left -= count.min(left);
    }
    sum / (kept - left).max(1) as f64
}

/// Computes the responsiveness of a case over its rounds; `None` if no flow opens a connection per message.
pub(crate) fn figure(case: &Case, over_rounds: &OverRounds<'_>) -> Option<Responsiveness> {
    let foreign = case.flows.iter().find(|flow| flow.connection_use == ConnectionUse::PerMessage)?;
    let figure = over_rounds.median(|measured| round_rpm(case, &foreign.id, measured))?;
    Some(Responsiveness { figure, draft: RESPONSIVENESS_DRAFT.to_owned() })
}

fn round_rpm(case: &Case, foreign: &FlowId, measured: &Measured) -> Option<f64> {
    let trimmed = |flow: &FlowId| measured.flow(flow)?.phases.as_ref()?.by_phase.loaded.trimmed;
    let new = trimmed(foreign)?;
    let foreign = per_minute((new.before_ns? + new.request_ns) / 2.0);
    let shares = case.primary().connection_use == ConnectionUse::Shared;
    let loaded =
        if shares { trimmed(&case.primary().id).map(|own| own.latency_ns) } else { estimated_by_tcp(measured) };
    Some(f64::midpoint(foreign, per_minute(loaded?)))
}

fn per_minute(round_trip_ns: f64) -> f64 {
    NS_PER_MINUTE / round_trip_ns.max(1.0)
}

/// Returns the trimmed mean of the load's smoothed RTTs in the loaded phase, in ns; the maximum over several loads.
fn estimated_by_tcp(measured: &Measured) -> Option<f64> {
    let of_load = |load: &FlowRecord| {
        let states = loaded_states(measured, load)?.filter(|state| state.round_trip_ns > 0);
        let mut times: Vec<f64> = states.map(|state| state.round_trip_ns as f64).collect();
        times.sort_by(f64::total_cmp);
        let count = times.len() as u64;
        (count > 0).then(|| trimmed_mean_of(times.into_iter().map(|time| (time, 1)), count))
    };
    loads(measured).filter_map(of_load).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::FlowRole;
    use hairpin_model::samples::latency_histogram;
    use hairpin_model::{Flow, SenderState};

    use super::*;

    #[test]
    fn a_trimmed_mean_omits_the_largest_twentieth() {
        let mut values = latency_histogram();
        (1..=95).for_each(|_| values.record(1_000).unwrap());
        (1..=5).for_each(|_| values.record(1_000_000).unwrap());
        assert_eq!(trimmed_mean(&values), 1_000.0);
        let mut few = latency_histogram();
        [100, 200].into_iter().for_each(|value| few.record(value).unwrap());
        assert_eq!(trimmed_mean(&few), 150.0, "neither of two values can be omitted");
    }

    #[test]
    fn round_trips_a_minute_are_the_mean_of_new_connections_and_of_the_load() {
        let mut case = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
        let foreign = Flow { connection_use: ConnectionUse::PerMessage, ..Flow::ping_pong("tcp") };
        let load = Flow::stream("tcp", 1000, hairpin_model::flow::Direction::Up);
        case.flows.extend([load.in_role(FlowRole::Load), foreign.in_role(FlowRole::ForeignProbe)]);
        let mut measured = Measured::default();
        let lengths = hairpin_model::phases::PhaseLengths { idle: 10, ramp: 10, loaded: 10, recovering: 10 };
        measured.phases = Some(lengths.spans(0));
        let state = |at_ns, round_trip_ns| SenderState { at_ns, round_trip_ns, ..SenderState::default() };
        measured.flows = case.flows.iter().map(FlowRecord::of).collect();
        let foreign = case.flows[2].id.clone();
        measured.flows[1].started_ns = Some(10);
        measured.flows[1].sent = Some(hairpin_model::one_way::Sent {
            // The first state was read during the ramp.
            states: vec![state(0, 1), state(12, 100_000_000), state(15, 100_000_000)],
            ..Default::default()
        });
        let mut phases = hairpin_model::phases::ProbePhases::default();
        phases.by_phase.loaded.trimmed =
            Some(Trimmed { before_ns: Some(50e6), request_ns: 150e6, latency_ns: 200e6 });
        measured.flows[2].phases = Some(phases);
        // 60000 / 100 ms for both parts.
        assert_eq!(round_rpm(&case, &foreign, &measured), Some(600.0));
        measured.flows[1].sent.as_mut().unwrap().states[2].round_trip_ns = 300_000_000;
        assert_eq!(round_rpm(&case, &foreign, &measured), Some(f64::midpoint(600.0, 300.0)));
    }
}
