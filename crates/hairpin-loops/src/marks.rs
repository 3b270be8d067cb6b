//! The moments between which both ends count: they agree on them outside the wire, so that counts need not be divided
//! between warm-up and measurement afterwards.
//!
//! The client continues its warm-up until the server has confirmed that it measures. So no message waits for the
//! agreement, and between the two marks the loops only make the calls of the case. If a ticket limits a client, the
//! server also reads the clock at each message, and reports ten times per second.

use hairpin_model::Failure;

pub trait ClientMarks {
    /// Whether the next message is measured. Called between messages from the end of the warm-up on until it returns
    /// true; the first call asks the server. Without a warm-up `waits` is set, and it waits for the answer, as the
    /// first message is measured.
    fn may_measure(&mut self, waits: bool) -> Result<bool, Failure>;

    /// The last measured message is complete.
    fn end(&mut self);
}

/// The client's notice to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// None yet.
    Nothing,
    /// From now on everything is measured.
    Measure,
    /// The load is over.
    Stop,
}

pub trait ServerMarks {
    /// The client's notice since the last call; never waits. Called after each message of the warm-up, and whenever
    /// nothing arrived for a while.
    fn look(&mut self) -> Result<Notice, Failure>;

    /// Like [`ServerMarks::look`], but waits for a notice: before the first message if there is no warm-up.
    fn wait(&mut self) -> Result<Notice, Failure>;

    /// Begins to count, and notifies the client.
    fn begin(&mut self) -> Result<(), Failure>;

    /// Reports the bytes of messages received and of answers sent so far. Called after each message.
    fn moved(&mut self, _up_bytes: u64, _down_bytes: u64) -> Result<(), Failure> {
        Ok(())
    }
}

/// The marks of an end whose other end does not count: the kernel, or a script.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl ClientMarks for Alone {
    fn may_measure(&mut self, _: bool) -> Result<bool, Failure> {
        Ok(true)
    }

    fn end(&mut self) {}
}

/// A server without control measures from the first message on, and only stops with its wire.
impl ServerMarks for Alone {
    fn look(&mut self) -> Result<Notice, Failure> {
        Ok(Notice::Nothing)
    }

    fn wait(&mut self) -> Result<Notice, Failure> {
        Ok(Notice::Measure)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
