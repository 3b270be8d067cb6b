//! Multipath TCP over IPv4, through the loopback device (RFC 8684): one subflow, as there is one path.
//!
//! A closed end does not reset the connection when more data arrives, so its peer notices by receiving, not by sending.
//! A congestion control that the kernel does not have is only refused once there is a connection.

use hairpin_model::card::{self, IPV4_MTU_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::{Card, Reach, Receipt, RoughRoundTrip, WhyNot};
use socket2::{Protocol, Socket, Type};

use super::tcp::{bound, can_run};
use crate::options::Family;
use crate::wire::{Connection, Listener, PassedSocket, Setup, Transport, TransportError};
use crate::wires::check;
use crate::wires::internet::{parse, server_end};
use crate::wires::socket::{SocketKind, connect, listen, listen_on};

/// `mptcp`.
pub(super) struct Mptcp;

/// All but `TCP_QUICKACK`, which the kernel neither sets nor reads here (net/mptcp/sockopt.c).
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

const KIND: SocketKind = SocketKind {
    transport: "mptcp",
    family: Family::V4,
    sort: Type::STREAM,
    protocol: Some(Protocol::MPTCP),
    options: OPTIONS,
};

impl Transport for Mptcp {
    fn card(&self) -> Card {
        Card {
            name: KIND.transport,
            summary: "Multipath TCP over IPv4, through the loopback device",
            min_mtu_bytes: IPV4_MTU_BYTES,
            reach: Reach::Network,
            protocol: card::Protocol::Tcp,
            rough_round_trip: RoughRoundTrip { blocking_ns: 15_000, spinning_ns: 9_000 },
            // TCP with one more layer, over a path without an alternative: not worth the survey's time.
            in_survey: false,
            many_connections: true,
            sends_files: true,
            options: OPTIONS,
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        Socket::new(socket2::Domain::IPV4, Type::STREAM, KIND.protocol).map_err(|error| refused(&error))?;
        can_run(&KIND)
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        listen(bound(&KIND, setup)?, &KIND, setup)
    }

    fn listen_on(&self, handed: PassedSocket, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        listen_on(handed, &KIND, setup)
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        let to = parse(address, server_end(KIND.family, setup))?;
        connect(&to.into(), address, &KIND, setup)
    }
}

/// Why the kernel opens no such socket: it was built without the protocol, or the protocol is disabled
/// (net/mptcp/protocol.c, `mptcp_init_sock`).
fn refused(error: &std::io::Error) -> WhyNot {
    let (reason, hint) = match error.raw_os_error() {
        Some(libc::ENOPROTOOPT) => ("it is switched off", "sysctl net.mptcp.enabled=1"),
        Some(libc::EPROTONOSUPPORT | libc::EINVAL) => {
            ("this kernel has no Multipath TCP", "use Linux 5.6 or later, built with CONFIG_MPTCP")
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
    fn the_hint_is_for_the_reason() {
        let hint = |number| refused(&Error::from_raw_os_error(number)).hint;
        assert_eq!(hint(libc::ENOPROTOOPT), "sysctl net.mptcp.enabled=1");
        assert!(hint(libc::EPROTONOSUPPORT).contains("CONFIG_MPTCP"));
        assert!(hint(libc::EPERM).contains("sandbox"));
    }
}
