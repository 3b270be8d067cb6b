//! What one attempt on a connected socket is: to receive, to send, one message or several.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hairpin_model::fact::Fact;
use hairpin_model::fact_names;
use hairpin_model::options::OptionName;
use socket2::{Socket, Type};

use super::hello;
use super::port::{Miss, Port, Taken};
use super::socket_kind::{Kind, facts};
use super::stamping::Stamping;
use crate::batch::Batch;
use crate::options;
use crate::system::descriptor::{WRITABLE, poll};
use crate::system::messages::Messages;
use crate::system::{socket, sockopt};
use crate::wire::{Cookie, Segments, Setup};

/// A connected socket.
pub(super) struct SocketPort {
    socket: Socket,
    kind: Kind,
    /// Set for datagrams until the first message: the other end may have said its part of the hello twice. Across a link it
    /// stays set.
    hello: Option<Cookie>,
    /// Connections or datagrams without the hello that came before it.
    ignored: u64,
    /// The way may lose, repeat and reorder datagrams.
    crosses_link: bool,
    /// Present where the kernel stamps segments.
    stamping: Option<Stamping>,
    /// For what one call sends.
    messages: Messages,
}

impl SocketPort {
    /// A connected socket; `ignored` is how many others came before its peer.
    pub(super) fn new(socket: Socket, kind: Kind, setup: &Setup, ignored: u64) -> Self {
        let hello = kind.is_datagram().then_some(setup.cookie);
        let stamping = kind.has_stamps().then(Stamping::default);
        let (crosses_link, messages) = (setup.server.is_some(), Messages::default());
        Self { socket, kind, hello, ignored, crosses_link, stamping, messages }
    }

    /// Whether the datagram of `bytes` was a hello that came again; a confirmation is then welcomed again.
    #[cold]
    fn is_hello(&mut self, start: &[u8], bytes: usize) -> bool {
        let Some(cookie) = self.hello.take() else { return false };
        let again = hello::again(start, bytes, &cookie);
        if again == Some(hello::Kind::Confirm) {
            hello::welcome_again(self.socket.as_fd(), &cookie);
        }
        // On a link a message may have overtaken it.
        if again.is_some() || self.crosses_link {
            self.hello = Some(cookie);
        }
        again.is_some()
    }

    /// Everything that is there, in one call.
    fn take_many(&mut self, into: &mut Batch, may_block: bool) -> Result<Taken, Miss> {
        into.receive_messages(self.socket.as_fd(), may_block, self.kind.is_datagram())?;
        let mut ended = false;
        let pieces = into.keep(|start, bytes| {
            ended |= bytes == 0;
            bytes > 0 && !(self.hello.is_some() && self.is_hello(start, bytes))
        });
        match (pieces, ended) {
            (0, true) => Err(Miss::Ended),
            (0, false) => Err(Miss::Again),
            _ => Ok(Taken { pieces, ended }),
        }
    }

    fn say_bye(&self) {
        let told = socket::send(self.socket.as_fd(), &[], false);
        if told.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            // The other end's queue is full: it is given a moment, and else finds out by its time-out.
            let _ = poll(self.socket.as_fd(), WRITABLE, Duration::from_millis(100));
            let _ = socket::send(self.socket.as_fd(), &[], false);
        }
    }
}

impl Port for SocketPort {
    // Part of the spinning loop: what it takes longer to come round is found later.
    #[inline(always)]
    fn take(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        let socket = self.socket.as_fd();
        let bytes = match &mut self.stamping {
            Some(stamping) if stamping.has_begun() => stamping.receive(socket, into, may_block)?,
            _ => socket::receive(socket, into, may_block, self.kind.is_datagram())?,
        };
        if bytes == 0 {
            // A stream's end, or a datagram's bye; messages are never empty.
            return Err(Miss::Ended);
        }
        let fitted = bytes.min(into.len());
        if self.hello.is_some() && self.is_hello(&into[..fitted], bytes) {
            return Err(Miss::Again);
        }
        Ok(fitted)
    }

    #[inline]
    fn put(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        Ok(socket::send(self.socket.as_fd(), bytes, may_block)?)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn writable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = facts(&self.socket, self.kind.family, self.kind.options);
        if self.kind.has_tcp_info() {
            facts.extend(sockopt::tcp_info(self.socket.as_fd()));
        }
        if self.ignored > 0 {
            facts.push(Fact::number(fact_names::IGNORED, self.ignored as f64));
        }
        if self.kind.is_mptcp() {
            let fell_back = sockopt::fell_back_to_tcp(self.socket.as_fd());
            facts.push(Fact::word(fact_names::FELL_BACK_TO_TCP, if fell_back { "yes" } else { "no" }));
        }
        facts
    }

    fn farewell(&mut self) {
        if self.kind.is_datagram() {
            // One may be lost on the way.
            (0..if self.crosses_link { 3 } else { 1 }).for_each(|_| self.say_bye());
        }
    }

    fn is_stream(&self) -> bool {
        self.kind.sort == Type::STREAM
    }

    fn put_batch(&mut self, messages: &[u8], size: usize, may_block: bool) -> Option<Result<usize, Miss>> {
        if self.is_stream() {
            return None;
        }
        Some(self.messages.send(self.socket.as_fd(), messages, size, may_block).map_err(Miss::from))
    }

    fn take_batch(&mut self, into: &mut Batch, may_block: bool) -> Option<Result<Taken, Miss>> {
        // Of one message the plain call is the faster one.
        if self.is_stream() || into.slots() == 1 { None } else { Some(self.take_many(into, may_block)) }
    }

    #[inline]
    fn put_more(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        Ok(socket::send_more(self.socket.as_fd(), bytes, may_block)?)
    }

    #[inline]
    fn put_vectored(&mut self, parts: &[IoSlice<'_>], may_block: bool) -> Result<usize, Miss> {
        Ok(socket::send_vectored(self.socket.as_fd(), parts, may_block)?)
    }

    fn set(&mut self, option: OptionName, on: bool) -> io::Result<()> {
        options::switch(self.socket.as_fd(), self.kind.family, option, on)
    }

    fn stamping(&mut self) -> Option<(&mut Stamping, BorrowedFd<'_>)> {
        Some((self.stamping.as_mut()?, self.socket.as_fd()))
    }

    fn segments(&self) -> Option<Segments> {
        if self.kind.has_tcp_info() { sockopt::segments(self.socket.as_fd()) } else { None }
    }
}

impl Drop for SocketPort {
    /// Nothing tells a datagram's receiver that its sender has gone, so an empty datagram says bye.
    fn drop(&mut self) {
        if self.kind.is_datagram() {
            self.say_bye();
        }
    }
}
