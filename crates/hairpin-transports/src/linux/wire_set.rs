//! Waiting for many wires at once (epoll(7)).
//!
//! The cost of a wait grows with the number of ready wires; it allocates nothing. Wires without a descriptor (memory,
//! shared memory) cannot be waited for: they count as ready, and a wait pauses briefly before it checks them again,
//! unless the last check led to progress.

use std::io;
use std::time::Duration;

use crate::system::epoll::Epoll;
use crate::wire::Wire;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to receive.
    Read,
    /// Room to send.
    Write,
    /// Both.
    Both,
}

impl Interest {
    fn reads(self) -> bool {
        self != Self::Write
    }

    fn writes(self) -> bool {
        self != Self::Read
    }
}

/// A wire that is ready. One that failed is ready for all that was asked, and the next call on it returns the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token that the wire was added with.
    pub token: usize,
    /// There may be something to receive.
    pub readable: bool,
    /// There may be room to send.
    pub writable: bool,
}

/// A set of wires to wait for.
pub struct WireSet {
    epoll: Epoll,
    /// Tokens of wires without a descriptor.
    without: Vec<(usize, Interest)>,
    /// Waits since the last progress.
    vain_looks: u32,
    system_calls: u64,
}

/// Checks of wires without a descriptor between which a wait only yields the CPU; after these it sleeps.
const YIELDS: u32 = 200;
/// Longest sleep between two checks.
const NAP: Duration = Duration::from_micros(50);
/// Maximum events per wait, so that the caller soon waits again; the rest come first in the next.
const MAX_EVENTS: usize = 64;

impl WireSet {
    /// An empty set for about `most` wires.
    ///
    /// # Errors
    /// The kernel gives no descriptor (`ulimit -n`).
    pub fn new(most: usize) -> io::Result<Self> {
        let epoll = Epoll::new(most.saturating_mul(2).min(MAX_EVENTS))?;
        Ok(Self { epoll, without: Vec::new(), vain_looks: 0, system_calls: 0 })
    }

    /// Adds a wire with a token that [`WireSet::wait`] returns. A dropped wire leaves the set by itself if it has a
    /// descriptor, else by [`WireSet::remove`].
    ///
    /// # Errors
    /// The wire is already in the set, or the kernel's limit is reached (`fs.epoll.max_user_watches`).
    pub fn add(&mut self, token: usize, wire: &dyn Wire, interest: Interest) -> io::Result<()> {
        let Some(on) = wire.descriptors() else {
            self.without.push((token, interest));
            return Ok(());
        };
        let (reads, writes) = (interest.reads(), interest.writes());
        if is_one(wire) {
            return self.epoll.add(on.readable, token as u64, reads, writes);
        }
        if reads {
            self.epoll.add(on.readable, token as u64, true, false)?;
        }
        if writes { self.epoll.add(on.writable, token as u64, false, true) } else { Ok(()) }
    }

    /// Removes a wire.
    ///
    /// # Errors
    /// The wire is not in the set.
    pub fn remove(&mut self, token: usize, wire: &dyn Wire, interest: Interest) -> io::Result<()> {
        let Some(on) = wire.descriptors() else {
            let place = self.without.iter().position(|(known, _)| *known == token);
            let place = place.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            self.without.swap_remove(place);
            return Ok(());
        };
        if is_one(wire) || interest.reads() {
            self.epoll.remove(on.readable)?;
        }
        if !is_one(wire) && interest.writes() { self.epoll.remove(on.writable) } else { Ok(()) }
    }

    /// Waits until a wire is ready, up to `at_most` (in whole ms, rounded up) or until a signal, and replaces the
    /// content of `ready` by all that are. A wire may be listed twice.
    ///
    /// # Errors
    /// The system call failed.
    pub fn wait(&mut self, at_most: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let at_most_ms = self.rest(at_most);
        self.system_calls += 1;
        match self.epoll.wait(at_most_ms) {
            Ok(events) => ready.extend(events.map(|event| Ready {
                // It was a `usize` when the wire was added.
                token: event.token as usize,
                readable: event.readable,
                writable: event.writable,
            })),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let without = self.without.iter();
        ready.extend(without.map(|(token, interest)| Ready {
            token: *token,
            readable: interest.reads(),
            writable: interest.writes(),
        }));
        Ok(())
    }

    /// Reports that something was sent or received since the last wait: wires without a descriptor are then checked at
    /// once.
    pub fn made_progress(&mut self) {
        self.vain_looks = 0;
    }

    /// Pauses if there are wires without a descriptor and the last check was without progress. Returns how long to wait
    /// for the others, in ms.
    fn rest(&mut self, at_most: Duration) -> i32 {
        if self.without.is_empty() {
            return i32::try_from(at_most.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        }
        match self.vain_looks {
            0 => {}
            1..YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(at_most.min(NAP)),
        }
        self.vain_looks = self.vain_looks.saturating_add(1);
        0
    }

    /// System calls made by waits.
    pub fn system_calls(&self) -> u64 {
        self.system_calls
    }
}

/// Whether one descriptor serves both directions.
fn is_one(wire: &dyn Wire) -> bool {
    use std::os::fd::AsRawFd;
    wire.descriptors().is_some_and(|on| on.readable.as_raw_fd() == on.writable.as_raw_fd())
}
