//! A folder that opens only files inside it.
//!
//! A run folder and the file names in it may come from an untrusted source. Each component of a name is opened
//! relative to the descriptor of its parent folder, and no symbolic link is followed. So `..`, an absolute path or a
//! link, even in the middle of a name, cannot lead out of the folder, not even while files are being renamed.
//! openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS gives the same guarantee, but sandboxes refuse that call.
//! The folder itself is opened by the user's path, which may be a link.
//!
//! A port to another system needs a file with the same functions.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Only the user may access the files and folders of a run.
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
const PRIVATE_FOLDER: Mode = Mode::RWXU;
/// The umask restricts the mode of files that the user names.
const SUBJECT_TO_UMASK: Mode = Mode::from_raw_mode(0o666);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the name leads out of the folder")]
    LeadsOut,
    #[error("`{0}` is a symbolic link")]
    Link(String),
    #[error("it is {0}, not a regular file")]
    NotAFile(&'static str),
    #[error("it holds more than {0} files and folders")]
    TooMany(usize),
    #[error("it is larger than {} MiB", .0 >> 20)]
    TooLarge(u64),
}

impl Refusal {
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::LeadsOut | Self::Link(_) => {
                "a run's files are inside its folder; was the run edited, or is it from someone else?"
            }
            Self::NotAFile(_) => "was the file replaced? the other files are unchanged",
            Self::TooMany(_) => "is it the right folder?",
            Self::TooLarge(_) => "docs/run-format.md lists the limits; is it damaged, or from someone else?",
        }
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(io::ErrorKind::InvalidInput, refusal)
    }
}

#[derive(Debug)]
pub(crate) struct Entry {
    /// File name, with invalid UTF-8 replaced.
    pub(crate) name: String,
    kind: FileType,
    pub(crate) bytes: u64,
}

impl Entry {
    /// Whether the entry is a regular file; false for a link.
    pub(crate) fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// Whether the entry is a folder; false for a link.
    pub(crate) fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }
}

#[derive(Debug)]
pub(crate) struct Lock {
    /// The system unlocks the folder when this is closed, even if the process is killed.
    _handle: OwnedFd,
}

/// An open folder. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct Folder {
    handle: Arc<OwnedFd>,
    path: PathBuf,
}

impl Folder {
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { handle: Arc::new(handle), path: path.to_owned() })
    }

    pub fn create(path: &Path) -> io::Result<Self> {
        make_private(path)?;
        Self::open(path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn holds(&self, name: &str) -> bool {
        self.parent(name)
            .is_ok_and(|(parent, file)| rustix::fs::statat(&parent, file, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Opens a regular file of at most `limit` bytes. Fails at once, without blocking, for anything else.
    pub(crate) fn file(&self, name: &str, limit: u64) -> io::Result<File> {
        let (parent, file) = self.parent(name)?;
        let file = open_regular(parent.as_fd(), file, OFlags::RDONLY)?;
        if file.metadata()?.len() > limit { Err(Refusal::TooLarge(limit).into()) } else { Ok(file) }
    }

    /// Reads a regular file of at most `limit` bytes. The limit holds even if the file grows while it is read.
    pub(crate) fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let file = self.file(name, limit)?;
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit { Err(Refusal::TooLarge(limit).into()) } else { Ok(bytes) }
    }

    /// Writes a file atomically: readers see either the old file or the new one. If the disk is full, the old file
    /// stays unchanged, or no file is created.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.write(name, |file| file.write_all(bytes))
    }

    /// Like [`Folder::replace`], but `write` writes the content piece by piece.
    pub(crate) fn write(&self, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        self.write_as(name, PRIVATE_FILE, write)
    }

    fn write_as(&self, name: &str, mode: Mode, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let (parent, name) = self.parent(name)?;
        let (mut file, partial) = create_temporary(parent.as_fd(), name, mode)?;
        let written = write(&mut file).and_then(|()| Ok(rustix::fs::renameat(&parent, &partial, &parent, name)?));
        written.inspect_err(|_| {
            // Report the first error only.
            let _ = rustix::fs::unlinkat(&parent, &partial, AtFlags::empty());
        })
    }

    /// Appends all of `bytes` to an existing file, or nothing: if the disk is full, truncates the file again.
    pub(crate) fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(name)?;
        append_whole(&mut open_regular(parent.as_fd(), name, OFlags::WRONLY | OFlags::APPEND)?, bytes)
    }

    /// Overwrites the first bytes of an existing file. Needs no more disk space.
    pub(crate) fn overwrite(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(name)?;
        open_regular(parent.as_fd(), name, OFlags::WRONLY)?.write_all(bytes)
    }

    pub(crate) fn make_folder(&self, name: &str) -> io::Result<()> {
        let (parent, name) = self.parent(name)?;
        match rustix::fs::mkdirat(&parent, name, PRIVATE_FOLDER) {
            Err(Errno::EXIST) => open_subfolder(parent.as_fd(), name).map(drop),
            made => Ok(made?),
        }
    }

    pub(crate) fn subfolder(&self, name: &str) -> io::Result<Self> {
        let (parent, last) = self.parent(name)?;
        let handle = open_subfolder(parent.as_fd(), last)?;
        Ok(Self { handle: Arc::new(handle), path: self.path.join(name) })
    }

    /// Returns the entries, unordered. Fails if there are more than `max`.
    pub(crate) fn entries(&self, max: usize) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::new(self.readable()?)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let found = match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                // The entry was removed in the meantime.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if entries.len() == max {
                return Err(Refusal::TooMany(max).into());
            }
            let bytes = u64::try_from(found.st_size).unwrap_or(0);
            let kind = FileType::from_raw_mode(found.st_mode);
            entries.push(Entry { name: name.to_string_lossy().into_owned(), kind, bytes });
        }
        Ok(entries)
    }

    pub(crate) fn is_owned_by_user(&self) -> io::Result<bool> {
        Ok(rustix::fs::fstat(&self.handle)?.st_uid == rustix::process::geteuid().as_raw())
    }

    /// Locks the folder until the result is dropped. `None` if another process has locked it. Fails if the file
    /// system has no locks.
    pub(crate) fn lock(&self) -> io::Result<Option<Lock>> {
        let handle = self.readable()?;
        match rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _handle: handle })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the folder for reading and locking: an `O_PATH` handle allows neither.
    fn readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.handle, ".", flags, Mode::empty())?)
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let (parent, name) = self.parent(name)?;
        Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?)
    }

    pub(crate) fn remove_folder(&self, name: &str) -> io::Result<()> {
        let (parent, name) = self.parent(name)?;
        Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    }

    /// Opens the parent folder of the last component of a name. Returns the folder and that component.
    fn parent<'n>(&self, name: &'n str) -> io::Result<(OwnedFd, &'n str)> {
        let mut parts = Vec::new();
        for part in Path::new(name).components() {
            match part {
                Component::Normal(part) => parts.push(part.to_str().expect("a part of a str")),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(Refusal::LeadsOut.into());
                }
            }
        }
        let Some((last, folders)) = parts.split_last() else { return Err(Refusal::NotAFile("a folder").into()) };
        let mut parent = self.handle.try_clone()?;
        for folder in folders {
            parent = open_subfolder(parent.as_fd(), folder)?;
        }
        Ok((parent, last))
    }
}

pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER.bits()).create(path)
}

/// Writes a file that the user named, atomically: readers see either the old file or the new one, and a full disk
/// leaves the old one or none. Other kinds of files, such as devices and pipes, are written to directly. If the path
/// is a symbolic link, its target is replaced, because the user named it. The temporary file is always newly created.
pub fn write_named(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return std::fs::write(path, bytes);
    }
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let name =
        name.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its name is not valid UTF-8"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Folder::open(folder)?.write_as(name, SUBJECT_TO_UMASK, |file| file.write_all(bytes))
}

/// Appends all of `bytes` or nothing.
pub(crate) fn append_whole(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    file.write_all(bytes).inspect_err(|_| drop(file.set_len(before)))
}

fn open_subfolder(folder: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(|error| {
        let is_link = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
        if is_link { Refusal::Link(name.to_owned()).into() } else { error.into() }
    })
}

/// Opens a regular file. Checks its kind before opening, because opening a device has side effects, and again after,
/// because the file may have been replaced.
fn open_regular(folder: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<File> {
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    check_regular(found.st_mode, name)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    check_regular(rustix::fs::fstat(&file)?.st_mode, name)?;
    Ok(File::from(file))
}

fn check_regular(mode: rustix::fs::RawMode, name: &str) -> Result<(), Refusal> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(Refusal::Link(name.to_owned())),
        FileType::Directory => Err(Refusal::NotAFile("a folder")),
        FileType::Fifo => Err(Refusal::NotAFile("a pipe")),
        FileType::Socket => Err(Refusal::NotAFile("a socket")),
        FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => Err(Refusal::NotAFile("a device")),
    }
}

/// Creates a temporary file in the same folder under an unused name.
fn create_temporary(folder: BorrowedFd<'_>, name: &str, mode: Mode) -> io::Result<(File, String)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    /// Names to try: leftover or malicious files may already have some of them.
    const MAX_TRIES: u32 = 1000;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..MAX_TRIES {
        let partial = format!(".{name}.{}-{}.partial", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        match rustix::fs::openat(folder, &partial, flags, mode) {
            Ok(file) => return Ok((File::from(file), partial)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

#[cfg(test)]
mod tests;
