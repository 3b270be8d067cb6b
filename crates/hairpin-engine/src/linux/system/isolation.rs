//! Isolates a program in a link from the host: network, mounts, host name and IPC objects (mount_namespaces(7),
//! uts_namespaces(7), ipc_namespaces(7)), and a `/sys` that shows the program's network namespace (sysfs(5)).
//!
//! [`isolate`] and [`mount_sys`] allocate nothing, so a forked child may call them.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr::null;

use super::done;
use super::namespace::{self, NamespaceStep, Refusal, unshare};

const SYS: &CStr = c"/sys";

/// Moves the calling process into `network`, and into new mount, UTS and IPC namespaces. Mounts no longer propagate to
/// the old namespaces.
pub(crate) fn isolate(network: BorrowedFd<'_>) -> Result<(), Refusal> {
    namespace::enter_network(network).map_err(NamespaceStep::EnterNetwork.refused())?;
    unshare(libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC)
        .map_err(NamespaceStep::HostNamespaces.refused())?;
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE).map_err(NamespaceStep::PrivateMounts.refused())
}

/// A mount beneath `/sys`, and a copy of the mount once [`mount_sys`] has made it.
pub(crate) struct SysMount {
    point: CString,
    copy: Option<OwnedFd>,
}

/// The outermost mounts beneath `/sys`.
pub(crate) fn mounts_beneath_sys() -> Vec<SysMount> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let point = |text: &str| CString::new(text).ok().map(|point| SysMount { point, copy: None });
    outermost_beneath_sys(&text).into_iter().filter_map(point).collect()
}

/// The outermost mount points beneath `/sys` in a text of `/proc/self/mountinfo`.
fn outermost_beneath_sys(mountinfo: &str) -> Vec<&str> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    let mut beneath: Vec<&str> = points.filter(|point| point.starts_with("/sys/")).collect();
    beneath.sort_unstable_by_key(|point| Path::new(*point));
    beneath.dedup_by(|point, before| Path::new(*point).starts_with(*before));
    beneath
}

/// Mounts a new sysfs, which shows the network namespace of the calling process, at `/sys`, and the mounts in `beneath`
/// inside it. The new sysfs is read-only if the previous one was.
pub(crate) fn mount_sys(beneath: &mut [SysMount]) -> Result<(), Refusal> {
    for SysMount { point, copy } in &mut *beneath {
        *copy = copy_mount(point).ok();
    }
    let flags =
        libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | if is_read_only(SYS) { libc::MS_RDONLY } else { 0 };
    mount(c"sysfs", SYS, Some(c"sysfs"), flags).map_err(NamespaceStep::Sysfs.refused())?;
    for SysMount { point, copy } in beneath {
        // A mount that cannot be attached is omitted.
        drop(copy.take().map(|copy| attach_mount(&copy, point)));
    }
    Ok(())
}

fn is_read_only(point: &CStr) -> bool {
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a NUL-terminated path, and room for one statvfs, which is read only if the call has filled it.
    unsafe {
        libc::statvfs(point.as_ptr(), found.as_mut_ptr()) == 0 && found.assume_init().f_flag & libc::ST_RDONLY != 0
    }
}

fn mount(source: &CStr, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let kind = kind.map_or(null(), CStr::as_ptr);
    // SAFETY: the texts are NUL-terminated or absent, and there is no data.
    done(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, null()) })
}

/// Copies the mount at `point` with all mounts beneath `point`; the copy is not yet attached (open_tree(2)).
fn copy_mount(point: &CStr) -> io::Result<OwnedFd> {
    const RECURSIVE: libc::c_uint = 0x8000;
    let flags = libc::OPEN_TREE_CLONE | RECURSIVE | libc::O_CLOEXEC as libc::c_uint;
    // SAFETY: takes a NUL-terminated path and flags, and returns a new descriptor or -1.
    let copy = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, point.as_ptr(), flags) };
    match i32::try_from(copy) {
        // SAFETY: a new descriptor without another owner.
        Ok(copy) if copy >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(copy) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Attaches a copy of [`copy_mount`] (move_mount(2)).
fn attach_mount(copy: &OwnedFd, point: &CStr) -> io::Result<()> {
    let (from, to, flags) = (copy.as_raw_fd(), libc::AT_FDCWD, libc::MOVE_MOUNT_F_EMPTY_PATH);
    // SAFETY: takes an open descriptor, NUL-terminated paths and flags.
    let result = unsafe { libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), to, point.as_ptr(), flags) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_mounts_beneath_sys_are_found() {
        let line = |point: &str| format!("22 27 0:21 / {point} rw,relatime - proc proc rw\n");
        let points = ["/", "/sys", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup-2", "/sys/kernel/debug", "/sys/fs/cgroup"];
        let text: String = points.into_iter().chain(["/system", "/srv/sys/fs"]).map(line).collect();
        assert_eq!(outermost_beneath_sys(&text), ["/sys/fs/cgroup", "/sys/fs/cgroup-2", "/sys/kernel/debug"]);
        assert_eq!(outermost_beneath_sys("\n22 27\n"), [""; 0]);
    }
}
