//! Why a transport could not be opened, and why a message could not be sent or received.

use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::quantities::exact_duration;
use hairpin_model::{FailureKind, Hint, Hinted, WhyNot};

use crate::foreign::Refusal;

/// Why a transport could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}{}", self.cause(), Hint(&self.hint()))]
pub enum TransportError {
    /// A system call failed.
    System {
        /// The attempted operation, for instance `bind`.
        operation: &'static str,
        /// The object of the operation, for instance `127.0.0.1:7777`.
        object: String,
        source: std::io::Error,
        /// How to fix the problem; empty if unknown.
        hint: String,
    },
    /// The kernel refused an option.
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
        /// Size of each datagram, if the protocol prescribes it.
        bytes: Option<u32>,
    },
    /// The caller stopped waiting for a client.
    Abandoned,
    /// The transport does not support the operation.
    Unsupported {
        transport: &'static str,
        what: Unsupported,
    },
    Impossible(WhyNot),
    /// A foreign server refused the connection.
    Foreign(Box<Refusal>),
}

impl From<&TransportError> for FailureKind {
    fn from(error: &TransportError) -> Self {
        match error {
            TransportError::System { source, .. } | TransportError::Option { source, .. } => source.into(),
            TransportError::TimedOut { .. } | TransportError::Unwelcome { .. } => Self::TimedOut,
            TransportError::Abandoned => Self::Interrupted,
            TransportError::Foreign(refusal) => refusal.failure("").kind,
            TransportError::NoSuchOption { .. }
            | TransportError::Unsupported { .. }
            | TransportError::Impossible(_) => Self::Unsupported,
        }
    }
}

/// Operations that some transports do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    SecondWire,
    SecondConnection,
    BoundSocket,
    AcceptedSocket,
    /// A datagram socket that is already connected to a client.
    ConfirmedSocket,
}

impl Unsupported {
    /// The cause and the hint.
    fn words(self) -> [&'static str; 2] {
        const OPEN_OWN: &str = "let the transport open its own";
        match self {
            Self::SecondWire => ["carries one stream per connection", "open another connection"],
            Self::SecondConnection => ["accepts one connection per listener", "listen again"],
            Self::BoundSocket => ["cannot listen on a socket that is already bound", OPEN_OWN],
            Self::AcceptedSocket => ["cannot take over a connection that is already accepted", OPEN_OWN],
            Self::ConfirmedSocket => ["cannot take over a datagram socket that is already connected", OPEN_OWN],
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
            Self::Unwelcome { transport, address, sent, answers, after, bytes } => {
                let back = match (answers, bytes) {
                    (0, _) => "none came back".to_owned(),
                    (_, None) => format!("{answers} came back, and no welcome"),
                    (_, Some(_)) => format!("{answers} came back, which completed no handshake"),
                };
                let of = bytes.map_or_else(String::new, |bytes| format!(" of {bytes} B"));
                let after = exact_duration(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
                format!(
                    "no answer over {transport}: {sent} datagrams{of} were sent to {address} in {after}, and {back}"
                )
            }
            Self::Abandoned => "the server no longer waits for a client".to_owned(),
            Self::Unsupported { transport, what } => format!("{transport} {}", what.words()[0]),
            Self::Impossible(why) => why.cause(),
            Self::Foreign(refusal) => refusal.cause(),
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::System { hint, .. } => hint.clone(),
            Self::Option { .. } | Self::NoSuchOption { .. } => {
                "`hairpin list` shows the options of each transport".to_owned()
            }
            Self::TimedOut { .. } => "is the server running?".to_owned(),
            Self::Unwelcome { bytes, .. } => {
                let hint = "is the server running? a firewall may drop datagrams to its port, or the answers";
                let size =
                    if bytes.is_some() { ", and a path with a smaller MTU drops datagrams of this size" } else { "" };
                format!("{hint}{size}")
            }
            Self::Abandoned => String::new(),
            Self::Unsupported { what, .. } => what.words()[1].to_owned(),
            Self::Impossible(why) => why.hint(),
            Self::Foreign(refusal) => refusal.hint(),
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
    /// Within the time-out, no data arrived, or there was no room to send.
    #[error("timed out: {operation} made no progress for {} ms", .after.as_millis())]
    TimedOut {
        /// `send` or `receive`.
        operation: &'static str,
        after: Duration,
    },
    /// The other end has closed the wire, or its process has ended.
    #[error("the other end closed the connection or has ended")]
    Closed,
    /// The kernel had no memory for the message, or a device's queue was full (`ENOBUFS`, send(2)). The message is
    /// dropped.
    #[error("the kernel refused a message: no buffer space available")]
    Refused,
    /// A foreign server gave no answer.
    #[error("{0}")]
    Foreign(Box<Refusal>),
    /// A system call failed.
    #[error("{operation} failed: {source}")]
    System {
        /// `send`, `receive` or `poll`.
        operation: &'static str,
        source: std::io::Error,
    },
}

impl From<Refusal> for TransportError {
    fn from(refusal: Refusal) -> Self {
        Self::Foreign(Box::new(refusal))
    }
}

impl WireError {
    /// The error of a call: the refusal of a foreign server if `source` carries one.
    pub(crate) fn of_call(operation: &'static str, source: std::io::Error) -> Self {
        match Refusal::of(&source) {
            Some(refusal) => Self::Foreign(Box::new(refusal.clone())),
            None => Self::System { operation, source },
        }
    }
}

impl From<&WireError> for FailureKind {
    fn from(error: &WireError) -> Self {
        match error {
            WireError::TimedOut { .. } => Self::TimedOut,
            WireError::Closed => Self::Closed,
            WireError::Refused => Self::Resource,
            WireError::Foreign(refusal) => refusal.failure("").kind,
            WireError::System { source, .. } => source.into(),
        }
    }
}
