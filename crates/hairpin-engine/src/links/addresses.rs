//! The addresses of both ends of every link. They are private to its namespaces.

use std::net::{Ipv4Addr, Ipv6Addr};

use hairpin_transports::FarAddresses;

/// The near end, IPv4.
pub const NEAR_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The near end, IPv6.
pub const NEAR_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 1);
/// The far end.
pub const FAR: FarAddresses =
    FarAddresses { v4: Ipv4Addr::new(10, 77, 0, 2), v6: Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 2) };
