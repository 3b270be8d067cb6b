//! The bottleneck: packets wait in a queue, and leave at a fixed rate or at the times of a replayed trace.
//!
//! One packet is being sent and the others wait behind it. The limit applies to waiting packets: a packet that
//! arrives and finds no room is dropped (tail drop, reason `full`). With `codel=` packets are also dropped as they
//! leave the queue (reason `codel`, see [`codel`]). A packet leaves this stage when its last bit has been sent. Sizes
//! are those of IP packets, without a link header.

pub mod codel;
mod rate;
mod replay;
mod service;
mod waiting;

use hairpin_model::Refused;

use service::Service;
use waiting::Waiting;

pub use crate::figures::{Bottleneck, Limit};

use crate::figures::PathProfile;
use crate::packet::InFlight;
use crate::quantity::{bytes, rate_bits_per_s, shown_bytes, shown_rate, whole};
use crate::stage::{Card, Contradiction, Held, Outbox, Stage};
use crate::word::{Requirement, Word};

pub const CARD: Card = Card {
    name: "queue",
    models: "the bottleneck: a queue that is sent at a fixed rate or by a replayed trace",
    words: &[RATE, REPLAY, QUEUE, CODEL],
    reasons: &["full", "codel"],
    check,
    figures,
    build: |path, site| {
        let bottleneck = &path.bottleneck;
        let service: Box<dyn Service> = match (bottleneck.rate_bits_per_s, site.trace) {
            (Some(bits_per_s), _) => Box::new(rate::Rate::new(bits_per_s)),
            (None, Some(trace)) => Box::new(replay::Replay::new(trace)),
            (None, None) => return None,
        };
        Some(Box::new(Queue::new(bottleneck, site.mtu_bytes, service)))
    },
};

/// A profile may also contain `up=` and `down=` for `up.rate=` and `down.rate=`.
const RATE: Word = Word {
    name: "rate",
    example: "rate=10mbit",
    says: "bits of IP packets per second; up=5.5mbit or down=80mbit sets one direction",
    read: |path, value| rate_bits_per_s(value).map(|rate| path.bottleneck.rate_bits_per_s = Some(rate)),
    shown: |path| path.bottleneck.rate_bits_per_s.map(shown_rate),
    about: None,
};

const REPLAY: Word = Word {
    name: "replay",
    example: "up.replay=uplink.trace",
    says: "instead of a rate, a file in mahimahi's format with the times at which a packet can leave",
    read: |path, value| {
        if value.is_empty() {
            return Err(Refused::new("no file is named", "for instance replay=uplink.trace"));
        }
        path.bottleneck.replay = Some(value.to_owned());
        Ok(())
    },
    shown: |path| path.bottleneck.replay.clone(),
    about: None,
};

const QUEUE: Word = Word {
    name: "queue",
    example: "queue=64KiB,100packets",
    says: "limit of the queue: bytes, packets or both (default: 1000 packets)",
    read: |path, value| read(value).map(|limit| path.bottleneck.limit = limit),
    shown: |path| path.bottleneck.limit.shown(),
    about: Some(Requirement { clear: |path| path.bottleneck.limit = Limit::default(), ..A_RATE }),
};

const CODEL: Word = Word {
    name: "codel",
    example: "codel=5ms/100ms",
    says: "CoDel (RFC 8289): the acceptable wait, and how long it may be exceeded before packets are dropped",
    read: |path, value| codel::read(value).map(|codel| path.bottleneck.codel = Some(codel)),
    shown: |path| path.bottleneck.codel.map(codel::shown),
    about: Some(Requirement { clear: |path| path.bottleneck.codel = None, ..A_RATE }),
};

const A_RATE: Requirement =
    Requirement { needs: "a rate", example: "rate=10mbit", there: |path| path.bottleneck.sends(), clear: |_| () };

/// Default queue limit in packets, as in netem and for Linux Ethernet interfaces.
pub const DEFAULT_PACKETS: u64 = 1000;

/// Maximum queue limit in packets.
pub const MAX_PACKETS: u64 = 1_000_000;

impl Limit {
    fn shown(self) -> Option<String> {
        let parts = [self.bytes.map(shown_bytes), self.packets.map(|packets| format!("{packets}packets"))];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }

    fn has_room(self, waiting: Held, size_bytes: u64) -> bool {
        self.packets.is_none_or(|packets| waiting.packets < packets)
            && self.bytes.is_none_or(|bytes| waiting.bytes.saturating_add(size_bytes) <= bytes)
    }
}

fn read(value: &str) -> Result<Limit, Refused> {
    let mut limit = Limit::default();
    for part in value.split(',') {
        let packets = ["packets", "packet", "p"].iter().find_map(|unit| part.strip_suffix(unit));
        let twice = match packets {
            Some(number) => limit.packets.replace(packets_of(number)?).is_some(),
            None => limit.bytes.replace(bytes_of(part)?).is_some(),
        };
        if twice {
            let problem = format!("`{value}` gives two limits of the same kind");
            return Err(Refused::new(problem, "one in bytes, one in packets, or both: 64KiB,100packets"));
        }
    }
    Ok(limit)
}

fn packets_of(number: &str) -> Result<u64, Refused> {
    let hint = "for instance 100packets";
    let packets = whole(number).map_err(|bad| Refused::new(bad.what, hint))?;
    match packets {
        0 => Err(Refused::new("a queue of 0 packets is too small", "at least 1packets")),
        1..=MAX_PACKETS => Ok(packets),
        _ => Err(Refused::new(format!("`{number}packets` is too large"), format!("at most {MAX_PACKETS}packets"))),
    }
}

fn bytes_of(part: &str) -> Result<u64, Refused> {
    bytes(part).map_err(|bad| match whole(part) {
        Ok(_) => Refused::new(format!("`{part}` has no unit"), format!("{part}packets, or {part}KiB")),
        Err(_) => Refused { hint: "for instance 64KiB or 100packets".to_owned(), ..bad },
    })
}

fn check(path: &PathProfile, mtu_bytes: u32) -> Option<Contradiction> {
    let Bottleneck { rate_bits_per_s, replay, limit, codel } = &path.bottleneck;
    let fault = |word, problem: String, hint: String| Some(Contradiction { word, problem, hint });
    if rate_bits_per_s.is_some() && replay.is_some() {
        let problem = "a direction has a rate or replays a trace, not both".to_owned();
        return fault("replay", problem, "keep one of them".to_owned());
    }
    if *rate_bits_per_s == Some(0) {
        return fault(
            "rate",
            "a rate of 0 lets nothing through".to_owned(),
            "for an outage use `outage=2s-5s`".to_owned(),
        );
    }
    if path.bottleneck.sends() && *limit == Limit::default() {
        return fault("queue", "a rate needs a queue limit".to_owned(), "queue=1000packets".to_owned());
    }
    if let Some(bytes) = limit.bytes.filter(|bytes| *bytes < u64::from(mtu_bytes)) {
        let problem = format!("a queue of {} is too small for one packet of {mtu_bytes} B", shown_bytes(bytes));
        return fault("queue", problem, format!("at least {mtu_bytes}B, the MTU"));
    }
    codel.as_ref().and_then(codel::check)
}

fn figures(path: &PathProfile, _mtu_bytes: u32) -> Option<String> {
    let Bottleneck { rate_bits_per_s, replay, limit, codel } = &path.bottleneck;
    let service = match (rate_bits_per_s, replay) {
        (Some(bits_per_s), _) => format!("{}/s", shown_rate(*bits_per_s)),
        (None, Some(name)) => format!("replays {name}"),
        (None, None) => return None,
    };
    let limit = limit.shown().unwrap_or_default().replace(',', " and ").replace("packets", " packets");
    let discipline = match codel {
        None => "tail drop".to_owned(),
        Some(codel) => format!("CoDel {}", codel::shown(*codel)),
    };
    Some(format!("{service}, queue limit {limit}, {discipline}"))
}

struct Queue {
    limit: Limit,
    waiting: Waiting,
    /// The packet being sent, and when its last bit will have been sent, in ns.
    sending: Option<(InFlight, u64)>,
    service: Box<dyn Service>,
    codel: Option<codel::State>,
}

impl Queue {
    fn new(bottleneck: &Bottleneck, mtu_bytes: u32, service: Box<dyn Service>) -> Self {
        let by_bytes = bottleneck.limit.bytes.map_or(u64::MAX, |bytes| bytes / u64::from(mtu_bytes.max(1)));
        let room = bottleneck.limit.packets.unwrap_or(u64::MAX).min(by_bytes.saturating_mul(2)).min(4096);
        Self {
            limit: bottleneck.limit,
            waiting: Waiting::with_room(usize::try_from(room).unwrap_or(0)),
            sending: None,
            service,
            codel: bottleneck.codel.map(|codel| codel::State::new(codel, mtu_bytes)),
        }
    }

    fn send_next(&mut self, now_ns: u64, out: &mut Outbox) {
        let next = match &mut self.codel {
            None => self.waiting.pop().map(|(packet, _)| packet),
            Some(codel) => codel.dequeue(&mut self.waiting, now_ns, out),
        };
        self.sending = next.map(|packet| {
            let through_ns = self.service.send(packet.packet.size_bytes, now_ns);
            (packet, through_ns)
        });
    }
}

impl Stage for Queue {
    fn arrive(&mut self, packet: InFlight, now_ns: u64, out: &mut Outbox) {
        if self.sending.is_some() && !self.limit.has_room(self.waiting.holds(), u64::from(packet.packet.size_bytes)) {
            out.drop(packet, "full");
            return;
        }
        self.waiting.push(packet, now_ns);
        if self.sending.is_none() {
            self.send_next(now_ns, out);
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.sending.map(|(_, through_ns)| through_ns)
    }

    fn act(&mut self, now_ns: u64, out: &mut Outbox) {
        if let Some((packet, _)) = self.sending.take() {
            out.pass(packet);
            self.send_next(now_ns, out);
        }
    }

    fn holds(&self) -> Held {
        let waiting = self.waiting.holds();
        self.sending.map_or(waiting, |(packet, _)| Held {
            packets: waiting.packets + 1,
            bytes: waiting.bytes + u64::from(packet.packet.size_bytes),
        })
    }

    fn each_held(&self, tell: &mut dyn FnMut(&InFlight, Option<u64>)) {
        if let Some((packet, through_ns)) = &self.sending {
            tell(packet, Some(*through_ns));
        }
        self.waiting.each(&mut |packet| tell(packet, None));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use crate::simulate::simulate;
    use crate::tests::fixture::{departures, drops, fates, link, packets};

    #[test]
    fn of_a_burst_all_packets_beyond_the_first_and_a_full_queue_are_dropped() {
        let outcomes = fates("rate=12mbit queue=3packets", &packets([(0, 1500); 10]));
        let kept: Vec<u64> = departures(&outcomes).iter().map(|(number, _)| *number).collect();
        assert_eq!(kept, [0, 1, 2, 3]);
        assert_eq!(drops(&outcomes), (4..10).map(|number| (number, 0, "full")).collect::<Vec<_>>());
    }

    #[test]
    fn a_packet_that_leaves_makes_room_for_a_simultaneous_arrival() {
        let times = [0, 0, 0, 1_000_000, 1_000_000];
        let outcomes = fates("rate=12mbit queue=1packets", &packets(times.map(|at_ns| (at_ns, 1500))));
        assert_eq!(drops(&outcomes), [(2, 0, "full"), (4, 1_000_000, "full")]);
    }

    #[test]
    fn the_byte_limit_is_exact_and_a_smaller_packet_may_still_fit() {
        let sizes = [1500, 1500, 1400, 101, 100, 1];
        let outcomes = fates("rate=12mbit queue=3000B", &packets(sizes.map(|size| (0, size))));
        assert_eq!(drops(&outcomes), [(3, 0, "full"), (5, 0, "full")]);
    }

    #[test]
    fn a_stage_record_has_the_time_inside_and_the_profile_line_without_the_stage() {
        let mut link = link("up=12mbit up.queue=2packets delay=5ms");
        // Packet 0 is sent in 1 ms, packets 1 and 2 wait 1 and 2 ms longer, and packet 3 finds no room.
        assert_eq!(simulate(&mut link, &packets([(0, 1500); 4])).len(), 4);
        let record = link.record(None);
        let stages: Vec<_> = record.up.stages.iter().map(|stage| (stage.stage.as_str(), stage)).collect();
        let queue = stages.iter().find(|(name, _)| *name == "queue").unwrap().1;
        assert_eq!((queue.packets.out, queue.time_inside_ns), (3, 6_000_000));
        assert_eq!(queue.line_without.as_deref(), Some("delay=5ms"));
        assert_eq!(
            queue.line_with_codel.as_deref(),
            Some("up=12mbit up.queue=2packets up.codel=5ms/100ms delay=5ms")
        );
        let delay = stages.iter().find(|(name, _)| *name == "delay").unwrap().1;
        assert_eq!(
            (delay.time_inside_ns, delay.line_without.as_deref()),
            (15_000_000, Some("up=12mbit up.queue=2packets"))
        );
        let mtu = stages.iter().find(|(name, _)| *name == "mtu").unwrap().1;
        assert_eq!(
            (mtu.time_inside_ns, mtu.line_without.as_deref(), mtu.line_with_codel.as_deref()),
            (0, None, None)
        );
    }

    #[test]
    fn only_a_queue_without_codel_gets_a_profile_line_with_codel() {
        let record = link("rate=12mbit up.codel=10ms/200ms").record(None);
        let of = |direction: &hairpin_model::link::DirectionRecord| {
            direction.stages.iter().find_map(|stage| stage.line_with_codel.clone())
        };
        let down = "rate=12mbit queue=1000packets up.codel=10ms/200ms down.codel=5ms/100ms";
        assert_eq!((of(&record.up), of(&record.down).as_deref()), (None, Some(down)));
    }

    #[test]
    fn the_depth_includes_the_packet_being_sent() {
        let mut link = link("up=12mbit up.queue=64KiB");
        for arrival in packets([(0, 1500), (0, 500), (0, 500)]) {
            link.arrive(arrival.direction, arrival.packet, arrival.at_ns);
        }
        let depth = link.path(crate::Direction::Up).queue_depth().unwrap();
        assert_eq!((depth.packets, depth.bytes), (3, 2500));
        assert_eq!(link.path(crate::Direction::Down).queue_depth(), None);
    }

    proptest! {
        /// An independent model: packets that are not yet being sent wait; a packet that finds no room is dropped.
        #[test]
        fn tail_drop_keeps_exactly_the_packets_that_find_room(
            limit_packets in 1_usize..6,
            limit_bytes in 1500_u64..6000,
            arriving in prop::collection::vec((0_u64..3_000_000, 1_u32..=1500), 1..80),
        ) {
            let mut at_ns = 0;
            let arrivals: Vec<(u64, u32)> = arriving.iter().map(|(gap, size)| { at_ns += gap; (at_ns, *size) }).collect();
            // At 8 Mbit/s a byte takes exactly 1 us.
            let mut begins: VecDeque<(u64, u64)> = VecDeque::new();
            let mut free_ns = 0;
            let mut expected = Vec::new();
            for (number, (at_ns, size)) in (0..).zip(&arrivals) {
                begins.retain(|(begins_ns, _)| begins_ns > at_ns);
                let bytes: u64 = begins.iter().map(|(_, bytes)| bytes).sum();
                if begins.len() >= limit_packets && free_ns > *at_ns || bytes + u64::from(*size) > limit_bytes {
                    continue;
                }
                let begins_ns = free_ns.max(*at_ns);
                free_ns = begins_ns + u64::from(*size) * 1000;
                if begins_ns > *at_ns {
                    begins.push_back((begins_ns, u64::from(*size)));
                }
                expected.push((number, free_ns));
            }
            let line = format!("rate=8mbit queue={limit_bytes}B,{limit_packets}packets");
            prop_assert_eq!(departures(&fates(&line, &packets(arrivals))), expected);
        }
    }
}
