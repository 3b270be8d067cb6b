//! Receives and sends submitted to an io_uring (io_uring(7)), one receive for each connection and one send.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

/// Time without submissions after which the kernel's thread sleeps (SQPOLL), in ms.
const SQPOLL_IDLE_MS: u32 = 1000;
/// Marks the completion of the send; the others have the place of their connection.
const SEND: u64 = u64::MAX;

/// A ring with the memory that the kernel reads and writes while its operations are in flight.
pub(crate) struct Ring {
    ring: IoUring,
    /// What each connection receives.
    received: Vec<Box<[u8]>>,
    /// Whether a receive into this memory is in flight.
    is_receiving: Vec<bool>,
    out: Box<[u8]>,
    is_sending: bool,
    true_length: bool,
    calls: u64,
}

/// An operation that the kernel has completed.
pub(crate) enum Completed {
    /// The place of the connection, and the number of bytes; 0 at the end of a stream.
    Receive(usize, io::Result<usize>),
    Send(io::Result<usize>),
}

impl Ring {
    /// Creates a ring. Each connection receives up to `bytes` bytes at once, and `true_length` says the full length of
    /// truncated datagrams. `sqpoll`: a kernel thread takes the submissions.
    pub(crate) fn new(connections: usize, bytes: usize, true_length: bool, sqpoll: bool) -> io::Result<Self> {
        let entries = u32::try_from(connections + 1).map_err(|_| io::ErrorKind::InvalidInput)?.next_power_of_two();
        let mut builder = IoUring::builder();
        match sqpoll {
            true => builder.setup_sqpoll(SQPOLL_IDLE_MS),
            // Completions need no interrupt of the thread, which enters the kernel anyway.
            false => builder.setup_coop_taskrun(),
        };
        let ring = match builder.build(entries) {
            // Kernels before 5.19.
            Err(error) if !sqpoll && error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries)?,
            built => built?,
        };
        let memory = || vec![0; bytes].into_boxed_slice();
        Ok(Self {
            ring,
            received: (0..connections).map(|_| memory()).collect(),
            is_receiving: vec![false; connections],
            out: memory(),
            is_sending: false,
            true_length,
            calls: 0,
        })
    }

    /// Queues a receive of this connection, unless one is in flight.
    #[inline]
    pub(crate) fn queue_receive(&mut self, place: usize, from: BorrowedFd<'_>) -> io::Result<()> {
        if self.is_receiving[place] {
            return Ok(());
        }
        let memory = &mut self.received[place];
        let flags = if self.true_length { libc::MSG_TRUNC } else { 0 };
        let entry = opcode::Recv::new(Fd(from.as_raw_fd()), memory.as_mut_ptr(), memory.len() as u32).flags(flags);
        self.queue(&entry.build().user_data(place as u64))?;
        self.is_receiving[place] = true;
        Ok(())
    }

    /// Queues a send of the beginning of `message` for which there is memory. Returns its length.
    #[inline]
    pub(crate) fn queue_send(&mut self, to: BorrowedFd<'_>, message: &[u8]) -> io::Result<usize> {
        if self.is_sending {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let length = message.len().min(self.out.len());
        self.out[..length].copy_from_slice(&message[..length]);
        self.queue_rest(to, 0, length)?;
        Ok(length)
    }

    /// Queues a send of the bytes `from..to` that [`Ring::queue_send`] has copied.
    #[inline]
    pub(crate) fn queue_rest(&mut self, socket: BorrowedFd<'_>, from: usize, to: usize) -> io::Result<()> {
        let bytes = &self.out[from..to];
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32);
        self.queue(&entry.flags(libc::MSG_NOSIGNAL).build().user_data(SEND))?;
        self.is_sending = true;
        Ok(())
    }

    #[inline]
    fn queue(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the entry's memory belongs to this ring, which neither reads nor moves it while the operation is in
        // flight, and `drop` keeps it until then.
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        // The kernel's thread has not taken all entries yet.
        self.ring.submitter().squeue_wait()?;
        // SAFETY: as above.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| io::ErrorKind::ResourceBusy.into())
    }

    /// Submits what is queued and waits for `wanted` completions (`io_uring_enter(2)`). A signal ends the wait.
    #[inline]
    pub(crate) fn enter(&mut self, wanted: usize) -> io::Result<()> {
        self.calls += 1;
        match self.ring.submit_and_wait(wanted) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Like [`Ring::enter`], until the time `at_most` has passed: a timer in each call.
    pub(crate) fn enter_for(&mut self, wanted: usize, at_most: Duration) -> io::Result<()> {
        self.calls += 1;
        let at_most = Timespec::from(at_most);
        match self.ring.submitter().submit_with_args(wanted, &SubmitArgs::new().timespec(&at_most)) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::ETIME)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Cancels the send in flight, unless it is complete (since Linux 6.0).
    pub(crate) fn cancel_send(&mut self) {
        drop(self.ring.submitter().register_sync_cancel(None, CancelBuilder::user_data(SEND)));
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<Completed> {
        let entry: cqueue::Entry = self.ring.completion().next()?;
        let answer = entry.result();
        let answer = usize::try_from(answer).map_err(|_| io::Error::from_raw_os_error(-answer));
        if entry.user_data() == SEND {
            self.is_sending = false;
            return Some(Completed::Send(answer));
        }
        let place = entry.user_data() as usize;
        self.is_receiving[place] = false;
        Some(Completed::Receive(place, answer))
    }

    /// The memory of a connection; `None` while a receive is in flight.
    #[inline]
    pub(crate) fn received(&mut self, place: usize) -> Option<&mut [u8]> {
        if self.is_receiving[place] { None } else { Some(&mut self.received[place]) }
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// Most bytes of a receive or a send.
    pub(crate) fn piece(&self) -> usize {
        self.out.len()
    }

    /// Number of calls of `io_uring_enter`.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Operations are cancelled only once they are submitted.
        let submitted = self.ring.submit();
        drop(submitted.and_then(|_| self.ring.submitter().register_sync_cancel(None, CancelBuilder::any())));
        while self.next().is_some() {}
        // Before Linux 6.0, or if SQPOLL's thread was late: the kernel may still use the memory.
        if self.is_sending || self.is_receiving.contains(&true) {
            std::mem::forget(std::mem::take(&mut self.received));
            std::mem::forget(std::mem::take(&mut self.out));
        }
    }
}
