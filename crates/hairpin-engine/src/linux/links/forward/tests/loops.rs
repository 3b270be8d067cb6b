//! How the relay loop handles packets: times, batches, refusals, memory, the log.

use hairpin_link::Direction::{self, Down, Up};
use hairpin_link::link::Link;
use hairpin_link::packet::Packet;
use hairpin_link::simulate::{Arrival, simulate};

use super::packets::{udp, udp_in_parts};
use super::{Carried, Coming, Fixture, carried, carrier, coming};
use crate::links::LogTo;
use crate::links::forward::log::Log;
use crate::links::forward::packet_store::MAX_BYTES;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// IP packets of `bytes` bytes, one every `gap_ns`, each containing its number.
fn stream(direction: Direction, count: u64, gap_ns: u64, bytes: usize) -> Vec<Coming> {
    let one = |number: u64| {
        let mut payload = vec![0; bytes - 28];
        payload[..8].copy_from_slice(&number.to_le_bytes());
        coming(number * gap_ns, direction, udp(&payload))
    };
    (0..count).map(one).collect()
}

/// Carries all frames. Returns the result and the log, which must be complete, without its header.
fn logged(line: &str, interfaces: &mut Fixture) -> (Carried, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut relay = carrier(line, MAX_BYTES, None, Some(Log::new(&LogTo::File(path.clone()), &[]).unwrap()));
    relay.carry(interfaces).unwrap();
    let left = relay.finish();
    assert_eq!(left.record.log_problem, None);
    let text = std::fs::read_to_string(&path).unwrap();
    (left, text.split_once('\n').unwrap().1.to_owned())
}

#[test]
fn a_packet_leaves_at_the_other_side_exactly_when_it_is_due() {
    let packets = [stream(Up, 3, 10 * MS, 100), stream(Down, 2, MS, 60)].concat();
    let (gone, left) = carried("up.delay=5ms down.delay=20ms", None, Fixture::new(packets.clone(), SECOND));
    let times: Vec<_> = gone.iter().map(|gone| (gone.at_ns / MS, gone.direction)).collect();
    assert_eq!(times, [(5, Up), (15, Up), (20, Down), (21, Down), (25, Up)]);
    assert!(gone.iter().all(|gone| gone.at_ns % MS == 0));
    assert_eq!(gone[0].bytes, packets[0].bytes);
    let late = left.record.lateness_ns.unwrap();
    assert_eq!((late.p50, late.p99, late.max), (1, 1, 1), "the histogram's minimum");
    assert_eq!((left.record.packets.entered, left.record.packets.out), (5, 5));
    assert_eq!(left.record.packets.unexplained(), 0);
}

#[test]
fn the_time_between_the_timestamp_and_the_ring_counts_as_lateness() {
    let stamped_at = |stamped_ns: u64, there_ns: u64| Coming {
        stamped_before_ns: there_ns - stamped_ns,
        ..coming(there_ns, Up, udp(&[1; 72]))
    };
    // The first packet leaves at 5 ms. For the link, the second packet, timestamped at 2 ms, therefore arrives at 5
    // ms, 3 ms late. The third packet entered late too, but the link's time had not passed its timestamp.
    let packets = vec![stamped_at(0, 0), stamped_at(2 * MS, 6 * MS), stamped_at(11 * MS, 13 * MS)];
    let mut interfaces = Fixture::new(packets, SECOND);
    let (left, log) = logged("delay=5ms", &mut interfaces);
    let times: Vec<_> = interfaces.gone.iter().map(|gone| gone.at_ns / MS).collect();
    assert_eq!(times, [5, 10, 16]);
    let expected = [
        "up 0 0 100 0 5000000 5000000 left",
        "up 1 0 100 2000000 10000000 10000000 left",
        "up 2 0 100 11000000 16000000 16000000 left",
    ];
    assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    let late = left.record.lateness_ns.unwrap();
    // The histogram has a resolution of three digits.
    assert_eq!((late.p50, late.max / (MS / 100)), (1, 300));
}

#[test]
fn the_log_equals_that_of_the_simulation() {
    let line = "mtu=600B outage=30ms-40ms rate=10mbit queue=20packets loss=3% corrupt=5% duplicate=5% delay=8ms±3ms \
                order=free reorder=4%/2ms";
    let streams = [stream(Up, 400, 290_000, 500), stream(Down, 200, 500_000, 601), stream(Down, 90, 3_100_001, 300)];
    let mut packets = streams.concat();
    packets.sort_by_key(|one| one.at_ns);
    let mut interfaces = Fixture::new(packets.clone(), 2 * SECOND);
    let (left, log) = logged(line, &mut interfaces);

    let mut numbers = [0; 2];
    let arrivals: Vec<Arrival> = packets
        .iter()
        .map(|one| {
            let number = numbers[one.direction as usize];
            numbers[one.direction as usize] += 1;
            let size_bytes = u32::try_from(one.bytes.len() - 14).unwrap();
            let packet = Packet { number, size_bytes, carries_data: true };
            Arrival { at_ns: one.at_ns, direction: one.direction, packet }
        })
        .collect();
    let mut link = Link::new(&line.parse().unwrap(), 7, &[]).unwrap();
    let mut expected: Vec<String> = simulate(&mut link, &arrivals).iter().map(ToString::to_string).collect();
    let mut written: Vec<&str> = log.lines().collect();
    // Drops are reported at the loop's next check, so lines of the two directions may be out of order.
    expected.sort();
    written.sort();
    assert_eq!(written, expected);
    assert_eq!(left.record.packets, link.record(None).packets);
    assert_eq!(u64::try_from(interfaces.gone.len()).unwrap(), left.record.packets.out);
}

#[test]
fn packets_inside_at_the_end_have_a_line_too() {
    // Sending a packet takes 1 ms. At 2.5 ms the first and its copy have left, the second and its copy are in flight,
    // the third is being sent, three wait, and the queue had no room for the others.
    let packets = [stream(Up, 8, 0, 1_500), stream(Down, 2, 2_000_001, 100)].concat();
    let line = "up.rate=12mbit up.queue=5packets up.duplicate=100% up.delay=1ms down.rate=12mbit down.queue=5packets";
    let (left, text) = logged(line, &mut Fixture::new(packets, 5 * MS / 2));
    let (inside, others): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.ends_with(" inside"));
    let expected = [
        "up 1 0 1500 0 3000000 - inside",
        "up 1 1 1500 0 3000000 - inside",
        "up 2 0 1500 0 - - inside",
        "up 3 0 1500 0 - - inside",
        "up 4 0 1500 0 - - inside",
        "up 5 0 1500 0 - - inside",
    ];
    assert_eq!(inside, expected);
    assert!(text.ends_with(&(expected.join("\n") + "\n")));
    let counts = &left.record.packets;
    assert_eq!((counts.entered, counts.duplicated, counts.inside), (10, 2, 6));
    assert_eq!(inside.len() + others.len(), 12, "{text}");

    // These are far more lines than may wait for the disk while the relay is running.
    let count = 270_000;
    let (left, text) = logged("delay=1min", &mut Fixture::new(stream(Up, count, 1, 60), SECOND));
    assert_eq!(left.record.packets.inside, count);
    assert!(text.lines().zip(0..).all(|(line, number)| line.starts_with(&format!("up {number} 0 60 "))));
    assert_eq!(text.lines().count(), usize::try_from(count).unwrap());
}

#[test]
fn a_damaged_packet_and_its_copy_have_the_same_bit_flipped() {
    let packets = stream(Up, 50, MS, 200);
    let line = "up.corrupt=100% up.duplicate=100% delay=3ms";
    let (gone, left) = carried(line, None, Fixture::new(packets.clone(), SECOND));
    assert_eq!((left.record.packets.corrupted, left.record.packets.out), (50, 100));
    for (sent, gone) in packets.iter().zip(gone.chunks(2)) {
        let flipped: u32 = sent.bytes.iter().zip(&gone[0].bytes).map(|(sent, gone)| (sent ^ gone).count_ones()).sum();
        assert_eq!(flipped, 1);
        assert_eq!(sent.bytes[..14], gone[0].bytes[..14], "the link header is not part of the packet");
        assert_eq!(gone[0], gone[1]);
    }
}

#[test]
fn refused_packets_are_dropped_by_the_relay_and_the_ledger_closes() {
    let packets = [stream(Up, 300, 10, 100), stream(Down, 5, MS, 100)].concat();
    let interfaces = Fixture::new(packets, SECOND).refusing(|send| send % 10 == 3);
    let (gone, left) = carried("up.duplicate=50% up.loss=10% delay=2ms", None, interfaces);
    let (up, down) = (&left.record.up, &left.record.down);
    let refused = up.packets.dropped["release"] + down.packets.dropped.get("release").copied().unwrap_or(0);
    assert!(refused > 30);
    for counts in [&left.record.packets, &up.packets, &down.packets] {
        assert_eq!(counts.unexplained(), 0);
    }
    assert_eq!(u64::try_from(gone.len()).unwrap(), left.record.packets.out);
    let last = up.stages.last().unwrap();
    assert_eq!((last.stage.as_str(), last.packets.unexplained(), last.packets.out), ("release", 0, up.packets.out));
    assert_eq!(last.packets.dropped["refused"], up.packets.dropped["release"]);
    assert_eq!(left.record.packets.dropped["release"], refused);

    let (gone, left) = carried("delay=2ms", None, Fixture::new(stream(Up, 200, 10, 100), SECOND).refusing(|_| true));
    assert_eq!((gone.len(), left.record.packets.out, left.record.packets.dropped["release"]), (0, 0, 200));
    assert_eq!(left.record.lateness_ns, None, "unsent packets have no lateness");
}

#[test]
fn the_memory_of_a_queue_that_stays_full_does_not_grow() {
    let taken_after = |seconds: u64| {
        let packets = stream(Up, seconds * 2_000, MS / 2, 1_500);
        let mut relay = carrier("rate=1mbit queue=64KiB delay=50ms", MAX_BYTES, None, None);
        let mut interfaces = Fixture::new(packets, seconds * SECOND + SECOND);
        relay.carry(&mut interfaces).unwrap();
        let (taken, inside) = (relay.kept.taken_bytes(), relay.kept.packets().count());
        let left = relay.finish();
        assert_eq!(left.record.packets.unexplained(), 0);
        assert_eq!(left.record.packets.inside, 0);
        assert_eq!(inside, 0);
        (taken, left.record.packets.dropped["queue"])
    };
    let ((second, _), (minute, dropped)) = (taken_after(2), taken_after(60));
    assert_eq!(second, minute);
    assert!(dropped > 100_000);
}

#[test]
fn packets_beyond_the_memory_limit_do_not_enter_and_are_counted() {
    let mut relay = carrier("delay=1min", 100 * (256 + 2048), None, None);
    let mut interfaces = Fixture::new(stream(Up, 150, MS, 1_500), 61 * SECOND);
    relay.carry(&mut interfaces).unwrap();
    let left = relay.finish();
    assert_eq!((left.overrun, left.record.packets.entered, left.record.packets.out), (50, 100, 100));
}

#[test]
fn other_frames_bypass_the_link_or_are_not_carried() {
    let with_type = |kind: u16| [vec![0; 12], kind.to_be_bytes().to_vec(), vec![1; 46]].concat();
    let mut tagged = coming(2 * MS, Up, udp(&[1; 10]));
    tagged.had_tag = true;
    let packets = vec![
        coming(MS, Up, with_type(0x0806)),
        coming(MS, Down, with_type(0x0806)),
        coming(MS, Up, with_type(0x88cc)),
        tagged,
        coming(3 * MS, Up, vec![0; 5]),
    ];
    let (gone, left) = carried("loss=100%", None, Fixture::new(packets, SECOND));
    assert_eq!(gone.iter().map(|gone| (gone.at_ns, gone.direction)).collect::<Vec<_>>(), [(MS, Up), (MS, Down)]);
    assert_eq!((left.record.packets.entered, gone[0].bytes.len()), (0, 60));
    assert_eq!(left.not_carried, 3);
}

#[test]
fn arrivals_before_the_end_are_in_the_ledger() {
    let packets = [
        stream(Up, 500, 0, 100),
        udp_in_parts(1, &[1; 3_000], 1_480).into_iter().map(|part| coming(0, Down, part)).collect(),
    ]
    .concat();
    let (gone, left) = carried("up.delay=1ms down.delay=1s", None, Fixture::new(packets, 0));
    assert_eq!((gone.len(), left.record.packets.entered, left.record.packets.inside), (0, 503, 503));
    assert_eq!(left.record.packets.unexplained(), 0);

    // A full ring of minimum-size frames, filled while the relay waited.
    let packets = stream(Up, 32_768, 0, 60).into_iter().map(|one| Coming { at_ns: MS, ..one }).collect();
    let (_, left) = carried("delay=1s", None, Fixture::new(packets, MS));
    assert_eq!((left.record.packets.entered, left.record.packets.inside), (32_768, 32_768));
}
