//! Single attempts to send or receive one or more messages on a connected socket.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::{Fact, SenderState, Waiting, fact_names};
use socket2::{Socket, Type};

use super::description::SocketTransport;
use super::hello::{self, Handshake, HelloKind};
use super::offload::Offload;
use super::port::{BatchResult, Miss, Port, unsupported};
use super::stamping::{Completions, Stamping};
use crate::batch::Batch;
use crate::options::{self, Family};
use crate::system::descriptor::{WRITABLE, poll, send_file, set_nonblocking};
use crate::system::messages::Messages;
use crate::system::{socket, sockopt, timestamping};
use crate::wire::{Cookie, Segments, Setup};
use crate::wires::codes::{Codes, HEAD_BYTES};
use crate::wires::ip_header::IpHeader;

/// Zero-copy sends between two reads of completions. The kernel merges consecutive completions.
const SENDS_PER_READ: u32 = 32;
/// Maximum wait for a completion when the memory for more zero-copy sends is used up.
const MAX_WAIT: Duration = Duration::from_millis(50);

pub(crate) struct SocketPort {
    socket: Socket,
    transport: SocketTransport,
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
    /// Set for a datagram flow between hosts, whose messages have codes.
    sealed: Option<Box<Sealed>>,
}

impl SocketPort {
    /// Takes a connected socket and the details of its handshake.
    pub(super) fn new(socket: Socket, transport: SocketTransport, setup: &Setup, handshake: Handshake) -> Self {
        let hello = transport.is_datagram().then_some(setup.cookie);
        let is_on = |name| setup.options.get(name) == Some("on");
        // GRO would join datagrams, and one stamp would be for several.
        let has_stamps = transport.has_stamps() && !is_on(OptionName::Gso);
        let stamping = has_stamps.then(|| RefCell::new(Stamping::new(is_on(OptionName::Zerocopy))));
        Self {
            socket,
            hello,
            handshake,
            crosses_link: setup.server.is_some(),
            stamping,
            offload: is_on(OptionName::Gso).then(|| Offload::new(transport.family)),
            blocks: setup.waiting.basic() == Waiting::Block,
            extra_calls: 0,
            sends_since_read: 0,
            messages: Messages::default(),
            sealed: setup.codes.clone().filter(|_| transport.is_datagram()).map(|codes| Box::new(Sealed::new(codes))),
            transport,
        }
    }

    /// Whether the datagram of `bytes` bytes is a message, something else, or the end of the flow. Answers a repeated
    /// confirmation with another welcome.
    #[inline(always)]
    fn examine(&mut self, start: &mut [u8], bytes: usize) -> Datagram {
        let Some(cookie) = &self.hello else { return if bytes == 0 { Datagram::End } else { Datagram::Message } };
        match hello::repeated_kind(start, bytes, cookie) {
            Some(HelloKind::Confirm) => {
                hello::welcome_again(self.socket.as_fd(), cookie);
                Datagram::Other
            }
            Some(HelloKind::End) if self.sealed.is_some() && start.len() == bytes => Datagram::End,
            Some(_) => Datagram::Other,
            None => match &mut self.sealed {
                None if bytes == 0 => Datagram::End,
                None => Datagram::Message,
                Some(sealed) => sealed.examine(start),
            },
        }
    }

    /// Examines `bytes` received bytes, of which the beginning is in `into`.
    #[inline(always)]
    pub(super) fn examined(&mut self, into: &mut [u8], bytes: usize) -> Result<usize, Miss> {
        let fitted = bytes.min(into.len());
        // The end of a stream, or the empty datagram that ends a flow; messages are never empty.
        match self.examine(&mut into[..fitted], bytes) {
            Datagram::Message => Ok(fitted),
            Datagram::Other => Err(Miss::Again),
            Datagram::End => Err(Miss::Ended),
        }
    }

    /// Receives the available messages in one call.
    fn receive_many(&mut self, into: &mut Batch, may_block: bool) -> Result<BatchResult, Miss> {
        if self.sealed.as_ref().is_some_and(|sealed| sealed.has_ended) {
            return Err(Miss::Ended);
        }
        let socket = self.socket.as_fd();
        let received = match self.offload {
            Some(_) => into.receive_joined(socket, may_block),
            None => into.receive_messages(socket, may_block, self.transport.is_datagram()),
        };
        if let Err(error) = received {
            return Err(self.miss_of(error));
        }
        let mut ended = false;
        let pieces = into.keep(|start, bytes| {
            let examined = self.examine(start, bytes);
            ended |= examined == Datagram::End;
            examined == Datagram::Message
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

    fn path_facts(&self) -> Vec<Fact> {
        if !self.crosses_link {
            return Vec::new();
        }
        let option = if self.transport.family == Family::V6 { sockopt::PATH_MTU_V6 } else { sockopt::PATH_MTU };
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

    /// Sends the datagram that ends a flow: an empty one, or between hosts one with the cookie.
    fn send_end(&self) {
        let cookie = self.hello.filter(|_| self.sealed.is_some());
        let with_cookie = cookie.map(|cookie| hello::encode_hello(HelloKind::End, &cookie, &[0; 16]));
        let end = with_cookie.as_ref().map_or(&[][..], |end| end);
        let sent = socket::send(self.socket.as_fd(), end, false);
        if sent.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            // The other end's queue is full: waits a moment. If the datagram is not sent, the other end times out.
            let _ = poll(self.socket.as_fd(), WRITABLE, Duration::from_millis(100));
            let _ = socket::send(self.socket.as_fd(), end, false);
        }
    }

    #[inline(always)]
    fn receive_any(&mut self, into: &mut [u8], may_block: bool) -> io::Result<usize> {
        let socket = self.socket.as_fd();
        match (self.stamping.as_mut().map(RefCell::get_mut), &mut self.offload) {
            (Some(stamping), _) if stamping.reads_received => {
                stamping.receive(socket, into, may_block, self.transport.is_datagram())
            }
            (_, Some(offload)) => offload.receive(socket, into, may_block),
            _ => socket::receive(socket, into, may_block, self.transport.is_datagram()),
        }
    }

    /// Receives a message with a code.
    #[inline(never)]
    fn receive_sealed(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        if self.sealed.as_ref().is_some_and(|sealed| sealed.has_ended) {
            return Err(Miss::Ended);
        }
        // A hello must fit too.
        let mut small = [0; Batch::MIN_MESSAGE_SLOT_BYTES];
        let is_small = into.len() < small.len();
        let room = if is_small { &mut small[..] } else { &mut *into };
        let bytes = self.receive_any(room, may_block).map_err(|error| self.miss_of(error))?;
        let fitted = bytes.min(room.len());
        match self.examine(&mut room[..fitted], bytes) {
            Datagram::End => Err(Miss::Ended),
            Datagram::Other => Err(Miss::Again),
            Datagram::Message => {
                let fitted = fitted.min(into.len());
                if is_small {
                    into[..fitted].copy_from_slice(&small[..fitted]);
                }
                Ok(fitted)
            }
        }
    }

    /// Converts the error of a receive call. Between hosts, an ICMP error is no reason to stop: anyone may have sent it.
    #[cold]
    fn miss_of(&mut self, error: io::Error) -> Miss {
        match &mut self.sealed {
            Some(sealed) if hello::is_icmp_error(&error) => {
                sealed.icmp_errors += 1;
                Miss::Again
            }
            _ => error.into(),
        }
    }

    #[inline(always)]
    fn send_several(&mut self, messages: &[u8], size: usize, may_block: bool) -> io::Result<usize> {
        let socket = self.socket.as_fd();
        let Some(offload) = &mut self.offload else {
            return self.messages.send(socket, messages, size, may_block);
        };
        let (sent, calls) = offload.send(socket, messages, size, may_block);
        self.extra_calls += calls - 1;
        sent
    }

    /// Calls `send` again after an ICMP error, which the kernel reports once.
    #[inline(always)]
    fn send_sealed(&mut self, mut send: impl FnMut(&mut Self) -> io::Result<usize>) -> Result<usize, Miss> {
        for _ in 0..hello::MAX_ICMP_ERRORS {
            let miss = match send(self) {
                Ok(sent) => return Ok(sent),
                Err(error) => self.miss_of(error),
            };
            if self.sealed.is_none() || !matches!(miss, Miss::Again) {
                return Err(miss);
            }
        }
        Ok(send(self)?)
    }

    #[inline(never)]
    fn send_one_sealed(&mut self, message: &[u8], may_block: bool) -> Result<usize, Miss> {
        let Some(sealed) = self.sealed.as_ref().filter(|sealed| sealed.writes) else {
            return self.send_sealed(|port| socket::send(port.socket.as_fd(), message, may_block));
        };
        let mut head = [0; HEAD_BYTES];
        let length = message.len().min(HEAD_BYTES);
        head[..length].copy_from_slice(&message[..length]);
        sealed.codes.write(&mut head[..length]);
        let (head, rest) = (&head[..length], &message[length..]);
        self.send_sealed(|port| socket::send_parted(port.socket.as_fd(), head, rest, may_block))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Datagram {
    Message,
    /// A repeated hello, or a datagram of another sender.
    Other,
    End,
}

/// The state of a flow whose messages have codes.
struct Sealed {
    codes: Codes,
    /// The number of the last message received.
    last: u64,
    /// Datagrams of other senders.
    strays: u64,
    icmp_errors: u64,
    /// Whether the end of the flow arrived in one packet with messages.
    has_ended: bool,
    /// Whether this wire writes the codes of messages that it sends.
    writes: bool,
}

impl Sealed {
    fn new(codes: Codes) -> Self {
        Self { codes, last: 0, strays: 0, icmp_errors: 0, has_ended: false, writes: true }
    }

    #[inline]
    fn examine(&mut self, message: &mut [u8]) -> Datagram {
        if self.codes.open(message, &mut self.last) {
            return Datagram::Message;
        }
        self.strays += 1;
        Datagram::Other
    }
}

impl Port for SocketPort {
    // Part of the spinning loop, so its duration delays the next attempt.
    #[inline(always)]
    fn receive(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        if self.sealed.is_some() {
            return self.receive_sealed(into, may_block);
        }
        let bytes = self.receive_any(into, may_block)?;
        self.examined(into, bytes)
    }

    #[inline]
    fn send(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        match &self.sealed {
            None => Ok(socket::send(self.socket.as_fd(), bytes, may_block)?),
            Some(_) => self.send_one_sealed(bytes, may_block),
        }
    }

    fn send_stamped(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        let Some(sealed) = &self.sealed else {
            return Ok(timestamping::send(self.socket.as_fd(), bytes, may_block)?);
        };
        let mut whole = bytes.to_vec();
        if sealed.writes {
            sealed.codes.write(&mut whole);
        }
        self.send_sealed(|port| timestamping::send(port.socket.as_fd(), &whole, may_block))
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn writable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = self.transport.facts(&self.socket);
        if self.transport.has_tcp_info() {
            facts.extend(sockopt::tcp_info(self.socket.as_fd()));
            facts.extend(sockopt::ecn(self.socket.as_fd()).map(|ecn| Fact::word(fact_names::ECN, ecn)));
        }
        // Multipath TCP's headers have additional options.
        if self.transport.has_tcp_info() && !self.transport.is_mptcp() {
            let tcp_bytes = sockopt::tcp_header_bytes(self.socket.as_fd());
            // RFC 8200, section 3, and RFC 791, section 3.1, without options.
            let ip_bytes = if self.transport.family == Family::V6 { 40 } else { 20 };
            facts.extend(tcp_bytes.map(|bytes| Fact::number(fact_names::HEADER_BYTES, (ip_bytes + bytes).into())));
        }
        let arrivals = self.stamping.as_ref().and_then(|stamping| stamping.borrow().arrivals());
        facts.extend(arrivals.map(|count| Fact::number(fact_names::STAMPS_RECEIVED, count as f64)));
        facts.extend(self.zero_copy_facts());
        if self.handshake.ignored > 0 {
            facts.push(Fact::number(fact_names::IGNORED, self.handshake.ignored as f64));
        }
        facts.extend(self.path_facts());
        if let Some(sealed) = &self.sealed {
            facts.push(Fact::number(fact_names::STRAYS, sealed.strays as f64));
            facts.push(Fact::number(fact_names::ICMP_ERRORS, sealed.icmp_errors as f64));
        }
        if self.transport.is_mptcp() {
            let fell_back = sockopt::fell_back_to_tcp(self.socket.as_fd());
            facts.push(Fact::word(fact_names::FELL_BACK_TO_TCP, if fell_back { "yes" } else { "no" }));
        }
        facts
    }

    fn farewell(&mut self) {
        if self.transport.is_datagram() {
            // A link may lose some.
            (0..if self.crosses_link { 3 } else { 1 }).for_each(|_| self.send_end());
        }
    }

    fn is_stream(&self) -> bool {
        self.transport.socket_type == Type::STREAM
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
        if self.sealed.as_ref().is_some_and(|sealed| sealed.writes) {
            return None;
        }
        Some(self.send_sealed(|port| port.send_several(messages, size, may_block)))
    }

    fn take_codes(&mut self) -> Option<Codes> {
        let sealed = self.sealed.as_mut()?;
        sealed.writes = false;
        Some(sealed.codes.clone())
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
            match self.examine(&mut into[..fitted], bytes) {
                Datagram::Message => return Some(fitted),
                Datagram::Other => {}
                Datagram::End => {
                    if let Some(sealed) = &mut self.sealed {
                        sealed.has_ended = true;
                    }
                }
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
        if !self.transport.card.options.contains(&option) {
            return Err(unsupported());
        }
        options::switch(self.socket.as_fd(), self.transport.family, option, on)
    }

    fn stamp_arrivals(&mut self) -> io::Result<()> {
        if self.transport.family == Family::Unix {
            return Err(unsupported());
        }
        let stamping = self.stamping.get_or_insert_with(|| RefCell::new(Stamping::new(false)));
        stamping.get_mut().begin_arrivals(self.socket.as_fd())
    }

    fn stamping(&mut self) -> Option<(&mut Stamping, BorrowedFd<'_>)> {
        Some((self.stamping.as_mut()?.get_mut(), self.socket.as_fd()))
    }

    fn segments(&self) -> Option<Segments> {
        if self.transport.has_tcp_info() { sockopt::segments(self.socket.as_fd()) } else { None }
    }

    fn sender_state(&self) -> Option<SenderState> {
        if self.transport.has_tcp_info() { sockopt::sender_state(self.socket.as_fd()) } else { None }
    }
}

impl Drop for SocketPort {
    /// A datagram receiver does not notice that its sender closed, so an empty datagram reports it.
    fn drop(&mut self) {
        if self.transport.is_datagram() {
            self.send_end();
        }
    }
}
