//! Records the state of a sender's first wire over time, in a bounded number of readings.

use hairpin_model::SenderState;
use hairpin_transports::Wire;

/// Maximum number of readings. When it is reached, every second reading is dropped.
pub const MAX_READINGS: usize = 512;
const INITIAL_INTERVAL_NS: u64 = 20_000_000;

/// Readings of the kernel's state of a connection.
#[derive(Debug)]
pub struct SenderStates {
    began_ns: u64,
    next_ns: u64,
    apart_ns: u64,
    states: Vec<SenderState>,
}

impl SenderStates {
    /// Starts at `now_ns`. If not `wanted`, makes no readings.
    pub fn new(now_ns: u64, wanted: bool) -> Self {
        let states = Vec::with_capacity(if wanted { MAX_READINGS } else { 0 });
        let next_ns = if wanted { now_ns } else { u64::MAX };
        Self { began_ns: now_ns, next_ns, apart_ns: INITIAL_INTERVAL_NS, states }
    }

    /// Reads the state if a reading is due. Makes no more readings if the wire has no state.
    #[inline]
    pub fn look(&mut self, now_ns: u64, wire: &mut dyn Wire) {
        if now_ns >= self.next_ns {
            self.read(now_ns, wire);
        }
    }

    fn read(&mut self, now_ns: u64, wire: &mut dyn Wire) {
        let Some(state) = wire.stream().and_then(|stream| stream.sender_state()) else {
            self.next_ns = u64::MAX;
            return;
        };
        self.note(SenderState { at_ns: now_ns.saturating_sub(self.began_ns), ..state });
        self.next_ns = now_ns.saturating_add(self.apart_ns);
    }

    fn note(&mut self, state: SenderState) {
        if self.states.len() == MAX_READINGS {
            let mut place = 0;
            self.states.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.apart_ns = self.apart_ns.saturating_mul(2);
        }
        self.states.push(state);
    }

    /// Returns the readings, in order.
    pub fn ended(self) -> Vec<SenderState> {
        self.states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_bounded_and_stay_even() {
        let mut states = SenderStates::new(1_000, true);
        for number in 0..=MAX_READINGS as u64 {
            states.note(SenderState { at_ns: number, ..SenderState::default() });
        }
        assert_eq!(states.apart_ns, 2 * INITIAL_INTERVAL_NS);
        let kept: Vec<u64> = states.ended().iter().map(|state| state.at_ns).collect();
        assert_eq!(
            (kept.len(), &kept[..3], kept.last()),
            (MAX_READINGS / 2 + 1, &[0, 2, 4][..], Some(&(MAX_READINGS as u64)))
        );
    }
}
