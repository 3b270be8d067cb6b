//! TLS 1.3 over TCP (RFC 8446) with rustls. One record for each send, of at most 16 KiB of data.

use std::io::{self, Read, Write};

use hairpin_model::card::Library;
use hairpin_model::flow::Opening;
use hairpin_model::{Card, RoughRoundTrip};
use rustls::Connection as Tls;

use super::tcp::{LAYERED, TCP};
use crate::library::identity::Identity;
use crate::wire::{Connection, TransportError};
use crate::wires::description::Connected;
use crate::wires::failed;
use crate::wires::layer::{Io, Session, connection, handshake_failed};
use crate::wires::socket_transport::SocketTransport;

pub(super) const TLS: SocketTransport = SocketTransport {
    card: Card {
        name: "tls",
        summary: "TLS 1.3 over TCP and IPv4 (rustls)",
        rough_round_trip: RoughRoundTrip { blocking_ns: 18_000, spinning_ns: 12_000 },
        library: Some(Library {
            name: "rustls",
            version: "0.23.46",
            message: "the records of one send, each with up to 16 KiB, sent at once",
            stream: "one connection",
            runtime: "none: it reads and writes the blocking socket; no timers",
            defaults: "TLS 1.3, AES-256-GCM with ring, an Ed25519 certificate; no session tickets; Nagle's algorithm on",
            is_encrypted: true,
            openings: &[Opening::Cold, Opening::Resumed],
            ..Library::UNNAMED
        }),
        ..LAYERED
    },
    layer: Some(open),
    ..TCP
};

#[cfg(any(feature = "http", feature = "websocket"))]
impl SocketTransport {
    /// This protocol over TLS, with its name in the handshake (ALPN).
    pub(super) const fn over_tls(self, name: &'static str, summary: &'static str, protocol: &'static [u8]) -> Self {
        let library = match (self.card.library, TLS.card.library) {
            (Some(own), Some(Library { is_encrypted, openings, .. })) => {
                Some(Library { is_encrypted, openings, ..own })
            }
            (own, _) => own,
        };
        Self { card: Card { name, summary, library, ..self.card }, encrypted: Some(protocol), foreign: None, ..self }
    }
}

fn open(connected: Connected<'_>) -> Result<Box<dyn Connection>, TransportError> {
    let (name, setup, end) = (connected.transport.card.name, connected.setup, connected.end);
    let error = |source| failed("set up TLS for", "a connection", source, "");
    let identity = Identity::of(setup, &[]).map_err(error)?;
    let mut tls = identity.begin(end).map_err(error)?;
    let mut io = connected.into_io();
    let handshake = tls.complete_io(&mut io);
    handshake.map_err(|source| handshake_failed("TLS", setup, source))?;
    identity.on_shaken(end, &tls).map_err(error)?;
    let stored = tls.process_new_packets().map(|state| state.plaintext_bytes_to_read()).unwrap_or(0);
    connection(name, setup, TlsSession { io, tls, stored })
}

struct TlsSession {
    io: Io,
    tls: Tls,
    /// Received bytes that the library holds.
    stored: usize,
}

impl Session for TlsSession {
    const IS_STREAM: bool = true;

    fn fill(&mut self) -> io::Result<bool> {
        while self.stored == 0 {
            if self.tls.read_tls(&mut self.io)? == 0 {
                return Ok(false);
            }
            let state = self.tls.process_new_packets().map_err(io::Error::other)?;
            self.stored = state.plaintext_bytes_to_read();
            if self.stored == 0 && state.peer_has_closed() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        if self.stored == 0 {
            return None;
        }
        let bytes = self.tls.reader().read(into).ok()?;
        self.stored -= bytes;
        Some(bytes)
    }

    fn has_stored(&self) -> bool {
        self.stored > 0
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tls.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.io)?;
        }
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    fn close(&mut self) {
        self.tls.send_close_notify();
    }

    fn io(&self) -> &Io {
        &self.io
    }

    fn io_mut(&mut self) -> &mut Io {
        &mut self.io
    }
}
