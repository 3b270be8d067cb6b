//! What a connection of a case took to open.

use hairpin_model::flow::Opening;
use hairpin_model::set_up::{Opened, SetUp, SetUpFigures};
use hairpin_model::{Figure, Flow, LatencyFigures, Measured};

use crate::over_rounds::OverRounds;

/// Minimum time of an exchange to count a connection's time in such exchanges, in ns: the path then dominates.
const MIN_EXCHANGE_NS: f64 = 2e6;

/// Returns the set-up figures of a flow; `None` if they were not measured.
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
