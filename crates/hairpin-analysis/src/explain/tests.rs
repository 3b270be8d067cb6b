//! Tests with artificial packets: exchanges, times at both ends, and causes.

use hairpin_model::explanation::evidence;
use hairpin_model::observed::{Observed, ObservedConnection, ObservedPackets};
use hairpin_model::trace::End;
use hairpin_model::{
    Capture, Cause, ExchangeState, Explanation, FactValue, Packet, RoundTrace, SocketSample, Tier, VantagePoint,
};
use proptest::prelude::*;

use super::connection::Connection;
use super::explain;

const MS: u64 = 1_000_000;
const MSS: u64 = 1_448;

/// A connection whose packets are seen at one place.
#[derive(Clone)]
struct Scene {
    packets: Vec<Packet>,
    /// Bytes that each end has sent.
    ends: [u64; 2],
    /// Time from each end to the place of the capture.
    away_ns: [u64; 2],
    port: u16,
}

impl Scene {
    /// A connection that opens at 0, with this time to each end.
    fn new(client_ns: u64, server_ns: u64) -> Self {
        let mut scene = Self { packets: Vec::new(), ends: [0, 0], away_ns: [client_ns, server_ns], port: 5 };
        let one_way_ns = client_ns + server_ns;
        let syn = |from, at_ns, ack_byte| Packet {
            at_ns,
            from,
            syn: true,
            ack_byte,
            length_bytes: 74,
            ..Packet::default()
        };
        scene.packets.push(syn(End::Client, client_ns, None));
        scene.packets.push(syn(End::Server, one_way_ns + server_ns, Some(0)));
        scene.ack(End::Client, 2 * one_way_ns, 0);
        scene
    }

    fn seen(&self, from: End, left_ns: u64) -> u64 {
        left_ns + self.away_ns[usize::from(from == End::Server)]
    }

    /// An end sends bytes, which leave at this time.
    fn send(&mut self, from: End, left_ns: u64, bytes: u64) -> &mut Self {
        let (own, other) = (usize::from(from == End::Server), usize::from(from == End::Client));
        let (first_byte, end_byte) = (self.ends[own], self.ends[own] + bytes);
        self.ends[own] = end_byte;
        self.packets.push(Packet {
            at_ns: self.seen(from, left_ns),
            from,
            first_byte,
            end_byte,
            ack_byte: Some(self.ends[other]),
            window_bytes: Some(65_536),
            length_bytes: bytes + 66,
            ..Packet::default()
        });
        self
    }

    fn ack(&mut self, from: End, left_ns: u64, ack_byte: u64) -> &mut Self {
        let own = self.ends[usize::from(from == End::Server)];
        self.packets.push(Packet {
            at_ns: self.seen(from, left_ns),
            from,
            first_byte: own,
            end_byte: own,
            ack_byte: Some(ack_byte),
            window_bytes: Some(65_536),
            length_bytes: 66,
            ..Packet::default()
        });
        self
    }

    fn observed(mut self) -> ObservedConnection {
        self.packets.sort_by_key(|packet| packet.at_ns);
        let capture = Capture::Saved { file: String::new(), packets: self.packets.len() as u64, dropped: 0 };
        ObservedConnection {
            client: format!("10.0.0.1:{}", self.port).parse().unwrap(),
            server: "10.0.0.2:80".parse().unwrap(),
            programs: [None, None],
            trace: RoundTrace { packets: self.packets, capture, ..RoundTrace::default() },
            has_handshake: true,
            mss_bytes: Some(MSS),
            link_header_bytes: 14,
            blocked_sends: Default::default(),
            path_mtu_bytes: None,
        }
    }
}

fn of_all(scenes: Vec<Scene>) -> Explanation {
    let connections = scenes.into_iter().map(Scene::observed).collect();
    let packets = ObservedPackets { connections, ..ObservedPackets::default() };
    explain(Observed { packets, programs: None }, Tier::File, "test".to_owned())
}

fn codes(explanation: &Explanation) -> Vec<Cause> {
    explanation.causes.iter().map(|cause| cause.code).collect()
}

fn number(explanation: &Explanation, name: &str) -> f64 {
    let fact = explanation.causes[0].evidence.iter().find(|fact| fact.name == name);
    match fact.map(|fact| &fact.value) {
        Some(FactValue::Number(number)) => *number,
        other => panic!("{name}: {other:?}"),
    }
}

/// Ten requests whose answers are written in two segments, of which the second waits for an acknowledgment that the client
/// delays by 40 ms.
fn split_answers(client_ns: u64, server_ns: u64) -> Scene {
    let mut scene = Scene::new(client_ns, server_ns);
    let one_way_ns = client_ns + server_ns;
    for number in 0..10 {
        let began_ns = 10 * MS + number * 100 * MS;
        let answer_ns = began_ns + one_way_ns;
        scene.send(End::Client, began_ns, 10).send(End::Server, answer_ns, 20);
        let acked_ns = answer_ns + one_way_ns + 40 * MS;
        let first = scene.ends[1];
        scene.ack(End::Client, acked_ns, first).send(End::Server, acked_ns + one_way_ns, 1_000);
        let all = scene.ends[1];
        scene.ack(End::Client, acked_ns + 2 * one_way_ns + 40 * MS, all);
    }
    scene
}

#[test]
fn an_answer_in_two_segments_is_named_from_wherever_its_packets_are_seen() {
    for (client_ns, server_ns, point) in [
        (10_000, 10_000, VantagePoint::Both),
        (10_000, 2 * MS, VantagePoint::Client),
        (2 * MS, 10_000, VantagePoint::Server),
        (MS, MS, VantagePoint::Between),
    ] {
        let explanation = of_all(vec![split_answers(client_ns, server_ns)]);
        assert_eq!(explanation.packets.seen_at, Some(point));
        assert_eq!(codes(&explanation)[0], Cause::NagleMeetsDelayedAck, "{point}");
        let connection = &explanation.connections[0];
        assert_eq!(connection.exchanges, 10);
        let round_trip_ns = 2 * (client_ns + server_ns);
        assert_eq!(connection.min_round_trip_ns, Some(round_trip_ns));
        assert_eq!(connection.p50_ns, Some(2 * round_trip_ns + 40 * MS), "{point}");
        assert_eq!(connection.states[0].state, ExchangeState::DelayedAck);
        assert_eq!(
            (number(&explanation, evidence::HELD_BYTES), number(&explanation, evidence::HELD_SEGMENT)),
            (1_000.0, 2.0)
        );
        assert_eq!(number(&explanation, evidence::AFFECTED), 10.0);
        assert!(connection.worst.is_some());
    }
}

#[test]
fn a_server_that_works_is_named_and_no_rule_of_tcp() {
    let mut scene = Scene::new(10_000, MS);
    for number in 0..10 {
        let began_ns = 10 * MS + number * 60 * MS;
        scene.send(End::Client, began_ns, 10).send(End::Server, began_ns + 41 * MS + 10_000, 1_000);
    }
    let explanation = of_all(vec![scene]);
    assert_eq!(codes(&explanation), [Cause::ServerWork]);
    // The path takes 2 x 1.01 ms, and the work 40 ms.
    assert_eq!(number(&explanation, evidence::WAIT_NS), 40e6);
}

#[test]
fn requests_in_turn_on_a_long_path_are_named() {
    let mut scene = Scene::new(0, 10 * MS);
    let mut began_ns = 20 * MS;
    for _ in 0..20 {
        scene.send(End::Client, began_ns, 10).send(End::Server, began_ns + 10 * MS, 100);
        began_ns += 20 * MS + 50_000;
    }
    let explanation = of_all(vec![scene]);
    assert_eq!(codes(&explanation), [Cause::OneRequestPerRoundTrip]);
    assert_eq!(number(&explanation, evidence::ROUND_TRIP_NS), 20e6);
    // The first one follows nothing.
    assert_eq!(number(&explanation, evidence::AFFECTED), 19.0);
}

#[test]
fn bursts_of_equal_size_after_short_messages_are_a_window_of_the_protocol() {
    let mut scene = Scene::new(0, 10 * MS);
    let mut began_ns = 20 * MS;
    for _ in 0..10 {
        scene.send(End::Client, began_ns, 8);
        for segment in 0..8 {
            scene.send(End::Server, began_ns + 10 * MS + segment * 1_000, MSS);
        }
        let all = scene.ends[1];
        scene.ack(End::Client, began_ns + 20 * MS + 10_000, all);
        began_ns += 20 * MS + 50_000;
    }
    let explanation = of_all(vec![scene]);
    assert_eq!(codes(&explanation), [Cause::ApplicationWindow]);
    assert_eq!(number(&explanation, evidence::WINDOW_BYTES), (8 * MSS) as f64);
}

#[test]
fn a_connection_for_each_request_is_named_and_connections_side_by_side_are_not() {
    let one = |number: u64, apart_ns: u64| {
        let mut scene = Scene::new(0, 5 * MS);
        scene.send(End::Client, 11 * MS, 10).send(End::Server, 16 * MS, 100);
        scene.packets.iter_mut().for_each(|packet| packet.at_ns += number * apart_ns);
        scene.port = u16::try_from(number).unwrap() + 10_000;
        scene
    };
    let all = |apart_ns: u64| of_all((0..10).map(|number| one(number, apart_ns)).collect());
    let in_turn = all(30 * MS);
    assert_eq!(codes(&in_turn), [Cause::ConnectionPerRequest]);
    assert_eq!(number(&in_turn, evidence::OPENING_NS), 10e6);
    assert_eq!(in_turn.connections[0].connections, 10);
    assert!(!codes(&all(1_000)).contains(&Cause::ConnectionPerRequest));
}

#[test]
fn a_lost_first_packet_is_named_and_a_lost_last_one_by_its_timer() {
    let mut late = Scene::new(0, MS);
    late.packets.iter_mut().skip(1).for_each(|packet| packet.at_ns += 1_000 * MS);
    late.packets.insert(1, Packet { at_ns: 1_000 * MS, ..late.packets[0] });
    let explanation = of_all(vec![late]);
    assert_eq!(codes(&explanation)[0], Cause::ConnectDelayed);
    assert_eq!(number(&explanation, evidence::WAIT_NS), 1e9);

    let mut lost = Scene::new(0, MS);
    for number in 0..3 {
        let began_ns = 10 * MS + number * 500 * MS;
        lost.send(End::Client, began_ns, 10);
        let again = Packet { at_ns: began_ns + 210 * MS, ..*lost.packets.last().unwrap() };
        lost.packets.push(again);
        lost.send(End::Server, began_ns + 211 * MS, 100);
    }
    let explanation = of_all(vec![lost]);
    assert_eq!(codes(&explanation)[0], Cause::RetransmissionTimeOut);
    assert_eq!(number(&explanation, evidence::SENT_AGAIN), 3.0);
}

#[test]
fn a_packet_that_the_capture_never_saw_is_found_by_the_gap_that_it_left() {
    // The capture is at the server: the first full segment passes it later than the others.
    let late = |by_ns: u64| {
        let mut scene = Scene::new(5 * MS, 0);
        scene.send(End::Client, 20 * MS, 10);
        for segment in 0..4 {
            scene.send(End::Client, 20 * MS + (segment + 1) * 10_000, MSS);
        }
        let lost = scene.packets.remove(4);
        scene.packets.push(Packet { at_ns: lost.at_ns + by_ns, ..lost });
        scene.ack(End::Server, 20 * MS + 5 * MS + 30_000, 10);
        scene.send(End::Server, 20 * MS + by_ns + 6 * MS, 10);
        Connection::new(scene.observed())
    };
    let lost = |connection: &Connection| connection.packets().iter().filter(|one| one.arrived_ns.is_none()).count();
    let connection = late(12 * MS);
    assert_eq!(lost(&connection), 1);
    assert!(connection.exchanges[0].ns_in(&[ExchangeState::FastRecovery]) > 10 * MS);
    // The round trip to the client takes 10 ms, so it could not know of a gap of 3 ms.
    assert_eq!(lost(&late(3 * MS)), 0);
}

#[test]
fn large_packets_that_never_arrive_are_named() {
    let mut scene = Scene::new(0, MS);
    scene.send(End::Client, 10 * MS, 10);
    scene.send(End::Server, 11 * MS, MSS);
    let large = *scene.packets.last().unwrap();
    let mut at_ns = large.at_ns;
    for round in 0..5 {
        at_ns += (200 * MS) << round;
        scene.packets.push(Packet { at_ns, ..large });
    }
    let explanation = of_all(vec![scene]);
    assert_eq!(codes(&explanation)[0], Cause::PathMtu);
    assert_eq!(number(&explanation, evidence::LOST_PACKET_BYTES), (MSS + 52) as f64);
}

#[test]
fn the_work_of_a_proxy_is_its_wait_for_the_server_behind_it() {
    let mut behind = split_answers(10_000, 10_000);
    let mut proxy = Scene::new(10_000, 10_000);
    for number in 0..10 {
        let began_ns = 9 * MS + number * 100 * MS;
        proxy.send(End::Client, began_ns, 10).send(End::Server, began_ns + 45 * MS, 20);
    }
    (behind.port, proxy.port) = (7, 5);
    let (behind, mut proxy) = (behind.observed(), proxy.observed());
    let explained = |connections: Vec<ObservedConnection>| {
        let packets = ObservedPackets { connections, ..ObservedPackets::default() };
        codes(&explain(Observed { packets, programs: None }, Tier::File, "test".to_owned()))
    };
    (proxy.client, proxy.server) = ("10.0.0.9:5".parse().unwrap(), "10.0.0.1:81".parse().unwrap());
    let causes = explained(vec![proxy.clone(), behind.clone()]);
    assert!(causes[0] == Cause::NagleMeetsDelayedAck && !causes.contains(&Cause::ServerWork), "{causes:?}");
    // Another host's connection explains nothing.
    proxy.server = "10.0.0.8:81".parse().unwrap();
    assert!(explained(vec![proxy, behind]).contains(&Cause::ServerWork));
}

#[test]
fn permission_to_send_during_an_answer_is_no_request() {
    let mut scene = Scene::new(10 * MS, 0);
    scene.send(End::Client, 20 * MS, 100);
    let (mut at_ns, mut updates) = (30 * MS, 0);
    for _ in 0..100 {
        scene.send(End::Server, at_ns, MSS);
        at_ns += MS;
        if scene.ends[1] / 30_000 > updates {
            updates += 1;
            scene.send(End::Client, at_ns, 26);
        }
    }
    let connection = Connection::new(scene.observed());
    assert_eq!((connection.exchanges.len(), updates), (1, 4));
    assert_eq!((connection.exchanges[0].request_bytes(), connection.exchanges[0].reply_bytes()), (100, 100 * MSS));
}

/// Four clients of a server that answers at once, but in one exchange of ten only after 100 ms: all of them, or the first two.
fn slow_at_times(all: bool) -> Explanation {
    let scenes = (0..4_u64).map(|client| {
        let mut scene = Scene::new(10_000, 10_000);
        scene.port = 5 + u16::try_from(client).unwrap();
        for number in 0..100 {
            let began_ns = 10 * MS + number * 200 * MS + client * MS;
            let is_slow = number % 10 == 0 && (all || client < 2);
            let work_ns = if is_slow { 100 * MS - client * MS } else { 20_000 };
            scene.send(End::Client, began_ns, 10).send(End::Server, began_ns + 20_000 + work_ns, 20);
        }
        scene
    });
    of_all(scenes.collect())
}

#[test]
fn a_server_stalls_if_it_answers_nobody_meanwhile() {
    assert_eq!(codes(&slow_at_times(true))[0], Cause::ServerStalled);
    assert!(!codes(&slow_at_times(false)).contains(&Cause::ServerStalled));
}

#[test]
fn a_send_call_that_waits_while_the_others_are_silent_is_named() {
    let fan_out = |slow: bool| {
        let connections = (0..4_u16).map(|client| {
            let mut scene = Scene::new(10_000, 10_000);
            scene.port = 5 + client;
            for number in (0..300).filter(|number| !slow || *number < 100) {
                scene.send(End::Server, 10 * MS + number * 10 * MS, 100);
            }
            let mut observed = scene.observed();
            if slow && client == 3 {
                observed.blocked_sends[1].push(1_010 * MS..3_000 * MS);
            }
            observed
        });
        let packets = ObservedPackets { connections: connections.collect(), ..ObservedPackets::default() };
        explain(Observed { packets, programs: None }, Tier::Packets, "test".to_owned())
    };
    let explanation = fan_out(true);
    assert_eq!(codes(&explanation)[0], Cause::BlockedInSend);
    assert_eq!(number(&explanation, evidence::WAIT_NS), 1_990e6);
    assert!(!codes(&fan_out(false)).contains(&Cause::BlockedInSend));
}

/// A server that writes 1 000 B each 4 ms; `sent_each` of them leave in the same time, seen by samples of each ms.
fn state_each_4_ms(sent_each: u64) -> Explanation {
    let mut scene = Scene::new(0, MS);
    scene.send(End::Client, 10 * MS, 10);
    let (mut samples, mut written, mut sent) = (Vec::new(), 0, 0);
    for number in 0..200 {
        let at_ns = 20 * MS + number * 4 * MS;
        written += 1_000;
        let bytes = sent_each.min(written - sent);
        for ms in 0..4 {
            if ms == 1 {
                scene.send(End::Server, at_ns + MS, bytes);
                sent += bytes;
            }
            let of = SocketSample { at_ns: at_ns + ms * MS, acked_bytes: sent, ..SocketSample::default() };
            samples.push(SocketSample { not_sent_bytes: written - sent, send_window_bytes: 65_536, ..of });
        }
    }
    let mut observed = scene.observed();
    observed.trace.server.samples = samples;
    let packets = ObservedPackets { connections: vec![observed], ..ObservedPackets::default() };
    explain(Observed { packets, programs: None }, Tier::Packets, "test".to_owned())
}

#[test]
fn messages_behind_earlier_ones_in_the_send_buffer_are_named() {
    let explanation = state_each_4_ms(600);
    assert_eq!(codes(&explanation)[0], Cause::OwnSendQueue);
    assert_eq!(number(&explanation, evidence::MESSAGE_BYTES), 1_000.0);
    assert!(number(&explanation, evidence::WAIT_NS) > 100e6);
    assert!(number(&explanation, evidence::QUEUED_BYTES) > 10_000.0);
}

#[test]
fn a_stream_without_a_queue_has_no_cause() {
    assert_eq!(codes(&state_each_4_ms(1_000)), []);
}

#[test]
fn a_full_congestion_window_is_not_taken_for_nagles_algorithm() {
    let scene = split_answers(0, MS);
    let code = |cwnd_segments: u64| {
        let mut observed = scene.clone().observed();
        let sample = |at_ns: u64| SocketSample {
            at_ns,
            cwnd_segments,
            unacked_segments: 1,
            not_sent_bytes: 1_000,
            ..SocketSample::default()
        };
        // Each answer waits for 41 ms and more.
        let waits = (0..10).flat_map(|number| (13..52).map(move |ms| (number * 100 + ms) * MS));
        observed.trace.server.samples = waits.map(sample).collect();
        let packets = ObservedPackets { connections: vec![observed], ..ObservedPackets::default() };
        let explanation = explain(Observed { packets, programs: None }, Tier::Packets, "test".to_owned());
        codes(&explanation)[0]
    };
    assert_eq!((code(1), code(10)), (Cause::DelayedAck, Cause::NagleMeetsDelayedAck));
}

#[test]
fn samples_alone_show_exchanges_and_who_takes_their_time() {
    let mut client = Vec::new();
    let (mut sent, mut received) = (0, 0);
    for number in 0..10 {
        let at_ns = 10 * MS + number * 50 * MS;
        sent += 10;
        client.push(SocketSample { at_ns, acked_bytes: sent, received_bytes: received, ..SocketSample::default() });
        received += 1_000;
        let at_ns = at_ns + 40 * MS;
        client.push(SocketSample { at_ns, acked_bytes: sent, received_bytes: received, ..SocketSample::default() });
    }
    let mut observed = Scene::new(0, 0).observed();
    observed.trace.packets.clear();
    observed.trace.capture = Capture::default();
    observed.trace.client.samples = client;
    let packets = ObservedPackets { connections: vec![observed], ..ObservedPackets::default() };
    let explanation = explain(Observed { packets, programs: None }, Tier::Samples, "test".to_owned());
    assert_eq!((explanation.connections[0].exchanges, explanation.connections[0].p50_ns), (10, Some(40 * MS)));
    assert_eq!(codes(&explanation), [Cause::ServerWork]);
}

#[test]
fn times_that_no_clock_has_do_not_overflow() {
    let scenes = (0..8_u16).map(|number| {
        let mut scene = Scene::new(10_000, MS);
        scene.port = 5 + number;
        for exchange in 0..4 {
            scene.send(End::Client, exchange * (u64::MAX / 8), 10).send(
                End::Server,
                exchange * (u64::MAX / 8) + u64::MAX / 9,
                100,
            );
        }
        scene
    });
    let explanation = of_all(scenes.collect());
    assert_eq!(explanation.connections[0].exchanges, 32);
}

#[test]
fn the_document_has_every_cause() {
    let document = include_str!("../../../../docs/explain.md");
    for cause in Cause::ALL {
        assert!(document.contains(&format!("\n| `{cause}` |")), "docs/explain.md lacks `{cause}`");
    }
    let rules: Vec<Cause> = super::causes::ALL.iter().map(|rule| rule.code).collect();
    let of_programs = [Cause::CpuContention, Cause::CpuQuota, Cause::UdpReceiveOverrun];
    for cause in Cause::ALL {
        assert!(rules.contains(cause) || of_programs.contains(cause), "`{cause}` has no rule");
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    let bytes = (0_u64..5_000, 0_u64..3_000);
    (0_u64..1_000_000_000, any::<(bool, bool, bool, bool)>(), bytes, proptest::option::of(0_u64..6_000), any::<u16>())
        .prop_map(|(at_ns, (is_client, syn, fin, rst), (first_byte, length), ack_byte, window)| Packet {
            at_ns,
            from: if is_client { End::Client } else { End::Server },
            syn: syn && first_byte == 0,
            fin: fin && length % 7 == 0,
            rst: rst && length % 11 == 0,
            first_byte,
            end_byte: first_byte + length,
            ack_byte,
            window_bytes: Some(window.into()),
            length_bytes: length + 66,
            ..Packet::default()
        })
}

proptest! {
    #[test]
    fn the_states_of_any_exchange_sum_to_its_time(mut packets in proptest::collection::vec(packet(), 0..60)) {
        packets.sort_by_key(|packet| packet.at_ns);
        let mut scene = Scene::new(10, 10);
        scene.packets = packets;
        let connection = Connection::new(scene.clone().observed());
        for exchange in &connection.exchanges {
            let sum: u64 = exchange.spans.iter().map(|span| span.until_ns - span.from_ns).sum();
            prop_assert_eq!(sum, exchange.duration_ns());
        }
        let explanation = of_all(vec![scene]);
        for connection in &explanation.connections {
            let shares: f64 = connection.states.iter().map(|time| time.share).sum();
            prop_assert!(connection.states.iter().all(|time| time.ns == 0.0) || (shares - 1.0).abs() < 1e-9);
        }
        for cause in &explanation.causes {
            prop_assert!(cause.share.is_none_or(|share| (0.0..=1.0 + 1e-9).contains(&share)));
        }
    }
}
