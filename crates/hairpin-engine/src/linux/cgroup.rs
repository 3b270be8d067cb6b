//! Finds this process's control groups (cgroups(7), version 1 and 2), and reads its container and its memory limit.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of a process's group (`self` or its id) and its ancestors, own group first, in the hierarchy with this controller;
/// empty if no hierarchy has it. Reads files below `root`.
pub(crate) fn groups(root: &Path, process: &str, controller: &str) -> Vec<PathBuf> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let own = own_group(controller, &read(&format!("proc/{process}/cgroup")), &read("proc/self/mountinfo"));
    let Some((mount, path)) = own else { return Vec::new() };
    let mount = root.join(mount.strip_prefix("/").unwrap_or(&mount));
    path.ancestors().map(|path| mount.join(path)).collect()
}

/// The mount point of the hierarchy, and the path of this process's group below the mount point.
fn own_group(controller: &str, cgroups: &str, mounts: &str) -> Option<(PathBuf, PathBuf)> {
    let has = |names: &str| names.split(',').any(|name| name == controller);
    // cgroups(7): `hierarchy:controllers:path`; version 2 is hierarchy 0 and names no controllers.
    let groups = || cgroups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let of_v1 = groups().find(|(controllers, _)| has(controllers));
    let is_v1 = of_v1.is_some();
    let (_, path) = of_v1.or_else(|| groups().find(|(controllers, _)| controllers.is_empty()))?;
    // proc_pid_mountinfo(5): the fields before ` - ` include the root within the hierarchy and the mount point.
    let mount = |line: &str| -> Option<(PathBuf, PathBuf)> {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let fits = match kind.next()? {
            "cgroup" => is_v1 && has(kind.nth(1)?),
            "cgroup2" => !is_v1,
            _ => false,
        };
        let mut place = place.split(' ').skip(3);
        fits.then_some((place.next()?.into(), place.next()?.into()))
    };
    let (visible, point) = mounts.lines().find_map(mount)?;
    // In a container, often only the container's own group and its descendants are visible.
    let below = Path::new(path).strip_prefix(visible).unwrap_or(Path::new(""));
    Some((point, below.to_path_buf()))
}

/// The smallest memory limit of this process's groups, in bytes; `None` without a limit.
pub(crate) fn memory_limit_bytes(root: &Path) -> Option<u64> {
    let limit = |folder: PathBuf| {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        read("memory.max").or_else(|| read("memory.limit_in_bytes"))?.trim().parse::<u64>().ok()
    };
    // Version 1 shows a missing limit as the largest multiple of the page size.
    groups(root, "self", "memory").into_iter().filter_map(limit).min().filter(|bytes| *bytes < 1 << 62)
}

/// The kind of container in which this process runs; `None` if no container is detected.
pub(crate) fn container(root: &Path) -> Option<String> {
    // systemd's container interface names the kind; podman and docker have marker files.
    let named = fs::read_to_string(root.join("run/systemd/container")).ok();
    let named = named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let marked = || {
        let marks = [("run/.containerenv", "podman"), (".dockerenv", "docker")];
        marks.into_iter().find(|(file, _)| root.join(file).exists()).map(|(_, name)| name.to_owned())
    };
    named.or_else(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limits_and_containers_are_read() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!((memory_limit_bytes(root.path()), container(root.path())), (None, None));
        write("proc/self/cgroup", "4:memory:/m\n");
        write("proc/self/mountinfo", "36 32 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(memory_limit_bytes(root.path()), None);
        write("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1048576\n");
        assert_eq!(memory_limit_bytes(root.path()), Some(1 << 20));
        write(".dockerenv", "");
        assert_eq!(container(root.path()).as_deref(), Some("docker"));
        write("run/systemd/container", "lxc\n");
        assert_eq!(container(root.path()).as_deref(), Some("lxc"));
    }
}
