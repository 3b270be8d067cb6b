//! A transport's part of a [`super::descriptor::DescriptorWire`], and the results of an attempt.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use hairpin_model::options::OptionName;
use hairpin_model::{Fact, SenderState};

use super::stamping::Stamping;
use crate::batch::Batch;
use crate::wire::Segments;

/// One attempt to send or to receive is one system call.
pub(crate) trait Port: Send + 'static {
    /// A socket has per-call flags (`MSG_DONTWAIT`, `MSG_MORE`) and options; a pipe has neither.
    const IS_SOCKET: bool = true;

    /// One attempt to receive; with `may_block` the blocking system call itself.
    fn take(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss>;
    /// One attempt to send. Returns the bytes accepted, which with boundaries is the whole message.
    fn put(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss>;
    /// Like [`Port::put`], but never blocks; see `Wire::try_send`.
    fn put_now(&mut self, bytes: &[u8]) -> Result<usize, Miss> {
        self.put(bytes, false)
    }
    /// Like [`Port::take`], but never blocks, for the event loop; see `Wire::receive_batch`.
    fn take_at_once(&mut self, into: &mut [u8]) -> Result<usize, Miss> {
        self.take(into, false)
    }
    /// Sends several messages in one system call, see `Wire::send_batch`; `None` if there is no such call.
    fn put_batch(&mut self, _messages: &[u8], _size: usize, _may_block: bool) -> Option<Result<usize, Miss>> {
        None
    }
    /// Receives all that is there in one system call, see `Wire::receive_batch`; `None` if there is no such call, or if
    /// the plain one suffices.
    fn take_batch(&mut self, _into: &mut Batch, _may_block: bool) -> Option<Result<BatchResult, Miss>> {
        None
    }
    /// Sends `bytes` bytes of a file from offset `from`; byte streams only.
    fn put_file(
        &mut self,
        _file: BorrowedFd<'_>,
        _from: usize,
        _bytes: usize,
        _may_block: bool,
    ) -> Result<usize, Miss> {
        Err(Miss::Failed(io::ErrorKind::Unsupported.into()))
    }
    /// The next message that arrived with an earlier one, without a system call. Returns its length.
    fn kept(&mut self, _into: &mut [u8]) -> Option<usize> {
        None
    }
    /// Whether [`Port::kept`] has a message.
    #[inline]
    fn has_kept(&self) -> bool {
        false
    }
    /// Called if an event loop was woken but there was nothing to receive.
    fn nothing_came(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Sends whose memory the kernel may still read, see `Wire::sends_in_flight`.
    fn sends_in_flight(&mut self) -> io::Result<u64> {
        Ok(0)
    }
    /// System calls beyond one per attempt.
    fn more_calls(&self) -> u64 {
        0
    }
    fn readable(&self) -> BorrowedFd<'_>;
    /// The descriptor to poll for writing.
    fn writable(&self) -> BorrowedFd<'_>;
    /// See `Wire::effective`.
    fn facts(&self) -> Vec<Fact>;
    /// See `Wire::farewell`.
    fn farewell(&mut self) {}

    /// Whether this is a byte stream; the methods below are only called on streams.
    fn is_stream(&self) -> bool {
        false
    }
    /// Like [`Port::put`], with `MSG_MORE`.
    fn put_more(&mut self, _bytes: &[u8], _may_block: bool) -> Result<usize, Miss> {
        Err(Miss::Failed(unsupported()))
    }
    /// Like [`Port::put`], of at most [`super::parts::MAX_PARTS`] parts.
    fn put_vectored(&mut self, _parts: &[IoSlice<'_>], _may_block: bool) -> Result<usize, Miss> {
        Err(Miss::Failed(unsupported()))
    }
    /// See `Stream::set`.
    fn set(&mut self, _option: OptionName, _on: bool) -> io::Result<()> {
        Err(unsupported())
    }
    /// See `Stream::segments`.
    fn segments(&self) -> Option<Segments> {
        None
    }

    /// See `Stream::sender_state`.
    fn sender_state(&self) -> Option<SenderState> {
        None
    }

    /// Time stamps, and the socket that they belong to; `None` if the kernel has none.
    fn stamping(&mut self) -> Option<(&mut Stamping, BorrowedFd<'_>)> {
        None
    }
}

/// The error of a call that this kind of descriptor does not have.
pub(super) fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

/// The result of a batch call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchResult {
    pub(crate) pieces: usize,
    /// The other end closed; the pieces were received before or after that.
    pub(crate) ended: bool,
}

/// Why an attempt did not succeed.
#[derive(Debug)]
pub(crate) enum Miss {
    /// No data, or no room; a blocking attempt has timed out.
    Nothing,
    /// Interrupted by a signal, or received something that is not a message: try again.
    Again,
    /// The other end closed; nothing more will arrive.
    Ended,
    /// The system reports that the other end is gone; data that it sent before may still be there.
    Gone,
    /// Anything else.
    Failed(io::Error),
}

impl From<io::Error> for Miss {
    #[inline]
    fn from(error: io::Error) -> Self {
        // First the error that a spinning end meets all the time.
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
