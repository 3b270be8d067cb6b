//! Waits for many wires at once (epoll(7)).
//!
//! Wires of a library share descriptors, and the library holds data and has timers: see [`Readiness`].
//!
//! The cost of a wait depends only on the number of ready wires, and a wait does not allocate. Wires without a
//! descriptor (memory, shared memory) are always reported as ready; if such wires made no progress since the last wait,
//! the next wait pauses first.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use super::readiness::{DescriptorState, Interest, Readiness};
use crate::system::epoll::Epoll;
use crate::wire::Wire;

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

struct Driven {
    token: usize,
    interest: Interest,
    descriptor: RawFd,
    readiness: Arc<dyn Readiness>,
}

/// A descriptor of driven wires, which may share it.
struct Shared {
    descriptor: RawFd,
    /// Whether room to send is an event.
    wants_write: bool,
    state: DescriptorState,
}

/// Marks the tokens of shared descriptors.
const SHARED: u64 = 1 << 63;

/// A set of wires to wait for.
pub struct WireSet {
    epoll: Epoll,
    driven: Vec<Driven>,
    shared: Vec<Shared>,
    without_descriptor: Vec<(usize, Interest)>,
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
        Ok(Self {
            epoll,
            driven: Vec::new(),
            shared: Vec::new(),
            without_descriptor: Vec::new(),
            waits_without_progress: 0,
            system_calls: 0,
        })
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
        if let Some(readiness) = wire.readiness() {
            let descriptor = on.readable.as_raw_fd();
            if self.shared.iter().all(|known| known.descriptor != descriptor) {
                self.epoll.add(on.readable, SHARED | descriptor as u64, true, false)?;
                self.shared.push(Shared { descriptor, wants_write: false, state: DescriptorState::default() });
            }
            self.driven.push(Driven { token, interest, descriptor, readiness });
            return Ok(());
        }
        let (reads, writes) = (interest.reads(), interest.writes());
        if has_one_descriptor(wire) {
            return self.epoll.add(on.readable, token as u64, reads, writes);
        }
        if reads {
            self.epoll.add(on.readable, token as u64, true, false)?;
        }
        if writes { self.epoll.add(on.writable, token as u64, false, true) } else { Ok(()) }
    }

    pub fn remove(&mut self, token: usize, wire: &dyn Wire, interest: Interest) -> io::Result<()> {
        let Some(on) = wire.descriptors() else {
            let index = self.without_descriptor.iter().position(|(known, _)| *known == token);
            let index = index.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            self.without_descriptor.swap_remove(index);
            return Ok(());
        };
        if let Some(index) = self.driven.iter().position(|known| known.token == token) {
            let Driven { descriptor, .. } = self.driven.swap_remove(index);
            if self.driven.iter().all(|known| known.descriptor != descriptor) {
                self.shared.retain(|known| known.descriptor != descriptor);
                return self.epoll.remove(on.readable);
            }
            return Ok(());
        }
        if has_one_descriptor(wire) || interest.reads() {
            self.epoll.remove(on.readable)?;
        }
        if !has_one_descriptor(wire) && interest.writes() { self.epoll.remove(on.writable) } else { Ok(()) }
    }

    /// Waits until a wire is ready, a signal arrives, or `at_most` (rounded up to ms) has passed. Writes the ready
    /// wires to `ready`; a wire may be listed twice.
    pub fn wait(&mut self, at_most: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let at_most = if self.driven.is_empty() { at_most } else { self.drive(at_most, ready)? };
        let at_most_ms = self.pause(at_most);
        self.system_calls += 1;
        let shared = &mut self.shared;
        match self.epoll.wait(at_most_ms) {
            Ok(events) => ready.extend(events.filter_map(|event| {
                if event.token & SHARED != 0 {
                    let descriptor = (event.token & !SHARED) as RawFd;
                    if let Some(known) = shared.iter_mut().find(|known| known.descriptor == descriptor) {
                        known.state = DescriptorState { readable: event.readable, writable: event.writable };
                    }
                    return None;
                }
                Some(Ready {
                    // The token was a `usize` when the wire was added.
                    token: event.token as usize,
                    readable: event.readable,
                    writable: event.writable,
                })
            })),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if !self.driven.is_empty() && ready.is_empty() {
            self.drive(Duration::ZERO, ready)?;
        }
        let without = self.without_descriptor.iter();
        ready.extend(without.map(|(token, interest)| Ready {
            token: *token,
            readable: interest.reads(),
            writable: interest.writes(),
        }));
        Ok(())
    }

    /// Runs the libraries and adds their ready wires to `ready`. Returns how long to wait for events, at most `at_most`.
    fn drive(&mut self, at_most: Duration, ready: &mut Vec<Ready>) -> io::Result<Duration> {
        let mut left = at_most;
        for driven in &self.driven {
            let Some(shared) = self.shared.iter_mut().find(|known| known.descriptor == driven.descriptor) else {
                continue;
            };
            let state = driven.readiness.drive(shared.state, driven.interest);
            let readable = state.readable && driven.interest.reads();
            let writable = state.writable && driven.interest.writes();
            if readable || writable {
                ready.push(Ready { token: driven.token, readable, writable });
                left = Duration::ZERO;
            }
            left = state.due_in.map_or(left, |due_in| left.min(due_in));
            if shared.wants_write != state.wants_write {
                shared.wants_write = state.wants_write;
                let token = SHARED | driven.descriptor as u64;
                self.epoll.change(driven.descriptor, token, state.wants_write)?;
            }
        }
        self.shared.iter_mut().for_each(|known| known.state = DescriptorState::default());
        Ok(left)
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
    wire.descriptors().is_some_and(|on| on.readable.as_raw_fd() == on.writable.as_raw_fd())
}
