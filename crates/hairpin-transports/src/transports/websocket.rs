//! WebSocket over TCP (RFC 6455) with tungstenite, blocking. A message is one binary frame, flushed at once; a client masks its
//! frames.

use std::io;

use bytes::Bytes;
use hairpin_model::card::Library;
use hairpin_model::trace::End;
use hairpin_model::{Card, RoughRoundTrip};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use super::tcp::{LAYERED, TCP};
use crate::foreign::Scheme;
use crate::library::foreign::websocket;
use crate::library::identity::Identity;
use crate::wire::{Connection, TransportError};
use crate::wires::layer::{Io, Session, connection, handshake_failed};
use crate::wires::socket_kind::Connected;
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
    let (kind, setup, end) = (connected.kind, connected.setup, connected.end);
    let limit = Some(MAX_MESSAGE_BYTES);
    let config = WebSocketConfig::default().max_message_size(limit).max_frame_size(limit);
    connected.set_nodelay()?;
    let mut io = connected.into_io();
    if let Some(protocol) = kind.encrypted {
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
    connection(&kind, setup, WebSocketSession { socket, next: None, taken: 0, mask_bytes, has_unsent: false })
}

struct WebSocketSession {
    socket: WebSocket<Io>,
    /// A message that the library had read together with an earlier one.
    next: Option<Bytes>,
    /// Bytes of the received frames, or fewer.
    taken: u64,
    mask_bytes: usize,
    has_unsent: bool,
}

impl WebSocketSession {
    fn read(&mut self) -> io::Result<bool> {
        loop {
            match self.socket.read() {
                Ok(Message::Binary(message)) => {
                    let length_bytes = match message.len() {
                        0..=125 => 2,
                        126..=0xffff => 4,
                        _ => 10,
                    };
                    self.taken += (length_bytes + self.mask_bytes + message.len()) as u64;
                    self.next = Some(message);
                    return Ok(true);
                }
                // The library answers pings itself.
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_)) => {}
                Ok(_) => return Err(io::Error::other("the other end sent a message that is not binary")),
                Err(error) => return ended(error).map(|()| false),
            }
        }
    }
}

/// Whether the other end has closed the connection; else the error.
fn ended(error: Error) -> io::Result<()> {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => Ok(()),
        Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => Ok(()),
        Error::Io(error) => Err(error),
        error => Err(io::Error::other(error)),
    }
}

impl Session for WebSocketSession {
    const IS_STREAM: bool = false;

    fn fill(&mut self) -> io::Result<bool> {
        if self.next.is_some() {
            return Ok(true);
        }
        self.read()
    }

    fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        let message = self.next.take()?;
        let bytes = message.len().min(into.len());
        into[..bytes].copy_from_slice(&message[..bytes]);
        // Another frame may have arrived with this one. The library clears 128 KiB at each attempt to read.
        if self.io().received() > self.taken {
            self.io_mut().set_offline(true);
            drop(self.read());
            self.io_mut().set_offline(false);
        }
        Some(bytes)
    }

    fn has_stored(&self) -> bool {
        self.next.is_some()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.write(Message::Binary(Bytes::copy_from_slice(bytes))) {
            Ok(()) => {}
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(failure(error)),
        }
        self.has_unsent = true;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.has_unsent {
            self.socket.flush().map_err(failure)?;
            self.has_unsent = false;
        }
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        self.has_unsent
    }

    fn close(&mut self) {
        // Without an answer: the other end may not read.
        self.has_unsent |= self.socket.close(None).is_err();
    }

    fn io(&self) -> &Io {
        self.socket.get_ref()
    }

    fn io_mut(&mut self) -> &mut Io {
        self.socket.get_mut()
    }
}

fn failure(error: Error) -> io::Error {
    ended(error).err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
