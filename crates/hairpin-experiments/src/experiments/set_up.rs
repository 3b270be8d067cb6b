//! `set-up`: how long does a new connection take until its first answer, and what does it cost?
//!
//! Each message opens a connection of its own, receives its answer, and closes it, one after the other. Latency counts from the
//! connect call to the answer, without Hairpin's hello. Over a link, packets and bytes are those of the whole connection, with its
//! end.
//!
//! Defaults and why:
//! - cold connections, and warm ones where the protocol has them: TLS sessions resumed, and with QUIC also 0-RTT.
//! - the options of [`streams`](super::streams): clients that wait for a handshake send several small messages in a row.
//! - a link of 10 ms each way: round trips dominate, so that they can be counted.

use hairpin_model::flow::{ConnectionUse, Opening};
use hairpin_model::{Card, Case, Extent, HostCapabilities, Refused};

use super::round_trip;
use crate::budget;
use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::links;
use crate::selection;
use crate::sequence;
use crate::shared;

pub const SET_UP: Experiment = Experiment {
    name: "set-up",
    question: "How long does a new connection take until its first answer, and what does it cost?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| !case.is_under_load() && case.primary().opening.is_some(),
    refine: None,
    search: None,
};

/// The transports that are compared by default, as far as they are built in.
const TRANSPORTS: &[&str] = &["tcp", "tls", "websocket", "http1", "http2", "grpc", "quic"];

/// Connections per round if their number is not given, at most; a link allows fewer.
const DEFAULT_COUNT: u64 = 200;
/// Connections before the measured ones. The first has no session to resume.
const WARM_UP_CONNECTIONS: u64 = 3;
/// Round trips of a connection from its opening to its first answer, at most, for the default count.
const MAX_ROUND_TRIPS: u64 = 4;

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT
            .help("Transports, separated by commas, or all [default: tcp, tls, websocket, http1, http2, grpc and quic]"),
        Knob::new("opening", "WHICH", KnobKind::Words(Opening::WORDS))
            .help("What the ends know of each other: cold, resumed, 0-rtt, or all [default: all that the transport has]")
            .many()
            .print(|repeat| repeat.values("", |case| case.primary().opening.map(|opening| opening.to_string()))),
        Knob::new("size", "BYTES", shared::SIZE)
            .help("Size of the request")
            .many()
            .or(&["100B"])
            .print(|repeat| repeat.values("100B", |case| Some(case.primary().load.size_bytes().to_string()))),
        round_trip::REPLY_SIZE.help("Size of the answer [default: that of the request]"),
        shared::WAITING,
        shared::PLACEMENT,
        shared::ENDS,
        shared::ALIKE_OPTION,
        shared::LINK.or(&["delay=10ms"]).print(shared::print_link),
        shared::SYSCTL,
        shared::CPU_IDLE,
        Knob::new("count", "CONNECTIONS", round_trip::COUNT.kind)
            .help("Connections measured in each round [default: 200; over a link as many as fit 1s]"),
        shared::DURATION,
    ],
    budget::BLOCKS,
    shared::RUN,
    &[shared::REPLICATE],
];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let extent = shared::extent(knobs, "count")?;
    let candidates = selection::candidates_or(TRANSPORTS, knobs, capabilities)?;
    let openings: Vec<Opening> = knobs.choices("opening", Opening::ALL);
    let planned = |case: Case, _: &Card| {
        let travel_ns = links::travel_ns(&case, capabilities).saturating_mul(MAX_ROUND_TRIPS);
        let extent = extent.unwrap_or(Extent::Count(links::count(DEFAULT_COUNT, travel_ns)));
        sequence::template(case, [Extent::Count(WARM_UP_CONNECTIONS), extent], knobs, capabilities)
    };
    let of_each = |card: &Card| {
        Case::ping_pong(card.name).with(|case| case.primary_mut().connection_use = ConnectionUse::PerMessage)
    };
    Combinations::default()
        .with_sizes(knobs)
        .in_circumstances(knobs, capabilities, |_| true)?
        .with_alike_options(knobs)
        .vary(openings.len().max(1), move |case, card| {
            let own = card.library.map_or(&[Opening::Cold][..], |library| library.openings);
            let chosen = if openings.is_empty() { own } else { &openings };
            chosen
                .iter()
                .map(|opening| case.clone().with(|case| case.primary_mut().opening = Some(*opening)))
                .collect()
        })
        .with_replicates(knobs)
        .plan(&candidates, capabilities, of_each, planned)
}
