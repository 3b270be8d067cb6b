//! `datagrams-over-mtu`: datagrams are larger than the MTU of the path between two hosts.
//!
//! IP sends such a datagram in fragments (RFC 791, section 3.2). Evidence: the message size, the headers of IP and UDP, and
//! the path MTU that the kernel knows (ip(7), `IP_MTU`).

use hairpin_model::finding::{About, Severity};
use hairpin_model::names::distinct;
use hairpin_model::round::Measured;
use hairpin_model::{Case, Finding, FindingCard, Protocol, Run, fact, fact_names, finding_keys as keys};

use super::support::{blank, evidence};

pub(super) const CARD: FindingCard = FindingCard {
    code: "datagrams-over-mtu",
    about: About::Run,
    what: "datagrams are larger than the MTU of the path",
    why: "IP sends a datagram that is larger than the path's MTU in fragments, and one lost fragment loses all",
};

/// Headers of UDP and of IPv4 without options (RFC 768, RFC 791).
const HEADER_BYTES: u64 = 28;
/// Headers of UDP and IPv6 (RFC 8200).
const HEADER_V6_BYTES: u64 = 48;

/// The message size and the path's MTU in bytes, if the messages of a round do not fit in one packet.
fn over_mtu(run: &Run, case: &Case, measured: &Measured) -> Option<(u64, u64)> {
    let flow = case.primary();
    run.cards.get(&flow.transport).filter(|card| card.protocol == Protocol::Udp)?;
    let facts = || measured.ends.iter().map(|end| end.facts.as_slice());
    let mtu_bytes =
        facts().filter_map(|facts| fact::number(facts, fact_names::PATH_MTU_BYTES)).reduce(f64::min)? as u64;
    let is_ipv6 =
        facts().filter_map(|facts| fact::word(facts, fact_names::LOCAL_ADDRESS)).any(|at| at.starts_with('['));
    let header_bytes = if is_ipv6 { HEADER_V6_BYTES } else { HEADER_BYTES };
    let size_bytes = flow.load.size_bytes().max(flow.load.reply_size_bytes());
    (size_bytes.saturating_add(header_bytes) > mtu_bytes).then_some((size_bytes, mtu_bytes))
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let measured = run.rounds.iter().filter_map(|round| Some((round, round.measured()?)));
    let over = measured.filter_map(|(round, measured)| Some((round, over_mtu(run, &round.order.case, measured)?)));
    let over: Vec<_> = over.collect();
    let Some((_, (size_bytes, mtu_bytes))) = over.iter().max_by_key(|(_, (size_bytes, _))| *size_bytes) else {
        return Vec::new();
    };
    let evidence =
        vec![evidence(keys::MESSAGE_BYTES, *size_bytes as f64), evidence(keys::PATH_MTU, *mtu_bytes as f64)];
    let cases = distinct(over.iter().map(|(round, _)| round.case_id.clone()));
    vec![Finding { cases, evidence, ..blank(&CARD, Severity::Note) }]
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Fact, Flow, Load};

    use super::*;
    use crate::fixture::{Fixture, back_to_back, value};

    #[test]
    fn messages_that_need_several_packets_are_reported_with_the_mtu() {
        let found = |size_bytes: u64, mtu_bytes: f64, address: &str| {
            let flow = Flow::ping_pong("udp");
            let load = Load::PingPong { size_bytes, reply_size_bytes: size_bytes };
            let case = Case::of(Flow { load, ..flow });
            let mut fixture = Fixture::new();
            fixture.round_with(&case, 0, &back_to_back(&[], &[1_000_000; 50]), |measured| {
                let facts = &mut measured.ends[0].facts;
                facts.push(Fact::number(fact_names::PATH_MTU_BYTES, mtu_bytes));
                facts.push(Fact::word(fact_names::LOCAL_ADDRESS, address));
            });
            fixture.findings("datagrams-over-mtu")
        };
        let [v4, v6] = ["192.0.2.1:5", "[2001:db8::1]:5"];
        assert_eq!(found(1472, 1500.0, v4), []);
        assert_eq!(found(1452, 1500.0, v6), []);
        assert_eq!(found(1453, 1500.0, v6).len(), 1);
        let one = &found(1400, 1280.0, v4)[0];
        assert_eq!([keys::MESSAGE_BYTES, keys::PATH_MTU].map(|key| value(one, key)), [1400.0, 1280.0]);
    }
}
