//! Captures of real connections: on the loopback, on an interface that disappears, and without the privilege. tshark,
//! which shares no code with Hairpin, reads the files.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use hairpin_engine::capture::{self, Captured, Live};
use hairpin_engine::realtime::{Bracket, RealtimeMap};
use hairpin_loops::clock::{Clock, RealClock};
use hairpin_model::trace::End;
use hairpin_model::{Capture, Packet};
use hairpin_testing::{or_skip, program, works};
use hairpin_transports::HELLO_BYTES;

/// Bytes of the request's writes. The last write exceeds a segment of the loopback.
const WRITES: [usize; 3] = [2, 198, 100_000];
const REQUEST_BYTES: u64 = 100_200;
const REPLY_BYTES: u64 = 4;

/// A finished connection: the client's port, the clock map, and the time of the end.
struct Talk {
    client_port: u16,
    map: RealtimeMap,
    ended_ns: u64,
}

/// Connects, sends a request, receives the answer, and closes both ends.
fn talk(listener: &TcpListener) -> Talk {
    let clock = RealClock::calibrated();
    let before = Bracket::read(&clock);
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        server.read_exact(&mut [0; HELLO_BYTES]).unwrap();
        let mut request = vec![0; usize::try_from(REQUEST_BYTES).unwrap()];
        server.read_exact(&mut request).unwrap();
        server.write_all(&[7; 4]).unwrap();
        // The client closes first.
        assert_eq!(server.read(&mut request).unwrap(), 0);
    });
    client.set_nodelay(true).unwrap();
    // The placeholder of the hello is not a message.
    client.write_all(&[4; HELLO_BYTES]).unwrap();
    for bytes in WRITES {
        client.write_all(&vec![1; bytes]).unwrap();
    }
    client.read_exact(&mut [0; 4]).unwrap();
    let client_port = client.local_addr().unwrap().port();
    drop(client);
    reader.join().unwrap();
    let after = Bracket::read(&clock);
    let map = RealtimeMap::between(before, after, before.engine_before_ns);
    Talk { client_port, map, ended_ns: clock.now_ns() - before.engine_before_ns }
}

/// A listener on a free port of `host`.
fn listener(host: impl Into<IpAddr>) -> (TcpListener, u16) {
    let listener = TcpListener::bind(SocketAddr::new(host.into(), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A capture of the loopback interface; an error if this process may not capture.
fn begin(port: u16) -> Result<Live, String> {
    match capture::begin("lo", port) {
        Err(why) if !why.reason.contains("Operation not permitted") => panic!("{why}"),
        begun => begun.map_err(|why| why.to_string()),
    }
}

/// A capture of one connection to `host`; an error if this process may not capture.
fn captured(host: impl Into<IpAddr>) -> Result<(Captured, Talk, u16), String> {
    let (listener, port) = listener(host);
    let live = begin(port)?;
    let talk = talk(&listener);
    Ok((live.finish().unwrap(), talk, port))
}

/// Checks that the payload of one direction is in order and without gaps. Returns its end. On a busy machine TCP
/// retransmits the last segment (RFC 8985, section 7, tail loss probe).
fn joined(packets: &[Packet], from: End) -> u64 {
    let segments = packets.iter().filter(|packet| packet.from == from && packet.end_byte > packet.first_byte);
    segments.fold(0, |end, segment| {
        let sent_again = segment.end_byte == end;
        assert!(segment.first_byte == end || sent_again, "{segment:?} after {end}");
        segment.end_byte
    })
}

#[test]
fn a_loopback_connection_is_captured_completely_and_each_packet_once() {
    for host in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let (captured, talk, _) = or_skip!(captured(host));
        let packets = captured.packets(talk.client_port, &talk.map);
        let handshake: Vec<_> =
            packets[..3].iter().map(|packet| (packet.from, packet.syn, packet.ack_byte, packet.end_byte)).collect();
        let expected =
            [(End::Client, true, None, 0), (End::Server, true, Some(0), 0), (End::Client, false, Some(0), 0)];
        assert_eq!(handshake, expected);
        assert_eq!((joined(&packets, End::Client), joined(&packets, End::Server)), (REQUEST_BYTES, REPLY_BYTES));
        let acknowledged =
            |from| packets.iter().filter(|packet| packet.from == from).filter_map(|one| one.ack_byte).max();
        assert_eq!(acknowledged(End::Server), Some(REQUEST_BYTES));
        assert_eq!(acknowledged(End::Client), Some(REPLY_BYTES));
        assert!(packets.iter().any(|packet| packet.fin && packet.from == End::Client));
        assert!(packets.is_sorted_by_key(|packet| packet.at_ns));
        let slack_ns = talk.map.error_ns();
        assert!(packets.iter().all(|packet| packet.at_ns <= talk.ended_ns + slack_ns && packet.at_ns > 0));
        let headers = if host.is_ipv4() { 14 + 20 + 20 } else { 14 + 40 + 20 };
        assert!(packets.iter().all(|one| one.length_bytes >= headers + one.end_byte - one.first_byte));
        let count = u64::try_from(packets.len()).unwrap();
        assert_eq!(captured.outcome(None), Capture::Saved { file: String::new(), packets: count, dropped: 0 });
    }
}

#[test]
fn packets_of_other_connections_are_not_captured() {
    let (watched, port) = listener(Ipv4Addr::LOCALHOST);
    let live = or_skip!(begin(port));
    let (other, _) = listener(Ipv4Addr::LOCALHOST);
    talk(&other);
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    udp.send_to(b"of the same port", (Ipv4Addr::LOCALHOST, port)).unwrap();
    drop(watched);
    let captured = live.finish().unwrap();
    assert_eq!(captured.outcome(None), Capture::Saved { file: String::new(), packets: 0, dropped: 0 });
}

#[test]
fn packets_without_room_are_counted_and_the_first_are_kept() {
    let (listener, port) = listener(Ipv4Addr::LOCALHOST);
    let live = or_skip!(begin(port));
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let client_port = client.local_addr().unwrap().port();
    let mut byte = [0];
    // Each turn sends at least two packets, and the ring holds 16 384.
    for _ in 0..9_000 {
        client.write_all(&byte).unwrap();
        server.read_exact(&mut byte).unwrap();
        server.write_all(&byte).unwrap();
        client.read_exact(&mut byte).unwrap();
    }
    let captured = live.finish().unwrap();
    let Capture::Saved { packets, dropped, .. } = captured.outcome(None) else { panic!("the capture was skipped") };
    assert_eq!(packets, 16_384);
    assert!(dropped >= 18_000 + 3 - 16_384, "{dropped}");
    let bracket = Bracket::read(&RealClock::calibrated());
    let packets = captured.packets(client_port, &RealtimeMap::between(bracket, bracket, 0));
    assert!(packets[0].syn && packets.len() == 16_384);
}

/// One line per packet, as read by tshark.
fn tshark(file: &[u8], port: u16, fields: &[&str]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("round.pcapng");
    std::fs::write(&path, file).unwrap();
    let mut command = Command::new("tshark");
    command
        .args(["-n", "-T", "fields", "-E", "separator=,", "-d", &format!("tcp.port=={port},echo"), "-r"])
        .arg(&path);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let text = String::from_utf8(ran.stdout).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn tshark_reads_the_same_packets_at_the_same_times() {
    or_skip!(program("tshark"));
    let (captured, talk, port) = or_skip!(captured(Ipv4Addr::LOCALHOST));
    let fields = ["tcp.srcport", "tcp.flags.syn", "tcp.len", "tcp.seq", "frame.len", "frame.time_epoch"];
    let read = tshark(&captured.pcapng(), port, &fields);
    let packets = captured.packets(talk.client_port, &talk.map);
    assert_eq!(read.len(), packets.len());
    for (read, packet) in read.iter().zip(&packets) {
        let number = |field: usize| read[field].parse::<u64>().unwrap_or_else(|_| panic!("{read:?}"));
        let source = if packet.from == End::Client { talk.client_port } else { port };
        assert_eq!(number(0), u64::from(source), "{read:?} {packet:?}");
        assert_eq!(matches!(read[1].as_str(), "1" | "True"), packet.syn, "{read:?} {packet:?}");
        let hello_bytes = if packet.from == End::Client { HELLO_BYTES as u64 } else { 0 };
        if number(2) > 0 && number(3) <= hello_bytes {
            let sizes = (number(2), packet.end_byte);
            assert_eq!(sizes, (hello_bytes, 0), "the hello does not count as payload: {read:?} {packet:?}");
            continue;
        }
        assert_eq!(number(2), packet.end_byte - packet.first_byte, "{read:?} {packet:?}");
        if packet.end_byte > packet.first_byte {
            let counted = packet.first_byte + hello_bytes + 1;
            assert_eq!(number(3), counted, "tshark counts the SYN and the hello: {read:?} {packet:?}");
        }
        assert_eq!(number(4), packet.length_bytes, "{read:?} {packet:?}");
        let (seconds, nanoseconds) = read[5].split_once('.').unwrap();
        assert_eq!(nanoseconds.len(), 9);
        let realtime_ns = seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanoseconds.parse::<u64>().unwrap();
        assert_eq!(talk.map.engine_ns(realtime_ns), packet.at_ns);
    }
}

#[test]
fn capinfos_reads_the_metadata_of_the_file() {
    or_skip!(program("capinfos"));
    let (captured, _, port) = or_skip!(captured(Ipv4Addr::LOCALHOST));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("round.pcapng");
    std::fs::write(&path, captured.pcapng()).unwrap();
    let ran = Command::new("capinfos").arg(&path).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{text}");
    let Capture::Saved { packets, .. } = captured.outcome(None) else { panic!("the capture was skipped") };
    for expected in [
        "pcapng".to_owned(),
        "Ethernet".to_owned(),
        format!("Number of packets:   {packets}"),
        format!("TCP port {port} on lo, captured by Hairpin"),
        "nanoseconds (9)".to_owned(),
        "Name = lo".to_owned(),
        format!("Capture application: hairpin {}", env!("CARGO_PKG_VERSION")),
        "Number of stat entries = 1".to_owned(),
    ] {
        assert!(text.contains(&expected), "no `{expected}` in {text}");
    }
}

#[test]
fn a_missing_interface_is_named() {
    let Err(why) = capture::begin("hairpin-none0", 4000) else { panic!("the interface exists") };
    let expected = "cannot find the interface for a capture on hairpin-none0: No such device (os error 19)";
    assert_eq!(why.reason, expected);
    assert!(capture::begin("", 4000).is_err() && capture::begin("l\0o", 4000).is_err());
}

/// Runs one of the tests below in a child, in the environment that `prefix` sets up. The test must run and pass.
fn assert_passes_alone(test: &str, prefix: &[&str]) {
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]).arg(std::env::current_exe().unwrap());
    let ran = command.args(["--exact", test, "--ignored", "--nocapture"]).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{ran:#?}");
}

#[test]
fn an_interface_that_disappears_ends_the_capture_by_name() {
    or_skip!(works(&["unshare", "-rn", "ip", "link", "set", "lo", "up"]));
    assert_passes_alone("capture::child_in_a_network_namespace", &["unshare", "-rn"]);
}

#[test]
#[ignore = "child of an_interface_that_disappears_ends_the_capture_by_name, which runs it in a namespace of its own"]
fn child_in_a_network_namespace() {
    let link = |arguments: &[&str]| assert_eq!(works(&[&["ip", "link"], arguments].concat()), Ok(()));
    let Err(down) = capture::begin("lo", 4000) else { panic!("lo is down in a new namespace") };
    let expected = "cannot bind the packet socket for a capture on lo: Network is down (os error 100)";
    assert_eq!(down.reason, expected);

    link(&["set", "lo", "up"]);
    let (listener, port) = listener(Ipv4Addr::LOCALHOST);
    let live = capture::begin("lo", port).unwrap();
    talk(&listener);
    link(&["set", "lo", "down"]);
    link(&["set", "lo", "up"]);
    let why = live.finish().unwrap_err();
    assert_eq!(why.reason, "the capture on lo ended early: Network is down (os error 100)");

    link(&["add", "hairpin0", "type", "veth", "peer", "name", "hairpin1"]);
    link(&["set", "hairpin0", "up"]);
    let live = capture::begin("hairpin0", port).unwrap();
    link(&["del", "hairpin0"]);
    let why = live.finish().unwrap_err();
    assert_eq!(why.reason, "the capture on hairpin0 ended early: Network is down (os error 100)");
    assert_eq!(why.hint, "did the interface go down or disappear? see `ip link`");
}

#[test]
fn without_the_privilege_the_reason_and_the_remedy_are_reported() {
    if capture::begin("lo", 4000).is_err() {
        child_without_privilege();
    } else {
        let dropped = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"];
        or_skip!(works(&[&dropped[..], &["true"]].concat()));
        assert_passes_alone("capture::child_without_privilege", &dropped);
    }
}

#[test]
#[ignore = "child of without_the_privilege_the_reason_and_the_remedy_are_reported, which runs it without the privilege"]
fn child_without_privilege() {
    let Err(why) = capture::begin("lo", 4000) else { panic!("this process may capture") };
    assert_eq!(why.reason, "cannot open a packet socket for a capture on lo: Operation not permitted (os error 1)");
    assert!(why.hint.contains("setcap cap_net_raw+ep"), "{why}");
}
