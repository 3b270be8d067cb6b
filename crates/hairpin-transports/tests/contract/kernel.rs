//! Probes for features that some kernels and emulators lack. Checks of missing features are skipped.

use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use hairpin_model::options::OptionName;
use libc::{IPPROTO_MPTCP, IPPROTO_TCP, SOL_SOCKET};
use socket2::{Domain, Protocol, Socket, Type};

/// The level of Multipath TCP's options (linux/mptcp.h).
const SOL_MPTCP: i32 = 284;

/// A socket option, and whether the kernel supports the option (after the first probe).
pub(crate) struct Feature {
    name: &'static str,
    tried: fn() -> bool,
    exists: OnceLock<bool>,
}

pub(crate) static BUSY_POLL: Feature = Feature::new("SO_BUSY_POLL", || is_set(libc::SO_BUSY_POLL));
pub(crate) static TIMESTAMPING: Feature = Feature::new("SO_TIMESTAMPING", || is_set(libc::SO_TIMESTAMPING));
pub(crate) static ZEROCOPY: Feature = Feature::new("SO_ZEROCOPY", || is_set(libc::SO_ZEROCOPY));
pub(crate) static MAX_PACING_RATE: Feature =
    Feature::new("SO_MAX_PACING_RATE", || read_bytes(SOL_SOCKET, libc::SO_MAX_PACING_RATE) >= 8);
pub(crate) static MEMINFO: Feature =
    Feature::new("SO_MEMINFO", || read_bytes(SOL_SOCKET, libc::SO_MEMINFO) > 4 * libc::SK_MEMINFO_DROPS as usize);
pub(crate) static CONGESTION: Feature =
    Feature::new("TCP_CONGESTION", || read_bytes(IPPROTO_TCP, libc::TCP_CONGESTION) > 4);
pub(crate) static MPTCP_INFO: Feature = Feature::new("MPTCP_INFO", || read_bytes(SOL_MPTCP, 1) > 4);
pub(crate) static TCP_INFO: Feature = Feature::new("TCP_INFO", || read_bytes(IPPROTO_TCP, libc::TCP_INFO) > 100);

impl Feature {
    const fn new(name: &'static str, tried: fn() -> bool) -> Self {
        Self { name, tried, exists: OnceLock::new() }
    }

    /// Whether the kernel supports the option. A missing option is reported once.
    pub(crate) fn exists(&self) -> bool {
        *self.exists.get_or_init(|| {
            let exists = (self.tried)();
            if !exists {
                let part = format!("the contract: {}", self.name);
                hairpin_testing::skipped("hairpin-transports", &part, "the kernel does not have it");
            }
            exists
        })
    }
}

/// Whether the kernel supports the option.
pub(crate) fn has_option(name: OptionName) -> bool {
    match name {
        OptionName::BusyPoll => BUSY_POLL.exists(),
        OptionName::Congestion => CONGESTION.exists(),
        OptionName::PacingRate => MAX_PACING_RATE.exists(),
        OptionName::Zerocopy => ZEROCOPY.exists(),
        _ => true,
    }
}

/// Whether MSG_ZEROCOPY may pin more memory than RLIMIT_MEMLOCK. If not, this is reported once.
pub(crate) fn may_pin_memory() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let may = has_capability(14);
        if !may {
            let part = "the contract: a wire that is full of sends without a copy";
            hairpin_testing::skipped("hairpin-transports", part, "needs CAP_IPC_LOCK");
        }
        may
    })
}

/// Whether this process may choose any congestion control (CAP_NET_ADMIN).
pub(crate) fn may_administer_networks() -> bool {
    has_capability(12)
}

/// Whether this process has the capability with that number in linux/capability.h (capabilities(7)).
fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    effective.is_some_and(|bits| bits >> number & 1 == 1)
}

fn socket(protocol: i32) -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(protocol))).expect("a socket")
}

/// Whether the kernel knows the option when it is set to 0.
#[expect(unsafe_code, reason = "options that the standard library does not have")]
fn is_set(option: i32) -> bool {
    let (socket, off) = (socket(IPPROTO_TCP), 0_i32);
    // SAFETY: the descriptor is open, and the kernel reads the four bytes of `off`.
    let answer = unsafe { libc::setsockopt(socket.as_raw_fd(), SOL_SOCKET, option, (&raw const off).cast(), 4) };
    answer == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOPROTOOPT)
}

/// Returns the number of bytes of the option's value. For an unknown option, qemu returns four bytes.
#[expect(unsafe_code, reason = "options that the standard library does not have")]
fn read_bytes(level: i32, option: i32) -> usize {
    let protocol = if level == SOL_MPTCP { IPPROTO_MPTCP } else { IPPROTO_TCP };
    let (socket, mut value, mut length) = (socket(protocol), [0_u8; 512], 512);
    let place = value.as_mut_ptr().cast();
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes to `place`.
    let answer = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, place, &raw mut length) };
    if answer == 0 { length as usize } else { 0 }
}
