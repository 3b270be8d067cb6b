//! Pipes, named pipes and anonymous memory files: created here, opened from another process through `/proc/PID/fd/N`.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU32, Ordering};

use super::descriptor::owned;
use super::process::not_killed_within;
use super::{counted, done};

/// The read end and the write end.
pub(crate) type Ends = (OwnedFd, OwnedFd);

/// The read end and the write end of a new pipe.
pub(crate) fn pipe() -> io::Result<Ends> {
    let mut ends = [-1_i32; 2];
    // SAFETY: the array has room for the two descriptors that the call writes; both are new and owned from here on.
    unsafe {
        done(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((owned(ends[0])?, owned(ends[1])?))
    }
}

pub(crate) fn capacity_bytes(of: &impl AsRawFd) -> io::Result<usize> {
    // SAFETY: F_GETPIPE_SZ takes no argument.
    counted(unsafe { libc::fcntl(of.as_raw_fd(), libc::F_GETPIPE_SZ) } as isize)
}

/// Both ends of two new named pipes. Their names are already removed when this returns.
///
/// A name in the file system would survive SIGKILL, so it exists only during the three system calls that create, open
/// and remove it; the death of the client does not kill this process meanwhile. Everything else, even in another
/// process, opens the descriptor through `/proc`, which needs no name.
pub(crate) fn two_fifos() -> io::Result<[Ends; 2]> {
    Ok([fifo()?, fifo()?])
}

/// The read end and the write end of a new named pipe.
fn fifo() -> io::Result<Ends> {
    let held = not_killed_within(nameless_fifo)?;
    let own = path_of(std::process::id(), held.as_raw_fd());
    // Opened for both, the pipe already has a reader and a writer, so neither of these waits for the other.
    let read_end = OpenOptions::new().read(true).open(&own)?;
    let write_end = OpenOptions::new().write(true).open(&own)?;
    Ok((read_end.into(), write_end.into()))
}

/// A new named pipe, open for both, whose name is removed.
fn nameless_fifo() -> io::Result<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = std::env::temp_dir().join(format!("hairpin-{}-{number}", std::process::id()));
        let path = CString::new(name.as_os_str().as_bytes())?;
        // SAFETY: a NUL-terminated path.
        match done(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }) {
            // Left by a process with the same pid that was killed between these calls.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&name);
        std::fs::remove_file(&name)?;
        return opened;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// The write end of a pipe.
    Write,
    /// Both, for a memory file.
    Both,
}

/// Opens anew what descriptor `number` of process `pid` refers to; close-on-exec.
///
/// The kernel allows it if it would allow tracing the process (ptrace(2), `PTRACE_MODE_READ`): the same user.
pub(crate) fn open_of_process(pid: u32, number: i32, access: Access) -> io::Result<OwnedFd> {
    let path = path_of(pid, number);
    let read = access != Access::Write;
    let write = access != Access::Read;
    let file = OpenOptions::new().read(read).write(write).custom_flags(libc::O_NONBLOCK).open(path)?;
    if access != Access::Both && !file.metadata()?.file_type().is_fifo() {
        // The number may refer to something else by now.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the address does not name a pipe"));
    }
    super::descriptor::set_nonblocking(std::os::fd::AsFd::as_fd(&file), false)?;
    Ok(file.into())
}

/// Opens anew what a descriptor of this process refers to, as another process would.
pub(crate) fn open_own(descriptor: &impl AsRawFd, access: Access) -> io::Result<OwnedFd> {
    open_of_process(std::process::id(), descriptor.as_raw_fd(), access)
}

/// Path of descriptor `number` of process `pid` in `/proc`.
pub(crate) fn path_of(pid: u32, number: i32) -> String {
    format!("/proc/{pid}/fd/{number}")
}

/// A new anonymous memory file of that length, all zeros. Its length can never change again, so neither end can make
/// the other fault (SIGBUS) by truncating it.
pub(crate) fn memory_file(length: usize) -> io::Result<OwnedFd> {
    // SAFETY: a NUL-terminated name; the descriptor is new and owned from here on.
    let file =
        unsafe { owned(libc::memfd_create(c"hairpin".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING))? };
    let file = File::from(file);
    file.set_len(length as u64)?;
    let file = OwnedFd::from(file);
    // SAFETY: F_ADD_SEALS takes a plain integer.
    done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, LENGTH_SEALS | libc::F_SEAL_SEAL) })?;
    Ok(file)
}

/// A new anonymous memory file with this content, which can never change again.
pub(crate) fn memory_file_of(content: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: a NUL-terminated name; the descriptor is new and owned from here on.
    let file =
        unsafe { owned(libc::memfd_create(c"hairpin".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING))? };
    let mut file = File::from(file);
    file.write_all(content)?;
    let seals = LENGTH_SEALS | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: F_ADD_SEALS takes a plain integer.
    done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(file.into())
}

const LENGTH_SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// Length of a file from [`memory_file`].
pub(crate) fn sealed_length(of: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: F_GET_SEALS takes no argument.
    let seals = unsafe { libc::fcntl(of.as_raw_fd(), libc::F_GET_SEALS) };
    if seals == -1 || seals & LENGTH_SEALS != LENGTH_SEALS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the address does not name a sealed memory file"));
    }
    let length = File::from(of.try_clone_to_owned()?).metadata()?.len();
    usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
}
