//! HTTP/2 over TCP (RFC 9113) with hyper, with prior knowledge. Each wire is one stream, or one stream for each request.

use std::sync::Arc;

use hairpin_model::card::Library;
use hairpin_model::trace::End;
use hairpin_model::{Card, RoughRoundTrip};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use hyper::{Request, Response};

use super::http1::SCHEMES;
use super::tcp::{LAYERED, TCP};
use crate::foreign::ForeignServer;
use crate::library::foreign::http::{self as foreign, Requests, Version};
use crate::library::http::{Outgoing, Sender, accept, connect};
use crate::wire::{Connection, TransportError};
use crate::wires::description::Connected;
use crate::wires::socket_transport::{Foreign, SocketTransport};

pub(super) const HTTP2: SocketTransport = SocketTransport {
    card: Card {
        name: "http2",
        summary: "HTTP/2 over TCP and IPv4 (hyper)",
        many_streams: true,
        rough_round_trip: RoughRoundTrip { blocking_ns: 60_000, spinning_ns: 40_000 },
        library: Some(Library {
            name: "hyper",
            version: "1.12.0",
            message: "a POST request and its response; in a load without answers the data of one send in a stream; sent at once",
            stream: "one HTTP/2 stream, or the requests of one client",
            runtime: "the end's own thread polls it and waits in poll(2); no timers",
            defaults: "windows of 5 MiB (client) and 1 MiB (server); frames of 16 KiB; no pings; `nodelay` on",
            ..Library::UNNAMED
        }),
        ..LAYERED
    },
    layer: Some(open),
    foreign: Some(Foreign { schemes: SCHEMES, may_be_empty: true, open: open_foreign }),
    ..TCP
};

pub(super) const HTTP2_TLS: SocketTransport =
    HTTP2.over_tls("http2-tls", "HTTP/2 over TLS 1.3, TCP and IPv4 (hyper, rustls)", b"h2");

pub(super) const HTTP2_UNIX: SocketTransport = HTTP2.over_unix(
    "http2-unix",
    "HTTP/2 over a Unix domain stream socket (hyper)",
    "windows of 5 MiB (client) and 1 MiB (server); frames of 16 KiB; no pings",
);

fn open_foreign(
    connected: Connected<'_>,
    server: &Arc<ForeignServer>,
) -> Result<Box<dyn Connection>, TransportError> {
    let handshake = |io, handle| Builder::new(handle).handshake(io);
    foreign::connect(connected, server, Version::Two, handshake, |sender, target| Requests { sender, target })
}

fn open(connected: Connected<'_>) -> Result<Box<dyn Connection>, TransportError> {
    match connected.end {
        End::Client => connect(connected, |io, handle| Builder::new(handle).handshake(io)),
        End::Server => accept::<SendRequest<Outgoing>, _>(connected, true, |io, handle, service| {
            let service = service_fn(move |request| service.clone().answer(request));
            server::Builder::new(handle).serve_connection(io, service)
        }),
    }
}

impl Sender for SendRequest<Outgoing> {
    fn another(&self) -> Option<Self> {
        Some(self.clone())
    }

    async fn send(&mut self, request: Request<Outgoing>) -> Result<Response<Incoming>, hyper::Error> {
        self.ready().await?;
        self.send_request(request).await
    }
}
