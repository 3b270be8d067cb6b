//! `message-rate`: how many messages per second get through, at what cost in latency and CPU time?
//!
//! One end sends messages as fast as the other end reads them. The receiver counts messages to determine losses. Some
//! messages carry their send time to measure one-way latency, which at full rate is mostly time in buffers.
//!
//! Defaults and why:
//! - messages of 64 B, like small updates; 1, 8 and 64 per call (quick: 1 and 64), because system calls limit the rate.
//! - both ends block in system calls, as in most programs; with several connections they use epoll.
//! - 200 ms per round after a warm-up of 100 ms; over a link, each extends to 20 round trips, at most 1 s.

use hairpin_model::flow::{Build, Direction, Observer};
use hairpin_model::{Card, Case, Flow, HostCapabilities, Load, Refused};

use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::one_way::{self, Lengths};
use crate::selection;
use crate::shared;

pub const MESSAGE_RATE: Experiment = Experiment {
    name: "message-rate",
    question: "How many messages per second get through, and at what latency?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| matches!(case.primary().load, Load::Messages { observer: Observer::Sampled, .. }),
    refine: None,
    search: None,
};

/// Maximum messages per call: `UIO_MAXIOV` (linux/uio.h), the limit of sendmmsg(2).
const MAX_BATCH: u64 = 1024;

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT,
        one_way::DIRECTION,
        one_way::SIZE,
        one_way::CONNECTIONS,
        one_way::THREADS,
        Knob::new("batch", "MESSAGES", KnobKind::Whole { min: 1, max: MAX_BATCH })
            .help("Messages that one call sends, 1 to 1024: one write of many, or sendmmsg where a message is a datagram")
            .many()
            .or(&["1", "8", "64"])
            .print(|repeat| repeat.values("", |case| Some(case.primary().load.batch().to_string()))),
        one_way::BUILD,
        one_way::WAITING,
        shared::PLACEMENT,
        shared::ENDS,
    ],
    shared::CIRCUMSTANCES,
    one_way::ROUNDS,
    one_way::RUN,
];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let lengths = Lengths::read(knobs, "warmup")?;
    let candidates = selection::candidates(knobs, "transport", capabilities)?;
    let mut batches: Vec<u64> = knobs.values("batch");
    if knobs.is_on("quick") && !knobs.is_given("batch") {
        // With all three there would be no time for intervals.
        batches.retain(|batch| *batch != 8);
    }
    let mut loads = Vec::new();
    for size_bytes in knobs.values("size") {
        let load = |batch: &u64| Load::Messages { size_bytes, batch: *batch, observer: Observer::Sampled };
        loads.extend(batches.iter().map(load));
    }
    let first = |card: &Card| Case::of(Flow::one_way(card.name, Load::PLAIN, Direction::Up));
    Combinations::default()
        .each(loads, |case, load| case.primary_mut().load = load)
        .each(knobs.choices("direction", Direction::ONE_WAY), |case, way| case.primary_mut().direction = way)
        .each(one_way::counts(knobs, "connections"), |case, count| case.primary_mut().connections = count)
        .each(one_way::counts(knobs, "threads"), |case, count| case.primary_mut().threads = count)
        .each(knobs.choices("build", Build::ALL), |case, build| case.primary_mut().build = build)
        .in_circumstances(knobs, capabilities, |_| true)?
        .with_replicates(knobs)
        .plan(&candidates, capabilities, first, |case, _| lengths.planned(case, knobs, capabilities))
}
