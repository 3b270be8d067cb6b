//! Tracks which of the newest messages arrived, in bounded memory.

/// Number of tracked messages: the newest message and those before it.
pub const MESSAGES: u64 = 65_536;
const WORDS: usize = (MESSAGES / 64) as usize;

/// The status of an arriving message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the newest message so far.
    InOrder,
    /// It is new, but a message sent later arrived before it.
    Reordered,
    Duplicate,
    TooOld,
}

/// One bit for each of the last [`MESSAGES`] messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    newest: Option<u64>,
    came: Box<[u64]>,
}

impl Default for Window {
    fn default() -> Self {
        Self { newest: None, came: vec![0; WORDS].into() }
    }
}

impl Window {
    /// The smallest number that would arrive in order.
    pub fn expected(&self) -> u64 {
        self.newest.map_or(0, |newest| newest.saturating_add(1))
    }

    /// Records the arrival of a message.
    #[inline]
    pub fn note(&mut self, sequence: u64) -> Arrival {
        // The common case.
        if self.newest.and_then(|newest| newest.checked_add(1)) == Some(sequence) {
            self.newest = Some(sequence);
            self.set(sequence, true);
            return Arrival::InOrder;
        }
        self.note_another(sequence)
    }

    fn note_another(&mut self, sequence: u64) -> Arrival {
        if let Some(newest) = self.newest.filter(|newest| *newest >= sequence) {
            let arrival = match self.has(sequence) {
                _ if newest - sequence >= MESSAGES => return Arrival::TooOld,
                true => Arrival::Duplicate,
                false => Arrival::Reordered,
            };
            self.set(sequence, true);
            return arrival;
        }
        match self.newest {
            // These bits belong to messages that are now too old.
            Some(newest) if sequence - newest < MESSAGES => {
                (newest + 1..sequence).for_each(|one| self.set(one, false))
            }
            Some(_) => self.came.fill(0),
            None => {}
        }
        self.set(sequence, true);
        self.newest = Some(sequence);
        Arrival::InOrder
    }

    fn bit_position(sequence: u64) -> (usize, u64) {
        let bit = sequence % MESSAGES;
        // The cast is safe: the index is below `WORDS`.
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn has(&self, sequence: u64) -> bool {
        let (word, bit) = Self::bit_position(sequence);
        self.came[word] & bit != 0
    }

    fn set(&mut self, sequence: u64, came: bool) {
        let (word, bit) = Self::bit_position(sequence);
        if came { self.came[word] |= bit } else { self.came[word] &= !bit }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_outside_the_window_are_too_old_and_free_their_bits() {
        let mut window = Window::default();
        assert_eq!(window.note(0), Arrival::InOrder);
        assert_eq!(window.note(MESSAGES), Arrival::InOrder);
        assert_eq!(window.note(0), Arrival::TooOld);
        assert_eq!(window.note(1), Arrival::Reordered);
        assert_eq!(window.note(1), Arrival::Duplicate);
        assert_eq!(window.note(u64::MAX), Arrival::InOrder);
        assert_eq!(window.note(u64::MAX - MESSAGES), Arrival::TooOld);
    }

    proptest! {
        #[test]
        fn equals_a_set_of_all_numbers(numbers in proptest::collection::vec(0_u64..200_000, 1..200)) {
            let (mut window, mut all, mut newest) = (Window::default(), BTreeSet::new(), None);
            for number in numbers {
                let expected = match newest {
                    Some(newest) if newest >= number && newest - number >= MESSAGES => Arrival::TooOld,
                    Some(newest) if newest >= number && all.contains(&number) => Arrival::Duplicate,
                    Some(newest) if newest >= number => Arrival::Reordered,
                    _ => Arrival::InOrder,
                };
                prop_assert_eq!(window.note(number), expected);
                if expected != Arrival::TooOld {
                    all.insert(number);
                }
                newest = newest.max(Some(number));
            }
        }
    }
}
