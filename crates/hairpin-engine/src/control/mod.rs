//! Control: the messages that the two ends of a round exchange outside the measured wire.
//!
//! The channel is duplex and framed, and carries orders, marks, progress and reports. An end does not know the carrier
//! or where the other end runs: in a thread of this process, a child process or another host. Input is not trusted:
//! messages have size limits and time-outs, and a peer that violates one causes a failure of a specific kind.

pub mod frames;
pub(crate) mod patience;

use std::io;
use std::time::{Duration, Instant};

use hairpin_model::{EndReport, Failure, FailureKind};
use serde::{Deserialize, Serialize};

use crate::ends::EndOrder;
#[cfg(target_os = "linux")]
pub use crate::linux::channel;

/// The version of these messages. Both ends first exchange versions, which must be equal.
pub const VERSION: u32 = 2;

/// Maximum bytes of a message that a server accepts. The largest message is an order.
pub const MAX_ORDER_BYTES: usize = 1 << 20;
/// Maximum bytes of a message that a client accepts: a traced round's report, whose trace uses a tenth of this.
pub const MAX_REPORT_BYTES: usize = 64 << 20;

/// The messages between the ends, in the order of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// From either end, first: its protocol version.
    Version(u32),
    /// From the client: the order that describes the round.
    Order(Box<EndOrder>),
    /// From the server: the address on which it listens.
    ///
    /// Between two hosts, a space and the digest of the order follow ([`order_digest`](crate::ends::digest::order_digest)).
    Listening(String),
    /// From the server: it is connected, has read its options back and waits for the first message.
    Ready,
    /// From the client, to measure the cost of waking the server; the server answers with a `Ping`.
    Ping,
    /// From the client: the load of a one-way flow begins.
    Begin,
    /// From the client: the warm-up is over; the next message is measured.
    Measure,
    /// From the server: it has read its counters and measures. Also from the sender of a one-way load: its warm-up is
    /// over.
    Measuring,
    /// From either end, periodically during a load: the progress so far.
    Progress(Progress),
    /// From the sender of a one-way load, at its end: its totals.
    Sent(Progress),
    /// From the client of a one-way load: it has received all data.
    Complete,
    /// From the client: the load is over.
    Stop,
    /// From the server: its usage and observations.
    Report(Box<EndReport>),
    /// From either end: it failed.
    Failed(Failure),
}

impl Message {
    /// The name of the message in error texts: its tag, which is the first text in its JSON.
    pub fn name(&self) -> String {
        let json = serde_json::to_string(self).expect("a message has only string keys");
        json.split('"').nth(1).unwrap_or_default().to_owned()
    }
}

/// The progress of an end's load. Encoded as an array of its numbers, to keep the messages sent during a load short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 5]", into = "[u64; 5]")]
pub struct Progress {
    pub messages_sent: u64,
    pub messages_received: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// The nonce of the last datagram of a load between two hosts (see `ends/credit.rs`); 0 elsewhere.
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
    fn send(&mut self, message: &Message) -> Result<(), ControlError>;

    fn receive(&mut self, within: Duration) -> Result<Message, ControlError>;

    /// Whether [`Control::receive`] can proceed: a message has begun to arrive, or the other end closed the channel.
    fn is_ready(&mut self) -> bool;
}

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The other end closed the channel or has exited.
    #[error("the control channel was closed")]
    Closed,
    /// No complete message was received or sent in time.
    #[error("no message for {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// Only progress messages arrived, not the expected message.
    #[error("only progress messages for {} ms", .0.as_millis())]
    OnlyProgress(Duration),
    /// The user ended the program during the wait.
    #[error("the program was ended during the wait")]
    GivenUp,
    /// A message exceeds this end's limit.
    #[error("a control message of {bytes} bytes exceeds the limit of {most} bytes")]
    TooLarge {
        /// The size that the message's header declares.
        bytes: usize,
        most: usize,
    },
    /// A message cannot be read.
    #[error("cannot read a control message: {0}")]
    Unreadable(String),
    #[error("version {theirs} of the control messages; this Hairpin has version {VERSION}")]
    OtherVersion { theirs: u32 },
    /// A message that is not allowed at this point.
    #[error("unexpected control message `{0}`")]
    Unexpected(String),
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
            Self::TooLarge { .. } | Self::Unreadable(_) | Self::Unexpected(_) => "does its Hairpin version differ?",
        }
    }

    /// Converts to the failure of a round. `peer` names the other end: `the server: no message for 9000 ms`.
    pub fn failure(&self, peer: &str) -> Failure {
        Failure::new(self, format!("{peer}: {self}"), self.hint().to_owned())
    }
}

impl From<&ControlError> for FailureKind {
    fn from(error: &ControlError) -> Self {
        match error {
            ControlError::Closed => Self::Closed,
            ControlError::TimedOut(_) | ControlError::OnlyProgress(_) => Self::TimedOut,
            ControlError::GivenUp => Self::Interrupted,
            ControlError::OtherVersion { .. } => Self::Unsupported,
            ControlError::TooLarge { .. } | ControlError::Unreadable(_) | ControlError::Unexpected(_) => {
                Self::Unexpected
            }
            ControlError::System(error) => error.into(),
        }
    }
}

/// Whether the error means that the network path failed, not the other end.
fn is_of_the_path(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(error.kind(), HostUnreachable | NetworkDown | NetworkUnreachable | TimedOut)
}

/// Exchanges versions.
pub fn agree(control: &mut dyn Control, within: Duration) -> Result<(), ControlError> {
    control.send(&Message::Version(VERSION))?;
    match control.receive(within)? {
        Message::Version(VERSION) => Ok(()),
        Message::Version(theirs) => Err(ControlError::OtherVersion { theirs }),
        other => Err(ControlError::Unexpected(other.name())),
    }
}

/// Returns the next message that is not skipped. Skipped messages do not extend the time limit.
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
            // Available messages are received even with no time left, so a peer that never pauses must time out here.
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

    /// To limit control traffic, a progress message has less than 100 bytes, with the frame header and the overhead
    /// of a TLS 1.3 record (22 bytes, RFC 8446, section 5.2), even after a day of a million messages per second.
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
    fn a_peer_that_only_reports_progress_times_out() {
        let within = Duration::from_millis(20);
        let is_progress = |message: &Message| matches!(message, Message::Progress(_));
        let progress = Message::Progress(Progress::default());
        let error = receive_past(&mut Repeats(progress), within, is_progress).unwrap_err();
        assert_eq!(error.failure("the server").cause, "the server: only progress messages for 20 ms");
        assert_eq!(receive_past(&mut Repeats(Message::Stop), within, is_progress).unwrap(), Message::Stop);
    }
}
