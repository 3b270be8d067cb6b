//! Reads capture files: pcap and pcapng, of any byte order and resolution.

use std::collections::HashMap;
use std::io::Read;

use hairpin_model::observed::ObservedPackets;
use hairpin_model::{Failure, FailureKind};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use super::connections::{CapturedFrame, Connections};
use super::headers::LinkLayer;

/// Blocks must fit into the reader's buffer. The longest packet of the kernel has 64 KiB and more with `gso_max_size`.
const BUFFER_BYTES: usize = 4 << 20;
const MAX_INTERFACES: usize = 4096;

/// An interface of a file: its link type, and how its times are counted.
#[derive(Clone, Copy)]
struct FileInterface {
    link_type: i32,
    units_per_s: u64,
    offset_s: i64,
}

/// What reading needs to know of the blocks so far.
#[derive(Default)]
struct Reading {
    connections: Connections,
    interfaces: Vec<FileInterface>,
    /// Number of frames of each unsupported link type.
    unsupported: HashMap<i32, u64>,
    pcap: Option<FileInterface>,
    is_big_endian: bool,
}

/// Reads a capture. A file that ends within a block, or has a damaged one, is read up to there.
pub fn read<'r>(source: impl Read + Send + 'r) -> Result<ObservedPackets, Failure> {
    let mut reader = create_reader(BUFFER_BYTES, source).map_err(|error| not_a_capture(&error))?;
    let mut reading = Reading::default();
    let ended_early = read_blocks(reader.as_mut(), &mut reading);
    let frames_not_read: u64 = reading.unsupported.values().sum();
    if let Some((number, _)) = reading.unsupported.iter().max_by_key(|(_, frames)| **frames)
        && reading.connections.began_realtime_ns().is_none()
    {
        return Err(Failure::new(
            FailureKind::Unsupported,
            format!("cannot read the frames of link type {number}"),
            "Ethernet, Linux cooked, raw IP and loopback captures can be read",
        ));
    }
    let ended_early = ended_early.or_else(|| {
        (frames_not_read > 0).then(|| format!("{frames_not_read} frames have a link type that cannot be read"))
    });
    Ok(reading.connections.finish(ended_early))
}

fn not_a_capture(error: &PcapError<&[u8]>) -> Failure {
    let (what, hint) = match error {
        PcapError::Eof => ("the file is empty", "was the capture ended with Ctrl-C, so that it was written?"),
        PcapError::ReadError => ("the file cannot be read", "is it a regular file?"),
        _ => ("it is no pcap or pcapng file", "tcpdump -w FILE, dumpcap and Wireshark write such files"),
    };
    Failure::new(FailureKind::Unsupported, what, hint)
}

/// Reads all blocks. Returns why reading ended early.
fn read_blocks(reader: &mut dyn PcapReaderIterator, reading: &mut Reading) -> Option<String> {
    const CUT: &str = "the file ends within a block";
    // Each block makes progress, and so does each refill until the file ends.
    loop {
        let is_incomplete = match reader.next() {
            Ok((length, block)) => {
                let refused = reading.block(&block);
                reader.consume(length);
                if refused.is_some() {
                    return refused;
                }
                false
            }
            Err(PcapError::Eof) => return None,
            Err(PcapError::Incomplete(_)) => true,
            Err(PcapError::UnexpectedEof) => return Some(CUT.to_owned()),
            Err(PcapError::BufferTooSmall) => return Some("a block is longer than 4 MiB".to_owned()),
            Err(_) => return Some("a block of the file is damaged".to_owned()),
        };
        if is_incomplete && reader.reader_exhausted() {
            return Some(CUT.to_owned());
        }
        if is_incomplete && reader.refill().is_err() {
            return Some("the file cannot be read further".to_owned());
        }
    }
}

/// The resolution of an interface's times: a power of 10, or with the highest bit of 2 (`if_tsresol` of pcapng).
fn units_per_s(resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let units = if resolution & 0x80 == 0 { 10_u64.checked_pow(exponent) } else { 2_u64.checked_pow(exponent) };
    units.unwrap_or(u64::MAX)
}

impl Reading {
    /// Reads a block. Returns why the rest cannot be read.
    fn block(&mut self, block: &PcapBlockOwned<'_>) -> Option<String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units_per_s = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                self.pcap = Some(FileInterface { link_type: header.network.0, units_per_s, offset_s: 0 });
                self.interfaces = vec![self.pcap?];
            }
            PcapBlockOwned::Legacy(frame) => {
                let units = u64::from(frame.ts_sec) * self.pcap?.units_per_s + u64::from(frame.ts_usec);
                self.frame(0, units, frame.data, frame.origlen);
            }
            PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                self.interfaces.clear();
                self.is_big_endian = section.big_endian();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(about)) => {
                if self.interfaces.len() >= MAX_INTERFACES {
                    return Some(format!("the file has more than {MAX_INTERFACES} interfaces"));
                }
                let units_per_s = units_per_s(about.if_tsresol);
                let (link_type, offset_s) = (about.linktype.0, about.ts_offset());
                self.interfaces.push(FileInterface { link_type, units_per_s, offset_s });
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(frame)) => {
                let units = u64::from(frame.ts_high) << 32 | u64::from(frame.ts_low);
                let captured = frame.data.get(..frame.caplen as usize).unwrap_or(frame.data);
                self.frame(frame.if_id, units, captured, frame.origlen);
            }
            PcapBlockOwned::NG(Block::InterfaceStatistics(counts)) => {
                /// `isb_ifdrop`.
                const DROPPED: u16 = 5;
                let dropped = counts.options.iter().find(|option| option.code.0 == DROPPED);
                let octets = dropped.and_then(|option| option.value.get(..8)?.try_into().ok());
                let number = if self.is_big_endian { u64::from_be_bytes } else { u64::from_le_bytes };
                self.connections.add_lost(octets.map_or(0, number));
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => self.connections.add_unreadable(),
            PcapBlockOwned::NG(_) => {}
        }
        None
    }

    fn frame(&mut self, interface: u32, units: u64, bytes: &[u8], length_bytes: u32) {
        let Some(found) = self.interfaces.get(interface as usize) else { return self.connections.add_unreadable() };
        let Some(layer) = LinkLayer::of_number(found.link_type) else {
            *self.unsupported.entry(found.link_type).or_default() += 1;
            return;
        };
        let ns = u128::from(units) * 1_000_000_000 / u128::from(found.units_per_s);
        let shifted_ns = i128::try_from(ns).unwrap_or(i128::MAX) + i128::from(found.offset_s) * 1_000_000_000;
        let realtime_ns = u64::try_from(shifted_ns.max(0)).unwrap_or(u64::MAX);
        self.connections.add(CapturedFrame { realtime_ns, interface, layer, bytes, length_bytes, is_outgoing: None });
    }
}
