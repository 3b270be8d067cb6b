//! How the bytes of a one-way load encode their phase and their due time.
//!
//! On a byte stream, the lowest bit of every byte is the phase, so a reader finds the position where the phase
//! changes without knowing where writes begin. The first 8 bytes of some messages encode a time in the upper 7 bits
//! of each byte. On transports with message boundaries, a message begins with 8 little-endian bytes: the lowest bit is
//! the phase, the other bits are the sequence number within the phase. The next 8 bytes are free for a code
//! ([`hairpin_transports::Codes`]). If there is room, 8 bytes with the time follow.

/// Warm-up or measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Encoded as bit 0.
    WarmUp = 0,
    /// Encoded as bit 1.
    Measured = 1,
}

/// Size of the header of a message with boundaries, in bytes.
pub const HEADER_BYTES: usize = 8;
pub const STAMP_BYTES: usize = 8;
/// Place of the time in a message with boundaries.
pub const STAMP_PLACE: usize = 16;
/// Maximum time that a byte stream can encode, in ns: 2.2 years.
const MAX_NS: u64 = (1 << 56) - 1;

impl Phase {
    fn of(byte: u8) -> Self {
        if byte & 1 == 0 { Self::WarmUp } else { Self::Measured }
    }
}

/// Writes a message's header and, if there is room, its time; 0 means no time.
///
/// # Panics
/// If the message is shorter than [`HEADER_BYTES`].
#[inline]
pub fn number(message: &mut [u8], phase: Phase, sequence: u64, at_ns: u64) {
    message[..HEADER_BYTES].copy_from_slice(&(sequence << 1 | phase as u64).to_le_bytes());
    if let Some(stamp) = message.get_mut(STAMP_PLACE..STAMP_PLACE + STAMP_BYTES) {
        stamp.copy_from_slice(&at_ns.to_le_bytes());
    }
}

/// Phase, sequence number and time (0 if there is none) of a message; `None` if the message is too short.
#[inline]
pub fn read(message: &[u8]) -> Option<(Phase, u64, u64)> {
    let word = |at: usize| Some(u64::from_le_bytes(message.get(at..at + 8)?.try_into().ok()?));
    let first = word(0)?;
    // The phase is the lowest bit of the first byte.
    Some((Phase::of(message[0]), first >> 1, word(STAMP_PLACE).unwrap_or(0)))
}

/// Encodes a time on a byte stream. Times beyond 2.2 years become 0, which means no time.
#[inline]
pub fn stamp(phase: Phase, at_ns: u64) -> [u8; STAMP_BYTES] {
    let at_ns = if at_ns > MAX_NS { 0 } else { at_ns };
    // Each byte carries seven bits of the time; the cast and the mask drop the other bits.
    std::array::from_fn(|place| (at_ns >> (7 * place)) as u8 & 0x7f).map(|bits| bits << 1 | phase as u8)
}

/// Decodes a time; 0 if there is none.
#[inline]
pub fn read_stamp(bytes: [u8; STAMP_BYTES]) -> u64 {
    bytes.iter().rev().fold(0, |so_far, byte| so_far << 7 | u64::from(byte >> 1))
}

/// Number of warm-up bytes in a part of a stream; the other bytes are measured. `before` is the phase of the
/// preceding byte. Reads only the first and the last byte, unless their phases differ.
///
/// `None` if `before`, the first and the last byte show measured data before warm-up data, which no load sends.
pub fn warm_up_bytes(part: &[u8], before: Phase) -> Option<usize> {
    let (first, last) = match part {
        [] => return Some(0),
        [only] => (Phase::of(*only), Phase::of(*only)),
        [first, .., last] => (Phase::of(*first), Phase::of(*last)),
    };
    if !ordered(before, first) || !ordered(first, last) {
        return None;
    }
    Some(match (first, last) {
        (Phase::WarmUp, Phase::WarmUp) => part.len(),
        (Phase::Measured, _) => 0,
        (Phase::WarmUp, Phase::Measured) => part.partition_point(|byte| Phase::of(*byte) == Phase::WarmUp),
    })
}

fn ordered(before: Phase, after: Phase) -> bool {
    before as u8 <= after as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let mut message = [9; 26];
        number(&mut message, Phase::Measured, 0x0102_0304, 0x55);
        assert_eq!(message[..16], [9, 6, 4, 2, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(message[16..], [0x55, 0, 0, 0, 0, 0, 0, 0, 9, 9]);
        assert_eq!(read(&message), Some((Phase::Measured, 0x0102_0304, 0x55)));
        assert_eq!(read(&message[..20]), Some((Phase::Measured, 0x0102_0304, 0)), "too short for a time");
        assert_eq!(read(&message[..7]), None);
    }

    #[test]
    fn a_phase_that_goes_back_is_refused() {
        assert_eq!(warm_up_bytes(&[1, 0], Phase::WarmUp), None);
        assert_eq!(warm_up_bytes(&[0], Phase::Measured), None);
        assert_eq!(warm_up_bytes(&[0, 0], Phase::Measured), None);
        assert_eq!(warm_up_bytes(&[], Phase::Measured), Some(0));
    }

    proptest! {
        #[test]
        fn the_phase_change_is_found_despite_stamps(
            warm_up in 0_usize..200, measured in 0_usize..200, begin in 0_usize..400, end in 0_usize..400, at_ns: u64,
        ) {
            let mut bytes: Vec<u8> = [vec![0; warm_up], vec![1; measured]].concat();
            for (phase, place, room) in [(Phase::WarmUp, 0, warm_up), (Phase::Measured, warm_up, measured)] {
                if room >= STAMP_BYTES {
                    bytes[place..place + STAMP_BYTES].copy_from_slice(&stamp(phase, at_ns));
                }
            }
            let (begin, end) = (begin.min(bytes.len()), end.min(bytes.len()));
            let part = &bytes[begin.min(end)..begin.max(end)];
            let before = if begin.min(end) > warm_up { Phase::Measured } else { Phase::WarmUp };
            prop_assert_eq!(warm_up_bytes(part, before), Some(warm_up.clamp(begin.min(end), begin.max(end)) - begin.min(end)));
        }

        #[test]
        fn a_time_is_read_as_it_was_written(at_ns in 0..=MAX_NS, phase in prop::sample::select(vec![Phase::WarmUp, Phase::Measured])) {
            prop_assert_eq!(read_stamp(stamp(phase, at_ns)), at_ns);
            prop_assert!(stamp(phase, at_ns).iter().all(|byte| Phase::of(*byte) == phase));
        }
    }
}
