//! What a packet's IP header says of the way that it came.

use hairpin_model::fact::Fact;
use hairpin_model::fact_names;

/// The fields of an IP header that routers on the way change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// The time to live of IPv4, the hop limit of IPv6. Each router takes one off.
    pub ttl: u8,
    /// The type of service of IPv4, the traffic class of IPv6: DSCP and ECN (RFC 2474, RFC 3168).
    pub traffic_class: u8,
}

impl IpHeader {
    /// The header with which a packet begins; `None` where it is none, or cut short.
    #[must_use]
    pub fn of_packet(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 if packet.len() >= 20 => Some(Self { ttl: packet[8], traffic_class: packet[1] }),
            6 if packet.len() >= 40 => Some(Self { ttl: packet[7], traffic_class: packet[0] << 4 | packet[1] >> 4 }),
            _ => None,
        }
    }

    /// What it says, as facts.
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
    fn the_fields_of_both_versions_are_read_and_what_is_cut_short_is_no_header() {
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
