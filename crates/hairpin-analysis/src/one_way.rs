//! Computes the figures of loads without answers from the counts of both ends.

use hairpin_model::flow::Direction;
use hairpin_model::trace::End;
use hairpin_model::{
    BothEnds, EndReport, Figure, Flow, FlowId, FlowRecord, GapPercentiles, Load, Measured, Moment, OneWayFigures,
    OverTime, PacingError, PacingFigures, fact, fact_names, knee,
};

use crate::over_rounds::OverRounds;
use crate::statistics::location::median;

/// Maximum number of points of a case over time.
const MAX_POINTS: usize = 100;

/// Sets the figures of a round's one-way load from the counts of its ends; other flows stay unchanged. The samples of
/// the histogram then count the messages with a known latency.
pub fn one_way_figures(flow: &mut FlowRecord, load: &Load) {
    let Some(received) = &flow.received else { return };
    // Already set in figures read from a file.
    flow.figures.stamped.get_or_insert(flow.figures.samples);
    flow.figures.samples = flow.ledger.received;
    flow.figures.rate_per_s = received.goodput_bytes_per_s().unwrap_or(0.0) / load.size_bytes().max(1) as f64;
    // The first messages only show the queue filling up.
    flow.figures.cold_start = None;
    flow.figures.course_ns = Vec::new();
}

/// Computes the figures of the flow over its rounds; `None` if the flow has answers.
pub(crate) fn figures(flow: &Flow, rounds: &OverRounds<'_>) -> Option<OneWayFigures> {
    if !flow.load.is_one_way() {
        return None;
    }
    let of = |of: &dyn Fn(&FlowRecord) -> Option<f64>| rounds.median(|measured| of(measured.flow(&flow.id)?));
    let received_per_s = rounds.median(|measured| {
        let received = measured.flow(&flow.id)?.received.as_ref()?;
        Some(received.goodput_bytes_per_s()? / flow.load.size_bytes().max(1) as f64)
    });
    let size_bytes = flow.load.size_bytes() as f64;
    let by_end =
        |of: &dyn Fn(&Measured, End) -> Option<f64>| by_end(|role| rounds.median(|measured| of(measured, role)));
    let offered_per_s = if let Load::Offered { offered_per_s, .. } = flow.load { Some(offered_per_s) } else { None };
    Some(OneWayFigures {
        received_per_s,
        sent_per_s: of(&sent_per_s),
        goodput_bytes_per_s: of(&|flow| flow.received.as_ref()?.goodput_bytes_per_s()),
        warm_up_goodput_bytes_per_s: of(&|flow| {
            let received = flow.received.as_ref()?;
            let warm_up = received.interval_bytes.get(..usize::try_from(received.warm_up_intervals).ok()?)?;
            let over_ns = received.warm_up_intervals.checked_mul(received.interval_ns)?;
            (over_ns > 0).then(|| sum(warm_up) * 1e9 / over_ns as f64)
        }),
        system_calls_per_message: by_end(&|measured, role| system_calls_per_message(flow, measured, role)),
        context_switches_per_message: by_end(&|measured, role| {
            let (end, messages) = end_and_messages(flow, measured, role)?;
            Some((end.voluntary_switches + end.involuntary_switches) as f64 / messages)
        }),
        cpu_seconds_per_million: by_end(&|measured, role| {
            Some(cpu_ns_per_message(flow, measured, role)? / 1e9 * 1e6)
        }),
        cpu_seconds_per_gb: by_end(&|measured, role| Some(cpu_ns_per_message(flow, measured, role)? / size_bytes)),
        peak_memory_bytes: by_end(&|measured, role| {
            measured.end(&flow.id, role)?.peak_memory_bytes.map(|bytes| bytes as f64)
        }),
        fairness: of(&|flow| fairness(&flow.received.as_ref()?.connection_bytes)),
        offered_per_s,
        delivered_per_s: received_per_s.filter(|_| offered_per_s.is_some()),
        delivered_share: offered_per_s.and_then(|per_s| delivered_share(flow, rounds, per_s)),
        pacing: pacing(flow, rounds),
        observer: Vec::new(),
    })
}

fn delivered_share(flow: &Flow, rounds: &OverRounds<'_>, offered_per_s: f64) -> Option<Figure> {
    let flows = rounds.measured.iter().filter_map(|measured| measured.flow(&flow.id));
    knee::delivered_share(flows, offered_per_s).map(Figure::bare)
}

/// Returns the bytes per second received by all flows of a round together; `None` if a flow has no goodput or failed.
pub(crate) fn goodput(measured: &Measured) -> Option<f64> {
    let all: Option<f64> = measured.flows.iter().map(|flow| flow.received.as_ref()?.goodput_bytes_per_s()).sum();
    all.filter(|_| measured.failed_flows.is_empty())
}

pub(crate) fn by_end(figure: impl Fn(End) -> Option<Figure>) -> BothEnds {
    BothEnds { client: figure(End::Client), server: figure(End::Server) }
}

/// Returns the CPU time of an end, in seconds per 10⁹ bytes received, over all flows of a round.
pub(crate) fn cpu_seconds_per_gb(measured: &Measured, role: End) -> Option<f64> {
    let received: Option<u64> = measured.flows.iter().map(|flow| Some(flow.received.as_ref()?.bytes)).sum();
    let cpu_ns: u64 = measured.ends.iter().filter(|end| end.role == role).map(|end| end.cpu_ns).sum();
    received.filter(|bytes| *bytes > 0).map(|bytes| cpu_ns as f64 / bytes as f64)
}

fn messages(record: &FlowRecord, flow: &Flow, role: End) -> u64 {
    let sends = (flow.direction == Direction::Up) == (role == End::Client);
    if sends {
        record.sent.as_ref().map_or(0, |sent| sent.messages)
    } else {
        record.received.as_ref().map_or(0, |received| received.bytes / flow.load.size_bytes().max(1))
    }
}

pub(crate) fn sent_per_s(flow: &FlowRecord) -> Option<f64> {
    let sent = flow.sent.as_ref().filter(|sent| sent.over_ns > 0)?;
    Some(sent.messages as f64 * 1e9 / sent.over_ns as f64)
}

/// Returns an end and the number of messages it sent or received after the warm-up; `None` without messages.
fn end_and_messages<'m>(flow: &Flow, measured: &'m Measured, role: End) -> Option<(&'m EndReport, f64)> {
    let messages = messages(measured.flow(&flow.id)?, flow, role);
    Some((measured.end(&flow.id, role)?, messages as f64)).filter(|_| messages > 0)
}

pub(crate) fn cpu_ns_per_message(flow: &Flow, measured: &Measured, role: End) -> Option<f64> {
    let (end, messages) = end_and_messages(flow, measured, role)?;
    Some(end.cpu_ns as f64 / messages)
}

/// Returns the system calls of an end per message; both counts include the warm-up.
pub(crate) fn system_calls_per_message(flow: &Flow, measured: &Measured, role: End) -> Option<f64> {
    let calls = measured.end(&flow.id, role)?.system_calls?;
    let messages = messages_of_load(flow, measured, role)?;
    (messages > 0).then_some(calls as f64 / messages as f64)
}

fn messages_of_load(flow: &Flow, measured: &Measured, role: End) -> Option<u64> {
    let warm_up = measured.end(&flow.id, role)?.warm_up_messages?;
    Some(messages(measured.flow(&flow.id)?, flow, role).saturating_add(warm_up))
}

/// Returns the bytes in the direction opposite to the flow per byte of messages received. Both counts include the
/// warm-up; the opposite bytes also include the opening of the connection.
///
/// On an emulated link, the link counts the bytes. Otherwise they are estimated as the segments without payload that
/// the receiver of a TCP load sent (`tcpi_segs_out` minus `tcpi_data_segs_out`, linux/tcp.h) times their header size.
/// This omits the SACK option. `None` if neither is known.
pub(crate) fn reverse_share(flow: &Flow, measured: &Measured) -> Option<f64> {
    let receiver = match flow.direction {
        Direction::Up => End::Server,
        Direction::Down => End::Client,
        Direction::RoundTrip => return None,
    };
    let against_bytes = match (&measured.link, flow.direction) {
        (Some(link), Direction::Up) => link.down.in_bytes as f64,
        (Some(link), _) => link.up.in_bytes as f64,
        (None, _) => acknowledgment_bytes(measured.end(&flow.id, receiver)?)?,
    };
    let messages = messages_of_load(flow, measured, receiver)?;
    let bytes = messages as f64 * flow.load.size_bytes() as f64;
    (bytes > 0.0 && against_bytes > 0.0).then(|| against_bytes / bytes)
}

fn acknowledgment_bytes(receiver: &EndReport) -> Option<f64> {
    let fact = |name| fact::number(&receiver.facts, name);
    let segments = fact(fact_names::SEGMENTS_OUT)? - fact(fact_names::DATA_SEGMENTS_OUT)?;
    Some(segments.max(0.0) * fact(fact_names::HEADER_BYTES)?)
}

fn pacing(flow: &Flow, rounds: &OverRounds<'_>) -> Option<PacingFigures> {
    let Load::Offered { pacing: method, .. } = flow.load else { return None };
    let of = |of: fn(&PacingError) -> f64| {
        rounds.median(|measured| {
            let error = measured.flow(&flow.id)?.sent.as_ref()?.pacing.as_ref()?;
            (error.gaps > 0).then(|| of(error))
        })
    };
    Some(PacingFigures {
        method,
        nominal_ns: of(|error| error.nominal_ns)?.value,
        gap_ns: GapPercentiles {
            p50: of(|error| error.gap_ns.p50),
            p99: of(|error| error.gap_ns.p99),
            p999: of(|error| error.gap_ns.p999),
        },
        share_below_half: of(|error| error.share_below_half),
    })
}

/// Computes Jain's fairness index: the square of the sum / (n times the sum of the squares) (Jain, Chiu and Hawe,
/// DEC-TR-301, 1984). `None` for fewer than two values, and if all are 0.
pub fn fairness(bytes: &[u64]) -> Option<f64> {
    let sum: f64 = bytes.iter().map(|bytes| *bytes as f64).sum();
    let squares: f64 = bytes.iter().map(|bytes| (*bytes as f64).powi(2)).sum();
    (bytes.len() > 1 && squares > 0.0).then(|| sum * sum / (bytes.len() as f64 * squares))
}

/// Computes the course of a round as medians over all rounds: goodput from the receiver's time line, CPU use from the
/// time lines of the ends. `None` if the rounds are too short for two points.
pub(crate) fn over_time(flow: &Flow, measured: &[&Measured]) -> Option<OverTime> {
    if !flow.load.is_one_way() {
        return None;
    }
    let lines: Vec<RoundTimeline> =
        measured.iter().filter_map(|measured| RoundTimeline::of(measured, &flow.id)).collect();
    let lasts_ns = median(&lines.iter().map(|line| line.lasts_ns as f64).collect::<Vec<_>>())?;
    let finest_ns = lines.iter().map(|line| line.interval_ns).max()?;
    // A positive number of ns.
    let width_ns = ((lasts_ns / MAX_POINTS as f64).ceil() as u64).next_multiple_of(finest_ns).max(finest_ns);
    let count = (lasts_ns as u64 / width_ns) as usize;
    if count < 2 {
        return None;
    }
    let moments = (0..count).filter_map(|number| moment(&lines, number as u64 * width_ns, width_ns));
    let from = median(&lines.iter().map(|line| line.measured_from_ns as f64).collect::<Vec<_>>())?;
    Some(OverTime { measured_from_ns: from as u64, moments: moments.collect() })
}

/// Sums as `f64`: values from a file can overflow a `u64`.
fn sum(bytes: &[u64]) -> f64 {
    bytes.iter().map(|bytes| *bytes as f64).sum()
}

/// One round over time, from its first arrival.
struct RoundTimeline<'m> {
    interval_ns: u64,
    bytes: &'m [u64],
    lasts_ns: u64,
    measured_from_ns: u64,
    ends: [Option<&'m EndReport>; 2],
}

impl<'m> RoundTimeline<'m> {
    fn of(measured: &'m Measured, flow: &FlowId) -> Option<Self> {
        let received = measured.flow(flow)?.received.as_ref()?;
        // The last interval is incomplete. A damaged file can have intervals without width.
        let whole = received.interval_bytes.len().checked_sub(1).filter(|_| received.interval_ns > 0)?;
        let end = |role| measured.end(flow, role);
        Some(Self {
            interval_ns: received.interval_ns,
            bytes: &received.interval_bytes[..whole],
            lasts_ns: received.interval_ns.checked_mul(whole as u64)?,
            measured_from_ns: received.interval_ns.checked_mul(received.warm_up_intervals)?,
            ends: [end(End::Client), end(End::Server)],
        })
    }

    fn bytes_per_s(&self, from_ns: u64, width_ns: u64) -> Option<f64> {
        let place = |ns: u64| usize::try_from(ns / self.interval_ns).ok();
        let within = self.bytes.get(place(from_ns)?..place(from_ns + width_ns)?)?;
        Some(sum(within) * 1e9 / width_ns as f64)
    }

    /// Returns the CPU use of an end as a share, from the interval of its time line that contains `at_ns`.
    fn cpu(&self, end: usize, at_ns: u64) -> Option<f64> {
        let line = self.ends[end]?.cpu_time_line.as_ref()?;
        let at_ns = at_ns.checked_sub(self.measured_from_ns)?;
        let place = line.at_ns.partition_point(|end_ns| *end_ns <= at_ns);
        let (until_ns, cpu_ns) = (*line.at_ns.get(place)?, *line.cpu_ns.get(place)?);
        let from_ns = place.checked_sub(1).and_then(|before| line.at_ns.get(before)).copied().unwrap_or(0);
        // After the last arrival, an end only waits for the other end: exclude that wait.
        let lasts_ns = self.lasts_ns.saturating_add(self.interval_ns);
        let until_ns = until_ns.min(lasts_ns.saturating_sub(self.measured_from_ns));
        (until_ns > from_ns).then(|| (cpu_ns as f64 / (until_ns - from_ns) as f64).min(1.0))
    }
}

fn moment(lines: &[RoundTimeline<'_>], from_ns: u64, width_ns: u64) -> Option<Moment> {
    let goodput: Vec<f64> = lines.iter().filter_map(|line| line.bytes_per_s(from_ns, width_ns)).collect();
    let middle = median(&goodput)?;
    let least = goodput.iter().copied().fold(middle, f64::min);
    let greatest = goodput.iter().copied().fold(middle, f64::max);
    let cpu = |end: usize| {
        let shares: Vec<f64> = lines.iter().filter_map(|line| line.cpu(end, from_ns + width_ns / 2)).collect();
        median(&shares)
    };
    Some(Moment {
        at_ns: from_ns + width_ns,
        goodput_bytes_per_s: Figure::new(middle, least, greatest),
        client_cpu: cpu(0),
        server_cpu: cpu(1),
    })
}

#[cfg(test)]
mod tests {
    use hairpin_model::{CpuTimeLine, Received};

    use super::*;

    #[test]
    fn fairness_is_one_for_equal_shares_and_one_nth_if_one_of_n_has_all() {
        assert_eq!(fairness(&[5, 5, 5, 5]), Some(1.0));
        assert_eq!(fairness(&[9, 0, 0]), Some(1.0 / 3.0));
        assert_eq!((fairness(&[9]), fairness(&[0, 0]), fairness(&[])), (None, None, None));
    }

    #[test]
    fn a_course_is_the_median_over_rounds_and_says_where_the_warm_up_ends() {
        let round = |bytes: u64| {
            let received = Received {
                interval_ns: 1_000_000,
                interval_bytes: vec![bytes, 2 * bytes, 2 * bytes, 2 * bytes, 7],
                warm_up_intervals: 1,
                ..Received::default()
            };
            let line = CpuTimeLine { at_ns: vec![2_000_000, 4_000_000], cpu_ns: vec![1_000_000, 2_000_000] };
            let mut measured = Measured {
                flows: vec![FlowRecord::default()],
                ends: vec![EndReport::default()],
                ..Measured::default()
            };
            measured.flows[0].received = Some(received);
            measured.ends[0].cpu_time_line = Some(line);
            // After the last arrival, the end waits for the other end.
            let waiting = CpuTimeLine { at_ns: vec![2_000_000, 9_000_000], cpu_ns: vec![1_000_000, 1_000_000] };
            measured.ends.retain(|end| end.role != End::Server);
            let server = EndReport { role: End::Server, cpu_time_line: Some(waiting), ..EndReport::default() };
            measured.ends.push(server);
            measured
        };
        let rounds = [round(1000), round(3000), round(2000)];
        let rounds: Vec<&Measured> = rounds.iter().collect();
        let flow = Flow::stream("tcp", 100, Direction::Up);
        let course = over_time(&flow, &rounds).unwrap();
        assert_eq!((course.measured_from_ns, course.moments.len()), (1_000_000, 4));
        assert_eq!(course.moments[0].goodput_bytes_per_s, Figure::new(2e6, 1e6, 3e6));
        assert_eq!((course.moments[0].client_cpu, course.moments[0].server_cpu), (None, None), "the warm-up");
        assert_eq!((course.moments[1].client_cpu, course.moments[3].client_cpu), (Some(0.5), Some(1.0)));
        assert_eq!((course.moments[1].server_cpu, course.moments[3].server_cpu), (Some(0.5), Some(0.5)));
        assert_eq!(course.moments[3].at_ns, 4_000_000);
        assert_eq!(over_time(&Flow::ping_pong("tcp"), &rounds), None);
    }
}
