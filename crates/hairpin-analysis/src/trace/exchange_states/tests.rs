//! Artificial evidence in which the state of every exchange is known: complete, and in parts.

mod alone;
mod stalls;

use hairpin_model::exchange_state::{Actor, ExchangeState, StateSpan};
use hairpin_model::{Capture, Effective, Packet, RoundTrace, TraceFigures};

use crate::fixture::small_writes;
use crate::fixture::traces::switches;
use crate::trace::trace_figures;

/// Figures of an ordinary exchange, with these options at both ends and no wait for a CPU.
fn figures_with(trace: &RoundTrace, options: &[Effective]) -> TraceFigures {
    let end = (options, Some(0));
    trace_figures(trace, small_writes("default").primary().load.exchange(), end, end)
}

fn figures(trace: &RoundTrace) -> TraceFigures {
    figures_with(trace, &switches("off", "off"))
}

/// The spans of the drawn exchange, which must cover it exactly.
fn spans(figures: &TraceFigures) -> &[StateSpan] {
    let sequence = figures.sequence.as_ref().expect("an exchange ended");
    let mut at_ns = 0;
    for span in &sequence.states {
        assert!(span.from_ns == at_ns && span.until_ns > at_ns, "{:?}", sequence.states);
        at_ns = span.until_ns;
    }
    assert_eq!(i64::try_from(at_ns), Ok(sequence.duration_ns));
    &sequence.states
}

/// The time in a state in the drawn exchange, in ns.
fn in_state(figures: &TraceFigures, state: ExchangeState) -> u64 {
    let spans = spans(figures).iter().filter(|span| span.state == state);
    spans.map(|span| span.until_ns - span.from_ns).sum()
}

/// The state with the longest time over all exchanges, who must act, and its share in percent.
fn first(figures: &TraceFigures) -> (ExchangeState, Actor, u64) {
    let first = figures.states.first().expect("exchanges have states");
    let whole: f64 = figures.states.iter().map(|time| time.share).sum();
    assert!((whole - 1.0).abs() < 1e-9, "{:?}", figures.states);
    (first.state, first.who, (first.share * 100.0).round() as u64)
}

fn saved(packets: u64) -> Capture {
    Capture::Saved { file: String::new(), packets, dropped: 0 }
}

/// What the client alone can capture on a path whose packets the trace has with both times.
fn at_client(trace: &RoundTrace) -> RoundTrace {
    use hairpin_model::trace::End;
    let seen = |packet: &Packet| {
        let at_ns = if packet.from == End::Client { Some(packet.at_ns) } else { packet.arrived_ns };
        Some(Packet { at_ns: at_ns?, arrived_ns: None, ..*packet })
    };
    let mut packets: Vec<Packet> = trace.packets.iter().filter_map(seen).collect();
    packets.sort_by_key(|packet| packet.at_ns);
    RoundTrace {
        packets,
        server_has_own_clock: true,
        client: Default::default(),
        server: Default::default(),
        ..trace.clone()
    }
}
