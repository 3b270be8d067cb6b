//! Counts the messages of a round whose answers the link prevented, by cause.
//!
//! A message is a datagram in the up direction, and its answer is a datagram in the down direction; both begin with
//! the message's number. The link lost a message if it lost one of the message's packets or one of the answer's
//! packets. A packet is lost if neither the packet nor its copy arrives whole. If the far end answers a message
//! twice, because a copy arrived too, the message is lost only if both answers are lost.
//!
//! The messages of a one-way load have no answers: a message is lost if one of its packets is lost. Only lost
//! fragmented messages are remembered, so that each of them counts once. The lowest bit of a number is the phase of
//! the load, and each connection has its own numbers.

use std::collections::{BTreeMap, HashSet};

use hairpin_link::{Direction, stages};
use hairpin_model::FlowId;
use hairpin_transports::is_hello;

use super::frames::{Fragment, IpPacket};
use crate::links::{FlowMatch, LostMessages, Numbered};

/// A packet, or a copy, that the relay could not send.
pub(super) const RELEASE: &str = "release";
/// A packet lost because the relay's memory was full.
pub(super) const OVERRUN: &str = "overrun";
/// A packet still in flight at the end.
pub(super) const INSIDE: &str = "inside";
/// A packet that the receiver drops because of a flipped bit; named after the stage that flipped it.
pub(super) const CORRUPT: &str = "corrupt";

/// Maximum messages tracked. Their states take 16 MiB, of which only used pages are touched. Fuzzing tracks fewer
/// messages, because it clears all states for each input.
const MAX_STATES: usize = if cfg!(fuzzing) { 1 << 16 } else { 16 << 20 };

/// Fragmented packets remembered per direction. The fragments of a packet usually arrive in succession.
const MAX_LATEST: usize = 64;

/// Maximum number of lost messages whose numbers are reported.
const MAX_REPORTED: usize = 20_000;

pub(super) struct Flows(Vec<(FlowId, Messages)>);

/// The index of a flow, and the part of this flow to which a packet belongs.
pub(super) type PartOfFlow = (usize, Part);

impl Flows {
    pub(super) fn new(numbered: &BTreeMap<FlowId, Numbered>) -> Self {
        Self(numbered.iter().map(|(flow, one)| (flow.clone(), Messages::new(*one))).collect())
    }

    /// Like [`Messages::on_packet`], for the flow that the packet belongs to.
    pub(super) fn on_packet(&mut self, direction: Direction, packet: &IpPacket, frame: &[u8]) -> Option<PartOfFlow> {
        let mut each = self.0.iter_mut().enumerate();
        each.find_map(|(place, (_, messages))| Some((place, messages.on_packet(direction, packet, frame)?)))
    }

    /// Like [`Messages::lost`].
    pub(super) fn lost(&mut self, (place, part): PartOfFlow, cause: &str) {
        self.0[place].1.lost(part, cause);
    }

    /// Like [`Messages::lost_by_cause`], for each flow.
    pub(super) fn lost_by_cause(&self) -> BTreeMap<FlowId, LostMessages> {
        self.0.iter().map(|(flow, messages)| (flow.clone(), messages.lost_by_cause())).collect()
    }
}

/// The message or answer that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Answered(usize, MessageKind),
    /// A message without an answer.
    OneWay {
        /// The message's number, including the phase.
        number: u64,
        /// The ports that identify the packet's connection; set only if the packet is fragmented.
        of_several: Option<u32>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    Message,
    Answer,
    SecondAnswer,
}

/// These bits of a state are the cause of the message's last loss, as a position in the list from 1. The higher bits
/// are set when an answer begins to arrive ([`BEGUN`]) and when an answer is lost ([`LOST`]).
const CAUSE: u8 = 0x0f;
const ANSWERS: [MessageKind; 2] = [MessageKind::Answer, MessageKind::SecondAnswer];
const BEGUN: [u8; 2] = [0x10, 0x20];
const LOST: [u8; 2] = [0x40, 0x80];

/// The state of all messages of a round.
pub(super) struct Messages {
    numbered: Numbered,
    /// Highest number seen in the up direction.
    newest: Option<u64>,
    /// One byte per message with an answer.
    states: Vec<u8>,
    causes: Vec<&'static str>,
    fragmented: [Fragmented; 2],
    one_way: LostMessages,
    /// Lost fragmented messages of a one-way load, by ports and number.
    lost_in_parts: HashSet<(u32, u64)>,
}

/// The latest fragmented packets, by the identification of their fragments.
struct Fragmented {
    latest: [Option<(u32, Part)>; MAX_LATEST],
    next: usize,
}

impl Fragmented {
    fn remember(&mut self, fragment: Fragment, part: Part) {
        self.latest[self.next] = Some((fragment.identification, part));
        self.next = (self.next + 1) % MAX_LATEST;
    }

    fn part(&self, fragment: Fragment) -> Option<Part> {
        let newest_first = (1..=MAX_LATEST).map(|back| self.latest[(self.next + MAX_LATEST - back) % MAX_LATEST]);
        newest_first
            .flatten()
            .find(|(identification, _)| *identification == fragment.identification)
            .map(|(_, part)| part)
    }
}

impl Messages {
    pub(super) fn new(numbered: Numbered) -> Self {
        let own = [RELEASE, OVERRUN, INSIDE];
        let causes: Vec<_> = stages::ALL.iter().map(|stage| stage.name).chain(own).collect();
        assert!(causes.len() <= usize::from(CAUSE), "every cause fits its bits");
        let fragmented = || Fragmented { latest: [None; MAX_LATEST], next: 0 };
        let followed = if numbered.one_way.is_some() { 0 } else { MAX_STATES };
        Self {
            numbered,
            newest: None,
            states: vec![0; followed],
            causes,
            fragmented: [fragmented(), fragmented()],
            one_way: LostMessages::default(),
            lost_in_parts: HashSet::new(),
        }
    }

    /// Handles an arriving packet. Returns the message or answer that it belongs to, if any.
    pub(super) fn on_packet(&mut self, direction: Direction, packet: &IpPacket, frame: &[u8]) -> Option<Part> {
        let fragmented = &mut self.fragmented[direction as usize];
        if let Some(later) = packet.fragment.filter(|fragment| !fragment.is_first) {
            return fragmented.part(later);
        }
        let range = packet.payload.clone()?;
        let payload = frame.get(range.clone())?;
        let is_own = self.numbered.flow_match.is_none_or(|flow_match| match flow_match {
            FlowMatch::Udp(port) => packet.is_udp && far_port(direction, frame, range.start) == Some(port),
            FlowMatch::Icmp => !packet.is_udp,
        });
        if !is_own || is_hello(payload) || self.numbered.one_way.is_some_and(|way| way != direction) {
            return None;
        }
        let part = if self.numbered.one_way.is_some() {
            let (number, _) = number(payload, self.numbered.message_bytes)?;
            let of_several = packet.fragment.and_then(|_| ports(frame, range.start));
            Part::OneWay { number, of_several }
        } else {
            let message = match direction {
                Direction::Down => self.answered(payload)?,
                Direction::Up => self.message(payload)?,
            };
            let message = usize::try_from(message).ok().filter(|message| *message < MAX_STATES)?;
            Part::Answered(message, self.begin(direction, message))
        };
        if let Some(first) = packet.fragment {
            self.fragmented[direction as usize].remember(first, part);
        }
        Some(part)
    }

    /// Counts a lost packet of `part`. An answer to a message that did not arrive whole does not count: damaged
    /// fragments may pass the checksum.
    pub(super) fn lost(&mut self, part: Part, cause: &str) {
        let (message, of) = match part {
            Part::Answered(message, of) => (message, of),
            Part::OneWay { number, of_several } => return self.lost_one_way(number, of_several, cause),
        };
        let place = self.causes.iter().position(|known| *known == cause).map_or(0, |place| place + 1);
        let state = &mut self.states[message];
        *state = *state & !CAUSE | u8::try_from(place).unwrap_or(0);
        for ((answer, begun), lost) in ANSWERS.into_iter().zip(BEGUN).zip(LOST) {
            if of == answer {
                *state |= lost;
            } else if of == MessageKind::Message {
                *state |= begun | lost;
            }
        }
    }

    fn lost_one_way(&mut self, number: u64, of_several: Option<u32>, cause: &str) {
        if let Some(ports) = of_several {
            // Beyond the limit each fragment counts, so the loss of messages is overestimated.
            let is_new = self.lost_in_parts.len() >= MAX_STATES || self.lost_in_parts.insert((ports, number));
            if !is_new {
                return;
            }
        }
        if number.is_multiple_of(2) {
            self.one_way.in_warm_up += 1;
        } else if let Some(count) = self.one_way.by_cause.get_mut(cause) {
            *count += 1;
        } else {
            self.one_way.by_cause.insert(cause.to_owned(), 1);
        }
    }

    /// The messages whose answers the link prevented, by cause. Messages of a one-way load's warm-up are counted
    /// separately.
    pub(super) fn lost_by_cause(&self) -> LostMessages {
        if self.numbered.one_way.is_some() {
            let named = self.one_way.by_cause.iter().map(|(cause, count)| (format!("link-{cause}"), *count));
            return LostMessages { by_cause: named.collect(), ..self.one_way.clone() };
        }
        let seen = self.newest.map_or(0, |newest| usize::try_from(newest + 1).unwrap_or(MAX_STATES).min(MAX_STATES));
        let mut lost = LostMessages::default();
        let mut told = 0;
        for (number, state) in (0..).zip(&self.states[..seen]) {
            let is_lost = |answer: usize| state & BEGUN[answer] == 0 || state & LOST[answer] != 0;
            let cause = usize::from(state & CAUSE).checked_sub(1).and_then(|place| self.causes.get(place));
            let Some(cause) = cause.filter(|_| is_lost(0) && is_lost(1)) else { continue };
            let cause = format!("link-{cause}");
            *lost.by_cause.entry(cause.clone()).or_default() += 1;
            if told < MAX_REPORTED {
                told += 1;
                lost.numbers.entry(cause).or_default().push(number);
            }
        }
        lost
    }

    /// The number of a message in the up direction: of all numbers with these low bytes, the nearest to the newest.
    fn message(&mut self, payload: &[u8]) -> Option<u64> {
        let (low, modulus) = number(payload, self.numbered.message_bytes)?;
        let number = match (self.newest, modulus) {
            (Some(newest), Some(modulus)) => {
                let ahead = low.wrapping_sub(newest) % modulus;
                let behind = newest.checked_sub(modulus - ahead).filter(|_| ahead >= modulus / 2);
                behind.unwrap_or(newest + ahead)
            }
            _ => low,
        };
        if number < MAX_STATES as u64 {
            self.newest = self.newest.max(Some(number));
        }
        Some(number)
    }

    /// The number of an answered message: of all numbers with these low bytes, the highest up to the newest number.
    fn answered(&self, payload: &[u8]) -> Option<u64> {
        let (low, modulus) = number(payload, self.numbered.answer_bytes)?;
        let newest = self.newest?;
        match modulus {
            Some(modulus) => newest.checked_sub(newest.wrapping_sub(low) % modulus),
            None => (low <= newest).then_some(low),
        }
    }

    fn begin(&mut self, direction: Direction, message: usize) -> MessageKind {
        let state = &mut self.states[message];
        match direction {
            Direction::Up => MessageKind::Message,
            Direction::Down if *state & BEGUN[0] == 0 => {
                *state |= BEGUN[0];
                MessageKind::Answer
            }
            Direction::Down => {
                *state |= BEGUN[1];
                MessageKind::SecondAnswer
            }
        }
    }
}

/// The message number in the first bytes, and how many numbers these bytes can distinguish; `None` for eight bytes.
fn number(payload: &[u8], bytes: usize) -> Option<(u64, Option<u64>)> {
    let bytes = bytes.clamp(1, 8);
    let mut low = [0; 8];
    low[..bytes].copy_from_slice(payload.get(..bytes)?);
    Some((u64::from_le_bytes(low), (bytes < 8).then(|| 1 << (8 * bytes))))
}

/// The port of the far end in a UDP datagram whose payload begins at `payload`.
fn far_port(direction: Direction, frame: &[u8], payload: usize) -> Option<u16> {
    let [source, destination] = ports(frame, payload).map(|both| [(both >> 16) as u16, both as u16])?;
    Some(if direction == Direction::Up { destination } else { source })
}

/// The ports of the UDP datagram (RFC 768) whose payload begins at `payload`.
fn ports(frame: &[u8], payload: usize) -> Option<u32> {
    let bytes = frame.get(payload.checked_sub(8)?..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}
