//! The bytes that a sender offers in one call: messages one after another, numbered or filled, and their times.

use hairpin_transports::Batch;

use super::DriverError;
use super::phase::{HEADER_BYTES, Phase, STAMP_BYTES, number, stamp};

/// On a byte stream a message carries its time every so many bytes: often enough for a distribution, and too seldom to cost.
const BYTES_PER_STAMP: usize = 4096;

/// Every how many messages of this size one carries its time on a byte stream, and one is recorded where boundaries are kept;
/// `None` where a message has no room for it.
#[must_use]
pub fn stamp_every(size_bytes: usize, boundaries: bool) -> Option<u64> {
    let least = if boundaries { HEADER_BYTES + STAMP_BYTES } else { STAMP_BYTES };
    (size_bytes >= least).then(|| BYTES_PER_STAMP.div_ceil(size_bytes) as u64)
}

/// Room for what one call sends.
pub(super) struct Messages {
    bytes: Box<[u8]>,
    /// On a byte stream whose sends the kernel may still read after the call (MSG_ZEROCOPY): the bytes of the other phase, so
    /// that none ever change. Such bytes carry no times.
    other: Option<Box<[u8]>>,
    size: usize,
    boundaries: bool,
    /// See [`stamp_every`]; `u64::MAX` for never.
    stamp_every: u64,
    /// On a byte stream, which phase the bytes say.
    filled: Phase,
    /// On a byte stream, how many messages of this offer carry a time: the first of them, and every how many.
    stamped: Option<usize>,
}

impl Messages {
    /// Room for so many messages of this size.
    pub(super) fn new(size: usize, batch: usize, boundaries: bool) -> Result<Self, DriverError> {
        let least = if boundaries { HEADER_BYTES } else { 1 };
        if size < least {
            return Err(DriverError::TooShort { bytes: size, least });
        }
        Ok(Self {
            bytes: vec![0; size * batch.clamp(1, Batch::MOST)].into(),
            other: None,
            size,
            boundaries,
            stamp_every: stamp_every(size, boundaries).unwrap_or(u64::MAX),
            filled: Phase::WarmUp,
            stamped: None,
        })
    }

    /// Every message carries its time where it has room.
    pub(super) fn all_stamped(self) -> Self {
        let stamp_every = if self.stamp_every == u64::MAX { u64::MAX } else { 1 };
        Self { stamp_every, ..self }
    }

    /// The bytes of a stream never change once they were offered.
    pub(super) fn unchanging(self) -> Self {
        let other = vec![Phase::Measured as u8; self.bytes.len()].into();
        Self { other: Some(other), stamp_every: u64::MAX, ..self }
    }

    /// Bytes that there is room for.
    pub(super) fn room(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// So many bytes, from that one of the first message on.
    #[inline]
    pub(super) fn bytes(&self, begun: usize, offered: usize) -> &[u8] {
        &self.bytes[begun..begun + offered]
    }

    /// Prepares messages from number `first` of their phase on. A message that has begun keeps the time that it began with, others
    /// get that of `now_ns`, which is asked at most once. Answers the time of the last of them that carries one, else 0.
    #[inline]
    pub(super) fn prepare(
        &mut self,
        phase: Phase,
        first: u64,
        count: u64,
        began_with_ns: Option<u64>,
        mut now_ns: impl FnMut() -> u64,
    ) -> u64 {
        if self.boundaries {
            let at_ns = now_ns();
            let messages = self.bytes.chunks_exact_mut(self.size);
            (first..first + count)
                .zip(messages)
                .for_each(|(sequence, message)| number(message, phase, sequence, at_ns));
            return at_ns;
        }
        if self.filled != phase {
            match &mut self.other {
                Some(other) => std::mem::swap(&mut self.bytes, other),
                None => self.bytes.fill(phase as u8),
            }
            self.filled = phase;
        }
        let before = first.next_multiple_of(self.stamp_every).wrapping_sub(first);
        if self.stamp_every == u64::MAX || before >= count {
            return 0;
        }
        self.stamp(phase, before, count, began_with_ns, now_ns)
    }

    /// Writes times on a byte stream, from the message at that place on.
    fn stamp(
        &mut self,
        phase: Phase,
        before: u64,
        count: u64,
        began_with_ns: Option<u64>,
        mut now_ns: impl FnMut() -> u64,
    ) -> u64 {
        let mut last_ns = 0;
        let mut fresh_ns = None;
        // Below the number of messages that there is room for.
        let (before, every) = (before as usize, self.stamp_every as usize);
        for place in (before..count as usize).step_by(every) {
            last_ns = match began_with_ns {
                Some(began_with_ns) if place == 0 => began_with_ns,
                _ => *fresh_ns.get_or_insert_with(&mut now_ns),
            };
            let at = place * self.size;
            self.bytes[at..at + STAMP_BYTES].copy_from_slice(&stamp(phase, last_ns));
        }
        self.stamped = Some(before);
        last_ns
    }

    /// Takes the times of a byte stream out again: the next messages stand in the same place.
    #[inline]
    pub(super) fn unstamp(&mut self) {
        let Some(before) = self.stamped.take() else { return };
        let fill = self.filled as u8;
        // It was below the number of messages that there is room for.
        let every = self.stamp_every as usize;
        for message in self.bytes.chunks_exact_mut(self.size).skip(before).step_by(every) {
            message[..STAMP_BYTES].fill(fill);
        }
    }
}
