//! Single attempts to send or receive one or more messages on a connected socket.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::{Fact, SenderState, Waiting, fact_names};
use socket2::{Socket, Type};

use super::hello::{self, Handshake};
use super::offload::Offload;
use super::port::{BatchResult, Miss, Port, unsupported};
use super::socket_kind::{SocketKind, facts};
use super::stamping::{Completions, Stamping};
use crate::batch::Batch;
use crate::options::{self, Family};
use crate::system::descriptor::{WRITABLE, poll, send_file, set_nonblocking};
use crate::system::messages::Messages;
use crate::system::{socket, sockopt, timestamping};
use crate::wire::{Cookie, Segments, Setup};
use crate::wires::ip_header::IpHeader;

/// Zero-copy sends between two reads of completions. The kernel merges consecutive completions.
const SENDS_PER_READ: u32 = 32;
/// Maximum wait for a completion when the memory for more zero-copy sends is used up.
const MAX_WAIT: Duration = Duration::from_millis(50);

pub(crate) struct SocketPort {
    socket: Socket,
    kind: SocketKind,
    /// Set for datagrams: the other end may repeat its hello, and the repetition may arrive among messages.
    hello: Option<Cookie>,
    handshake: Handshake,
    /// Whether the path is a link, on which datagrams may be lost, duplicated and reordered.
    crosses_link: bool,
    /// Present if the kernel stamps segments. In a `RefCell`, because `facts` also reads completions.
    stamping: Option<RefCell<Stamping>>,
    /// Present with the option `gso`.
    offload: Option<Offload>,
    /// Whether the wire waits by `block`. The socket is always in blocking mode; non-blocking calls pass a flag.
    blocks: bool,
    extra_calls: u64,
    sends_since_read: u32,
    messages: Messages,
}

impl SocketPort {
    /// Takes a connected socket and the details of its handshake.
    pub(super) fn new(socket: Socket, kind: SocketKind, setup: &Setup, handshake: Handshake) -> Self {
        let hello = kind.is_datagram().then_some(setup.cookie);
        let is_on = |name| setup.options.get(name) == Some("on");
        // GRO would join datagrams, and one stamp would be for several.
        let has_stamps = kind.has_stamps() && !is_on(OptionName::Gso);
        let stamping = has_stamps.then(|| RefCell::new(Stamping::new(is_on(OptionName::Zerocopy))));
        Self {
            socket,
            kind,
            hello,
            handshake,
            crosses_link: setup.server.is_some(),
            stamping,
            offload: is_on(OptionName::Gso).then(|| Offload::new(kind.family)),
            blocks: setup.waiting == Waiting::Block,
            extra_calls: 0,
            sends_since_read: 0,
            messages: Messages::default(),
        }
    }

    /// Whether the datagram of `bytes` bytes is a repeated hello. Answers a confirmation with another welcome.
    #[inline(always)]
    fn handle_hello(&self, start: &[u8], bytes: usize) -> bool {
        let Some(cookie) = &self.hello else { return false };
        let kind = hello::repeated_kind(start, bytes, cookie);
        if kind == Some(hello::HelloKind::Confirm) {
            hello::welcome_again(self.socket.as_fd(), cookie);
        }
        kind.is_some()
    }

    /// Receives the available messages in one call.
    fn receive_many(&mut self, into: &mut Batch, may_block: bool) -> Result<BatchResult, Miss> {
        let socket = self.socket.as_fd();
        match self.offload {
            Some(_) => into.receive_joined(socket, may_block)?,
            None => into.receive_messages(socket, may_block, self.kind.is_datagram())?,
        }
        let mut ended = false;
        let pieces = into.keep(|start, bytes| {
            ended |= bytes == 0;
            bytes > 0 && !self.handle_hello(start, bytes)
        });
        match (pieces, ended) {
            (0, true) => Err(Miss::Ended),
            (0, false) => Err(Miss::Again),
            _ => Ok(BatchResult { pieces, ended }),
        }
    }

    /// Sends without a copy (`zerocopy`). Reads completions every few sends, when there is no room, and when the memory
    /// for completions is used up (`net.core.optmem_max`).
    fn send_without_copy(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        self.sends_since_read += 1;
        if self.sends_since_read == SENDS_PER_READ {
            self.read_completions()?;
        }
        match socket::send_without_copy(self.socket.as_fd(), bytes, may_block) {
            Ok(sent) => {
                if let Some(known) = self.completions() {
                    known.started += 1;
                }
                Ok(sent)
            }
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                self.read_completions()?;
                Err(Miss::Nothing)
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                // With nothing in flight, no completion can free memory.
                if self.in_flight() == 0 {
                    return Err(error.into());
                }
                if may_block {
                    self.extra_calls += 1;
                    // Polls for entries of the error queue, which are always reported.
                    poll(self.socket.as_fd(), 0, MAX_WAIT)?;
                }
                self.read_completions()?;
                Err(Miss::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the number of completed zero-copy sends, and the number that the kernel copied after all.
    fn zero_copy_facts(&self) -> Vec<Fact> {
        let Some(mut stamping) = self.stamping.as_ref().map(RefCell::borrow_mut) else { return Vec::new() };
        if stamping.may_have_entries() {
            // An error only makes the counts incomplete.
            drop(stamping.store(self.socket.as_fd()));
        }
        let facts = stamping.completions().map(|known| {
            [(fact_names::ZEROCOPY_COMPLETED, known.completed), (fact_names::ZEROCOPY_COPIED, known.copied)]
        });
        facts.into_iter().flatten().map(|(name, count)| Fact::number(name, count as f64)).collect()
    }

    /// Returns the facts about the path to another host.
    fn path_facts(&self) -> Vec<Fact> {
        if !self.crosses_link {
            return Vec::new();
        }
        let option = if self.kind.family == Family::V6 { sockopt::PATH_MTU_V6 } else { sockopt::PATH_MTU };
        let mtu = sockopt::get(self.socket.as_fd(), option).ok();
        let mtu = mtu.map(|bytes| Fact::number(fact_names::PATH_MTU_BYTES, bytes.into()));
        self.handshake.header.into_iter().flat_map(IpHeader::facts).chain(mtu).collect()
    }

    fn completions(&mut self) -> Option<&mut Completions> {
        self.stamping.as_mut().and_then(|stamping| stamping.get_mut().completions())
    }

    fn in_flight(&mut self) -> u64 {
        self.completions().map_or(0, |known| known.in_flight())
    }

    fn read_completions(&mut self) -> io::Result<()> {
        self.sends_since_read = 0;
        if self.in_flight() > 0
            && let Some(stamping) = &mut self.stamping
        {
            let stamping = stamping.get_mut();
            let before = stamping.reads();
            stamping.store(self.socket.as_fd())?;
            self.extra_calls += stamping.reads() - before;
        }
        Ok(())
    }

    /// Sends the empty datagram that ends a flow.
    fn send_end(&self) {
        let sent = socket::send(self.socket.as_fd(), &[], false);
        if sent.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            // The other end's queue is full: waits a moment. If the datagram is not sent, the other end times out.
            let _ = poll(self.socket.as_fd(), WRITABLE, Duration::from_millis(100));
            let _ = socket::send(self.socket.as_fd(), &[], false);
        }
    }
}

impl Port for SocketPort {
    // Part of the spinning loop, so its duration delays the next attempt.
    #[inline(always)]
    fn receive(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        let socket = self.socket.as_fd();
        let bytes = match (self.stamping.as_mut().map(RefCell::get_mut), &mut self.offload) {
            (Some(stamping), _) if stamping.reads_received => {
                stamping.receive(socket, into, may_block, self.kind.is_datagram())?
            }
            (_, Some(offload)) => offload.receive(socket, into, may_block)?,
            _ => socket::receive(socket, into, may_block, self.kind.is_datagram())?,
        };
        if bytes == 0 {
            // The end of a stream, or the empty datagram that ends a flow; messages are never empty.
            return Err(Miss::Ended);
        }
        let fitted = bytes.min(into.len());
        if self.handle_hello(&into[..fitted], bytes) {
            return Err(Miss::Again);
        }
        Ok(fitted)
    }

    #[inline]
    fn send(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        Ok(socket::send(self.socket.as_fd(), bytes, may_block)?)
    }

    fn send_stamped(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        Ok(timestamping::send(self.socket.as_fd(), bytes, may_block)?)
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
            let tcp_bytes = sockopt::tcp_header_bytes(self.socket.as_fd());
            // RFC 8200, section 3, and RFC 791, section 3.1, without options.
            let ip_bytes = if self.kind.family == Family::V6 { 40 } else { 20 };
            facts.extend(tcp_bytes.map(|bytes| Fact::number(fact_names::HEADER_BYTES, (ip_bytes + bytes).into())));
        }
        let arrivals = self.stamping.as_ref().and_then(|stamping| stamping.borrow().arrivals());
        facts.extend(arrivals.map(|count| Fact::number(fact_names::STAMPS_RECEIVED, count as f64)));
        facts.extend(self.zero_copy_facts());
        if self.handshake.ignored > 0 {
            facts.push(Fact::number(fact_names::IGNORED, self.handshake.ignored as f64));
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
            // A link may lose some.
            (0..if self.crosses_link { 3 } else { 1 }).for_each(|_| self.send_end());
        }
    }

    fn is_stream(&self) -> bool {
        self.kind.socket_type == Type::STREAM
    }

    #[inline]
    fn send_batch(&mut self, messages: &[u8], size: usize, may_block: bool) -> Option<Result<usize, Miss>> {
        if self.completions().is_some() {
            return Some(self.send_without_copy(messages, may_block));
        }
        // For one message a plain send is faster.
        if self.is_stream() || messages.len() <= size {
            return None;
        }
        let socket = self.socket.as_fd();
        let Some(offload) = &mut self.offload else {
            return Some(self.messages.send(socket, messages, size, may_block).map_err(Miss::from));
        };
        let (sent, calls) = offload.send(socket, messages, size, may_block);
        self.extra_calls += calls - 1;
        Some(sent.map_err(Miss::from))
    }

    fn send_file(&mut self, file: BorrowedFd<'_>, from: usize, bytes: usize, may_block: bool) -> Result<usize, Miss> {
        let socket = self.socket.as_fd();
        // If the wire's calls block, sets the flag for this call only. Setting and clearing take two calls each.
        let sets_flag = self.blocks && !may_block;
        if sets_flag {
            self.extra_calls += 4;
            set_nonblocking(socket, true)?;
        }
        let sent = send_file(socket, file, from, bytes);
        if sets_flag {
            set_nonblocking(socket, false)?;
        }
        Ok(sent?)
    }

    #[inline]
    fn receive_batch(&mut self, into: &mut Batch, may_block: bool) -> Option<Result<BatchResult, Miss>> {
        if self.is_stream() || into.slots() == 1 && self.offload.is_none() {
            return None;
        }
        Some(self.receive_many(into, may_block))
    }

    #[inline]
    fn next_stored(&mut self, into: &mut [u8]) -> Option<usize> {
        if !self.has_stored() {
            return None;
        }
        loop {
            let bytes = self.offload.as_mut().and_then(|offload| offload.next(into))?;
            let fitted = bytes.min(into.len());
            if !self.handle_hello(&into[..fitted], bytes) {
                return Some(fitted);
            }
        }
    }

    #[inline]
    fn has_stored(&self) -> bool {
        self.offload.as_ref().is_some_and(Offload::has_stored)
    }

    fn on_nothing_received(&mut self) -> io::Result<()> {
        self.read_completions()
    }

    fn sends_in_flight(&mut self) -> io::Result<u64> {
        self.read_completions()?;
        Ok(self.in_flight())
    }

    fn extra_calls(&self) -> u64 {
        self.extra_calls
    }

    #[inline]
    fn send_more(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        Ok(socket::send_more(self.socket.as_fd(), bytes, may_block)?)
    }

    #[inline]
    fn send_vectored(&mut self, parts: &[IoSlice<'_>], may_block: bool) -> Result<usize, Miss> {
        Ok(socket::send_vectored(self.socket.as_fd(), parts, may_block)?)
    }

    fn set(&mut self, option: OptionName, on: bool) -> io::Result<()> {
        options::switch(self.socket.as_fd(), self.kind.family, option, on)
    }

    fn stamp_arrivals(&mut self) -> io::Result<()> {
        if self.kind.family == Family::Unix {
            return Err(unsupported());
        }
        let stamping = self.stamping.get_or_insert_with(|| RefCell::new(Stamping::new(false)));
        stamping.get_mut().begin_arrivals(self.socket.as_fd())
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
    /// A datagram receiver does not notice that its sender closed, so an empty datagram reports it.
    fn drop(&mut self) {
        if self.kind.is_datagram() {
            self.send_end();
        }
    }
}
