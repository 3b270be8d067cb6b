//! The client in a closed loop of exchanges: it sends a request in several writes and waits for the answer.
//!
//! An exchange is timed from the beginning of its first call, including the calls of the remedy, to the end of its
//! answer. With several exchanges in flight, the client writes all requests, then reads all answers.

use std::io::IoSlice;
use std::sync::atomic::Ordering;

use hairpin_model::options::OptionName;
use hairpin_model::{Exchange, Failure, FailureKind, Remedy};
use hairpin_transports::{Stream, Wire, WireError};

use super::client::Client;
use super::client_result::ClientResult;
use super::closed_loop::ClosedLoop;
use super::failures::broken;
use super::marks::ClientMarks;
use crate::clock::Clock;

/// Runs the warm-up and the round.
pub fn run<C: Clock>(
    client: &Client<'_, C>,
    wire: &mut dyn Wire,
    marks: &mut dyn ClientMarks,
    exchange: &Exchange,
) -> Result<ClientResult, Failure> {
    if wire.stream().is_none() {
        return Err(Failure::new(
            FailureKind::Unsupported,
            format!(
                "{} is not a byte stream, so a request cannot be sent in several writes",
                client.order.case.primary().transport
            ),
            "use tcp, unix-stream or pipe",
        ));
    }
    let mut writer = Writer::new(client, exchange);
    let pauses_ns = exchange.gap_ns.saturating_mul(writer.calls() - 1).saturating_mul(exchange.pipeline);
    // Start time of each exchange in flight.
    let mut began_ns = Vec::with_capacity(usize::try_from(exchange.pipeline.min(MAX_RESERVED)).expect("it is small"));
    ClosedLoop::new(client, pauses_ns).run(wire, marks, |closed_loop, wire, left| {
        began_ns.clear();
        let first =
            closed_loop.write_requests(wire, &mut writer, left.min(exchange.pipeline.max(1)), &mut began_ns)?;
        closed_loop.take_answers(wire, first, &began_ns)
    })
}

/// Maximum exchanges in flight for which memory is reserved before the loop.
const MAX_RESERVED: u64 = 1 << 16;

impl<C: Clock> ClosedLoop<'_, C> {
    /// Writes `count` requests back to back, fewer if the user ends the run. Returns the number of the first request.
    fn write_requests(
        &mut self,
        wire: &mut dyn Wire,
        writer: &mut Writer<'_, C>,
        count: u64,
        began_ns: &mut Vec<u64>,
    ) -> Result<u64, Failure> {
        let first = self.number();
        for sequence in first..first + count {
            self.number();
            let parts = writer.parts_of(self.message.request());
            let sent_ns = self.client.clock.now_ns();
            let whole = writer.write(wire, self.message.request(), &parts);
            writer.parts = reuse_allocation(parts);
            if !whole.map_err(|error| send_failure(sequence, &error, count))? {
                break;
            }
            self.count_sent();
            began_ns.push(sent_ns);
        }
        Ok(first)
    }

    /// Receives the answers to the requests that began at `began_ns`. Returns the arrival time of the last answer.
    fn take_answers(&mut self, wire: &mut dyn Wire, first: u64, began_ns: &[u64]) -> Result<u64, Failure> {
        let mut last_ns = None;
        for (sequence, sent_ns) in (first..).zip(began_ns) {
            self.message.number(sequence);
            last_ns = self.take_answer(wire, sequence, *sent_ns)?;
        }
        Ok(last_ns.unwrap_or_else(|| self.client.clock.now_ns()))
    }
}

fn send_failure(sequence: u64, error: &WireError, in_flight: u64) -> Failure {
    let mut failure = broken("send", sequence, error);
    if in_flight > 1 && matches!(error, WireError::TimedOut { .. }) {
        "each end may be waiting for the other to read; fewer requests in flight (--pipeline) need less buffer space"
            .clone_into(&mut failure.hint);
    }
    failure
}

/// Writes requests as the remedy prescribes.
struct Writer<'a, C> {
    client: &'a Client<'a, C>,
    remedy: Remedy,
    gap_ns: u64,
    /// Sizes of the program's writes, in bytes.
    sizes: Vec<usize>,
    /// Number of writes per call.
    together: usize,
    /// Buffer in which writes are combined for one call.
    copied: Vec<u8>,
    /// Memory for the parts of a request's `writev`. The parts are prepared before timing begins.
    parts: Vec<IoSlice<'static>>,
}

impl<'a, C: Clock> Writer<'a, C> {
    fn new(client: &'a Client<'a, C>, exchange: &Exchange) -> Self {
        let size = |bytes: &u64| usize::try_from(*bytes).expect("requests are at most 64 MiB");
        let sizes: Vec<usize> = exchange.writes.sizes().iter().map(size).collect();
        let together = match exchange.remedy {
            Remedy::OneWrite | Remedy::Writev => sizes.len(),
            Remedy::Batch(together) => usize::try_from(together).unwrap_or(usize::MAX).max(1),
            _ => 1,
        };
        let longest = sizes.chunks(together).map(|some| some.iter().sum()).max().unwrap_or(0);
        let parts = if exchange.remedy == Remedy::Writev { sizes.len() } else { 0 };
        Self {
            client,
            remedy: exchange.remedy,
            gap_ns: exchange.gap_ns,
            sizes,
            together,
            copied: vec![0; longest],
            parts: Vec::with_capacity(parts),
        }
    }

    /// Number of calls per request.
    fn calls(&self) -> u64 {
        u64::try_from(self.sizes.len().div_ceil(self.together)).expect("a length")
    }

    /// The parts for the `writev` of a request; empty unless the remedy uses `writev`.
    #[inline]
    fn parts_of<'b>(&mut self, request: &'b [u8]) -> Vec<IoSlice<'b>> {
        let mut parts = reuse_allocation(std::mem::take(&mut self.parts));
        if self.remedy == Remedy::Writev {
            let mut rest = request;
            parts.extend(self.sizes.iter().map(|size| IoSlice::new(split(&mut rest, *size))));
        }
        parts
    }

    /// Writes one request. Returns false if the user ended the run before the request was complete.
    fn write(&mut self, wire: &mut dyn Wire, request: &[u8], parts: &[IoSlice<'_>]) -> Result<bool, WireError> {
        match self.remedy {
            Remedy::Writev => return stream(wire).send_vectored(parts).map(|()| true),
            Remedy::Cork => stream(wire).set(OptionName::Cork, true)?,
            _ => {}
        }
        let mut rest = request;
        for (place, sizes) in self.sizes.chunks(self.together).enumerate() {
            if place > 0 && !self.pause() {
                return Ok(false);
            }
            let bytes = split(&mut rest, sizes.iter().sum());
            match self.remedy {
                Remedy::More if !rest.is_empty() => stream(wire).send_more(bytes)?,
                Remedy::OneWrite | Remedy::Batch(_) => wire.send(copy_together(sizes, bytes, &mut self.copied))?,
                _ => wire.send(bytes)?,
            }
        }
        if self.remedy == Remedy::Cork {
            stream(wire).set(OptionName::Cork, false)?;
        }
        Ok(true)
    }

    /// Waits for the gap between two writes. Returns false if the user ended the run.
    #[inline]
    fn pause(&self) -> bool {
        if self.gap_ns == 0 {
            return true;
        }
        let clock = self.client.clock;
        clock.sleep_until(clock.now_ns() + self.gap_ns);
        !self.client.stop.load(Ordering::Relaxed)
    }
}

/// Splits off and returns the first `bytes` bytes.
#[inline]
fn split<'a>(rest: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (front, after) = rest.split_at(bytes);
    *rest = after;
    front
}

/// Copies the writes one by one into `copied`, like a program that buffers its writes.
#[inline]
fn copy_together<'a>(sizes: &[usize], bytes: &[u8], copied: &'a mut [u8]) -> &'a [u8] {
    let mut end = 0;
    for size in sizes {
        copied[end..end + size].copy_from_slice(&bytes[end..end + size]);
        end += size;
    }
    &copied[..end]
}

/// Changes the slices' lifetime and keeps the vector's memory: `collect` reuses the allocation of `into_iter`.
fn reuse_allocation<'a>(mut parts: Vec<IoSlice<'_>>) -> Vec<IoSlice<'a>> {
    parts.clear();
    parts.into_iter().map(|_| IoSlice::new(&[])).collect()
}

fn stream(wire: &mut dyn Wire) -> &mut dyn Stream {
    wire.stream().expect("a wire that carried a stream before the loop still does")
}
