//! Messages to a WebSocket server that is not Hairpin's. The next message that the server sends is the answer, whatever it is.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use hairpin_model::CodeOf;
use rustls::ClientConnection;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message};

use super::tls;
use crate::foreign::{ForeignServer, MAX_ANSWER_BYTES, Refusal, shown};
use crate::library::websocket::{Peer, WebSocketSession};
use crate::linux::wires::description::Connected;
use crate::linux::wires::layer::{connection, handshake_failed};
use crate::wire::{Connection, TransportError};

pub(crate) fn open(
    connected: Connected<'_>,
    server: &Arc<ForeignServer>,
) -> Result<Box<dyn Connection>, TransportError> {
    connected.set_nodelay()?;
    let (name, setup) = (connected.transport.card.name, connected.setup);
    let limit = usize::try_from(MAX_ANSWER_BYTES).ok();
    let config = WebSocketConfig::default().max_message_size(limit).max_frame_size(limit);
    let failed = |error: io::Error| match tls::refusal_in(&error) {
        Some(refusal) => refusal.into(),
        None => handshake_failed("WebSocket", setup, error),
    };
    let mut io = connected.into_io();
    if let Some(config) = server.tls(&[b"http/1.1"]) {
        let tls = ClientConnection::new(config, server.name()?).map_err(|error| tls::refusal(&error))?;
        io.encrypt(tls.into()).map_err(failed)?;
    }
    let shaken = tungstenite::client::client_with_config(server.url.to_string(), io, Some(config));
    let (socket, _) = shaken.map_err(|error| match error {
        tungstenite::HandshakeError::Failure(error) => failed(as_io(error)),
        tungstenite::HandshakeError::Interrupted(_) => failed(io::ErrorKind::TimedOut.into()),
    })?;
    let peer = ForeignPeer { server: Arc::clone(server), waiting: VecDeque::new() };
    connection(name, setup, WebSocketSession::new(socket, peer))
}

fn as_io(error: Error) -> io::Error {
    let refusal = match error {
        Error::Io(error) => return tls::refusal_in(&error).map_or(error, io::Error::from),
        Error::Http(response) => {
            let (status, to) = (response.status(), response.headers().get("location"));
            let to = to.map(|to| format!(": it redirects to {}", shown(&String::from_utf8_lossy(to.as_bytes()))));
            let cause = format!("the server answered {status}{}", to.unwrap_or_default());
            Refusal::with_code(CodeOf::HttpStatus, status.as_u16().into(), cause, "check the path of the URL")
        }
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(
            tungstenite::error::ProtocolError::ResetWithoutClosingHandshake
            | tungstenite::error::ProtocolError::HandshakeIncomplete,
        ) => Refusal::closed(),
        Error::Capacity(tungstenite::error::CapacityError::MessageTooLong { .. }) => Refusal::too_long(),
        error => {
            let cause = format!("the server does not speak WebSocket: {}", shown(&error.to_string()));
            Refusal::unexpected(cause, "is it the right port and path?")
        }
    };
    refusal.into()
}

struct ForeignPeer {
    server: Arc<ForeignServer>,
    /// Messages without an answer.
    waiting: VecDeque<Bytes>,
}

impl Peer for ForeignPeer {
    fn on_message(&mut self, message: Message) -> io::Result<Option<Bytes>> {
        let bytes = match message {
            Message::Binary(bytes) => bytes.len(),
            Message::Text(text) => text.len(),
            Message::Close(Some(frame)) => {
                let code = u16::from(frame.code);
                let why = shown(&frame.reason);
                let why = if why.is_empty() { why } else { format!(": {why}") };
                let cause = format!("the server closed the connection with the code {code}{why}");
                return Err(Refusal::with_code(CodeOf::WebSocketClose, code.into(), cause, "").into());
            }
            Message::Close(None) => return Err(Refusal::closed().into()),
            // The library answers pings itself.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return Ok(None),
        };
        let answered = self.waiting.pop_front();
        // What the server sends before the first request is no answer.
        if answered.is_some() {
            self.server.count_answer(bytes as u64);
        }
        Ok(answered)
    }

    fn on_put(&mut self, message: &Bytes) {
        self.waiting.push_back(message.clone());
    }

    fn ended(error: Error) -> io::Result<()> {
        Err(as_io(error))
    }
}
