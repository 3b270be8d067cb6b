//! The interfaces that matter: a [`Transport`] has [`Listener`]s, which accept [`Connection`]s; a connection carries one or
//! more [`Wire`]s, and a wire carries messages or bytes.

use std::any::Any;
use std::io::IoSlice;
use std::time::Duration;

use hairpin_model::card::{Card, Receipt, WhyNot};
use hairpin_model::fact::Fact;
use hairpin_model::hint::{Hint, Hinted};
use hairpin_model::options::OptionName;
use hairpin_model::phases::SenderState;
use hairpin_model::quantities::exact_duration;
use hairpin_model::trace::StampKind;

use crate::batch::{self, Batch};
#[cfg(target_os = "linux")]
pub use crate::linux::descriptors::{Descriptors, Handed};
pub use crate::setup::{Cookie, ServerAddresses, Setup};

/// A way to carry bytes between two ends.
pub trait Transport: Sync {
    /// Its name and its promises.
    fn card(&self) -> Card;

    /// Whether it can run here.
    ///
    /// # Errors
    /// The reason why not, and what would help.
    fn can_run(&self) -> Result<Receipt, WhyNot>;

    /// Opens the server: from here on the address can be connected to.
    ///
    /// A transport that the kernel answers returns an error: it has no server of ours.
    ///
    /// # Errors
    /// [`TransportError`] names the operation, the object and the cause.
    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError>;

    /// As [`Transport::listen`], on a socket that is there already: one port can so serve many rounds.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] where the transport takes no such socket, else as [`Transport::listen`].
    #[cfg(target_os = "linux")]
    fn listen_on(&self, handed: Handed, _setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        Err(handed.unsupported(self.card().name))
    }

    /// Connects the client to an address that [`Listener::address`] gave (or, where the kernel answers, to a host).
    ///
    /// # Errors
    /// [`TransportError`] names the operation, the object and the cause.
    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError>;
}

#[cfg(target_os = "linux")]
impl Handed {
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

/// The server, to which clients can connect. Dropping it closes whatever it has not accepted.
pub trait Listener: Send {
    /// Where to connect to, in one printable word that another process on this machine (same user) can use for as
    /// long as this end lives. Nothing in the file system stands for it, so nothing is left behind.
    fn address(&self) -> String;

    /// So many clients will come in all; where nobody says so, one. A datagram listener that expects several needs another socket
    /// at its address before the first is told that it is connected.
    fn expect(&mut self, _clients: u32) {}

    /// Waits for the next client, [`Setup::opening_timeout`] at most. Meanwhile it asks `is_abandoned` a few times a
    /// second, and ends at once where that says so. Whoever comes in vain or in part leaves the listener as it was.
    ///
    /// # Errors
    /// [`TransportError::TimedOut`] when nobody came in time, [`TransportError::Abandoned`],
    /// [`TransportError::Unsupported`] for a second client where the transport has one for each listener.
    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError>;
}

/// An established connection, or datagram flow, between two ends. A wire outlives the connection that it was opened on.
pub trait Connection: Send {
    /// Opens the next wire to the other end.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a second one where a connection carries one.
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError>;

    /// The next wire that the other end opens, waiting as long as [`Listener::accept`] does.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a second one where a connection carries one, [`TransportError::TimedOut`].
    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError>;
}

/// One open channel of a connection, for messages or bytes. Dropping it closes it, and the other end's calls then answer
/// [`WireError::Closed`] once they have taken what was sent before.
pub trait Wire: Send {
    /// Sends one whole message, waiting for room as the setup's waiting says. The time-out begins again whenever a
    /// part of a long message was accepted.
    ///
    /// # Errors
    /// [`WireError::TimedOut`] when there was no room in time: nothing of the message was sent where the transport
    /// keeps boundaries; on a stream its beginning may have been, and the stream is then of no further use.
    /// [`WireError::Closed`] when the other end is gone.
    fn send(&mut self, message: &[u8]) -> Result<(), WireError>;

    /// Waits, as the setup's waiting says, for bytes, and takes what is there: one message where the transport
    /// keeps boundaries, else any number of bytes from 1. With [`Waiting::Block`](hairpin_model::case::Waiting::Block) it is exactly one system call where
    /// it has to sleep. What does not fit of a message that keeps its boundaries is cut off, as recv(2) does.
    ///
    /// # Errors
    /// [`WireError::TimedOut`] when nothing came in time, [`WireError::Closed`] when the other end is gone.
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError>;

    /// Takes what is there without ever waiting; `None` when there is nothing.
    ///
    /// # Errors
    /// As [`Wire::receive`], but for the time-out.
    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError>;

    /// Sends what there is room for without ever waiting, whatever the setup's waiting; answers how many bytes were taken, 0
    /// where there is no room. Where the transport keeps boundaries a message is taken whole or not at all. A wire that only
    /// the closed loops use need not have it.
    ///
    /// # Errors
    /// As [`Wire::send`], but for the time-out.
    fn try_send(&mut self, _bytes: &[u8]) -> Result<usize, WireError> {
        let source = std::io::ErrorKind::Unsupported.into();
        Err(WireError::System { operation: "send without waiting", source })
    }

    /// As [`Wire::try_send`], of several messages that stand one after another in `messages`, each `size` bytes long: in
    /// one system call for up to [`Batch::MAX_MESSAGES`] of them where the transport has such a call. Where it keeps no boundaries
    /// all of it is one send.
    ///
    /// # Errors
    /// As [`Wire::try_send`]. An error after the first message is told by the next call.
    fn send_batch(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        batch::send_each(messages, size, |message| self.try_send(message))
    }

    /// Takes what is there, as many pieces as fit `into`, without ever waiting; answers how many, 0 where there is nothing.
    /// A piece is a message where the transport keeps boundaries, else whatever a receive gave.
    ///
    /// # Errors
    /// As [`Wire::try_receive`]. An error after the first piece is told by the next call.
    fn receive_batch(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        into.fill(|slot| self.try_receive(slot))
    }

    /// As [`Wire::send_batch`], but a wire that was opened with [`Waiting::Block`](hairpin_model::case::Waiting::Block) waits in the system call until messages
    /// were taken, 50 ms at most where the timer that interrupts it has expired: then the answer is 0, or less than all. Other
    /// wires do not wait. A blocking send of several messages waits for room for all of them, as sendmmsg(2) does. A transport
    /// that has no call for several messages sends one.
    ///
    /// # Errors
    /// As [`Wire::send_batch`].
    fn send_batch_waiting(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        self.send_batch(messages, size)
    }

    /// Sends the same bytes so many times, one call each, until one is not taken whole: as [`Wire::send_batch_waiting`] where it
    /// `waits`, else as [`Wire::send_batch`]. One call of this instead of many is worth several percent of a small send.
    ///
    /// # Errors
    /// As [`Wire::try_send`]. An error after the first call is told by the next.
    fn send_repeatedly(&mut self, bytes: &[u8], times: u64, waits: bool) -> Result<Repeated, WireError> {
        let mut done = Repeated::default();
        while done.whole < times {
            let sent =
                if waits { self.send_batch_waiting(bytes, bytes.len()) } else { self.send_batch(bytes, bytes.len()) };
            match sent {
                Ok(sent) if sent == bytes.len() => done.whole += 1,
                Ok(rest) => return Ok(Repeated { rest, ..done }),
                Err(error) if done.whole == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// As [`Wire::receive_batch`], but a wire that was opened with [`Waiting::Block`](hairpin_model::case::Waiting::Block) waits in the system call until
    /// something has come, and then takes all that is there; after 50 ms at most the answer is 0. Other wires do not wait. A
    /// transport that has no call for several messages takes one.
    ///
    /// # Errors
    /// As [`Wire::receive_batch`].
    fn receive_batch_waiting(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        self.receive_batch(into)
    }

    /// Gives the wire a file to send from, which is kept in memory.
    ///
    /// # Errors
    /// [`WireError::System`]: of kind `Unsupported` where the transport sends no files ([`Card::sends_files`]), else that of the
    /// kernel.
    fn load_file(&mut self, _content: &[u8]) -> Result<(), WireError> {
        Err(no_files("load a file"))
    }

    /// Sends the bytes of the file between two places by one call of sendfile(2); answers how many were taken. With `may_wait` it
    /// waits as [`Wire::send_batch_waiting`] does, else not at all. A wire that was opened with [`Waiting::Block`](hairpin_model::case::Waiting::Block) and must not
    /// wait makes four calls more, which set a flag of its descriptor and reset it.
    ///
    /// # Errors
    /// As [`Wire::try_send`]; of kind `Unsupported` as [`Wire::load_file`]; `InvalidInput` where the file has no such bytes.
    fn send_file(&mut self, _from: usize, _to: usize, _may_wait: bool) -> Result<usize, WireError> {
        Err(no_files("send a file"))
    }

    /// Calls to [`Wire::send_batch`] whose memory the kernel may still read: what stands there must not change before they are
    /// complete, or other bytes arrive. Only the option `zerocopy` has such calls.
    ///
    /// # Errors
    /// [`WireError::System`] when the system call fails.
    fn sends_in_flight(&mut self) -> Result<u64, WireError> {
        Ok(0)
    }

    /// What becomes readable and writable when the wire does, for a [`crate::WireSet`]; `None` where no descriptor tells.
    #[cfg(target_os = "linux")]
    fn descriptors(&self) -> Option<Descriptors<'_>> {
        None
    }

    /// Waits until there is something to receive, or until `at_most` has passed; says whether there is.
    ///
    /// Spinning wires spin here too. Only the open loop uses it: it must send on time whatever has come back.
    ///
    /// # Errors
    /// [`WireError::System`] when the system call fails.
    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError>;

    /// What the kernel says now: `option.NAME` for every option on the card, as a word that
    /// [`Options::parse`](hairpin_model::options::Options::parse) takes (buffer sizes as the kernel doubled them), and its counters: `tcp_info.*` for TCP,
    /// `socket.drops` and `socket.local_address` for sockets, sizes of pipes and rings.
    fn effective(&self) -> Vec<Fact>;

    /// System calls that this end has made on the wire since it was connected: every attempt to send or to receive,
    /// also those that find nothing, every `poll` and every [`Stream::set`]. `None` where the transport makes none for a
    /// message or does not count them.
    ///
    /// Left out is what watches and carries nothing: reading counters ([`Wire::effective`], [`Stream::segments`]),
    /// whatever is for the sake of [`KernelStamps`], and the timer that interrupts blocking calls, which is set once when
    /// the wire opens, again when another thread takes it over, and once more for the first
    /// [`Wire::send_batch_waiting`] or [`Wire::receive_batch_waiting`], but never for a message.
    fn system_calls(&self) -> Option<u64> {
        None
    }

    /// Tells the other end, where only closing would, that nothing more will be sent. What is on its way back can still
    /// be received.
    fn farewell(&mut self) {}

    /// What small writes need beyond whole messages; `None` where bytes are no stream of system calls.
    fn stream(&mut self) -> Option<&mut dyn Stream> {
        None
    }

    /// The wire as the type that it is, for [`over_own_type`](crate::over_own_type); `None` of wires that do not offer it.
    fn as_any(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// The kernel's time stamps of this wire; `None` where the kernel has none.
    fn kernel_stamps(&mut self) -> Option<&mut dyn KernelStamps> {
        None
    }
}

fn no_files(operation: &'static str) -> WireError {
    WireError::System { operation, source: std::io::ErrorKind::Unsupported.into() }
}

/// What [`Wire::send_repeatedly`] has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Calls that took all bytes.
    pub whole: u64,
    /// Bytes that the call after them took, where it took less.
    pub rest: usize,
}

/// What small writes need of a byte stream over a socket or a pipe.
pub trait Stream {
    /// Sends bytes and tells the kernel that more follow (`MSG_MORE`, send(2)), so that TCP may hold back what fills no
    /// segment. A Unix socket takes the flag and ignores it.
    ///
    /// # Errors
    /// As [`Wire::send`]; [`WireError::System`] where there is no such flag.
    fn send_more(&mut self, bytes: &[u8]) -> Result<(), WireError>;

    /// Sends all parts in one call that gathers them (`sendmsg` or `writev`), 1024 parts at most in a call; what the
    /// kernel does not take at once is sent after it, as [`Wire::send`] does.
    ///
    /// # Errors
    /// As [`Wire::send`].
    fn send_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<(), WireError>;

    /// Sets one switch (`nodelay`, `cork`, `quickack`) now: one system call.
    ///
    /// # Errors
    /// [`WireError::System`] when the kernel refuses, as it does where the wire is no TCP.
    fn set(&mut self, option: OptionName, on: bool) -> Result<(), WireError>;

    /// Data segments and pure acknowledgments of the connection so far, both directions; `None` where the kernel
    /// counts none. It is one system call, which [`Wire::system_calls`] leaves out.
    fn segments(&self) -> Option<Segments>;

    /// What the connection has in flight and in its send buffer, at this moment; `None` where the kernel does not tell. It is one
    /// system call, which [`Wire::system_calls`] leaves out.
    fn sender_state(&self) -> Option<SenderState> {
        None
    }
}

/// What TCP has sent and received, by `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Segments with payload, both directions.
    pub with_payload: u64,
    /// Segments without, both directions; those of the handshake are among them.
    pub bare: u64,
}

/// The kernel's time stamps of one wire (`SO_TIMESTAMPING`, Documentation/networking/timestamping.rst), which need no
/// privilege. The kernel merges writes: a stamp speaks of a segment and names its last byte.
///
/// Stamps wait in the socket's error queue, in the room of its receive buffer; what finds no room is lost. So they are
/// taken every few writes.
///
/// That room also decides when TCP acknowledges: a read that leaves it empty may acknowledge at once, and one that leaves
/// stamps in it never does (`__tcp_cleanup_rbuf`, net/ipv4/tcp.c). Left there, they bring about the very stall that they
/// were to explain, so [`KernelStamps::receive`] takes them first.
pub trait KernelStamps {
    /// Asks for stamps of everything that is sent and received from here on, whose bytes count from 0. Those of
    /// acknowledgments come with `acknowledged` only.
    ///
    /// # Errors
    /// [`WireError::System`] when the kernel refuses.
    fn begin(&mut self, acknowledged: bool) -> Result<(), WireError>;

    /// Takes the stamps of what was sent that have come so far; never waits.
    ///
    /// # Errors
    /// [`WireError::System`] when the system call fails.
    fn take(&mut self, into: &mut Vec<RawStamp>) -> Result<(), WireError>;

    /// As [`Wire::receive`], and when the kernel received the last segment of it: CLOCK_REALTIME, in ns.
    ///
    /// No stamp that has come is in the way of the read: [`KernelStamps::take`] gives it afterwards. As acknowledgments
    /// come with what is read, a wire that stamps them first waits for it by a `poll`.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    fn receive(&mut self, into: &mut [u8]) -> Result<(usize, Option<u64>), WireError>;
}

/// One kernel stamp as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawStamp {
    /// Of what.
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
        /// What was tried, for instance `bind`.
        operation: &'static str,
        /// On what, for instance `127.0.0.1:7777`.
        object: String,
        /// The system's answer.
        source: std::io::Error,
        /// What would help; empty where nobody knows.
        hint: String,
    },
    /// An option was refused by the kernel.
    Option {
        /// The option.
        name: OptionName,
        /// The value asked for.
        asked: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The transport does not know the option.
    NoSuchOption {
        /// The transport.
        transport: &'static str,
        /// The option.
        name: OptionName,
    },
    /// Nobody connected, or nobody answered, in time.
    TimedOut {
        /// `connected` or `answered`.
        what: &'static str,
        /// The time-out.
        after: Duration,
    },
    /// Nobody welcomed a client of datagrams in time.
    Unwelcome {
        /// The transport.
        transport: &'static str,
        /// The server's address.
        address: String,
        /// How many datagrams the client sent.
        sent: u32,
        /// How many answers to them came.
        answers: u32,
        /// The time-out.
        after: Duration,
    },
    /// Whoever waited for a client wants none any more.
    Abandoned,
    /// The transport does not have it.
    Unsupported {
        /// The transport.
        transport: &'static str,
        /// What was asked for.
        what: Unsupported,
    },
    /// It cannot be done on this transport at all.
    Impossible(WhyNot),
}

/// What some transports have and others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// A second wire on a connection.
    SecondWire,
    /// A second connection to a listener.
    SecondConnection,
    /// A server on a socket that is bound already.
    BoundSocket,
    /// A server on a socket that is accepted already.
    AcceptedSocket,
    /// A server on a socket of datagrams that is connected already.
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
    /// Whether nobody connected or answered in time.
    #[must_use]
    pub fn is_time_out(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Unwelcome { .. })
    }
}

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Nothing came, or there was no room, within the time-out.
    #[error("timed out: {operation} made no progress for {} ms", .after.as_millis())]
    TimedOut {
        /// `send` or `receive`.
        operation: &'static str,
        /// The time-out.
        after: Duration,
    },
    /// The other end is gone.
    #[error("the other end closed the connection or has ended")]
    Closed,
    /// The kernel had no memory for the message, or a device's queue no room (`ENOBUFS`, send(2)): it threw the message away.
    #[error("the kernel refused a message: no buffer space available")]
    Refused,
    /// A system call failed.
    #[error("{operation} failed: {source}")]
    System {
        /// `send`, `receive` or `poll`.
        operation: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}
