//! The main interfaces: a [`Transport`] has [`Listener`]s, which accept [`Connection`]s; a connection carries one or
//! more [`Wire`]s, and a wire carries messages or bytes.

use std::any::Any;
use std::io::IoSlice;
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::quantities::exact_duration;
use hairpin_model::trace::StampKind;
use hairpin_model::{Card, Fact, FailureKind, Hint, Hinted, Receipt, SenderState, WhyNot};

use crate::batch::{self, Batch};
#[cfg(target_os = "linux")]
pub use crate::linux::descriptors::{Descriptors, PassedSocket};
pub use crate::setup::{Cookie, ServerAddresses, Setup};

/// A way to carry bytes between two ends.
pub trait Transport: Sync {
    /// Its name and properties.
    fn card(&self) -> Card;

    /// Whether it can run on this machine.
    ///
    /// # Errors
    /// The reason, and a remedy.
    fn can_run(&self) -> Result<Receipt, WhyNot>;

    /// Opens the server; clients can then connect to its address.
    ///
    /// A transport that the kernel answers returns an error: it has no server.
    ///
    /// # Errors
    /// [`TransportError`] names the operation, the object and the cause.
    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError>;

    /// Like [`Transport::listen`], on an existing socket, so that one port can serve many rounds.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] if the transport takes no such socket, else as [`Transport::listen`].
    #[cfg(target_os = "linux")]
    fn listen_on(&self, handed: PassedSocket, _setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        Err(handed.unsupported(self.card().name))
    }

    /// Connects the client to the address from [`Listener::address`] (or to a host, if the kernel answers).
    ///
    /// # Errors
    /// [`TransportError`] names the operation, the object and the cause.
    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError>;
}

#[cfg(target_os = "linux")]
impl PassedSocket {
    /// The error of a transport that takes no such socket.
    pub(crate) fn unsupported(&self, transport: &'static str) -> TransportError {
        let what = match self {
            Self::Bound(_) => Unsupported::BoundSocket,
            Self::Accepted(_) => Unsupported::AcceptedSocket,
            Self::Confirmed(..) => Unsupported::ConfirmedSocket,
        };
        TransportError::Unsupported { transport, what }
    }
}

/// A server that clients can connect to. Dropping it closes everything that it has not accepted.
pub trait Listener: Send {
    /// The address to connect to, one printable word that is valid for another process on this machine (same user) as
    /// long as this end lives. It has no file, so nothing is left behind.
    fn address(&self) -> String;

    /// Sets the number of expected clients (default 1). A datagram listener that expects several needs another socket
    /// at its address before the first client is welcomed.
    fn expect(&mut self, _clients: u32) {}

    /// Waits for the next client, up to [`Setup::opening_timeout`]. Calls `is_abandoned` a few times per second, and
    /// ends at once when it returns true. Failed and partial connections leave the listener as it was.
    ///
    /// # Errors
    /// [`TransportError::TimedOut`] if no client connected in time, [`TransportError::Abandoned`],
    /// [`TransportError::Unsupported`] for a second client if the transport has one per listener.
    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError>;
}

/// An established connection, or datagram flow, between two ends. A wire outlives its connection.
pub trait Connection: Send {
    /// Opens the next wire to the other end.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a second wire if a connection carries one.
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError>;

    /// Waits for the next wire that the other end opens, as long as [`Listener::accept`].
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a second wire if a connection carries one, [`TransportError::TimedOut`].
    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError>;
}

/// One open channel of a connection, for messages or bytes. Dropping it closes it; the other end's calls then return
/// [`WireError::Closed`] once they have received what was sent before.
pub trait Wire: Send {
    /// Sends one whole message, waiting for room as the setup's waiting says. The time-out restarts whenever part of a
    /// long message was accepted.
    ///
    /// # Errors
    /// [`WireError::TimedOut`] if there was no room in time: with boundaries nothing of the message was sent; on a
    /// stream its beginning may have been, and the stream is then unusable. [`WireError::Closed`] if the other end is
    /// gone.
    fn send(&mut self, message: &[u8]) -> Result<(), WireError>;

    /// Waits for bytes as the setup's waiting says, and takes what is there: one message if the transport keeps
    /// boundaries, else at least one byte. With [`Waiting::Block`](hairpin_model::case::Waiting::Block) it is exactly
    /// one system call if it has to sleep. A message longer than the buffer is truncated, as by recv(2).
    ///
    /// # Errors
    /// [`WireError::TimedOut`] if nothing arrived in time, [`WireError::Closed`] if the other end is gone.
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError>;

    /// Takes what is there without waiting; `None` if there is nothing.
    ///
    /// # Errors
    /// As [`Wire::receive`], without the time-out.
    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError>;

    /// Sends as much as there is room for, without waiting. Returns the number of bytes taken, 0 if there is no room.
    /// With boundaries a message is taken completely or not at all. Wires only used by closed loops need not implement
    /// it.
    ///
    /// # Errors
    /// As [`Wire::send`], without the time-out.
    fn try_send(&mut self, _bytes: &[u8]) -> Result<usize, WireError> {
        let source = std::io::ErrorKind::Unsupported.into();
        Err(WireError::System { operation: "send without waiting", source })
    }

    /// Like [`Wire::try_send`], for contiguous messages of `size` bytes each: one system call for up to
    /// [`Batch::MAX_MESSAGES`] of them if the transport has such a call. Without boundaries it is a single send.
    ///
    /// # Errors
    /// As [`Wire::try_send`]. An error after the first message is returned by the next call.
    fn send_batch(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        batch::send_each(messages, size, |message| self.try_send(message))
    }

    /// Takes as many available pieces as fit `into`, without waiting. Returns their number, 0 if there are none. A
    /// piece is a message if the transport keeps boundaries, else the bytes of one receive.
    ///
    /// # Errors
    /// As [`Wire::try_receive`]. An error after the first piece is returned by the next call.
    fn receive_batch(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        into.fill(|slot| self.try_receive(slot))
    }

    /// Like [`Wire::send_batch`], but a wire opened with [`Waiting::Block`](hairpin_model::case::Waiting::Block) waits
    /// in the system call until messages were taken; when a timer interrupts it, after 50 ms at most, it returns 0 or
    /// less than all. Other wires do not wait. A blocking send of several messages waits for room for all of them, like
    /// sendmmsg(2). A transport without a call for several messages sends one.
    ///
    /// # Errors
    /// As [`Wire::send_batch`].
    fn send_batch_waiting(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        self.send_batch(messages, size)
    }

    /// Sends the same bytes up to `times` times, one call each, until one is not taken completely: like
    /// [`Wire::send_batch_waiting`] if `waits`, else like [`Wire::send_batch`]. One call of this instead of many saves
    /// several percent of a small send.
    ///
    /// # Errors
    /// As [`Wire::try_send`]. An error after the first call is returned by the next.
    fn send_repeatedly(&mut self, bytes: &[u8], times: u64, waits: bool) -> Result<Repeated, WireError> {
        let size = bytes.len();
        Repeated::of(size, times, || {
            if waits { self.send_batch_waiting(bytes, size) } else { self.send_batch(bytes, size) }
        })
    }

    /// Like [`Wire::receive_batch`], but a wire opened with [`Waiting::Block`](hairpin_model::case::Waiting::Block)
    /// waits in the system call for data, and then takes all that is there; after 50 ms at most it returns 0. Other
    /// wires do not wait. A transport without a call for several messages takes one.
    ///
    /// # Errors
    /// As [`Wire::receive_batch`].
    fn receive_batch_waiting(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        self.receive_batch(into)
    }

    /// Loads a file to send from, into memory.
    ///
    /// # Errors
    /// [`WireError::System`]: of kind `Unsupported` if the transport sends no files ([`Card::sends_files`]), else from
    /// the kernel.
    fn load_file(&mut self, _content: &[u8]) -> Result<(), WireError> {
        Err(no_files("load a file"))
    }

    /// Sends the bytes `from..to` of the file with one sendfile(2) call. Returns the number of bytes taken. With
    /// `may_wait` it waits like [`Wire::send_batch_waiting`], else not at all. A wire opened with
    /// [`Waiting::Block`](hairpin_model::case::Waiting::Block) that must not wait makes four more calls, to set and
    /// clear a descriptor flag.
    ///
    /// # Errors
    /// As [`Wire::try_send`]; of kind `Unsupported` as [`Wire::load_file`]; `InvalidInput` if the file has no such
    /// bytes.
    fn send_file(&mut self, _from: usize, _to: usize, _may_wait: bool) -> Result<usize, WireError> {
        Err(no_files("send a file"))
    }

    /// Calls to [`Wire::send_batch`] whose memory the kernel may still read: changing it before they are complete
    /// changes the bytes that arrive. Only the option `zerocopy` has such calls.
    ///
    /// # Errors
    /// [`WireError::System`] if the system call fails.
    fn sends_in_flight(&mut self) -> Result<u64, WireError> {
        Ok(0)
    }

    /// The descriptors that become readable and writable with the wire, for a [`crate::WireSet`]; `None` if there are
    /// none.
    #[cfg(target_os = "linux")]
    fn descriptors(&self) -> Option<Descriptors<'_>> {
        None
    }

    /// Waits until there is something to receive, or `at_most` has passed. Returns whether there is.
    ///
    /// Spinning wires spin here too. Only the open loop uses it: it must send on time, whatever arrives.
    ///
    /// # Errors
    /// [`WireError::System`] if the system call fails.
    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError>;

    /// The kernel's current values: `option.NAME` for every option on the card, as a word for
    /// [`Options::parse`](hairpin_model::options::Options::parse) (buffer sizes as doubled by the kernel), and its
    /// counters: `tcp_info.*` for TCP, `socket.drops` and `socket.local_address` for sockets, sizes of pipes and rings.
    fn effective(&self) -> Vec<Fact>;

    /// System calls of this end on the wire since it was connected: every attempt to send or to receive, even if it
    /// finds nothing, every `poll` and every [`Stream::set`]. `None` if the transport makes none per message or does
    /// not count them.
    ///
    /// Not counted are calls that only observe: reading counters ([`Wire::effective`], [`Stream::segments`]), all calls
    /// for [`KernelStamps`], and the timer that interrupts blocking calls. The timer is set when the wire opens, when
    /// another thread takes it over, and for the first [`Wire::send_batch_waiting`] or [`Wire::receive_batch_waiting`],
    /// but never per message.
    fn system_calls(&self) -> Option<u64> {
        None
    }

    /// Tells the other end that nothing more will be sent, if only closing would tell it. Data in flight to this end
    /// can still be received.
    fn farewell(&mut self) {}

    /// The operations for small writes; `None` if bytes are not a stream of system calls.
    fn stream(&mut self) -> Option<&mut dyn Stream> {
        None
    }

    /// The wire as its own type, for [`over_own_type`](crate::over_own_type); `None` if it does not offer it.
    fn as_any(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// The kernel's time stamps of this wire; `None` if the kernel has none.
    fn kernel_stamps(&mut self) -> Option<&mut dyn KernelStamps> {
        None
    }
}

fn no_files(operation: &'static str) -> WireError {
    WireError::System { operation, source: std::io::ErrorKind::Unsupported.into() }
}

/// The result of [`Wire::send_repeatedly`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Number of calls that took all bytes.
    pub whole: u64,
    /// Bytes taken by the next call, if it took only some.
    pub rest: usize,
}

impl Repeated {
    /// Sends `size` bytes up to `times` times.
    #[inline(always)]
    pub(crate) fn of(
        size: usize,
        times: u64,
        mut send: impl FnMut() -> Result<usize, WireError>,
    ) -> Result<Self, WireError> {
        let mut done = Self::default();
        while done.whole < times {
            match send() {
                Ok(sent) if sent == size => done.whole += 1,
                Ok(rest) => return Ok(Self { rest, ..done }),
                Err(error) if done.whole == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

/// Small writes to a byte stream over a socket or a pipe.
pub trait Stream {
    /// Sends bytes and tells the kernel that more follow (`MSG_MORE`, send(2)), so that TCP may hold back a partial
    /// segment. A Unix socket ignores the flag.
    ///
    /// # Errors
    /// As [`Wire::send`]; [`WireError::System`] if there is no such flag.
    fn send_more(&mut self, bytes: &[u8]) -> Result<(), WireError>;

    /// Sends all parts in one gathering call (`sendmsg` or `writev`), at most 1024 parts per call; what the kernel does
    /// not take at once is sent afterwards, like [`Wire::send`].
    ///
    /// # Errors
    /// As [`Wire::send`].
    fn send_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<(), WireError>;

    /// Sets one switch (`nodelay`, `cork`, `quickack`): one system call.
    ///
    /// # Errors
    /// [`WireError::System`] if the kernel refuses, as it does if the wire is not TCP.
    fn set(&mut self, option: OptionName, on: bool) -> Result<(), WireError>;

    /// Data segments and pure ACKs of the connection so far, both directions; `None` if the kernel does not count them.
    /// One system call, which [`Wire::system_calls`] does not count.
    fn segments(&self) -> Option<Segments>;

    /// What the connection has in flight and in its send buffer; `None` if the kernel does not report it. One system
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
/// privilege. The kernel merges writes: a stamp belongs to a segment and names its last byte.
///
/// Stamps wait in the socket's error queue and take room in its receive buffer; those without room are lost. So they
/// are taken every few writes.
///
/// That room also determines when TCP acknowledges: a read that leaves it empty may acknowledge at once, and one that
/// leaves stamps in it never does (`__tcp_cleanup_rbuf`, net/ipv4/tcp.c). Stamps left there would cause the very stall
/// that they should explain, so [`KernelStamps::receive`] takes them first.
pub trait KernelStamps {
    /// Requests stamps of everything sent and received from here on; its bytes count from 0. Acknowledgments are only
    /// stamped with `acknowledged`.
    ///
    /// # Errors
    /// [`WireError::System`] if the kernel refuses.
    fn begin(&mut self, acknowledged: bool) -> Result<(), WireError>;

    /// Takes the stamps of sent bytes that are available; never waits.
    ///
    /// # Errors
    /// [`WireError::System`] if the system call fails.
    fn take(&mut self, into: &mut Vec<RawStamp>) -> Result<(), WireError>;

    /// Like [`Wire::receive`], with the time at which the kernel received the last segment: CLOCK_REALTIME, in ns.
    ///
    /// It first clears the stamps from the queue; [`KernelStamps::take`] returns them later. Stamps of acknowledgments
    /// arrive with the data, so a wire that requests them first waits for data with `poll`.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    fn receive(&mut self, into: &mut [u8]) -> Result<(usize, Option<u64>), WireError>;
}

/// One kernel stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawStamp {
    pub kind: StampKind,
    /// CLOCK_REALTIME, in ns.
    pub realtime_ns: u64,
    /// End of the bytes that it covers, counted from [`KernelStamps::begin`].
    pub end_byte: u64,
}

/// Why a transport could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}{}", self.cause(), Hint(&self.hint()))]
pub enum TransportError {
    /// A system call failed.
    System {
        /// The attempted operation, for instance `bind`.
        operation: &'static str,
        /// Its object, for instance `127.0.0.1:7777`.
        object: String,
        source: std::io::Error,
        /// A remedy; empty if unknown.
        hint: String,
    },
    /// An option was refused by the kernel.
    Option {
        name: OptionName,
        asked: String,
        source: std::io::Error,
    },
    /// The transport does not have the option.
    NoSuchOption {
        transport: &'static str,
        name: OptionName,
    },
    /// No client connected, or no server answered, in time.
    TimedOut {
        /// `connected` or `answered`.
        what: &'static str,
        after: Duration,
    },
    /// The server did not welcome a datagram client in time.
    Unwelcome {
        transport: &'static str,
        address: String,
        /// Number of datagrams that the client sent.
        sent: u32,
        answers: u32,
        after: Duration,
    },
    /// The caller stopped waiting for a client.
    Abandoned,
    /// The transport does not support it.
    Unsupported {
        transport: &'static str,
        what: Unsupported,
    },
    Impossible(WhyNot),
}

impl From<&TransportError> for FailureKind {
    fn from(error: &TransportError) -> Self {
        match error {
            TransportError::System { source, .. } | TransportError::Option { source, .. } => source.into(),
            TransportError::TimedOut { .. } | TransportError::Unwelcome { .. } => Self::TimedOut,
            TransportError::Abandoned => Self::Interrupted,
            TransportError::NoSuchOption { .. }
            | TransportError::Unsupported { .. }
            | TransportError::Impossible(_) => Self::Unsupported,
        }
    }
}

/// What some transports do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    SecondWire,
    SecondConnection,
    BoundSocket,
    AcceptedSocket,
    /// A server on a datagram socket that is already connected.
    ConfirmedSocket,
}

impl Unsupported {
    fn cause(self) -> &'static str {
        match self {
            Self::SecondWire => "carries one stream per connection",
            Self::SecondConnection => "accepts one connection per listener",
            Self::BoundSocket => "cannot listen on a socket that is already bound",
            Self::AcceptedSocket => "cannot take over a connection that is already accepted",
            Self::ConfirmedSocket => "cannot take over a datagram socket that is already connected",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::SecondWire => "open another connection",
            Self::SecondConnection => "listen again",
            Self::BoundSocket | Self::AcceptedSocket | Self::ConfirmedSocket => "let it open its own",
        }
    }
}

impl Hinted for TransportError {
    fn cause(&self) -> String {
        match self {
            Self::System { operation, object, source, .. } => format!("cannot {operation} {object}: {source}"),
            Self::Option { name, asked, source } => format!("option {name}={asked} cannot be set: {source}"),
            Self::NoSuchOption { transport, name } => format!("{transport} has no option {name}"),
            Self::TimedOut { what, after } => format!("no peer {what} within {} ms", after.as_millis()),
            Self::Unwelcome { transport, address, sent, answers, after } => {
                let came = match answers {
                    0 => "none came back".to_owned(),
                    _ => format!("{answers} came back, and no welcome"),
                };
                let after = exact_duration(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
                format!("no answer over {transport}: {sent} datagrams were sent to {address} in {after}, and {came}")
            }
            Self::Abandoned => "the server no longer waits for a client".to_owned(),
            Self::Unsupported { transport, what } => format!("{transport} {}", what.cause()),
            Self::Impossible(why) => why.cause(),
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::System { hint, .. } => hint.clone(),
            Self::Option { .. } | Self::NoSuchOption { .. } => {
                "`hairpin list` shows what each transport takes".to_owned()
            }
            Self::TimedOut { .. } => "is the server running?".to_owned(),
            Self::Unwelcome { .. } => {
                "is the server running? a firewall may drop datagrams to its port, or those back".to_owned()
            }
            Self::Abandoned => String::new(),
            Self::Unsupported { what, .. } => what.hint().to_owned(),
            Self::Impossible(why) => why.hint(),
        }
    }
}

impl TransportError {
    /// Whether no client connected, or no server answered, in time.
    pub fn is_time_out(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Unwelcome { .. })
    }
}

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Nothing arrived, or there was no room, within the time-out.
    #[error("timed out: {operation} made no progress for {} ms", .after.as_millis())]
    TimedOut {
        /// `send` or `receive`.
        operation: &'static str,
        after: Duration,
    },
    /// The other end is gone.
    #[error("the other end closed the connection or has ended")]
    Closed,
    /// The kernel had no memory for the message, or a device's queue no room (`ENOBUFS`, send(2)); the message is
    /// dropped.
    #[error("the kernel refused a message: no buffer space available")]
    Refused,
    /// A system call failed.
    #[error("{operation} failed: {source}")]
    System {
        /// `send`, `receive` or `poll`.
        operation: &'static str,
        source: std::io::Error,
    },
}

impl From<&WireError> for FailureKind {
    fn from(error: &WireError) -> Self {
        match error {
            WireError::TimedOut { .. } => Self::TimedOut,
            WireError::Closed => Self::Closed,
            WireError::Refused => Self::Resource,
            WireError::System { source, .. } => source.into(),
        }
    }
}
