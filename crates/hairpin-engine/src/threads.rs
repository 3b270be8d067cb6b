//! Joins the results of the threads of a flow. Each thread has a connection and processes of its own at both ends.

use std::ops::Range;

use hairpin_loops::driver::time_line::MAX_INTERVALS;
use hairpin_model::{EndReport, Fact, FlowRecord, FlowSamples, Measured, Received, Sent};

use crate::ends::opening;

/// First parts of the names of facts about one connection.
const OF_A_CONNECTION: [&str; 3] = ["tcp_info.", "socket.", "zerocopy."];

type Results = (Measured, FlowSamples);

/// Adds up two results of one flow. Keeps the sample rows and options of the first.
pub(crate) fn joined((one, mut samples): Results, (other, of_other): Results) -> Results {
    for (id, of_other) in of_other {
        if let Some(own) = samples.get_mut(&id) {
            own.measured += of_other.measured;
            own.latency.add(of_other.latency).expect("both histograms have the same bounds");
        }
    }
    let flows: Vec<FlowRecord> = one.flows.iter().zip(&other.flows).map(|(one, other)| flow(one, other)).collect();
    let ends = one.ends.iter().zip(&other.ends).map(|(one, other)| end(one, other)).collect();
    let interrupted = one.interrupted || other.interrupted;
    let duration_ns = one.duration_ns.max(other.duration_ns);
    (Measured { flows, ends, duration_ns, interrupted, ..one }, samples)
}

fn flow(one: &FlowRecord, other: &FlowRecord) -> FlowRecord {
    FlowRecord {
        ledger: one.ledger.clone().plus(&other.ledger),
        setup_ns: one.setup_ns.max(other.setup_ns),
        received: one.received.as_ref().zip(other.received.as_ref()).map(|(one, other)| received(one, other)),
        sent: one.sent.as_ref().zip(other.sent.as_ref()).map(|(one, other)| Sent {
            messages: one.messages.saturating_add(other.messages),
            over_ns: one.over_ns.max(other.over_ns),
            refused: one.refused.saturating_add(other.refused),
            full: one.full.saturating_add(other.full),
            no_feedback_ns: one.no_feedback_ns.or(other.no_feedback_ns),
            stream_messages: [one.stream_messages.as_slice(), &other.stream_messages].concat(),
            ..one.clone()
        }),
        ..one.clone()
    }
}

/// The intervals of a time line and the bytes that arrived in each.
fn intervals(of: &Received) -> impl Iterator<Item = (Range<u64>, u64)> {
    let at_ns =
        |interval: usize| of.began_ns.unwrap_or(0).saturating_add(of.interval_ns.saturating_mul(interval as u64));
    of.interval_bytes.iter().enumerate().map(move |(number, bytes)| (at_ns(number)..at_ns(number + 1), *bytes))
}

/// The bytes that arrived in `range`; part of an interval has that part of its bytes.
fn bytes_between(of: &Received, range: &Range<u64>) -> f64 {
    let within = |(interval, bytes): (Range<u64>, u64)| {
        let overlap_ns = interval.end.min(range.end).saturating_sub(interval.start.max(range.start));
        bytes as f64 * overlap_ns as f64 / (of.interval_ns.max(1) as f64)
    };
    intervals(of).map(within).sum()
}

/// The measured time.
fn span_ns(of: &Received) -> Range<u64> {
    let warm_up_ns = of.interval_ns.saturating_mul(of.warm_up_intervals);
    let from_ns = of.began_ns.unwrap_or(0).saturating_add(warm_up_ns);
    from_ns..from_ns.saturating_add(of.over_ns)
}

/// The bytes of both; the rate is that of the time in which both ran.
fn received(one: &Received, other: &Received) -> Received {
    let both = [one, other];
    let width_ns = one.interval_ns.max(other.interval_ns).max(1);
    let began_ns = both.map(|of| of.began_ns.unwrap_or(0)).into_iter().min().unwrap_or(0);
    let [first, second] = both.map(span_ns);
    let warm_up_intervals = (first.start.max(second.start) - began_ns).div_ceil(width_ns);
    let at_ns = |interval: u64| began_ns.saturating_add(interval.saturating_mul(width_ns));
    let (from_ns, until_ns) = (at_ns(warm_up_intervals), first.end.min(second.end));
    let between = |range: Range<u64>| both.map(|of| bytes_between(of, &range)).iter().sum::<f64>() as u64;
    let last_ns = both.into_iter().flat_map(intervals).map(|(interval, _)| interval.end).max().unwrap_or(began_ns);
    let count = last_ns.saturating_sub(began_ns).div_ceil(width_ns).min(MAX_INTERVALS as u64);
    let of_connections =
        both.map(|of| if of.connection_bytes.is_empty() { vec![of.bytes] } else { of.connection_bytes.clone() });
    Received {
        bytes: one.bytes.saturating_add(other.bytes),
        bytes_after_first: between(from_ns..until_ns),
        over_ns: until_ns.saturating_sub(from_ns),
        reordered: one.reordered.saturating_add(other.reordered),
        began_ns: Some(began_ns),
        interval_ns: width_ns,
        interval_bytes: (0..count).map(|interval| between(at_ns(interval)..at_ns(interval + 1))).collect(),
        warm_up_intervals,
        connection_bytes: of_connections.concat(),
        streams: [one.streams.as_slice(), &other.streams].concat(),
    }
}

fn end(one: &EndReport, other: &EndReport) -> EndReport {
    let sum = |of: fn(&EndReport) -> Option<u64>| Some(of(one)?.saturating_add(of(other)?));
    // Other counts are those of the host or of its network namespace.
    let is_own = |fact: &&Fact| OF_A_CONNECTION.iter().any(|kind| fact.name.starts_with(kind));
    let mut facts = one.facts.clone();
    opening::add_events(&mut facts, other.facts.iter().filter(is_own));
    EndReport {
        facts,
        seen_cpus: [one.seen_cpus.as_slice(), &other.seen_cpus].concat(),
        cpu_ns: one.cpu_ns.saturating_add(other.cpu_ns),
        voluntary_switches: one.voluntary_switches.saturating_add(other.voluntary_switches),
        involuntary_switches: one.involuntary_switches.saturating_add(other.involuntary_switches),
        migrations: sum(|end| end.migrations),
        system_calls: sum(|end| end.system_calls),
        warm_up_messages: sum(|end| end.warm_up_messages),
        // Threads also wait for each other, and the time line is that of one thread.
        waited_for_cpu_ns: None,
        cpu_time_line: None,
        ..one.clone()
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{FactValue, FlowId, Samples, fact_names};

    use super::*;

    /// A receiver whose first arrival was at `began_ns`, measured from its second interval on.
    fn of(began_ns: u64, interval_ns: u64, interval_bytes: &[u64]) -> Received {
        let measured = &interval_bytes[1..];
        Received {
            bytes: measured.iter().sum(),
            bytes_after_first: measured.iter().sum(),
            over_ns: interval_ns * measured.len() as u64,
            began_ns: Some(began_ns),
            interval_ns,
            interval_bytes: interval_bytes.to_vec(),
            warm_up_intervals: 1,
            ..Received::default()
        }
    }

    #[test]
    fn the_rate_of_two_threads_is_that_of_the_time_in_which_both_ran() {
        let (one, other) = (of(1000, 10, &[7, 100, 100, 100, 100]), of(1010, 20, &[9, 400, 400]));
        let both = received(&one, &other);
        // Both ran from 1030 to 1050, which is one interval of 20 ns of the joined line.
        assert_eq!((both.warm_up_intervals, both.over_ns, both.bytes_after_first), (2, 10, 100 + 200));
        assert_eq!(both.goodput_bytes_per_s(), Some(3e10));
        assert_eq!((both.bytes, both.began_ns, both.interval_ns), (1200, Some(1000), 20));
        assert_eq!(both.interval_bytes, [7 + 100 + 4, 200 + 4 + 200, 100 + 400, 200]);
        assert_eq!(both.connection_bytes, [400, 800]);
        let third = received(&both, &of(1000, 20, &[1, 60, 60]));
        assert_eq!((third.over_ns, third.connection_bytes), (10, vec![400, 800, 120]));
        let apart = received(&one, &of(2000, 10, &[1, 50]));
        assert_eq!(apart.goodput_bytes_per_s(), None, "they never ran at the same time");
        let hostile = of(u64::MAX, u64::MAX, &[u64::MAX / 4, 1]);
        assert!(received(&one, &hostile).interval_bytes.len() <= MAX_INTERVALS);
    }

    #[test]
    fn counts_and_samples_are_added() {
        let result = |count: u64| {
            let mut samples = Samples::with_rows(0);
            samples.latency.record_n(5000, count).unwrap();
            samples.measured = count;
            let mut measured = Measured {
                flows: vec![FlowRecord::default()],
                ends: vec![EndReport::default()],
                ..Measured::default()
            };
            (measured.flows[0].ledger.sent, measured.flows[0].ledger.received) = (count, count);
            measured.flows[0].sent = Some(Sent { messages: count, over_ns: 10 * count, ..Sent::default() });
            let end = &mut measured.ends[0];
            (end.cpu_ns, end.system_calls, end.waited_for_cpu_ns) = (count, Some(count), Some(1));
            let names = [fact_names::SEGMENTS_OUT, fact_names::THROTTLED_NS];
            end.facts = names.map(|name| Fact::number(name, count as f64)).to_vec();
            (measured, FlowSamples::from([(FlowId::default(), samples)]))
        };
        let (measured, samples) = joined(result(3), result(4));
        let (flow, end) = (&measured.flows[0], &measured.ends[0]);
        assert_eq!((flow.ledger.sent, flow.ledger.received, flow.ledger.unexplained), (7, 7, 0));
        assert_eq!(flow.sent.as_ref().map(|sent| (sent.messages, sent.over_ns)), Some((7, 40)));
        assert_eq!((end.cpu_ns, end.system_calls, end.waited_for_cpu_ns), (7, Some(7), None));
        let facts = end.facts.iter().map(|fact| fact.value.clone()).collect::<Vec<_>>();
        assert_eq!(facts, [FactValue::Number(7.0), FactValue::Number(3.0)], "the second is of the control group");
        let samples = &samples[&FlowId::default()];
        assert_eq!((samples.measured, samples.latency.len()), (7, 7));
    }
}
