//! Two rings in one anonymous memory file that both processes map (memfd_create(2)).
//!
//! Each ring has one producer and one consumer. A slot starts with a word that holds the message's length and the
//! number of the lap; the consumer watches that word, and the payload follows in the same cache line, so a small
//! message moves one cache line and nothing else. The producer looks at the consumer's position only when its own
//! copy of it says that the ring may be full.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};
use std::time::Duration;

use hairpin_model::card::{AnsweredBy, Card, Reach, Receipt, WhyNot};
use hairpin_model::case::Waiting;
use hairpin_model::fact::Fact;

use crate::system::futex::{self, Awake};
use crate::system::map::Map;
use crate::system::pipe::{Access, memory_file, open_of_process, path_of, sealed_length};
use crate::system::process::Process;
use crate::wire::{Accept, Setup, Transport, TransportError, Wire, WireError};
use crate::wires::{Deadline, bad_address, check, failed};

/// `shm`.
pub(super) struct Shm;

impl Transport for Shm {
    fn card(&self) -> Card {
        Card {
            name: "shm",
            summary: "two rings in memory that both ends share",
            ordered: true,
            lossless: true,
            boundaries: true,
            max_message_bytes: 16 << 20,
            min_message_bytes: 1,
            answered_by: AnsweredBy::EchoHalf,
            reach: Reach::Machine,
            // There is no descriptor that `poll` could wait for.
            waitings: &[Waiting::Block, Waiting::Spin],
            options: &[],
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        let why_not = |error: io::Error| WhyNot {
            reason: format!("cannot share a memory file: {error}"),
            hint: "it needs memfd_create (Linux 3.17) and /proc".to_owned(),
        };
        let file = memory_file(Layout::SLOTS).map_err(why_not)?;
        Map::new(file.as_fd(), Layout::SLOTS).map_err(why_not)?;
        open_of_process(std::process::id(), file.as_raw_fd(), Access::Both).map_err(why_not)?;
        Ok(Receipt { detail: "sealed memory file".to_owned() })
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Accept>, TransportError> {
        check(&self.card(), setup)?;
        let layout = Layout::for_messages_of(setup.largest_message);
        let error = |source| failed("make", "shared memory", source, "is there enough free memory?");
        let file = memory_file(layout.total_bytes()).map_err(error)?;
        let map = Map::new(file.as_fd(), layout.total_bytes()).map_err(error)?;
        layout.write(&map);
        let ends = Ends::new(map, layout, FAR, setup);
        Ok(Box::new(Listener { file, ends, setup: setup.clone() }))
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Wire>, TransportError> {
        check(&self.card(), setup)?;
        let (pid, number) = address
            .split_once(':')
            .and_then(|(pid, number)| Some((pid.parse::<u32>().ok()?, number.parse::<i32>().ok()?)))
            .ok_or_else(|| bad_address(address, "PID:fd"))?;
        let error =
            |source| failed("connect to", address, source, "is the other half running, and as the same user?");
        let (map, layout) = open_ring(pid, number).map_err(error)?;
        if layout.message_bytes() < setup.largest_message {
            let text = format!("the far end at {address} takes messages of {} bytes at most", layout.message_bytes());
            return Err(error(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        if map.word(Layout::HELLO).compare_exchange(NOBODY, COMING, SeqCst, SeqCst).is_err() {
            let taken = io::Error::new(io::ErrorKind::AddrInUse, "somebody has connected there before");
            return Err(error(taken));
        }
        let mut ends = Ends::new(map, layout, NEAR, setup);
        ends.meet();
        ends.map.word(Layout::HELLO).store(HERE, SeqCst);
        futex::wake(ends.map.word(Layout::HELLO));
        Ok(Box::new(ShmWire::new(ends, setup)))
    }
}

/// Opens and maps the memory file of another process, and checks that it is what it should be.
fn open_ring(pid: u32, number: i32) -> io::Result<(Map, Layout)> {
    let garbage = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let target = std::fs::read_link(path_of(pid, number))?;
    if !target.to_string_lossy().starts_with("/memfd:hairpin") {
        return Err(garbage("the address does not name a ring of ours"));
    }
    let file = open_of_process(pid, number, Access::Both)?;
    let length = sealed_length(file.as_fd())?;
    if length < Layout::SLOTS {
        return Err(garbage("the memory file is too short"));
    }
    let map = Map::new(file.as_fd(), length)?;
    let layout = Layout::read(&map, length).ok_or_else(|| garbage("the memory file holds no rings of ours"))?;
    Ok((map, layout))
}

/// Where everything is in the memory file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    slot_bytes: usize,
    /// A power of two.
    slot_count: usize,
}

const NOBODY: u32 = 0;
const COMING: u32 = 1;
const HERE: u32 = 2;

/// What a ring may hold, unless two messages need more: small enough to stay in a second-level cache.
const RING_BYTES: usize = 1 << 20;
const MOST_SLOTS: usize = 256;
const SLOT_HEADER_BYTES: usize = 8;
const CACHE_LINE_BYTES: usize = 64;

impl Layout {
    const MAGIC_WORD: u64 = u64::from_be_bytes(*b"hairpin1");
    const MAGIC: usize = 0;
    const SLOT_BYTES: usize = 8;
    const SLOT_COUNT: usize = 16;
    /// Whether the near end has come; a futex.
    const HELLO: usize = 24;
    /// What each end says about itself, an end each: its process, whether it sleeps, whether it has closed.
    const ABOUT: [usize; 2] = [256, 384];
    const PID: usize = 0;
    const BLOCKS: usize = 4;
    const CLOSED: usize = 8;
    /// The words of the two rings, named after who consumes.
    const RINGS: [usize; 2] = [512, 1024];
    /// Within a ring's words, each in cache lines of its own: adjacent lines are fetched in pairs.
    const POSITION: usize = 0;
    const CONSUMER_ASLEEP: usize = 128;
    const PRODUCER_ASLEEP: usize = 256;
    /// The first slot; the near end's ring comes first.
    const SLOTS: usize = 4096;

    fn for_messages_of(largest: usize) -> Self {
        let slot_bytes = (largest + SLOT_HEADER_BYTES).next_multiple_of(CACHE_LINE_BYTES);
        let fitting = (RING_BYTES / slot_bytes).clamp(2, MOST_SLOTS);
        Self { slot_bytes, slot_count: 1 << fitting.ilog2() }
    }

    fn message_bytes(self) -> usize {
        self.slot_bytes - SLOT_HEADER_BYTES
    }

    fn total_bytes(self) -> usize {
        Self::SLOTS + 2 * self.slot_bytes * self.slot_count
    }

    fn slots_of(self, end: usize) -> usize {
        Self::SLOTS + end * self.slot_bytes * self.slot_count
    }

    fn write(self, map: &Map) {
        map.long_word(Self::SLOT_BYTES).store(self.slot_bytes as u64, Relaxed);
        map.long_word(Self::SLOT_COUNT).store(self.slot_count as u64, Relaxed);
        map.long_word(Self::MAGIC).store(Self::MAGIC_WORD, Release);
    }

    /// Reads it from a map of `length` bytes; `None` when that cannot be.
    fn read(map: &Map, length: usize) -> Option<Self> {
        if map.long_word(Self::MAGIC).load(Acquire) != Self::MAGIC_WORD {
            return None;
        }
        let slot_bytes = usize::try_from(map.long_word(Self::SLOT_BYTES).load(Relaxed)).ok()?;
        let slot_count = usize::try_from(map.long_word(Self::SLOT_COUNT).load(Relaxed)).ok()?;
        let fits = slot_bytes.checked_mul(slot_count)?.checked_mul(2)?.checked_add(Self::SLOTS)? == length;
        let is_sound = slot_bytes >= CACHE_LINE_BYTES
            && slot_bytes.is_multiple_of(CACHE_LINE_BYTES)
            && slot_count.is_power_of_two();
        (fits && is_sound).then_some(Self { slot_bytes, slot_count })
    }
}

const NEAR: usize = 0;
const FAR: usize = 1;

/// One end's hold on the shared memory. Dropping it tells the other end.
struct Ends {
    map: Map,
    layout: Layout,
    own: usize,
    /// The other end, once it is known; it may die without a word.
    peer: Option<Process>,
    /// The other end may sleep, and must then be woken.
    peer_blocks: bool,
}

impl Ends {
    fn new(map: Map, layout: Layout, own: usize, setup: &Setup) -> Self {
        let about = Layout::ABOUT[own];
        map.word(about + Layout::BLOCKS).store(u32::from(setup.waiting == Waiting::Block), SeqCst);
        map.word(about + Layout::PID).store(std::process::id(), SeqCst);
        Self { map, layout, own, peer: None, peer_blocks: false }
    }

    /// Reads what the other end says about itself.
    fn meet(&mut self) {
        let about = Layout::ABOUT[1 - self.own];
        self.peer_blocks = self.map.word(about + Layout::BLOCKS).load(SeqCst) != 0;
        let pid = self.map.word(about + Layout::PID).load(SeqCst);
        // Two threads of one process cannot outlive each other.
        self.peer = if pid == std::process::id() { None } else { Process::new(pid) };
    }

    #[inline]
    fn peer_has_closed(&self) -> bool {
        self.map.word(Layout::ABOUT[1 - self.own] + Layout::CLOSED).load(Acquire) != 0
    }

    fn peer_is_gone(&self) -> bool {
        self.peer_has_closed() || self.peer.as_ref().is_some_and(Process::is_gone)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.map.word(Layout::ABOUT[self.own] + Layout::CLOSED).store(1, SeqCst);
        // The other end may sleep as the consumer of one ring or as the producer of the other.
        for asleep in [Layout::CONSUMER_ASLEEP, Layout::PRODUCER_ASLEEP] {
            for ring in Layout::RINGS {
                let asleep = self.map.word(ring + asleep);
                asleep.store(0, SeqCst);
                futex::wake(asleep);
            }
        }
    }
}

struct Listener {
    /// What the near end opens through `/proc`; not needed once it has.
    file: OwnedFd,
    ends: Ends,
    setup: Setup,
}

impl Accept for Listener {
    fn address(&self) -> String {
        format!("{}:{}", std::process::id(), self.file.as_raw_fd())
    }

    fn accept(self: Box<Self>) -> Result<Box<dyn Wire>, TransportError> {
        let address = self.address();
        let Self { file, mut ends, setup } = *self;
        let mut deadline = Deadline::new(setup.timeout);
        loop {
            let hello = ends.map.word(Layout::HELLO);
            let said = hello.load(SeqCst);
            if said == HERE {
                break;
            }
            let Some(left) = deadline.left() else {
                return Err(TransportError::TimedOut { what: "connected", after: setup.timeout });
            };
            futex::wait(hello, said, left).map_err(|source| failed("accept at", &address, source, ""))?;
        }
        drop(file);
        ends.meet();
        Ok(Box::new(ShmWire::new(ends, &setup)))
    }
}

/// One end of two rings: it consumes the one and produces into the other.
struct ShmWire {
    ends: Ends,
    waiting: Waiting,
    timeout: Duration,
    /// Where its slots start, and how many messages have been taken or put.
    incoming: Ring,
    outgoing: Ring,
    /// Up to which position the outgoing ring is known to have been emptied.
    emptied: u64,
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    words: usize,
    slots: usize,
    slot_bytes: usize,
    slot_count: u64,
    position: u64,
}

impl Ring {
    fn new(layout: Layout, consumer: usize) -> Self {
        let Layout { slot_bytes, slot_count } = layout;
        let (words, slots) = (Layout::RINGS[consumer], layout.slots_of(consumer));
        Self { words, slots, slot_bytes, slot_count: slot_count as u64, position: 0 }
    }

    /// Where the slot of the current position is.
    #[inline]
    fn slot(&self) -> usize {
        // Below `slot_count`, which is a `usize`.
        self.slots + (self.position & (self.slot_count - 1)) as usize * self.slot_bytes
    }

    /// The lap of the current position, from 1: what a slot's word must say for its message to be this one. Only
    /// neighbouring laps ever meet in a slot, so 32 bits suffice for any number of messages.
    #[inline]
    fn lap(&self) -> u32 {
        (self.position >> self.slot_count.trailing_zeros()) as u32 + 1
    }
}

/// How often a spinning end looks at its cache line before it reads the clock: some microseconds apart.
const TRIES_PER_LOOK: u32 = 4096;
/// How many of those looks pass between two looks at the other process, a system call each: some milliseconds.
const LOOKS_PER_CHECK: u32 = 1024;
/// The longest sleep of a blocking end before it makes sure that the other process still lives.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// What a wait ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Ready,
    TimedOut,
    Closed,
}

impl ShmWire {
    fn new(ends: Ends, setup: &Setup) -> Self {
        let Setup { waiting, timeout, .. } = *setup;
        let (incoming, outgoing) = (Ring::new(ends.layout, ends.own), Ring::new(ends.layout, 1 - ends.own));
        Self { ends, waiting, timeout, incoming, outgoing, emptied: 0 }
    }

    /// The word at the head of the slot where the next message will be.
    #[inline]
    fn next_header(&self) -> u64 {
        self.ends.map.long_word(self.incoming.slot()).load(Acquire)
    }

    #[inline]
    fn is_ready(&self) -> bool {
        (self.next_header() >> 32) as u32 == self.incoming.lap()
    }

    /// Takes the next message if it is there.
    #[inline]
    fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        let header = self.next_header();
        if (header >> 32) as u32 != self.incoming.lap() {
            return None;
        }
        // The other process wrote the length: whatever it says, no more than a slot is read.
        let bytes = (header as u32 as usize).min(self.ends.layout.message_bytes()).min(into.len());
        self.ends.map.copy_out(self.incoming.slot() + SLOT_HEADER_BYTES, &mut into[..bytes]);
        self.incoming.position += 1;
        let position = self.ends.map.long_word(self.incoming.words + Layout::POSITION);
        position.store(self.incoming.position, Release);
        self.wake(self.incoming.words + Layout::PRODUCER_ASLEEP);
        Some(bytes)
    }

    /// Whether there is room for one more message.
    #[inline]
    fn has_room(&mut self) -> bool {
        if self.outgoing.position - self.emptied < self.outgoing.slot_count {
            return true;
        }
        let emptied = self.ends.map.long_word(self.outgoing.words + Layout::POSITION).load(Acquire);
        // The other process wrote it: what cannot be is no room.
        if emptied <= self.outgoing.position {
            self.emptied = emptied;
        }
        self.outgoing.position - self.emptied < self.outgoing.slot_count
    }

    #[inline]
    fn put(&mut self, message: &[u8]) {
        let slot = self.outgoing.slot();
        self.ends.map.copy_in(slot + SLOT_HEADER_BYTES, message);
        let header = u64::from(self.outgoing.lap()) << 32 | message.len() as u64;
        self.ends.map.long_word(slot).store(header, Release);
        self.outgoing.position += 1;
        self.wake(self.outgoing.words + Layout::CONSUMER_ASLEEP);
    }

    /// Wakes the other end if it says that it sleeps.
    ///
    /// It says so, then looks once more whether it must; we have changed what it looks at, then look whether it says
    /// so. With a fence between the two on both sides at least one of us sees the other, and no wake-up is lost.
    #[inline]
    fn wake(&self, asleep: usize) {
        if self.ends.peer_blocks {
            fence(SeqCst);
            let asleep = self.ends.map.word(asleep);
            if asleep.load(Relaxed) != 0 {
                asleep.store(0, SeqCst);
                futex::wake(asleep);
            }
        }
    }

    /// Waits until `is_ready`; `asleep` is the word by which a blocking end says that it sleeps.
    fn until(
        &mut self,
        asleep: usize,
        at_most: Duration,
        is_ready: impl Fn(&mut Self) -> bool,
    ) -> Result<Waited, WireError> {
        match self.waiting {
            Waiting::Spin => Ok(self.spin(at_most, is_ready)),
            Waiting::Block | Waiting::Poll => self.sleep(asleep, at_most, is_ready),
        }
    }

    fn spin(&mut self, at_most: Duration, is_ready: impl Fn(&mut Self) -> bool) -> Waited {
        let mut deadline = Deadline::new(at_most);
        let mut looks = 0_u32;
        loop {
            for _ in 0..TRIES_PER_LOOK {
                if is_ready(self) {
                    return Waited::Ready;
                }
            }
            looks += 1;
            let gone = self.ends.peer_has_closed()
                || looks.is_multiple_of(LOOKS_PER_CHECK) && self.ends.peer.as_ref().is_some_and(Process::is_gone);
            if gone {
                // It may have sent one more before it went.
                return if is_ready(self) { Waited::Ready } else { Waited::Closed };
            }
            if deadline.left().is_none() {
                return self.give_up(is_ready);
            }
        }
    }

    fn sleep(
        &mut self,
        asleep: usize,
        at_most: Duration,
        is_ready: impl Fn(&mut Self) -> bool,
    ) -> Result<Waited, WireError> {
        let mut deadline = Deadline::new(at_most);
        let mut left = at_most;
        loop {
            self.ends.map.word(asleep).store(1, SeqCst);
            fence(SeqCst);
            if is_ready(self) {
                self.awake(asleep);
                return Ok(Waited::Ready);
            }
            if self.ends.peer_has_closed() {
                self.awake(asleep);
                return Ok(if is_ready(self) { Waited::Ready } else { Waited::Closed });
            }
            let nap = left.min(LONGEST_SLEEP);
            let woken = futex::wait(self.ends.map.word(asleep), 1, nap)
                .map_err(|source| WireError::System { operation: "futex wait", source })?;
            if is_ready(self) {
                self.awake(asleep);
                return Ok(Waited::Ready);
            }
            if woken == Awake::TimedOut {
                deadline.count(nap);
                if self.ends.peer_is_gone() {
                    self.awake(asleep);
                    return Ok(if is_ready(self) { Waited::Ready } else { Waited::Closed });
                }
            }
            match deadline.left() {
                Some(more) => left = more,
                None => {
                    self.awake(asleep);
                    return Ok(self.give_up(is_ready));
                }
            }
        }
    }

    fn awake(&self, asleep: usize) {
        let asleep: &AtomicU32 = self.ends.map.word(asleep);
        asleep.store(0, Relaxed);
    }

    /// The time is over: a short time-out must still tell a dead peer from a slow one.
    #[cold]
    fn give_up(&mut self, is_ready: impl Fn(&mut Self) -> bool) -> Waited {
        let gone = self.ends.peer_is_gone();
        match (is_ready(self), gone) {
            (true, _) => Waited::Ready,
            (false, true) => Waited::Closed,
            (false, false) => Waited::TimedOut,
        }
    }
}

impl Wire for ShmWire {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        if message.len() > self.ends.layout.message_bytes() {
            let source = io::Error::from_raw_os_error(libc::EMSGSIZE);
            return Err(WireError::System { operation: "send", source });
        }
        if self.ends.peer_has_closed() {
            return Err(WireError::Closed);
        }
        if !self.has_room() {
            match self.until(self.outgoing.words + Layout::PRODUCER_ASLEEP, self.timeout, Self::has_room)? {
                Waited::Ready => {}
                Waited::TimedOut => return Err(Deadline::timed_out("send", self.timeout)),
                Waited::Closed => return Err(WireError::Closed),
            }
        }
        self.put(message);
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        loop {
            if let Some(bytes) = self.take(into) {
                return Ok(bytes);
            }
            let asleep = self.incoming.words + Layout::CONSUMER_ASLEEP;
            match self.until(asleep, self.timeout, |wire| wire.is_ready())? {
                Waited::Ready => {}
                Waited::TimedOut => return Err(Deadline::timed_out("receive", self.timeout)),
                Waited::Closed => return Err(WireError::Closed),
            }
        }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        if let Some(bytes) = self.take(into) {
            return Ok(Some(bytes));
        }
        if !self.ends.peer_has_closed() {
            return Ok(None);
        }
        // It may have sent one more before it closed.
        self.take(into).map(Some).ok_or(WireError::Closed)
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        if self.is_ready() {
            return Ok(true);
        }
        let asleep = self.incoming.words + Layout::CONSUMER_ASLEEP;
        self.until(asleep, at_most, |wire| wire.is_ready()).map(|waited| waited != Waited::TimedOut)
    }

    fn effective(&self) -> Vec<Fact> {
        vec![
            Fact::number("shm.slots", self.outgoing.slot_count as f64),
            Fact::number("shm.slot_bytes", self.outgoing.slot_bytes as f64),
        ]
    }
}
