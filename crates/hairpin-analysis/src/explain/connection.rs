//! A connection with the states of its exchanges.

use std::borrow::Cow;

use hairpin_model::exchange_state::{ExchangeState, StateSpan};
use hairpin_model::observed::ObservedConnection;
use hairpin_model::trace::End;
use hairpin_model::{Actor, EndTrace, Fact, Packet, RoundTrace, SocketSample, TimeSequence, fact_names};

use super::exchanges::{exchanges, exchanges_of_samples};
use super::vantage::{Vantage, at_both_ends};
use crate::trace::{Extent, states_of_exchanges};

/// Maximum number of exchanges of a connection whose states are computed: the first ones.
const MAX_EXCHANGES: usize = 20_000;

/// Acknowledgments of an exchange arrive until this time after it.
const AFTER_NS: u64 = 1_000_000_000;

/// `tcpi_min_rtt` before the first measurement (`~0U` us).
const UNKNOWN_RTT_NS: u64 = u32::MAX as u64 * 1_000;

/// A connection. Its packets have times at both ends.
pub(super) struct Connection {
    pub(super) observed: ObservedConnection,
    pub(super) vantage: Vantage,
    pub(super) exchanges: Vec<Exchange>,
    /// Number of exchanges whose states were not computed.
    pub(super) skipped: usize,
    pub(super) opening: Opening,
    /// Payload of the client, and of the server.
    pub(super) bytes: [u64; 2],
}

/// An exchange, with its states.
pub(super) struct Exchange {
    /// Its place in its connection, from 0.
    pub(super) place: usize,
    pub(super) extent: Extent,
    pub(super) spans: Vec<StateSpan>,
    /// Time since the exchange before ended, or since the connection was open.
    pub(super) idle_before_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// How often the client, and the server, sent its first packet.
    pub(super) syns: [u64; 2],
    /// How often the server sent its first packet again after the client had acknowledged it.
    pub(super) syns_after_ack: u64,
    /// When the client sent its first packet, and when the first one that was answered.
    pub(super) began_ns: u64,
    pub(super) answered_from_ns: u64,
    /// When the server's answer arrived; `None` without one.
    pub(super) ended_ns: Option<u64>,
}

impl Opening {
    /// Time until the client may send, in ns.
    pub(super) fn took_ns(&self) -> Option<u64> {
        self.ended_ns.map(|ended_ns| ended_ns.saturating_sub(self.began_ns))
    }

    /// The part of it in which packets were lost.
    pub(super) fn lost_ns(&self) -> u64 {
        self.answered_from_ns.saturating_sub(self.began_ns)
    }

    fn of(packets: &[Packet]) -> Self {
        let mut opening = Self::default();
        let mut acked = false;
        for packet in packets {
            let sender = usize::from(packet.from == End::Server);
            if packet.syn {
                opening.syns[sender] += 1;
                if sender == 0 {
                    if opening.syns[0] == 1 {
                        opening.began_ns = packet.at_ns;
                    }
                    if opening.ended_ns.is_none() {
                        opening.answered_from_ns = packet.at_ns;
                    }
                } else {
                    opening.ended_ns = opening.ended_ns.or(Some(packet.arrived_ns.unwrap_or(packet.at_ns)));
                    opening.syns_after_ack += u64::from(acked);
                }
            }
            acked |= sender == 0 && !packet.syn && packet.ack_byte.is_some() && opening.syns[1] > 0;
            if packet.end_byte > packet.first_byte && sender == 1 {
                break;
            }
        }
        opening
    }
}

impl Exchange {
    pub(super) fn duration_ns(&self) -> u64 {
        self.extent.ended_ns.saturating_sub(self.extent.began_ns)
    }

    /// Whether it has a request and an answer.
    pub(super) fn is_complete(&self) -> bool {
        !self.extent.request.is_empty() && !self.extent.reply.is_empty()
    }

    pub(super) fn request_bytes(&self) -> u64 {
        self.extent.request.end - self.extent.request.start
    }

    pub(super) fn reply_bytes(&self) -> u64 {
        self.extent.reply.end - self.extent.reply.start
    }

    pub(super) fn spans_in<'e>(&'e self, states: &'e [ExchangeState]) -> impl Iterator<Item = &'e StateSpan> {
        self.spans.iter().filter(|span| states.contains(&span.state))
    }

    pub(super) fn ns_in(&self, states: &[ExchangeState]) -> u64 {
        self.spans_in(states).map(|span| span.until_ns - span.from_ns).sum()
    }

    /// Who must act for most of the time in these states.
    pub(super) fn actor_in(&self, states: &[ExchangeState]) -> Option<Actor> {
        self.spans_in(states).max_by_key(|span| span.until_ns - span.from_ns).map(|span| span.who)
    }
}

/// The trace; without what follows these exchanges if many others are `skipped`, which would take much memory.
fn begun<'t>(trace: &'t RoundTrace, extents: &[Extent], skipped: usize) -> Cow<'t, RoundTrace> {
    let Some(last) = extents.last().filter(|_| skipped > 0) else { return Cow::Borrowed(trace) };
    let until_ns = last.ended_ns.saturating_add(AFTER_NS);
    let end = trace.packets.partition_point(|packet| packet.at_ns <= until_ns);
    Cow::Owned(RoundTrace {
        packets: trace.packets[..end].to_vec(),
        client: trace.client.clone(),
        server: trace.server.clone(),
        capture: trace.capture.clone(),
        ..RoundTrace::default()
    })
}

impl Connection {
    pub(super) fn new(mut observed: ObservedConnection) -> Self {
        let trace = &mut observed.trace;
        let shortest_ns = [&trace.client, &trace.server].map(|end| {
            end.samples.iter().map(|sample| sample.min_rtt_ns).filter(|ns| *ns > 0 && *ns < UNKNOWN_RTT_NS).min()
        });
        let vantage = at_both_ends(&mut trace.packets, shortest_ns);
        for end in [&mut trace.client, &mut trace.server] {
            let mss_bytes = observed.mss_bytes.map(|bytes| Fact::number(fact_names::SND_MSS_BYTES, bytes as f64));
            *end = EndTrace { before: mss_bytes.into_iter().collect(), ..std::mem::take(end) };
            end.samples.iter_mut().for_each(|sample| sample.at_ns += vantage.later_ns);
        }
        let mut found =
            if trace.packets.is_empty() { exchanges_of_samples(trace) } else { exchanges(&trace.packets) };
        let skipped = found.len().saturating_sub(MAX_EXCHANGES);
        found.truncate(MAX_EXCHANGES);
        let (spans, _) = states_of_exchanges(&begun(trace, &found, skipped), &found, None);
        let opening = Opening::of(&trace.packets);
        let mut before_ns = opening.ended_ns;
        let exchange = |(place, (extent, spans)): (usize, (Extent, Vec<StateSpan>))| {
            let idle_before_ns = before_ns.map_or(0, |before_ns| extent.began_ns.saturating_sub(before_ns));
            before_ns = Some(extent.ended_ns);
            Exchange { place, extent, spans, idle_before_ns }
        };
        let exchanges: Vec<Exchange> = found.into_iter().zip(spans).enumerate().map(exchange).collect();
        let bytes = [End::Client, End::Server].map(|from| {
            let of_end = trace.packets.iter().filter(|packet| packet.from == from);
            of_end.map(|packet| packet.end_byte).max().unwrap_or_else(|| {
                let last = exchanges.last().map_or(&(0..0), |exchange: &Exchange| exchange.extent.bytes(from));
                last.end
            })
        });
        Self { vantage, exchanges, skipped, opening, bytes, observed }
    }

    pub(super) fn sequence(&self, exchange: &Exchange) -> Option<TimeSequence> {
        let extents = std::slice::from_ref(&exchange.extent);
        let trace = begun(&self.observed.trace, extents, self.skipped);
        states_of_exchanges(&trace, extents, Some(0)).1
    }

    pub(super) fn samples(&self, end: End) -> &[SocketSample] {
        let trace = &self.observed.trace;
        if end == End::Client { &trace.client.samples } else { &trace.server.samples }
    }

    /// The payload of the largest packet of an end in an exchange, in bytes.
    pub(super) fn largest_packet(&self, exchange: &Exchange, from: End) -> u64 {
        let sent = self.sent_within(from, exchange.extent.began_ns, exchange.extent.ended_ns);
        sent.map(|packet| packet.end_byte - packet.first_byte).max().unwrap_or(0)
    }

    pub(super) fn longest(&self) -> Option<(&Self, &Exchange)> {
        self.exchanges.iter().max_by_key(|exchange| exchange.duration_ns()).map(|exchange| (self, exchange))
    }

    pub(super) fn packets(&self) -> &[Packet] {
        &self.observed.trace.packets
    }

    /// The largest payload of a segment: by the handshake, else the largest one that was seen.
    pub(super) fn mss_bytes(&self) -> u64 {
        let seen = || self.packets().iter().map(|packet| packet.end_byte - packet.first_byte).max();
        self.observed.mss_bytes.or_else(seen).unwrap_or(0)
    }

    /// Packets of `from` with payload that left during these times, in ns since the capture began.
    pub(super) fn sent_within(&self, from: End, from_ns: u64, until_ns: u64) -> impl Iterator<Item = &Packet> {
        let packets = self.packets();
        let first = packets.partition_point(|packet| packet.at_ns < from_ns);
        let within = packets[first..].iter().take_while(move |packet| packet.at_ns <= until_ns);
        within.filter(move |packet| packet.from == from && packet.end_byte > packet.first_byte)
    }
}
