//! A probe and a load on one connection: messages, answers and bulk data share one byte stream, as in programs that
//! multiplex (HTTP/2, gRPC). A message waits for the bytes that were written before it.
//!
//! Each end is one loop that never blocks in a call on the connection: bytes without room stay queued in frames
//! ([`frames`]). After each complete frame the end chooses the next frame; messages come before bulk data.

mod bulk;
pub mod client;
pub mod frames;
pub mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

use hairpin_model::{Case, Failure, Flow, RoundOrder, Streamed};
use hairpin_transports::{Interest, Ready, Wire, WireError, WireSet};

use crate::clock::Clock;

/// Maximum interval between an end's checks whether to end, in ns.
const POLL_INTERVAL_NS: u64 = 20_000_000;
/// Minimum wait for room: epoll_wait(2) waits in whole milliseconds.
const MIN_WAIT_NS: u64 = 1_000_000;

/// A load on the connection of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkOrder {
    pub write_size_bytes: usize,
    /// Whether the load goes from the client to the server.
    pub goes_up: bool,
    /// Duration of the load's warm-up, in ns.
    pub ramp_ns: u64,
    pub loaded_ns: u64,
}

impl BulkOrder {
    /// The load that shares the connection of the probe; `None` for a case without such a load.
    pub fn of(order: &RoundOrder) -> Option<Self> {
        let (load, lengths) = (load_of(&order.case)?, order.phases.as_ref()?);
        Some(Self {
            write_size_bytes: usize::try_from(load.load.size_bytes()).ok()?,
            goes_up: load.direction == hairpin_model::flow::Direction::Up,
            ramp_ns: lengths.ramp,
            loaded_ns: lengths.loaded,
        })
    }
}

/// The case's only load, if it shares the connection of the probe.
pub fn load_of(case: &Case) -> Option<&Flow> {
    match case.loads()[..] {
        [load] => Some(load),
        _ => None,
    }
}

/// The client's result for the load.
#[derive(Clone, Debug, Default)]
pub struct BulkEnd {
    pub streamed: Streamed,
    /// When the load began, in ns of the client's clock; `None` if it did not begin.
    pub began_ns: Option<u64>,
}

struct Waits {
    for_room: WireSet,
    ready: Vec<Ready>,
}

impl Waits {
    fn new(wire: &dyn Wire) -> Result<Self, Failure> {
        let mut for_room = WireSet::new(1).map_err(|error| no_waits(&error))?;
        for_room.add(0, wire, Interest::Both).map_err(|error| no_waits(&error))?;
        Ok(Self { for_room, ready: Vec::with_capacity(4) })
    }

    /// Waits for incoming bytes, at most until `until_ns`. If `has_no_room`, room to write also ends the wait.
    fn wait<C: Clock>(
        &mut self,
        clock: &C,
        wire: &mut dyn Wire,
        until_ns: u64,
        has_no_room: bool,
    ) -> Result<(), Failure> {
        let left_ns = until_ns.saturating_sub(clock.now_ns()).min(POLL_INTERVAL_NS);
        if left_ns == 0 {
            return Ok(());
        }
        if has_no_room && left_ns >= MIN_WAIT_NS {
            let whole = Duration::from_millis(left_ns / MIN_WAIT_NS);
            return self.for_room.wait(whole, &mut self.ready).map_err(|error| no_waits(&error));
        }
        match wire.wait(Duration::from_nanos(left_ns)) {
            Ok(_) | Err(WireError::Closed) => Ok(()),
            Err(error) => Err(broken("wait for", &error)),
        }
    }
}

fn no_waits(error: &std::io::Error) -> Failure {
    Failure::new(
        error,
        format!("cannot wait for the connection: {error}"),
        "is the limit of open files too low (ulimit -n)?",
    )
}

/// A wire's error as the cause of a failed round.
fn broken(what: &str, error: &WireError) -> Failure {
    Failure::new(
        error,
        format!("cannot {what} the shared connection: {error}"),
        "the other end ended early; see the cause it reported",
    )
}
