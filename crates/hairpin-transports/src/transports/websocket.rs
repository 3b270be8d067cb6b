//! WebSocket over TCP (RFC 6455) with tungstenite, blocking. A message is one binary frame, flushed at once; a client masks its
//! frames.

use std::io;

use bytes::Bytes;
use hairpin_model::card::Library;
use hairpin_model::trace::End;
use hairpin_model::{Card, RoughRoundTrip};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message};

use super::tcp::{LAYERED, TCP};
use crate::foreign::Scheme;
use crate::library::foreign::websocket;
use crate::library::identity::Identity;
use crate::library::websocket::{Peer, WebSocketSession};
use crate::wire::{Connection, TransportError};
use crate::wires::description::Connected;
use crate::wires::layer::{connection, handshake_failed};
use crate::wires::socket_transport::{Foreign, SocketTransport};

pub(super) const WEBSOCKET: SocketTransport = SocketTransport {
    card: Card {
        name: "websocket",
        summary: "WebSocket over TCP and IPv4 (tungstenite)",
        boundaries: true,
        max_message_bytes: MAX_MESSAGE_BYTES as u64,
        rough_round_trip: RoughRoundTrip { blocking_ns: 18_000, spinning_ns: 12_000 },
        library: Some(Library {
            name: "tungstenite",
            version: "0.30.0",
            message: "one binary frame, flushed at once; a client masks its frames",
            stream: "one connection",
            runtime: "none: it reads and writes the blocking socket; no timers",
            defaults: "read buffer 128 KiB; no compression; `nodelay` on",
            ..Library::UNNAMED
        }),
        ..LAYERED
    },
    layer: Some(open),
    foreign: Some(Foreign { schemes: SCHEMES, may_be_empty: false, open: websocket::open }),
    ..TCP
};

pub(super) const WEBSOCKET_TLS: SocketTransport =
    WEBSOCKET.over_tls("websocket-tls", "WebSocket over TLS 1.3, TCP and IPv4 (tungstenite, rustls)", b"http/1.1");

pub(super) const WEBSOCKET_UNIX: SocketTransport = WEBSOCKET.over_unix(
    "websocket-unix",
    "WebSocket over a Unix domain stream socket (tungstenite)",
    "read buffer 128 KiB; no compression",
);

const SCHEMES: &[Scheme] = &[
    Scheme { name: "ws", port: Some(80), is_encrypted: false, is_tcp: true },
    Scheme { name: "wss", port: Some(443), is_encrypted: true, is_tcp: true },
];

const MAX_MESSAGE_BYTES: usize = 16 << 20;

fn open(connected: Connected<'_>) -> Result<Box<dyn Connection>, TransportError> {
    let (name, encrypted) = (connected.transport.card.name, connected.transport.encrypted);
    let (setup, end) = (connected.setup, connected.end);
    let limit = Some(MAX_MESSAGE_BYTES);
    let config = WebSocketConfig::default().max_message_size(limit).max_frame_size(limit);
    connected.set_nodelay()?;
    let mut io = connected.into_io();
    if let Some(protocol) = encrypted {
        let encrypted =
            Identity::of(setup, &[protocol]).and_then(|own| own.on_shaken(end, io.encrypt(own.begin(end)?)?));
        encrypted.map_err(|source| handshake_failed("TLS", setup, source))?;
    }
    let socket = match end {
        End::Client => {
            let client = tungstenite::client::client_with_config("ws://hairpin.invalid/", io, Some(config));
            client.map(|(socket, _)| socket).map_err(|error| error.to_string())
        }
        End::Server => tungstenite::accept_with_config(io, Some(config)).map_err(|error| error.to_string()),
    };
    let socket = socket.map_err(|error| handshake_failed("WebSocket", setup, io::Error::other(error)))?;
    let mask_bytes = if end == End::Server { 4 } else { 0 };
    connection(name, setup, WebSocketSession::new(socket, OwnPeer { taken: 0, mask_bytes }))
}

struct OwnPeer {
    /// Bytes of the received frames, or fewer.
    taken: u64,
    mask_bytes: usize,
}

impl Peer for OwnPeer {
    fn on_message(&mut self, message: Message) -> io::Result<Option<Bytes>> {
        match message {
            Message::Binary(message) => {
                let length_bytes = match message.len() {
                    0..=125 => 2,
                    126..=0xffff => 4,
                    _ => 10,
                };
                self.taken += (length_bytes + self.mask_bytes + message.len()) as u64;
                Ok(Some(message))
            }
            // The library answers pings itself.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => Ok(None),
            _ => Err(io::Error::other("the other end sent a message that is not binary")),
        }
    }

    fn may_have_more(&self, received: u64) -> bool {
        received > self.taken
    }

    fn ended(error: Error) -> io::Result<()> {
        match error {
            Error::ConnectionClosed | Error::AlreadyClosed => Ok(()),
            Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => Ok(()),
            Error::Io(error) => Err(error),
            error => Err(io::Error::other(error)),
        }
    }
}
