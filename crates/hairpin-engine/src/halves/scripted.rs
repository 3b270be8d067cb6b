//! A wire for tests: it answers by a script and moves the manual clock, so every number is exact.

use std::collections::VecDeque;
use std::time::Duration;

use hairpin_model::fact::Fact;
use hairpin_transports::{Wire, WireError};

use crate::clock::{Clock, ManualClock};

/// What happens to one message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// The answer is there so many ns after the send.
    After(u64),
    /// It never comes.
    Never,
    /// It comes twice, so many ns after the send.
    Twice(u64),
    /// It comes with its last byte changed.
    Garbled(u64),
}

/// The wire: acts are taken in order and repeat from the beginning.
pub(crate) struct ScriptedWire {
    clock: ManualClock,
    acts: Vec<Act>,
    sent: usize,
    timeout_ns: u64,
    send_takes_ns: u64,
    coming: VecDeque<(u64, Vec<u8>)>,
}

impl ScriptedWire {
    pub(crate) fn new(clock: &ManualClock, acts: &[Act], timeout_ns: u64) -> Self {
        Self {
            clock: clock.clone(),
            acts: acts.to_vec(),
            sent: 0,
            timeout_ns,
            send_takes_ns: 0,
            coming: VecDeque::new(),
        }
    }

    /// The same wire, whose sends take so long.
    pub(crate) fn with_slow_sends(self, send_takes_ns: u64) -> Self {
        Self { send_takes_ns, ..self }
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let (_, bytes) = self.coming.pop_front().expect("something is coming");
        into[..bytes.len()].copy_from_slice(&bytes);
        bytes.len()
    }

    fn next_ns(&self) -> Option<u64> {
        self.coming.front().map(|(at_ns, _)| *at_ns)
    }
}

impl Wire for ScriptedWire {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        let now_ns = self.clock.now_ns();
        let mut bytes = message.to_vec();
        match self.acts[self.sent % self.acts.len()] {
            Act::After(ns) => self.coming.push_back((now_ns + ns, bytes)),
            Act::Never => {}
            Act::Twice(ns) => self.coming.extend([(now_ns + ns, bytes.clone()), (now_ns + ns, bytes)]),
            Act::Garbled(ns) => {
                *bytes.last_mut().expect("messages are not empty") ^= 0xff;
                self.coming.push_back((now_ns + ns, bytes));
            }
        }
        self.coming.make_contiguous().sort_by_key(|(at_ns, _)| *at_ns);
        self.sent += 1;
        self.clock.advance(self.send_takes_ns);
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let now_ns = self.clock.now_ns();
        match self.next_ns() {
            Some(at_ns) if at_ns <= now_ns + self.timeout_ns => {
                self.clock.advance(at_ns.saturating_sub(now_ns));
                Ok(self.take(into))
            }
            _ => {
                self.clock.advance(self.timeout_ns);
                Err(WireError::TimedOut { operation: "receive", after: Duration::from_nanos(self.timeout_ns) })
            }
        }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        let here = self.next_ns().is_some_and(|at_ns| at_ns <= self.clock.now_ns());
        Ok(here.then(|| self.take(into)))
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        let now_ns = self.clock.now_ns();
        let until_ns = now_ns + u64::try_from(at_most.as_nanos()).expect("waits are short");
        let wake_ns = self.next_ns().map_or(until_ns, |at_ns| at_ns.clamp(now_ns, until_ns));
        self.clock.advance(wake_ns - now_ns);
        Ok(self.next_ns().is_some_and(|at_ns| at_ns <= wake_ns))
    }

    fn effective(&self) -> Vec<Fact> {
        Vec::new()
    }
}
