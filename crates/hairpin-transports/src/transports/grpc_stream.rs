//! gRPC over HTTP/2 and TCP with tonic. Each wire is one call with streams in both directions.

use hairpin_model::Card;
use hairpin_model::card::Library;

use super::grpc::GRPC;
use crate::library::grpc::{Calls, open};
use crate::wires::socket_transport::SocketTransport;

/// `grpc-stream`.
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
