//! What TCP, UDP and ICMP share: addresses as texts, and clear errors about ports and loopback devices.

use std::io;
use std::net::{IpAddr, SocketAddr};

use hairpin_model::card::WhyNot;

use super::{bad_address, failed};
use crate::wire::TransportError;

/// The address and port in a text such as `127.0.0.1:7777`, of the same IP version as `like`.
pub(crate) fn parse(address: &str, like: IpAddr) -> Result<SocketAddr, TransportError> {
    address
        .parse::<SocketAddr>()
        .ok()
        .filter(|parsed| parsed.is_ipv4() == like.is_ipv4() && parsed.port() != 0)
        .ok_or_else(|| bad_address(address, if like.is_ipv4() { "127.0.0.1:PORT" } else { "[::1]:PORT" }))
}

/// A failed bind; the usual cause is a port that somebody else has.
pub(crate) fn cannot_bind(address: SocketAddr, source: io::Error) -> TransportError {
    let hint = match source.kind() {
        io::ErrorKind::AddrInUse => "the port is occupied: choose another, or 0 for any that is free",
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege: choose a higher one, or 0 for any",
        io::ErrorKind::AddrNotAvailable => "the loopback device has no such address here",
        _ => "",
    };
    failed("bind", &address.to_string(), source, hint)
}

/// Why a protocol cannot run over the loopback device.
pub(crate) fn no_loopback(loopback: IpAddr, error: &TransportError) -> WhyNot {
    let hint = if loopback.is_ipv6() {
        "enable IPv6 on the loopback device: sysctl net.ipv6.conf.lo.disable_ipv6=0"
    } else {
        "bring the loopback device up: ip link set lo up"
    };
    WhyNot { reason: error.to_string(), hint: hint.to_owned() }
}
