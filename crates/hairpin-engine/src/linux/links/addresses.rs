//! The addresses of both ends of every link. They exist only in the link's namespaces.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use hairpin_model::card::IPV6_MTU_BYTES;
use hairpin_transports::ServerAddresses;

/// Whether a link with this MTU supports IPv6 in addition to IPv4.
pub fn have_ipv6(mtu_bytes: u32) -> bool {
    mtu_bytes >= IPV6_MTU_BYTES && Path::new("/proc/net/if_inet6").exists()
}

pub const NEAR_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub const NEAR_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 1);
pub const FAR: ServerAddresses =
    ServerAddresses { v4: Ipv4Addr::new(10, 77, 0, 2), v6: Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 2) };
