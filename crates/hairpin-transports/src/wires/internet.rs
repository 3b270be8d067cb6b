//! Shared code of TCP, UDP and ICMP: the server's address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::options::Family;
use crate::wire::Setup;

/// Returns the server's address in the setup, or the loopback address if both ends are on this host.
pub(crate) fn server_end(family: Family, setup: &Setup) -> IpAddr {
    match (family, setup.server) {
        (Family::V6, Some(server)) => server.v6.into(),
        (Family::V6, None) => Ipv6Addr::LOCALHOST.into(),
        (_, Some(server)) => server.v4.into(),
        (_, None) => Ipv4Addr::LOCALHOST.into(),
    }
}
