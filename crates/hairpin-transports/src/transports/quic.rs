//! QUIC streams over UDP (RFC 9000) with quinn, on one connection for each client. Each wire is one bidirectional stream.

use hairpin_model::card::Library;
use hairpin_model::flow::Opening;
use hairpin_model::options::OptionName;
use hairpin_model::{Card, RoughRoundTrip, Waiting};

use super::udp::UDP;
use crate::foreign::Scheme;
use crate::library::foreign;
use crate::library::quic::{Carrier, open};
use crate::wires::socket_transport::{Foreign, SocketTransport};

pub(super) const QUIC: SocketTransport = SocketTransport {
    card: Card {
        name: "quic",
        summary: "QUIC streams over UDP and IPv4 (quinn)",
        ordered: true,
        reliable: true,
        boundaries: false,
        max_message_bytes: 1 << 30,
        min_mtu_bytes: MIN_MTU_BYTES,
        many_streams: true,
        in_survey: false,
        rough_round_trip: RoughRoundTrip { blocking_ns: 60_000, spinning_ns: 40_000 },
        options: OPTIONS,
        library: Some(LIBRARY),
        waitings: Waiting::BASIC,
        ..UDP.card
    },
    layer: Some(|connected| open(connected, Carrier::Streams)),
    foreign: Some(Foreign { schemes: SCHEMES, may_be_empty: false, open: foreign::quic::open }),
    ..UDP
};

const SCHEMES: &[Scheme] = &[Scheme { name: "quic", port: Some(443), is_encrypted: true, is_tcp: false }];

/// Datagrams of 1 200 B of payload (RFC 9000, section 14), with the headers of UDP and IPv4.
pub(super) const MIN_MTU_BYTES: u32 = 1_228;

pub(super) const OPTIONS: &[OptionName] =
    &[OptionName::Sndbuf, OptionName::Rcvbuf, OptionName::Congestion, OptionName::Priority, OptionName::Gso];

pub(super) const LIBRARY: Library = Library {
    name: "quinn",
    version: "0.11.12",
    message: "the bytes of one send, in STREAM frames, sent at once",
    stream: "one bidirectional stream",
    runtime: "the end's own thread polls it and waits in poll(2); timers for acknowledgments, losses and pacing",
    defaults: "GSO and GRO if the kernel has them; MTU discovery up to 1452 B; stream window 1.25 MB; no idle time-out; \
               100 streams or what the load needs",
    options: &[OptionName::Congestion, OptionName::Gso],
    congestion_controls: &["cubic", "newreno", "bbr"],
    is_encrypted: true,
    openings: &[Opening::Cold, Opening::Resumed, Opening::ZeroRtt],
};
