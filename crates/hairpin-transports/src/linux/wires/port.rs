//! The part of a [`super::descriptor::DescriptorWire`] that each transport implements, and the results of attempts.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::{Fact, SenderState};

use super::stamping::Stamping;
use crate::batch::Batch;
use crate::linux::readiness::Readiness;
use crate::wire::Segments;
use crate::wires::codes::Codes;

/// Sends and receives with one system call per attempt.
pub(crate) trait Port: Send + 'static {
    /// A socket has per-call flags (`MSG_DONTWAIT`, `MSG_MORE`) and options; a pipe has neither.
    const IS_SOCKET: bool = true;

    /// Makes one attempt to receive; with `may_block` the system call blocks.
    fn receive(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss>;
    /// Makes one attempt to send. Returns the number of bytes accepted; a message is accepted completely or not at all.
    fn send(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss>;
    /// Like [`Port::send`], and requests the time stamps of these bytes.
    fn send_stamped(&mut self, _bytes: &[u8], _may_block: bool) -> Result<usize, Miss> {
        Err(Miss::Failed(unsupported()))
    }
    /// Like [`Port::send`], but never blocks; see `Wire::try_send`.
    fn try_send(&mut self, bytes: &[u8]) -> Result<usize, Miss> {
        self.send(bytes, false)
    }
    /// Like [`Port::receive`], but never blocks; see `Wire::receive_batch`.
    fn try_receive(&mut self, into: &mut [u8]) -> Result<usize, Miss> {
        self.receive(into, false)
    }
    /// Sends several messages in one system call, see `Wire::send_batch`; `None` without such a call.
    fn send_batch(&mut self, _messages: &[u8], _size: usize, _may_block: bool) -> Option<Result<usize, Miss>> {
        None
    }
    /// Receives the available messages in one system call, see `Wire::receive_batch`; `None` without such a call, or if
    /// [`Port::receive`] suffices.
    fn receive_batch(&mut self, _into: &mut Batch, _may_block: bool) -> Option<Result<BatchResult, Miss>> {
        None
    }
    /// Sends `bytes` bytes of a file from offset `from`; byte streams only.
    fn send_file(
        &mut self,
        _file: BorrowedFd<'_>,
        _from: usize,
        _bytes: usize,
        _may_block: bool,
    ) -> Result<usize, Miss> {
        Err(Miss::Failed(io::ErrorKind::Unsupported.into()))
    }
    /// Copies a stored message, which arrived in the packet of an earlier message. Returns the length; `None` without
    /// one.
    fn next_stored(&mut self, _into: &mut [u8]) -> Option<usize> {
        None
    }
    /// Whether [`Port::next_stored`] has a message.
    #[inline]
    fn has_stored(&self) -> bool {
        false
    }
    /// Waits for `events`; `None` if waiting for the descriptor suffices.
    #[inline]
    fn wait(&mut self, _events: i16, _at_most: Duration) -> Option<io::Result<bool>> {
        None
    }
    fn drive(&mut self) -> Option<Duration> {
        None
    }
    /// Whether [`Port::send_file`] works.
    fn sends_files(&self) -> bool {
        self.is_stream()
    }
    fn readiness(&self) -> Option<Arc<dyn Readiness>> {
        None
    }
    /// Called when an event loop woke up but found nothing to receive.
    fn on_nothing_received(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn take_codes(&mut self) -> Option<Codes> {
        None
    }
    /// Number of sends whose memory the kernel may still read, see `Wire::sends_in_flight`.
    fn sends_in_flight(&mut self) -> io::Result<u64> {
        Ok(0)
    }
    /// Number of system calls in addition to one per attempt.
    fn extra_calls(&self) -> u64 {
        0
    }
    fn readable(&self) -> BorrowedFd<'_>;
    /// The descriptor to poll for writing.
    fn writable(&self) -> BorrowedFd<'_>;
    fn facts(&self) -> Vec<Fact>;
    fn farewell(&mut self) {}
    fn begin_close(&mut self) {}

    /// Whether this port is a byte stream. The methods below are only called on streams.
    fn is_stream(&self) -> bool {
        false
    }
    /// Like [`Port::send`], with `MSG_MORE`.
    fn send_more(&mut self, _bytes: &[u8], _may_block: bool) -> Result<usize, Miss> {
        Err(Miss::Failed(unsupported()))
    }
    /// Like [`Port::send`], of at most [`super::parts::MAX_PARTS`] parts.
    fn send_vectored(&mut self, _parts: &[IoSlice<'_>], _may_block: bool) -> Result<usize, Miss> {
        Err(Miss::Failed(unsupported()))
    }
    fn set(&mut self, _option: OptionName, _on: bool) -> io::Result<()> {
        Err(unsupported())
    }
    fn segments(&self) -> Option<Segments> {
        None
    }

    fn sender_state(&self) -> Option<SenderState> {
        None
    }

    fn stamp_arrivals(&mut self) -> io::Result<()> {
        Err(unsupported())
    }

    /// The error queue with time stamps, and its socket; `None` if the kernel does not stamp this kind of descriptor.
    fn stamping(&mut self) -> Option<(&mut Stamping, BorrowedFd<'_>)> {
        None
    }
}

/// Returns the error of a call that this kind of descriptor does not support.
pub(super) fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchResult {
    pub(crate) pieces: usize,
    pub(crate) ended: bool,
}

/// Why an attempt did not succeed.
#[derive(Debug)]
pub(crate) enum Miss {
    /// There was no data or no room.
    Nothing,
    /// A signal interrupted the call, or the received data were not a message: the caller tries again.
    Again,
    /// The other end closed; nothing more will arrive.
    Ended,
    /// The kernel reports that the other end has ended; data from the other end may still be available.
    Gone,
    Failed(io::Error),
}

impl From<io::Error> for Miss {
    #[inline]
    fn from(error: io::Error) -> Self {
        // Checks the most frequent error of a spinning end first.
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
