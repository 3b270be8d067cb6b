//! The loop: packets enter, pass through the link, and leave when due. It does not know sockets: its tests use fixture
//! interfaces and a manual clock.

use std::collections::BTreeMap;

use hairpin_link::Direction;
use hairpin_link::link::Link;
use hairpin_link::log::LogLine;
use hairpin_link::packet::{Fate, Outcome, Packet};
use hairpin_model::{Failure, FlowId, LinkRecord, PacketCounts, StageRecord};

use super::frames::{self, Content};
use super::interfaces::{Arrival, Interfaces};
use super::lateness::{Lateness, Margins};
use super::log::Log;
use super::messages::{self, Flows};
use super::packet_store::PacketStore;
use crate::links::LostMessages;
use crate::system::packet_socket::BATCH;

const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// Frames taken from one interface before due packets are sent.
const TAKEN: usize = 64;

/// Interval of the checks for the end while there is no time to wait, in ns.
const LOOK_NS: u64 = 1_000_000;

/// Outcomes for which memory is allocated in advance.
const READY: usize = 1024;

/// Why a due packet was not sent.
const REFUSED: &str = "refused";

pub(super) struct Carrier {
    link: Link,
    pub(super) kept: PacketStore,
    messages: Flows,
    log: Option<Log>,
    lateness: Lateness,
    /// Packets so far, by direction.
    numbers: [u64; 2],
    /// Packets and copies that were due and could not be sent, by direction.
    refused: [u64; 2],
    /// Packets for which there was no memory.
    overrun: u64,
    /// Frames that are neither IP nor ARP, or have a VLAN tag.
    not_carried: u64,
    /// Outcomes of the current pass; empty between passes.
    outcomes: Vec<Outcome>,
    /// A frame that bypasses the link; empty between frames.
    beside: Vec<u8>,
}

pub(super) struct Carried {
    pub(super) record: LinkRecord,
    pub(super) lost: BTreeMap<FlowId, LostMessages>,
    pub(super) overrun: u64,
    pub(super) not_carried: u64,
}

impl Carrier {
    pub(super) fn new(link: Link, kept: PacketStore, messages: Flows, log: Option<Log>) -> Self {
        Self {
            link,
            kept,
            messages,
            log,
            lateness: Lateness::new(),
            numbers: [0; 2],
            refused: [0; 2],
            overrun: 0,
            not_carried: 0,
            outcomes: Vec::with_capacity(READY),
            beside: Vec::new(),
        }
    }

    /// Carries packets until the end.
    pub(super) fn carry(&mut self, interfaces: &mut impl Interfaces) -> Result<(), Failure> {
        let (mut margins, mut looked_ns) = (Margins::new(), 0);
        loop {
            let moved = self.pass(interfaces);
            let now_ns = interfaces.now_ns();
            let next_ns = if moved { Some(now_ns) } else { self.link.next_event_ns() };
            let ahead_ns = next_ns.map(|next_ns| next_ns.saturating_sub(now_ns));
            let wait_ns = ahead_ns.map(|ahead_ns| margins.wait_ns(ahead_ns));
            if let (Some(next_ns), Some(0)) = (next_ns, wait_ns)
                && now_ns.saturating_sub(looked_ns) < LOOK_NS
            {
                interfaces.spin(next_ns);
                continue;
            }
            if interfaces.wait(wait_ns)? {
                break;
            }
            looked_ns = interfaces.now_ns();
            if let (Some(ahead_ns), Some(wait_ns)) = (ahead_ns, wait_ns) {
                margins.on_wake(ahead_ns, wait_ns, looked_ns.saturating_sub(now_ns));
            }
        }
        // Take in packets that arrived before the end, but not endlessly later ones.
        let passes = interfaces.places().div_ceil(TAKEN);
        let _ = (0..passes).find(|_| !self.pass(interfaces));
        Ok(())
    }

    /// Takes in arrived packets and sends due ones. Returns whether there were any.
    fn pass(&mut self, interfaces: &mut impl Interfaces) -> bool {
        // Available packets are taken in before anything due by now leaves. So the link's time is past a packet's stamp
        // only if the packet was stamped before now and entered the ring later. The link then moves its arrival to the
        // link's time, and the difference counts as lateness.
        let mut until_ns = interfaces.now_ns();
        let mut came = false;
        for direction in DIRECTIONS {
            for turn in 0..TAKEN {
                let mut arrived_ns = 0;
                let any = interfaces.receive(direction, |arrival| {
                    arrived_ns = arrival.arrived_ns;
                    self.arrive(direction, arrival);
                });
                if !any {
                    break;
                }
                came = true;
                if !self.beside.is_empty() {
                    interfaces.send(direction, &[&self.beside]);
                    self.beside.clear();
                }
                if turn + 1 == TAKEN {
                    until_ns = until_ns.min(arrived_ns);
                }
            }
        }
        self.link.advance(until_ns, &mut self.outcomes);
        let outcomes = std::mem::take(&mut self.outcomes);
        let mut rest = outcomes.as_slice();
        while !rest.is_empty() {
            let (together, after) = rest.split_at(together(rest));
            self.carry_out(interfaces, together);
            rest = after;
        }
        let went = !outcomes.is_empty();
        self.outcomes = outcomes;
        self.outcomes.clear();
        came || went
    }

    fn arrive(&mut self, direction: Direction, arrival: &Arrival<'_>) {
        let packet = match frames::content(direction, arrival.bytes, arrival.length_bytes) {
            _ if arrival.had_tag => return self.not_carried += 1,
            Content::Other => return self.not_carried += 1,
            Content::Arp => return self.beside.extend_from_slice(arrival.bytes),
            Content::Ip(packet) => packet,
        };
        let part = self.messages.on_packet(direction, &packet, arrival.bytes);
        let number = self.numbers[direction as usize];
        if !self.kept.keep(direction, number, arrival.bytes, arrival.arrived_ns, part) {
            self.overrun += 1;
            if let Some(part) = part {
                self.messages.lost(part, messages::OVERRUN);
            }
            return;
        }
        self.numbers[direction as usize] += 1;
        let size_bytes = u32::try_from(packet.size_bytes).unwrap_or(u32::MAX);
        let packet = Packet { number, size_bytes, carries_data: packet.carries_data };
        self.link.arrive(direction, packet, arrival.arrived_ns);
    }

    /// Carries out outcomes of packets that can leave together.
    fn carry_out(&mut self, interfaces: &mut impl Interfaces, outcomes: &[Outcome]) {
        let [first, ..] = outcomes else { return };
        let (direction, number) = (first.direction, first.number);
        let corrupted_bit = match first.fate {
            Fate::Leaves { corrupted_bit, .. } => corrupted_bit,
            Fate::Dropped { stage, .. } => {
                self.write(first, None);
                return self.settle(first, Some(stage));
            }
            // These only go to the log, at the end.
            Fate::Inside { .. } => return,
        };
        let Some(bit) = corrupted_bit else { return self.let_go(interfaces, outcomes, None) };
        // The packet's copy has the same bit flipped, but each is flipped separately.
        let noticed = self.flip(direction, number, bit);
        self.let_go(interfaces, outcomes, noticed.then_some(messages::CORRUPT));
        self.flip(direction, number, bit);
    }

    /// Flips a bit of a packet. Returns whether the receiver notices.
    fn flip(&mut self, direction: Direction, number: u64, bit: u32) -> bool {
        let Some(kept) = self.kept.get_mut(direction, number) else { return false };
        let noticed = frames::is_damage_noticed(kept.frame(), bit);
        let at = frames::ETHERNET_BYTES + usize::try_from(bit / 8).unwrap_or(usize::MAX / 2);
        if let Some(byte) = kept.frame_mut().get_mut(at) {
            *byte ^= 0x80 >> (bit % 8);
        }
        noticed
    }

    /// Sends packets that leave in one direction; `lost` is the cause if they are lost nevertheless.
    ///
    /// The time between the beginning and the end of a call is divided evenly among its packets. So the first counts as
    /// released before the call: its lateness excludes the call itself.
    fn let_go(&mut self, interfaces: &mut impl Interfaces, outcomes: &[Outcome], lost: Option<&'static str>) {
        let (mut rest, mut before_ns) = (outcomes, interfaces.now_ns());
        while let [first, ..] = rest {
            let direction = first.direction;
            let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
            for (frame, outcome) in frames.iter_mut().zip(rest) {
                *frame = self.kept.get(direction, outcome.number).map_or(&[], |kept| kept.frame());
            }
            let sent = interfaces.send(direction, &frames[..rest.len()]).min(rest.len());
            let after_ns = interfaces.now_ns();
            let (went, left) = rest.split_at(sent);
            for (turn, outcome) in (0..).zip(went) {
                // The kernel sends one after the other.
                let released_ns = before_ns + after_ns.saturating_sub(before_ns) * turn / sent.max(1) as u64;
                self.lateness.record(released_ns.saturating_sub(outcome.fate.at_ns()) + self.moved_ns(outcome));
                self.write(outcome, Some(released_ns));
                self.settle(outcome, lost);
            }
            rest = left;
            if let [refused, others @ ..] = left {
                self.refused[direction as usize] += 1;
                self.write(refused, None);
                self.settle(refused, Some(messages::RELEASE));
                rest = others;
            }
            before_ns = after_ns;
        }
    }

    /// How far the link moved a packet's arrival because its time was past the stamp.
    fn moved_ns(&self, outcome: &Outcome) -> u64 {
        let kept = self.kept.get(outcome.direction, outcome.number);
        kept.map_or(0, |kept| outcome.arrived_ns.saturating_sub(kept.stamped_ns))
    }

    /// Logs a packet that is still kept, with its own stamp.
    fn write(&mut self, outcome: &Outcome, released_ns: Option<u64>) {
        let line = self.line(outcome, released_ns);
        if let Some(log) = &mut self.log {
            log.add(line);
        }
    }

    fn line(&self, outcome: &Outcome, released_ns: Option<u64>) -> LogLine {
        let arrived_ns = outcome.arrived_ns - self.moved_ns(outcome);
        LogLine { outcome: Outcome { arrived_ns, ..*outcome }, released_ns }
    }

    /// Logs each packet still inside and flushes. Returns why the log is incomplete, if it is.
    fn finish_log(&mut self) -> Option<String> {
        let log = self.log.take()?;
        let mut inside = Vec::new();
        self.link.each_inside(&mut inside);
        log.finish(inside.iter().map(|outcome| self.line(outcome, None)))
    }

    /// Handles one outcome of a packet: it arrived whole, or was lost by `lost`.
    fn settle(&mut self, outcome: &Outcome, lost: Option<&'static str>) {
        let Some(kept) = self.kept.get_mut(outcome.direction, outcome.number) else { return };
        kept.outcomes += 1;
        kept.arrived |= lost.is_none();
        if kept.outcomes < outcome.outcomes {
            return;
        }
        let part = kept.part.filter(|_| !kept.arrived);
        if let (Some(part), Some(cause)) = (part, lost) {
            self.messages.lost(part, cause);
        }
        self.kept.let_go(outcome.direction, outcome.number);
    }

    /// The results of all packets.
    pub(super) fn finish(mut self) -> Carried {
        let inside = self.kept.all().filter(|kept| !kept.arrived);
        inside.filter_map(|kept| kept.part).for_each(|part| self.messages.lost(part, messages::INSIDE));
        let mut record = self.link.record(self.lateness.figures());
        record.log_problem = self.finish_log();
        for (direction, refused) in [&mut record.up, &mut record.down].into_iter().zip(self.refused) {
            if refused > 0 {
                refuse(&mut direction.packets, refused);
                refuse(&mut record.packets, refused);
                direction.stages.push(release(direction.packets.out, refused));
            }
        }
        Carried { record, lost: self.messages.lost_by_cause(), overrun: self.overrun, not_carried: self.not_carried }
    }
}

/// Number of the first outcomes to carry out together: packets that leave in one direction. A damaged packet goes
/// alone, and so does a drop.
fn together(outcomes: &[Outcome]) -> usize {
    let goes_on = |outcome: &&Outcome| {
        outcome.direction == outcomes[0].direction && matches!(outcome.fate, Fate::Leaves { corrupted_bit: None, .. })
    };
    outcomes.iter().take(BATCH).take_while(goes_on).count().max(1)
}

/// Moves packets that left the link but were not sent to the dropped ones.
fn refuse(counts: &mut PacketCounts, refused: u64) {
    counts.out -= refused;
    *counts.dropped.entry(messages::RELEASE.to_owned()).or_default() += refused;
}

/// The relay itself as the last stage, if it could not send everything.
fn release(out: u64, refused: u64) -> StageRecord {
    StageRecord {
        stage: messages::RELEASE.to_owned(),
        figures: "the interface at the end of the link".to_owned(),
        packets: PacketCounts {
            entered: out + refused,
            out,
            dropped: BTreeMap::from([(REFUSED.to_owned(), refused)]),
            ..PacketCounts::default()
        },
        ..StageRecord::default()
    }
}
