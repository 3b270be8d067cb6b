//! Multipath TCP over IPv4, through the loopback device (RFC 8684): one path, and so one subflow.
//!
//! A closed end does not reset the connection when more data arrives, so the other end notices the close only in a
//! receive. The kernel refuses an unknown congestion control only after the socket has connected.

use hairpin_model::options::OptionName;
use hairpin_model::{Card, RoughRoundTrip, WhyNot};
use socket2::{Domain, Protocol, Socket, Type};

use super::tcp::TCP;
use crate::wires::socket_transport::SocketTransport;

/// TCP's options without `quickack`, `zerocopy` and `pacing-rate`. The kernel has no `TCP_QUICKACK` for MPTCP sockets.
const OPTIONS: &[OptionName] = &[
    OptionName::Nodelay,
    OptionName::Cork,
    OptionName::Sndbuf,
    OptionName::Rcvbuf,
    OptionName::BusyPoll,
    OptionName::Tos,
    OptionName::Dscp,
    OptionName::Congestion,
    OptionName::NotsentLowat,
    OptionName::Priority,
];

pub(super) const MPTCP: SocketTransport = SocketTransport {
    card: Card {
        name: "mptcp",
        summary: "Multipath TCP over IPv4, through the loopback device",
        rough_round_trip: RoughRoundTrip { blocking_ns: 15_000, spinning_ns: 9_000 },
        // With one path, this is TCP with an additional layer: not worth the survey's time.
        in_survey: false,
        is_reference: false,
        options: OPTIONS,
        ..TCP.card
    },
    protocol: Some(Protocol::MPTCP),
    can_open: || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP));
        socket.map(drop).map_err(|error| why_not(&error))
    },
    ..TCP
};

/// Why the kernel opens no MPTCP socket: it was built without MPTCP, or MPTCP is disabled (net/mptcp/protocol.c,
/// `mptcp_init_sock`).
fn why_not(error: &std::io::Error) -> WhyNot {
    let (reason, hint) = match error.raw_os_error() {
        Some(libc::ENOPROTOOPT) => ("Multipath TCP is disabled", "run sysctl net.mptcp.enabled=1"),
        Some(libc::EPROTONOSUPPORT | libc::EINVAL) => {
            ("this kernel does not support Multipath TCP", "use Linux 5.6 or later, built with CONFIG_MPTCP")
        }
        _ => ("cannot open a socket", "allow Multipath TCP sockets in this sandbox"),
    };
    WhyNot::new(format!("{reason}: {error}"), hint)
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn the_hint_depends_on_the_error() {
        let hint = |number| why_not(&Error::from_raw_os_error(number)).hint;
        assert_eq!(hint(libc::ENOPROTOOPT), "run sysctl net.mptcp.enabled=1");
        assert!(hint(libc::EPROTONOSUPPORT).contains("CONFIG_MPTCP"));
        assert!(hint(libc::EPERM).contains("sandbox"));
    }
}
