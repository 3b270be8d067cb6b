//! What /proc and the file system say of programs that Hairpin did not write.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `S_ISUID` and `S_ISGID` (inode(7)).
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;

/// The network namespace of a process, if it is another one than that of this process.
pub(crate) fn other_network(process: u32) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/{process}/ns/net"));
    let of = |path: &Path| std::fs::read_link(path).ok();
    let (own, other) = (of(Path::new("/proc/self/ns/net"))?, of(&path)?);
    (own != other).then_some(path)
}

/// The largest receive buffer that programs may set (socket(7)).
pub(crate) fn max_rcvbuf_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap_or_default();
    text.trim().parse().unwrap_or(u64::MAX)
}

/// The path of a program that gains privileges when it starts; `None` if it gains none. With the filter of a supervisor it would
/// not gain them (no_new_privs, prctl(2)).
pub(crate) fn gains_privileges(program: &OsStr) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").filter(|_| !program.as_bytes().contains(&b'/')).unwrap_or_default();
    let paths = std::env::split_paths(&folders).map(|folder| folder.join(program)).chain([program.into()]);
    let (file, path) = paths.into_iter().find_map(|path| Some((std::fs::metadata(&path).ok()?, path)))?;
    let own = std::fs::metadata("/proc/self").ok()?;
    let is_other = |bit: u32, of: fn(&Metadata) -> u32| file.mode() & bit != 0 && of(&own) != of(&file);
    (is_other(SET_UID, Metadata::uid) || is_other(SET_GID, Metadata::gid)).then_some(path)
}
