//! Waits that tell which socket is ready: epoll, poll, and attempts in turn.

use std::io;
use std::time::Duration;

use super::wire::{Method, Sockets};
use crate::system::alarm::Alarm;
use crate::system::descriptor::Polls;
use crate::system::epoll::Epoll;
use crate::wire::{Descriptors, Wire, WireError};
use crate::wires::MAX_SLICE;

pub(crate) struct Epolled {
    epoll: Epoll,
    /// Interrupts waits, so that the deadline can be checked: a time-out of the call would set a timer each time, which takes 5 %
    /// of a round trip on one CPU.
    alarm: Alarm,
    calls: u64,
}

impl Epolled {
    pub(super) fn of(sockets: &Sockets) -> io::Result<Self> {
        let epoll = Epoll::new(1)?;
        for (place, on) in sockets.descriptors() {
            epoll.add(on.readable, place as u64, true, false)?;
        }
        Ok(Self { epoll, alarm: Alarm::start(sockets.timeout)?, calls: 0 })
    }
}

impl Method for Epolled {
    #[inline(always)]
    fn wait(&mut self, _: &mut Sockets, at_most: Duration) -> Result<Option<usize>, WireError> {
        self.calls += 1;
        let at_most_ms = if at_most < MAX_SLICE {
            i32::try_from(at_most.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        } else {
            self.alarm.follow().map_err(|source| WireError::System { operation: "wait by epoll", source })?;
            -1
        };
        match self.epoll.wait(at_most_ms) {
            // The tokens were places when the sockets were added.
            Ok(mut events) => Ok(events.next().map(|event| event.token as usize)),
            Err(error) => interrupted("wait by epoll", error),
        }
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }
}

/// `poll` on several connections.
pub(crate) struct Polled {
    polls: Polls,
    calls: u64,
}

impl Polled {
    pub(super) fn of(sockets: &Sockets) -> Self {
        Self { polls: Polls::of(sockets.descriptors().map(|(_, on)| on.readable)), calls: 0 }
    }
}

impl Method for Polled {
    fn wait(&mut self, _: &mut Sockets, at_most: Duration) -> Result<Option<usize>, WireError> {
        self.calls += 1;
        self.polls.wait(at_most).or_else(|error| interrupted("poll", error))
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }
}

/// `spin` on several connections: an attempt on each in turn.
#[derive(Default)]
pub(crate) struct Spun {
    next: usize,
}

impl Method for Spun {
    const WAITS_PER_CLOCK_READ: u32 = 256;

    #[inline(always)]
    fn wait(&mut self, of: &mut Sockets, _: Duration) -> Result<Option<usize>, WireError> {
        self.next = if self.next + 1 >= of.wires.len() { 0 } else { self.next + 1 };
        Ok(Some(self.next))
    }
}

impl Sockets {
    pub(super) fn descriptors(&self) -> impl Iterator<Item = (usize, Descriptors<'_>)> {
        self.wires.iter().enumerate().filter_map(|(place, wire)| Some((place, wire.descriptors()?)))
    }
}

/// A signal ends a wait without a result.
fn interrupted(operation: &'static str, source: io::Error) -> Result<Option<usize>, WireError> {
    if source.kind() == io::ErrorKind::Interrupted { Ok(None) } else { Err(WireError::System { operation, source }) }
}
