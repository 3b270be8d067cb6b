//! Compares captures, as read by tshark, with Hairpin's time sequences: the packets, their sizes and times.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hairpin_testing::contract;
use serde_json::Value;

use crate::process;

/// Fields that tshark prints for each packet, in this order.
const FIELDS: &[&str] = &["frame.time_epoch", "tcp.dstport", "tcp.flags", "tcp.len"];
/// Tolerance of times, since tshark and Hairpin may round differently, and Hairpin converts the times to another clock.
const TOLERANCE_NS: i128 = 2_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    at_ns: i128,
    from_far: bool,
    syn: bool,
    payload_bytes: u64,
}

/// Compares the time sequence of every traced case with the case's capture. Returns a line for the summary.
pub(crate) fn compare(tshark: &Path, run_folder: &Path, run: &Value) -> Result<String> {
    let (mut compared, mut packets) = (0, 0);
    let mut faults = Vec::new();
    for case in contract::list(run, "cases") {
        let Some(file) = case.pointer("/trace/capture/file").and_then(Value::as_str) else { continue };
        let label = case["label"].as_str().unwrap_or("a case");
        let read = read(tshark, &run_folder.join(file)).with_context(|| format!("{label}: {file}"))?;
        let drawn = drawn(&case["trace"]["sequence"]);
        packets += read.len();
        compared += 1;
        faults.extend(differences(&read, &drawn).into_iter().map(|what| format!("{label}: {what}")));
    }
    ensure!(compared > 0, "no case has a capture");
    process::fail_with(&faults)?;
    Ok(format!("{compared} captures, {packets} packets, as in the time sequences"))
}

fn read(tshark: &Path, file: &Path) -> Result<Vec<Packet>> {
    let mut command = Command::new(tshark);
    command.arg("-r").arg(file).args(["-T", "fields"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let ran = process::run(&mut command, Duration::from_mins(1))?.succeeded()?;
    parsed(&ran.stdout)
}

/// Parses tshark's lines. The client opens the connection, so the first packet goes to the server's port.
fn parsed(text: &str) -> Result<Vec<Packet>> {
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let far_port = rows.first().and_then(|row| row.get(1)).context("the capture has no packets")?;
    let packet = |row: &Vec<&str>| {
        let [at, port, flags, length] = row.as_slice() else { return None };
        let (seconds, fraction) = at.split_once('.')?;
        let at_ns =
            seconds.parse::<i128>().ok()? * 1_000_000_000 + format!("{fraction:0<9}")[..9].parse::<i128>().ok()?;
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        let payload_bytes = length.parse().ok()?;
        Some(Packet { at_ns, from_far: port != far_port, syn: flags & 2 != 0, payload_bytes })
    };
    rows.iter().map(|row| packet(row).with_context(|| format!("cannot parse tshark's row {row:?}"))).collect()
}

fn drawn(sequence: &Value) -> Vec<Packet> {
    let packet = |event: &Value| {
        let kind = event["kind"].as_str()?;
        if !["syn", "syn-ack", "segment", "pure-ack", "fin", "reset"].contains(&kind) {
            return None;
        }
        let byte = |name: &str| event[name].as_i64().unwrap_or(0);
        let payload = if kind == "segment" { byte("end_byte") - byte("first_byte") } else { 0 };
        Some(Packet {
            at_ns: event["at_ns"].as_i64()?.into(),
            from_far: event["end"] == "server",
            syn: kind.starts_with("syn"),
            payload_bytes: u64::try_from(payload).unwrap_or(0),
        })
    };
    contract::list(sequence, "events").iter().filter_map(packet).collect()
}

/// Returns the differences. The two clocks have different origins, so times are relative to the first packet.
fn differences(read: &[Packet], drawn: &[Packet]) -> Vec<String> {
    let opened = [(true, false), (true, true), (false, false)];
    let handshake = |packets: &[Packet]| packets.iter().take(3).map(|one| (one.syn, one.from_far)).eq(opened);
    let mut faults = Vec::new();
    for (reader, packets) in [("tshark", read), ("the time sequence", drawn)] {
        if !handshake(packets) {
            faults.push(format!("{reader} does not begin with SYN, SYN-ACK, ACK: {:?}", packets.get(..3)));
        }
    }
    let (Some(first_read), Some(first_drawn)) = (read.first(), drawn.first()) else { return faults };
    for packet in drawn {
        let since = packet.at_ns - first_drawn.at_ns;
        let same = |other: &&Packet| {
            let apart = (other.at_ns - first_read.at_ns - since).abs();
            let alike = (other.from_far, other.syn, other.payload_bytes);
            apart <= TOLERANCE_NS && alike == (packet.from_far, packet.syn, packet.payload_bytes)
        };
        if !read.iter().any(|other| same(&other)) {
            faults.push(format!("tshark has no packet like {packet:?}, {since} ns after the first"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const READ: &str = "1.000000100\t7\t0x0002\t0\n1.000000200\t9\t0x0012\t0\n1.000000300\t7\t0x0010\t0\n\
                        1.000001000\t7\t0x0018\t2\n1.041001000\t9\t0x0010\t0\n1.041002000\t7\t0x0018\t198\n";

    fn sequence() -> Value {
        let event = |at_ns: i64, end: &str, kind: &str, end_byte: i64| json!({"at_ns": at_ns, "end": end, "kind": kind, "first_byte": 0, "end_byte": end_byte});
        json!({"events": [
            event(-900, "client", "syn", 0), event(-800, "server", "syn-ack", 0), event(-700, "client", "pure-ack", 0),
            event(-5, "client", "write", 2), event(0, "client", "segment", 2), event(41_000_000, "server", "pure-ack", 2),
            event(41_001_000, "client", "segment", 198),
        ]})
    }

    #[test]
    fn the_same_packets_agree() {
        let (read, drawn) = (parsed(READ).unwrap(), drawn(&sequence()));
        assert_eq!((read.len(), drawn.len()), (6, 6), "system calls are not packets");
        assert_eq!(differences(&read, &drawn), [""; 0]);
    }

    #[test]
    fn differences_in_size_time_and_handshake_are_reported() {
        let read = parsed(READ).unwrap();
        for (pointer, value, expected) in [
            ("/events/6/end_byte", json!(197), "tshark has no packet like"),
            ("/events/6/at_ns", json!(41_100_000), "tshark has no packet like"),
            ("/events/1/kind", json!("pure-ack"), "the time sequence does not begin"),
        ] {
            let mut changed = sequence();
            *changed.pointer_mut(pointer).unwrap() = value;
            let faults = differences(&read, &drawn(&changed));
            assert!(faults.iter().any(|fault| fault.contains(expected)), "{pointer}: {faults:?}");
        }
        assert!(parsed("").is_err());
    }
}
