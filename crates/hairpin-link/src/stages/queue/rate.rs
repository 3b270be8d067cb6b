//! Serialisation: a packet of S bytes takes 8 S / rate seconds to send.
//!
//! The end of each packet is exact to the fraction of a nanosecond while the line stays busy: what the division by the
//! rate leaves over is carried to the next packet, so that after any number of packets the line has sent what the rate
//! says, rounded down to whole ns once.

use crate::profile::quantity::{rate_bits_per_s, shown_rate};
use crate::profile::word::Word;
use crate::stages::queue::Service;

/// Its word. A profile may also write `up=` and `down=` for `up.rate=` and `down.rate=`.
pub(super) const WORD: Word = Word {
    name: "rate",
    example: "rate=10mbit",
    says: "how many bits of IP packets a second go through; up=5.5mbit and down=80mbit for one direction each",
    read: |path, value| {
        path.bottleneck.rate_bits_per_s = Some(rate_bits_per_s(value)?);
        Ok(())
    },
    shown: |path| path.bottleneck.rate_bits_per_s.map(shown_rate),
    about: None,
};

/// Bits in a byte, times ns in a second.
const BIT_NS: u64 = 8_000_000_000;

/// A line with a rate.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    bits_per_s: u64,
    /// When the last packet was through, rounded down.
    through_ns: u64,
    /// What was rounded off, in bits times 1e9 / rate: `remainder / bits_per_s` ns.
    remainder: u64,
}

impl Rate {
    /// A line that has been idle.
    #[must_use]
    pub fn new(bits_per_s: u64) -> Self {
        Self { bits_per_s: bits_per_s.max(1), through_ns: 0, remainder: 0 }
    }
}

impl Service for Rate {
    fn send(&mut self, size_bytes: u32, now_ns: u64) -> u64 {
        if now_ns > self.through_ns {
            self.remainder = 0;
        }
        let work = u64::from(size_bytes).saturating_mul(BIT_NS).saturating_add(self.remainder);
        self.remainder = work % self.bits_per_s;
        self.through_ns = now_ns.saturating_add(work / self.bits_per_s);
        self.through_ns
    }
}
