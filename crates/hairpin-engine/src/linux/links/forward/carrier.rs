//! The relay loop: packets enter, pass through the link and leave when due. The loop uses no sockets directly, so
//! tests run it with fixture interfaces and a manual clock.

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
const FRAMES_PER_PASS: usize = 64;

/// Interval in ns of the checks for the request to end, while the loop never has time to wait.
const POLL_INTERVAL_NS: u64 = 1_000_000;

/// Outcomes for which memory is allocated in advance.
const RESERVED_OUTCOMES: usize = 1024;

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
    /// Packets and copies that were due but could not be sent, by direction.
    refused: [u64; 2],
    /// Packets lost because the memory was full.
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
            lateness: Lateness::new(link.round_trip_ns()),
            link,
            kept,
            messages,
            log,
            numbers: [0; 2],
            refused: [0; 2],
            overrun: 0,
            not_carried: 0,
            outcomes: Vec::with_capacity(RESERVED_OUTCOMES),
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
                && now_ns.saturating_sub(looked_ns) < POLL_INTERVAL_NS
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
        // Packets that arrived before the end still enter. Later packets do not, because they might never stop.
        let passes = interfaces.places().div_ceil(FRAMES_PER_PASS);
        let _ = (0..passes).find(|_| !self.pass(interfaces));
        Ok(())
    }

    /// Takes in arrived packets and sends due packets. Returns whether there were any packets.
    fn pass(&mut self, interfaces: &mut impl Interfaces) -> bool {
        // Available packets are taken in before due packets leave, so the link's time passes a packet's timestamp
        // only if the packet was late to enter the ring. The link then moves the arrival to its own time, and the
        // difference counts as lateness.
        let mut until_ns = interfaces.now_ns();
        let mut came = false;
        for direction in DIRECTIONS {
            for turn in 0..FRAMES_PER_PASS {
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
                if turn + 1 == FRAMES_PER_PASS {
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

    /// Carries out the outcomes of packets that can leave together.
    fn carry_out(&mut self, interfaces: &mut impl Interfaces, outcomes: &[Outcome]) {
        let [first, ..] = outcomes else { return };
        let (direction, number) = (first.direction, first.number);
        let corrupted_bit = match first.fate {
            Fate::Leaves { corrupted_bit, .. } => corrupted_bit,
            Fate::Dropped { stage, .. } => {
                self.write(first, None);
                return self.on_outcome(first, Some(stage));
            }
            // Packets inside are logged only at the end.
            Fate::Inside { .. } => return,
        };
        let Some(bit) = corrupted_bit else { return self.send_due(interfaces, outcomes, None) };
        // The bit is flipped only for this send: a copy shares these bytes and flips the same bit for its own send.
        let noticed = self.flip(direction, number, bit);
        self.send_due(interfaces, outcomes, noticed.then_some(messages::CORRUPT));
        self.flip(direction, number, bit);
    }

    /// Flips a bit of a packet. Returns whether the receiver detects it.
    fn flip(&mut self, direction: Direction, number: u64, bit: u32) -> bool {
        let Some(kept) = self.kept.get_mut(direction, number) else { return false };
        let noticed = frames::is_damage_noticed(kept.frame(), bit);
        let at = frames::ETHERNET_BYTES + usize::try_from(bit / 8).unwrap_or(usize::MAX / 2);
        if let Some(byte) = kept.frame_mut().get_mut(at) {
            *byte ^= 0x80 >> (bit % 8);
        }
        noticed
    }

    /// Sends packets that leave in one direction. `lost` is the cause if the packets nevertheless count as lost.
    ///
    /// The duration of a send call is divided evenly among its packets. The first packet counts as released before the
    /// call, so its lateness excludes the call itself.
    fn send_due(&mut self, interfaces: &mut impl Interfaces, outcomes: &[Outcome], lost: Option<&'static str>) {
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
                // The kernel sends the packets one after the other.
                let released_ns = before_ns + after_ns.saturating_sub(before_ns) * turn / sent.max(1) as u64;
                let late_ns = released_ns.saturating_sub(outcome.fate.at_ns()) + self.moved_ns(outcome);
                self.lateness.record(late_ns, released_ns);
                self.write(outcome, Some(released_ns));
                self.on_outcome(outcome, lost);
            }
            rest = left;
            if let [refused, others @ ..] = left {
                self.refused[direction as usize] += 1;
                self.write(refused, None);
                self.on_outcome(refused, Some(messages::RELEASE));
                rest = others;
            }
            before_ns = after_ns;
        }
    }

    /// By how many ns the link moved the packet's arrival, because the link's time was later than the timestamp.
    fn moved_ns(&self, outcome: &Outcome) -> u64 {
        let kept = self.kept.get(outcome.direction, outcome.number);
        kept.map_or(0, |kept| outcome.arrived_ns.saturating_sub(kept.stamped_ns))
    }

    /// Logs a packet that is still stored, with its own timestamp.
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

    /// Logs each packet still inside and flushes the log. Returns the reason if the log is incomplete.
    fn finish_log(&mut self) -> Option<String> {
        let log = self.log.take()?;
        let mut inside = Vec::new();
        self.link.each_inside(&mut inside);
        log.finish(inside.iter().map(|outcome| self.line(outcome, None)))
    }

    /// Handles one outcome of a packet. `lost` is the cause of the loss; `None` if the packet arrived whole.
    fn on_outcome(&mut self, outcome: &Outcome, lost: Option<&'static str>) {
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
        self.kept.remove(outcome.direction, outcome.number);
    }

    /// The results of all packets.
    pub(super) fn finish(mut self) -> Carried {
        let inside = self.kept.packets().filter(|kept| !kept.arrived);
        inside.filter_map(|kept| kept.part).for_each(|part| self.messages.lost(part, messages::INSIDE));
        let mut record = self.link.record(self.lateness.figures());
        record.stalled_ns = Some(self.lateness.stalled_ns());
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

/// The number of leading outcomes to carry out together: packets that leave in one direction. A damaged packet and a
/// drop are each carried out alone.
fn together(outcomes: &[Outcome]) -> usize {
    let goes_on = |outcome: &&Outcome| {
        outcome.direction == outcomes[0].direction && matches!(outcome.fate, Fate::Leaves { corrupted_bit: None, .. })
    };
    outcomes.iter().take(BATCH).take_while(goes_on).count().max(1)
}

/// Counts as dropped the packets that left the link but were not sent.
fn refuse(counts: &mut PacketCounts, refused: u64) {
    counts.out -= refused;
    *counts.dropped.entry(messages::RELEASE.to_owned()).or_default() += refused;
}

/// The record of the relay as the last stage, if it could not send all packets.
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
