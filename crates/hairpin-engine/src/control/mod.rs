//! `Control`: what the two ends of a round tell each other beside the wire that is measured.
//!
//! It is duplex and framed, and carries orders, marks, progress and reports. What carries it, and where the other end runs, an
//! end does not know: a thread of this process, a child process, another host. Nothing that comes over it is trusted: a
//! message has a limit of size and of time, and a peer that breaks one is a failure with a kind.

pub mod frames;
pub(crate) mod patience;

use std::io;
use std::time::{Duration, Instant};

use hairpin_model::round::{EndReport, Failure};
use serde::{Deserialize, Serialize};

use crate::ends::EndOrder;
#[cfg(target_os = "linux")]
pub use crate::linux::channel;

/// The version of these messages. Both ends say theirs first, and only the same speak to each other.
pub const VERSION: u32 = 2;

/// The largest message that a server takes: an order.
pub const MAX_ORDER_BYTES: usize = 1 << 20;
/// The largest that a client takes: the report of a traced round, of which the trace takes a tenth of this.
pub const MAX_REPORT_BYTES: usize = 64 << 20;

/// What ends tell each other, in the order of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Either end, first: the version of these messages that it speaks.
    Version(u32),
    /// The client: what the round is.
    Order(Box<EndOrder>),
    /// The server: it can be connected to at this address.
    Listening(String),
    /// The server: it is connected, its options are read back, and it waits for the first message.
    Ready,
    /// Either end: answered with the same, which wakes the other end where it sleeps.
    Ping,
    /// The client: the load of a one-way flow begins.
    Begin,
    /// The client: the warm-up is over, measure from the next message on.
    Measure,
    /// The server: it has read its counters, and measures. Also the end that sends a one-way load: its warm-up is over.
    Measuring,
    /// Either end, now and then during a load: how far it is.
    Progress(Progress),
    /// The end that sends a one-way load: it has ended, and has sent so much.
    Sent(Progress),
    /// The client: it has all that was sent.
    Complete,
    /// The client: the load is over.
    Stop,
    /// The server: what it used and saw.
    Report(Box<EndReport>),
    /// Either end: it could not go on.
    Failed(Failure),
}

impl Message {
    /// Its name, for errors.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Version(_) => "version",
            Self::Order(_) => "order",
            Self::Listening(_) => "listening",
            Self::Ready => "ready",
            Self::Ping => "ping",
            Self::Begin => "begin",
            Self::Measure => "measure",
            Self::Measuring => "measuring",
            Self::Progress(_) => "progress",
            Self::Sent(_) => "sent",
            Self::Complete => "complete",
            Self::Stop => "stop",
            Self::Report(_) => "report",
            Self::Failed(_) => "failed",
        }
    }
}

/// How far an end is with its load. It is sent during the load, so it is written as short as can be: an array of its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 5]", into = "[u64; 5]")]
pub struct Progress {
    /// Messages sent so far.
    pub messages_sent: u64,
    /// Messages received so far.
    pub messages_received: u64,
    /// Bytes sent so far.
    pub bytes_sent: u64,
    /// Bytes received so far.
    pub bytes_received: u64,
    /// The number that the last datagram of a load between two hosts carried (see `ends/credit.rs`); 0 elsewhere.
    pub nonce: u64,
}

impl From<[u64; 5]> for Progress {
    fn from([messages_sent, messages_received, bytes_sent, bytes_received, nonce]: [u64; 5]) -> Self {
        Self { messages_sent, messages_received, bytes_sent, bytes_received, nonce }
    }
}

impl From<Progress> for [u64; 5] {
    fn from(progress: Progress) -> Self {
        let Progress { messages_sent, messages_received, bytes_sent, bytes_received, nonce } = progress;
        [messages_sent, messages_received, bytes_sent, bytes_received, nonce]
    }
}

/// A carrier of messages between two ends.
pub trait Control: Send {
    /// Sends a message.
    ///
    /// # Errors
    /// [`ControlError`]: the other end is gone, or takes nothing in time.
    fn send(&mut self, message: &Message) -> Result<(), ControlError>;

    /// Its next message.
    ///
    /// # Errors
    /// [`ControlError`]: nothing whole came in time, the other end is gone, or what came cannot be read.
    fn receive(&mut self, within: Duration) -> Result<Message, ControlError>;

    /// Whether [`Control::receive`] would not wait: a message or its beginning has come, or the other end is gone.
    fn is_ready(&mut self) -> bool;
}

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The other end closed it or is gone.
    #[error("it closed the control channel")]
    Closed,
    /// Nothing whole came, or was taken, in time.
    #[error("no message for {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// Messages came, and not the one that was due.
    #[error("only progress messages for {} ms", .0.as_millis())]
    OnlyProgress(Duration),
    /// The user ended the program meanwhile.
    #[error("the program was ended meanwhile")]
    GivenUp,
    /// A message is larger than this end takes.
    #[error("a control message of {bytes} bytes, more than the {most} that are accepted")]
    TooLarge {
        /// Its size as it says.
        bytes: usize,
        /// What is accepted.
        most: usize,
    },
    /// A message cannot be read.
    #[error("a control message that cannot be read: {0}")]
    Unreadable(String),
    /// The other end speaks another version.
    #[error("version {theirs} of the control messages; this Hairpin has version {VERSION}")]
    OtherVersion {
        /// Its version.
        theirs: u32,
    },
    /// A message out of order.
    #[error("unexpected control message `{0}`")]
    Unexpected(&'static str),
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl ControlError {
    fn hint(&self) -> &'static str {
        match self {
            Self::System(error) if is_of_the_path(error) => "is the path between both hosts down?",
            Self::Closed | Self::System(_) => "was it ended from outside?",
            Self::TimedOut(_) | Self::OnlyProgress(_) => "is its machine overloaded, or was it stopped?",
            Self::GivenUp => "after SIGINT the current round has 2 s to finish",
            Self::OtherVersion { .. } => "use the same version of Hairpin at both ends",
            Self::TooLarge { .. } | Self::Unreadable(_) | Self::Unexpected(_) => "is it a Hairpin of this version?",
        }
    }

    /// As the failure of a round, `peer` being the other end: `the server: no message for 9000 ms`.
    #[must_use]
    pub fn failure(&self, peer: &str) -> Failure {
        Failure { cause: format!("{peer}: {self}"), hint: self.hint().to_owned() }
    }
}

/// Whether the path to the other end fails, and not that end.
fn is_of_the_path(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(error.kind(), HostUnreachable | NetworkDown | NetworkUnreachable | TimedOut)
}

/// Says this end's version and hears the other's.
///
/// # Errors
/// The other end speaks another version, or none.
pub fn agree(control: &mut dyn Control, within: Duration) -> Result<(), ControlError> {
    control.send(&Message::Version(VERSION))?;
    match control.receive(within)? {
        Message::Version(VERSION) => Ok(()),
        Message::Version(theirs) => Err(ControlError::OtherVersion { theirs }),
        other => Err(ControlError::Unexpected(other.name())),
    }
}

/// Its next message that is not passed over, within so long however many it sends of the others.
///
/// # Errors
/// As [`Control::receive`], and [`ControlError::OnlyProgress`].
pub(crate) fn receive_past(
    control: &mut dyn Control,
    within: Duration,
    is_passed_over: impl Fn(&Message) -> bool,
) -> Result<Message, ControlError> {
    let deadline = Instant::now() + within;
    let mut passed_over = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match control.receive(left) {
            Ok(message) if !is_passed_over(&message) => return Ok(message),
            // What is there is taken even where no time is left, so a peer that never stops must not be heard for ever.
            Ok(_) if left.is_zero() => return Err(ControlError::OnlyProgress(within)),
            Ok(_) => passed_over = true,
            Err(ControlError::TimedOut(_)) if passed_over => return Err(ControlError::OnlyProgress(within)),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that says this again and again.
    struct Repeats(Message);

    impl Control for Repeats {
        fn send(&mut self, _: &Message) -> Result<(), ControlError> {
            Ok(())
        }

        fn receive(&mut self, _: Duration) -> Result<Message, ControlError> {
            Ok(self.0.clone())
        }

        fn is_ready(&mut self) -> bool {
            true
        }
    }

    /// What control carries during a load: less than 100 bytes with the header of a frame and what TLS 1.3 adds to a record (22
    /// bytes, RFC 8446, section 5.2), after a day of 64-byte messages at a million a second.
    #[test]
    fn progress_is_short() {
        let messages = 24 * 3600 * 1_000_000;
        let progress = Progress {
            messages_received: messages,
            bytes_received: 64 * messages,
            nonce: u64::MAX,
            ..Progress::default()
        };
        let message = Message::Progress(progress);
        let json = serde_json::to_string(&message).unwrap();
        assert_eq!(json, "{\"progress\":[0,86400000000,0,5529600000000,18446744073709551615]}");
        assert!(json.len() + 4 + 22 < 100, "{} bytes", json.len());
        assert_eq!(serde_json::from_str::<Message>(&json).unwrap(), message);
    }

    #[test]
    fn a_peer_that_only_tells_its_progress_is_not_heard_for_ever() {
        let within = Duration::from_millis(20);
        let is_progress = |message: &Message| matches!(message, Message::Progress(_));
        let progress = Message::Progress(Progress::default());
        let error = receive_past(&mut Repeats(progress), within, is_progress).unwrap_err();
        assert_eq!(error.failure("the server").cause, "the server: only progress messages for 20 ms");
        assert_eq!(receive_past(&mut Repeats(Message::Stop), within, is_progress).unwrap(), Message::Stop);
    }
}
