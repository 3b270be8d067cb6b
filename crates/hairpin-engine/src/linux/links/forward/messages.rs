//! Which messages of a round the link kept from being answered, and by what.
//!
//! A message is a datagram that goes up, and its answer one that comes down; both begin with the message's number. It
//! is lost on the link when one of its packets is lost on the way up, or when one of its answer's packets is on the way
//! down. A packet is lost when neither it nor its copy arrives whole. Where the far end answers a message twice,
//! because a copy reached it too, both answers must be lost.
//!
//! The messages of a one-way load have no answers: one is lost when one of its packets is. Their number has the phase of the load
//! in its lowest bit.

use std::collections::BTreeMap;

use hairpin_link::{Direction, stages};
use hairpin_transports::is_hello;

use super::frames::{Fragment, IpPacket};
use crate::links::Numbered;

/// A packet that the relay could not let go, or a copy of it.
pub(super) const RELEASE: &str = "release";
/// A packet for which the relay had no room.
pub(super) const OVERRUN: &str = "overrun";
/// A packet that was still on its way at the end.
pub(super) const INSIDE: &str = "inside";
/// A packet that the receiver drops, because a bit of it was flipped: the name of the stage that did.
pub(super) const CORRUPT: &str = "corrupt";

/// How many messages are followed: their states take 16 MiB, of which only what is used is ever touched.
const FOLLOWED: usize = 16 * 1024 * 1024;

/// How many packets that come in parts are remembered in each direction: parts of one follow each other.
const FRAGMENTED: usize = 64;

/// What a packet is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    message: usize,
    of: Of,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
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
    /// A byte for each message.
    states: Vec<u8>,
    causes: Vec<&'static str>,
    fragmented: [Fragmented; 2],
}

/// The messages that the link kept from being answered or, of a one-way load, from arriving.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// By cause.
    pub(super) measured: BTreeMap<String, u64>,
    /// Of a one-way load's warm-up, which is not among those.
    pub(super) in_warm_up: u64,
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
        Self { numbered, newest: None, states: vec![0; FOLLOWED], causes, fragmented: [fragmented(), fragmented()] }
    }

    /// A packet has come: says what it is a part of, if it is part of a message or an answer.
    pub(super) fn saw(&mut self, direction: Direction, packet: &IpPacket, frame: &[u8]) -> Option<Part> {
        let fragmented = &mut self.fragmented[direction as usize];
        if let Some(later) = packet.fragment.filter(|fragment| !fragment.is_first) {
            return fragmented.part(later);
        }
        let payload = frame.get(packet.payload.clone()?)?;
        if is_hello(payload) || self.numbered.one_way.is_some_and(|way| way != direction) {
            return None;
        }
        let has_answers = self.numbered.one_way.is_none();
        let message = match direction {
            Direction::Down if has_answers => self.answered(payload)?,
            Direction::Up | Direction::Down => self.message(payload)?,
        };
        let message = usize::try_from(message).ok().filter(|message| *message < FOLLOWED)?;
        let of = if has_answers { self.begin(direction, message) } else { Of::Message };
        let part = Part { message, of };
        if let Some(first) = packet.fragment {
            self.fragmented[direction as usize].remember(first, part);
        }
        Some(part)
    }

    /// The part's packet is lost. A message that did not arrive whole has no answer, whatever comes back: damaged parts
    /// may get past the checksum.
    pub(super) fn lost(&mut self, part: Part, cause: &str) {
        let place = self.causes.iter().position(|known| *known == cause).map_or(0, |place| place + 1);
        let state = &mut self.states[part.message];
        *state = *state & !CAUSE | u8::try_from(place).unwrap_or(0);
        for ((answer, begun), lost) in ANSWERS.into_iter().zip(BEGUN).zip(LOST) {
            if part.of == answer {
                *state |= lost;
            } else if part.of == Of::Message {
                *state |= begun | lost;
            }
        }
    }

    /// The messages that the link kept from being answered, by cause; those of a one-way load's warm-up are counted apart.
    pub(super) fn lost_by_cause(&self) -> Lost {
        let seen = self.newest.map_or(0, |newest| usize::try_from(newest + 1).unwrap_or(FOLLOWED).min(FOLLOWED));
        let (mut measured, mut in_warm_up) = (BTreeMap::new(), 0);
        for (number, state) in self.states[..seen].iter().enumerate() {
            let is_lost = |answer: usize| state & BEGUN[answer] == 0 || state & LOST[answer] != 0;
            let cause = usize::from(state & CAUSE).checked_sub(1).and_then(|place| self.causes.get(place));
            let Some(cause) = cause.filter(|_| is_lost(0) && is_lost(1)) else { continue };
            if self.numbered.one_way.is_some() && number % 2 == 0 {
                in_warm_up += 1;
            } else {
                *measured.entry(format!("link-{cause}")).or_default() += 1;
            }
        }
        Lost { measured, in_warm_up }
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
