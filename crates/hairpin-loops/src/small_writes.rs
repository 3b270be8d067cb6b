//! The client in a closed loop of exchanges: it sends a request in several writes and waits for the answer.
//!
//! An exchange is timed from the beginning of its first call, including the calls of the remedy, to the end of its
//! answer. With several exchanges in flight, the client writes all requests, then reads all answers.

use std::sync::atomic::Ordering;

use hairpin_model::{Exchange, Failure, FailureKind};
use hairpin_transports::{Wire, WireError};

use super::client::Client;
use super::client_result::ClientResult;
use super::closed_loop::ClosedLoop;
use super::failures::broken;
use super::marks::ClientMarks;
use super::writer::Writer;
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
    let mut writer = Writer::new(&exchange.writes, exchange.remedy);
    let pauses_ns = exchange.gap_ns.saturating_mul(writer.calls() - 1).saturating_mul(exchange.pipeline);
    // Start time of each exchange in flight.
    let mut began_ns = Vec::with_capacity(usize::try_from(exchange.pipeline.min(MAX_RESERVED)).expect("it is small"));
    ClosedLoop::new(client, pauses_ns).run(wire, marks, |closed_loop, wire, left| {
        began_ns.clear();
        let first = closed_loop.write_requests(
            wire,
            &mut writer,
            left.min(exchange.pipeline.max(1)),
            exchange.gap_ns,
            &mut began_ns,
        )?;
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
        writer: &mut Writer,
        count: u64,
        gap_ns: u64,
        began_ns: &mut Vec<u64>,
    ) -> Result<u64, Failure> {
        let first = self.number();
        for sequence in first..first + count {
            self.number();
            let parts = writer.parts_of(self.message.request());
            let sent_ns = self.client.clock.now_ns();
            let client = self.client;
            let whole = writer.write(wire, self.message.request(), &parts, || client.pause(gap_ns));
            writer.keep(parts);
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

impl<C: Clock> Client<'_, C> {
    /// Waits for the gap between two writes. Returns false if the user ended the run.
    #[inline]
    fn pause(&self, gap_ns: u64) -> bool {
        if gap_ns == 0 {
            return true;
        }
        self.clock.sleep_until(self.clock.now_ns() + gap_ns);
        !self.stop.load(Ordering::Relaxed)
    }
}
