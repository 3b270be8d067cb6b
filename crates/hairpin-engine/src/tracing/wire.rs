//! A wire that records every call and the kernel's timestamps for it.

use std::cell::RefCell;
use std::io::IoSlice;
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::trace::{CallKind, StampKind};
use hairpin_model::{Call, EndTrace, Fact, Stamp, fact_names};
use hairpin_transports::{RawStamp, Segments, Stream, Wire, WireError};

use crate::ends::opening;
use crate::netstat;
use hairpin_loops::clock::Clock;

/// Number of calls for which memory is allocated in advance.
const RESERVED_CALLS: usize = 4096;
/// Maximum writes between two reads of the timestamps. Each segment puts three timestamps of about 700 bytes into the
/// receive buffer; when the buffer is full, the kernel drops further timestamps.
const MAX_WRITES_PER_READ: u32 = 16;
/// Wait before the first message, in ns: the kernel enables timestamps of received packets in a deferred work item,
/// some time after the request (`net_enable_timestamp`, net/core/dev.c).
pub(super) const STAMP_START_NS: u64 = 5_000_000;
/// Longest wait for the last timestamp, in ns: longer than an ACK is delayed.
const STAMP_TIMEOUT_NS: u64 = 250_000_000;
/// Interval between checks for the last timestamp, in ns.
const POLL_INTERVAL_NS: u64 = 1_000_000;

pub struct TracingWire<'w, C> {
    /// A cell is needed because reading a stream's counters takes `&self`, but a wire returns its stream only through
    /// `&mut self`.
    wire: RefCell<&'w mut dyn Wire>,
    clock: C,
    trace: EndTrace,
    sent_bytes: u64,
    received_bytes: u64,
    /// Whether the kernel timestamps this wire.
    is_stamped: bool,
    /// The kind of the last timestamp that the kernel reports for a sent byte.
    last_stamp: StampKind,
    writes_since_take: u32,
    raw: Vec<RawStamp>,
}

impl<'w, C: Clock> TracingWire<'w, C> {
    /// Begins to trace, and counts bytes from 0. If the kernel does not timestamp the wire, only calls are recorded.
    /// `acknowledged` requests timestamps of acknowledgments too.
    pub fn begin(wire: &'w mut dyn Wire, clock: C, acknowledged: bool) -> Self {
        let mut before = readings(wire);
        let begun = wire.kernel_stamps().map(|stamps| stamps.begin(acknowledged));
        if let Some(Err(error)) = &begun {
            before.push(Fact::word(fact_names::KERNEL_STAMPS_REFUSED, error.to_string()));
        }
        let is_stamped = matches!(begun, Some(Ok(())));
        if is_stamped {
            clock.sleep_until(clock.now_ns() + STAMP_START_NS);
        }
        Self {
            wire: RefCell::new(wire),
            clock,
            trace: EndTrace { calls: Vec::with_capacity(RESERVED_CALLS), before, ..EndTrace::default() },
            sent_bytes: 0,
            received_bytes: 0,
            is_stamped,
            last_stamp: if acknowledged { StampKind::Acknowledged } else { StampKind::Driver },
            writes_since_take: 0,
            raw: Vec::with_capacity(RESERVED_CALLS),
        }
    }

    /// Waits up to 250 ms for the last timestamp of the last byte sent, and ends the trace. Times of calls are in ns
    /// of the engine's clock, timestamps in ns of CLOCK_REALTIME.
    pub fn finish(mut self) -> Result<EndTrace, WireError> {
        let until_ns = self.clock.now_ns() + STAMP_TIMEOUT_NS;
        self.take_stamps()?;
        while self.is_stamped && !self.is_complete() && self.clock.now_ns() < until_ns {
            self.clock.sleep_until(self.clock.now_ns() + POLL_INTERVAL_NS);
            self.take_stamps()?;
        }
        self.trace.after = readings(*self.wire.get_mut());
        Ok(self.trace)
    }

    fn is_complete(&self) -> bool {
        let covers = |stamp: &Stamp| stamp.kind == self.last_stamp && stamp.end_byte >= self.sent_bytes;
        self.sent_bytes == 0 || self.trace.stamps.iter().any(covers)
    }

    fn take_stamps(&mut self) -> Result<(), WireError> {
        self.writes_since_take = 0;
        if let Some(stamps) = self.wire.get_mut().kernel_stamps().filter(|_| self.is_stamped) {
            stamps.take(&mut self.raw)?;
            let stamp = |raw: RawStamp| Stamp { kind: raw.kind, at_ns: raw.realtime_ns, end_byte: raw.end_byte };
            self.trace.stamps.extend(self.raw.drain(..).map(stamp));
        }
        Ok(())
    }

    fn note(&mut self, kind: CallKind, began_ns: u64, first_byte: u64, end_byte: u64) {
        let ended_ns = self.clock.now_ns();
        self.trace.calls.push(Call { kind, began_ns, ended_ns, first_byte, end_byte });
    }

    /// Records a write of `bytes` bytes.
    fn write(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut dyn Wire) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        let began_ns = self.clock.now_ns();
        write(*self.wire.get_mut())?;
        let first_byte = self.sent_bytes;
        self.sent_bytes += bytes as u64;
        self.note(CallKind::Write, began_ns, first_byte, self.sent_bytes);
        self.writes_since_take += 1;
        if self.writes_since_take == MAX_WRITES_PER_READ { self.take_stamps() } else { Ok(()) }
    }

    fn has_read(&mut self, began_ns: u64, bytes: usize) {
        let first_byte = self.received_bytes;
        self.received_bytes += bytes as u64;
        self.note(CallKind::Read, began_ns, first_byte, self.received_bytes);
    }
}

impl<C: Clock + Send> Wire for TracingWire<'_, C> {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.write(message.len(), |wire| wire.send(message))
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let began_ns = self.clock.now_ns();
        let (bytes, realtime_ns) = match self.wire.get_mut().kernel_stamps().filter(|_| self.is_stamped) {
            Some(stamps) => stamps.receive(into)?,
            None => (self.wire.get_mut().receive(into)?, None),
        };
        self.has_read(began_ns, bytes);
        let received =
            realtime_ns.map(|at_ns| Stamp { kind: StampKind::Received, at_ns, end_byte: self.received_bytes });
        self.trace.stamps.extend(received);
        Ok(bytes)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        let began_ns = self.clock.now_ns();
        let bytes = self.wire.get_mut().try_receive(into)?;
        if let Some(bytes) = bytes {
            self.has_read(began_ns, bytes);
        }
        Ok(bytes)
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        // Unread timestamps make the socket ready, so every wait would return at once.
        self.take_stamps()?;
        self.wire.get_mut().wait(at_most)
    }

    fn effective(&self) -> Vec<Fact> {
        self.wire.borrow().effective()
    }

    fn system_calls(&self) -> Option<u64> {
        self.wire.borrow().system_calls()
    }

    fn stream(&mut self) -> Option<&mut dyn Stream> {
        if self.wire.get_mut().stream().is_some() { Some(self) } else { None }
    }
}

impl<C: Clock + Send> Stream for TracingWire<'_, C> {
    fn send_more(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.write(bytes.len(), |wire| stream(wire).send_more(bytes))
    }

    fn send_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<(), WireError> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.write(bytes, |wire| stream(wire).send_vectored(parts))
    }

    fn set(&mut self, option: OptionName, on: bool) -> Result<(), WireError> {
        // Unread timestamps fill the receive buffer, and the kernel acknowledges quickly only if the buffer is empty
        // (`tcp_cleanup_rbuf`, net/ipv4/tcp.c): unread timestamps would cause the very stall under investigation.
        if option == OptionName::Quickack {
            self.take_stamps()?;
        }
        let began_ns = self.clock.now_ns();
        stream(*self.wire.get_mut()).set(option, on)?;
        let (kind, byte) = match (option, on) {
            (OptionName::Cork, true) => (CallKind::Cork, self.sent_bytes),
            (OptionName::Cork, false) => (CallKind::Uncork, self.sent_bytes),
            (OptionName::Quickack, true) => (CallKind::Quickack, self.received_bytes),
            _ => return Ok(()),
        };
        self.note(kind, began_ns, byte, byte);
        Ok(())
    }

    fn segments(&self) -> Option<Segments> {
        stream(*self.wire.borrow_mut()).segments()
    }
}

fn stream(wire: &mut dyn Wire) -> &mut dyn Stream {
    wire.stream().expect("this wire carries a stream")
}

/// The kernel's counters now.
fn readings(wire: &dyn Wire) -> Vec<Fact> {
    let mut facts = opening::counters(wire.effective());
    facts.extend(netstat::of_the_namespace());
    facts
}
