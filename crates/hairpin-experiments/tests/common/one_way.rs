//! A test-only experiment: a few writes one way. Adding an experiment takes a file like this and a line in a list.
#![allow(unreachable_pub, reason = "a module of tests")]

use hairpin_experiments::combinations::Combinations;
use hairpin_experiments::experiment::Planning;
use hairpin_experiments::{Experiment, Knob, KnobKind, Knobs, Refused, budget, selection, sequence, shared};
use hairpin_model::flow::Direction;
use hairpin_model::{Card, Case, Extent, Flow, HostCapabilities, Waiting};

pub const ONE_WAY: Experiment = Experiment {
    name: "one-way",
    question: "Do all messages from the server arrive?",
    knobs: KNOBS,
    plan,
    repeats: |_| false,
    refine: None,
    search: None,
};

const KNOBS: &[Knob] = &[
    Knob::new("transport", "NAME", KnobKind::Transport)
        .help("Transports, or all; default: all that can run here")
        .many(),
    Knob::new("waiting", "HOW", KnobKind::Words(Waiting::WORDS))
        .help("How both ends wait: poll, spin, or all")
        .many()
        .or(&["poll"]),
    shared::PLACEMENT,
    shared::ENDS,
    shared::LINK,
    budget::ROUNDS,
    shared::SEED,
];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let candidates = selection::candidates(knobs, "transport", capabilities)?;
    let extents = [Extent::Count(2), Extent::Count(20)];
    let first = |card: &Card| Case::of(Flow::stream(card.name, 100, Direction::Down));
    Combinations::default().in_circumstances(knobs, capabilities, |_| true)?.plan(
        &candidates,
        capabilities,
        first,
        |case, _| sequence::template(case, extents, knobs, capabilities),
    )
}
