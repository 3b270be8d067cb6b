//! A decrypted capture shows which packet was lost, and which stream waited for it.

use hairpin_testing::{or_skip, program};
use serde_json::Value;

use super::support::{PROGRAM, Place, Running, can_link, is_built_in, list, text};

/// Captures UDP at the far end of the link, and serves there.
const FAR: &str = "tshark -q -i eth0 -f udp -w far.pcapng 2>far.log & capture=$!\n\
     until grep -q Capturing far.log; do sleep 0.05; done\n\
     trap 'kill $capture; wait $capture' TERM\n\
     \"$0\" serve --bind $HAIRPIN_FAR --limit turn=2h >ticket 2>log & wait";

/// Captures UDP at the near end, and measures.
const NEAR: &str = "set -e\n\
     until [ -s ticket ]; do sleep 0.05; done\n\
     tshark -q -i eth0 -f udp -w near.pcapng 2>near.log & capture=$!\n\
     until grep -q Capturing near.log; do sleep 0.05; done\n\
     SSLKEYLOGFILE=keys QLOGDIR=. \"$0\" streams --transport quic --rate 300 --count 100 --warmup 300ms --rounds 1 \
     --placement pinned --quiet --to @ticket --out run >shown || [ $? = 5 ]\n\
     sleep 0.3; kill $capture; wait $capture || true";

/// A QUIC packet: its number, and the stream and offset of each of its STREAM frames.
type Packet = (u64, Vec<(u64, u64)>);

/// The packets from the client in a capture, with the keys of the connection.
fn packets(place: &Place, capture: &str, port: &str) -> Vec<Packet> {
    let mut command = place.command("tshark");
    let filter = format!("quic.packet_number && udp.dstport=={port}");
    let fields = ["quic.packet_number", "quic.stream.stream_id", "quic.stream.offset"];
    command.args(["-r", capture, "-o", "tls.keylog_file:keys", "-d", &format!("udp.port=={port},quic")]);
    command.args(["-Y", &filter, "-T", "fields"]).args(fields.iter().flat_map(|field| ["-e", field]));
    let ran = Running::start(&mut command).end().with_code(0);
    let parsed = ran.stdout.lines().filter_map(|line| {
        let mut fields =
            line.split('\t').map(|field| field.split(',').filter_map(|one| one.parse().ok()).collect::<Vec<u64>>());
        // The first datagrams have several packets each.
        let [number] = fields.next()?[..] else { return None };
        Some((number, fields.next()?.into_iter().zip(fields.next()?).collect()))
    });
    parsed.collect()
}

#[test]
fn the_stream_that_waits_is_that_of_the_packet_that_was_lost() {
    or_skip!(can_link());
    or_skip!(program("tshark"));
    or_skip!(is_built_in(&Place::new(), "quic"));
    // On a busy machine other programs delay all streams, so that no stream stands out.
    let mut seen = std::iter::repeat_with(observed).take(MAX_TRIES).flatten();
    let mut waits = Vec::new();
    let is_clear = seen.any(|Observed { lost_stream, late, blocked }| {
        let waited = |stream: usize| late[stream] + blocked[stream];
        let is_clear =
            late[lost_stream] >= 3 && (0..late.len()).all(|stream| stream == lost_stream || waited(stream) < 3);
        waits.push((lost_stream, late, blocked));
        is_clear
    });
    assert!(is_clear, "only the stream of the lost packet waits for it: {waits:?}");
}

const MAX_TRIES: usize = 6;

struct Observed {
    /// The stream whose data the lost packet carried.
    lost_stream: usize,
    /// Messages of each stream that were late, and those that waited for another stream.
    late: Vec<u64>,
    blocked: Vec<u64>,
}

/// Measures once. Returns `None` if the lost packet had no data of a stream.
fn observed() -> Option<Observed> {
    let place = Place::new();
    let mut command = place.command(PROGRAM);
    command.args(["link", "run", "--quiet", "--link", "up.drop-data=250 delay=50ms", "--far"]);
    command.args([
        &format!("exec sh -c '{}' {PROGRAM}", FAR.replace('\'', "'\\''")),
        "--",
        "sh",
        "-c",
        NEAR,
        PROGRAM,
    ]);
    let ran = Running::start(command.env("XDG_STATE_HOME", place.path("state"))).end();
    // A busy machine delays the relay, which reports this.
    assert!(ran.code == Some(0) || ran.code == Some(3) && ran.stderr.contains("warning: link-late: "), "{ran:#?}");

    let run = place.json("report run");
    let case = &run["cases"][0];
    let server = list(&case["ends"]).iter().find(|end| end["role"] == "server").expect("it has a server");
    let address = list(&server["facts"]).iter().find(|fact| fact["name"] == "socket.local_address");
    let port =
        text(&address.expect("a fact of every socket")["value"]).rsplit(':').next().expect("a port").to_owned();

    let [near, far] = ["near.pcapng", "far.pcapng"].map(|capture| packets(&place, capture, &port));
    let arrived = |number: u64| far.iter().any(|(other, _)| *other == number);
    let lost: Vec<&Packet> = near.iter().filter(|(number, data)| !data.is_empty() && !arrived(*number)).collect();
    let [(number, data)] = lost[..] else {
        assert!(lost.is_empty(), "at most one packet was lost: {lost:?}");
        return None;
    };
    let [(stream, offset)] = data[..] else { panic!("each message has a packet of its own: {data:?}") };
    let copies = near.iter().filter(|(_, data)| data.contains(&(stream, offset)));
    let copies: Vec<u64> = copies.map(|(number, _)| *number).collect();
    assert!(copies.len() == 2 && copies[0] == *number, "its data were sent again: {copies:?}");

    let logs = std::fs::read_dir(place.path(".")).expect("the place can be read");
    let is_qlog = |name: &str| name.ends_with("-client.sqlog");
    assert!(logs.flatten().any(|file| file.file_name().to_str().is_some_and(is_qlog)), "a qlog was written");

    // The client's bidirectional streams have the numbers 0, 4, 8 and 12 (RFC 9000, section 2.1).
    let lost_stream = usize::try_from(stream / 4).expect("a small number");
    let streams = list(&case["flows"][0]["by_stream"]);
    let count =
        |of: &dyn Fn(&Value) -> Option<u64>| streams.iter().map(|stream| of(stream).expect("a count")).collect();
    Some(Observed {
        lost_stream,
        late: count(&|stream| stream["late"].as_u64()),
        blocked: count(&|stream| stream["blocked_by_others"]["messages"].as_u64()),
    })
}
