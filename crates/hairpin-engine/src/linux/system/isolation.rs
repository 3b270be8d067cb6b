//! Isolates a program in a link from the host: network, mounts, host name and IPC objects (mount_namespaces(7),
//! uts_namespaces(7), ipc_namespaces(7)), and a `/sys` that shows the program's network namespace (sysfs(5)).
//!
//! [`isolate`] and [`mount_sys`] allocate nothing, so a forked child may call them.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount, open_tree,
};

use super::namespace::{self, NamespaceStep, Refusal, unshare};

const SYS: &CStr = c"/sys";

/// Moves the calling process into `network`, and into new mount, UTS and IPC namespaces. Mounts no longer propagate to
/// the old namespaces.
pub(crate) fn isolate(network: BorrowedFd<'_>) -> Result<(), Refusal> {
    namespace::enter_network(network).map_err(NamespaceStep::EnterNetwork.refused())?;
    unshare(libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC)
        .map_err(NamespaceStep::HostNamespaces.refused())?;
    let private = mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE);
    private.map_err(NamespaceStep::PrivateMounts.refused())
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
    // Copies each mount with all mounts beneath it (open_tree(2)).
    let copied = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    for SysMount { point, copy } in &mut *beneath {
        *copy = open_tree(CWD, point.as_c_str(), copied).ok();
    }
    let was_read_only = statvfs(SYS).is_ok_and(|sys| sys.f_flag.contains(StatVfsMountFlags::RDONLY));
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    flags.set(MountFlags::RDONLY, was_read_only);
    mount(c"sysfs", SYS, c"sysfs", flags, None::<&CStr>).map_err(NamespaceStep::Sysfs.refused())?;
    for SysMount { point, copy } in beneath {
        // A mount that cannot be attached is omitted.
        if let Some(copy) = copy.take() {
            let _ = move_mount(copy, c"", CWD, point.as_c_str(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
        }
    }
    Ok(())
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
