//! Waiting for descriptors (poll(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// Only closing and errors, which are always reported.
    Nothing,
    Input,
    Output,
    Both,
}

/// Waits for one descriptor, at most `at_most`. Returns whether it is ready. A signal ends the wait early.
pub(crate) fn wait_for(file: &impl AsFd, wants: WaitFor, at_most: Duration) -> io::Result<bool> {
    Ok(wait_any([(file.as_fd(), wants)].into_iter(), at_most)?.contains(&true))
}

/// Like [`wait_for`], for several. Returns which are ready.
pub(crate) fn wait_any<'f>(
    watched: impl Iterator<Item = (BorrowedFd<'f>, WaitFor)>,
    at_most: Duration,
) -> io::Result<Vec<bool>> {
    let flags = |wants| match wants {
        WaitFor::Nothing => PollFlags::empty(),
        WaitFor::Input => PollFlags::IN,
        WaitFor::Output => PollFlags::OUT,
        WaitFor::Both => PollFlags::IN | PollFlags::OUT,
    };
    let mut watched: Vec<PollFd<'f>> =
        watched.map(|(file, wants)| PollFd::from_borrowed_fd(file, flags(wants))).collect();
    let at_most = Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(at_most.subsec_nanos()),
    };
    match poll(&mut watched, Some(&at_most)) {
        Ok(_) => Ok(watched.iter().map(|file| !file.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; watched.len()]),
        Err(error) => Err(error.into()),
    }
}
