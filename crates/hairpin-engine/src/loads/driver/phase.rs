//! How the bytes of a one-way load say whether they are measured.
//!
//! On a byte stream every byte of a write is the number of its phase: a reader finds the one place where the phase changes without
//! knowing where writes begin. Where boundaries are kept a message begins with its sequence number in its phase (8 bytes, little
//! endian) and the phase.

/// The warm-up, or what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Byte 0.
    WarmUp = 0,
    /// Byte 1.
    Measured = 1,
}

/// What a message begins with.
pub const HEADER_BYTES: usize = 9;

impl Phase {
    fn of(byte: u8) -> Option<Self> {
        [Self::WarmUp, Self::Measured].into_iter().find(|phase| *phase as u8 == byte)
    }
}

/// Writes a message's header.
///
/// # Panics
/// The message is shorter than [`HEADER_BYTES`].
pub fn number(message: &mut [u8], phase: Phase, sequence: u64) {
    message[..8].copy_from_slice(&sequence.to_le_bytes());
    message[8] = phase as u8;
}

/// The phase and the sequence number of a message; `None` of anything else.
#[must_use]
pub fn read(message: &[u8]) -> Option<(Phase, u64)> {
    let sequence = u64::from_le_bytes(message.get(..8)?.try_into().ok()?);
    Some((Phase::of(*message.get(8)?)?, sequence))
}

/// How many bytes of a part of a stream belong to the warm-up; the others are measured. `before` is the phase of the byte before
/// it. It looks at the first and the last byte, and between them only where they differ.
///
/// `None` where the part is none of a load's: the phase goes back, or is none.
#[must_use]
pub fn warm_up_bytes(part: &[u8], before: Phase) -> Option<usize> {
    let [first, .., last] = part else {
        let only = part.first().map_or(Some(before), |byte| Phase::of(*byte))?;
        return ordered(before, only).then_some(if only == Phase::WarmUp { part.len() } else { 0 });
    };
    let (first, last) = (Phase::of(*first)?, Phase::of(*last)?);
    if !ordered(before, first) || !ordered(first, last) {
        return None;
    }
    Some(match (first, last) {
        (Phase::WarmUp, Phase::WarmUp) => part.len(),
        (Phase::Measured, _) => 0,
        (Phase::WarmUp, Phase::Measured) => part.partition_point(|byte| *byte == Phase::WarmUp as u8),
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
    fn a_header_is_read_as_it_was_written_and_nothing_else_is_one() {
        let mut message = [9; 12];
        number(&mut message, Phase::Measured, 0x0102_0304);
        assert_eq!(message, [4, 3, 2, 1, 0, 0, 0, 0, 1, 9, 9, 9]);
        assert_eq!(read(&message), Some((Phase::Measured, 0x0102_0304)));
        assert_eq!(read(&message[..8]), None);
        message[8] = 2;
        assert_eq!(read(&message), None);
    }

    #[test]
    fn bytes_of_no_load_and_a_phase_that_goes_back_are_refused() {
        assert_eq!(warm_up_bytes(&[1, 0], Phase::WarmUp), None);
        assert_eq!(warm_up_bytes(&[0], Phase::Measured), None);
        assert_eq!(warm_up_bytes(&[0, 0], Phase::Measured), None);
        assert_eq!(warm_up_bytes(&[7], Phase::WarmUp), None);
        assert_eq!(warm_up_bytes(&[0, 7], Phase::WarmUp), None);
        assert_eq!(warm_up_bytes(&[], Phase::WarmUp), Some(0));
    }

    proptest! {
        #[test]
        fn every_byte_is_of_its_phase_wherever_a_stream_is_cut(
            warm_up in 0_usize..50, measured in 0_usize..50, cuts in proptest::collection::vec(1_usize..20, 0..20),
        ) {
            let stream = [vec![0; warm_up], vec![1; measured]].concat();
            let (mut rest, mut before, mut found) = (&stream[..], Phase::WarmUp, 0);
            for cut in cuts.into_iter().chain([stream.len()]) {
                let (part, after) = rest.split_at(cut.min(rest.len()));
                let bytes = warm_up_bytes(part, before).unwrap();
                found += bytes;
                if bytes < part.len() {
                    before = Phase::Measured;
                }
                rest = after;
            }
            prop_assert_eq!(found, warm_up);
        }
    }
}
