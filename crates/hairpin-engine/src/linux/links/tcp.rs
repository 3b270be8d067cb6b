//! The TCP settings at both ends of a link. A new network namespace inherits congestion control and buffer limits from
//! the host (`tcp_sk_init`, net/ipv4/tcp_ipv4.c), so links would differ between hosts without these settings.

use hairpin_model::{Failure, FailureKind, LinkEnds};

use crate::sysctl;

/// The default is the first congestion control if the kernel has it, else the second, which every kernel has.
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];

/// Minimum, default and maximum size of socket buffers, in bytes. These are Linux's defaults, except for the maximum:
/// twice the bandwidth-delay product of 500 Mbit/s and 250 ms, which `bbr` needs for sending.
const RECEIVE_BYTES: [u64; 3] = [4096, 131_072, 32 << 20];
const SEND_BYTES: [u64; 3] = [4096, 16_384, 32 << 20];

const CONGESTION: &str = "tcp_congestion_control";
const RECEIVE: &str = "tcp_rmem";
const SEND: &str = "tcp_wmem";

/// The congestion control at a link's ends if none is requested.
pub fn default_congestion_control() -> String {
    let available = sysctl::available_congestion_controls();
    let [preferred, always] = CONGESTION_CONTROLS;
    let is_there = available.iter().any(|name| name == preferred);
    if is_there { preferred } else { always }.to_owned()
}

/// Refuses a congestion control that this kernel does not have.
pub fn may_use(congestion_control: &str) -> Result<(), Failure> {
    let available = sysctl::available_congestion_controls();
    if available.iter().any(|name| name == congestion_control) {
        return Ok(());
    }
    Err(Failure::new(
        FailureKind::Unsupported,
        format!("this kernel has no congestion control `{congestion_control}`"),
        format!("one of {}; as root, `modprobe tcp_NAME` may load another", available.join(", ")),
    ))
}

/// How to set the congestion control of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Default,
    /// Through the link's routes: a restricted congestion control can be the default only in the host's namespace.
    Route,
}

/// Applies the TCP settings in the calling thread's namespace, except for routes. Returns how to set the congestion
/// control. Refused settings keep their values, which [`ends`] reports.
pub(super) fn set(congestion_control: &str) -> By {
    for (name, bytes) in [(RECEIVE, RECEIVE_BYTES), (SEND, SEND_BYTES)] {
        // In a container /proc/sys may be read-only.
        drop(sysctl::set_ipv4(name, &bytes.map(|bytes| bytes.to_string()).join(" ")));
    }
    drop(sysctl::set_ipv4(CONGESTION, congestion_control));
    if sysctl::ipv4(CONGESTION).trim() == congestion_control { By::Default } else { By::Route }
}

/// The TCP settings in the calling thread's namespace.
pub(super) fn ends(congestion_control: &str, by: By) -> LinkEnds {
    let bytes = |name: &str| {
        let text = sysctl::ipv4(name);
        let mut words = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
        [(); 3].map(|()| words.next().unwrap_or(0))
    };
    LinkEnds {
        congestion_control: congestion_control.to_owned(),
        congestion_by_route: by == By::Route,
        tcp_rmem_bytes: bytes(RECEIVE),
        tcp_wmem_bytes: bytes(SEND),
    }
}
