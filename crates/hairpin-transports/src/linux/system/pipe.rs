//! Creates pipes, named pipes and anonymous memory files. Another process opens them through `/proc/PID/fd/N`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, MemfdFlags, Mode, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create, mkfifoat};
use rustix::io::Errno;
use rustix::pipe::fcntl_getpipe_size;

use super::process::with_deferred_death;

/// The read end and the write end of a pipe.
pub(crate) type Ends = (OwnedFd, OwnedFd);

pub(crate) fn pipe() -> io::Result<Ends> {
    let (read_end, write_end) = io::pipe()?;
    Ok((read_end.into(), write_end.into()))
}

pub(crate) fn capacity_bytes(of: &impl AsFd) -> io::Result<usize> {
    Ok(fcntl_getpipe_size(of)?)
}

/// Creates two named pipes. Their names are already removed when this returns.
///
/// A name in the file system would remain after SIGKILL, so the name exists only during the three system calls that
/// create, open and remove it; meanwhile the death of the client does not kill this process. All other code, also in
/// other processes, opens the descriptor through `/proc`, which needs no name.
pub(crate) fn two_fifos() -> io::Result<[Ends; 2]> {
    Ok([fifo()?, fifo()?])
}

/// Creates a named pipe and opens both ends.
fn fifo() -> io::Result<Ends> {
    let both = with_deferred_death(nameless_fifo)?;
    let own = path_of(std::process::id(), both.as_raw_fd());
    // `both` is already a reader and a writer, so neither open waits for the other end.
    let read_end = OpenOptions::new().read(true).open(&own)?;
    let write_end = OpenOptions::new().write(true).open(&own)?;
    Ok((read_end.into(), write_end.into()))
}

/// Creates a named pipe, opens it for reading and writing, and removes its name.
fn nameless_fifo() -> io::Result<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = std::env::temp_dir().join(format!("hairpin-{}-{number}", std::process::id()));
        match mkfifoat(CWD, &name, Mode::RUSR | Mode::WUSR) {
            // An earlier process with the same pid was killed between these calls.
            Err(Errno::EXIST) => continue,
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
    Write,
    /// Both, for a memory file.
    Both,
}

/// Opens the file behind descriptor `number` of process `pid` once more; close-on-exec.
///
/// The kernel allows this if this process may trace the other (ptrace(2), `PTRACE_MODE_READ`): both have the same user.
pub(crate) fn open_of_process(pid: u32, number: i32, access: Access) -> io::Result<OwnedFd> {
    let path = path_of(pid, number);
    let read = access != Access::Write;
    let write = access != Access::Read;
    let file = OpenOptions::new().read(read).write(write).custom_flags(libc::O_NONBLOCK).open(path)?;
    if access != Access::Both && !file.metadata()?.file_type().is_fifo() {
        // The process may have reused the descriptor number.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the address does not name a pipe"));
    }
    super::descriptor::set_nonblocking(file.as_fd(), false)?;
    Ok(file.into())
}

/// Opens the file behind a descriptor of this process once more, as another process would.
pub(crate) fn open_own(descriptor: &impl AsRawFd, access: Access) -> io::Result<OwnedFd> {
    open_of_process(std::process::id(), descriptor.as_raw_fd(), access)
}

/// Returns the path of descriptor `number` of process `pid` in `/proc`.
pub(crate) fn path_of(pid: u32, number: i32) -> String {
    format!("/proc/{pid}/fd/{number}")
}

/// Creates an anonymous memory file of `length` zero bytes. The length is sealed: if an end truncated the file,
/// accesses by the other end would raise SIGBUS.
pub(crate) fn memory_file(length: usize) -> io::Result<OwnedFd> {
    sealed_file(LENGTH_SEALS, |file| file.set_len(length as u64))
}

/// Creates an anonymous memory file with this content, sealed against changes.
pub(crate) fn memory_file_of(content: &[u8]) -> io::Result<OwnedFd> {
    sealed_file(LENGTH_SEALS | SealFlags::WRITE, |file| file.write_all(content))
}

fn sealed_file(seals: SealFlags, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"hairpin", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    fill(&mut file)?;
    fcntl_add_seals(&file, seals | SealFlags::SEAL)?;
    Ok(file.into())
}

const LENGTH_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Returns the length of a file from [`memory_file`], in bytes. Fails if the length is not sealed.
pub(crate) fn sealed_length(of: BorrowedFd<'_>) -> io::Result<usize> {
    if !fcntl_get_seals(of).is_ok_and(|seals| seals.contains(LENGTH_SEALS)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the address does not name a sealed memory file"));
    }
    let length = File::from(of.try_clone_to_owned()?).metadata()?.len();
    usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
}
