//! Waits for many wires at once (epoll(7)).
//!
//! The cost of a wait depends only on the number of ready wires, and a wait does not allocate. Wires without a
//! descriptor (memory, shared memory) are always reported as ready; if such wires made no progress since the last wait,
//! the next wait pauses first.

use std::io;
use std::time::Duration;

use crate::system::epoll::Epoll;
use crate::wire::Wire;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to receive.
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

/// A wire that is ready. A failed wire is ready for reading and writing; the next call on the wire returns the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token that the wire was added with.
    pub token: usize,
    /// There may be data to receive.
    pub readable: bool,
    /// There may be room to send.
    pub writable: bool,
}

/// A set of wires to wait for.
pub struct WireSet {
    epoll: Epoll,
    /// Tokens of wires without a descriptor.
    without_descriptor: Vec<(usize, Interest)>,
    /// Waits since the last progress.
    waits_without_progress: u32,
    system_calls: u64,
}

/// Waits without progress, for wires without a descriptor, that only yield the CPU. Later waits sleep.
const MAX_YIELDS: u32 = 200;
/// Longest sleep before wires without a descriptor are checked again.
const MAX_SLEEP: Duration = Duration::from_micros(50);
/// Maximum events per wait. The next wait returns the remaining events first.
const MAX_EVENTS: usize = 64;

impl WireSet {
    /// Creates an empty set for about `wires` wires.
    ///
    /// # Errors
    /// The limit of open descriptors is reached (`ulimit -n`).
    pub fn new(wires: usize) -> io::Result<Self> {
        let epoll = Epoll::new(wires.saturating_mul(2).min(MAX_EVENTS))?;
        Ok(Self { epoll, without_descriptor: Vec::new(), waits_without_progress: 0, system_calls: 0 })
    }

    /// Adds a wire with a token that [`WireSet::wait`] returns. Dropping the wire removes it if it has a descriptor;
    /// otherwise call [`WireSet::remove`].
    ///
    /// # Errors
    /// The wire is already in the set, or the kernel's limit is reached (`fs.epoll.max_user_watches`).
    pub fn add(&mut self, token: usize, wire: &dyn Wire, interest: Interest) -> io::Result<()> {
        let Some(on) = wire.descriptors() else {
            self.without_descriptor.push((token, interest));
            return Ok(());
        };
        let (reads, writes) = (interest.reads(), interest.writes());
        if has_one_descriptor(wire) {
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
            let index = self.without_descriptor.iter().position(|(known, _)| *known == token);
            let index = index.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            self.without_descriptor.swap_remove(index);
            return Ok(());
        };
        if has_one_descriptor(wire) || interest.reads() {
            self.epoll.remove(on.readable)?;
        }
        if !has_one_descriptor(wire) && interest.writes() { self.epoll.remove(on.writable) } else { Ok(()) }
    }

    /// Waits until a wire is ready, a signal arrives, or `at_most` (rounded up to ms) has passed. Writes the ready
    /// wires to `ready`; a wire may be listed twice.
    ///
    /// # Errors
    /// The system call failed.
    pub fn wait(&mut self, at_most: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let at_most_ms = self.pause(at_most);
        self.system_calls += 1;
        match self.epoll.wait(at_most_ms) {
            Ok(events) => ready.extend(events.map(|event| Ready {
                // The token was a `usize` when the wire was added.
                token: event.token as usize,
                readable: event.readable,
                writable: event.writable,
            })),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let without = self.without_descriptor.iter();
        ready.extend(without.map(|(token, interest)| Ready {
            token: *token,
            readable: interest.reads(),
            writable: interest.writes(),
        }));
        Ok(())
    }

    /// Reports that data were sent or received: the next wait does not pause for wires without a descriptor.
    pub fn made_progress(&mut self) {
        self.waits_without_progress = 0;
    }

    /// Pauses if the set has wires without a descriptor that made no progress since the last wait. Returns how long to
    /// wait for the other wires, in ms.
    fn pause(&mut self, at_most: Duration) -> i32 {
        if self.without_descriptor.is_empty() {
            return i32::try_from(at_most.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        }
        match self.waits_without_progress {
            0 => {}
            1..MAX_YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(at_most.min(MAX_SLEEP)),
        }
        self.waits_without_progress = self.waits_without_progress.saturating_add(1);
        0
    }

    /// Number of system calls made by waits.
    pub fn system_calls(&self) -> u64 {
        self.system_calls
    }
}

/// Whether one descriptor serves both directions.
fn has_one_descriptor(wire: &dyn Wire) -> bool {
    use std::os::fd::AsRawFd;
    wire.descriptors().is_some_and(|on| on.readable.as_raw_fd() == on.writable.as_raw_fd())
}
