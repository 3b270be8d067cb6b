//! The fields of an IP header that depend on the path.

use hairpin_model::{Fact, fact_names};

/// The fields that routers may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Time to live of IPv4, hop limit of IPv6. Each router subtracts one.
    pub ttl: u8,
    /// Type of service of IPv4, traffic class of IPv6: DSCP and ECN (RFC 2474, RFC 3168).
    pub traffic_class: u8,
}

impl IpHeader {
    /// Parses the header at the start of a packet; `None` if it is missing or truncated.
    pub fn of_packet(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 if packet.len() >= 20 => Some(Self { ttl: packet[8], traffic_class: packet[1] }),
            6 if packet.len() >= 40 => Some(Self { ttl: packet[7], traffic_class: packet[0] << 4 | packet[1] >> 4 }),
            _ => None,
        }
    }

    pub(crate) fn facts(self) -> [Fact; 3] {
        [
            Fact::number(fact_names::RECEIVED_TTL, self.ttl.into()),
            Fact::number(fact_names::RECEIVED_DSCP, (self.traffic_class >> 2).into()),
            Fact::number(fact_names::RECEIVED_ECN, (self.traffic_class & 3).into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_parsed_and_truncated_headers_are_refused() {
        let mut v4 = [0; 20];
        (v4[0], v4[1], v4[8]) = (0x45, 0xb8 | 1, 57);
        let mut v6 = [0; 40];
        (v6[0], v6[1], v6[7]) = (0x6b, 0x9f, 249);
        let expected = |ttl| Some(IpHeader { ttl, traffic_class: 0xb9 });
        assert_eq!((IpHeader::of_packet(&v4), IpHeader::of_packet(&v6)), (expected(57), expected(249)));
        for length in 0..20 {
            assert_eq!(IpHeader::of_packet(&v4[..length]), None);
        }
        for length in 0..40 {
            assert_eq!(IpHeader::of_packet(&v6[..length]), None);
        }
        let facts = IpHeader { ttl: 57, traffic_class: 0xb9 }.facts();
        assert_eq!(facts.map(|fact| fact.value), [57.0, 46.0, 1.0].map(hairpin_model::fact::FactValue::Number));
    }
}
