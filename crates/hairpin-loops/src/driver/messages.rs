//! The bytes that a sender passes to one call: contiguous messages with numbers or fill bytes, and timestamps.

use hairpin_transports::{Batch, Codes, Wire};

use super::DriverError;
use hairpin_model::flow::Observer;

use super::phase::{HEADER_BYTES, Phase, STAMP_BYTES, STAMP_PLACE, number, stamp};

/// Minimum bytes from one timestamped message to the next: few enough for a distribution, many enough to be cheap.
const BYTES_PER_STAMP: usize = 8192;

/// Returns N, a power of two: one in N messages of this size carries a timestamp (byte stream) or is recorded (with
/// boundaries). Returns `None` if none does, or a message has no room for a timestamp.
pub fn stamp_every(size_bytes: usize, boundaries: bool, observer: Observer) -> Option<u64> {
    let least = if boundaries { STAMP_PLACE + STAMP_BYTES } else { STAMP_BYTES };
    let every = match observer {
        Observer::Sampled => BYTES_PER_STAMP.div_ceil(size_bytes.max(1)).next_power_of_two() as u64,
        Observer::Recorder => 1,
        _ => return None,
    };
    (size_bytes >= least).then_some(every)
}

/// Size of the nonce that a receiver quotes, at the end of a message.
const NONCE_BYTES: usize = 8;
/// Minimum size of a message that has room for a nonce after header and timestamp.
const NONCE_FROM_BYTES: usize = STAMP_PLACE + STAMP_BYTES + NONCE_BYTES;

/// The nonce of a message with boundaries, which the receiver quotes; 0 if the message has no room for a nonce.
#[inline]
pub(super) fn nonce_of(message: &[u8]) -> u64 {
    let carried = message.last_chunk().filter(|_| message.len() >= NONCE_FROM_BYTES);
    carried.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) phase: Phase,
    pub(super) first: u64,
    pub(super) count: u64,
    /// On a byte stream, the number of the next timestamped message, at least `first`.
    pub(super) next_stamp: u64,
    /// On a byte stream, the timestamp of the first message if part of the message was already sent.
    pub(super) begun_at_ns: Option<u64>,
}

/// The buffer for one call.
pub(super) struct Messages {
    bytes: Box<[u8]>,
    /// The bytes of the other phase, for a byte stream sent with MSG_ZEROCOPY. The kernel may read such bytes after
    /// the call, so they never change and carry no timestamps.
    other: Option<Box<[u8]>>,
    size: usize,
    /// Number of messages that fit in the buffer.
    batch: u64,
    boundaries: bool,
    /// See [`stamp_every`]; [`NEVER`] if no message carries a timestamp.
    pub(super) stamp_every: u64,
    /// On a byte stream, the phase that the bytes currently encode.
    filled: Phase,
    /// On a byte stream, the positions of timestamped messages in the current offer.
    stamped: Vec<usize>,
    /// The timestamp of the last offer.
    pub(super) stamped_ns: u64,
    codes: Option<Codes>,
    /// The nonce at the end of messages with boundaries; 0 if the messages have no room for a nonce.
    nonce: u64,
}

/// Larger than any number of messages sent; a power of two.
pub(super) const NEVER: u64 = 1 << 60;

impl Messages {
    pub(super) fn new(size: usize, batch: usize, boundaries: bool, observer: Observer) -> Result<Self, DriverError> {
        let least = if boundaries { HEADER_BYTES } else { 1 };
        if size < least {
            return Err(DriverError::TooShort { bytes: size, least });
        }
        let batch = batch.clamp(1, Batch::MAX_MESSAGES);
        Ok(Self {
            bytes: vec![0; size * batch].into(),
            other: None,
            size,
            batch: batch as u64,
            boundaries,
            stamp_every: stamp_every(size, boundaries, observer).unwrap_or(NEVER),
            filled: Phase::WarmUp,
            stamped: Vec::with_capacity(batch + 1),
            stamped_ns: 0,
            codes: None,
            nonce: 0,
        })
    }

    /// Never changes the bytes of a stream after a call, as MSG_ZEROCOPY requires.
    pub(super) fn unchanging(self) -> Self {
        let other = vec![Phase::Measured as u8; self.bytes.len()].into();
        Self { other: Some(other), stamp_every: NEVER, ..self }
    }

    /// Takes the codes of the messages. All wires of a flow have the same.
    pub(super) fn take_codes(&mut self, wires: &mut [Box<dyn Wire>]) {
        self.codes = wires.iter_mut().fold(None, |codes, wire| wire.take_codes().or(codes));
    }

    /// Sets the nonce of messages with boundaries, if the messages have room for a nonce.
    #[inline]
    pub(super) fn set_nonce(&mut self, nonce: u64) {
        if self.nonce == nonce || !self.boundaries || self.size < NONCE_FROM_BYTES {
            return;
        }
        self.nonce = nonce;
        for message in self.bytes.chunks_exact_mut(self.size) {
            message[self.size - NONCE_BYTES..].copy_from_slice(&nonce.to_le_bytes());
        }
    }

    /// Number of messages that fit in the buffer.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.batch
    }

    /// Whether the buffer is a byte stream that already encodes `phase`.
    #[inline]
    pub(super) fn are_filled(&self, phase: Phase) -> bool {
        !self.boundaries && self.filled == phase
    }

    /// Returns `offered` bytes, beginning at byte `begun` of the first message.
    #[inline]
    pub(super) fn bytes(&self, begun: usize, offered: usize) -> &[u8] {
        &self.bytes[begun..begun + offered]
    }

    /// Prepares messages. Timestamps are `now_ns()`, which is called at most once.
    #[inline]
    pub(super) fn prepare(&mut self, offer: Offer, mut now_ns: impl FnMut() -> u64) {
        if self.boundaries {
            self.stamped_ns = if self.stamp_every == NEVER { 0 } else { now_ns() };
            let messages = self.bytes.chunks_exact_mut(self.size);
            for (sequence, message) in (offer.first..offer.first + offer.count).zip(messages) {
                number(message, offer.phase, sequence, self.stamped_ns);
                if let Some(codes) = &self.codes {
                    codes.write(message);
                }
            }
            return;
        }
        if self.filled != offer.phase {
            self.turn_to(offer.phase);
        }
        let is_due = offer.next_stamp < offer.first + offer.count || offer.begun_at_ns.is_some();
        if is_due && self.stamp_every != NEVER {
            self.stamp(offer, now_ns);
        }
    }

    #[cold]
    fn turn_to(&mut self, phase: Phase) {
        match &mut self.other {
            Some(other) => std::mem::swap(&mut self.bytes, other),
            None => self.bytes.fill(phase as u8),
        }
        self.filled = phase;
    }

    /// Writes timestamps into a byte stream.
    fn stamp(&mut self, offer: Offer, mut now_ns: impl FnMut() -> u64) {
        // The casts are safe: these numbers are at most [`BYTES_PER_STAMP`] or [`Batch::MAX_MESSAGES`].
        let (mut place, count, every) =
            ((offer.next_stamp - offer.first) as usize, offer.count as usize, self.stamp_every as usize);
        if let Some(begun_at_ns) = offer.begun_at_ns {
            self.write_stamp(0, offer.phase, begun_at_ns);
        }
        if place < count {
            self.stamped_ns = now_ns();
        }
        while place < count {
            self.write_stamp(place, offer.phase, self.stamped_ns);
            place += every;
        }
    }

    fn write_stamp(&mut self, place: usize, phase: Phase, at_ns: u64) {
        let at = place * self.size;
        self.bytes[at..at + STAMP_BYTES].copy_from_slice(&stamp(phase, at_ns));
        self.stamped.push(place);
    }

    /// Removes the timestamps from a byte stream, because the next messages use the same memory.
    #[inline]
    pub(super) fn unstamp(&mut self) {
        for place in self.stamped.drain(..) {
            let at = place * self.size;
            self.bytes[at..at + STAMP_BYTES].fill(self.filled as u8);
        }
    }
}
