//! Operations of all file descriptors: read, write, wait.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, sendfile};

use super::to_count;

/// `poll(2)` events for reading.
pub(crate) const READABLE: i16 = libc::POLLIN;
/// `poll(2)` events for writing.
pub(crate) const WRITABLE: i16 = libc::POLLOUT;

/// `poll(2)` event for a pending error or a time stamp in the error queue; reported even if not requested.
pub(crate) const ERROR: i16 = libc::POLLERR;

#[inline]
pub(crate) fn read(from: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length describe a live, exclusively borrowed slice.
    to_count(unsafe { libc::read(from.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) })
}

#[inline]
pub(crate) fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length describe a live slice, which the kernel only reads.
    to_count(unsafe { libc::write(to.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
}

/// `writev(2)` of up to `UIO_MAXIOV` parts.
#[inline]
pub(crate) fn write_vectored(to: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    // The kernel rejects counts above `UIO_MAXIOV`.
    let count = i32::try_from(parts.len()).unwrap_or(i32::MAX);
    // SAFETY: an `IoSlice` has the layout of `iovec` by its documentation, and each is a live slice, which the kernel
    // only reads.
    to_count(unsafe { libc::writev(to.as_raw_fd(), parts.as_ptr().cast(), count) })
}

/// `sendfile(2)` of `bytes` bytes of a file from offset `from`, without moving the file's position. Blocks unless `to`
/// has `O_NONBLOCK`, since sendfile has no per-call flag.
pub(crate) fn send_file(to: BorrowedFd<'_>, file: BorrowedFd<'_>, from: usize, bytes: usize) -> io::Result<usize> {
    Ok(sendfile(to, file, Some(&mut (from as u64)), bytes)?)
}

/// Waits up to `at_most` until the descriptor is ready. Errors and hang-ups count too; the next call reports them.
pub(crate) fn poll(on: BorrowedFd<'_>, events: i16, at_most: Duration) -> io::Result<bool> {
    poll_events(on, events, Some(at_most)).map(|events| events != 0)
}

/// `ppoll(2)` on one descriptor for up to `at_most`, or until a signal. Returns the events; 0 if none. The resolution of
/// `poll`, 1 ms, would be too coarse for an open loop.
pub(crate) fn poll_events(on: BorrowedFd<'_>, events: i16, at_most: Option<Duration>) -> io::Result<i16> {
    let mut polled = libc::pollfd { fd: on.as_raw_fd(), events, revents: 0 };
    let at_most = at_most.map(timespec);
    let at_most = at_most.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: one `pollfd` and at most one `timespec`, alive during the call; no signal mask.
    to_count(unsafe { libc::ppoll(&raw mut polled, 1, at_most, std::ptr::null()) } as isize).map(|_| polled.revents)
}

/// `ppoll(2)` on several descriptors for up to `at_most`. Returns whether each is ready.
pub(crate) fn poll_all(on: &[BorrowedFd<'_>], events: i16, at_most: Duration) -> io::Result<Vec<bool>> {
    let polled = |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let mut polled: Vec<libc::pollfd> = on.iter().map(polled).collect();
    let (count, at_most) = (polled.len() as libc::nfds_t, timespec(at_most));
    // SAFETY: `count` `pollfd`s and one `timespec`, all alive during the call; no signal mask.
    to_count(unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const at_most, std::ptr::null()) } as isize)?;
    Ok(polled.iter().map(|polled| polled.revents != 0).collect())
}

pub(crate) struct Polls(Vec<libc::pollfd>);

impl Polls {
    /// `on` must stay open as long as it is polled; polling a closed descriptor only returns at once.
    pub(crate) fn of<'f>(on: impl Iterator<Item = BorrowedFd<'f>>) -> Self {
        Self(on.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: READABLE, revents: 0 }).collect())
    }

    /// `ppoll(2)` for up to `at_most`. Returns the place of the first readable descriptor.
    pub(crate) fn wait(&mut self, at_most: Duration) -> io::Result<Option<usize>> {
        let at_most = timespec(at_most);
        let count = self.0.len() as libc::nfds_t;
        // SAFETY: `count` `pollfd`s and one `timespec`, all alive during the call; no signal mask.
        to_count(unsafe { libc::ppoll(self.0.as_mut_ptr(), count, &raw const at_most, std::ptr::null()) } as isize)?;
        Ok(self.0.iter().position(|polled| polled.revents != 0))
    }
}

/// Converts a duration, and limits it to the kernel's maximum.
pub(crate) fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        // Less than 10^9, which fits.
        tv_nsec: duration.subsec_nanos() as libc::c_long,
    }
}

/// Sets or clears `O_NONBLOCK` on the open file description.
pub(crate) fn set_nonblocking(on: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(on)?;
    flags.set(OFlags::NONBLOCK, nonblocking);
    Ok(fcntl_setfl(on, flags)?)
}
