//! Shared code of TCP, UDP and ICMP: addresses as text, and errors about ports and the loopback device.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hairpin_model::WhyNot;

use super::{bad_address, failed};
use crate::options::Family;
use crate::wire::{Setup, TransportError};

/// Returns the server's address in the setup, or the loopback address if both ends are on this host.
pub(crate) fn server_end(family: Family, setup: &Setup) -> IpAddr {
    match (family, setup.server) {
        (Family::V6, Some(server)) => server.v6.into(),
        (Family::V6, None) => Ipv6Addr::LOCALHOST.into(),
        (_, Some(server)) => server.v4.into(),
        (_, None) => Ipv4Addr::LOCALHOST.into(),
    }
}

/// Parses an address such as `127.0.0.1:7777`, whose IP address must be `at`.
pub(crate) fn parse(address: &str, at: IpAddr) -> Result<SocketAddr, TransportError> {
    address.parse::<SocketAddr>().ok().filter(|parsed| parsed.ip() == at && parsed.port() != 0).ok_or_else(|| {
        let host = if at.is_ipv4() { at.to_string() } else { format!("[{at}]") };
        bad_address(address, &format!("{host}:PORT"))
    })
}

/// Returns the error of a failed bind.
pub(crate) fn cannot_bind(address: SocketAddr, source: io::Error) -> TransportError {
    let hint = match source.kind() {
        io::ErrorKind::AddrInUse => "the port is occupied: choose another, or 0 for any free port",
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege: choose another, or 0 for any",
        io::ErrorKind::AddrNotAvailable => "no interface in this network namespace has the address",
        _ => "",
    };
    failed("bind", &address.to_string(), source, hint)
}

/// Explains why a protocol cannot run over the loopback device.
pub(crate) fn no_loopback(family: Family, error: &TransportError) -> WhyNot {
    let hint = if family == Family::V6 {
        "enable IPv6 on the loopback device: sysctl net.ipv6.conf.lo.disable_ipv6=0"
    } else {
        "bring the loopback device up: ip link set lo up"
    };
    WhyNot::new(error.to_string(), hint)
}
