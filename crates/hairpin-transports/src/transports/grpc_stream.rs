//! gRPC over HTTP/2 and TCP with tonic. Each wire is one call with streams in both directions.

use hairpin_model::Card;
use hairpin_model::card::Library;

use super::grpc::{DEFAULTS_WITHOUT_TCP, GRPC};
use crate::library::grpc::{Calls, open};
use crate::wires::socket_transport::SocketTransport;

pub(super) const GRPC_STREAM: SocketTransport = SocketTransport {
    card: Card {
        name: "grpc-stream",
        summary: "gRPC over HTTP/2, TCP and IPv4 (tonic): streaming calls",
        library: match GRPC.card.library {
            Some(library) => Some(Library {
                message: "a message with one field of bytes in a streaming call; sent at once",
                stream: "one streaming call",
                ..library
            }),
            None => None,
        },
        ..GRPC.card
    },
    layer: Some(|connected| open(connected, Calls::Streaming)),
    foreign: None,
    ..GRPC
};

pub(super) const GRPC_STREAM_TLS: SocketTransport = GRPC_STREAM.over_tls(
    "grpc-stream-tls",
    "gRPC over HTTP/2, TLS 1.3, TCP and IPv4 (tonic, rustls): streaming calls",
    b"h2",
);

pub(super) const GRPC_STREAM_UNIX: SocketTransport = GRPC_STREAM.over_unix(
    "grpc-stream-unix",
    "gRPC over HTTP/2 and a Unix domain stream socket (tonic): streaming calls",
    DEFAULTS_WITHOUT_TCP,
);
