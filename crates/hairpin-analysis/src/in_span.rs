//! Values of a round under load within a time span: latency, load, and the link's queue.

use hairpin_model::flow::{Direction, FlowRole};
use hairpin_model::{DirectionRecord, FlowRecord, LinkTimeline, Measured, ProbeTimeLine, SenderState, Span};

use crate::statistics::location::median;

pub(crate) fn loads(measured: &Measured) -> impl Iterator<Item = &FlowRecord> {
    measured.flows.iter().filter(|flow| flow.role == FlowRole::Load)
}

pub(crate) fn lasts_ns(span: Span) -> f64 {
    span.until_ns.saturating_sub(span.from_ns) as f64
}

/// The intervals of `width_ns`, the first starting at `begin_ns`, that start within the span.
pub(crate) fn within(begin_ns: u64, width_ns: u64, span: Span) -> std::ops::Range<usize> {
    let place =
        |ns: u64| usize::try_from(ns.saturating_sub(begin_ns).div_ceil(width_ns.max(1))).unwrap_or(usize::MAX);
    place(span.from_ns)..place(span.until_ns)
}

pub(crate) fn part<T>(values: &[T], range: std::ops::Range<usize>) -> &[T] {
    let until = range.end.min(values.len());
    &values[range.start.min(until)..until]
}

/// The mean latency of a probe's messages in a span, in ns; `None` without answers.
pub(crate) fn mean_latency(line: &ProbeTimeLine, begin_ns: u64, span: Span) -> Option<f64> {
    let range = within(begin_ns, line.interval_ns, span);
    let (answered, means) = (part(&line.answered, range.clone()), part(&line.mean_ns, range));
    let count: f64 = answered.iter().map(|count| *count as f64).sum();
    let sum: f64 = answered.iter().zip(means).map(|(count, mean)| *count as f64 * mean).sum();
    (count > 0.0).then(|| sum / count)
}

/// The states of a load's sender in the loaded phase; `None` if it recorded none.
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

/// The bytes in a queue over a span: the median of the means of the link's intervals. `None` without a link, and for
/// runs of versions that recorded no means.
pub(crate) fn queue_bytes(measured: &Measured, direction: Direction, span: Span) -> Option<f64> {
    let means = along(measured, direction, span, |line| &line.queue_bytes_mean);
    median(&means.iter().map(|bytes| *bytes as f64).collect::<Vec<_>>())
}

/// The maximum bytes in the queue.
pub(crate) fn most_queue_bytes(measured: &Measured, direction: Direction, span: Span) -> Option<u64> {
    along(measured, direction, span, |line| &line.queue_bytes_max).iter().max().copied()
}

/// The rate at which the link released bytes in a direction, per second; `None` if there were none or they were not
/// recorded.
pub(crate) fn drained_bytes_per_s(measured: &Measured, direction: Direction, span: Span) -> Option<f64> {
    let bytes = along(measured, direction, span, |line| &line.out_bytes);
    let over_ns = bytes.len() as f64 * timeline(measured, direction)?.interval_ns as f64;
    let sum: u64 = bytes.iter().sum();
    (sum > 0).then(|| sum as f64 * 1e9 / over_ns)
}

/// The intervals of a time line that overlap the span.
fn along(measured: &Measured, direction: Direction, span: Span, of: fn(&LinkTimeline) -> &Vec<u64>) -> &[u64] {
    let line = measured.link.as_ref().zip(timeline(measured, direction));
    let Some((Some(began_ns), line)) = line.map(|(link, line)| (link.samples_began_ns, line)) else { return &[] };
    let [from_ns, until_ns] = [span.from_ns, span.until_ns].map(|ns| ns.saturating_add(began_ns));
    let from_ns = from_ns - from_ns % line.interval_ns.max(1);
    part(of(line), within(0, line.interval_ns, Span { from_ns, until_ns }))
}

fn timeline(measured: &Measured, direction: Direction) -> Option<&LinkTimeline> {
    let link = measured.link.as_ref()?;
    let of: &DirectionRecord = if direction == Direction::Down { &link.down } else { &link.up };
    of.timeline.as_ref()
}

/// The bytes per second received from all loads in a span. Intervals count in proportion to their overlap.
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
        Some(bytes * 1e9 / lasts_ns(span))
    };
    loads(measured).next().filter(|_| measured.failed_flows.is_empty())?;
    loads(measured).map(of_load).sum()
}
