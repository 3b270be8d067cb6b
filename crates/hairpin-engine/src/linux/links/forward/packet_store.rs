//! Stores the bytes and the state of the packets inside.
//!
//! Memory is allocated in pieces whose sizes are powers of two. Pieces are reused, and freed only to stay within the
//! limit, so the memory of a queue that stays full does not grow.

use std::collections::HashMap;

use hairpin_link::Direction;
use hairpin_model::link::MAX_MEMORY_MIB;

use super::messages::PartOfFlow;

/// Maximum memory of the packets inside: as much as a 2 Gbit/s path carries in one second.
pub(super) const MAX_BYTES: usize = MAX_MEMORY_MIB * 1024 * 1024;

/// Maximum memory of a packet in addition to its bytes, in the store and in the link.
const OVERHEAD_BYTES: usize = 256;

/// The smallest piece has 2^6 bytes.
const MIN_PIECE_BITS: u32 = 6;
/// Number of piece sizes: up to 2^17 bytes, which holds the largest IP packet with its link header.
const PIECE_SIZES: usize = 12;

#[derive(Debug)]
pub(super) struct StoredPacket {
    piece: Box<[u8]>,
    length_bytes: usize,
    /// The packet's timestamp. The link may have moved the arrival to a later time.
    pub(super) stamped_ns: u64,
    /// The message that the packet belongs to, if messages are recognized.
    pub(super) part: Option<PartOfFlow>,
    /// Number of outcomes so far.
    pub(super) outcomes: u8,
    pub(super) arrived: bool,
}

impl StoredPacket {
    pub(super) fn frame(&self) -> &[u8] {
        &self.piece[..self.length_bytes]
    }

    pub(super) fn frame_mut(&mut self) -> &mut [u8] {
        &mut self.piece[..self.length_bytes]
    }
}

/// The packets inside, by direction and number.
pub(super) struct PacketStore {
    packets: [HashMap<u64, StoredPacket>; 2],
    free: [Vec<Box<[u8]>>; PIECE_SIZES],
    bound_bytes: usize,
    /// Memory of all pieces, including free ones.
    taken_bytes: usize,
}

impl PacketStore {
    /// Creates a store with `ready` free pieces for frames of `frame_bytes` each.
    pub(super) fn new(bound_bytes: usize, frame_bytes: usize, ready: usize) -> Self {
        let packets = [(); 2].map(|()| HashMap::with_capacity(ready));
        let mut kept = Self { packets, free: Default::default(), bound_bytes, taken_bytes: 0 };
        let pieces: Vec<_> = (0..ready).map_while(|_| kept.piece(size_of_piece(frame_bytes)?)).collect();
        pieces.into_iter().for_each(|piece| kept.release_piece(piece));
        kept
    }

    /// Stores a packet. Returns false if there is no room.
    pub(super) fn keep(
        &mut self,
        direction: Direction,
        number: u64,
        frame: &[u8],
        stamped_ns: u64,
        part: Option<PartOfFlow>,
    ) -> bool {
        let Some(mut piece) = size_of_piece(frame.len()).and_then(|size| self.piece(size)) else { return false };
        piece[..frame.len()].copy_from_slice(frame);
        let kept = StoredPacket { piece, length_bytes: frame.len(), stamped_ns, part, outcomes: 0, arrived: false };
        self.packets[direction as usize].insert(number, kept);
        true
    }

    pub(super) fn get(&self, direction: Direction, number: u64) -> Option<&StoredPacket> {
        self.packets[direction as usize].get(&number)
    }

    pub(super) fn get_mut(&mut self, direction: Direction, number: u64) -> Option<&mut StoredPacket> {
        self.packets[direction as usize].get_mut(&number)
    }

    pub(super) fn remove(&mut self, direction: Direction, number: u64) {
        if let Some(kept) = self.packets[direction as usize].remove(&number) {
            self.release_piece(kept.piece);
        }
    }

    pub(super) fn packets(&self) -> impl Iterator<Item = &StoredPacket> {
        self.packets.iter().flat_map(HashMap::values)
    }

    /// Memory of all pieces, including free ones.
    #[cfg(test)]
    pub(super) fn taken_bytes(&self) -> usize {
        self.taken_bytes
    }

    /// Returns a piece of `size`, reused or new; `None` if a new piece would exceed the limit.
    fn piece(&mut self, size: usize) -> Option<Box<[u8]>> {
        if let Some(piece) = self.free[size].pop() {
            return Some(piece);
        }
        let piece_bytes = 1 << (MIN_PIECE_BITS as usize + size);
        let taking = |taken_bytes: usize| taken_bytes + piece_bytes + OVERHEAD_BYTES;
        // Free pieces of other sizes to make room.
        while taking(self.taken_bytes) > self.bound_bytes {
            let piece = self.free.iter_mut().rev().find_map(Vec::pop)?;
            self.taken_bytes -= piece.len() + OVERHEAD_BYTES;
        }
        self.taken_bytes = taking(self.taken_bytes);
        Some(vec![0; piece_bytes].into_boxed_slice())
    }

    fn release_piece(&mut self, piece: Box<[u8]>) {
        if let Some(size) = size_of_piece(piece.len()) {
            self.free[size].push(piece);
        }
    }
}

/// The index of the piece size for `bytes`; `None` if too large.
fn size_of_piece(bytes: usize) -> Option<usize> {
    let exponent = bytes.checked_next_power_of_two()?.trailing_zeros().max(MIN_PIECE_BITS);
    usize::try_from(exponent - MIN_PIECE_BITS).ok().filter(|size| *size < PIECE_SIZES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_used_again_and_the_limit_holds() {
        let one = 2048 + OVERHEAD_BYTES;
        let mut kept = PacketStore::new(3 * one, 1514, 2);
        assert_eq!(kept.taken_bytes, 2 * one);
        for number in 0..3 {
            assert!(kept.keep(Direction::Up, number, &[7; 1514], 0, None));
        }
        assert!(
            !kept.keep(Direction::Up, 3, &[7; 1514], 0, None) && !kept.keep(Direction::Down, 0, &[7; 60], 0, None)
        );
        assert_eq!((kept.taken_bytes, kept.packets().count()), (3 * one, 3));
        kept.remove(Direction::Up, 1);
        assert!(kept.get(Direction::Up, 1).is_none());
        assert!(kept.keep(Direction::Down, 1, &[9; 60], 0, None), "a large piece makes room for small ones");
        assert_eq!(kept.taken_bytes, 2 * one + 64 + OVERHEAD_BYTES);
        assert_eq!(kept.get(Direction::Down, 1).unwrap().frame(), [9; 60]);
        assert_eq!(kept.get(Direction::Up, 2).unwrap().frame(), [7; 1514]);
        assert!(kept.get(Direction::Down, 2).is_none());
    }

    #[test]
    fn frames_up_to_the_largest_piece_are_stored() {
        let mut kept = PacketStore::new(MAX_BYTES, 0, 1);
        let frame = vec![1; 1 << 17];
        for (number, bytes) in [0, 1, 64, 65, 1514, 65_549, 1 << 17].into_iter().enumerate() {
            let number = u64::try_from(number).unwrap();
            assert!(kept.keep(Direction::Up, number, &frame[..bytes], 0, None));
            assert_eq!(kept.get(Direction::Up, number).unwrap().frame().len(), bytes);
        }
        assert!(!kept.keep(Direction::Up, 99, &vec![0; (1 << 17) + 1], 0, None));
    }
}
