//! The marks at which both ends begin and end their counts. The ends agree on the marks over the control connection,
//! so no counts must be split into warm-up and measurement afterwards.
//!
//! The client continues its warm-up until the server has confirmed that it measures. No message waits for this
//! confirmation, and between the two marks the loops make only the calls of the case. For a client limited by a
//! ticket, the server also reads the clock at each message and reports progress ten times per second.

use hairpin_model::Failure;

/// A loop in a runtime may move from thread to thread.
pub trait ClientMarks: Send {
    /// Returns whether the next message is measured. Called between messages after the ordered warm-up until it
    /// returns true; the first call sends the request to the server. `waits` is set if there is no warm-up: the first
    /// message is then measured, so the call waits for the server's confirmation.
    fn may_measure(&mut self, waits: bool) -> Result<bool, Failure>;

    /// Called when the last measured message is complete.
    fn end(&mut self);
}

/// A notice from the client to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// No notice yet.
    Nothing,
    /// All messages from now on are measured.
    Measure,
    /// The load is over.
    Stop,
}

pub trait ServerMarks: Send {
    /// Returns the client's notice since the last call, without waiting. Called after each warm-up message, and after
    /// each receive time-out.
    fn look(&mut self) -> Result<Notice, Failure>;

    /// Waits for a notice. Called before the first message if there is no warm-up.
    fn wait(&mut self) -> Result<Notice, Failure>;

    /// Begins counting, and notifies the client.
    fn begin(&mut self) -> Result<(), Failure>;

    /// Reports the bytes of messages received and of answers sent so far. Called after each message.
    fn moved(&mut self, _up_bytes: u64, _down_bytes: u64) -> Result<(), Failure> {
        Ok(())
    }
}

/// The marks of an end whose peer does not count, such as the kernel or a script.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl ClientMarks for Alone {
    fn may_measure(&mut self, _: bool) -> Result<bool, Failure> {
        Ok(true)
    }

    fn end(&mut self) {}
}

/// A server without control measures from the first message on, and stops only when its wire is closed.
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
