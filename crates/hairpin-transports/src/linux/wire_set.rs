//! Waiting for many wires at once (epoll(7)).
//!
//! A wait costs as much as there are ready wires, and allocates nothing. Wires that no descriptor tells of (memory, shared
//! memory) cannot be waited for: they count as ready, and a wait rests a short while before the next look at them, unless
//! the last look was of use.

use std::io;
use std::time::Duration;

use crate::system::epoll::Epoll;
use crate::wire::Wire;

/// What is waited for.
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

/// A wire that can go on. A wire that failed is ready for whatever was asked, and the next call on it tells why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token that the wire was added with.
    pub token: usize,
    /// There may be something to receive.
    pub readable: bool,
    /// There may be room to send.
    pub writable: bool,
}

/// Wires of which some are waited for.
pub struct WireSet {
    epoll: Epoll,
    /// Those without a descriptor: their tokens.
    without: Vec<(usize, Interest)>,
    /// Waits since one was last of use.
    vain_looks: u32,
    system_calls: u64,
}

/// Looks at wires without a descriptor that only yield the CPU between them; after so many they sleep.
const YIELDS: u32 = 200;
/// The longest sleep between two looks at them.
const NAP: Duration = Duration::from_micros(50);
/// The most events that one wait gives, so that whoever serves them looks up soon; what is left comes first in the next.
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

    /// Adds a wire, by a token that [`WireSet::wait`] gives back. A wire that is dropped leaves by itself where it has a
    /// descriptor, else by [`WireSet::remove`].
    ///
    /// # Errors
    /// It is in the set already, or the kernel's limit is reached (`fs.epoll.max_user_watches`).
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

    /// Takes a wire out again.
    ///
    /// # Errors
    /// It is not in the set.
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

    /// Waits until a wire is ready, `at_most` so long (in whole ms, rounded up) or until a signal comes, and puts all that
    /// are into `ready`, after those it holds are taken out. A wire comes at most twice.
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

    /// Something was sent or received since the last wait: then the next look at wires without a descriptor comes at once.
    pub fn made_progress(&mut self) {
        self.vain_looks = 0;
    }

    /// Rests where there are wires without a descriptor and the last look was in vain; how long is still to be waited for
    /// the others, in ms.
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

    /// System calls that waits have made.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.system_calls
    }
}

/// Whether one descriptor stands for both directions.
fn is_one(wire: &dyn Wire) -> bool {
    use std::os::fd::AsRawFd;
    wire.descriptors().is_some_and(|on| on.readable.as_raw_fd() == on.writable.as_raw_fd())
}
