//! Two rings in a shared memory area: the layout, and one end's view of them.
//!
//! Each ring has one producer and one consumer. A slot starts with a word that identifies its message; the consumer
//! watches that word, and the payload follows in the same cache line, so a small message moves exactly one cache line.
//! A second word tells the other end how much of its own ring has been taken. Two rules minimize the cache lines that
//! move between the CPUs:
//!
//! - the producer reads the consumer's position only when its own copy of it says that the ring may be full;
//! - when an answer says that everything was taken, the producer restarts at the first slot and announces it in the
//!   message before (`RESTART`). A ping-pong therefore stays in the same two slots each way, which is measurably closer
//!   to the bare exchange of two cache lines than walking through a whole ring (here 107 against 134 ns for 256 slots).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::system::map::Map;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slot_bytes: usize,
    pub(crate) slot_count: usize,
}

/// Maximum size of a ring, unless two messages need more: small enough for a second-level cache.
const RING_BYTES: usize = 1 << 20;
const MAX_SLOTS: usize = 256;
const CACHE_LINE_BYTES: usize = 64;

/// A slot's first word: the number of the message (its lower 32 bits, from 1) in the upper half, the length in the
/// lower.
const SLOT_HEADER_BYTES: usize = 16;
/// A slot's second word: number of messages that its producer has taken from the other ring.
const TAKEN: usize = 8;
/// Flag in a slot's first word: the next message is in the first slot.
const RESTART: u32 = 1 << 31;

impl Layout {
    const MAGIC_WORD: u64 = u64::from_be_bytes(*b"hairpin1");
    const MAGIC: usize = 0;
    const SLOT_BYTES: usize = 8;
    const SLOT_COUNT: usize = 16;
    /// Whether the client has connected; a futex.
    pub(crate) const HELLO: usize = 24;
    /// The words of each end: its process, whether it sleeps, whether it has closed.
    pub(crate) const ABOUT: [usize; 2] = [256, 384];
    pub(crate) const PID: usize = 0;
    pub(crate) const BLOCKS: usize = 4;
    pub(crate) const CLOSED: usize = 8;
    /// The words of the two rings, by consumer.
    pub(crate) const RINGS: [usize; 2] = [512, 1024];
    /// Words of a ring, each in separate cache lines; adjacent lines are fetched in pairs, so two each.
    const POSITION: usize = 0;
    pub(crate) const CONSUMER_ASLEEP: usize = 128;
    pub(crate) const PRODUCER_ASLEEP: usize = 256;
    /// The first slot; the client's ring comes first.
    pub(crate) const SLOTS: usize = 4096;

    /// Rings for messages of at most `largest` bytes.
    pub(crate) fn for_messages_of(largest: usize) -> Self {
        let slot_bytes = (largest + SLOT_HEADER_BYTES).next_multiple_of(CACHE_LINE_BYTES);
        Self { slot_bytes, slot_count: (RING_BYTES / slot_bytes).clamp(2, MAX_SLOTS) }
    }

    /// Size of the largest message that fits.
    pub(crate) fn message_bytes(self) -> usize {
        self.slot_bytes - SLOT_HEADER_BYTES
    }

    /// Total size of the memory.
    pub(crate) fn total_bytes(self) -> usize {
        Self::SLOTS + 2 * self.slot_bytes * self.slot_count
    }

    fn slots_of(self, consumer: usize) -> usize {
        Self::SLOTS + consumer * self.slot_bytes * self.slot_count
    }

    /// Writes the layout into new memory.
    pub(crate) fn write(self, map: &Map) {
        map.long_word(Self::SLOT_BYTES).store(self.slot_bytes as u64, Relaxed);
        map.long_word(Self::SLOT_COUNT).store(self.slot_count as u64, Relaxed);
        map.long_word(Self::MAGIC).store(Self::MAGIC_WORD, Release);
    }

    /// Reads the layout from a map of `length` bytes; `None` if it is invalid.
    pub(crate) fn read(map: &Map, length: usize) -> Option<Self> {
        if length < Self::SLOTS || map.long_word(Self::MAGIC).load(Acquire) != Self::MAGIC_WORD {
            return None;
        }
        let slot_bytes = usize::try_from(map.long_word(Self::SLOT_BYTES).load(Relaxed)).ok()?;
        let slot_count = usize::try_from(map.long_word(Self::SLOT_COUNT).load(Relaxed)).ok()?;
        let fits = slot_bytes.checked_mul(slot_count)?.checked_mul(2)?.checked_add(Self::SLOTS)? == length;
        let is_sound = slot_bytes >= CACHE_LINE_BYTES
            && slot_bytes.is_multiple_of(CACHE_LINE_BYTES)
            && slot_bytes < RESTART as usize
            && slot_count >= 2;
        (fits && is_sound).then_some(Self { slot_bytes, slot_count })
    }
}

/// One end's view: it consumes from one ring and produces into the other.
pub(crate) struct Rings {
    pub(crate) layout: Layout,
    incoming: Cursor,
    outgoing: Cursor,
    /// Position up to which the outgoing ring may be filled before the consumer's position must be read.
    limit: u64,
    /// The position after the last message that restarted, and the slot of that message, which is not free until it has
    /// been taken.
    restarted: (u64, usize),
    /// All sent messages were taken: the last answer said so, and nothing was sent since.
    all_taken: bool,
}

#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// Offset of the ring's words.
    words: usize,
    /// Start of the first slot, start of the current one, and end of the last.
    first: usize,
    slot: usize,
    end: usize,
    /// Number of messages passed.
    position: u64,
}

impl Cursor {
    fn new(layout: Layout, consumer: usize) -> Self {
        let first = layout.slots_of(consumer);
        let end = first + layout.slot_bytes * layout.slot_count;
        Self { words: Layout::RINGS[consumer], first, slot: first, end, position: 0 }
    }

    /// The upper half of the current slot's first word when it holds the current message. A slot's old message is only
    /// mistaken for it after 2^32 messages.
    #[inline]
    fn number(&self) -> u32 {
        self.position as u32 + 1
    }

    #[inline]
    fn advance(&mut self, slot_bytes: usize, restart: bool) {
        let next = self.slot + slot_bytes;
        self.slot = if restart || next == self.end { self.first } else { next };
        self.position += 1;
    }
}

impl Rings {
    /// The view of end 0 or 1.
    pub(crate) fn new(layout: Layout, own: usize) -> Self {
        Self {
            layout,
            incoming: Cursor::new(layout, own),
            outgoing: Cursor::new(layout, 1 - own),
            limit: layout.slot_count as u64,
            restarted: (0, 0),
            all_taken: false,
        }
    }

    /// The word by which the consumer of the incoming ring announces its sleep.
    pub(crate) fn consumer_asleep(&self) -> usize {
        self.incoming.words + Layout::CONSUMER_ASLEEP
    }

    /// The word by which the producer of the outgoing ring announces its sleep.
    pub(crate) fn producer_asleep(&self) -> usize {
        self.outgoing.words + Layout::PRODUCER_ASLEEP
    }

    /// The words by which the other end announces its sleep: as producer, and as consumer.
    pub(crate) fn peer_asleep(&self) -> (usize, usize) {
        (self.incoming.words + Layout::PRODUCER_ASLEEP, self.outgoing.words + Layout::CONSUMER_ASLEEP)
    }

    /// Whether the next message is there; `take` checks again before it reads the message.
    #[inline]
    pub(crate) fn is_ready(&self, map: &Map) -> bool {
        let header = map.long_word(self.incoming.slot).load(Relaxed);
        (header >> 32) as u32 == self.incoming.number()
    }

    /// Takes the next message if it is there.
    #[inline]
    pub(crate) fn take(&mut self, map: &Map, into: &mut [u8]) -> Option<usize> {
        let slot = self.incoming.slot;
        let header = map.long_word(slot).load(Acquire);
        if (header >> 32) as u32 != self.incoming.number() {
            return None;
        }
        // The other process wrote the length: whatever its value, at most one slot is read.
        let length = header as u32 & !RESTART;
        let bytes = (length as usize).min(self.layout.message_bytes()).min(into.len());
        map.copy_out(slot + SLOT_HEADER_BYTES, &mut into[..bytes]);
        if map.long_word(slot + TAKEN).load(Relaxed) == self.outgoing.position {
            self.all_taken = true;
            self.limit = self.outgoing.position + self.layout.slot_count as u64;
        }
        self.incoming.advance(self.layout.slot_bytes, header as u32 & RESTART != 0);
        map.long_word(self.incoming.words + Layout::POSITION).store(self.incoming.position, Release);
        Some(bytes)
    }

    /// Whether there is room for another message.
    #[inline]
    pub(crate) fn has_room(&mut self, map: &Map) -> bool {
        self.outgoing.position < self.limit || self.look_for_room(map)
    }

    fn look_for_room(&mut self, map: &Map) -> bool {
        let taken = map.long_word(self.outgoing.words + Layout::POSITION).load(Acquire);
        // The other process wrote the position: impossible values are ignored.
        if taken <= self.outgoing.position {
            let (after, slot) = self.restarted;
            let room = if taken >= after {
                self.layout.slot_count
            } else {
                // The slots before that of the restarted message are free.
                1 + (slot - self.outgoing.first) / self.layout.slot_bytes
            };
            self.limit = self.limit.max(taken + room as u64);
        }
        self.outgoing.position < self.limit
    }

    /// Puts a message that fits into a slot. There must be room.
    #[inline]
    pub(crate) fn put(&mut self, map: &Map, message: &[u8]) {
        let slot = self.outgoing.slot;
        map.copy_in(slot + SLOT_HEADER_BYTES, message);
        map.long_word(slot + TAKEN).store(self.incoming.position, Relaxed);
        let restart = self.all_taken && slot != self.outgoing.first;
        // A length is below 2^31, by the card and the layout.
        let length = message.len() as u32 | if restart { RESTART } else { 0 };
        map.long_word(slot).store(u64::from(self.outgoing.number()) << 32 | u64::from(length), Release);
        self.outgoing.advance(self.layout.slot_bytes, restart);
        self.all_taken = false;
        if restart {
            let before = (slot - self.outgoing.first) / self.layout.slot_bytes;
            self.restarted = (self.outgoing.position, slot);
            self.limit = self.outgoing.position + before as u64;
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::*;
    use crate::system::pipe::memory_file;

    fn map_of(layout: Layout) -> Map {
        let file = memory_file(layout.total_bytes()).unwrap();
        let map = Map::new(file.as_fd(), layout.total_bytes()).unwrap();
        layout.write(&map);
        map
    }

    proptest! {
        /// Whatever the ends do in whatever order: messages are taken complete, once and in order.
        #[test]
        fn rings_behave_as_queues(
            slot_count in 2_usize..9,
            steps in proptest::collection::vec((0_usize..2, any::<bool>(), 1_usize..=100), 1..400),
        ) {
            let layout = Layout { slot_count, ..Layout::for_messages_of(100) };
            let map = map_of(layout);
            let mut ends = [Rings::new(layout, 0), Rings::new(layout, 1)];
            let mut queues = [VecDeque::new(), VecDeque::new()];
            let mut next = 0_u8;
            for (end, puts, length) in steps {
                if puts {
                    let room = ends[end].has_room(&map);
                    prop_assert!(room || !queues[1 - end].is_empty(), "an empty ring always has room");
                    prop_assert!(!room || queues[1 - end].len() < slot_count);
                    if room {
                        next = next.wrapping_add(1);
                        let message = vec![next; length];
                        ends[end].put(&map, &message);
                        queues[1 - end].push_back(message);
                    }
                } else {
                    let mut into = [0; 128];
                    let taken = ends[end].take(&map, &mut into).map(|bytes| into[..bytes].to_vec());
                    prop_assert_eq!(taken, queues[end].pop_front());
                }
                for end in 0..2 {
                    prop_assert_eq!(ends[end].is_ready(&map), !queues[end].is_empty());
                }
            }
        }
    }

    #[test]
    fn a_ping_pong_stays_in_two_slots_and_a_stream_uses_them_all() {
        let layout = Layout::for_messages_of(4);
        assert_eq!((layout.slot_bytes, layout.slot_count), (64, 256));
        let map = map_of(layout);
        let mut ends = [Rings::new(layout, 0), Rings::new(layout, 1)];
        for _ in 0..1000 {
            for (from, to) in [(0, 1), (1, 0)] {
                assert!(ends[from].has_room(&map));
                ends[from].put(&map, b"ping");
                assert!(ends[from].outgoing.slot <= ends[from].outgoing.first + 2 * 64);
                assert_eq!(ends[to].take(&map, &mut [0; 4]), Some(4));
            }
        }
        let mut filled = 0;
        while ends[0].has_room(&map) {
            ends[0].put(&map, b"ping");
            filled += 1;
        }
        assert!(filled >= 2, "{filled}");
        while ends[1].take(&map, &mut [0; 4]).is_some() {}
        let filled = (0..1000).take_while(|_| ends[0].has_room(&map).then(|| ends[0].put(&map, b"ping")).is_some());
        assert_eq!(filled.count(), 256);
    }

    #[test]
    fn the_largest_message_needs_at_most_128_mib() {
        let layout = Layout::for_messages_of(16 << 20);
        assert_eq!(layout.slot_count, 2);
        assert!(layout.total_bytes() <= 128 << 20, "{}", layout.total_bytes());
    }

    #[test]
    fn an_invalid_layout_is_refused() {
        let layout = Layout::for_messages_of(100);
        let map = map_of(layout);
        assert_eq!(Layout::read(&map, layout.total_bytes()), Some(layout));
        assert_eq!(Layout::read(&map, layout.total_bytes() - 1), None);
        map.long_word(Layout::SLOT_COUNT).store(u64::MAX, Relaxed);
        assert_eq!(Layout::read(&map, layout.total_bytes()), None);
        map.long_word(Layout::MAGIC).store(0, Relaxed);
        assert_eq!(Layout::read(&map, layout.total_bytes()), None);
    }
}
