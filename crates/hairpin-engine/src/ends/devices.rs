//! The connections of a control loop, used by its ends as one wire.
//!
//! The client sends to one after another, and reads from the one it sent to last. The server waits for all of them,
//! and answers the one it read from last.

use std::time::{Duration, Instant};

use hairpin_model::case::Waiting;
use hairpin_model::trace::End;
use hairpin_model::{Fact, Failure, RoundOrder};
use hairpin_transports::{Interest, Ready, Setup, Wire, WireError, WireSet};

use super::opening::wire_of_all;

/// Longest single wait of a server.
const SLICE: Duration = Duration::from_millis(50);

/// Joins the connections of a control loop. Other loads join them by the end's way to wait.
pub(super) fn as_one(
    end: End,
    order: &RoundOrder,
    wires: Vec<Box<dyn Wire>>,
    setup: &Setup,
) -> Result<Box<dyn Wire>, Failure> {
    if wires.len() < 2 || order.case.primary().load.periodic().is_none() {
        return wire_of_all(end, wires, setup);
    }
    let last = wires.len() - 1;
    if end == End::Client {
        return Ok(Box::new(Devices { wires, current: last, waits: None }));
    }
    let set = wait_set(&wires).map_err(|error| {
        Failure::new(
            &error,
            format!("{end}: cannot wait for {} connections: {error}", wires.len()),
            "use fewer --devices",
        )
    })?;
    let spins = order.case.ends.waiting == Waiting::Spin;
    let waits =
        Waits { set, ready: Vec::with_capacity(wires.len()), spins, timeout: Duration::from_nanos(order.timeout_ns) };
    Ok(Box::new(Devices { wires, current: last, waits: Some(waits) }))
}

fn wait_set(wires: &[Box<dyn Wire>]) -> std::io::Result<WireSet> {
    let mut set = WireSet::new(wires.len())?;
    (0..).zip(wires).try_for_each(|(token, wire)| set.add(token, &**wire, Interest::Read))?;
    Ok(set)
}

struct Devices {
    wires: Vec<Box<dyn Wire>>,
    /// The wire that was sent to or read from last.
    current: usize,
    /// Only at a server.
    waits: Option<Waits>,
}

/// How a server waits.
struct Waits {
    set: WireSet,
    ready: Vec<Ready>,
    spins: bool,
    timeout: Duration,
}

impl Devices {
    /// Receives from any wire, without waiting.
    fn take(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        for (place, wire) in self.wires.iter_mut().enumerate() {
            if let Some(len) = wire.try_receive(into)? {
                self.current = place;
                return Ok(Some(len));
            }
        }
        Ok(None)
    }
}

impl Wire for Devices {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        if self.waits.is_none() {
            self.current = (self.current + 1) % self.wires.len();
        }
        self.wires[self.current].send(message)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let Some(Waits { spins, timeout, .. }) = self.waits else { return self.wires[self.current].receive(into) };
        let began = Instant::now();
        while began.elapsed() < timeout {
            if spins {
                if let Some(len) = self.take(into)? {
                    return Ok(len);
                }
                continue;
            }
            let Some(Waits { set, ready, .. }) = &mut self.waits else { break };
            set.wait(SLICE.min(timeout), ready)
                .map_err(|source| WireError::System { operation: "wait for a message", source })?;
            for Ready { token, .. } in ready.iter().filter(|ready| ready.readable) {
                if let Some(len) = self.wires[*token].try_receive(into)? {
                    set.made_progress();
                    self.current = *token;
                    return Ok(len);
                }
            }
        }
        Err(WireError::TimedOut { operation: "receive", after: timeout })
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        self.take(into)
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        self.wires[self.current].wait(at_most)
    }

    fn drive(&mut self) -> Option<Duration> {
        self.wires.iter_mut().filter_map(|wire| wire.drive()).min()
    }

    fn effective(&self) -> Vec<Fact> {
        self.wires[0].effective()
    }

    fn system_calls(&self) -> Option<u64> {
        self.wires.iter().map(|wire| wire.system_calls()).sum()
    }

    fn farewell(&mut self) {
        self.wires.iter_mut().for_each(|wire| wire.farewell());
    }

    fn begin_close(&mut self) {
        self.wires.iter_mut().for_each(|wire| wire.begin_close());
    }
}
