//! Open files that a process passes to its children.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::wait::writable;

/// Whether descriptor `number` of this process is open and writable.
pub(crate) fn may_write(number: RawFd) -> io::Result<bool> {
    // SAFETY: F_GETFL takes no argument, and an invalid descriptor is an error.
    let flags = done(unsafe { libc::fcntl(number, libc::F_GETFL) })?;
    Ok(flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_PATH == 0)
}

/// Duplicates a descriptor so that every process started while the duplicate is open inherits it.
pub(crate) fn duplicate_inheritable(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD takes the minimum number for the new descriptor that it returns, or fails.
    let passed_on = done(unsafe { libc::fcntl(number, libc::F_DUPFD, 3) })?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(passed_on) })
}

/// Takes ownership of an inherited descriptor and makes it close-on-exec. Call this once per descriptor.
pub(crate) fn take_over(number: RawFd) -> io::Result<File> {
    // SAFETY: F_SETFD takes one integer, and an invalid descriptor is an error.
    done(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open, and the parent process created it only for the caller.
    Ok(unsafe { File::from_raw_fd(number) })
}

/// Writes all bytes. Waits for room even if another process has made this open file non-blocking.
pub(crate) fn write_whole(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The next write reports errors.
                drop(writable(&*file, Duration::MAX));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn done(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    #[test]
    fn the_child_gets_the_same_open_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before ").unwrap();
        let passed_on = duplicate_inheritable(file.as_raw_fd()).unwrap();
        assert_ne!(passed_on.as_raw_fd(), file.as_raw_fd());
        take_over(passed_on.into_raw_fd()).unwrap().write_all(b"between").unwrap();
        file.write_all(b" after").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before between after");
    }

    #[test]
    fn a_write_to_a_non_blocking_file_waits_for_room() {
        let (mut read, write) = io::pipe().unwrap();
        // SAFETY: F_SETFL takes the flags, and the descriptor is open.
        done(unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }).unwrap();
        let all: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let expected = all.clone();
        let writer = std::thread::spawn(move || write_whole(&mut File::from(OwnedFd::from(write)), &all));
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes).unwrap();
        writer.join().unwrap().unwrap();
        assert!(bytes == expected, "{} bytes of {}", bytes.len(), expected.len());
    }

    #[test]
    fn closed_and_read_only_descriptors_are_reported() {
        let (file, to_read) = (tempfile::tempfile().unwrap(), File::open("/dev/null").unwrap());
        assert!(may_write(file.as_raw_fd()).unwrap());
        assert!(!may_write(to_read.as_raw_fd()).unwrap());
        for refused in [may_write(-1).map(drop), duplicate_inheritable(-1).map(drop), take_over(-1).map(drop)] {
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
    }
}
