//! `spin-then-block`: attempts for a short time, then a call that sleeps.

use std::time::{Duration, Instant};

use super::wire::{Method, Sockets};
use crate::wire::{Wire, WireError};

/// How long an end spins before it blocks: as long as it takes to put a thread to sleep and to wake it up on an idle CPU, so that
/// spinning costs at most twice the best choice in hindsight.
const SPIN: Duration = Duration::from_micros(50);
/// Attempts between two readings of the clock.
const ATTEMPTS_PER_CLOCK_READ: u32 = 8;

pub(crate) struct SpinThenBlock;

impl Method for SpinThenBlock {
    fn wait(&mut self, of: &mut Sockets, at_most: Duration) -> Result<Option<usize>, WireError> {
        Ok(of.current().wait(at_most)?.then_some(of.at))
    }

    #[inline(always)]
    fn receive(&mut self, of: &mut Sockets, into: &mut [u8]) -> Result<usize, WireError> {
        let began = Instant::now();
        loop {
            for _ in 0..ATTEMPTS_PER_CLOCK_READ {
                if let Some(bytes) = of.current().attempt(into)? {
                    return Ok(bytes);
                }
            }
            if began.elapsed() >= SPIN {
                return of.current().receive(into);
            }
        }
    }
}
