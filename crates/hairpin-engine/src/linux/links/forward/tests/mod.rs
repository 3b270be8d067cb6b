//! Tests of the relay loop with fixture interfaces and a manual clock.

mod hostile;
mod loops;
mod messages;
pub(super) mod packets;

use std::collections::VecDeque;

use hairpin_link::Direction;
use hairpin_link::link::Link;
use hairpin_model::{Failure, FlowId};

use super::carrier::{Carried, Carrier};
use super::interfaces::{Arrival, Interfaces};
use super::log::Log;
use super::messages::Flows;
use super::packet_store::{MAX_BYTES, PacketStore};
use crate::links::Numbered;

/// A frame that arrives at an interface.
#[derive(Clone, Debug)]
pub(super) struct Coming {
    pub(super) at_ns: u64,
    /// Time from the kernel's timestamp to the frame's arrival, in ns.
    pub(super) stamped_before_ns: u64,
    pub(super) direction: Direction,
    pub(super) bytes: Vec<u8>,
    /// The length that the interface reports.
    pub(super) length_bytes: usize,
    pub(super) had_tag: bool,
}

/// A complete frame.
pub(super) fn coming(at_ns: u64, direction: Direction, bytes: Vec<u8>) -> Coming {
    Coming { at_ns, stamped_before_ns: 0, direction, length_bytes: bytes.len(), bytes, had_tag: false }
}

/// A frame that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) at_ns: u64,
    pub(super) direction: Direction,
    pub(super) bytes: Vec<u8>,
}

/// Interfaces that return prepared frames, with a clock that advances only during waits and spins.
pub(super) struct Fixture {
    now_ns: u64,
    ends_ns: u64,
    places: usize,
    coming: [VecDeque<Coming>; 2],
    /// The frames that were taken in.
    pub(super) came: Vec<Coming>,
    pub(super) gone: Vec<Gone>,
    /// Whether to refuse the send with this number, counted from 0.
    refused: fn(usize) -> bool,
    sends: usize,
}

impl Fixture {
    pub(super) fn new(mut all: Vec<Coming>, ends_ns: u64) -> Self {
        all.sort_by_key(|one| one.at_ns);
        let of = |direction| all.iter().filter(|one| one.direction == direction).cloned().collect();
        let coming = [of(Direction::Up), of(Direction::Down)];
        let places = all.len();
        Self { now_ns: 0, ends_ns, places, coming, came: Vec::new(), gone: Vec::new(), refused: |_| false, sends: 0 }
    }

    pub(super) fn refusing(mut self, refused: fn(usize) -> bool) -> Self {
        self.refused = refused;
        self
    }

    /// Advances to `until_ns`, or to the arrival of the next frame if that is earlier.
    fn go_on(&mut self, until_ns: u64) {
        let next = self.coming.iter().filter_map(|coming| coming.front()).map(|next| next.at_ns);
        let sooner_ns = next.chain([until_ns]).min().unwrap_or(until_ns);
        self.now_ns = self.now_ns.max(sooner_ns);
    }
}

impl Interfaces for Fixture {
    fn places(&self) -> usize {
        self.places
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn receive(&mut self, direction: Direction, take: impl FnOnce(&Arrival<'_>)) -> bool {
        let coming = &mut self.coming[direction as usize];
        let Some(next) = coming.pop_front_if(|next| next.at_ns <= self.now_ns) else { return false };
        take(&Arrival {
            arrived_ns: next.at_ns - next.stamped_before_ns,
            bytes: &next.bytes,
            length_bytes: next.length_bytes,
            had_tag: next.had_tag,
        });
        self.came.push(next);
        true
    }

    fn send(&mut self, direction: Direction, frames: &[&[u8]]) -> usize {
        for (place, frame) in frames.iter().enumerate() {
            self.sends += 1;
            if (self.refused)(self.sends - 1) {
                return place;
            }
            self.gone.push(Gone { at_ns: self.now_ns, direction, bytes: frame.to_vec() });
        }
        frames.len()
    }

    fn spin(&mut self, until_ns: u64) {
        self.go_on(until_ns);
    }

    fn wait(&mut self, at_most_ns: Option<u64>) -> Result<bool, Failure> {
        let until_ns = at_most_ns.map_or(u64::MAX, |at_most_ns| self.now_ns.saturating_add(at_most_ns));
        self.go_on(until_ns.min(self.ends_ns));
        Ok(self.now_ns >= self.ends_ns)
    }
}

pub(super) fn carrier(line: &str, bound_bytes: usize, numbered: Option<Numbered>, log: Option<Log>) -> Carrier {
    let link = Link::new(&line.parse().unwrap(), 7, &[]).unwrap();
    let numbered = numbered.map(|one| (FlowId::default(), one)).into_iter().collect();
    Carrier::new(link, PacketStore::new(bound_bytes, 1514, 4), Flows::new(&numbered), log)
}

/// Carries all frames. Returns the frames sent and the results.
pub(super) fn carried(line: &str, numbered: Option<Numbered>, mut interfaces: Fixture) -> (Vec<Gone>, Carried) {
    let mut carrier = carrier(line, MAX_BYTES, numbered, None);
    carrier.carry(&mut interfaces).unwrap();
    (interfaces.gone, carrier.finish())
}
