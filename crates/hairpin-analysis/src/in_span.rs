//! Latency, load and link queue of a round under load, within a time span.

use hairpin_model::flow::{Direction, FlowRole};
use hairpin_model::{DirectionRecord, FlowRecord, LinkTimeline, Measured, ProbeTimeLine, SenderState, Span};

use crate::statistics::location::median;

pub(crate) fn loads(measured: &Measured) -> impl Iterator<Item = &FlowRecord> {
    measured.flows.iter().filter(|flow| flow.role == FlowRole::Load)
}

pub(crate) fn length_ns(span: Span) -> f64 {
    span.until_ns.saturating_sub(span.from_ns) as f64
}

/// Returns the indices of the intervals (of `width_ns`, the first from `begin_ns`) that start within the span.
pub(crate) fn intervals(begin_ns: u64, width_ns: u64, span: Span) -> std::ops::Range<usize> {
    let place =
        |ns: u64| usize::try_from(ns.saturating_sub(begin_ns).div_ceil(width_ns.max(1))).unwrap_or(usize::MAX);
    place(span.from_ns)..place(span.until_ns)
}

pub(crate) fn slice<T>(values: &[T], range: std::ops::Range<usize>) -> &[T] {
    let until = range.end.min(values.len());
    &values[range.start.min(until)..until]
}

/// Returns the mean latency of a probe's messages in a span, in ns; `None` if none was answered.
pub(crate) fn mean_latency(line: &ProbeTimeLine, begin_ns: u64, span: Span) -> Option<f64> {
    let range = intervals(begin_ns, line.interval_ns, span);
    let (answered, means) = (slice(&line.answered, range.clone()), slice(&line.mean_ns, range));
    let count: f64 = answered.iter().map(|count| *count as f64).sum();
    let sum: f64 = answered.iter().zip(means).map(|(count, mean)| *count as f64 * mean).sum();
    (count > 0.0).then(|| sum / count)
}

/// Returns the states that a load's sender recorded in the loaded phase; `None` if it recorded no states.
pub(crate) fn loaded_states<'m>(
    measured: &'m Measured,
    load: &'m FlowRecord,
) -> Option<impl Iterator<Item = &'m SenderState>> {
    let spans = measured.phases.as_ref()?;
    let began_ns = load.started_ns.unwrap_or(spans.ramp.from_ns);
    let loaded = spans.loaded.from_ns..spans.loaded.until_ns;
    let states = load.sent.as_ref()?.states.iter();
    Some(states.filter(move |state| loaded.contains(&began_ns.saturating_add(state.at_ns))))
}

/// Returns the bytes in a queue over a span: the median of the interval means. `None` without a link, and for runs of
/// older versions, which recorded no means.
pub(crate) fn queue_bytes(measured: &Measured, direction: Direction, span: Span) -> Option<f64> {
    let means = values_in(measured, direction, span, |line| &line.queue_bytes_mean);
    median(&means.iter().map(|bytes| *bytes as f64).collect::<Vec<_>>())
}

pub(crate) fn max_queue_bytes(measured: &Measured, direction: Direction, span: Span) -> Option<u64> {
    values_in(measured, direction, span, |line| &line.queue_bytes_max).iter().max().copied()
}

/// Returns the rate at which the link delivered data in a direction, in bytes per second; `None` if it delivered no
/// data or its bytes were not recorded.
pub(crate) fn drained_bytes_per_s(measured: &Measured, direction: Direction, span: Span) -> Option<f64> {
    let bytes = values_in(measured, direction, span, |line| &line.out_bytes);
    let over_ns = bytes.len() as f64 * timeline(measured, direction)?.interval_ns as f64;
    let sum: u64 = bytes.iter().sum();
    (sum > 0).then(|| sum as f64 * 1e9 / over_ns)
}

fn values_in(measured: &Measured, direction: Direction, span: Span, of: fn(&LinkTimeline) -> &Vec<u64>) -> &[u64] {
    let line = measured.link.as_ref().zip(timeline(measured, direction));
    let Some((Some(began_ns), line)) = line.map(|(link, line)| (link.samples_began_ns, line)) else { return &[] };
    let [from_ns, until_ns] = [span.from_ns, span.until_ns].map(|ns| ns.saturating_add(began_ns));
    let from_ns = from_ns - from_ns % line.interval_ns.max(1);
    slice(of(line), intervals(0, line.interval_ns, Span { from_ns, until_ns }))
}

fn timeline(measured: &Measured, direction: Direction) -> Option<&LinkTimeline> {
    let link = measured.link.as_ref()?;
    let of: &DirectionRecord = if direction == Direction::Down { &link.down } else { &link.up };
    of.timeline.as_ref()
}

/// Returns the bytes per second received from all loads in a span. Intervals count in proportion to their overlap.
pub(crate) fn goodput(measured: &Measured, span: Span) -> Option<f64> {
    let of_load = |load: &FlowRecord| {
        let received = load.received.as_ref()?;
        let started_ns = received.began_ns.or(load.started_ns)?;
        let width_ns = received.interval_ns;
        let bytes: f64 = (0..)
            .zip(&received.interval_bytes)
            .map(|(number, bytes)| {
                let from_ns = started_ns.saturating_add(u64::saturating_mul(number, width_ns));
                let until_ns = from_ns.saturating_add(width_ns);
                let shared_ns = until_ns.min(span.until_ns).saturating_sub(from_ns.max(span.from_ns));
                *bytes as f64 * shared_ns as f64 / width_ns.max(1) as f64
            })
            .sum();
        Some(bytes * 1e9 / length_ns(span))
    };
    loads(measured).next().filter(|_| measured.failed_flows.is_empty())?;
    loads(measured).map(of_load).sum()
}
