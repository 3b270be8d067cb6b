//! In which order numbered messages arrive, by the terms of RFC 4737: a message is reordered where one that was sent later has
//! arrived before it (section 3.3, `s < NextExp`), and of several copies only the first counts (section 3.1).
//!
//! As long as messages arrive in order, one costs a comparison and an addition.

use std::collections::VecDeque;
use std::time::Duration;

use hairpin_model::case::Case;
use hairpin_model::fact::Fact;
use hairpin_transports::{Wire, WireError};

/// So many separate gaps are remembered; of more the oldest is forgotten.
const MOST_GAPS: usize = 4096;

/// What a receiver knows of messages that are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalOrder {
    /// The least number that is in order.
    next: u64,
    /// Numbers below it that have not arrived: from, and before which, in ascending order.
    gaps: VecDeque<(u64, u64)>,
    /// What is below this and in no gap may have been forgotten.
    forgotten_below: u64,
    /// Messages that arrived after one that was sent later.
    pub reordered: u64,
    /// Further arrivals of a message.
    pub duplicated: u64,
}

impl Default for ArrivalOrder {
    fn default() -> Self {
        Self { next: 0, gaps: VecDeque::with_capacity(MOST_GAPS), forgotten_below: 0, reordered: 0, duplicated: 0 }
    }
}

impl ArrivalOrder {
    /// Whether messages of the case may arrive in another order than they were sent: datagrams between two hosts.
    #[must_use]
    pub fn may_differ(case: &Case, lossy: bool) -> bool {
        lossy && case.path.across.is_some()
    }

    /// A message of that number has arrived.
    #[inline]
    pub fn note(&mut self, sequence: u64) {
        if sequence == self.next {
            self.next = self.next.saturating_add(1);
        } else {
            self.out_of_order(sequence);
        }
    }

    /// The same by the lowest bytes of its number, at most 8, least first: of all numbers that they fit the nearest to what is
    /// expected.
    #[inline]
    pub fn note_lowest(&mut self, bytes: &[u8]) {
        let mut low = [0; 8];
        low[..bytes.len()].copy_from_slice(bytes);
        let mask = u64::MAX >> (64 - 8 * bytes.len());
        let ahead = u64::from_le_bytes(low).wrapping_sub(self.next) & mask;
        let behind = self.next.wrapping_sub(u64::from_le_bytes(low)) & mask;
        let nearest = if ahead <= behind { self.next.checked_add(ahead) } else { self.next.checked_sub(behind) };
        if let Some(sequence) = nearest {
            self.note(sequence);
        }
    }

    #[cold]
    fn out_of_order(&mut self, sequence: u64) {
        if sequence > self.next {
            if self.gaps.len() == MOST_GAPS
                && let Some((_, before)) = self.gaps.pop_front()
            {
                self.forgotten_below = self.forgotten_below.max(before);
            }
            self.gaps.push_back((self.next, sequence));
            self.next = sequence.saturating_add(1);
            return;
        }
        let place = self.gaps.partition_point(|(_, before)| *before <= sequence);
        match self.gaps.get(place).copied().filter(|(from, _)| *from <= sequence) {
            Some(gap) => {
                self.reordered += 1;
                self.fill(place, gap, sequence);
            }
            // It may be a copy: then it counts as a message that no gap has room for.
            None if sequence < self.forgotten_below => self.reordered += 1,
            None => self.duplicated += 1,
        }
    }

    /// Takes a number out of a gap.
    fn fill(&mut self, place: usize, (from, before): (u64, u64), sequence: u64) {
        match (from == sequence, sequence + 1 == before) {
            (true, true) => drop(self.gaps.remove(place)),
            (true, false) => self.gaps[place] = (sequence + 1, before),
            (false, true) => self.gaps[place] = (from, sequence),
            (false, false) => {
                if self.gaps.len() == MOST_GAPS {
                    // Half of it is forgotten, so that no memory is asked for.
                    self.forgotten_below = self.forgotten_below.max(sequence);
                    self.gaps[place] = (sequence + 1, before);
                } else {
                    self.gaps[place] = (from, sequence);
                    self.gaps.insert(place + 1, (sequence + 1, before));
                }
            }
        }
    }
}

/// A wire, which keeps boundaries, whose received messages are noted.
pub struct Ordered<'w> {
    wire: &'w mut dyn Wire,
    numbered: usize,
    order: ArrivalOrder,
}

impl<'w> Ordered<'w> {
    /// The same wire for messages of the case's size.
    pub fn new(wire: &'w mut dyn Wire, case: &Case) -> Self {
        let numbered = usize::try_from(case.flow().load.size_bytes()).map_or(8, |size| size.clamp(1, 8));
        Self { wire, numbered, order: ArrivalOrder::default() }
    }

    /// In which order they arrived.
    #[must_use]
    pub fn order(&self) -> &ArrivalOrder {
        &self.order
    }

    #[inline]
    fn note(&mut self, message: &[u8]) {
        if let Some(number) = message.get(..self.numbered) {
            self.order.note_lowest(number);
        }
    }
}

impl Wire for Ordered<'_> {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.wire.send(message)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let len = self.wire.receive(into)?;
        self.note(&into[..len]);
        Ok(len)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        let len = self.wire.try_receive(into)?;
        if let Some(len) = len {
            self.note(&into[..len]);
        }
        Ok(len)
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        self.wire.wait(at_most)
    }

    fn effective(&self) -> Vec<Fact> {
        self.wire.effective()
    }

    fn system_calls(&self) -> Option<u64> {
        self.wire.system_calls()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

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
    fn a_message_is_reordered_where_a_later_one_came_first_and_lost_ones_are_not() {
        assert_eq!(of(&[0, 1, 2, 3]), (0, 0));
        assert_eq!(of(&[0, 3, 9, 10]), (0, 0), "what is lost reorders nothing");
        // The example of RFC 4737, section 3.3: packets 5 and 6 arrive after 8.
        assert_eq!(of(&[1, 2, 3, 4, 7, 8, 5, 6, 9]), (2, 0));
        assert_eq!(of(&[4, 3, 2, 1, 0]), (4, 0));
        assert_eq!(of(&[0, 0, 2, 1, 1, 2]), (1, 3), "the first copy alone can be reordered");
    }

    #[test]
    fn the_lowest_bytes_are_those_of_the_nearest_number() {
        let mut order = ArrivalOrder::default();
        for number in 0_u64..1000 {
            order.note_lowest(&number.to_le_bytes()[..1]);
        }
        assert_eq!(counts(&order), (0, 0), "a byte begins again after 256 messages");
        for (number, expected) in [(1002_u64, (0, 0)), (1001, (1, 0)), (1001, (1, 1)), (990, (1, 2)), (1000, (2, 2))]
        {
            order.note_lowest(&number.to_le_bytes()[..1]);
            assert_eq!(counts(&order), expected, "{number}");
        }
        let mut order = ArrivalOrder::default();
        order.note_lowest(&[200]);
        assert_eq!(order, ArrivalOrder::default(), "there was no message before the first");
    }

    #[test]
    fn more_gaps_than_are_remembered_cost_no_memory() {
        let mut order = ArrivalOrder::default();
        let room = order.gaps.capacity();
        let gaps = MOST_GAPS as u64 + 1;
        (0..gaps).for_each(|gap| order.note(gap * 4 + 3));
        assert_eq!((order.gaps.len(), order.gaps.capacity(), order.forgotten_below), (MOST_GAPS, room, 3));
        order.note(5);
        assert_eq!((order.gaps.len(), order.gaps.capacity(), counts(&order)), (MOST_GAPS, room, (1, 0)));
        order.note(6);
        assert_eq!((order.gaps.len(), counts(&order)), (MOST_GAPS - 1, (2, 0)));
        order.note(7);
        assert_eq!(counts(&order), (2, 1));
    }

    proptest! {
        #[test]
        fn it_knows_as_much_as_a_set_of_all(numbers in proptest::collection::vec(0_u64..300, 1..400)) {
            let (mut all, mut next, mut expected) = (BTreeSet::new(), 0, (0, 0));
            for number in &numbers {
                if !all.insert(*number) {
                    expected.1 += 1;
                } else if *number < next {
                    expected.0 += 1;
                }
                next = next.max(*number + 1);
            }
            prop_assert_eq!(of(&numbers), expected);
        }
    }
}
