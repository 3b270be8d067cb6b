//! gRPC over HTTP/2 and TCP with tonic. Where messages are answered, each is a unary call, else each wire is one call with
//! streams in both directions.

use hairpin_model::card::Library;
use hairpin_model::{Card, RoughRoundTrip};

use super::tcp::{LAYERED, TCP};
use crate::foreign::Scheme;
use crate::library::foreign;
use crate::library::grpc::{Calls, open};
use crate::wires::socket_transport::{Foreign, SocketTransport};

pub(super) const GRPC: SocketTransport = SocketTransport {
    card: Card {
        name: "grpc",
        summary: "gRPC over HTTP/2, TCP and IPv4 (tonic): unary calls",
        boundaries: true,
        max_message_bytes: MAX_MESSAGE_BYTES,
        many_streams: true,
        rough_round_trip: RoughRoundTrip { blocking_ns: 80_000, spinning_ns: 60_000 },
        library: Some(Library {
            name: "tonic",
            version: "0.14.9",
            message: "a unary call with one field of bytes and its answer; in a load without answers a message of a streaming \
                      call; sent at once",
            stream: "one streaming call, or the unary calls of one client",
            runtime: "the end's own thread polls it and waits in poll(2); no timers",
            defaults: "hyper's windows of 5 MiB (client) and 1 MiB (server); no compression; `nodelay` on",
            ..Library::UNNAMED
        }),
        ..LAYERED
    },
    layer: Some(|connected| open(connected, Calls::Unary)),
    foreign: Some(Foreign { schemes: SCHEMES, may_be_empty: true, open: foreign::grpc::open }),
    ..TCP
};

pub(super) const GRPC_TLS: SocketTransport =
    GRPC.over_tls("grpc-tls", "gRPC over HTTP/2, TLS 1.3, TCP and IPv4 (tonic, rustls): unary calls", b"h2");

pub(super) const GRPC_UNIX: SocketTransport = GRPC.over_unix(
    "grpc-unix",
    "gRPC over HTTP/2 and a Unix domain stream socket (tonic): unary calls",
    DEFAULTS_WITHOUT_TCP,
);

pub(super) const DEFAULTS_WITHOUT_TCP: &str = "hyper's windows of 5 MiB (client) and 1 MiB (server); no compression";

const SCHEMES: &[Scheme] = &[
    Scheme { name: "grpc", port: Some(80), is_encrypted: false, is_tcp: true },
    Scheme { name: "grpcs", port: Some(443), is_encrypted: true, is_tcp: true },
];

/// What the library decodes by default is 4 MiB.
const MAX_MESSAGE_BYTES: u64 = (4 << 20) - 64;
