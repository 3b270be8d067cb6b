//! Writes a pcapng file with one section and one interface (IETF draft-ietf-opsawg-pcapng), readable by Wireshark and
//! tshark.

use super::frame::{Frame, SNAP_BYTES};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Identifies the byte order of the file's numbers.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Section length that means "not specified".
const NO_LENGTH: u64 = u64::MAX;
const LINKTYPE_ETHERNET: u16 = 1;
/// Timestamp resolution: units of 10^-9 s.
const NANOSECONDS: u8 = 9;

// Block options, with the draft's names.
const COMMENT: u16 = 1;
const SHB_HARDWARE: u16 = 2;
const SHB_OS: u16 = 3;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;

/// The contents of the file other than its packets.
pub(super) struct FileInfo<'a> {
    pub(super) comment: &'a str,
    pub(super) operating_system: &'a str,
    pub(super) interface: &'a str,
    /// Number of packets that passed the filter, including `dropped` packets that are missing from the file.
    pub(super) received: u64,
    pub(super) dropped: u64,
}

pub(super) fn file(about: &FileInfo<'_>, frames: &[Frame]) -> Vec<u8> {
    let mut section = Block::new(SECTION_HEADER);
    section.put(&BYTE_ORDER_MAGIC.to_le_bytes());
    section.put(&1_u16.to_le_bytes());
    section.put(&0_u16.to_le_bytes());
    section.put(&NO_LENGTH.to_le_bytes());
    section.option(COMMENT, about.comment.as_bytes());
    section.option(SHB_HARDWARE, std::env::consts::ARCH.as_bytes());
    section.option(SHB_OS, about.operating_system.as_bytes());
    section.option(SHB_USERAPPL, concat!("hairpin ", env!("CARGO_PKG_VERSION")).as_bytes());

    let mut interface = Block::new(INTERFACE_DESCRIPTION);
    interface.put(&LINKTYPE_ETHERNET.to_le_bytes());
    interface.put(&0_u16.to_le_bytes());
    interface.put(&SNAP_BYTES.to_le_bytes());
    interface.option(IF_NAME, about.interface.as_bytes());
    interface.option(IF_TSRESOL, &[NANOSECONDS]);

    let mut statistics = Block::new(INTERFACE_STATISTICS);
    statistics.put(&0_u32.to_le_bytes());
    statistics.put(&time(frames.last().map_or(0, |frame| frame.realtime_ns)));
    statistics.option(ISB_IFRECV, &about.received.to_le_bytes());
    statistics.option(ISB_IFDROP, &about.dropped.to_le_bytes());

    let mut bytes = section.end_with_options();
    bytes.extend(interface.end_with_options());
    bytes.extend(frames.iter().flat_map(packet));
    bytes.extend(statistics.end_with_options());
    bytes
}

fn packet(frame: &Frame) -> Vec<u8> {
    let mut block = Block::new(ENHANCED_PACKET);
    block.put(&0_u32.to_le_bytes());
    block.put(&time(frame.realtime_ns));
    block.put(&u32::try_from(frame.bytes.len()).expect("a frame of the ring is small").to_le_bytes());
    block.put(&frame.length_bytes.to_le_bytes());
    block.put(&frame.bytes);
    block.end()
}

/// A time as its upper and then its lower 32 bits.
fn time(realtime_ns: u64) -> [u8; 8] {
    realtime_ns.rotate_left(32).to_le_bytes()
}

/// A block: type, length, body, length again.
struct Block(Vec<u8>);

impl Block {
    fn new(kind: u32) -> Self {
        let mut block = Self(Vec::new());
        block.put(&kind.to_le_bytes());
        block.put(&[0; 4]);
        block
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Adds an option, truncated to the maximum length.
    fn option(&mut self, code: u16, value: &[u8]) {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.put(&code.to_le_bytes());
        self.put(&length.to_le_bytes());
        self.put(&value[..usize::from(length)]);
        self.pad();
    }

    fn end_with_options(mut self) -> Vec<u8> {
        self.option(0, &[]);
        self.end()
    }

    fn end(mut self) -> Vec<u8> {
        self.pad();
        let length = u32::try_from(self.0.len() + 4).expect("a block is small").to_le_bytes();
        self.0[4..8].copy_from_slice(&length);
        self.put(&length);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_its_length_at_both_ends_and_packet_data_is_padded() {
        let frame = |realtime_ns, kept: usize| Frame { realtime_ns, length_bytes: 1_000, bytes: vec![7; kept] };
        let frames = [frame(0x1234_5678_9abc_def0, 5), frame(u64::MAX, 8)];
        let about = FileInfo { comment: "c", operating_system: "o", interface: "lo", received: 3, dropped: 1 };
        let bytes = file(&about, &frames);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds) = (0, Vec::new());
        while at < bytes.len() {
            let length = usize::try_from(word(at + 4)).unwrap();
            assert!(length.is_multiple_of(4) && word(at + length - 4) == word(at + 4));
            kinds.push((word(at), at));
            at += length;
        }
        assert_eq!(kinds.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [0x0a0d_0d0a, 1, 6, 6, 5]);
        let first = kinds[2].1;
        assert_eq!([word(first + 12), word(first + 16)], [0x1234_5678, 0x9abc_def0], "the upper half comes first");
        assert_eq!([word(first + 20), word(first + 24)], [5, 1_000], "captured length, then original length");
        assert_eq!(bytes[first + 28..first + 36], [7, 7, 7, 7, 7, 0, 0, 0], "padded to whole words");
    }
}
