//! One direction of a link: a sequence of stages, run in exact order of time.

use hairpin_model::link::Direction;
use hairpin_model::{DirectionRecord, DroppedPacket, PacketCounts, StageRecord};

use crate::figures::PathProfile;
use crate::packet::{Fate, InFlight, Outcome, Packet};
use crate::stage::{Held, Outbox, Site, Stage};
use crate::stages;
use crate::timeline::Timeline;

/// Maximum drops that are listed individually. Further drops are only counted.
const MAX_LISTED_DROPS: usize = 1000;

/// One direction of a link.
///
/// Pass every packet to [`Path::arrive`], call [`Path::next_event_ns`] for the time at which something can leave next,
/// and fetch departures and drops with [`Path::advance`]. Calls may be late: events inside happen in order at their own
/// exact times, regardless of the time of the call.
pub struct Path {
    direction: Direction,
    stations: Vec<Station>,
    /// Index of the queue in `stations`, if there is one.
    queue: Option<usize>,
    /// Latest time of any call or event.
    now_ns: u64,
    /// Outcomes not yet fetched, in order of time.
    ready: Vec<Outcome>,
    /// Packets on their way to the next stage; empty between calls.
    moving: Vec<InFlight>,
    outbox: Outbox,
    data_packets: u64,
    counts: PathCounts,
    timeline: Timeline,
    drops: Vec<Outcome>,
    drops_unlisted: u64,
}

/// A stage with its counters.
struct Station {
    name: &'static str,
    figures: String,
    stage: Box<dyn Stage>,
    /// Minimum time that a packet still needs after this stage, in ns.
    least_after_ns: u64,
    ledger: StageCounts,
    highest_turn_out: u64,
}

#[derive(Debug, Default)]
struct StageCounts {
    entered: u64,
    out: u64,
    dropped: Vec<(&'static str, u64)>,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
    time_inside_ns: u64,
}

#[derive(Debug, Default)]
struct PathCounts {
    entered: u64,
    entered_bytes: u64,
    out: u64,
    reordered: u64,
    highest_number_out: u64,
}

impl Path {
    /// Builds the stages that the figures require, in the order of [`stages::ALL`].
    pub fn new(figures: &PathProfile, site: &Site<'_>) -> Self {
        let mut stations: Vec<Station> = stages::ALL
            .iter()
            .filter_map(|listed| {
                let stage = (listed.build)(figures, site)?;
                let figures = (listed.figures)(figures, site.mtu_bytes).unwrap_or_default();
                let dropped = listed.reasons.iter().map(|reason| (*reason, 0)).collect();
                let ledger = StageCounts { dropped, ..StageCounts::default() };
                Some(Station { name: listed.name, figures, stage, least_after_ns: 0, ledger, highest_turn_out: 0 })
            })
            .collect();
        let mut least_ns = 0_u64;
        for station in stations.iter_mut().rev() {
            station.least_after_ns = least_ns;
            least_ns = least_ns.saturating_add(station.stage.least_delay_ns());
        }
        Self {
            direction: site.direction,
            queue: stations.iter().position(|station| station.name == stages::queue::CARD.name),
            now_ns: 0,
            ready: Vec::with_capacity(MAX_LISTED_DROPS),
            moving: Vec::with_capacity(4),
            outbox: Outbox::default(),
            data_packets: 0,
            counts: PathCounts::default(),
            timeline: Timeline::new(stations.len()),
            drops: Vec::with_capacity(MAX_LISTED_DROPS),
            drops_unlisted: 0,
            stations,
        }
    }

    /// Handles the arrival of a packet. A time before the latest call counts as the time of the latest call.
    ///
    /// Events due by `now_ns` happen first, so a packet that leaves the queue at `now_ns` makes room.
    pub fn arrive(&mut self, packet: Packet, now_ns: u64) {
        self.run(now_ns);
        self.data_packets += u64::from(packet.carries_data);
        self.counts.entered += 1;
        self.counts.entered_bytes += u64::from(packet.size_bytes);
        self.timeline.entered(self.now_ns);
        self.moving.push(InFlight {
            packet,
            copy: 0,
            outcomes: 1,
            data_number: packet.carries_data.then_some(self.data_packets),
            arrived_ns: self.now_ns,
            corrupted_bit: None,
            turn: 0,
            entered_ns: self.now_ns,
        });
        self.pass_on_from(0);
    }

    /// When to call [`Path::advance`] next, in ns; nothing leaves earlier. `None` if the path is empty.
    ///
    /// The time is exact once the next packet to leave has entered the last stage that delays packets. Until then the
    /// time may be too early, so that `advance` returns nothing.
    pub fn next_event_ns(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(self.now_ns);
        }
        let events = self.stations.iter().filter_map(|station| {
            station.stage.next_ns().map(|next_ns| next_ns.saturating_add(station.least_after_ns))
        });
        events.min().map(|next_ns| next_ns.max(self.now_ns))
    }

    /// Advances to `now_ns` and appends departures and drops to `out`, in order of time.
    pub fn advance(&mut self, now_ns: u64, out: &mut Vec<Outcome>) {
        self.run(now_ns);
        out.append(&mut self.ready);
    }

    /// Number of packets and copies in the stages. Outcomes that are not yet fetched do not count.
    pub fn inside(&self) -> u64 {
        self.stations.iter().map(|station| station.stage.holds().packets).sum()
    }

    /// Appends each packet and copy inside to `out`, by number. The due times of packets in the last stage are known.
    pub fn each_inside(&self, out: &mut Vec<Outcome>) {
        let first = out.len();
        for (after, station) in (0..).zip(self.stations.iter().rev()) {
            station.stage.each_held(&mut |packet, passed_on_ns| {
                let fate = Fate::Inside { due_ns: passed_on_ns.filter(|_| after == 0) };
                out.push(outcome(self.direction, packet, fate));
            });
        }
        out[first..].sort_by_key(|outcome| (outcome.number, outcome.copy));
    }

    /// The packets in the queue now, including the packet being sent; `None` if the path has no queue.
    pub fn queue_depth(&self) -> Option<Held> {
        self.queue.map(|queue| self.stations[queue].stage.holds())
    }

    /// Names of the stages, in order.
    pub fn stages(&self) -> impl Iterator<Item = &'static str> {
        self.stations.iter().map(|station| station.name)
    }

    pub fn record(&self) -> DirectionRecord {
        DirectionRecord {
            packets: self.packets(),
            in_bytes: self.counts.entered_bytes,
            stages: self.stations.iter().map(Station::record).collect(),
            timeline: Some(self.timeline.record(self.stages())),
            drops: self.drops.iter().filter_map(listed).collect(),
            drops_unlisted: self.drops_unlisted,
        }
    }

    pub fn packets(&self) -> PacketCounts {
        let sum = |of: fn(&StageCounts) -> u64| self.stations.iter().map(|station| of(&station.ledger)).sum();
        let dropped = self.stations.iter().map(|station| {
            (station.name.to_owned(), station.ledger.dropped.iter().map(|(_, count)| count).sum::<u64>())
        });
        PacketCounts {
            entered: self.counts.entered,
            out: self.counts.out,
            dropped: dropped.filter(|(_, count)| *count > 0).collect(),
            duplicated: sum(|ledger| ledger.duplicated),
            reordered: self.counts.reordered,
            corrupted: sum(|ledger| ledger.corrupted),
            inside: self.inside(),
        }
    }

    /// Runs every event up to `now_ns`, earliest first. Of simultaneous events, the one in the latest stage runs first.
    fn run(&mut self, now_ns: u64) {
        while let Some((at, next_ns)) = self.earliest().filter(|(_, next_ns)| *next_ns <= now_ns) {
            self.now_ns = self.now_ns.max(next_ns);
            self.stations[at].stage.act(self.now_ns, &mut self.outbox);
            self.count_outputs(at);
            self.pass_on_from(at + 1);
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    fn earliest(&self) -> Option<(usize, u64)> {
        let events = self.stations.iter().enumerate().rev();
        events.filter_map(|(at, station)| Some((at, station.stage.next_ns()?))).min_by_key(|(_, next_ns)| *next_ns)
    }

    /// Moves packets through the stages from `first` on, as far as they can go now.
    fn pass_on_from(&mut self, first: usize) {
        for at in first..self.stations.len() {
            if self.moving.is_empty() {
                return;
            }
            let station = &mut self.stations[at];
            for packet in self.moving.drain(..) {
                station.ledger.entered += 1;
                station.stage.arrive(
                    InFlight { turn: station.ledger.entered, entered_ns: self.now_ns, ..packet },
                    self.now_ns,
                    &mut self.outbox,
                );
            }
            self.count_outputs(at);
        }
        for packet in self.moving.drain(..) {
            self.counts.out += 1;
            self.counts.reordered += u64::from(packet.packet.number < self.counts.highest_number_out);
            self.counts.highest_number_out = self.counts.highest_number_out.max(packet.packet.number);
            self.timeline.left(self.now_ns, packet.packet.size_bytes.into());
            let fate = Fate::Leaves { due_ns: self.now_ns, corrupted_bit: packet.corrupted_bit };
            self.ready.push(outcome(self.direction, &packet, fate));
        }
    }

    /// Counts the packets that left stage `at`. Packets that were not dropped are then in `moving`.
    fn count_outputs(&mut self, at: usize) {
        let station = &mut self.stations[at];
        for (packet, reason) in self.outbox.dropped.drain(..) {
            station.ledger.count_drop(reason);
            self.timeline.dropped(self.now_ns, at);
            let fate = Fate::Dropped { at_ns: self.now_ns, stage: station.name, reason };
            let outcome = outcome(self.direction, &packet, fate);
            self.ready.push(outcome);
            if self.drops.len() < MAX_LISTED_DROPS {
                self.drops.push(outcome);
            } else {
                self.drops_unlisted += 1;
            }
        }
        for packet in &self.outbox.passed {
            station.ledger.reordered += u64::from(packet.turn < station.highest_turn_out);
            station.highest_turn_out = station.highest_turn_out.max(packet.turn);
            station.ledger.time_inside_ns += self.now_ns - packet.entered_ns;
        }
        station.ledger.out += self.outbox.passed.len() as u64;
        station.ledger.duplicated += std::mem::take(&mut self.outbox.duplicated);
        station.ledger.corrupted += std::mem::take(&mut self.outbox.corrupted);
        self.moving.append(&mut self.outbox.passed);
        if self.queue == Some(at) {
            self.timeline.queue(self.now_ns, station.stage.holds());
        }
    }
}

impl StageCounts {
    fn count_drop(&mut self, reason: &'static str) {
        match self.dropped.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => self.dropped.push((reason, 1)),
        }
    }
}

impl Station {
    fn record(&self) -> StageRecord {
        let dropped = self.ledger.dropped.iter().filter(|(_, count)| *count > 0);
        StageRecord {
            stage: self.name.to_owned(),
            figures: self.figures.clone(),
            packets: PacketCounts {
                entered: self.ledger.entered,
                out: self.ledger.out,
                dropped: dropped.map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
                duplicated: self.ledger.duplicated,
                reordered: self.ledger.reordered,
                corrupted: self.ledger.corrupted,
                inside: self.stage.holds().packets,
            },
            time_inside_ns: self.ledger.time_inside_ns,
            line_without: None,
            line_with_codel: None,
        }
    }
}

fn outcome(direction: Direction, packet: &InFlight, fate: Fate) -> Outcome {
    Outcome {
        direction,
        number: packet.packet.number,
        copy: packet.copy,
        outcomes: packet.outcomes,
        size_bytes: packet.packet.size_bytes,
        carries_data: packet.packet.carries_data,
        arrived_ns: packet.arrived_ns,
        fate,
    }
}

fn listed(outcome: &Outcome) -> Option<DroppedPacket> {
    let Fate::Dropped { at_ns, stage, reason } = outcome.fate else { return None };
    Some(DroppedPacket {
        number: outcome.number,
        size_bytes: u64::from(outcome.size_bytes),
        carries_data: outcome.carries_data,
        arrived_ns: outcome.arrived_ns,
        dropped_ns: at_ns,
        stage: stage.to_owned(),
        reason: reason.to_owned(),
    })
}
