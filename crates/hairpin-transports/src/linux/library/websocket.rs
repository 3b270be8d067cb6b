//! Messages over WebSocket with tungstenite.

use std::io;

use bytes::Bytes;
use tungstenite::{Error, Message, WebSocket};

use crate::linux::wires::layer::{Io, Session};

/// What depends on the other end, which need not be Hairpin's.
pub(crate) trait Peer: Send + 'static {
    /// Returns what the wire receives because of this message of the other end, if anything.
    fn on_message(&mut self, message: Message) -> io::Result<Option<Bytes>>;

    fn on_put(&mut self, _message: &Bytes) {}

    /// Whether another frame may have arrived with the last one. `received` is the number of bytes read so far.
    fn may_have_more(&self, _received: u64) -> bool {
        false
    }

    /// Returns the library's error, unless it only says that the other end has closed the connection.
    fn ended(error: Error) -> io::Result<()>;
}

pub(crate) struct WebSocketSession<P> {
    socket: WebSocket<Io>,
    peer: P,
    /// What the wire receives next.
    next: Option<Bytes>,
    has_unsent: bool,
}

impl<P: Peer> WebSocketSession<P> {
    pub(crate) fn new(socket: WebSocket<Io>, peer: P) -> Self {
        Self { socket, peer, next: None, has_unsent: false }
    }

    fn failure(error: Error) -> io::Error {
        P::ended(error).err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl<P: Peer> Session for WebSocketSession<P> {
    const IS_STREAM: bool = false;

    fn fill(&mut self) -> io::Result<bool> {
        while self.next.is_none() {
            match self.socket.read() {
                Ok(message) => self.next = self.peer.on_message(message)?,
                Err(error) => return P::ended(error).map(|()| false),
            }
        }
        Ok(true)
    }

    fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        let message = self.next.take()?;
        let bytes = message.len().min(into.len());
        into[..bytes].copy_from_slice(&message[..bytes]);
        // The library clears 128 KiB at each attempt to read.
        if self.peer.may_have_more(self.io().received()) {
            self.io_mut().set_offline(true);
            drop(self.fill());
            self.io_mut().set_offline(false);
        }
        Some(bytes)
    }

    fn has_stored(&self) -> bool {
        self.next.is_some()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let message = Bytes::copy_from_slice(bytes);
        self.peer.on_put(&message);
        match self.socket.write(Message::Binary(message)) {
            Ok(()) => {}
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Self::failure(error)),
        }
        self.has_unsent = true;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.has_unsent {
            self.socket.flush().map_err(Self::failure)?;
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
