//! Derives the exchanges of a traced round: the segments of their writes, how long each waited and why, and the time
//! sequence of one exchange.
//!
//! The cause of a wait is derived from evidence, never from its length: unacknowledged data, system calls, granted
//! options, arrival times. Without evidence, the cause is `Unexplained`.

mod direction;
mod exchange;
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
    Capture, Effective, Exchange, Outcome, Remedy, RoundRecord, RoundTrace, TraceFigures, fact, fact_names,
};

use direction::Direction;
use reading::Reading;
use sending::Sending;

pub(crate) use sending::switch;
pub(crate) use summary::summary;

/// Computes the figures of a round's trace. `client` and `server` are the options granted to the ends; `exchange`
/// describes the case's exchanges and is `None` for an open loop of messages.
pub fn trace_figures(
    trace: &RoundTrace,
    exchange: Option<&Exchange>,
    client: &[Effective],
    server: &[Effective],
) -> TraceFigures {
    let of_both = trace;
    let of_client = of_both.server_has_own_clock.then(|| own_clock::client_only(of_both));
    let trace = of_client.as_ref().unwrap_or(of_both);
    let source = source(trace);
    let [mut out, mut back] = [End::Client, End::Server].map(|from| Direction::new(trace, source, from));
    if of_client.is_some() {
        out.set_sender_only(own_clock::min_round_trip_ns(trace, &out));
    }
    out.classify_acks(&back.segments, trace.clock_error_ns);
    back.classify_acks(&out.segments, trace.clock_error_ns);
    let more = exchange.is_some_and(|exchange| exchange.remedy == Remedy::More).then_some(trace.request_bytes);
    let sending = [Sending::new(&trace.client.calls, client, more), Sending::new(&trace.server.calls, server, None)];
    let autocorked = autocorked(trace);
    let reading =
        Reading { trace, source, directions: [out, back], sending, autocorked, is_open_loop: exchange.is_none() };
    let waits = reading.waits();
    let mut exchanges = reading.extents().map(|extent| reading.traced_exchange(&extent, &waits)).collect::<Vec<_>>();
    if of_client.is_some() {
        let numbered = (0..).zip(&mut exchanges);
        numbered.for_each(|(number, exchange)| exchange.at_server_ns = own_clock::at_server_ns(of_both, number));
    }
    let sequence = reading.sequence(&exchanges, &waits);
    TraceFigures { exchanges, sequence, autocorked, capture: trace.capture.clone() }
}

/// Adds the figures of the trace to a measured round.
pub fn traced(record: &mut RoundRecord, trace: &RoundTrace) {
    if let Outcome::Measured(measured) = &mut record.outcome {
        let server = measured.server().map_or(&[][..], |end| &end.options);
        let exchange = record.order.case.primary().load.exchange();
        measured.traced = Some(trace_figures(trace, exchange, &measured.client().options, server));
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
