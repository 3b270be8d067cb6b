//! What a transport adds to a [`super::descriptor::DescriptorWire`], and what an attempt came to.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use hairpin_model::fact::Fact;
use hairpin_model::options::OptionName;
use hairpin_model::phases::SenderState;

use super::stamping::Stamping;
use crate::batch::Batch;
use crate::wire::Segments;

/// One attempt each way, one system call each.
pub(crate) trait Port: Send + 'static {
    /// A socket has flags for a single call (`MSG_DONTWAIT`, `MSG_MORE`) and options; a pipe has neither.
    const IS_SOCKET: bool = true;

    /// One attempt to receive; with `may_block` it is the blocking system call itself.
    fn take(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss>;
    /// One attempt to send; the number of bytes accepted, which for whole messages is all of them.
    fn put(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss>;
    /// As [`Port::put`], never blocking; see `Wire::try_send`.
    fn put_now(&mut self, bytes: &[u8]) -> Result<usize, Miss> {
        self.put(bytes, false)
    }
    /// As [`Port::take`], never blocking, where the event loop reads; see `Wire::receive_batch`.
    fn take_at_once(&mut self, into: &mut [u8]) -> Result<usize, Miss> {
        self.take(into, false)
    }
    /// Several messages in one system call, see `Wire::send_batch`; `None` where there is no such call.
    fn put_batch(&mut self, _messages: &[u8], _size: usize, _may_block: bool) -> Option<Result<usize, Miss>> {
        None
    }
    /// What is there in one system call, see `Wire::receive_batch`; `None` where there is no such call, or the plain one does.
    fn take_batch(&mut self, _into: &mut Batch, _may_block: bool) -> Option<Result<Taken, Miss>> {
        None
    }
    /// Sends so many bytes of a file from `from` on; only of a byte stream.
    fn put_file(
        &mut self,
        _file: BorrowedFd<'_>,
        _from: usize,
        _bytes: usize,
        _may_block: bool,
    ) -> Result<usize, Miss> {
        Err(Miss::Failed(io::ErrorKind::Unsupported.into()))
    }
    /// The next message that came with an earlier one, without a system call; its length.
    fn kept(&mut self, _into: &mut [u8]) -> Option<usize> {
        None
    }
    /// Whether there is one.
    #[inline]
    fn has_kept(&self) -> bool {
        false
    }
    /// An event loop was told that there is something, and there was nothing to receive.
    fn nothing_came(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Sends whose memory the kernel may still read, see `Wire::sends_in_flight`.
    fn sends_in_flight(&mut self) -> io::Result<u64> {
        Ok(0)
    }
    /// System calls that it made beyond one for each attempt.
    fn more_calls(&self) -> u64 {
        0
    }
    /// What becomes readable.
    fn readable(&self) -> BorrowedFd<'_>;
    /// What becomes writable.
    fn writable(&self) -> BorrowedFd<'_>;
    /// See `Wire::effective`.
    fn facts(&self) -> Vec<Fact>;
    /// See `Wire::farewell`.
    fn farewell(&mut self) {}

    /// Whether it is a byte stream; only then are the methods below called.
    fn is_stream(&self) -> bool {
        false
    }
    /// As [`Port::put`], with `MSG_MORE`.
    fn put_more(&mut self, _bytes: &[u8], _may_block: bool) -> Result<usize, Miss> {
        Err(Miss::Failed(unsupported()))
    }
    /// As [`Port::put`], from at most [`super::parts::MAX_PARTS`] parts.
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

    /// Its time stamps and the socket that they are of; `None` where the kernel has none.
    fn stamping(&mut self) -> Option<(&mut Stamping, BorrowedFd<'_>)> {
        None
    }
}

/// What the kernel would say of a call that this kind of descriptor does not have.
pub(super) fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

/// What one call took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) pieces: usize,
    /// The other end said that it has gone; the pieces came before or after that.
    pub(crate) ended: bool,
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
