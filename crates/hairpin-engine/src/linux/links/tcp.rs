//! What TCP at both ends of a link uses. A new network namespace inherits the congestion control and the limits of
//! buffers from the host (`tcp_sk_init`, net/ipv4/tcp_ipv4.c), so a link that left them alone would be another one on
//! another host.

use hairpin_model::link_ends::LinkEnds;
use hairpin_model::round::Failure;

use crate::sysctl;

/// What is used where nobody asks for another: the first that the kernel has. It always has the second.
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];

/// The minimum, the default and the maximum of buffers, in bytes: Linux's own but for the maximum, which holds the
/// bandwidth-delay product of 500 Mbit/s over 250 ms twice, as `bbr` needs it to send.
const RECEIVE_BYTES: [u64; 3] = [4096, 131_072, 32 << 20];
const SEND_BYTES: [u64; 3] = [4096, 16_384, 32 << 20];

const CONGESTION: &str = "tcp_congestion_control";
const RECEIVE: &str = "tcp_rmem";
const SEND: &str = "tcp_wmem";

/// The congestion control of a link's ends where none is asked for.
#[must_use]
pub fn default_congestion_control() -> String {
    let available = sysctl::available_congestion_controls();
    let [preferred, always] = CONGESTION_CONTROLS;
    let is_there = available.iter().any(|name| name == preferred);
    if is_there { preferred } else { always }.to_owned()
}

/// Refuses a congestion control that this kernel does not have.
///
/// # Errors
/// It has none of that name; the hint lists what it has.
pub fn may_use(congestion_control: &str) -> Result<(), Failure> {
    let available = sysctl::available_congestion_controls();
    if available.iter().any(|name| name == congestion_control) {
        return Ok(());
    }
    Err(Failure {
        cause: format!("this kernel has no congestion control `{congestion_control}`"),
        hint: format!("one of {}; as root, `modprobe tcp_NAME` may load another", available.join(", ")),
    })
}

/// How the congestion control of an end is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// As the default of its namespace.
    Default,
    /// By the routes over the link: the kernel lets no namespace but the host's have a restricted one as its default.
    Route,
}

/// Sets what TCP uses in the calling thread's namespace, but for routes, and says how the congestion control is set.
/// What the kernel refuses stays as it was, and is told by [`ends`].
pub(super) fn set(congestion_control: &str) -> By {
    for (name, bytes) in [(RECEIVE, RECEIVE_BYTES), (SEND, SEND_BYTES)] {
        // In a container /proc/sys may be for reading alone.
        drop(sysctl::set_ipv4(name, &bytes.map(|bytes| bytes.to_string()).join(" ")));
    }
    drop(sysctl::set_ipv4(CONGESTION, congestion_control));
    if sysctl::ipv4(CONGESTION).trim() == congestion_control { By::Default } else { By::Route }
}

/// What TCP uses in the calling thread's namespace.
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
