//! `budget`: where does the time of a round trip go?
//!
//! Each block has two rounds of each case: a stamped one, in which one message in `--every` is sampled at both ends,
//! and a shorter one without stamps. The first is the budget, the second shows what stamping costs.
//!
//! Defaults and why:
//! - the reference transport on one and on two CPUs, blocking: with and without a wake-up of another CPU.
//! - 16000 messages in a stamped round, so 1000 sampled ones: about twenty rounds have the 30 samples above p99.9 that
//!   a mean needs.
//! - one message in 16: a stamped message takes longer, and its neighbours must not.

use hairpin_model::round::Purpose;
use hairpin_model::{Card, Case, Extent, HostCapabilities, Refused, RoundOrder};

use super::round_trip;
use crate::budget;
use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::links;
use crate::quantity::MAX_MESSAGES;
use crate::selection;
use crate::sequence;
use crate::shared;

pub const BUDGET: Experiment = Experiment {
    name: "budget",
    question: "Where does the time of a round trip go?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    // The rounds that check its findings are ordinary round trips.
    repeats: |_| false,
    refine: None,
    search: None,
};

const DEFAULT_COUNT: u64 = 16_000;
/// Messages of a stamped round for each of a round without stamps.
const STAMPED_PER_PLAIN: u64 = 4;

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT.help("Transports, separated by commas, or all [default: the reference transport]"),
        shared::WAITING,
        shared::PLACEMENT,
        shared::ENDS,
        round_trip::SIZE.help("Size of each message and of its answer, 1 B to 1 GiB"),
        Knob::new("every", "NUMBER", KnobKind::Whole { min: 16, max: MAX_MESSAGES })
            .help("Number of messages for each sampled one, which takes longer than the others")
            .or(&["16"]),
    ],
    shared::CIRCUMSTANCES,
    &[
        round_trip::COUNT
            .help("Messages measured in each stamped round [default: 16000; over a link as many as fit 1s]"),
        shared::DURATION.help("How long each stamped round measures, instead of --count"),
        budget::ROUNDS,
        budget::OVER.or(&["13s"]),
        budget::QUICK,
        round_trip::WARM_UP,
    ],
    shared::RUN,
    &[shared::INJECTED_FAULT],
];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let (extent, asked_warm_up) = (shared::extent(knobs, "count")?, knobs.value("warmup"));
    let planned = |case: Case, card: &Card| {
        let travel_ns = links::travel_ns(&case, capabilities);
        let warm_up = asked_warm_up.unwrap_or_else(|| round_trip::warm_up(&case, card, travel_ns));
        let extent = extent.unwrap_or(Extent::Count(links::count(DEFAULT_COUNT, travel_ns)));
        sequence::template(case, [warm_up, extent], knobs, capabilities)
    };
    let candidates = selection::candidates_if(knobs, "transport", capabilities, |card| card.is_reference)?;
    let (planned, skipped) = Combinations::default()
        .each(knobs.values("size"), |case, size: u64| case.primary_mut().load.set_sizes(size, size))
        .in_circumstances(knobs, capabilities, |_| true)?
        .with_replicates(knobs)
        .plan(&candidates, capabilities, |card| Case::ping_pong(card.name), planned)?;
    let sample_every = knobs.value("every");
    let both = |order: RoundOrder| {
        let plain = sequence::shortened(&order, STAMPED_PER_PLAIN);
        let plain = RoundOrder { warm_up: order.warm_up, ..plain };
        [RoundOrder { purpose: Purpose::Stamped, sample_every, ..order }, plain]
    };
    Ok((planned.into_iter().flat_map(both).collect(), skipped))
}
