//! What opens a connection, and what one lost packet delays, by protocol.

use hairpin_testing::or_skip;
use serde_json::Value;

use crate::support::served::Served;
use crate::support::{Place, can_link, is_built_in, list, number, rounds, text};

#[test]
fn a_connection_opens_in_as_many_round_trips_as_its_protocol_needs() {
    or_skip!(can_link());
    let place = Place::new();
    let quic = is_built_in(&place, "quic").is_ok();
    let transports = "tcp,tls,websocket,http1,http2,websocket-tls,http2-tls";
    let mut transports = if quic { format!("{transports},quic") } else { transports.to_owned() };
    let grpc = is_built_in(&place, "grpc").is_ok();
    if grpc {
        transports.push_str(",grpc-stream");
    }
    let run = place
        .json(format!("set-up --transport {transports} --placement same-cpu --link delay=50ms --count 3 --rounds 1"));
    let mut expected = vec![
        ("tcp", "cold", 2.0),
        ("tls", "cold", 3.0),
        ("tls", "resumed", 3.0),
        // The handshake of WebSocket is an exchange of HTTP.
        ("websocket", "cold", 3.0),
        ("http1", "cold", 2.0),
        ("http2", "cold", 2.0),
        ("websocket-tls", "cold", 4.0),
        ("websocket-tls", "resumed", 4.0),
        ("http2-tls", "cold", 3.0),
        ("http2-tls", "resumed", 3.0),
    ];
    if quic {
        expected.extend([("quic", "cold", 2.0), ("quic", "resumed", 2.0), ("quic", "0-rtt", 1.0)]);
    }
    if grpc {
        expected.push(("grpc-stream", "cold", 2.0));
    }
    let cases = list(&run["cases"]);
    assert_eq!(cases.len(), expected.len());
    for (transport, opening, round_trips) in expected {
        let flow = |case: &&Value| {
            let flow = &case["case"]["flows"][0];
            flow["transport"] == transport && flow["opening"] == opening
        };
        let case = cases.iter().find(flow).unwrap_or_else(|| panic!("{transport} {opening}"));
        let warmth = if opening == "cold" { "cold" } else { "warm" };
        let set_up = &case["flows"][0]["set_up"][warmth];
        assert_eq!(set_up["round_trips"].as_f64(), Some(round_trips), "{transport} {opening}: {case}");
        let least_ns = round_trips * 100e6;
        assert!(set_up["time_ns"]["value"].as_f64() >= Some(least_ns), "no packet is faster than its link: {set_up}");
        assert!(set_up["packets"]["value"].as_f64() > Some(4.0), "{set_up}");
        assert!(set_up["bytes"]["value"].as_f64() > Some(400.0), "{set_up}");
    }
}

#[test]
fn protocols_over_tls_reach_another_host_and_those_over_unix_sockets_this_one() {
    let place = Place::new();
    let _served = Served::new(&place);
    let transports = "http1-tls,http2-tls,websocket-tls,http2-unix";
    let run = place.json(format!("round-trip --transport {transports} --count 50 --rounds 1 --to @ticket"));
    let measured: Vec<&str> =
        list(&run["cases"]).iter().map(|case| text(&case["case"]["flows"][0]["transport"])).collect();
    assert!(["http1-tls", "http2-tls", "websocket-tls"].iter().all(|name| measured.contains(name)), "{measured:?}");
    for (flags, reason) in [
        ("--to @ticket", "it works on one machine only, so it does not reach"),
        ("--link delay=1ms", "it works on one machine only, so it cannot cross a link"),
        ("--option nodelay=on", "it has no option `nodelay`"),
    ] {
        place.hairpin(format!("round-trip --transport http2-unix {flags}")).refused().told(reason);
    }
}

/// The streams of each measured round: messages that waited for others, and other late messages.
fn by_stream(place: &Place, transport: &str) -> Vec<Vec<[u64; 2]>> {
    let of = |round: &Value| round["order"]["case"]["flows"][0]["transport"] == transport;
    let streams = |round: &Value| {
        let streams = list(&round["outcome"]["flows"][0]["received"]["streams"]);
        streams.iter().map(|stream| [number(&stream["blocked"]), number(&stream["late"])]).collect()
    };
    rounds(&place.path("run")).iter().filter(|round| of(round)).map(streams).collect()
}

#[test]
fn one_lost_packet_delays_all_streams_of_an_ordered_channel_and_otherwise_its_own() {
    or_skip!(can_link());
    let place = Place::new();
    let quic = is_built_in(&place, "quic").is_ok();
    let transports = if quic { "tcp-streams,http2,quic,tcp" } else { "tcp-streams,http2,tcp" };
    // 7 messages of each stream are due while the lost packet is sent again.
    let flags = "--rate 300 --count 60 --warmup 300ms --rounds 3 --placement same-cpu --quiet --out run";
    let words = format!("streams --transport {transports} {flags}");
    place.hairpin((words, ["--link", "up.drop-data=200 delay=50ms"])).with_code(0);
    for transport in transports.split(',') {
        let rounds = by_stream(&place, transport);
        assert_eq!(rounds.len(), 3, "{transport}");
        for streams in rounds {
            // A sender that was late on a busy machine may put messages of two streams into the lost packet.
            let (own, others): (Vec<[u64; 2]>, Vec<[u64; 2]>) =
                streams.iter().copied().partition(|[_, late]| *late >= 4);
            assert!([1, 2].contains(&own.len()), "{transport}: streams with data in the lost packet: {streams:?}");
            if ["tcp-streams", "http2"].contains(&transport) {
                assert!(
                    others.iter().all(|[blocked, _]| *blocked >= 4),
                    "{transport}: all streams waited: {streams:?}"
                );
            } else {
                assert!(
                    others.iter().all(|[blocked, late]| blocked + late < 4),
                    "{transport}: others waited: {streams:?}"
                );
            }
        }
    }
}

#[test]
fn a_transport_that_is_not_built_in_names_the_feature() {
    let place = Place::new();
    for name in ["quic", "grpc"] {
        if is_built_in(&place, name).is_ok() {
            continue;
        }
        let ran = place.hairpin(["round-trip", "--transport", name]).with_code(2);
        assert!(ran.stderr.contains(&format!("--features {name}")), "{ran:#?}");
    }
    let listed = place.json("list");
    assert!(list(&listed["transports"]).iter().any(|transport| text(&transport["name"]) == "http2"));
}

#[test]
fn quic_says_how_large_its_packets_are_on_a_link_that_cannot_carry_them() {
    or_skip!(can_link());
    let place = Place::new();
    or_skip!(is_built_in(&place, "quic"));
    place.hairpin(["round-trip", "--transport", "quic", "--link", "mtu=1100B"]).refused().told(
        "it needs packets of 1228 B (1200 B in UDP), and the link carries 1100 B at most (hint: use mtu=1228B or more, or a transport over TCP)",
    );
}
