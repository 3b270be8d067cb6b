//! Requests to a QUIC server that is not Hairpin's: each is a bidirectional stream, and what the server sends until the end of
//! that stream is the answer.

use std::sync::Arc;

use hairpin_model::trace::End;
use hairpin_model::{CodeOf, FailureKind};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectionError, ReadError, WriteError};

use super::tls;
use crate::foreign::{ForeignServer, MAX_ANSWER_BYTES, Refusal, shown};
use crate::library::mailbox::Mailbox;
use crate::library::port::{Driven, Form};
use crate::library::quic::{MAX_READ_BYTES, PROTOCOL, driven, transport_config};
use crate::library::quic_io::new_endpoint;
use crate::library::runtime::Runtime;
use crate::linux::wires::description::Connected;
use crate::wire::{Connection, Setup, TransportError, Wire};
use crate::wires::{failed, second_wire};

pub(crate) fn open(
    connected: Connected<'_>,
    server: &Arc<ForeignServer>,
) -> Result<Box<dyn Connection>, TransportError> {
    let setup = connected.setup.clone();
    let error = |source| failed("set up QUIC with", "the server", source, "");
    let peer = connected.socket.peer_addr().map_err(error)?;
    let peer = peer.as_socket().ok_or_else(|| error(std::io::ErrorKind::InvalidInput.into()))?;
    let protocol = server.url.parameter("alpn").map_or(PROTOCOL, str::as_bytes);
    let crypto = server.tls(&[protocol]).map(QuicClientConfig::try_from).transpose();
    let crypto = crypto.map_err(|source| error(std::io::Error::other(source)))?;
    let crypto = crypto.ok_or_else(|| error(std::io::ErrorKind::Unsupported.into()))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    let mut runtime = Runtime::new(connected.socket.try_clone().map_err(error)?);
    let (transport, chosen) = transport_config(&setup, End::Client, &runtime.handle()).map_err(error)?;
    config.transport_config(transport);
    let (endpoint, traffic) = new_endpoint(&runtime.handle(), None, None).map_err(error)?;
    let (name, timeout) = (server.url.host.clone(), setup.opening_timeout());
    let connecting = async move {
        let connecting = endpoint.connect_with(config, peer, &name);
        let connecting = connecting.map_err(|error| Refusal::unexpected(error.to_string(), "use the host's name"))?;
        Ok((connecting.await.map_err(|error| refusal(&error))?, endpoint))
    };
    let opened = runtime.complete(connecting, timeout).map_err(error)?;
    let opened: Result<_, Refusal> =
        opened.ok_or_else(|| traffic.unanswered(connected.transport.card.name, peer, timeout))?;
    let (connection, endpoint) = opened?;
    let driven = driven(runtime, connected, &connection, endpoint, chosen);
    Ok(Box::new(ForeignQuic { driven, connection, server: Arc::clone(server), is_open: false, setup }))
}

struct ForeignQuic {
    driven: Arc<Driven>,
    connection: quinn::Connection,
    server: Arc<ForeignServer>,
    is_open: bool,
    setup: Setup,
}

impl Connection for ForeignQuic {
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        if std::mem::replace(&mut self.is_open, true) {
            return Err(second_wire(self.driven.transport.card.name));
        }
        let mailbox = Mailbox::default();
        let (connection, server, requests) = (self.connection.clone(), Arc::clone(&self.server), mailbox.clone());
        self.driven.handle().spawn(Box::pin(async move {
            if let Err(refusal) = request_each(&connection, &server, &requests).await {
                requests.on_refused(refusal);
            }
        }));
        self.driven.wire(mailbox, Form::Messages, usize::MAX, &self.setup)
    }

    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        Err(second_wire(self.driven.transport.card.name))
    }
}

async fn request_each(
    connection: &quinn::Connection,
    server: &ForeignServer,
    mailbox: &Mailbox,
) -> Result<(), Refusal> {
    while let Some(message) = mailbox.outgoing().await {
        let (mut send, mut receive) = connection.open_bi().await.map_err(|error| refusal(&error))?;
        send.write_chunk(message.clone()).await.map_err(|error| not_written(&error))?;
        drop(send.finish());
        let mut bytes = 0;
        while let Some(chunk) = receive.read_chunk(MAX_READ_BYTES, true).await.map_err(|error| not_read(&error))? {
            bytes += chunk.bytes.len() as u64;
            if bytes > MAX_ANSWER_BYTES {
                return Err(Refusal::too_long());
            }
        }
        server.count_answer(bytes);
        if mailbox.room().await {
            mailbox.deliver_or_drop(message);
        }
    }
    mailbox.on_all_sent();
    Ok(())
}

fn not_written(error: &WriteError) -> Refusal {
    match error {
        WriteError::ConnectionLost(error) => refusal(error),
        WriteError::Stopped(code) => with_code(code.into_inner(), "the server stopped a stream"),
        error => Refusal::unexpected(error.to_string(), ""),
    }
}

fn not_read(error: &ReadError) -> Refusal {
    match error {
        ReadError::ConnectionLost(error) => refusal(error),
        ReadError::Reset(code) => with_code(code.into_inner(), "the server reset a stream"),
        error => Refusal::unexpected(error.to_string(), ""),
    }
}

fn with_code(code: u64, what: &str) -> Refusal {
    let cause = format!("{what} with the error {code:#x}");
    Refusal::with_code(CodeOf::QuicError, code, cause, "does it echo each stream? ?alpn=NAME chooses a protocol")
}

/// Why a connection ended.
fn refusal(error: &ConnectionError) -> Refusal {
    match error {
        ConnectionError::ConnectionClosed(close) => {
            let code = u64::from(close.error_code);
            // RFC 9001, section 4.8.
            match u8::try_from(code.wrapping_sub(0x100)) {
                Ok(alert) => tls::refusal(&rustls::Error::AlertReceived(alert.into())),
                Err(_) => {
                    let why = shown(&String::from_utf8_lossy(&close.reason));
                    with_code(code, &format!("the server closed the connection ({why})"))
                }
            }
        }
        ConnectionError::ApplicationClosed(close) => {
            let why = shown(&String::from_utf8_lossy(&close.reason));
            with_code(close.error_code.into_inner(), &format!("the server closed the connection ({why})"))
        }
        ConnectionError::VersionMismatch => {
            let cause =
                "the server answered with a Version Negotiation packet: it does not have QUIC version 1 (RFC 9000)";
            Refusal::new(FailureKind::Unsupported, cause, "update the server")
        }
        ConnectionError::TimedOut => Refusal::new(FailureKind::TimedOut, "the server stopped answering", ""),
        ConnectionError::Reset => Refusal::closed(),
        error => Refusal::new(FailureKind::Refused, format!("QUIC failed: {error}"), "--ca FILE names the authority"),
    }
}
