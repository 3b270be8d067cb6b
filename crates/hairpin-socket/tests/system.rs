//! Calls by which the tests see and change what the crate under test does.

use std::os::fd::AsRawFd;

/// Reads an option of a socket.
pub(crate) fn option(of: &impl AsRawFd, level: i32, name: i32) -> i32 {
    let (mut value, mut length) = (0_i32, 4_u32);
    // SAFETY: `value` has the four bytes that `length` states, and both live through the call.
    let read = unsafe { libc::getsockopt(of.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) };
    assert_eq!((read, length), (0, 4), "{}", std::io::Error::last_os_error());
    value
}

/// A line of this thread's `/proc` status, for instance `Cpus_allowed_list`.
pub(crate) fn status(field: &str) -> String {
    let text = std::fs::read_to_string("/proc/thread-self/status").expect("/proc is mounted");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field}")).trim().to_owned()
}

/// Policy with its flag, and real-time priority, of this thread, by `/proc`: fields 41 and 40 of `stat` (proc(5)). The flag is
/// not in it.
pub(crate) fn class() -> (i32, i32) {
    let text = std::fs::read_to_string("/proc/thread-self/stat").expect("/proc is mounted");
    let (_, after_name) = text.rsplit_once(") ").expect("a name in parentheses");
    let fields: Vec<&str> = after_name.split(' ').collect();
    (fields[38].parse().expect("a policy"), fields[37].parse().expect("a priority"))
}

/// The timer slack of this thread, in ns.
pub(crate) fn timer_slack_ns() -> i32 {
    // SAFETY: no memory is passed.
    unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }
}

/// Whether this thread has a capability, by its number in `linux/capability.h`.
pub(crate) fn has_capability(number: u32) -> bool {
    u64::from_str_radix(&status("CapEff"), 16).expect("a mask") & 1 << number != 0
}

pub(crate) const CAP_IPC_LOCK: u32 = 14;
pub(crate) const CAP_SYS_NICE: u32 = 23;

/// Takes all capabilities from this thread alone (capset(2)).
pub(crate) fn drop_capabilities() {
    // Version 3: a header with the version and the thread (0 is this one), then two sets of three masks.
    let (header, masks) = ([0x2008_0522_u32, 0], [0_u32; 6]);
    // SAFETY: both arrays have the sizes of version 3, and the kernel only reads the masks.
    let set = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), masks.as_ptr()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Runs `body` with a lower soft limit of the process, and restores it.
macro_rules! with_limit {
    ($resource:expr, $soft:expr, $body:block) => {{
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a live structure, which the kernel fills.
        assert_eq!(unsafe { libc::getrlimit($resource, &raw mut before) }, 0);
        let lower = libc::rlimit { rlim_cur: $soft, ..before };
        // SAFETY: a live structure, which the kernel only reads.
        assert_eq!(unsafe { libc::setrlimit($resource, &raw const lower) }, 0);
        let result = $body;
        // SAFETY: a live structure, which the kernel only reads.
        assert_eq!(unsafe { libc::setrlimit($resource, &raw const before) }, 0);
        result
    }};
}
pub(crate) use with_limit;
