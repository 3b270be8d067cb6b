//! Network and user namespaces (namespaces(7), user_namespaces(7), unshare(2), setns(2)).

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::process::die_with_parent;

/// What moving into namespaces consists of: the first three into new ones, the others into those of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A user namespace.
    UserNamespace,
    /// Acting as root in it.
    ActAsRoot,
    /// A network namespace.
    NetworkNamespace,
    /// A network namespace that is there.
    EnterNetwork,
    /// Namespaces for mounts, host name and IPC.
    HostNamespaces,
    /// Mounts that reach no other namespace.
    PrivateMounts,
    /// A `/sys` that shows the network namespace.
    Sysfs,
    /// A kernel setting of the network namespace.
    Setting,
}

impl Step {
    const ALL: [Self; 8] = [
        Self::UserNamespace,
        Self::ActAsRoot,
        Self::NetworkNamespace,
        Self::EnterNetwork,
        Self::HostNamespaces,
        Self::PrivateMounts,
        Self::Sysfs,
        Self::Setting,
    ];

    /// That the kernel refused this step.
    pub(super) fn refused(self) -> impl FnOnce(io::Error) -> Refusal {
        move |error| Refusal { step: self, error }
    }
}

/// A step that the kernel refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) step: Step,
    pub(crate) error: io::Error,
}

impl Refusal {
    /// The bytes of [`Refusal::to_bytes`].
    pub(super) const BYTES: usize = 5;

    /// As a forked child tells it; it allocates nothing.
    pub(super) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.error.raw_os_error().unwrap_or(0).to_ne_bytes();
        [self.step as u8, a, b, c, d]
    }

    /// As it was told; none where these are no such bytes.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [step, code @ ..] = <[u8; Self::BYTES]>::try_from(bytes).ok()?;
        let step = *Step::ALL.get(usize::from(step))?;
        Some(Self { step, error: io::Error::from_raw_os_error(i32::from_ne_bytes(code)) })
    }
}

/// What is written in a new user namespace, so that this process acts as root in it. It is mapped to root because a
/// program that any other user starts loses its capabilities (capabilities(7)).
#[derive(Debug)]
pub(crate) struct RootMap {
    users: String,
    groups: String,
}

impl RootMap {
    /// For the user and the group of this process.
    pub(crate) fn of_this_process() -> Self {
        // SAFETY: both take nothing and cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Self { users: format!("0 {user} 1\n"), groups: format!("0 {group} 1\n") }
    }
}

/// Moves the calling thread into a user namespace of its own where `map` is given, and into a new network namespace.
/// It allocates nothing, so that it may run in a forked child.
pub(crate) fn move_out(map: Option<&RootMap>) -> Result<(), Refusal> {
    if let Some(map) = map {
        unshare(libc::CLONE_NEWUSER).map_err(Step::UserNamespace.refused())?;
        let files = [
            (c"/proc/self/setgroups", "deny"),
            (c"/proc/self/uid_map", map.users.as_str()),
            (c"/proc/self/gid_map", map.groups.as_str()),
        ];
        for (file, text) in files {
            write(file, text).map_err(Step::ActAsRoot.refused())?;
        }
    }
    new_network().map_err(Step::NetworkNamespace.refused())
}

/// Tries [`move_out`] in a process of its own, and to open the file of a kernel setting there for writing.
///
/// # Errors
/// The process could not be made.
pub(crate) fn try_to_move_out(map: Option<&RootMap>, setting: Option<&CStr>) -> io::Result<Result<(), Refusal>> {
    let (mut result, tell) = io::pipe()?;
    let parent = std::process::id();
    // SAFETY: the child makes system calls and allocates nothing, as after the fork of a process of several threads it
    // must not, and it leaves by `_exit`, so that nothing of the parent runs in it.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        let has_parent = die_with_parent(parent);
        let set = || setting.map_or(Ok(()), |file| open_to_write(file).map(drop).map_err(Step::Setting.refused()));
        if let (Err(refusal), true) = (move_out(map).and_then(|()| set()), has_parent) {
            let word = refusal.to_bytes();
            // SAFETY: the bytes and their number are those of a live array.
            unsafe { libc::write(tell.as_raw_fd(), word.as_ptr().cast(), word.len()) };
        }
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(0) };
    }
    drop(tell);
    let mut word = Vec::new();
    let read = result.read_to_end(&mut word);
    // SAFETY: the child is ours and has closed its end of the pipe, so it has ended or is about to.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    read?;
    Ok(Refusal::from_bytes(&word).map_or(Ok(()), Err))
}

/// Moves the calling thread into a new network namespace.
pub(crate) fn new_network() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET)
}

/// Moves the calling thread into the network namespace of that file.
pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes an open descriptor and a flag.
    done(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
}

pub(super) fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: takes flags only; namespaces are no memory.
    done(unsafe { libc::unshare(what) })
}

pub(super) fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn open_to_write(file: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: a NUL-terminated path.
    let file = unsafe { libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    done(file)?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

fn write(file: &CStr, text: &str) -> io::Result<()> {
    let file = open_to_write(file)?;
    // SAFETY: the bytes and their number are those of a live text.
    let written = unsafe { libc::write(file.as_raw_fd(), text.as_ptr().cast(), text.len()) };
    if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_heard_as_it_was_told() {
        for (step, code) in Step::ALL.into_iter().zip([libc::EPERM, libc::ENOSPC, libc::EINVAL].into_iter().cycle()) {
            let told = step.refused()(io::Error::from_raw_os_error(code)).to_bytes();
            let heard = Refusal::from_bytes(&told).unwrap();
            assert_eq!((heard.step, heard.error.raw_os_error()), (step, Some(code)));
        }
        assert!(Refusal::from_bytes(&[]).is_none() && Refusal::from_bytes(&[200, 1, 0, 0, 0]).is_none());
    }
}
