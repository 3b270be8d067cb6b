//! What a connection of a case took to open.

use hairpin_model::flow::Opening;
use hairpin_model::set_up::{Opened, SetUp, SetUpFigures};
use hairpin_model::{Figure, Flow, LatencyFigures, Measured};

use crate::over_rounds::OverRounds;

/// Minimum time of an exchange to count a connection's time in such exchanges, in ns: the path then dominates.
const MIN_EXCHANGE_NS: f64 = 2e6;

pub(crate) fn set_up(
    flow: &Flow,
    over_rounds: &OverRounds,
    latency_ns: &LatencyFigures,
    service_ns: Option<&LatencyFigures>,
) -> Option<SetUp> {
    let opening = flow.opening?;
    let p50 = |of: &LatencyFigures| of.p50.and_then(Figure::finite);
    let exchange_ns = service_ns.and_then(p50).filter(|exchange_ns| *exchange_ns >= MIN_EXCHANGE_NS);
    let per_connection = |of: &dyn Fn(&Measured, &Opened) -> Option<u64>| {
        over_rounds.median(|measured| {
            let opened = measured.flow(&flow.id)?.opened.filter(|opened| opened.connections > 0)?;
            Some(of(measured, &opened)? as f64 / opened.connections as f64)
        })
    };
    let of_link = |whole: u64, opened: &Opened, hello: u64| whole.checked_sub(opened.connections.checked_mul(hello)?);
    let figures = SetUpFigures {
        time_ns: latency_ns.p50,
        round_trips: exchange_ns.zip(p50(latency_ns)).map(|(exchange_ns, time_ns)| (time_ns / exchange_ns).round()),
        bytes: per_connection(&|measured, opened| {
            let link = measured.link.as_ref()?;
            of_link(link.up.in_bytes.saturating_add(link.down.in_bytes), opened, opened.hello_bytes)
        }),
        packets: per_connection(&|measured, opened| {
            of_link(measured.link.as_ref()?.packets.entered, opened, opened.hello_packets)
        }),
        cpu_ns: over_rounds.median(|measured| {
            let sent = measured.flow(&flow.id)?.ledger.sent;
            let used_ns = measured.ends.iter().fold(0_u64, |sum, end| sum.saturating_add(end.cpu_ns));
            (sent > 0 && used_ns > 0).then(|| used_ns as f64 / sent as f64)
        }),
    };
    Some(if opening == Opening::Cold { SetUp::Cold(figures) } else { SetUp::Warm(figures) })
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::ConnectionUse;
    use hairpin_model::{Case, CaseSummary, LinkRecord};

    use super::*;
    use crate::fixture::{Fixture, paced};

    const EXCHANGE_NS: u64 = 20_000_000;

    /// The summary of rounds of 10 connections with that opening, which take that many exchanges.
    fn summary(opening: Opening, round_trips: u64, link: Option<LinkRecord>) -> CaseSummary {
        let flow =
            Flow { opening: Some(opening), connection_use: ConnectionUse::PerMessage, ..Flow::ping_pong("quic") };
        let samples = paced(1_000_000_000, &[((round_trips - 1) * EXCHANGE_NS, EXCHANGE_NS); 10]);
        let mut fixture = Fixture::new();
        for round in 0..8 {
            fixture.round_with(&Case::of(flow.clone()), round, &samples, |measured| {
                measured.flows[0].opened = Some(Opened { connections: 10, hello_packets: 6, hello_bytes: 408 });
                measured.flows[0].ledger.sent = 10;
                measured.ends.iter_mut().for_each(|end| end.cpu_ns = 10_000_000);
                measured.link.clone_from(&link);
            });
        }
        fixture.run().cases.remove(0)
    }

    fn value(figure: Option<Figure>) -> Option<f64> {
        figure.map(|figure| figure.value)
    }

    #[test]
    fn the_hello_is_not_among_the_packets_and_bytes_of_a_connection() {
        let mut link = LinkRecord::default();
        (link.packets.entered, link.up.in_bytes, link.down.in_bytes) = (260, 10_000, 20_000);
        let summary = summary(Opening::Cold, 2, Some(link));
        let Some(SetUp::Cold(figures)) = &summary.primary().set_up else { panic!("{summary:?}") };
        assert_eq!((value(figures.packets), value(figures.bytes)), (Some(20.0), Some(2592.0)));
        assert_eq!(figures.round_trips, Some(2.0));
        let ends = summary.ends.len() as f64;
        assert_eq!(value(figures.cpu_ns), Some(ends * 1e6));
    }

    #[test]
    fn without_a_link_only_time_and_cpu_are_known() {
        let summary = summary(Opening::ZeroRtt, 1, None);
        let Some(SetUp::Warm(figures)) = &summary.primary().set_up else { panic!("{summary:?}") };
        assert_eq!((value(figures.packets), value(figures.bytes)), (None, None));
        assert_eq!(figures.round_trips, Some(1.0));
    }
}
