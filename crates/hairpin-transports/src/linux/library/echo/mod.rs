//! Echo servers for clients that are not Hairpin's. Each connection has a thread, and limits of size, rate and idle time.

#[cfg(feature = "http")]
mod http;
mod limits;
#[cfg(feature = "quic")]
mod quic;
#[cfg(feature = "websocket")]
mod websocket;

use std::io;
use std::net::SocketAddr;

#[cfg(any(feature = "http", feature = "websocket"))]
use limits::listen;
pub use limits::{EchoServer, Rules};

use crate::transports::ECHO_FLAGS;

/// An echo server: its flag on the command line, what it serves, and the feature that it needs.
#[derive(Clone, Copy, Debug)]
pub struct EchoProtocol {
    pub flag: &'static str,
    pub help: &'static str,
    pub feature: &'static str,
}

impl EchoProtocol {
    pub const ALL: &'static [Self] = &[
        Self {
            flag: "http",
            help: "Echo requests over HTTP/1.1 and HTTP/2 (prior knowledge), without encryption, for clients other than Hairpin",
            feature: "http",
        },
        Self {
            flag: ECHO_FLAGS[0],
            help: "Echo the messages of gRPC calls, of any method, without encryption",
            feature: "http",
        },
        Self { flag: ECHO_FLAGS[1], help: "Echo WebSocket messages, without encryption", feature: ECHO_FLAGS[1] },
        Self {
            flag: ECHO_FLAGS[2],
            help: "Echo QUIC streams and datagrams (ALPN hairpin-echo, hq-interop), with a certificate made at the start",
            feature: ECHO_FLAGS[2],
        },
    ];

    /// Starts the server in threads of its own.
    ///
    /// # Errors
    /// The address cannot be bound; of kind `Unsupported` if this build omits the protocol.
    pub fn start(&self, at: SocketAddr, rules: Rules) -> io::Result<EchoServer> {
        match (self.feature, at, rules) {
            #[cfg(feature = "http")]
            ("http", at, rules) => listen(at, rules, http::serve),
            #[cfg(feature = "websocket")]
            (feature, at, rules) if feature == ECHO_FLAGS[1] => listen(at, rules, websocket::serve),
            #[cfg(feature = "quic")]
            (feature, at, rules) if feature == ECHO_FLAGS[2] => quic::start(at, rules),
            (omitted, ..) => {
                let why =
                    format!("this build cannot; build Hairpin with `--features {omitted}`, or `--features full`");
                Err(io::Error::new(io::ErrorKind::Unsupported, why))
            }
        }
    }
}
