//! One queue per direction inside one process: a baseline and a test double. Makes system calls only to block and to
//! wake threads.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hairpin_model::{Card, Fact, Reach, Receipt, RoughRoundTrip, Waiting, WhyNot, fact_names};

use crate::wire::{Connection, Listener, Setup, Transport, TransportError, Wire, WireError};
use crate::wires::one_wire::OneWire;
use crate::wires::{Deadline, bad_address, check, failed, left_to_accept, second_connection};

pub(super) struct Memory;

const NAME: &str = "memory";

impl Transport for Memory {
    fn card(&self) -> Card {
        Card {
            name: NAME,
            summary: "queues inside one process, without the kernel",
            boundaries: true,
            max_message_bytes: 16 << 20,
            reach: Reach::Process,
            cpu_only: true,
            rough_round_trip: RoughRoundTrip { blocking_ns: 4_500, spinning_ns: 140 },
            waitings: &[Waiting::Block, Waiting::Spin],
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        Ok(Receipt { detail: "needs nothing".to_owned() })
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let queue = || Queue::new(setup.largest_message);
        let pair = Arc::new(Pair { queues: [queue(), queue()], connected: Mutex::new(false), wake: Condvar::new() });
        lock(&LISTENERS).insert(number, Arc::clone(&pair));
        Ok(Box::new(MemoryListener { number, wire: Some(MemoryWire::new(pair, SERVER, setup)) }))
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        let number = address
            .strip_prefix("memory:")
            .and_then(|number| number.parse::<u64>().ok())
            .ok_or_else(|| bad_address(address, "memory:NUMBER"))?;
        let pair = lock(&LISTENERS).remove(&number).ok_or_else(|| {
            let source = io::Error::from(io::ErrorKind::ConnectionRefused);
            failed("connect to", address, source, "is the server a thread of this process?")
        })?;
        *lock(&pair.connected) = true;
        pair.wake.notify_one();
        Ok(OneWire::connection(NAME, MemoryWire::new(pair, CLIENT, setup)))
    }
}

/// Listeners, by the number in their address. A connect removes the listener.
static LISTENERS: Mutex<BTreeMap<u64, Arc<Pair>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The state is valid even if a thread panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct MemoryListener {
    number: u64,
    /// The server's wire; `None` once a client was accepted. Dropping the wire closes the pair.
    wire: Option<MemoryWire>,
}

impl Listener for MemoryListener {
    fn address(&self) -> String {
        format!("memory:{}", self.number)
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        let MemoryWire { pair, timeout, .. } = self.wire.as_ref().ok_or_else(|| second_connection(NAME))?;
        let mut deadline = Deadline::new(*timeout);
        while let Some(left) = left_to_accept(&mut deadline, is_abandoned)? {
            let connected = lock(&pair.connected);
            let waited = pair.wake.wait_timeout_while(connected, left, |connected| !*connected);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                let wire = self.wire.take().ok_or_else(|| second_connection(NAME))?;
                return Ok(OneWire::connection(NAME, wire));
            }
        }
        Err(TransportError::TimedOut { what: "connected", after: *timeout })
    }
}

impl Drop for MemoryListener {
    fn drop(&mut self) {
        lock(&LISTENERS).remove(&self.number);
    }
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

struct Pair {
    /// The receive queues of the client and of the server.
    queues: [Queue; 2],
    connected: Mutex<bool>,
    wake: Condvar,
}

/// A queue with one sender and one receiver; at most one of the two waits.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// A ring of messages, allocated once.
    slots: Box<[Vec<u8>]>,
    first: usize,
    used: usize,
    closed: bool,
    /// Whether an end sleeps. Only then the other end makes the system call to wake it.
    asleep: bool,
}

impl Queue {
    fn new(largest_message: usize) -> Self {
        /// Memory per queue in bytes, unless two messages need more.
        const QUEUE_BYTES: usize = 1 << 20;
        let count = (QUEUE_BYTES / largest_message).clamp(2, 256);
        let slots = (0..count).map(|_| Vec::with_capacity(largest_message)).collect();
        let state = State { slots, first: 0, used: 0, closed: false, asleep: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Repeats `step` until it returns a value, and waits between the attempts; `None` after a time-out.
    fn wait_until<T>(
        &self,
        waiting: Waiting,
        mut deadline: Deadline,
        mut step: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        match waiting {
            Waiting::Spin => loop {
                // The lock is held for a few instructions only, so a retry is short.
                for _ in 0..TRIES_PER_CLOCK_READ {
                    if let Ok(mut state) = self.state.try_lock()
                        && let Some(outcome) = step(&mut state)
                    {
                        self.wake(state);
                        return Some(outcome);
                    }
                    std::hint::spin_loop();
                }
                deadline.left()?;
            },
            _ => {
                let mut state = lock(&self.state);
                loop {
                    if let Some(outcome) = step(&mut state) {
                        self.wake(state);
                        return Some(outcome);
                    }
                    state.asleep = true;
                    let left = deadline.left()?;
                    state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::take(&mut state.asleep) {
            drop(state);
            self.changed.notify_one();
        }
    }
}

/// Attempts of a spinning end between two clock reads.
const TRIES_PER_CLOCK_READ: u32 = 1024;

impl State {
    fn push(&mut self, message: &[u8]) -> Option<Result<(), WireError>> {
        if self.closed {
            return Some(Err(WireError::Closed));
        }
        if self.used == self.slots.len() {
            return None;
        }
        let last = (self.first + self.used) % self.slots.len();
        self.slots[last].clear();
        self.slots[last].extend_from_slice(message);
        self.used += 1;
        Some(Ok(()))
    }

    fn pop(&mut self, into: &mut [u8]) -> Option<Result<usize, WireError>> {
        if self.used == 0 {
            return self.closed.then_some(Err(WireError::Closed));
        }
        let message = &self.slots[self.first];
        let bytes = message.len().min(into.len());
        into[..bytes].copy_from_slice(&message[..bytes]);
        self.first = (self.first + 1) % self.slots.len();
        self.used -= 1;
        Some(Ok(bytes))
    }
}

struct MemoryWire {
    pair: Arc<Pair>,
    end: usize,
    waiting: Waiting,
    timeout: Duration,
    largest_message: usize,
}

impl MemoryWire {
    fn new(pair: Arc<Pair>, end: usize, setup: &Setup) -> Self {
        let Setup { waiting, timeout, largest_message, .. } = *setup;
        Self { pair, end, waiting, timeout, largest_message }
    }

    fn check_size(&self, message: &[u8]) -> Result<(), WireError> {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        let fits = message.len() <= self.largest_message;
        if fits { Ok(()) } else { Err(WireError::System { operation: "send", source }) }
    }

    fn incoming(&self) -> &Queue {
        &self.pair.queues[self.end]
    }

    fn outgoing(&self) -> &Queue {
        &self.pair.queues[1 - self.end]
    }
}

impl Wire for MemoryWire {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.check_size(message)?;
        let timed_out = || Err(Deadline::timed_out("send", self.timeout));
        let deadline = Deadline::new(self.timeout);
        self.outgoing().wait_until(self.waiting, deadline, |state| state.push(message)).unwrap_or_else(timed_out)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let timed_out = || Err(Deadline::timed_out("receive", self.timeout));
        let deadline = Deadline::new(self.timeout);
        self.incoming().wait_until(self.waiting, deadline, |state| state.pop(into)).unwrap_or_else(timed_out)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        let mut state = lock(&self.incoming().state);
        let message = state.pop(into);
        self.incoming().wake(state);
        message.transpose()
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        self.check_size(bytes)?;
        let mut state = lock(&self.outgoing().state);
        let pushed = state.push(bytes);
        self.outgoing().wake(state);
        pushed.transpose().map(|pushed| pushed.map_or(0, |()| bytes.len()))
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        let is_ready = |state: &mut State| (state.used > 0 || state.closed).then_some(());
        Ok(self.incoming().wait_until(self.waiting, Deadline::from_now(at_most), is_ready).is_some())
    }

    fn effective(&self) -> Vec<Fact> {
        let slots = lock(&self.outgoing().state).slots.len();
        vec![Fact::number(fact_names::MEMORY_SLOTS, slots as f64)]
    }
}

impl Drop for MemoryWire {
    fn drop(&mut self) {
        for queue in &self.pair.queues {
            let mut state = lock(&queue.state);
            state.closed = true;
            queue.wake(state);
        }
    }
}
