//! Waits for descriptors with poll(2). A signal ends a wait early. Hang-ups and errors end every wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits up to `at_most` for one descriptor. Returns whether it is ready.
pub fn wait_for(file: impl AsFd, events: PollFlags, at_most: Duration) -> io::Result<bool> {
    wait_with(&mut [PollFd::new(&file, events)], Some(at_most))
}

/// Waits up to `at_most` until something can be read. Returns whether it can.
pub fn readable(file: impl AsFd, at_most: Duration) -> io::Result<bool> {
    wait_for(file, PollFlags::IN, at_most)
}

/// Waits up to `at_most` until something can be written. Returns whether it can.
pub fn writable(file: impl AsFd, at_most: Duration) -> io::Result<bool> {
    wait_for(file, PollFlags::OUT, at_most)
}

/// Waits up to `at_most` until something can be read or written. Returns whether it can.
pub fn readable_or_writable(file: impl AsFd, at_most: Duration) -> io::Result<bool> {
    wait_for(file, PollFlags::IN | PollFlags::OUT, at_most)
}

/// Waits up to `at_most` (`None`: unlimited) for any of several descriptors. Returns whether each is ready.
pub fn wait_any<'f>(
    files: impl IntoIterator<Item = (BorrowedFd<'f>, PollFlags)>,
    at_most: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let files = files.into_iter().map(|(file, events)| PollFd::from_borrowed_fd(file, events));
    let mut files: Vec<_> = files.collect();
    wait_with(&mut files, at_most)?;
    Ok(files.iter().map(|file| !file.revents().is_empty()).collect())
}

/// Waits up to `at_most` (`None`: unlimited) for any of several descriptors. Returns whether one is ready.
pub(crate) fn wait_with(files: &mut [PollFd<'_>], at_most: Option<Duration>) -> io::Result<bool> {
    let at_most = at_most.and_then(|at_most| Timespec::try_from(at_most).ok());
    match poll(files, at_most.as_ref()) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}
