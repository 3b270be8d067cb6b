//! The arrival order of numbered messages, as RFC 4737 defines it: a message is reordered if one sent later arrived
//! before it (section 3.3, `s < NextExp`). If copies of a message arrive, only the first counts (section 3.1).

use hairpin_model::Case;

use super::driver::window::{Arrival, Window};

/// Counts reordered and duplicated messages. Sequence numbers begin at 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrivalOrder {
    window: Window,
    /// Messages that arrived after a message that was sent later.
    pub reordered: u64,
    /// Repeated arrivals of a message.
    pub duplicated: u64,
}

impl ArrivalOrder {
    /// Whether messages of the case can be reordered. Only datagrams between two hosts can.
    pub fn may_differ(case: &Case, lossy: bool) -> bool {
        lossy && case.path.across.is_some()
    }

    /// Counts the arrival of message number `sequence`.
    #[inline]
    pub fn note(&mut self, sequence: u64) {
        match self.window.note(sequence) {
            Arrival::InOrder => {}
            // A message that is too old counts as reordered, although it may be a duplicate.
            Arrival::Reordered | Arrival::TooOld => self.reordered += 1,
            Arrival::Duplicate => self.duplicated += 1,
        }
    }

    /// Counts the arrival of a message of `size` bytes that begins with the low bytes of its sequence number. Of all
    /// sequence numbers with these low bytes, uses the one nearest to the expected number.
    #[inline]
    pub fn note_lowest(&mut self, message: &[u8], size: u64) {
        let numbered = usize::try_from(size).map_or(8, |size| size.clamp(1, 8));
        let Some(bytes) = message.get(..numbered) else { return };
        let low = bytes.iter().rev().fold(0, |low, byte| low << 8 | u64::from(*byte));
        let mask = u64::MAX >> (64 - 8 * numbered);
        let expected = self.window.expected();
        let ahead = low.wrapping_sub(expected) & mask;
        let behind = expected.wrapping_sub(low) & mask;
        let nearest = if ahead <= behind { expected.checked_add(ahead) } else { expected.checked_sub(behind) };
        if let Some(sequence) = nearest {
            self.note(sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(order: &ArrivalOrder) -> (u64, u64) {
        (order.reordered, order.duplicated)
    }

    fn of(numbers: &[u64]) -> (u64, u64) {
        let mut order = ArrivalOrder::default();
        numbers.iter().for_each(|number| order.note(*number));
        counts(&order)
    }

    #[test]
    fn reordering_is_counted_and_loss_is_not() {
        assert_eq!(of(&[0, 1, 2, 3]), (0, 0));
        assert_eq!(of(&[0, 3, 9, 10]), (0, 0), "losses are not reordering");
        // The example of RFC 4737, section 3.3: packets 5 and 6 arrive after 8.
        assert_eq!(of(&[1, 2, 3, 4, 7, 8, 5, 6, 9]), (2, 0));
        assert_eq!(of(&[4, 3, 2, 1, 0]), (4, 0));
        assert_eq!(of(&[0, 0, 2, 1, 1, 2]), (1, 3), "only the first copy can be reordered");
        assert_eq!(of(&[0, 1 << 20, 0]), (1, 0), "a message that is too old counts as reordered only");
    }

    #[test]
    fn low_bytes_select_the_nearest_sequence_number() {
        let mut order = ArrivalOrder::default();
        for number in 0_u64..1000 {
            order.note_lowest(&number.to_le_bytes(), 1);
        }
        assert_eq!(counts(&order), (0, 0), "a byte wraps after 256 messages");
        for (number, expected) in [(1002_u64, (0, 0)), (1001, (1, 0)), (1001, (1, 1)), (990, (1, 2)), (1000, (2, 2))]
        {
            order.note_lowest(&number.to_le_bytes(), 1);
            assert_eq!(counts(&order), expected, "{number}");
        }
        let mut order = ArrivalOrder::default();
        order.note_lowest(&[200], 1);
        assert_eq!(order, ArrivalOrder::default(), "numbers before the first message are ignored");
    }
}
