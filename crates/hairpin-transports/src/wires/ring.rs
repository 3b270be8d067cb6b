//! Two rings in shared memory: the layout, and the view of each end.
//!
//! Each ring has one producer and one consumer. A slot starts with a word that identifies the message; the consumer
//! watches this word. The payload follows in the same cache line, so a small message moves exactly one cache line. A
//! second word reports how many messages the slot's producer has received from the other ring. Two rules reduce the
//! cache lines that move between the CPUs:
//!
//! - the producer reads the consumer's position only when its copy of the position shows that the ring may be full;
//! - when a received message reports that all sent messages were received, the producer restarts at the first slot, and
//!   announces this with `RESTART` in the next message. A ping-pong therefore uses only two slots per direction, and
//!   takes 107 ns; with all 256 slots it would take 134 ns.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::system::map::Map;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slot_bytes: usize,
    pub(crate) slot_count: usize,
}

/// Size of a ring in bytes, unless two messages need more. Fits into a second-level cache.
const RING_BYTES: usize = 1 << 20;
const MAX_SLOTS: usize = 256;
const CACHE_LINE_BYTES: usize = 64;

/// Size of a slot's two header words. The upper half of the first word is the message's number (lower 32 bits, from 1),
/// the lower half its length.
const SLOT_HEADER_BYTES: usize = 16;
/// Offset of a slot's second word: the number of messages that the slot's producer has received from the other ring.
const RECEIVED: usize = 8;
/// Flag in a slot's first word: the next message is in the first slot.
const RESTART: u32 = 1 << 31;

impl Layout {
    const MAGIC_WORD: u64 = u64::from_be_bytes(*b"hairpin1");
    const MAGIC: usize = 0;
    const SLOT_BYTES: usize = 8;
    const SLOT_COUNT: usize = 16;
    /// Offset of the futex word that states whether a client has connected.
    pub(crate) const HELLO: usize = 24;
    /// Offsets of the words that describe each end: its process, whether it waits by sleeping, whether it has closed.
    pub(crate) const ABOUT: [usize; 2] = [256, 384];
    pub(crate) const PID: usize = 0;
    pub(crate) const BLOCKS: usize = 4;
    pub(crate) const CLOSED: usize = 8;
    /// Offsets of the words of the two rings, by consumer.
    pub(crate) const RINGS: [usize; 2] = [512, 1024];
    /// Offsets of a ring's words. Each is in a separate pair of cache lines, since CPUs fetch adjacent lines in pairs.
    const POSITION: usize = 0;
    pub(crate) const CONSUMER_ASLEEP: usize = 128;
    pub(crate) const PRODUCER_ASLEEP: usize = 256;
    /// Offset of the first slot. The ring that the client consumes is first.
    pub(crate) const SLOTS: usize = 4096;

    /// Returns the layout of rings for messages of up to `largest` bytes.
    pub(crate) fn for_messages_of(largest: usize) -> Self {
        let slot_bytes = (largest + SLOT_HEADER_BYTES).next_multiple_of(CACHE_LINE_BYTES);
        Self { slot_bytes, slot_count: (RING_BYTES / slot_bytes).clamp(2, MAX_SLOTS) }
    }

    /// Size of the largest message that fits, in bytes.
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

/// One end's view: the end consumes from one ring and produces into the other.
pub(crate) struct Rings {
    pub(crate) layout: Layout,
    incoming: Cursor,
    outgoing: Cursor,
    /// Position up to which the outgoing ring is known to have room.
    limit: u64,
    /// Position after the last message with `RESTART`, and the slot of this message.
    restarted: (u64, usize),
    /// Whether all sent messages are known to be received.
    all_received: bool,
}

#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// Offset of the ring's words.
    words: usize,
    /// Start of the first slot, start of the current slot, and end of the last slot.
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

    /// Returns the number of the current message, which the upper half of the slot's first word contains once the
    /// message is there. An old message in the slot could have the same number only after 2^32 messages.
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
    /// Creates the view of end 0 or 1.
    pub(crate) fn new(layout: Layout, own: usize) -> Self {
        Self {
            layout,
            incoming: Cursor::new(layout, own),
            outgoing: Cursor::new(layout, 1 - own),
            limit: layout.slot_count as u64,
            restarted: (0, 0),
            all_received: false,
        }
    }

    /// Offset of the word with which the consumer of the incoming ring announces its sleep.
    pub(crate) fn consumer_asleep(&self) -> usize {
        self.incoming.words + Layout::CONSUMER_ASLEEP
    }

    /// Offset of the word with which the producer of the outgoing ring announces its sleep.
    pub(crate) fn producer_asleep(&self) -> usize {
        self.outgoing.words + Layout::PRODUCER_ASLEEP
    }

    /// Offsets of the words with which the other end announces its sleep, as producer and as consumer.
    pub(crate) fn peer_asleep(&self) -> (usize, usize) {
        (self.incoming.words + Layout::PRODUCER_ASLEEP, self.outgoing.words + Layout::CONSUMER_ASLEEP)
    }

    /// Whether the next message is available. [`Rings::pop`] checks again before it reads the message.
    #[inline]
    pub(crate) fn is_ready(&self, map: &Map) -> bool {
        let header = map.long_word(self.incoming.slot).load(Relaxed);
        (header >> 32) as u32 == self.incoming.number()
    }

    /// Copies the next message to `into`. Returns its length; `None` if no message is available.
    #[inline]
    pub(crate) fn pop(&mut self, map: &Map, into: &mut [u8]) -> Option<usize> {
        let slot = self.incoming.slot;
        let header = map.long_word(slot).load(Acquire);
        if (header >> 32) as u32 != self.incoming.number() {
            return None;
        }
        // The length is untrusted, since the other process wrote it: reads at most one slot.
        let length = header as u32 & !RESTART;
        let bytes = (length as usize).min(self.layout.message_bytes()).min(into.len());
        map.copy_out(slot + SLOT_HEADER_BYTES, &mut into[..bytes]);
        if map.long_word(slot + RECEIVED).load(Relaxed) == self.outgoing.position {
            self.all_received = true;
            self.limit = self.outgoing.position + self.layout.slot_count as u64;
        }
        self.incoming.advance(self.layout.slot_bytes, header as u32 & RESTART != 0);
        map.long_word(self.incoming.words + Layout::POSITION).store(self.incoming.position, Release);
        Some(bytes)
    }

    #[inline]
    pub(crate) fn has_room(&mut self, map: &Map) -> bool {
        self.outgoing.position < self.limit || self.update_limit(map)
    }

    /// Reads the consumer's position. Returns whether the outgoing ring has room.
    fn update_limit(&mut self, map: &Map) -> bool {
        let received = map.long_word(self.outgoing.words + Layout::POSITION).load(Acquire);
        // The position is untrusted, since the other process wrote it: ignores impossible values.
        if received <= self.outgoing.position {
            let (after, slot) = self.restarted;
            let room = if received >= after {
                self.layout.slot_count
            } else {
                // The slots before the `RESTART` message are free.
                1 + (slot - self.outgoing.first) / self.layout.slot_bytes
            };
            self.limit = self.limit.max(received + room as u64);
        }
        self.outgoing.position < self.limit
    }

    /// Writes a message into the next slot. The message must fit, and the ring must have room.
    #[inline]
    pub(crate) fn push(&mut self, map: &Map, message: &[u8]) {
        let slot = self.outgoing.slot;
        map.copy_in(slot + SLOT_HEADER_BYTES, message);
        map.long_word(slot + RECEIVED).store(self.incoming.position, Relaxed);
        let restart = self.all_received && slot != self.outgoing.first;
        // The card and the layout limit the length to less than 2^31.
        let length = message.len() as u32 | if restart { RESTART } else { 0 };
        map.long_word(slot).store(u64::from(self.outgoing.number()) << 32 | u64::from(length), Release);
        self.outgoing.advance(self.layout.slot_bytes, restart);
        self.all_received = false;
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
        /// For any sequence of operations, messages arrive complete, once and in order.
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
                        ends[end].push(&map, &message);
                        queues[1 - end].push_back(message);
                    }
                } else {
                    let mut into = [0; 128];
                    let message = ends[end].pop(&map, &mut into).map(|bytes| into[..bytes].to_vec());
                    prop_assert_eq!(message, queues[end].pop_front());
                }
                for end in 0..2 {
                    prop_assert_eq!(ends[end].is_ready(&map), !queues[end].is_empty());
                }
            }
        }
    }

    #[test]
    fn a_ping_pong_stays_in_two_slots_and_a_stream_uses_all_slots() {
        let layout = Layout::for_messages_of(4);
        assert_eq!((layout.slot_bytes, layout.slot_count), (64, 256));
        let map = map_of(layout);
        let mut ends = [Rings::new(layout, 0), Rings::new(layout, 1)];
        for _ in 0..1000 {
            for (from, to) in [(0, 1), (1, 0)] {
                assert!(ends[from].has_room(&map));
                ends[from].push(&map, b"ping");
                assert!(ends[from].outgoing.slot <= ends[from].outgoing.first + 2 * 64);
                assert_eq!(ends[to].pop(&map, &mut [0; 4]), Some(4));
            }
        }
        let mut filled = 0;
        while ends[0].has_room(&map) {
            ends[0].push(&map, b"ping");
            filled += 1;
        }
        assert!(filled >= 2, "{filled}");
        while ends[1].pop(&map, &mut [0; 4]).is_some() {}
        let filled = (0..1000).take_while(|_| ends[0].has_room(&map).then(|| ends[0].push(&map, b"ping")).is_some());
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
