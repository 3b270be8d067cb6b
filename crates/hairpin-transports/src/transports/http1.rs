//! HTTP/1.1 over TCP (RFC 9112) with hyper.

use std::sync::Arc;

use hairpin_model::card::Library;
use hairpin_model::trace::End;
use hairpin_model::{Card, RoughRoundTrip};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response};

use super::tcp::{LAYERED, TCP};
use crate::foreign::{ForeignServer, Scheme};
use crate::library::foreign::http::{self as foreign, Requests, Version};
use crate::library::http::{Outgoing, Sender, accept, connect};
use crate::wire::{Connection, TransportError};
use crate::wires::description::Connected;
use crate::wires::socket_transport::{Foreign, SocketTransport};

pub(super) const HTTP1: SocketTransport = SocketTransport {
    card: Card {
        name: "http1",
        summary: "HTTP/1.1 over TCP and IPv4 (hyper)",
        rough_round_trip: RoughRoundTrip { blocking_ns: 40_000, spinning_ns: 25_000 },
        library: Some(Library {
            name: "hyper",
            version: "1.12.0",
            message: "a POST request and its response; in a load without answers one chunk of a body; sent at once",
            stream: "one connection",
            runtime: "the end's own thread polls it and waits in poll(2); no timers",
            defaults: "`nodelay` on; read buffer of 8 KiB at first",
            ..Library::UNNAMED
        }),
        ..LAYERED
    },
    layer: Some(open),
    foreign: Some(Foreign { schemes: SCHEMES, may_be_empty: true, open: open_foreign }),
    ..TCP
};

pub(super) const HTTP1_TLS: SocketTransport =
    HTTP1.over_tls("http1-tls", "HTTP/1.1 over TLS 1.3, TCP and IPv4 (hyper, rustls)", b"http/1.1");

pub(super) const HTTP1_UNIX: SocketTransport = HTTP1.over_unix(
    "http1-unix",
    "HTTP/1.1 over a Unix domain stream socket (hyper)",
    "read buffer of 8 KiB at first",
);

pub(super) const SCHEMES: &[Scheme] = &[
    Scheme { name: "http", port: Some(80), is_encrypted: false, is_tcp: true },
    Scheme { name: "https", port: Some(443), is_encrypted: true, is_tcp: true },
];

/// Maximum bytes of the head of an answer, and of one read.
const MAX_HEAD_BYTES: usize = 32 << 10;

fn open_foreign(
    connected: Connected<'_>,
    server: &Arc<ForeignServer>,
) -> Result<Box<dyn Connection>, TransportError> {
    let handshake = |io, _| client::Builder::new().max_buf_size(MAX_HEAD_BYTES).handshake(io);
    foreign::connect(connected, server, Version::One, handshake, |sender, target| Requests { sender, target })
}

fn open(connected: Connected<'_>) -> Result<Box<dyn Connection>, TransportError> {
    match connected.end {
        End::Client => connect(connected, |io, _| client::handshake(io)),
        End::Server => accept::<SendRequest<Outgoing>, _>(connected, false, |io, _, service| {
            let service = service_fn(move |request| service.clone().answer(request));
            server::Builder::new().serve_connection(io, service)
        }),
    }
}

impl Sender for SendRequest<Outgoing> {
    fn another(&self) -> Option<Self> {
        None
    }

    async fn send(&mut self, request: Request<Outgoing>) -> Result<Response<Incoming>, hyper::Error> {
        self.ready().await?;
        self.send_request(request).await
    }
}
