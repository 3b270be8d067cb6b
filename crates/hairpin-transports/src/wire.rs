//! The main interfaces: a [`Transport`] has [`Listener`]s, which accept [`Connection`]s; a connection carries one or
//! more [`Wire`]s, and a wire carries messages or bytes.

use std::any::Any;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::trace::StampKind;
use hairpin_model::{Card, Fact, Receipt, SenderState, WhyNot};

use crate::batch::{self, Batch};
pub use crate::error::{TransportError, Unsupported, WireError};
pub use crate::foreign::ForeignUse;
#[cfg(target_os = "linux")]
pub use crate::linux::descriptors::{Descriptors, PassedSocket};
#[cfg(target_os = "linux")]
use crate::linux::readiness::Readiness;
pub use crate::setup::{Cookie, ServerAddresses, Setup};
use crate::wires::codes::Codes;

/// A mechanism that carries bytes between two ends.
pub trait Transport: Sync {
    /// Name and properties of the transport.
    fn card(&self) -> Card;

    /// Checks whether the transport can run on this machine.
    ///
    /// # Errors
    /// The reason why the transport cannot run, and a hint.
    fn can_run(&self) -> Result<Receipt, WhyNot>;

    /// How the transport measures a server that is not Hairpin's; `None` if it cannot.
    fn foreign(&self) -> Option<ForeignUse> {
        None
    }

    /// Opens a server. Clients can then connect to its address.
    ///
    /// A transport that the kernel answers has no server and returns an error.
    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError>;

    /// Like [`Transport::listen`], on an existing socket, so that one port can serve many rounds.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] if the transport does not accept such a socket, else as [`Transport::listen`].
    #[cfg(target_os = "linux")]
    fn listen_on(&self, passed: PassedSocket, _setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        Err(passed.unsupported(self.card().name))
    }

    /// Connects the client to the address from [`Listener::address`], or to a host, if the kernel or a foreign server
    /// ([`Setup::foreign`]) answers.
    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError>;
}

#[cfg(target_os = "linux")]
impl PassedSocket {
    /// Returns the error of a transport that does not accept such a socket.
    pub(crate) fn unsupported(&self, transport: &'static str) -> TransportError {
        let what = match self {
            Self::Bound(_) => Unsupported::BoundSocket,
            Self::Accepted(_) => Unsupported::AcceptedSocket,
            Self::Confirmed(..) => Unsupported::ConfirmedSocket,
        };
        TransportError::Unsupported { transport, what }
    }
}

/// A server that clients can connect to. Dropping the listener closes all connections that were not accepted.
pub trait Listener: Send {
    /// Returns the address to connect to: one printable word, valid for processes of the same user on this machine
    /// while the listener exists. No file remains to be removed.
    fn address(&self) -> String;

    /// Sets the number of expected clients (default 1). A datagram listener that expects several clients opens
    /// another socket at its address before it welcomes the first client.
    fn expect(&mut self, _clients: u32) {}

    /// Waits for the next client, up to [`Setup::opening_timeout`]. Calls `is_abandoned` a few times per second, and
    /// stops when `is_abandoned` returns true. Failed and incomplete connections leave the listener unchanged.
    ///
    /// # Errors
    /// [`TransportError::TimedOut`] if no client connected in time, [`TransportError::Abandoned`],
    /// [`TransportError::Unsupported`] for a second client if the transport accepts only one per listener.
    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError>;
}

/// An established connection, or datagram flow, between two ends. When the connection is dropped, its wires stay
/// open.
pub trait Connection: Send {
    /// Opens the next wire to the other end.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a second wire if a connection carries only one.
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError>;

    /// Waits for the next wire that the other end opens, up to [`Setup::opening_timeout`].
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a second wire if a connection carries only one,
    /// [`TransportError::TimedOut`].
    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError>;
}

/// One open channel of a connection, for messages or bytes. Dropping the wire closes it: the other end receives the
/// data already sent, then [`WireError::Closed`].
pub trait Wire: Send {
    /// Sends one whole message. Waits for room as [`Setup::waiting`] specifies. The time-out restarts after partial
    /// progress.
    ///
    /// # Errors
    /// [`WireError::TimedOut`] if there was no room in time: a message was not sent, but a stream may have sent a part
    /// of it and is then unusable. [`WireError::Closed`] if the other end has closed.
    fn send(&mut self, message: &[u8]) -> Result<(), WireError>;

    /// Like [`Wire::send`], for a caller whose next call is [`Wire::receive`]: the wire may send with that call.
    ///
    /// # Errors
    /// As [`Wire::send`]; the next receive may return the error.
    #[inline(always)]
    fn send_before_receive(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.send(message)
    }

    /// Waits for data as [`Setup::waiting`] specifies. Receives one message if the transport keeps boundaries, else
    /// at least one byte. With [`Waiting::Block`](hairpin_model::case::Waiting::Block) a receive that has to wait
    /// makes exactly one system call. A message longer than the buffer is truncated, as by recv(2).
    ///
    /// # Errors
    /// [`WireError::TimedOut`] if nothing arrived in time, [`WireError::Closed`] if the other end has closed.
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError>;

    /// Receives available data without waiting; `None` if no data is available.
    ///
    /// # Errors
    /// As [`Wire::receive`], without the time-out.
    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError>;

    /// Sends as many bytes as there is room for, without waiting. Returns their number, 0 if there is no room. If the
    /// transport keeps boundaries, a message is sent completely or not at all. Closed loops do not call this.
    ///
    /// # Errors
    /// As [`Wire::send`], without the time-out.
    fn try_send(&mut self, _bytes: &[u8]) -> Result<usize, WireError> {
        Err(unsupported("send without waiting"))
    }

    /// Like [`Wire::try_send`], for contiguous messages of `size` bytes each: one system call for up to
    /// [`Batch::MAX_MESSAGES`] messages if the transport has such a call. A byte stream makes a single send.
    ///
    /// # Errors
    /// As [`Wire::try_send`]. An error after the first message is returned by the next call.
    fn send_batch(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        batch::send_each(messages, size, |message| self.try_send(message))
    }

    /// Receives as many available pieces as fit into the batch, without waiting. Returns their number. A piece is a
    /// message if the transport keeps boundaries, else the bytes of one receive.
    ///
    /// # Errors
    /// As [`Wire::try_receive`]. An error after the first piece is returned by the next call.
    fn receive_batch(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        into.fill(|slot| self.try_receive(slot))
    }

    /// Like [`Wire::send_batch`], but a wire opened with [`Waiting::Block`](hairpin_model::case::Waiting::Block)
    /// waits in the system call until it has sent all messages, like sendmmsg(2). A timer interrupts the call after
    /// at most 50 ms; the call then returns the number of bytes sent so far. Other wires do not wait. Transports
    /// without a batch call send one message.
    fn send_batch_waiting(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        self.send_batch(messages, size)
    }

    /// Sends the same bytes up to `times` times: each time calls [`Wire::send_batch_waiting`] if `waits`, else
    /// [`Wire::send_batch`]. Stops after a call that does not send all bytes. This saves several percent of the time of
    /// a small send, compared to separate calls through `dyn Wire`.
    ///
    /// # Errors
    /// As [`Wire::try_send`]. An error after the first send is returned by the next call.
    fn send_repeatedly(&mut self, bytes: &[u8], times: u64, waits: bool) -> Result<Repeated, WireError> {
        let size = bytes.len();
        Repeated::send(size, times, || {
            if waits { self.send_batch_waiting(bytes, size) } else { self.send_batch(bytes, size) }
        })
    }

    /// Like [`Wire::receive_batch`], but a wire opened with [`Waiting::Block`](hairpin_model::case::Waiting::Block)
    /// waits in the system call for data, and then receives all available data. Returns 0 after at most 50 ms without
    /// data. Other wires do not wait. A transport without a call for several messages receives one message.
    fn receive_batch_waiting(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        self.receive_batch(into)
    }

    /// Returns the codes that the caller writes into all messages before it sends them ([`Codes::write`]); `None` if messages
    /// have no codes. Until this call, the wire writes the codes itself, which takes longer.
    fn take_codes(&mut self) -> Option<Codes> {
        None
    }

    /// Loads the content into a memory file for [`Wire::send_file`].
    ///
    /// # Errors
    /// [`WireError::System`], of kind `Unsupported` if the transport cannot send files ([`Card::sends_files`]).
    fn load_file(&mut self, _content: &[u8]) -> Result<(), WireError> {
        Err(unsupported("load a file"))
    }

    /// Sends the bytes `from..to` of the file with one sendfile(2) call. Returns the number of bytes sent. With
    /// `may_wait`, waits like [`Wire::send_batch_waiting`]. Without `may_wait`, does not wait, and a wire opened with
    /// [`Waiting::Block`](hairpin_model::case::Waiting::Block) makes four more system calls (fcntl).
    ///
    /// # Errors
    /// As [`Wire::try_send`] and [`Wire::load_file`]; of kind `InvalidInput` if the range is outside of the file.
    fn send_file(&mut self, _from: usize, _to: usize, _may_wait: bool) -> Result<usize, WireError> {
        Err(unsupported("send a file"))
    }

    /// Number of calls to [`Wire::send_batch`] whose memory the kernel may still read. Changing this memory now would
    /// change the bytes that the other end receives. Always 0 without the option `zerocopy`.
    fn sends_in_flight(&mut self) -> Result<u64, WireError> {
        Ok(0)
    }

    /// The descriptors to poll for this wire in a [`crate::WireSet`]; `None` if the wire has no descriptors.
    #[cfg(target_os = "linux")]
    fn descriptors(&self) -> Option<Descriptors<'_>> {
        None
    }

    /// Runs what a library has to do for this wire, without waiting: pass on data, acknowledge, handle its timers. Returns when to
    /// call again at the latest; `None` if nothing is left to do. An end calls this while it waits for something else.
    fn drive(&mut self) -> Option<Duration> {
        None
    }

    /// What a [`crate::WireSet`] asks besides the descriptors, because a library holds data of the wire or has timers; `None` if
    /// the descriptors suffice.
    #[cfg(target_os = "linux")]
    fn readiness(&self) -> Option<Arc<dyn Readiness>> {
        None
    }

    /// Waits until there is data to receive, or `at_most` has passed. Returns whether there is data.
    ///
    /// Spinning wires also spin in this call. Only the open loop uses it, to send on time even if nothing arrives.
    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError>;

    /// The kernel's current values: `option.NAME` for every option on the card, as text for
    /// [`Options::parse`](hairpin_model::options::Options::parse) (buffer sizes as doubled by the kernel); and counters
    /// and sizes: `tcp_info.*` for TCP, `socket.drops` and `socket.local_address` for sockets, pipe and ring sizes.
    fn effective(&self) -> Vec<Fact>;

    /// System calls of this end on the wire since it was connected: every attempt to send or receive, even without a
    /// result, every `poll` and every [`Stream::set`]. `None` if the wire makes no calls per message or does not
    /// count them.
    ///
    /// Calls that only observe are not counted: reading counters ([`Wire::effective`], [`Stream::segments`]) and all
    /// calls for [`KernelStamps`]. Calls that set the timer for blocking calls are not counted either: the wire makes
    /// them when it opens, when it moves to another thread, and for the first [`Wire::send_batch_waiting`] or
    /// [`Wire::receive_batch_waiting`], but not per message.
    fn system_calls(&self) -> Option<u64> {
        None
    }

    /// Tells the other end that this end will send no more, on transports that otherwise report this only when the
    /// wire closes. Data in flight to this end can still be received.
    fn farewell(&mut self) {}

    /// Begins to close the wire, which may then only be dropped. The drop of a wire that a library drives waits until the other
    /// end has all data; those of many wires wait at the same time if all have begun to close before.
    fn begin_close(&mut self) {}

    /// The operations for small writes; `None` if the wire is not a byte stream.
    fn stream(&mut self) -> Option<&mut dyn Stream> {
        None
    }

    /// The wire for a downcast in [`over_own_type`](crate::over_own_type); `None` for types without a downcast there.
    fn as_any(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// The wire for [`join`](crate::join); `None` for types that cannot be joined.
    fn into_any(self: Box<Self>) -> Option<Box<dyn Any>> {
        None
    }

    /// The wire for loops in a runtime; `None` unless it waits by one.
    fn in_runtime(&mut self) -> Option<&mut dyn InRuntime> {
        None
    }

    /// Requests the kernel's time stamp of each message or segment that arrives from now on (`SO_TIMESTAMPING`,
    /// CLOCK_REALTIME), which the calls that receive then take; `stamps.received` of [`Wire::effective`] counts them.
    ///
    /// # Errors
    /// [`WireError::System`] if the kernel does not stamp this wire, or refuses.
    fn stamp_arrivals(&mut self) -> Result<(), WireError> {
        Err(unsupported("request time stamps"))
    }

    /// The kernel's time stamps of this wire; `None` if the kernel does not stamp it.
    fn kernel_stamps(&mut self) -> Option<&mut dyn KernelStamps> {
        None
    }
}

/// A wire of a runtime. A loop runs as a whole in the runtime.
pub trait InRuntime: Send {
    fn runtime(&self) -> Arc<dyn Runtime>;

    fn send(&mut self, message: &[u8]) -> Result<(), WireError>;

    /// Receives as [`Wire::receive`], or registers to be woken when there is data. Without a time-out.
    fn poll_receive(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, WireError>>;

    /// System calls so far, see [`Wire::system_calls`].
    fn system_calls(&self) -> Option<u64>;
}

/// What runs loops: the calling thread, or threads of the wire.
pub trait Runtime {
    /// Runs a task until it is complete, on one thread at a time.
    ///
    /// # Errors
    /// [`TransportError::System`] if a thread cannot be started. The task has not begun then.
    fn block_on(&self, task: Task<'_>) -> Result<(), TransportError>;
}

pub type Task<'t> = Pin<&'t mut (dyn Future<Output = ()> + Send + 't)>;

fn unsupported(operation: &'static str) -> WireError {
    WireError::System { operation, source: std::io::ErrorKind::Unsupported.into() }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Number of calls that sent all bytes.
    pub whole: u64,
    /// Bytes sent by the last call, if this call did not send all bytes.
    pub rest: usize,
}

impl Repeated {
    /// Sends `size` bytes up to `times` times.
    ///
    /// # Errors
    /// Of the first call; an error of a later call ends the calls.
    #[inline(always)]
    pub fn send(
        size: usize,
        times: u64,
        mut send: impl FnMut() -> Result<usize, WireError>,
    ) -> Result<Self, WireError> {
        let mut sent_so_far = Self::default();
        while sent_so_far.whole < times {
            match send() {
                Ok(sent) if sent == size => sent_so_far.whole += 1,
                Ok(rest) => return Ok(Self { rest, ..sent_so_far }),
                Err(error) if sent_so_far.whole == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent_so_far)
    }
}

/// Small writes to a byte stream over a socket or a pipe.
pub trait Stream {
    /// Sends bytes and tells the kernel that more follow (`MSG_MORE`, send(2)), so that TCP may hold back a partial
    /// segment. A Unix socket ignores the flag.
    ///
    /// # Errors
    /// As [`Wire::send`]; [`WireError::System`] if the transport has no such flag.
    fn send_more(&mut self, bytes: &[u8]) -> Result<(), WireError>;

    /// Sends all parts with one gathering call (`sendmsg` or `writev`) for up to 1024 parts. Bytes that the kernel does
    /// not accept at once are sent afterwards, as by [`Wire::send`].
    ///
    /// # Errors
    /// As [`Wire::send`].
    fn send_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<(), WireError>;

    /// Sets a switch (`nodelay`, `cork`, `quickack`) with one system call.
    ///
    /// # Errors
    /// [`WireError::System`] if the kernel refuses the option, for instance because the wire is not TCP.
    fn set(&mut self, option: OptionName, on: bool) -> Result<(), WireError>;

    /// Data segments and pure ACKs of the connection so far, both directions; `None` if the kernel does not count them.
    /// One system call, which [`Wire::system_calls`] does not count.
    fn segments(&self) -> Option<Segments>;

    /// Bytes of the connection in flight and in the send buffer; `None` if the kernel does not report them. One system
    /// call, which [`Wire::system_calls`] does not count.
    fn sender_state(&self) -> Option<SenderState> {
        None
    }
}

/// TCP's counts of sent and received segments, from `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Segments with payload, both directions.
    pub with_payload: u64,
    /// Segments without payload, both directions, including those of the handshake.
    pub bare: u64,
}

/// The kernel's time stamps of one wire (`SO_TIMESTAMPING`, Documentation/networking/timestamping.rst), which need no
/// privilege. The kernel merges writes into segments: each stamp gives the number of a segment's last byte.
///
/// Stamps wait in the socket's error queue and occupy its receive buffer; if the buffer is full, new stamps are lost.
/// So the caller takes the stamps every few writes.
///
/// Stamps also affect when TCP acknowledges: a read that empties the receive buffer may acknowledge at once, but a
/// read that leaves stamps in the buffer does not (`__tcp_cleanup_rbuf`, net/ipv4/tcp.c). Stamps in the buffer would
/// cause the very stall that they should explain, so [`KernelStamps::receive`] removes them first.
pub trait KernelStamps {
    /// Requests stamps of all data sent and received from now on; the next byte has number 0. Acknowledgments are
    /// stamped only if `acknowledged`.
    fn begin(&mut self, acknowledged: bool) -> Result<(), WireError>;

    /// Requests stamps for single messages, instead of all: sent by [`KernelStamps::send_stamped`], and received by
    /// [`KernelStamps::receive`]. Other messages take the wire's ordinary calls.
    fn begin_for_messages(&mut self) -> Result<(), WireError> {
        Err(unsupported("request time stamps"))
    }

    /// Like [`Wire::send`], and requests the stamps of this message.
    fn send_stamped(&mut self, _message: &[u8]) -> Result<(), WireError> {
        self.begin_for_messages()
    }

    /// Appends the available stamps of sent bytes to `into`, without waiting.
    fn take(&mut self, into: &mut Vec<RawStamp>) -> Result<(), WireError>;

    /// Like [`Wire::receive`], with the time at which the kernel received the last segment: CLOCK_REALTIME, in ns.
    ///
    /// First removes the stamps from the queue; [`KernelStamps::take`] returns them later. Stamps of acknowledgments
    /// arrive together with data, so a wire that requests such stamps first waits for data with `poll`. With stamps for
    /// single messages the queue stays as it is: reading it would delay this message.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    fn receive(&mut self, into: &mut [u8]) -> Result<(usize, Option<u64>), WireError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawStamp {
    pub kind: StampKind,
    /// CLOCK_REALTIME, in ns.
    pub realtime_ns: u64,
    /// Number of bytes from [`KernelStamps::begin`] to the end of the segment; of datagrams, number of stamped ones.
    pub end_byte: u64,
}
