//! Two rings in one anonymous memory file that both processes map (memfd_create(2)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use hairpin_model::{Card, Fact, Receipt, RoughRoundTrip, Waiting, WhyNot, fact_names};

use crate::system::alarm::Alarm;
use crate::system::futex::{self, Awake};
use crate::system::map::{Map, fence};
use crate::system::pipe::{Access, memory_file, open_of_process, open_own, path_of, sealed_length};
use crate::system::process::Process;
use crate::wire::{Connection, Listener, Setup, Transport, TransportError, Wire, WireError};
use crate::wires::one_wire::OneWire;
use crate::wires::ring::{Layout, Rings};
use crate::wires::{Deadline, bad_address, check, failed, left_to_accept, second_connection};

#[cfg(all(test, loom))]
mod loom_tests;

pub(super) struct Shm;

const NAME: &str = "shm";

impl Transport for Shm {
    fn card(&self) -> Card {
        Card {
            name: NAME,
            summary: "two rings in memory that both ends share",
            boundaries: true,
            max_message_bytes: 16 << 20,
            cpu_only: true,
            rough_round_trip: RoughRoundTrip { blocking_ns: 4_500, spinning_ns: 140 },
            // Shared memory has no descriptor to `poll`.
            waitings: &[Waiting::Block, Waiting::Spin],
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        let why_not = |error: io::Error| {
            WhyNot::new(
                format!("cannot share a memory file: {error}"),
                "use Linux 3.17 or later (memfd_create), and mount /proc",
            )
        };
        let file = memory_file(Layout::SLOTS).map_err(why_not)?;
        Map::new(file.as_fd(), Layout::SLOTS).map_err(why_not)?;
        open_own(&file, Access::Both).map_err(why_not)?;
        Ok(Receipt { detail: "sealed memory file".to_owned() })
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        let layout = Layout::for_messages_of(setup.largest_message);
        let error = |source| failed("create", "shared memory", source, "is there enough free memory?");
        let file = memory_file(layout.total_bytes()).map_err(error)?;
        let map = Map::new(file.as_fd(), layout.total_bytes()).map_err(error)?;
        layout.write(&map);
        let ends = RingEnd::new(map, layout, SERVER, setup);
        let address = format!("{}:{}", std::process::id(), file.as_raw_fd());
        Ok(Box::new(ShmListener { address, rings: Some((file, ends)), setup: setup.clone() }))
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        let (pid, number) = address
            .split_once(':')
            .and_then(|(pid, number)| Some((pid.parse::<u32>().ok()?, number.parse::<i32>().ok()?)))
            .ok_or_else(|| bad_address(address, "PID:fd"))?;
        let error = |source| failed("connect to", address, source, "is the server running, and as the same user?");
        let (map, layout) = open_ring(pid, number).map_err(error)?;
        if layout.message_bytes() < setup.largest_message {
            let text = format!("the server at {address} accepts messages of up to {} bytes", layout.message_bytes());
            return Err(error(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let occupied = || error(io::Error::new(io::ErrorKind::AddrInUse, "another client has already connected"));
        let ends = RingEnd::connect(map, layout, setup).ok_or_else(occupied)?;
        Ok(OneWire::connection(NAME, ShmWire::new(ends, setup)?))
    }
}

/// Opens, maps and validates the memory file of another process.
fn open_ring(pid: u32, number: i32) -> io::Result<(Map, Layout)> {
    let garbage = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let target = std::fs::read_link(path_of(pid, number))?;
    if !target.to_string_lossy().starts_with("/memfd:hairpin") {
        return Err(garbage("the address does not name a Hairpin ring"));
    }
    let file = open_of_process(pid, number, Access::Both)?;
    let length = sealed_length(file.as_fd())?;
    let map = Map::new(file.as_fd(), length)?;
    let layout = Layout::read(&map, length).ok_or_else(|| garbage("the memory file has no Hairpin rings"))?;
    Ok((map, layout))
}

/// Values of the word at [`Layout::HELLO`].
const NO_CLIENT: u32 = 0;
const CONNECTING: u32 = 1;
const CONNECTED: u32 = 2;

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// One end of the shared memory. Dropping it notifies the other end.
struct RingEnd {
    map: Map,
    layout: Layout,
    own: usize,
    /// The other end's process, to detect its death; `None` if the other end is unknown or in this process.
    peer: Option<Process>,
    /// Whether the other end sleeps while it waits, and so must be woken.
    peer_blocks: bool,
}

impl RingEnd {
    fn new(map: Map, layout: Layout, own: usize, setup: &Setup) -> Self {
        let about = Layout::ABOUT[own];
        map.word(about + Layout::BLOCKS).store(u32::from(setup.waiting == Waiting::Block), Relaxed);
        map.word(about + Layout::PID).store(std::process::id(), Relaxed);
        Self { map, layout, own, peer: None, peer_blocks: false }
    }

    /// Connects as the client; `None` if another client has already connected.
    fn connect(map: Map, layout: Layout, setup: &Setup) -> Option<Self> {
        map.word(Layout::HELLO).compare_exchange(NO_CLIENT, CONNECTING, Relaxed, Relaxed).ok()?;
        let mut ends = Self::new(map, layout, CLIENT, setup);
        ends.read_peer();
        ends.map.word(Layout::HELLO).store(CONNECTED, Release);
        futex::wake(ends.map.word(Layout::HELLO));
        Some(ends)
    }

    /// Waits for the client.
    fn accept_hello(
        &self,
        setup: &Setup,
        address: &str,
        is_abandoned: &mut dyn FnMut() -> bool,
    ) -> Result<(), TransportError> {
        let hello = self.map.word(Layout::HELLO);
        let mut deadline = Deadline::new(setup.timeout);
        while let Some(left) = left_to_accept(&mut deadline, is_abandoned)? {
            let state = hello.load(Acquire);
            if state == CONNECTED {
                return Ok(());
            }
            futex::wait(hello, state, Some(left)).map_err(|source| failed("accept at", address, source, ""))?;
        }
        Err(TransportError::TimedOut { what: "connected", after: setup.timeout })
    }

    /// Reads the words in which the other end describes itself.
    fn read_peer(&mut self) {
        let about = Layout::ABOUT[1 - self.own];
        self.peer_blocks = self.map.word(about + Layout::BLOCKS).load(Relaxed) != 0;
        let pid = self.map.word(about + Layout::PID).load(Relaxed);
        // Threads of the same process end together.
        self.peer = if pid == std::process::id() { None } else { Process::new(pid) };
    }

    #[inline]
    fn peer_has_closed(&self) -> bool {
        self.map.word(Layout::ABOUT[1 - self.own] + Layout::CLOSED).load(Acquire) != 0
    }

    fn peer_is_gone(&self) -> bool {
        self.peer_has_closed() || self.peer.as_ref().is_some_and(Process::has_ended)
    }
}

impl Drop for RingEnd {
    fn drop(&mut self) {
        self.map.word(Layout::ABOUT[self.own] + Layout::CLOSED).store(1, Release);
        // As in `ShmWire::wake`: the other end sees the close before it sleeps, or this end wakes it.
        fence(SeqCst);
        // The other end may sleep as the consumer of one ring or as the producer of the other.
        for asleep in [Layout::CONSUMER_ASLEEP, Layout::PRODUCER_ASLEEP] {
            for ring in Layout::RINGS {
                let asleep = self.map.word(ring + asleep);
                asleep.store(0, Relaxed);
                futex::wake(asleep);
            }
        }
    }
}

struct ShmListener {
    address: String,
    /// The file that the client opens through `/proc`, and the server's end; `None` once a client has connected.
    rings: Option<(OwnedFd, RingEnd)>,
    setup: Setup,
}

impl Listener for ShmListener {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        let Self { address, rings, setup } = self;
        let none_left = || second_connection(NAME);
        rings.as_ref().ok_or_else(none_left)?.1.accept_hello(setup, address, is_abandoned)?;
        let (_, mut ends) = rings.take().ok_or_else(none_left)?;
        ends.read_peer();
        Ok(OneWire::connection(NAME, ShmWire::new(ends, setup)?))
    }
}

/// One end of two rings.
struct ShmWire {
    ends: RingEnd,
    rings: Rings,
    waiting: Waiting,
    timeout: Duration,
    /// Interrupts sleeps, so that this end can check its deadline; `None` if this end spins.
    alarm: Option<Alarm>,
    /// Sleeps that ended without a wake-up although data or room was available: lost or simultaneous wake-ups.
    late_wakes: u64,
}

/// Attempts of a spinning end between two clock reads; together they take some microseconds.
const TRIES_PER_CLOCK_READ: u32 = 4096;
/// Clock reads between two system calls that check the other process; together they take some milliseconds.
const READS_PER_CHECK: u32 = 1024;
/// Longest sleep with a timer before checking that the other process is alive.
const MAX_SLEEP: Duration = Duration::from_millis(200);

impl ShmWire {
    fn new(ends: RingEnd, setup: &Setup) -> Result<Self, TransportError> {
        let error = |source| {
            failed("set an alarm for", "shared memory", source, "is a limit on signals (ulimit -i) reached?")
        };
        let alarm =
            (setup.waiting == Waiting::Block).then(|| Alarm::start(setup.timeout)).transpose().map_err(error)?;
        let rings = Rings::new(ends.layout, ends.own);
        Ok(Self { ends, rings, waiting: setup.waiting, timeout: setup.timeout, alarm, late_wakes: 0 })
    }

    /// Refuses messages that do not fit into a slot, and all messages once the other end has closed.
    #[inline]
    fn check(&self, message: &[u8]) -> Result<(), WireError> {
        if message.len() > self.ends.layout.message_bytes() {
            let source = io::Error::from_raw_os_error(libc::EMSGSIZE);
            return Err(WireError::System { operation: "send", source });
        }
        if self.ends.peer_has_closed() { Err(WireError::Closed) } else { Ok(()) }
    }

    #[inline]
    fn is_ready(&self) -> bool {
        self.rings.is_ready(&self.ends.map)
    }

    #[inline]
    fn has_room(&mut self) -> bool {
        self.rings.has_room(&self.ends.map)
    }

    /// Receives the next message; `None` if no message is available.
    #[inline]
    fn pop(&mut self, into: &mut [u8]) -> Option<usize> {
        let bytes = self.rings.pop(&self.ends.map, into)?;
        self.wake(self.rings.peer_asleep().0);
        Some(bytes)
    }

    /// Wakes the other end if it has announced that it sleeps.
    ///
    /// A sleeper sets the word `asleep`, then checks the ring once more. The other end changes the ring, then reads the
    /// word. With fences between these steps, at least one end sees the other end's change, so no wake-up is lost.
    #[inline]
    fn wake(&self, asleep: usize) {
        if self.ends.peer_blocks {
            fence(SeqCst);
            let asleep = self.ends.map.word(asleep);
            if asleep.load(Relaxed) != 0 {
                asleep.store(0, Relaxed);
                futex::wake(asleep);
            }
        }
    }

    /// Waits until `is_ready` returns true; false after the time-out. `asleep` is the word with which a blocking end
    /// announces its sleep.
    fn wait_until(
        &mut self,
        asleep: usize,
        deadline: Deadline,
        is_ready: impl Fn(&mut Self) -> bool,
    ) -> Result<bool, WireError> {
        if self.waiting == Waiting::Spin {
            return self.spin(deadline, is_ready);
        }
        let slept = self.sleep(asleep, deadline, is_ready);
        self.ends.map.word(asleep).store(0, Relaxed);
        slept
    }

    fn spin(&mut self, mut deadline: Deadline, is_ready: impl Fn(&mut Self) -> bool) -> Result<bool, WireError> {
        let mut reads = 0_u32;
        loop {
            for _ in 0..TRIES_PER_CLOCK_READ {
                if is_ready(self) {
                    return Ok(true);
                }
            }
            reads += 1;
            let gone = self.ends.peer_has_closed()
                || reads.is_multiple_of(READS_PER_CHECK) && self.ends.peer.as_ref().is_some_and(Process::has_ended);
            if gone {
                return self.on_closed(is_ready);
            }
            if deadline.left().is_none() {
                return self.on_time_out(is_ready);
            }
        }
    }

    fn sleep(
        &mut self,
        asleep: usize,
        mut deadline: Deadline,
        is_ready: impl Fn(&mut Self) -> bool,
    ) -> Result<bool, WireError> {
        loop {
            self.ends.map.word(asleep).store(1, Relaxed);
            fence(SeqCst);
            if is_ready(self) {
                return Ok(true);
            }
            if self.ends.peer_has_closed() {
                return self.on_closed(is_ready);
            }
            let woken = self.sleep_once(asleep, deadline.running())?;
            if is_ready(self) {
                self.late_wakes += u64::from(woken != Awake::LookAgain);
                return Ok(true);
            }
            if woken != Awake::LookAgain && self.ends.peer_is_gone() {
                return self.on_closed(is_ready);
            }
            if deadline.left().is_none() {
                return self.on_time_out(is_ready);
            }
        }
    }

    /// The other end may have sent a message, or made room, before it closed.
    #[cold]
    fn on_closed(&mut self, is_ready: impl Fn(&mut Self) -> bool) -> Result<bool, WireError> {
        if is_ready(self) { Ok(true) } else { Err(WireError::Closed) }
    }

    /// Sleeps once, until woken, interrupted or `at_most` has passed. With `None`, no timer is set, since a timer would
    /// cost time in each round trip; the alarm interrupts the sleep periodically instead.
    fn sleep_once(&mut self, asleep: usize, at_most: Option<Duration>) -> Result<Awake, WireError> {
        let system = |source| WireError::System { operation: "futex wait", source };
        if let (None, Some(alarm)) = (at_most, &mut self.alarm) {
            alarm.follow().map_err(system)?;
        }
        futex::wait(self.ends.map.word(asleep), 1, at_most.map(|most| most.min(MAX_SLEEP))).map_err(system)
    }

    /// Ends a wait at its time-out. Also checks whether the other end has ended, since the time-out may be shorter than
    /// the interval of these checks.
    #[cold]
    fn on_time_out(&mut self, is_ready: impl Fn(&mut Self) -> bool) -> Result<bool, WireError> {
        if self.ends.peer_is_gone() { self.on_closed(is_ready) } else { Ok(is_ready(self)) }
    }
}

impl Wire for ShmWire {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.check(message)?;
        if !self.has_room() {
            let deadline = Deadline::new(self.timeout);
            if !self.wait_until(self.rings.producer_asleep(), deadline, Self::has_room)? {
                return Err(Deadline::timed_out("send", self.timeout));
            }
        }
        self.rings.push(&self.ends.map, message);
        self.wake(self.rings.peer_asleep().1);
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        loop {
            // A spinning end receives the message with the same load that finds it.
            let tries = if self.waiting == Waiting::Spin { TRIES_PER_CLOCK_READ } else { 1 };
            for _ in 0..tries {
                if let Some(bytes) = self.pop(into) {
                    return Ok(bytes);
                }
            }
            let deadline = Deadline::new(self.timeout);
            if !self.wait_until(self.rings.consumer_asleep(), deadline, |wire| wire.is_ready())? {
                return Err(Deadline::timed_out("receive", self.timeout));
            }
        }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        if let Some(bytes) = self.pop(into) {
            return Ok(Some(bytes));
        }
        if !self.ends.peer_has_closed() {
            return Ok(None);
        }
        // The other end may have sent a message before it closed.
        self.pop(into).map(Some).ok_or(WireError::Closed)
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        self.check(bytes)?;
        if !self.has_room() {
            return Ok(0);
        }
        self.rings.push(&self.ends.map, bytes);
        self.wake(self.rings.peer_asleep().1);
        Ok(bytes.len())
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        if self.is_ready() {
            return Ok(true);
        }
        let asleep = self.rings.consumer_asleep();
        match self.wait_until(asleep, Deadline::from_now(at_most), |wire| wire.is_ready()) {
            Err(WireError::Closed) => Ok(true),
            waited => waited,
        }
    }

    fn effective(&self) -> Vec<Fact> {
        vec![
            Fact::number(fact_names::SHM_SLOTS, self.ends.layout.slot_count as f64),
            Fact::number(fact_names::SHM_SLOT_BYTES, self.ends.layout.slot_bytes as f64),
            Fact::number(fact_names::SHM_LATE_WAKES, self.late_wakes as f64),
        ]
    }
}
