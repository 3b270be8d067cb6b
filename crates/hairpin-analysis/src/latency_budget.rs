//! The latency budget: the points of sampled round trips become parts, and the parts of many become bands.
//!
//! The parts of each round trip sum to it exactly, in whole ns. Where a point is missing, the parts on both sides of it
//! are one part, their union. Where the server has its own clock, each end's parts are of its own clock, and the rest,
//! which contains the network in both directions, is the round trip without them. Negative parts stay negative.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hairpin_model::latency_budget::parts::{NETWORK, RECEIVE, RUN_QUEUE, SEND_QUEUE, SEND_STACK, WAKE_UP, WORK};
use hairpin_model::latency_budget::{
    BandName, MissingPoints, StampedFigures, StampingCost, Union as NamedUnion, WhyMissing,
};
use hairpin_model::names::distinct;
use hairpin_model::round::Purpose;
use hairpin_model::samples::{Fate, latency_histogram};
use hairpin_model::trace::End;
use hairpin_model::{
    Band, BudgetPart, EndPoints, EndReport, Figure, LatencyBudget, Measured, Outcome, RoundRecord, SampledRound,
    SampledTrip, Samples, Waiting, fact, fact_names,
};

use crate::compare::{as_ratio, difference_by_block, logarithms_by_block};
use crate::round_figures::percentiles;
use crate::statistics::interval::{Over, span_s};

/// The elementary parts in the order of the path, each with the end at which it ends.
const PARTS: [(&str, End); 11] = [
    (SEND_STACK, End::Client),
    (SEND_QUEUE, End::Client),
    (NETWORK, End::Server),
    (RUN_QUEUE, End::Server),
    (WAKE_UP, End::Server),
    (WORK, End::Server),
    (SEND_STACK, End::Server),
    (SEND_QUEUE, End::Server),
    (NETWORK, End::Client),
    (RUN_QUEUE, End::Client),
    (WAKE_UP, End::Client),
];
/// The first elementary part after each of the ten points; for the last point, the number of parts.
const AFTER: [u32; 10] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 11];
/// The first elementary part of the answer's way.
const WAY_BACK: u32 = 6;

/// What a receive of an end that sleeps, or busy-polls, consists of.
const OF_WAKE_UP: &[&str] = &["receive stack", "leaving idle", "context switch", "return of the call"];
const OF_RECEIVE: &[&str] = &["receive stack", "time to the next poll", "return of the call"];

/// Minimum samples of a band.
pub const MIN_SAMPLES: usize = 30;
/// Maximum round trips of a case, for its memory.
const MAX_TRIPS_OF_CASE: usize = 200_000;

/// Elementary parts, as bits.
type PartSet = u16;

/// A round trip and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trip {
    pub round_trip_ns: i64,
    /// In the order of the path.
    pub parts: Vec<(PartSet, i64)>,
    /// Durations of the send calls of client and server.
    send_calls_ns: [Option<i64>; 2],
}

/// Computes the parts of a round trip; `None` if the client does not know when it began or ended. `sleeps`: whether an
/// end sleeps while it waits.
pub fn trip(sampled: &SampledTrip, server_has_own_clock: bool, sleeps: bool) -> Option<Trip> {
    let (client, server) = (sampled.client, sampled.server.unwrap_or_default());
    let points = [
        [client.send_called, client.scheduled, client.driver, server.arrived, server.read],
        [server.send_called, server.scheduled, server.driver, client.arrived, client.read],
    ]
    .concat();
    let known = |places: Range<usize>| -> Vec<(usize, i64)> {
        places.filter_map(|place| Some((place, points[place]?))).collect()
    };
    let round_trip_ns = points[9]? - points[0]?;
    let mut parts = Vec::with_capacity(PARTS.len());
    let mut add = |known: &[(usize, i64)]| {
        for pair in known.windows(2) {
            let ((from, from_ns), (to, to_ns)) = (pair[0], pair[1]);
            let (of, ns) = (between(from, to), to_ns - from_ns);
            let waited_ns = match (from, to) {
                (3, 4) => waited_ns(&server, sleeps),
                (8, 9) => waited_ns(&client, sleeps),
                _ => None,
            };
            let run_queue = of & of.wrapping_neg();
            match waited_ns {
                Some(waited_ns) => parts.extend([(run_queue, waited_ns), (of & !run_queue, ns - waited_ns)]),
                None => parts.push((of, ns)),
            }
        }
    };
    if server_has_own_clock {
        let (out, held, back) = (known(0..3), known(3..8), known(8..10));
        [&out, &held, &back].into_iter().for_each(|known| add(known));
        let ((left, left_ns), (came, came_ns)) = (*out.last()?, *back.first()?);
        let rest = match (held.first(), held.last()) {
            (Some((first, first_ns)), Some((last, last_ns))) => {
                (between(left, *first) | between(*last, came), came_ns - left_ns - (last_ns - first_ns))
            }
            _ => (between(left, came), came_ns - left_ns),
        };
        parts.push(rest);
    } else {
        add(&known(0..10));
    }
    parts.sort_by_key(|(of, _)| of.trailing_zeros());
    let call_ns = |points: EndPoints| Some(points.send_returned? - points.send_called?);
    Some(Trip { round_trip_ns, parts, send_calls_ns: [call_ns(client), call_ns(server)] })
}

fn between(from: usize, to: usize) -> PartSet {
    (AFTER[from]..AFTER[to]).fold(0, |of, place| of | 1 << place)
}

/// How long the thread waited for a CPU between the arrival and the return of its receive call; `None` if the counters
/// do not tell. A thread that slept in this call got a CPU once, for this message. If it got one more often, or did not
/// sleep, some of its waits may be outside of the call.
fn waited_ns(of: &EndPoints, sleeps: bool) -> Option<i64> {
    let (waited_ns, switched_in) = (of.waited?, of.switched_in?);
    let slept = sleeps && of.arrived? >= of.receive_called?;
    (waited_ns == 0 || switched_in == 1 && slept).then_some(waited_ns)
}

/// The round trips of a case, and the points that they lack.
#[derive(Clone, Debug, Default)]
pub(crate) struct TripsOfCase {
    trips: Vec<Trip>,
    missing: BTreeMap<(End, WhyMissing, String), u64>,
}

impl TripsOfCase {
    /// Adds a stamped round. If CLOCK_REALTIME was set, its round trips do not count.
    pub(crate) fn add(&mut self, record: &RoundRecord, sampled: &SampledRound) {
        let Some(measured) = record.measured_as(Purpose::Stamped) else { return };
        let mut miss = |end, why, detail: &str| {
            *self.missing.entry((end, why, detail.to_owned())).or_default() += 1;
        };
        let mut is_void = false;
        let mut refused = Vec::new();
        for EndReport { role, facts, .. } in &measured.ends {
            if fact::number(facts, fact_names::REALTIME_STEP_NS).is_some() {
                miss(*role, WhyMissing::ClockSet, "");
                is_void = true;
            }
            if let Some(why) = fact::word(facts, fact_names::KERNEL_STAMPS_REFUSED) {
                miss(*role, WhyMissing::Refused, why);
                refused.push(*role);
            }
        }
        if is_void {
            return;
        }
        let sleeps = record.order.case.ends.waiting != Waiting::Spin;
        for one in &sampled.trips {
            for (end, points) in [(End::Client, Some(one.client)), (End::Server, one.server)] {
                let lacks = |points: EndPoints| [points.scheduled, points.driver, points.arrived].contains(&None);
                match points {
                    None => miss(end, WhyMissing::NotReported, ""),
                    Some(points) if lacks(points) && !refused.contains(&end) => miss(end, WhyMissing::Lost, ""),
                    Some(_) => {}
                }
            }
            if self.trips.len() < MAX_TRIPS_OF_CASE {
                self.trips.extend(trip(one, sampled.server_has_own_clock, sleeps));
            }
        }
    }

    /// Returns the budget; `None` without round trips. `rounds` are those of the case.
    pub(crate) fn budget(&self, rounds: &[&RoundRecord], alpha: f64) -> Option<LatencyBudget> {
        let sleeps = rounds.first()?.order.case.ends.waiting != Waiting::Spin;
        let mut trips: Vec<&Trip> = self.trips.iter().collect();
        trips.sort_by_key(|trip| trip.round_trip_ns);
        let at = |thousandths: usize| trips.len() * thousandths / 1000;
        let of = |name, from: usize, to: usize| band(name, &trips[at(from)..at(to)], sleeps);
        let all: BTreeSet<PartSet> = trips.iter().flat_map(|trip| trip.parts.iter().map(|(of, _)| *of)).collect();
        let missing = self.missing.clone().into_iter();
        Some(LatencyBudget {
            bands: vec![
                of(BandName::P50, 400, 600),
                of(BandName::P90, 900, 990),
                of(BandName::P99, 990, 999),
                of(BandName::Above, 999, 1000),
            ],
            slowest: of(BandName::Slowest, 990, 1000),
            all: of(BandName::All, 0, 1000),
            unions: distinct(all.into_iter().map(|of| named(of, sleeps).0).filter(|union| !union.of.is_empty())),
            cost: StampingCost {
                stamped: cost(rounds, alpha, |figures| figures.stamped_p50_ns),
                others: cost(rounds, alpha, |figures| figures.others_p50_ns),
            },
            missing: missing.map(|((end, why, detail), count)| MissingPoints { end, why, detail, count }).collect(),
        })
    }
}

fn band(name: BandName, trips: &[&Trip], sleeps: bool) -> Band {
    let empty =
        Band { band: name, samples: trips.len() as u64, round_trip_ns: None, parts: Vec::new(), beside: Vec::new() };
    if trips.len() < MIN_SAMPLES {
        return empty;
    }
    // Sums of times of up to 15 digits do not fit 64 bits.
    let mut sums: BTreeMap<(u32, PartSet), i128> = BTreeMap::new();
    for (of, ns) in trips.iter().flat_map(|trip| &trip.parts) {
        *sums.entry((of.trailing_zeros(), *of)).or_default() += i128::from(*ns);
    }
    let total: i128 = trips.iter().map(|trip| i128::from(trip.round_trip_ns)).sum();
    let part = |name: String, end, sum: i128, count: usize| BudgetPart {
        name,
        end,
        mean_ns: sum as f64 / count as f64,
        share: if total == 0 { 0.0 } else { sum as f64 / total as f64 * (trips.len() as f64 / count as f64) },
    };
    let parts = sums.into_iter().map(|((_, of), sum)| {
        let (union, end) = named(of, sleeps);
        part(union.name, end, sum, trips.len())
    });
    let beside = [End::Client, End::Server].into_iter().enumerate().filter_map(|(place, end)| {
        let calls: Vec<i64> = trips.iter().filter_map(|trip| trip.send_calls_ns[place]).collect();
        let sum = calls.iter().map(|ns| i128::from(*ns)).sum();
        (!calls.is_empty()).then(|| part("send-call".to_owned(), Some(end), sum, calls.len()))
    });
    let (parts, beside) = (parts.collect(), beside.collect());
    Band { round_trip_ns: Some(total as f64 / trips.len() as f64), parts, beside, ..empty }
}

/// The name of a part or a union with what it consists of, and the end at which it ends; `None` for a union of both ways.
fn named(of: PartSet, sleeps: bool) -> (NamedUnion, Option<End>) {
    let places: Vec<usize> = (0..PARTS.len()).filter(|place| of & 1 << place != 0).collect();
    let name = |place: &usize| if PARTS[*place].0 == WAKE_UP && !sleeps { RECEIVE } else { PARTS[*place].0 };
    let names = distinct(places.iter().map(name));
    let is_one_way = of.trailing_zeros() >= WAY_BACK || of >> WAY_BACK == 0;
    let (name, of) = match names.as_slice() {
        [WAKE_UP] => (WAKE_UP.to_owned(), OF_WAKE_UP),
        [RECEIVE] => (RECEIVE.to_owned(), OF_RECEIVE),
        [one] if places.len() == 1 => ((*one).to_owned(), &[][..]),
        [one] => ((*one).to_owned(), &names[..]),
        [one, other] => (format!("{one} and {other}"), &names[..]),
        [first, .., _] if !is_one_way => (format!("{first} and others"), &names[..]),
        [first, .., last] => (format!("{first} to {last}"), &names[..]),
        [] => (String::new(), &[][..]),
    };
    let end = places.last().filter(|_| is_one_way).map(|place| PARTS[*place].1);
    (NamedUnion { name, of: of.iter().map(|name| (*name).to_owned()).collect() }, end)
}

/// Returns the p50 of stamped rounds / the p50 of rounds without stamps, paired by block.
fn cost(rounds: &[&RoundRecord], alpha: f64, of: impl Fn(&StampedFigures) -> Option<f64>) -> Option<Figure> {
    let over = Over { alpha, ..Over::seconds(span_s(rounds.iter().map(|round| round.started_ns))) };
    let by_block = |p50: &dyn Fn(&RoundRecord) -> Option<f64>| {
        logarithms_by_block(rounds.iter().filter_map(|round| Some((round.order.block, p50(round)?.max(1.0)))))
    };
    let without = by_block(&|round| Some(round.measured()?.primary().figures.latency_ns.p50));
    let with = by_block(&|round| of(round.measured_as(Purpose::Stamped)?.stamped.as_ref()?));
    Some(as_ratio(difference_by_block(&without, &with, over)?.0.figure(over.alpha)))
}

/// Adds the figures of a stamped round to its record. Without `samples`, those of other round trips stay as they are.
pub fn stamped(record: &mut RoundRecord, sampled: &SampledRound, samples: Option<&Samples>) {
    let (case, every) = (&record.order.case, record.order.sample_every.unwrap_or(1).max(1));
    let sleeps = case.ends.waiting != Waiting::Spin;
    let Outcome::Measured(measured) = &mut record.outcome else { return };
    let mut trips: Vec<Trip> =
        sampled.trips.iter().filter_map(|one| trip(one, sampled.server_has_own_clock, sleeps)).collect();
    trips.sort_by_key(|trip| trip.round_trip_ns);
    let middle: Vec<&Trip> = trips[trips.len() * 4 / 10..trips.len() * 6 / 10].iter().collect();
    let mut parts_ns: BTreeMap<String, f64> = BTreeMap::new();
    for part in band(BandName::P50, &middle, sleeps).parts {
        *parts_ns.entry(part.name).or_default() += part.mean_ns;
    }
    let others = samples.map(|samples| {
        let is_other = |row: &usize| samples.fate[*row] == Fate::Received && samples.sequence[*row] % every != 0;
        let rows = (samples.warm_up..samples.kept()).filter(is_other);
        p50_of(rows.map(|row| samples.received_ns[row].saturating_sub(samples.sent_ns[row])))
    });
    let others_p50_ns = others.unwrap_or_else(|| measured.stamped.as_ref().and_then(|known| known.others_p50_ns));
    let stamped_p50_ns = p50_of(trips.iter().map(|trip| u64::try_from(trip.round_trip_ns).unwrap_or(0)));
    measured.stamped = Some(StampedFigures { stamped_p50_ns, others_p50_ns, parts_ns });
}

/// As for a round's figures: by a histogram, so that all medians have its resolution.
fn p50_of(latencies_ns: impl Iterator<Item = u64>) -> Option<f64> {
    let mut all = latency_histogram();
    latencies_ns.for_each(|ns| all.saturating_record(ns.max(1)));
    (!all.is_empty()).then(|| percentiles(&all).p50)
}

/// The mean of a part of a stamped round's band p50, in ns, at both ends together; `None` without such a round.
pub(crate) fn part_ns(measured: &Measured, names: &[&str]) -> Option<f64> {
    let parts = &measured.stamped.as_ref()?.parts_ns;
    names.iter().filter_map(|name| parts.get(*name).copied()).reduce(|one, other| one + other)
}
