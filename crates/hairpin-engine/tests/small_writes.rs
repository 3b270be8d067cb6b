//! Exchanges over real sockets and pipes: the ledger closes, the counts are right, and the requested options are set.

use std::path::PathBuf;

use crate::common::{COUNT, WARM_UP, engine, order};
use hairpin_model::options::OptionName;
use hairpin_model::{
    EndReport, Exchange, ExchangeCounts, Extent, Failure, Load, Measured, Options, Outcome, Remedy, RoundOrder,
};

fn run(order: &RoundOrder) -> Result<Measured, Failure> {
    match engine(PathBuf::new()).run(0, order).record.outcome {
        Outcome::Measured(measured) => Ok(*measured),
        Outcome::Failed(failure) => Err(failure),
    }
}

/// The counts of a round, whose ledger must close.
fn counts(order: &RoundOrder) -> ExchangeCounts {
    let label = order.case.label();
    let measured = run(order).unwrap_or_else(|failure| panic!("{label}: {failure:?}"));
    let ledger = &measured.primary().ledger;
    assert_eq!((ledger.sent, ledger.received, ledger.late, ledger.unexplained), (COUNT, COUNT, 0, 0), "{label}");
    assert_eq!(measured.primary().samples_kept, COUNT + WARM_UP, "{label}");
    let counts = measured.primary().exchange_counts.expect("exchanges are counted");
    assert_eq!(counts.exchanges, COUNT, "{label}");
    counts
}

#[test]
fn a_stream_without_segments_counts_its_system_calls_only() {
    for transport in ["unix-stream", "pipe"] {
        for (remedy, calls) in
            [(Remedy::Default, 11), (Remedy::Writev, 2), (Remedy::OneWrite, 2), (Remedy::Batch(3), 5)]
        {
            let counts = counts(&order(transport, "10x2", remedy));
            assert_eq!((counts.segments, counts.pure_acks), (None, None), "{transport} {remedy}");
            // A signal (the wire's own alarm) may interrupt a read, which is then repeated.
            let expected = calls * COUNT..=calls * COUNT + 2;
            assert!(expected.contains(&counts.system_calls), "{transport} {remedy}: {counts:?}");
        }
    }
}

#[test]
fn tcp_counts_the_segments_of_each_remedy() {
    // The numbers are for 100 writes of 2 bytes and the answer, which is a segment too.
    for (remedy, segments, calls) in [
        (Remedy::Nodelay, 10..=101, 101),
        (Remedy::Cork, 2..=3, 103),
        (Remedy::More, 2..=3, 101),
        (Remedy::Writev, 2..=2, 2),
        (Remedy::OneWrite, 2..=2, 2),
        (Remedy::Batch(50), 2..=3, 3),
    ] {
        // The two small writes of `batch=50` stall like writes without a remedy, so use few exchanges.
        let counts = counts(&order("tcp", "100x2", remedy));
        let counted = counts.segments.expect("TCP counts its segments");
        assert!((segments.start() * COUNT..=segments.end() * COUNT).contains(&counted), "{remedy}: {counts:?}");
        assert!(counts.pure_acks.is_some(), "{remedy}: {counts:?}");
        assert!((calls * COUNT..=calls * COUNT + 2).contains(&counts.system_calls), "{remedy}: {counts:?}");
    }
}

#[test]
fn without_a_remedy_writes_are_merged_but_every_write_is_a_call() {
    let counts = counts(&order("tcp", "100x2", Remedy::Default));
    // The first write leaves alone. The other 99 writes wait for its acknowledgment and leave together.
    assert!((3 * COUNT..10 * COUNT).contains(&counts.segments.expect("TCP counts its segments")), "{counts:?}");
    assert!(counts.pure_acks >= Some(COUNT / 2), "this acknowledgment is a pure ACK: {counts:?}");
    assert!((101 * COUNT..=101 * COUNT + 10).contains(&counts.system_calls), "{counts:?}");
}

#[test]
fn the_ledger_closes_with_requests_in_flight_and_gaps() {
    for transport in ["tcp", "unix-stream", "pipe"] {
        for (pipeline, gap_ns) in [(7, 0), (1, 1000), (3, 1000)] {
            let order = order(transport, "3x2,100", Remedy::Default);
            let case = order.case.clone().with(|case| {
                let exchange = case.primary().load.exchange().cloned().expect("it has exchanges");
                let exchange = Exchange { pipeline, gap_ns, ..exchange };
                case.primary_mut().load = Load::Exchange { exchange, reply_size_bytes: 300 };
            });
            let counts = counts(&RoundOrder { case, ..order });
            assert!(counts.system_calls >= 5 * COUNT, "{transport}: {counts:?}");
        }
    }
}

fn option(report: &EndReport, name: OptionName) -> (Option<&str>, &str, &str, bool) {
    let option = report.options.iter().find(|option| option.name == name).expect("the option is on the card");
    (option.asked.as_deref(), &option.before, &option.after, option.met)
}

#[test]
fn nodelay_is_set_at_both_ends_and_cork_only_at_the_client() {
    let on = (Some("on"), "on", "on", true);
    let off = (None, "off", "off", true);
    for (remedy, nodelay, cork) in [
        (Remedy::Nodelay, on, off),
        (Remedy::CorkForgotten, off, on),
        (Remedy::Cork, off, off),
        (Remedy::OneWrite, off, off),
    ] {
        // A forgotten cork costs 200 ms per exchange.
        let order = RoundOrder { extent: Extent::Count(2), ..order("tcp", "2x2", remedy) };
        let measured = run(&order).expect("it runs");
        assert_eq!(option(measured.client(), OptionName::Nodelay), nodelay, "{remedy}");
        assert_eq!(option(measured.client(), OptionName::Cork), cork, "{remedy}");
        let server = measured.server().expect("it has a server");
        assert_eq!(option(server, OptionName::Nodelay), nodelay, "{remedy}");
        assert_eq!(option(server, OptionName::Cork), off, "{remedy}");
    }
}

#[test]
fn quickack_causes_more_pure_acks() {
    let with = counts(&order("tcp", "2x2", Remedy::Quickack));
    let without = counts(&order("tcp", "2x2", Remedy::OneWrite));
    assert!(with.pure_acks > without.pure_acks, "{with:?} {without:?}");
    assert_eq!(with.system_calls, 3 * COUNT, "the server makes the calls for quick ACKs: {with:?}");
}

#[test]
fn a_round_fails_with_the_feature_that_its_transport_lacks() {
    for (transport, remedy, part) in [
        ("memory", Remedy::Default, "memory is not a byte stream"),
        ("udp", Remedy::OneWrite, "udp is not a byte stream"),
        ("pipe", Remedy::More, "cannot send message 0: "),
        ("pipe", Remedy::Cork, "cannot send message 0: "),
        ("pipe", Remedy::Nodelay, "has no option nodelay"),
        ("unix-stream", Remedy::Quickack, "cannot ask for a quick acknowledgment"),
    ] {
        // This is how long a server without a client waits.
        let order = RoundOrder { timeout_ns: 300_000_000, ..order(transport, "2x2", remedy) };
        let failure = run(&order).expect_err("it cannot run");
        assert!(failure.cause.contains(part), "{transport} {remedy}: {failure:?}");
        assert!(!failure.hint.is_empty(), "{failure:?}");
    }
}

#[test]
fn options_of_the_case_and_of_the_remedy_are_both_set() {
    let order = order("tcp", "2x2", Remedy::Nodelay);
    let options = Options::parse("nodelay=on,sndbuf=65536").expect("options");
    let case = order.case.clone().with(|changed| changed.primary_mut().options = options);
    let measured = run(&RoundOrder { case, ..order }).expect("it runs");
    let server = measured.server().expect("it has a server");
    assert_eq!(option(server, OptionName::Nodelay).0, Some("on"), "the case requests nodelay at both ends");
    assert_eq!(option(measured.client(), OptionName::Sndbuf).0, Some("65536"));
}
