//! `waiting`: how should a program wait for its messages?
//!
//! The same round trip with every way to wait, on one connection and on several. Each message goes over the next connection and
//! is answered before the next is sent, so that an end with several connections waits for all of them while one is in use.
//!
//! Defaults and why:
//! - TCP between two CPUs: there waiting costs most, and an end can spin.
//! - 1 and 100 connections: `block`, `spin-then-block` and `busy-poll` wait for one connection only, and `poll` and `spin` cost
//!   more with each.
//! - rounds and warm-up as in `round-trip`.

use hairpin_model::{Card, Case, Extent, HostCapabilities, Load, Refused, Waiting};

use super::round_trip;
use crate::budget;
use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, count, joined};
use crate::knobs::Knobs;
use crate::links;
use crate::one_way;
use crate::selection;
use crate::sequence;
use crate::shared;

pub const WAITING: Experiment = Experiment {
    name: "waiting",
    question: "How should a program wait for its messages?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| {
        let flow = case.primary();
        matches!(flow.load, Load::PingPong { .. }) && !case.is_under_load() && flow.opening.is_none()
    },
    refine: None,
    search: None,
};

/// The transports that are measured by default.
const TRANSPORTS: &[&str] = &["tcp"];

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT.help("Transports, separated by commas, or all [default: tcp]"),
        shared::WAITING
            .help("How both ends wait, such as block, epoll, spin or uring, or all")
            .or(&["all"])
            .print(|repeat| repeat.values("all", |case| Some(case.ends.waiting.to_string()))),
        one_way::CONNECTIONS.help("Connections of each end, up to 1000; messages use them in turn").or(&["1", "100"]),
        shared::PLACEMENT.or(&["cross-cpu"]),
        shared::SCHEDULING,
        shared::TIMER_SLACK,
        shared::ENDS,
        round_trip::SIZE.help("Size of each message and of its answer"),
    ],
    shared::CIRCUMSTANCES,
    &[round_trip::COUNT, shared::DURATION],
    budget::BLOCKS_UNTIL,
    &[round_trip::WARM_UP],
    shared::RUN,
    &[shared::REPLICATE],
];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let (extent, asked_warm_up) = (shared::extent(knobs, "count")?, knobs.value("warmup"));
    let candidates = selection::candidates_or(TRANSPORTS, knobs, capabilities)?;
    let planned = |case: Case, card: &Card| {
        let travel_ns = links::travel_ns(&case, capabilities);
        let count = Extent::Count(links::count(round_trip::DEFAULT_COUNT, travel_ns));
        let warm_up = asked_warm_up.unwrap_or_else(|| round_trip::warm_up(&case, card, travel_ns));
        sequence::template(case, [warm_up, extent.unwrap_or(count)], knobs, capabilities)
    };
    Combinations::of_waitings(Waiting::ALL)
        .with_sizes(knobs)
        .each(one_way::counts(knobs, "connections"), |case, count| case.primary_mut().connections = count)
        .with_threads(knobs)
        .in_circumstances(knobs, capabilities, |_| true)?
        .with_replicates(knobs)
        .plan(&candidates, capabilities, |card| Case::ping_pong(card.name), planned)
}
