//! The machine-state probe: a fixed piece of work, timed before and after each round on the CPU of each end.
//!
//! A shared core has states that last for seconds to minutes: another tenant of its caches makes the same code slower,
//! while the guest sees neither stolen time nor load. System calls show it best: 1 000 `getppid` calls took 85 us in one
//! state of a machine and 103 us in the other, while arithmetic hardly changed.

use hairpin_model::round::Probe;

use crate::clock::Clock;

/// Unmeasured calls at the beginning, which bring the code back into the caches.
const WARM_UP_CALLS: u32 = 100;
/// The calls are timed in parts, of which the median counts: an interrupt or a preemption within one is no state.
const PARTS: usize = 9;
/// Calls in each part.
const CALLS: u32 = 100;

/// What 1 000 calls take at the pace of the median part, in ns.
fn read<C: Clock>(clock: &C) -> u64 {
    let calls = |count: u32| (0..count).fold(0, |_, _| std::hint::black_box(std::os::unix::process::parent_id()));
    calls(WARM_UP_CALLS);
    let mut parts = [0; PARTS];
    for part in &mut parts {
        let began_ns = clock.now_ns();
        calls(CALLS);
        *part = clock.now_ns().saturating_sub(began_ns);
    }
    parts.sort_unstable();
    parts[PARTS / 2] * 10
}

/// The work is done once before a round and once after it.
pub(crate) struct Probing {
    before: u64,
}

impl Probing {
    /// The first reading, on the calling thread's CPU.
    pub(crate) fn begin<C: Clock>(clock: &C) -> Self {
        Self { before: read(clock) }
    }

    /// The second.
    pub(crate) fn end<C: Clock>(self, clock: &C) -> Option<Probe> {
        Some(Probe { before: self.before, after: read(clock) })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Each look is so much later than the last; the third part takes a hundred times as long.
    struct Uneven(Cell<u64>);

    impl Clock for Uneven {
        fn now_ns(&self) -> u64 {
            let look = self.0.get();
            self.0.set(look + 1);
            look * 1_000 + if look >= 5 { 100_000 } else { 0 }
        }

        fn sleep_until(&self, _: u64) {}
    }

    #[test]
    fn an_interrupt_in_one_part_is_not_a_state() {
        assert_eq!(read(&Uneven(Cell::new(0))), 10_000);
    }
}
