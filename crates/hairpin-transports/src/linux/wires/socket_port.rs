//! Single attempts on a connected socket: to receive or to send one message or several.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::{Fact, SenderState, Waiting, fact_names};
use socket2::{Socket, Type};

use super::hello::{self, Handshake};
use super::offload::Offload;
use super::port::{BatchResult, Miss, Port};
use super::socket_kind::{SocketKind, facts};
use super::stamping::{Completions, Stamping};
use crate::batch::Batch;
use crate::options::{self, Family};
use crate::system::descriptor::{WRITABLE, poll, send_file, set_nonblocking};
use crate::system::messages::Messages;
use crate::system::{socket, sockopt};
use crate::wire::{Cookie, Segments, Setup};
use crate::wires::ip_header::IpHeader;

/// Zero-copy sends between two checks for completions, of which consecutive ones are merged.
const SENDS_PER_LOOK: u32 = 32;
/// Maximum wait for a completion when the memory for more sends is used up.
const MAX_WAIT: Duration = Duration::from_millis(50);

pub(crate) struct SocketPort {
    socket: Socket,
    kind: SocketKind,
    /// Set for datagrams: the other end may have repeated its part of the hello, and a message may overtake it.
    hello: Option<Cookie>,
    met: Handshake,
    /// Datagrams may be lost, duplicated and reordered.
    crosses_link: bool,
    /// Present if the kernel stamps segments. In a cell, because reading the counters takes completions.
    stamping: Option<RefCell<Stamping>>,
    /// Present with the option `gso`.
    offload: Option<Offload>,
    /// Whether calls on the socket block by default; if not, all but those of a file get a flag.
    blocks: bool,
    more_calls: u64,
    sends_since_look: u32,
    messages: Messages,
}

impl SocketPort {
    /// A connected socket, and how its peer connected.
    pub(super) fn new(socket: Socket, kind: SocketKind, setup: &Setup, met: Handshake) -> Self {
        let hello = kind.is_datagram().then_some(setup.cookie);
        let is_on = |name| setup.options.get(name) == Some("on");
        let stamping = kind.has_stamps().then(|| RefCell::new(Stamping::new(is_on(OptionName::Zerocopy))));
        Self {
            socket,
            kind,
            hello,
            met,
            crosses_link: setup.server.is_some(),
            stamping,
            offload: is_on(OptionName::Gso).then(|| Offload::new(kind.family)),
            blocks: setup.waiting == Waiting::Block,
            more_calls: 0,
            sends_since_look: 0,
            messages: Messages::default(),
        }
    }

    /// Whether the datagram of `bytes` bytes is a repeated hello; a confirmation is welcomed again.
    #[inline(always)]
    fn is_hello(&self, start: &[u8], bytes: usize) -> bool {
        let Some(cookie) = &self.hello else { return false };
        let again = hello::repeated(start, bytes, cookie);
        if again == Some(hello::HelloKind::Confirm) {
            hello::welcome_again(self.socket.as_fd(), cookie);
        }
        again.is_some()
    }

    /// Takes everything that is there, in one call.
    fn take_many(&mut self, into: &mut Batch, may_block: bool) -> Result<BatchResult, Miss> {
        let socket = self.socket.as_fd();
        match self.offload {
            Some(_) => into.receive_joined(socket, may_block)?,
            None => into.receive_messages(socket, may_block, self.kind.is_datagram())?,
        }
        let mut ended = false;
        let pieces = into.keep(|start, bytes| {
            ended |= bytes == 0;
            bytes > 0 && !self.is_hello(start, bytes)
        });
        match (pieces, ended) {
            (0, true) => Err(Miss::Ended),
            (0, false) => Err(Miss::Again),
            _ => Ok(BatchResult { pieces, ended }),
        }
    }

    /// Zero-copy send (`zerocopy`). Takes completions every few sends, when there is no room, and when the memory for
    /// them is used up (`net.core.optmem_max`).
    fn put_without_copy(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        self.sends_since_look += 1;
        if self.sends_since_look == SENDS_PER_LOOK {
            self.take_completions()?;
        }
        match socket::send_without_copy(self.socket.as_fd(), bytes, may_block) {
            Ok(sent) => {
                if let Some(known) = self.completions() {
                    known.begun += 1;
                }
                Ok(sent)
            }
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                self.take_completions()?;
                Err(Miss::Nothing)
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                // With nothing in flight, no completion will free memory.
                if self.in_flight() == 0 {
                    return Err(error.into());
                }
                if may_block {
                    self.more_calls += 1;
                    // Events of the error queue need not be requested.
                    poll(self.socket.as_fd(), 0, MAX_WAIT)?;
                }
                self.take_completions()?;
                Err(Miss::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Number of completed zero-copy sends, and how many of them the kernel copied after all.
    fn zero_copy_facts(&self) -> Vec<Fact> {
        let Some(mut stamping) = self.stamping.as_ref().map(RefCell::borrow_mut) else { return Vec::new() };
        if stamping.may_have_news() {
            // On an error the figures lack the rest.
            drop(stamping.keep(self.socket.as_fd()));
        }
        let facts = stamping.completions().map(|known| {
            [(fact_names::ZEROCOPY_COMPLETED, known.completed), (fact_names::ZEROCOPY_COPIED, known.copied)]
        });
        facts.into_iter().flatten().map(|(name, count)| Fact::number(name, count as f64)).collect()
    }

    /// Facts of the path to another host.
    fn path_facts(&self) -> Vec<Fact> {
        if !self.crosses_link {
            return Vec::new();
        }
        let place = if self.kind.family == Family::V6 { sockopt::PATH_MTU_V6 } else { sockopt::PATH_MTU };
        let mtu = sockopt::get(self.socket.as_fd(), place).ok();
        let mtu = mtu.map(|bytes| Fact::number(fact_names::PATH_MTU_BYTES, bytes.into()));
        self.met.header.into_iter().flat_map(IpHeader::facts).chain(mtu).collect()
    }

    fn completions(&mut self) -> Option<&mut Completions> {
        self.stamping.as_mut().and_then(|stamping| stamping.get_mut().completions())
    }

    fn in_flight(&mut self) -> u64 {
        self.completions().map_or(0, |known| known.in_flight())
    }

    fn take_completions(&mut self) -> io::Result<()> {
        self.sends_since_look = 0;
        if self.in_flight() > 0
            && let Some(stamping) = &mut self.stamping
        {
            let stamping = stamping.get_mut();
            let before = stamping.looks();
            stamping.keep(self.socket.as_fd())?;
            self.more_calls += stamping.looks() - before;
        }
        Ok(())
    }

    fn say_bye(&self) {
        let told = socket::send(self.socket.as_fd(), &[], false);
        if told.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            // The other end's queue is full: wait a moment; otherwise it finds out by its time-out.
            let _ = poll(self.socket.as_fd(), WRITABLE, Duration::from_millis(100));
            let _ = socket::send(self.socket.as_fd(), &[], false);
        }
    }
}

impl Port for SocketPort {
    // Part of the spinning loop: its duration delays the next look.
    #[inline(always)]
    fn take(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        let socket = self.socket.as_fd();
        let bytes = match (self.stamping.as_mut().map(RefCell::get_mut), &mut self.offload) {
            (Some(stamping), _) if stamping.has_begun() => stamping.receive(socket, into, may_block)?,
            (_, Some(offload)) => offload.receive(socket, into, may_block)?,
            _ => socket::receive(socket, into, may_block, self.kind.is_datagram())?,
        };
        if bytes == 0 {
            // The end of a stream, or the empty datagram that says bye; messages are never empty.
            return Err(Miss::Ended);
        }
        let fitted = bytes.min(into.len());
        if self.is_hello(&into[..fitted], bytes) {
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
            facts.extend(sockopt::ecn(self.socket.as_fd()).map(|ecn| Fact::word(fact_names::ECN, ecn)));
        }
        // Multipath TCP's headers have additional options.
        if self.kind.has_tcp_info() && !self.kind.is_mptcp() {
            let of_tcp = sockopt::tcp_header_bytes(self.socket.as_fd());
            // RFC 8200, section 3, and RFC 791, section 3.1, without options.
            let of_ip = if self.kind.family == Family::V6 { 40 } else { 20 };
            facts.extend(of_tcp.map(|bytes| Fact::number(fact_names::HEADER_BYTES, (of_ip + bytes).into())));
        }
        facts.extend(self.zero_copy_facts());
        if self.met.ignored > 0 {
            facts.push(Fact::number(fact_names::IGNORED, self.met.ignored as f64));
        }
        facts.extend(self.path_facts());
        if self.kind.is_mptcp() {
            let fell_back = sockopt::fell_back_to_tcp(self.socket.as_fd());
            facts.push(Fact::word(fact_names::FELL_BACK_TO_TCP, if fell_back { "yes" } else { "no" }));
        }
        facts
    }

    fn farewell(&mut self) {
        if self.kind.is_datagram() {
            // One may be lost on the path.
            (0..if self.crosses_link { 3 } else { 1 }).for_each(|_| self.say_bye());
        }
    }

    fn is_stream(&self) -> bool {
        self.kind.sort == Type::STREAM
    }

    #[inline]
    fn put_batch(&mut self, messages: &[u8], size: usize, may_block: bool) -> Option<Result<usize, Miss>> {
        if self.completions().is_some() {
            return Some(self.put_without_copy(messages, may_block));
        }
        // For one message the plain call is faster.
        if self.is_stream() || messages.len() <= size {
            return None;
        }
        let socket = self.socket.as_fd();
        let Some(offload) = &mut self.offload else {
            return Some(self.messages.send(socket, messages, size, may_block).map_err(Miss::from));
        };
        let (sent, calls) = offload.send(socket, messages, size, may_block);
        self.more_calls += calls - 1;
        Some(sent.map_err(Miss::from))
    }

    fn put_file(&mut self, file: BorrowedFd<'_>, from: usize, bytes: usize, may_block: bool) -> Result<usize, Miss> {
        let socket = self.socket.as_fd();
        // If the wire's calls block, the flag is set for this call alone: two calls to set it, and two to clear it.
        let unblocks = self.blocks && !may_block;
        if unblocks {
            self.more_calls += 4;
            set_nonblocking(socket, true)?;
        }
        let sent = send_file(socket, file, from, bytes);
        if unblocks {
            set_nonblocking(socket, false)?;
        }
        Ok(sent?)
    }

    #[inline]
    fn take_batch(&mut self, into: &mut Batch, may_block: bool) -> Option<Result<BatchResult, Miss>> {
        if self.is_stream() || into.slots() == 1 && self.offload.is_none() {
            return None;
        }
        Some(self.take_many(into, may_block))
    }

    #[inline]
    fn kept(&mut self, into: &mut [u8]) -> Option<usize> {
        if !self.has_kept() {
            return None;
        }
        loop {
            let bytes = self.offload.as_mut().and_then(|offload| offload.next(into))?;
            let fitted = bytes.min(into.len());
            if !self.is_hello(&into[..fitted], bytes) {
                return Some(fitted);
            }
        }
    }

    #[inline]
    fn has_kept(&self) -> bool {
        self.offload.as_ref().is_some_and(Offload::has_kept)
    }

    fn nothing_came(&mut self) -> io::Result<()> {
        self.take_completions()
    }

    fn sends_in_flight(&mut self) -> io::Result<u64> {
        self.take_completions()?;
        Ok(self.in_flight())
    }

    fn more_calls(&self) -> u64 {
        self.more_calls
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
        Some((self.stamping.as_mut()?.get_mut(), self.socket.as_fd()))
    }

    fn segments(&self) -> Option<Segments> {
        if self.kind.has_tcp_info() { sockopt::segments(self.socket.as_fd()) } else { None }
    }

    fn sender_state(&self) -> Option<SenderState> {
        if self.kind.has_tcp_info() { sockopt::sender_state(self.socket.as_fd()) } else { None }
    }
}

impl Drop for SocketPort {
    /// A datagram receiver does not notice that its sender closed, so an empty datagram says bye.
    fn drop(&mut self) {
        if self.kind.is_datagram() {
            self.say_bye();
        }
    }
}
