//! `observer`: what does measuring cost a program?
//!
//! One end sends small messages as fast as the other end reads them, one call each. Both ends do the same for each
//! message: count it, time it, log it. The baseline is the rate of the same program without an observer.
//!
//! Defaults and why:
//! - the reference transport, the unreliable one over IPv4 and Unix streams; every observer but `sampled`, the default of
//!   other experiments.
//! - 64 B per message and two CPUs, as in `message-rate` and on two hosts.
//! - 100 ms per round after a warm-up of 50 ms, half as long as in `message-rate`, because there are many cases.
//! - `none` is measured twice, as an A/A pair.

use hairpin_model::flow::{Build, Direction, Observer};
use hairpin_model::{Card, Case, Flow, HostCapabilities, Load, Reach, Refused};

use crate::budget::LENGTHS;
use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::one_way::{self, Lengths};
use crate::{selection, sequence, shared};

pub const OBSERVER: Experiment = Experiment {
    name: "observer",
    question: "What does measuring cost a program?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| matches!(case.primary().load, Load::Messages { observer, .. } if observer != Observer::Sampled),
    refine: None,
    search: None,
};

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT.help(
            "Transports, separated by commas, or all [default: the reference transport, unreliable IPv4, Unix streams]",
        ),
        Knob::new("observer", "WHAT", KnobKind::Words(Observer::WORDS))
            .help("What both ends do for each message, for instance clock, hdr, tracing-file; or all")
            .many()
            .or(Observer::WORDS.split_at(1).1)
            .print(|repeat| repeat.values("", |case| Some(case.primary().load.observer().to_string()))),
        one_way::SIZE,
        one_way::BUILD,
        one_way::WAITING,
        shared::PLACEMENT.or(&["cross-cpu"]),
        shared::ENDS,
        shared::OPTION,
        shared::LINK,
        shared::SYSCTL,
    ],
    one_way::ROUNDS,
    &[shared::SEED, one_way::TIMEOUT, one_way::KEEP_SAMPLES, shared::ALLOW_UNMET_OPTIONS, shared::PORT],
];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let lengths = Lengths::read(knobs, "warmup")?;
    let divisor = if LENGTHS.iter().any(|name| knobs.is_given(name)) { 1 } else { 2 };
    let candidates = selection::candidates_if(knobs, "transport", capabilities, is_measured_by_default)?;
    let mut observers = knobs.choices("observer", Observer::ALL);
    if !observers.contains(&Observer::None) {
        observers.insert(0, Observer::None);
    }
    let size: Vec<u64> = knobs.values("size");
    let loads = size.iter().flat_map(|size_bytes| {
        let load = |observer: &Observer| Load::Messages { size_bytes: *size_bytes, batch: 1, observer: *observer };
        observers.iter().map(load)
    });
    let first = |card: &Card| Case::of(Flow::one_way(card.name, Load::PLAIN, Direction::Up));
    let twice = |case: &Case, _: &Card| {
        let replicates = if case.primary().load.observer() == Observer::None { vec![0, 1] } else { vec![0] };
        replicates.into_iter().map(|replicate| case.clone().with(|case| case.replicate = replicate)).collect()
    };
    Combinations::default()
        .each(loads.collect(), |case, load| case.primary_mut().load = load)
        .each(knobs.choices("build", Build::ALL), |case, build| case.primary_mut().build = build)
        .in_circumstances(knobs, capabilities, |_| true)?
        .vary(2, twice)
        .plan(&candidates, capabilities, first, |case, _| {
            sequence::shortened(&lengths.planned(case, knobs, capabilities), divisor)
        })
}

/// Whether this is the reference transport, the unreliable one over IPv4, or a local byte stream over sockets.
fn is_measured_by_default(card: &Card) -> bool {
    let is_local_socket = card.reach == Reach::Machine && !card.boundaries && !card.options.is_empty();
    one_way::is_reference_or_lossy(card) || is_local_socket
}
