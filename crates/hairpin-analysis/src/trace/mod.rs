//! Derives the exchanges of a traced round: the segments of their writes, how long each waited and why, the states of
//! each exchange, and the time sequence of one.
//!
//! The cause of a wait is derived from evidence, never from its length: unacknowledged data, system calls, granted
//! options, arrival times. Without evidence, the cause is `Unexplained`.

mod direction;
mod exchange;
mod exchange_states;
mod hold;
mod own_clock;
mod reading;
mod sending;
mod sequence;
mod summary;
#[cfg(test)]
mod tests;

use hairpin_model::time_sequence::Source;
use hairpin_model::trace::End;
use hairpin_model::{
    Capture, Effective, EndReport, Exchange, Outcome, Remedy, RoundRecord, RoundTrace, StateSpan, TimeSequence,
    TraceFigures, TracedExchange, fact, fact_names,
};

use direction::Direction;
use exchange_states::{States, separate_cpu_waits};
use reading::Reading;
use sending::Sending;

pub(crate) use exchange::Extent;
pub(crate) use exchange_states::times_in_states;
pub(crate) use sending::switch;
pub(crate) use summary::summary;

/// What is known of an end in addition to its trace: the granted options, and the time that it waited for a CPU during the
/// exchanges, in ns.
pub type AtEnd<'a> = (&'a [Effective], Option<u64>);

/// Computes the figures of a round's trace from whatever evidence it holds. `exchange` describes the case's exchanges and
/// is `None` for an open loop of messages.
pub fn trace_figures(
    trace: &RoundTrace,
    exchange: Option<&Exchange>,
    client: AtEnd<'_>,
    server: AtEnd<'_>,
) -> TraceFigures {
    let of_both = trace;
    let of_client = of_both.server_has_own_clock.then(|| own_clock::client_only(of_both));
    let trace = of_client.as_ref().unwrap_or(of_both);
    let source = source(trace);
    let [mut out, mut back] = [End::Client, End::Server].map(|from| Direction::new(trace, source, from));
    if of_client.is_some() {
        let min_round_trip_ns = own_clock::min_round_trip_ns(trace, &out);
        out.set_sender_only(min_round_trip_ns);
        back.release_ns = min_round_trip_ns;
    }
    out.classify_acks(back.segments(), trace.clock_error_ns);
    back.classify_acks(out.segments(), trace.clock_error_ns);
    let more = exchange.is_some_and(|exchange| exchange.remedy == Remedy::More).then_some(trace.request_bytes);
    let sending = [Sending::new(&trace.client, client.0, more), Sending::new(&trace.server, server.0, None)];
    let autocorked = autocorked(trace);
    let reading = Reading {
        trace,
        source,
        directions: [out, back],
        sending,
        autocorked,
        is_open_loop: exchange.is_none(),
        is_foreign: false,
    };
    let waits = reading.waits();
    let states = States::new(&reading, &waits);
    let (mut exchanges, mut spans) = (Vec::new(), Vec::new());
    for (number, extent) in (0..).zip(reading.extents()) {
        let at_server_ns = of_client.as_ref().and_then(|_| own_clock::at_server_ns(of_both, number));
        spans.push(states.of(&extent, at_server_ns));
        exchanges.push(TracedExchange { at_server_ns, ..reading.traced_exchange(&extent, &waits) });
    }
    separate_cpu_waits(&mut spans, End::Client, client.1);
    separate_cpu_waits(&mut spans, End::Server, server.1);
    let time = |span: &StateSpan| (span.state, span.who, (span.until_ns - span.from_ns) as f64);
    let states = times_in_states(spans.iter().flatten().map(time), exchanges.len() as u64);
    let sequence = reading.typical_sequence(&exchanges, &waits, spans);
    TraceFigures { exchanges, sequence, autocorked, capture: trace.capture.clone(), states }
}

/// Returns the states of exchanges of a program that Hairpin did not write, and the time sequence of the one with the number
/// `drawn`.
pub(crate) fn states_of_exchanges(
    trace: &RoundTrace,
    extents: &[Extent],
    drawn: Option<usize>,
) -> (Vec<Vec<StateSpan>>, Option<TimeSequence>) {
    let source = source(trace);
    let directions = [End::Client, End::Server].map(|from| Direction::new(trace, source, from));
    let sending = [&trace.client, &trace.server].map(|end| Sending::new(end, &[], None));
    let reading =
        Reading { trace, source, directions, sending, autocorked: None, is_open_loop: false, is_foreign: true };
    let waits = reading.waits();
    let states = States::new(&reading, &waits);
    let spans: Vec<Vec<StateSpan>> = extents.iter().map(|extent| states.of(extent, None)).collect();
    let sequence =
        drawn.and_then(|place| Some(reading.sequence(place, extents.get(place)?, &waits, spans.get(place)?.clone())));
    (spans, sequence)
}

/// Adds the figures of the trace to a measured round.
pub fn traced(record: &mut RoundRecord, trace: &RoundTrace) {
    if let Outcome::Measured(measured) = &mut record.outcome {
        let [client, server] = [Some(measured.client()), measured.server()].map(|end| {
            end.map_or((&[][..], None), |end: &EndReport| (end.options.as_slice(), end.waited_for_cpu_ns))
        });
        let exchange = record.order.case.primary().load.exchange();
        measured.traced = Some(trace_figures(trace, exchange, client, server));
    }
}

/// Selects the captured packets, which are more precise than kernel timestamps, unless the capture dropped some.
fn source(trace: &RoundTrace) -> Source {
    let complete = !matches!(trace.capture, Capture::Saved { dropped, .. } if dropped > 0);
    if trace.packets.is_empty() || !complete { Source::KernelTimestamps } else { Source::Capture }
}

fn autocorked(trace: &RoundTrace) -> Option<u64> {
    // The kernel increments this counter when it holds a write for autocorking (net/ipv4/tcp.c, `tcp_push`).
    let counted = |facts| fact::number(facts, fact_names::AUTOCORKING);
    let grown = counted(&trace.client.after)? - counted(&trace.client.before)?;
    // A non-negative count.
    (grown >= 0.0).then_some(grown as u64)
}
