//! The moments between which both ends count: they agree on them beside the wire, so that nothing has to be shared out
//! between warm-up and measurement afterwards.
//!
//! The client goes on warming up until the server has said that it measures; so no message waits for the agreement, and the
//! loops between the two marks make no call but those of the case. Where a ticket limits what a client may move, the server also reads
//! the clock at each message, and reports ten times a second.

use hairpin_model::round::Failure;

/// The marks as the client meets them.
pub trait ClientMarks {
    /// Whether the next message is measured. Called between two messages, from the end of the warm-up on until it is so; the
    /// first call asks the server. Without a warm-up it `waits` for the answer, as the first message is measured.
    ///
    /// # Errors
    /// The server cannot be asked, or failed.
    fn may_measure(&mut self, waits: bool) -> Result<bool, Failure>;

    /// The last measured message is over.
    fn end(&mut self);
}

/// What a server has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing yet.
    Nothing,
    /// What comes from now on is measured.
    Measure,
    /// The load is over.
    Stop,
}

/// The marks as the server meets them.
pub trait ServerMarks {
    /// What the client has told since the last look; it never waits. Called after each message of the warm-up, and whenever
    /// nothing came for a while.
    ///
    /// # Errors
    /// The client cannot be heard, or has sent nothing for too long.
    fn look(&mut self) -> Result<Told, Failure>;

    /// The same, but waits until something is told: where there is no warm-up, before the first message.
    ///
    /// # Errors
    /// As [`ServerMarks::look`], and where nothing is told in time.
    fn wait(&mut self) -> Result<Told, Failure>;

    /// Begins to count, and tells the client so.
    ///
    /// # Errors
    /// The client cannot be told.
    fn begin(&mut self) -> Result<(), Failure>;

    /// So many bytes of messages have come so far, and so many of answers were sent. Called after each message.
    ///
    /// # Errors
    /// Who counts them cannot be told.
    fn moved(&mut self, _up_bytes: u64, _down_bytes: u64) -> Result<(), Failure> {
        Ok(())
    }
}

/// The marks of an end whose other end counts nothing: the kernel, or a script.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl ClientMarks for Alone {
    fn may_measure(&mut self, _: bool) -> Result<bool, Failure> {
        Ok(true)
    }

    fn end(&mut self) {}
}

/// A server without control measures from the first message on, and is stopped by its wire only.
impl ServerMarks for Alone {
    fn look(&mut self) -> Result<Told, Failure> {
        Ok(Told::Nothing)
    }

    fn wait(&mut self) -> Result<Told, Failure> {
        Ok(Told::Measure)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
