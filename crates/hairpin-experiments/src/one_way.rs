//! Knobs and round lengths shared by experiments with one-way loads.

use hairpin_model::card::IPV4_MTU_BYTES;
use hairpin_model::flow::{Build, Direction, LoadWays, Pacing};
pub use hairpin_model::flow::{MESSAGE_BYTES, WRITE_BYTES};
use hairpin_model::{
    AnsweredBy, Arrivals, Card, Case, Extent, Flow, HostCapabilities, Load, Refused, Repeat, RoundOrder,
};

use crate::budget;
use crate::combinations::Combinations;
use crate::knob::{Knob, KnobKind};
use crate::knobs::Knobs;
use crate::links;
use crate::quantity::MAX_MESSAGES;
use crate::sequence;
use crate::shared::{self, AUTO};

/// Default measured time of a round, in ns.
const DURATION_NS: u64 = 200_000_000;
const WARM_UP_NS: u64 = 100_000_000;
/// Maximum connections of a flow.
pub const MAX_CONNECTIONS: u64 = 1000;
/// Maximum threads of a flow at each end.
const MAX_THREADS: u64 = 64;

pub const DIRECTION: Knob = Knob::new("direction", "WAY", KnobKind::Words(Direction::WORDS.split_at(2).0))
    .help("Direction: up (client to server), down (server to client), or all")
    .many()
    .or(&["up"])
    .print(|repeat| repeat.values("", |case| Some(case.primary().direction.to_string())));

/// Returns the case with its flow in this direction. Both ways add a second flow, from server to client.
pub fn in_direction(case: &Case, ways: LoadWays) -> Case {
    case.clone().with(|case| {
        case.primary_mut().direction = if ways == LoadWays::Down { Direction::Down } else { Direction::Up };
        if ways == LoadWays::Both {
            let back = Flow { id: "back".into(), direction: Direction::Down, ..case.primary().clone() };
            case.flows.push(back);
        }
    })
}

pub const WAYS: Knob = Knob::new("direction", "WAY", KnobKind::Words(LoadWays::WORDS.split_at(3).0))
    .help("Direction: up (client to server), down (server to client), both at once, or all")
    .many()
    .or(&["up"])
    .print(|repeat| {
        repeat.values("", |case| {
            let ways = if case.goes_both_ways() { LoadWays::Both.word() } else { case.primary().direction.word() };
            Some(ways.to_owned())
        })
    });

pub const BUILD: Knob = Knob::new("build", "WHICH", KnobKind::Words(Build::WORDS))
    .help("Build of the loops of both ends: optimised, unoptimised, or all")
    .many()
    .or(&["optimised"])
    .print(|repeat| repeat.values("optimised", |case| Some(case.primary().build.to_string())));

pub const SIZE: Knob = Knob::new("size", "BYTES", KnobKind::Bytes { min: 1, max: 16 << 20 })
    .help("Size of each message, 1 B to 16 MiB")
    .many()
    .or(&["64B"])
    .print(print_size);

pub(crate) fn print_size(repeat: &Repeat) -> Vec<String> {
    repeat.values("", |case| Some(case.primary().load.size_bytes().to_string()))
}

pub const CONNECTIONS: Knob = Knob::new("connections", "NUMBER", KnobKind::Whole { min: 1, max: MAX_CONNECTIONS })
    .help("Connections that share the load, up to 1000")
    .many()
    .or(&["1"])
    .print(|repeat| repeat.values("", |case| Some(case.primary().connections.to_string())));

pub const THREADS: Knob = Knob::new("threads", "NUMBER", KnobKind::Whole { min: 1, max: MAX_THREADS })
    .help("Threads of each end, each with its own connections, up to 64; several need --placement unpinned")
    .many()
    .or(&["1"])
    .print(|repeat| repeat.values("1", |case| Some(case.primary().threads.to_string())));

pub const ARRIVALS: Knob = Knob::new("arrivals", "WHEN", KnobKind::Arrivals)
    .help("When messages are due: fixed, poisson, or burst=N")
    .many()
    .or(&["fixed"])
    .print(|repeat| repeat.values("", |case| Some(case.primary().load.offered()?.0.to_string())));

pub const PACING: Knob = Knob::new("pacing", "METHOD", KnobKind::Words(Pacing::WORDS))
    .help("How the sender keeps to these times: sleep+spin, spin, or kernel (SO_MAX_PACING_RATE, TCP only)")
    .many()
    .or(&["sleep+spin"])
    .print(|repeat| repeat.values("", |case| Some(case.primary().load.offered()?.1.to_string())));

/// Maximum rate of an offered load.
pub const MAX_OFFERED_PER_S: f64 = 1e8;

/// A load at a rate, from client to server. Its size and rate are set later.
pub fn offered(card: &Card) -> Case {
    let (arrivals, pacing) = (Arrivals::Fixed, Pacing::SleepSpin);
    let load = Load::Offered { offered_per_s: 1.0, size_bytes: 1, arrivals, pacing };
    Case::of(Flow::one_way(card.name, load, Direction::Up))
}

/// The sizes, arrivals, pacing and directions of a load at a rate, as the knobs request.
pub fn offered_loads<'k>(knobs: &Knobs) -> Combinations<'k> {
    Combinations::default()
        .each(knobs.values("size"), |case, size: u64| case.primary_mut().load.set_sizes(size, 0))
        .each(knobs.values("arrivals"), |case, when| {
            if let Load::Offered { arrivals, .. } = &mut case.primary_mut().load {
                *arrivals = when;
            }
        })
        .each(knobs.choices("pacing", Pacing::ALL), |case, method| {
            if let Load::Offered { pacing, .. } = &mut case.primary_mut().load {
                *pacing = method;
            }
        })
        .each(knobs.choices("direction", Direction::ONE_WAY), |case, way| case.primary_mut().direction = way)
}

pub const WAITING: Knob = shared::WAITING
    .help("How both ends wait: block, poll, spin, or all [default: block; poll with several connections]")
    .or(&[]);

pub const COUNT: Knob = Knob::new("count", "MESSAGES", KnobKind::Whole { min: 1, max: MAX_MESSAGES })
    .help("Messages measured on each connection in each round, instead of --duration");

pub const DURATION: Knob = Knob::new("duration", "TIME", shared::LASTS)
    .help("How long each round measures [default: 200ms; up to 1s over a link, twice that both ways]");

pub const WARM_UP: Knob = Knob::new("warmup", "EXTENT", KnobKind::ExtentOr(AUTO))
    .help("Warm-up of each round, messages or a time; auto: 100ms, over a link up to 1s")
    .or(&[AUTO]);

pub const TIMEOUT: Knob = Knob::new("timeout", "TIME", shared::TIMEOUT.kind)
    .help("How long the load may stall, and the server may take to answer [default: 2s; more over a link]");

/// The maximum is lower than in other experiments, because the receiver sends its samples to the client.
pub const KEEP_SAMPLES: Knob = Knob::new("keep-samples", "NUMBER", KnobKind::Whole { min: 0, max: 10_000 })
    .help("Maximum number of raw samples kept per round; a histogram holds all")
    .or(&["10000"]);

/// The transports of [`is_reference_or_lossy`] by default.
pub const REFERENCE_OR_LOSSY: Knob = shared::TRANSPORT
    .help("Transports, separated by commas, or all [default: the reference transport and unreliable IPv4]");
pub const PLACEMENT: Knob = shared::PLACEMENT
    .help("Where both ends run: same-cpu, cross-cpu, same-core, same-cache, same-node, cross-node, unpinned, or all")
    .or(&["cross-cpu"]);
/// Lengths and number of rounds.
pub const ROUNDS: &[Knob] = &[COUNT, DURATION, budget::ROUNDS, budget::OVER, budget::QUICK, WARM_UP];
pub const RUN: &[Knob] = &[
    shared::SEED,
    TIMEOUT,
    KEEP_SAMPLES,
    shared::KEEP_LINK_LOG,
    shared::ALLOW_UNMET_OPTIONS,
    shared::PORT,
    shared::REPLICATE,
];

/// Factors of the default warm-up and measured time if both directions fill a link at once. At 100 Mbit/s and 10 ms
/// each direction needs 1 to 1.5 s until its goodput is steady.
const BOTH_WAYS_TIMES: [u64; 2] = [4, 2];

/// Lengths of a round and its warm-up, if set by the user.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    pub extent: Option<Extent>,
    pub warm_up: Option<Extent>,
}

impl Lengths {
    /// Reads `count`, `duration` and the knob named `warm_up`.
    ///
    /// # Errors
    /// [`Refused`] if count and duration are both given.
    pub fn read(knobs: &Knobs, warm_up: &str) -> Result<Self, Refused> {
        Ok(Self { extent: shared::extent(knobs, "count")?, warm_up: knobs.value(warm_up) })
    }

    /// Plans the case with these lengths; the defaults are longer over a link.
    pub fn planned(&self, case: Case, knobs: &Knobs, capabilities: &HostCapabilities) -> RoundOrder {
        let travel_ns = links::travel_ns(&case, capabilities);
        // Two directions that fill a link delay each other's ACKs, so each reaches its rate later.
        let [warm_up_times, times] =
            if case.goes_both_ways() && case.crosses_a_network() { BOTH_WAYS_TIMES } else { [1, 1] };
        let lasts = |asked: Option<Extent>, min_ns, times| {
            asked.unwrap_or(Extent::DurationNs(times * links::duration_ns(min_ns, travel_ns)))
        };
        let warm_up = lasts(self.warm_up, WARM_UP_NS, warm_up_times);
        let extent = lasts(self.extent, DURATION_NS, times);
        sequence::template(case, [warm_up, extent], knobs, capabilities)
    }
}

/// Whether this is the reference transport or the unreliable transport over IPv4.
pub fn is_reference_or_lossy(card: &Card) -> bool {
    let is_lossy = !card.reliable && card.min_mtu_bytes == IPV4_MTU_BYTES && card.answered_by == AnsweredBy::Server;
    card.is_reference || is_lossy
}

/// Reads a knob whose values are numbers of connections or streams.
pub fn counts(knobs: &Knobs, name: &str) -> Vec<u32> {
    let counts = knobs.values::<u64>(name);
    counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect()
}
