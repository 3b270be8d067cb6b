//! Network and user namespaces (namespaces(7), user_namespaces(7), unshare(2), setns(2)).

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::done;
use super::process::die_with_parent;

/// The steps of moving into namespaces. The first three move into new namespaces, the others into those of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceStep {
    UserNamespace,
    ActAsRoot,
    NetworkNamespace,
    EnterNetwork,
    /// Mount, host name and IPC namespaces.
    HostNamespaces,
    /// Mounts that do not propagate to other namespaces.
    PrivateMounts,
    /// A `/sys` that shows the network namespace.
    Sysfs,
    Setting,
}

impl NamespaceStep {
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

    pub(super) fn refused<E: Into<io::Error>>(self) -> impl FnOnce(E) -> Refusal {
        move |error| Refusal { step: self, error: error.into() }
    }
}

/// A step that the kernel refused, with its error.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) step: NamespaceStep,
    pub(crate) error: io::Error,
}

impl Refusal {
    /// The length of [`Refusal::to_bytes`].
    pub(super) const BYTES: usize = 5;

    /// Encodes the refusal in a forked child; allocates nothing.
    pub(super) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.error.raw_os_error().unwrap_or(0).to_ne_bytes();
        [self.step as u8, a, b, c, d]
    }

    /// Decodes a refusal; `None` if the bytes are invalid.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [step, code @ ..] = <[u8; Self::BYTES]>::try_from(bytes).ok()?;
        let step = *NamespaceStep::ALL.get(usize::from(step))?;
        Some(Self { step, error: io::Error::from_raw_os_error(i32::from_ne_bytes(code)) })
    }
}

/// The content of the map files that make this process root in a new user namespace. The process must be root,
/// because programs started by any other user lose their capabilities (capabilities(7)).
#[derive(Debug)]
pub(crate) struct RootMap {
    users: String,
    groups: String,
}

impl RootMap {
    /// Maps the user and group of this process to root.
    pub(crate) fn of_this_process() -> Self {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        Self { users: format!("0 {user} 1\n"), groups: format!("0 {group} 1\n") }
    }
}

/// Moves the calling thread into a new user namespace if `map` is given, and into a new network namespace. Allocates
/// nothing, so a forked child may call it.
pub(crate) fn move_out(map: Option<&RootMap>) -> Result<(), Refusal> {
    if let Some(map) = map {
        unshare(libc::CLONE_NEWUSER).map_err(NamespaceStep::UserNamespace.refused())?;
        let files = [
            (c"/proc/self/setgroups", "deny"),
            (c"/proc/self/uid_map", map.users.as_str()),
            (c"/proc/self/gid_map", map.groups.as_str()),
        ];
        for (file, text) in files {
            write(file, text).map_err(NamespaceStep::ActAsRoot.refused())?;
        }
    }
    new_network().map_err(NamespaceStep::NetworkNamespace.refused())
}

/// In a separate process, calls [`move_out`] and then tries to open the file of a kernel setting for writing.
pub(crate) fn try_to_move_out(map: Option<&RootMap>, setting: Option<&CStr>) -> io::Result<Result<(), Refusal>> {
    let (mut result, tell) = io::pipe()?;
    let parent = std::process::id();
    // SAFETY: after the fork of a process with several threads the child must not allocate; it only makes system calls.
    // It ends with `_exit`, so no code of the parent runs in it.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        let has_parent = die_with_parent(parent);
        let set =
            || setting.map_or(Ok(()), |file| open_to_write(file).map(drop).map_err(NamespaceStep::Setting.refused()));
        if let (Err(refusal), true) = (move_out(map).and_then(|()| set()), has_parent) {
            let _ = rustix::io::write(&tell, &refusal.to_bytes());
        }
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(0) };
    }
    drop(tell);
    let mut word = Vec::new();
    let read = result.read_to_end(&mut word);
    // SAFETY: the child is ours. It has closed its end of the pipe, so it has ended or is about to end.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    read?;
    Ok(Refusal::from_bytes(&word).map_or(Ok(()), Err))
}

pub(crate) fn new_network() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET)
}

pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}

pub(super) fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: takes only flags; namespaces are not memory.
    done(unsafe { libc::unshare(what) })
}

fn open_to_write(file: &CStr) -> io::Result<OwnedFd> {
    Ok(open(file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn write(file: &CStr, text: &str) -> io::Result<()> {
    Ok(rustix::io::write(open_to_write(file)?, text.as_bytes()).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_decoded_as_encoded() {
        for (step, code) in
            NamespaceStep::ALL.into_iter().zip([libc::EPERM, libc::ENOSPC, libc::EINVAL].into_iter().cycle())
        {
            let told = step.refused()(io::Error::from_raw_os_error(code)).to_bytes();
            let heard = Refusal::from_bytes(&told).unwrap();
            assert_eq!((heard.step, heard.error.raw_os_error()), (step, Some(code)));
        }
        assert!(Refusal::from_bytes(&[]).is_none() && Refusal::from_bytes(&[200, 1, 0, 0, 0]).is_none());
    }
}
