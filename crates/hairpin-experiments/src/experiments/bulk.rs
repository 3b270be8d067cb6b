//! `bulk`: how many bytes a second go through, one way?
//!
//! One end writes as fast as the other takes it. The sender counts what it sent and the receiver what it received, so the
//! ledger tells what was lost, and goodput is the receiver's: the bytes that arrived after the first arrival over the time from
//! the first to the last. A case goes up (client to server) or down.
//!
//! Defaults and why:
//! - writes of 64 KiB, as programs that move files make them; of 1400 B where a write is a message, which fits a packet.
//! - 200 ms a round after a warm-up of 100 ms, in which TCP opens its window; over a link both last 20 round trips, 1 s at most.
//! - waiting by `poll`, as one end waits for all of its wires at once; what cannot be polled is skipped unless `--waiting spin`.

use hairpin_model::capabilities::HostCapabilities;
use hairpin_model::card::Card;
use hairpin_model::case::{Case, Waiting};
use hairpin_model::flow::{Direction, Flow};
use hairpin_model::refused::Refused;
use hairpin_model::round::Extent;

use crate::budget;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind};
use crate::knobs::Knobs;
use crate::links;
use crate::quantity::MOST_MESSAGES;
use crate::selection;
use crate::sequence::Planned;
use crate::shared::{self, AUTO, Circumstances, each};

/// The experiment.
pub const BULK: Experiment =
    Experiment { name: "bulk", question: "How many bytes a second go through, one way?", knobs: KNOBS, plan };

/// A write where bytes are a stream.
const WRITE_BYTES: u64 = 64 << 10;
/// A write where it is a message.
const MESSAGE_BYTES: u64 = 1400;
/// What each round measures, in ns.
const DURATION_NS: u64 = 200_000_000;
/// What is sent before, in ns.
const WARM_UP_NS: u64 = 100_000_000;

const KNOBS: &[Knob] = &[
    Knob::new("transport", "NAME", KnobKind::Transport)
        .help("Transports, separated by commas [default: all that can run here]")
        .many(),
    Knob::new("direction", "WAY", KnobKind::Words(Direction::WORDS.split_at(2).0))
        .help("Direction: up (client to server), down (server to client), or all")
        .many()
        .or(&["up"]),
    Knob::new("write-size", "BYTES", KnobKind::Bytes { min: 1, max: 16 << 20 })
        .help("Size of each write, 1 B to 16 MiB [default: 64KiB; 1400B where a write is a message]")
        .many(),
    Knob::new("connections", "NUMBER", KnobKind::Whole { min: 1, max: 1000 })
        .help("Connections that share the load")
        .many()
        .or(&["1"]),
    Knob::new("waiting", "HOW", KnobKind::Words(Waiting::WORDS))
        .help("How both ends wait for data or room: poll, spin, or all")
        .many()
        .or(&["poll"]),
    shared::PLACEMENT,
    shared::ENDS,
    shared::OPTION,
    shared::LINK,
    shared::SYSCTL,
    shared::CPU_IDLE,
    Knob::new("count", "WRITES", KnobKind::Whole { min: 1, max: MOST_MESSAGES })
        .help("Writes measured on each connection in each round, instead of --duration"),
    Knob::new("duration", "TIME", shared::LASTS)
        .help("How long each round measures [default: 200ms; up to 1s over a link]"),
    budget::ROUNDS,
    budget::OVER,
    budget::QUICK,
    Knob::new("warmup", "EXTENT", KnobKind::ExtentOr(AUTO))
        .help("Warm-up of each round, writes or a time; auto: 100ms, over a link up to 1s")
        .or(&[AUTO]),
    shared::SEED,
    Knob::new("timeout", "TIME", shared::TIMEOUT.kind)
        .help("How long the load may stall, and the server may take to answer [default: 2s; more over a link]"),
    shared::KEEP_LINK_LOG,
    shared::ALLOW_UNMET_OPTIONS,
    shared::PORT,
    shared::REPLICATE,
];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let asked = Asked::read(knobs, capabilities)?;
    let candidates = selection::candidates(knobs, capabilities)?;
    let own = [candidates.len(), asked.directions.len(), asked.write_sizes.len().max(1), asked.connections.len()];
    asked.circumstances.refuse_too_many(&own)?;
    let planned = |case: Case| {
        let travel_ns = links::travel_ns(&case, capabilities);
        let lasts = |asked: Option<Extent>, least_ns| {
            asked.unwrap_or(Extent::DurationNs(links::duration_ns(least_ns, travel_ns)))
        };
        let (warm_up, extent) = (lasts(asked.warm_up, WARM_UP_NS), lasts(asked.extent, DURATION_NS));
        Planned::of(case, warm_up, extent, knobs, capabilities)
    };
    selection::sieved(&candidates, capabilities, |card| asked.cases(card).into_iter().map(planned).collect())
}

/// The knobs, read.
struct Asked {
    circumstances: Circumstances,
    directions: Vec<Direction>,
    write_sizes: Vec<u64>,
    connections: Vec<u32>,
    extent: Option<Extent>,
    warm_up: Option<Extent>,
}

impl Asked {
    fn read(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Self, Refused> {
        let connections =
            knobs.values::<u64>("connections").into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Ok(Self {
            circumstances: Circumstances::read(knobs, capabilities, |_| true)?,
            directions: knobs.choices("direction", Direction::ONE_WAY),
            write_sizes: knobs.values("write-size"),
            connections: connections.collect(),
            extent: shared::extent(knobs, "count")?,
            warm_up: knobs.value("warmup"),
        })
    }

    /// Every combination on one transport, impossible ones among them.
    fn cases(&self, card: &Card) -> Vec<Case> {
        let own = [if card.boundaries { MESSAGE_BYTES } else { WRITE_BYTES }];
        let sizes = if self.write_sizes.is_empty() { &own[..] } else { &self.write_sizes };
        let of_sizes = sizes.iter().flat_map(|size| {
            self.directions.iter().map(|direction| Case::of(Flow::stream(card.name, *size, *direction)))
        });
        let cases = each(&of_sizes.collect::<Vec<_>>(), &self.connections, |case, connections| {
            case.flow_mut().connections = connections;
        });
        self.circumstances.with_replicates(&self.circumstances.at_their_places(&cases, card))
    }
}
