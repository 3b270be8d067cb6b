//! Which messages of a round the link kept from being answered, and by what.
//!
//! A message is a datagram that goes up, and its answer one that comes down; both begin with the message's number. It
//! is lost on the link when one of its packets is lost on the way up, or when one of its answer's packets is on the way
//! down. A packet is lost when neither it nor its copy arrives whole. Where the far end answers a message twice,
//! because a copy reached it too, both answers must be lost.
//!
//! The messages of a one-way load have no answers: one is lost when one of its packets is. So nothing is remembered of them but
//! those that came in parts and were lost, which count once. Their number has the phase of the load in its lowest bit, and several
//! connections count for themselves.

use std::collections::HashSet;

use hairpin_link::{Direction, stages};
use hairpin_transports::is_hello;

use super::frames::{Fragment, IpPacket};
use crate::links::{LostMessages, Numbered, ToldBy};

/// A packet that the relay could not let go, or a copy of it.
pub(super) const RELEASE: &str = "release";
/// A packet for which the relay had no room.
pub(super) const OVERRUN: &str = "overrun";
/// A packet that was still on its way at the end.
pub(super) const INSIDE: &str = "inside";
/// A packet that the receiver drops, because a bit of it was flipped: the name of the stage that did.
pub(super) const CORRUPT: &str = "corrupt";

/// How many messages are followed: their states take 16 MiB, of which only what is used is ever touched. A fuzzer
/// would clear them for each of its inputs.
const FOLLOWED: usize = if cfg!(fuzzing) { 1 << 16 } else { 16 << 20 };

/// How many packets that come in parts are remembered in each direction: parts of one follow each other.
const FRAGMENTED: usize = 64;

/// So many lost messages are told by their numbers.
const MAX_REPORTED: usize = 20_000;

/// The messages of every flow whose messages are told apart.
pub(super) struct Flows(Vec<Messages>);

/// The place of a flow, and what a packet is a part of.
pub(super) type PartOfFlow = (usize, Part);

impl Flows {
    /// None seen yet.
    pub(super) fn new(numbered: &[Numbered]) -> Self {
        Self(numbered.iter().map(|one| Messages::new(*one)).collect())
    }

    /// As [`Messages::saw`], of the flow that the packet is of.
    pub(super) fn saw(&mut self, direction: Direction, packet: &IpPacket, frame: &[u8]) -> Option<PartOfFlow> {
        let mut each = self.0.iter_mut().enumerate();
        each.find_map(|(place, messages)| Some((place, messages.saw(direction, packet, frame)?)))
    }

    /// As [`Messages::lost`].
    pub(super) fn lost(&mut self, (place, part): PartOfFlow, cause: &str) {
        self.0[place].lost(part, cause);
    }

    /// As [`Messages::lost_by_cause`], of each flow.
    pub(super) fn lost_by_cause(&self) -> Vec<LostMessages> {
        self.0.iter().map(Messages::lost_by_cause).collect()
    }
}

/// What a packet is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Of a message with an answer, or of that.
    Answered(usize, Of),
    /// Of a message without one.
    OneWay {
        /// Its number, the phase included.
        number: u64,
        /// The ports of its connection, where it has further parts; they tell connections apart.
        of_several: Option<u32>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Message,
    Answer,
    /// The answer to the copy.
    SecondAnswer,
}

/// A state has the cause of the message's last loss (its place in the list, from 1) in these bits, and above them
/// which of its answers have begun to come and which of them were lost.
const CAUSE: u8 = 0x0f;
const ANSWERS: [Of; 2] = [Of::Answer, Of::SecondAnswer];
const BEGUN: [u8; 2] = [0x10, 0x20];
const LOST: [u8; 2] = [0x40, 0x80];

/// What is known of the messages of a round.
pub(super) struct Messages {
    numbered: Numbered,
    /// The highest number seen on its way up.
    newest: Option<u64>,
    /// A byte for each message that has an answer.
    states: Vec<u8>,
    causes: Vec<&'static str>,
    fragmented: [Fragmented; 2],
    /// The messages of a one-way load.
    one_way: LostMessages,
    /// Those of them that were lost and came in parts, by their ports and numbers.
    lost_in_parts: HashSet<(u32, u64)>,
}

/// The latest packets that came in parts, by what their parts have in common.
struct Fragmented {
    latest: [Option<(u32, Part)>; FRAGMENTED],
    next: usize,
}

impl Fragmented {
    fn remember(&mut self, fragment: Fragment, part: Part) {
        self.latest[self.next] = Some((fragment.identification, part));
        self.next = (self.next + 1) % FRAGMENTED;
    }

    fn part(&self, fragment: Fragment) -> Option<Part> {
        let newest_first = (1..=FRAGMENTED).map(|back| self.latest[(self.next + FRAGMENTED - back) % FRAGMENTED]);
        newest_first
            .flatten()
            .find(|(identification, _)| *identification == fragment.identification)
            .map(|(_, part)| part)
    }
}

impl Messages {
    /// None seen yet.
    pub(super) fn new(numbered: Numbered) -> Self {
        let own = [RELEASE, OVERRUN, INSIDE];
        let causes: Vec<_> = stages::ALL.iter().map(|stage| stage.name).chain(own).collect();
        assert!(causes.len() <= usize::from(CAUSE), "every cause has its number");
        let fragmented = || Fragmented { latest: [None; FRAGMENTED], next: 0 };
        let followed = if numbered.one_way.is_some() { 0 } else { FOLLOWED };
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

    /// A packet has come: says what it is a part of, if it is part of a message or an answer.
    pub(super) fn saw(&mut self, direction: Direction, packet: &IpPacket, frame: &[u8]) -> Option<Part> {
        let fragmented = &mut self.fragmented[direction as usize];
        if let Some(later) = packet.fragment.filter(|fragment| !fragment.is_first) {
            return fragmented.part(later);
        }
        let range = packet.payload.clone()?;
        let payload = frame.get(range.clone())?;
        let is_own = self.numbered.told_by.is_none_or(|told_by| match told_by {
            ToldBy::Udp(port) => packet.is_udp && far_port(direction, frame, range.start) == Some(port),
            ToldBy::Icmp => !packet.is_udp,
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
            let message = usize::try_from(message).ok().filter(|message| *message < FOLLOWED)?;
            Part::Answered(message, self.begin(direction, message))
        };
        if let Some(first) = packet.fragment {
            self.fragmented[direction as usize].remember(first, part);
        }
        Some(part)
    }

    /// The part's packet is lost. A message that did not arrive whole has no answer, whatever comes back: damaged parts
    /// may get past the checksum.
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
            } else if of == Of::Message {
                *state |= begun | lost;
            }
        }
    }

    fn lost_one_way(&mut self, number: u64, of_several: Option<u32>, cause: &str) {
        if let Some(ports) = of_several {
            // Beyond what is followed each part counts, which shows as messages that are too many.
            let is_new = self.lost_in_parts.len() >= FOLLOWED || self.lost_in_parts.insert((ports, number));
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

    /// The messages that the link kept from being answered, by cause; those of a one-way load's warm-up are counted apart.
    pub(super) fn lost_by_cause(&self) -> LostMessages {
        if self.numbered.one_way.is_some() {
            let named = self.one_way.by_cause.iter().map(|(cause, count)| (format!("link-{cause}"), *count));
            return LostMessages { by_cause: named.collect(), ..self.one_way.clone() };
        }
        let seen = self.newest.map_or(0, |newest| usize::try_from(newest + 1).unwrap_or(FOLLOWED).min(FOLLOWED));
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

    /// The number of a message on its way up: of all that are cut to those bytes, the one nearest to the newest.
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
        if number < FOLLOWED as u64 {
            self.newest = self.newest.max(Some(number));
        }
        Some(number)
    }

    /// The number of the message that an answer is for: the greatest that is not above the newest.
    fn answered(&self, payload: &[u8]) -> Option<u64> {
        let (low, modulus) = number(payload, self.numbered.answer_bytes)?;
        let newest = self.newest?;
        match modulus {
            Some(modulus) => newest.checked_sub(newest.wrapping_sub(low) % modulus),
            None => (low <= newest).then_some(low),
        }
    }

    fn begin(&mut self, direction: Direction, message: usize) -> Of {
        let state = &mut self.states[message];
        match direction {
            Direction::Up => Of::Message,
            Direction::Down if *state & BEGUN[0] == 0 => {
                *state |= BEGUN[0];
                Of::Answer
            }
            Direction::Down => {
                *state |= BEGUN[1];
                Of::SecondAnswer
            }
        }
    }
}

/// The number in the first bytes, and how many numbers are told apart; all with eight.
fn number(payload: &[u8], bytes: usize) -> Option<(u64, Option<u64>)> {
    let bytes = bytes.clamp(1, 8);
    let mut low = [0; 8];
    low[..bytes].copy_from_slice(payload.get(..bytes)?);
    Some((u64::from_le_bytes(low), (bytes < 8).then(|| 1 << (8 * bytes))))
}

/// The port of the far end of a UDP datagram whose payload begins there.
fn far_port(direction: Direction, frame: &[u8], payload: usize) -> Option<u16> {
    let [source, destination] = ports(frame, payload).map(|both| [(both >> 16) as u16, both as u16])?;
    Some(if direction == Direction::Up { destination } else { source })
}

/// The ports of the UDP datagram (RFC 768) whose payload begins there.
fn ports(frame: &[u8], payload: usize) -> Option<u32> {
    let bytes = frame.get(payload.checked_sub(8)?..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}
