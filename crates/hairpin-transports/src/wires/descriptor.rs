//! A wire over file descriptors: waiting by `block`, `poll` and `spin`, once for all of them.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use hairpin_model::case::Waiting;
use hairpin_model::fact::Fact;

use super::Deadline;
use crate::system::alarm::Alarm;
use crate::system::descriptor::{READABLE, WRITABLE, poll};
use crate::wire::{Wire, WireError};

/// What a transport adds to [`DescriptorWire`]: one attempt each way, one system call each.
pub(crate) trait Port: Send {
    /// One attempt to receive; with `may_block` it is the blocking system call itself.
    fn take(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss>;
    /// One attempt to send; the number of bytes accepted, which for whole messages is all of them.
    fn put(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss>;
    /// What becomes readable.
    fn readable(&self) -> BorrowedFd<'_>;
    /// What becomes writable.
    fn writable(&self) -> BorrowedFd<'_>;
    /// See [`Wire::effective`].
    fn facts(&self) -> Vec<Fact>;
}

/// Why an attempt came to nothing.
#[derive(Debug)]
pub(crate) enum Miss {
    /// There was nothing, or no room; a blocking attempt has timed out.
    Nothing,
    /// A signal came, or something that was no message: try again.
    Again,
    /// The other end said that it has gone; nothing more will come.
    Ended,
    /// The system says that the other end is gone; what it sent before may still be there.
    Gone,
    /// Anything else.
    Failed(io::Error),
}

impl From<io::Error> for Miss {
    #[inline]
    fn from(error: io::Error) -> Self {
        // First the one that a spinning end meets all the time.
        if error.raw_os_error() == Some(libc::EAGAIN) {
            return Self::Nothing;
        }
        match error.raw_os_error() {
            Some(libc::EINTR) => Self::Again,
            Some(
                libc::EPIPE
                | libc::ECONNRESET
                | libc::ECONNREFUSED
                | libc::ECONNABORTED
                | libc::ENOTCONN
                | libc::ETIMEDOUT,
            ) => Self::Gone,
            _ if error.kind() == io::ErrorKind::TimedOut => Self::Nothing,
            _ => Self::Failed(error),
        }
    }
}

/// How often a spinning wire tries before it looks at the clock: tens of microseconds apart, and the 20 ns of a clock
/// read are lost in them.
const TRIES_PER_LOOK: u32 = 256;

/// A wire over one or two descriptors.
pub(crate) struct DescriptorWire<P> {
    port: P,
    waiting: Waiting,
    timeout: Duration,
    /// Interrupts blocking calls, so that their time can be looked at; present where calls block.
    alarm: Option<Alarm>,
    /// The other end is gone: from now on nothing waits, and what is left is taken.
    gone: bool,
}

impl<P: Port> DescriptorWire<P> {
    pub(crate) fn new(port: P, waiting: Waiting, timeout: Duration) -> io::Result<Self> {
        let alarm = (waiting == Waiting::Block).then(|| Alarm::start(timeout)).transpose()?;
        Ok(Self { port, waiting, timeout, alarm, gone: false })
    }

    /// Before a call that may block.
    #[inline]
    fn set_alarm(&mut self, operation: &'static str) -> Result<(), WireError> {
        match &mut self.alarm {
            Some(alarm) => alarm.follow().map_err(|source| WireError::System { operation, source }),
            None => Ok(()),
        }
    }

    fn receive_blocking(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        self.set_alarm("receive")?;
        let mut deadline = Deadline::new(self.timeout);
        loop {
            match self.port.take(into, true) {
                Ok(bytes) => return Ok(bytes),
                Err(Miss::Nothing) => break,
                Err(Miss::Again) if deadline.left().is_some() => {}
                Err(Miss::Again) => break,
                Err(miss) => return self.lost(miss, into),
            }
        }
        Err(Deadline::timed_out("receive", self.timeout))
    }

    fn receive_polling(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let mut deadline = Deadline::new(self.timeout);
        let mut left = self.timeout;
        loop {
            if wait_for(self.port.readable(), READABLE, left)? {
                match self.port.take(into, false) {
                    Ok(bytes) => return Ok(bytes),
                    Err(Miss::Nothing | Miss::Again) => {}
                    Err(miss) => return self.lost(miss, into),
                }
            } else {
                break;
            }
            // Readable, and then there was nothing (a datagram with a bad checksum, a signal): wait for the rest.
            match deadline.left() {
                Some(more) => left = more,
                None => break,
            }
        }
        Err(Deadline::timed_out("receive", self.timeout))
    }

    fn receive_spinning(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let mut deadline = Deadline::new(self.timeout);
        loop {
            for _ in 0..TRIES_PER_LOOK {
                match self.port.take(into, false) {
                    Ok(bytes) => return Ok(bytes),
                    Err(Miss::Nothing | Miss::Again) => {}
                    Err(miss) => return self.lost(miss, into),
                }
            }
            if deadline.left().is_none() {
                return Err(Deadline::timed_out("receive", self.timeout));
            }
        }
    }

    /// After the news that the other end is gone: what it sent before, or the news.
    #[cold]
    fn lost(&mut self, miss: Miss, into: &mut [u8]) -> Result<usize, WireError> {
        match miss {
            Miss::Failed(source) => Err(WireError::System { operation: "receive", source }),
            Miss::Ended => {
                self.gone = true;
                Err(WireError::Closed)
            }
            _ => {
                self.gone = true;
                self.drain(into)
            }
        }
    }

    /// Takes what a gone end left behind. A socket may tell its error before its data, and tells it once; a few
    /// tries are therefore enough to reach the data.
    #[cold]
    fn drain(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        for _ in 0..8 {
            match self.port.take(into, false) {
                Ok(bytes) => return Ok(bytes),
                Err(Miss::Gone | Miss::Again) => {}
                Err(Miss::Nothing | Miss::Ended) => break,
                Err(Miss::Failed(source)) => return Err(WireError::System { operation: "receive", source }),
            }
        }
        Err(WireError::Closed)
    }
}

/// `poll`, again after a signal.
fn wait_for(on: BorrowedFd<'_>, events: i16, at_most: Duration) -> Result<bool, WireError> {
    let mut deadline = Deadline::new(at_most);
    let mut left = at_most;
    loop {
        match poll(on, events, left) {
            Ok(ready) => return Ok(ready),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => match deadline.left() {
                Some(more) => left = more,
                None => return Ok(false),
            },
            Err(source) => return Err(WireError::System { operation: "poll", source }),
        }
    }
}

impl<P: Port> Wire for DescriptorWire<P> {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        if self.gone {
            return Err(WireError::Closed);
        }
        self.set_alarm("send")?;
        let may_block = self.waiting == Waiting::Block;
        let mut rest = message;
        let mut deadline = Deadline::new(self.timeout);
        let mut tries = 0;
        loop {
            match self.port.put(rest, may_block) {
                Ok(bytes) if bytes >= rest.len() => return Ok(()),
                Ok(bytes) => {
                    rest = &rest[bytes..];
                    deadline = Deadline::new(self.timeout);
                    continue;
                }
                Err(Miss::Nothing) if may_block => break,
                Err(Miss::Nothing | Miss::Again) => tries += 1,
                Err(Miss::Gone | Miss::Ended) => {
                    self.gone = true;
                    return Err(WireError::Closed);
                }
                Err(Miss::Failed(source)) => return Err(WireError::System { operation: "send", source }),
            }
            let look = self.waiting != Waiting::Spin || tries % TRIES_PER_LOOK == 0;
            let Some(left) = (if look { deadline.left() } else { Some(self.timeout) }) else { break };
            if self.waiting == Waiting::Poll && !wait_for(self.port.writable(), WRITABLE, left)? {
                break;
            }
        }
        Err(Deadline::timed_out("send", self.timeout))
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        if self.gone {
            return self.drain(into);
        }
        match self.waiting {
            Waiting::Block => self.receive_blocking(into),
            Waiting::Poll => self.receive_polling(into),
            Waiting::Spin => self.receive_spinning(into),
        }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        if self.gone {
            return self.drain(into).map(Some);
        }
        loop {
            match self.port.take(into, false) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Miss::Nothing) => return Ok(None),
                Err(Miss::Again) => {}
                Err(miss) => return self.lost(miss, into).map(Some),
            }
        }
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        if self.gone {
            return Ok(true);
        }
        if self.waiting != Waiting::Spin {
            return wait_for(self.port.readable(), READABLE, at_most);
        }
        let mut deadline = Deadline::new(at_most);
        loop {
            if wait_for(self.port.readable(), READABLE, Duration::ZERO)? {
                return Ok(true);
            }
            if deadline.left().is_none() {
                return Ok(false);
            }
        }
    }

    fn effective(&self) -> Vec<Fact> {
        self.port.facts()
    }
}
