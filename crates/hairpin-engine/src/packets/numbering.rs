//! Counts the bytes of one direction of a connection from 0.

use hairpin_model::Packet;
use hairpin_model::trace::End;

use super::headers::Segment;

/// Converts the sequence numbers of a direction to byte numbers.
pub(crate) struct Numbering {
    /// Bits by which this direction's sender shifts its windows, if it offered it.
    window_shift: Option<u8>,
    /// Whether the SYN was captured with its options, and with it whether windows are scaled.
    has_syn: bool,
    /// The sequence number that counts as byte 0: the first one after the SYN (RFC 9293, section 3.4) and what is
    /// skipped after it.
    zero: u32,
    /// End of the highest byte seen, used to resolve the wrap-around of 32-bit sequence numbers.
    end: u64,
    /// The byte at which the direction was closed. The FIN has a sequence number too, but is not a byte.
    closed_at: Option<u64>,
}

impl Numbering {
    /// The direction that begins with this SYN. `skipped_bytes` after it are not counted.
    pub(crate) fn beginning(syn: &Segment, skipped_bytes: usize) -> Self {
        let skipped_bytes = u32::try_from(skipped_bytes).expect("a hello is short");
        let zero = syn.sequence.wrapping_add(1).wrapping_add(skipped_bytes);
        let options = syn.options.as_ref();
        let window_shift = options.and_then(|options| options.window_shift);
        Self { zero, end: 0, closed_at: None, window_shift, has_syn: options.is_some() }
    }

    /// A direction whose SYN was not captured: counts from this sequence number.
    pub(crate) fn from_the_middle(zero: u32) -> Self {
        Self { zero, end: 0, closed_at: None, window_shift: None, has_syn: false }
    }

    pub(crate) fn begins_with(&self, syn: &Segment) -> bool {
        self.zero == syn.sequence.wrapping_add(1)
    }

    /// The byte number of `sequence`; 0 before byte 0.
    fn byte(&self, sequence: u32) -> u64 {
        self.bounded(self.position(sequence))
    }

    /// The position with this sequence number that is nearest to the current end; negative before byte 0.
    fn position(&self, sequence: u32) -> i128 {
        #[expect(clippy::cast_possible_truncation, reason = "sequence numbers are the low 32 bits")]
        let here = self.zero.wrapping_add(self.end as u32);
        i128::from(self.end) + i128::from(sequence.wrapping_sub(here).cast_signed())
    }

    fn bounded(&self, place: i128) -> u64 {
        u64::try_from(place.max(0)).unwrap_or(u64::MAX).min(self.closed_at.unwrap_or(u64::MAX))
    }

    fn range(&mut self, segment: &Segment) -> (u64, u64) {
        let place = self.position(segment.sequence.wrapping_add(u32::from(segment.syn)));
        let (first, end) = (self.bounded(place), self.bounded(place + segment.payload_bytes as i128));
        // A reset may carry any sequence number, so its number is ignored.
        if !segment.rst {
            self.end = self.end.max(end);
            if segment.fin {
                self.closed_at = Some(end);
            }
        }
        (first, end)
    }
}

/// The packet of this segment. `own` is the direction in which `from` sent it.
pub(crate) fn packet(
    segment: &Segment,
    from: End,
    (at_ns, length_bytes): (u64, u32),
    own: &mut Numbering,
    other: Option<&Numbering>,
) -> Packet {
    let (first_byte, end_byte) = own.range(segment);
    Packet {
        at_ns,
        arrived_ns: None,
        from,
        syn: segment.syn,
        fin: segment.fin,
        rst: segment.rst,
        psh: segment.psh,
        first_byte,
        end_byte,
        ack_byte: other.and_then(|other| Some(other.byte(segment.acknowledged?))),
        window_bytes: other.and_then(|other| window_bytes(segment, own, other)),
        length_bytes: length_bytes.into(),
    }
}

/// The window that a segment advertises, in bytes; `None` if the scale is unknown. Windows are scaled if both SYNs offered
/// it, except in the SYNs themselves (RFC 7323, section 2).
fn window_bytes(segment: &Segment, own: &Numbering, other: &Numbering) -> Option<u64> {
    let is_scaled = other.window_shift.is_some() && !segment.syn;
    let window_bytes = u64::from(segment.window) << own.window_shift.filter(|_| is_scaled).unwrap_or(0);
    (own.has_syn && other.has_syn).then_some(window_bytes)
}
