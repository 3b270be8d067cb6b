//! Waits for many descriptors (epoll(7)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll::{CreateFlags, create};

use super::{check, to_count};

/// A set of descriptors, and a buffer for the events of one wait.
pub(crate) struct Epoll {
    set: OwnedFd,
    events: Box<[libc::epoll_event]>,
}

/// A descriptor's token, and whether the descriptor is readable and writable. After an error or a hang-up, the
/// descriptor is both readable and writable; the next call on the descriptor reports the error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) token: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Epoll {
    /// Creates an empty set with room for `max_events` events per wait.
    pub(crate) fn new(max_events: usize) -> io::Result<Self> {
        let set = create(CreateFlags::CLOEXEC)?;
        Ok(Self { set, events: vec![libc::epoll_event { events: 0, u64: 0 }; max_events.max(1)].into() })
    }

    /// Starts to watch a descriptor.
    pub(crate) fn add(&self, on: BorrowedFd<'_>, token: u64, read: bool, write: bool) -> io::Result<()> {
        let flags = if read { libc::EPOLLIN } else { 0 } | if write { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: flags.cast_unsigned(), u64: token };
        self.control(libc::EPOLL_CTL_ADD, on, &raw mut event)
    }

    /// Watches a descriptor of the set for reading, and for writing if `write`.
    pub(crate) fn change(&self, on: RawFd, token: u64, write: bool) -> io::Result<()> {
        let flags = libc::EPOLLIN | if write { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: flags.cast_unsigned(), u64: token };
        // SAFETY: the event lives during the call; a number that is not in the set is refused.
        check(unsafe { libc::epoll_ctl(self.set.as_raw_fd(), libc::EPOLL_CTL_MOD, on, &raw mut event) })
    }

    /// Stops watching a descriptor.
    pub(crate) fn remove(&self, on: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, on, std::ptr::null_mut())
    }

    fn control(&self, operation: i32, on: BorrowedFd<'_>, event: *mut libc::epoll_event) -> io::Result<()> {
        // SAFETY: the event is null, which EPOLL_CTL_DEL accepts, or lives in the caller during the call.
        check(unsafe { libc::epoll_ctl(self.set.as_raw_fd(), operation, on.as_raw_fd(), event) })
    }

    /// Waits up to `at_most_ms` ms for events; 0 does not wait, -1 waits until a signal.
    pub(crate) fn wait(&mut self, at_most_ms: i32) -> io::Result<impl Iterator<Item = Event>> {
        let most = i32::try_from(self.events.len()).unwrap_or(i32::MAX);
        // SAFETY: the kernel writes at most `most` events, for which there is room.
        let count =
            to_count(unsafe { libc::epoll_wait(self.set.as_raw_fd(), self.events.as_mut_ptr(), most, at_most_ms) }
                as isize)?;
        Ok(self.events[..count].iter().map(|event| {
            let flags = event.events.cast_signed();
            let has_ended = flags & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            Event {
                token: event.u64,
                readable: has_ended || flags & libc::EPOLLIN != 0,
                writable: has_ended || flags & libc::EPOLLOUT != 0,
            }
        }))
    }
}
