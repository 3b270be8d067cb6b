//! Ranges of IP addresses (RFC 4632).

use std::fmt;
use std::net::IpAddr;

use crate::refused::Refused;

/// All addresses that begin with the first `bits` bits of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Parses `10.0.0.0/8`, `2001:db8::/32`, or an address.
    ///
    /// # Errors
    /// The address is invalid, or has fewer bits than the prefix.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let invalid = || Refused::new(format!("`{text}` is not a range of addresses"), "for instance 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let most: u8 = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).ok().filter(|bits| *bits <= most).ok_or_else(invalid)?;
        match (address, address.to_canonical()) {
            // IPv4 addresses that are mapped to IPv6 (RFC 4291, section 2.5.5.2).
            (IpAddr::V6(_), IpAddr::V4(mapped)) => {
                let bits = bits.checked_sub(96).ok_or_else(invalid)?;
                Ok(Self { address: mapped.into(), bits })
            }
            _ => Ok(Self { address, bits }),
        }
    }

    pub fn parse_list(text: &str) -> Result<Vec<Self>, Refused> {
        text.split(',').map(|one| Self::parse(one.trim())).collect()
    }

    /// Whether the address is in the range. IPv4 addresses that are mapped to IPv6 are IPv4 addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        let significant = |bits: u128, all: u32| bits.checked_shr(all - u32::from(self.bits)).unwrap_or(0);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                significant(own.to_bits().into(), 32) == significant(other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                significant(own.to_bits(), 128) == significant(other.to_bits(), 128)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_the_addresses_that_begin_with_its_bits() {
        for (range, address, is_inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("::/0", "2001:db8::1", true),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
        ] {
            let prefix = Prefix::parse(range).unwrap();
            assert_eq!(prefix.contains(address.parse().unwrap()), is_inside, "{range} {address}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "lab/8", "10.0.0.0/-1", "10.0.0.0/"] {
            assert!(Prefix::parse(wrong).is_err(), "{wrong}");
        }
        let several = Prefix::parse_list("10.0.0.0/8, ::1").unwrap();
        assert_eq!(several.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "::1/128"]);
    }
}
