//! `offered-load`: how many messages sent at a given rate arrive, how late, and where are the others lost?
//!
//! An open loop: messages are due at a rate that does not depend on the receiver, and latency counts from the due
//! time. Missing messages are counted by cause. Every round measures how well the sender kept its schedule.
//!
//! Defaults and why:
//! - rates from 1 000 to 1 024 000 messages/s, each four times the previous one, then more around the highest
//!   delivered rate; over a link with a known rate, from a quarter of the link's rate to twice the link's rate.
//! - messages of 64 B at fixed intervals; the sender sleeps until 60 us before a message is due, then polls the clock
//!   (`sleep+spin`), because a sleep ends late by the wake-up time.
//! - two CPUs, because a sender that polls the clock would keep the receiver off its CPU.
//! - 200 ms per round after a warm-up of 100 ms; over a link, each extends to 20 round trips, at most 1 s.

use hairpin_model::{HostCapabilities, Load, Refused, RoundOrder, RoundRecord};

use crate::experiment::{Experiment, Planning};
use crate::knee;
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::one_way::{self, Lengths};
use crate::selection;
use crate::shared::{self, AUTO};

pub const OFFERED_LOAD: Experiment = Experiment {
    name: "offered-load",
    question: "How many messages sent at a given rate arrive, how late, and where are the others lost?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| matches!(case.primary().load, Load::Offered { .. }) && case.primary().wires() == 1,
    refine: Some(refine_rates),
    search: None,
};

const KNOBS: &[&[Knob]] = &[
    &[
        one_way::REFERENCE_OR_LOSSY,
        one_way::DIRECTION,
        one_way::SIZE,
        one_way::CONNECTIONS,
        Knob::new("rate", "MESSAGES", KnobKind::RateOr(AUTO, one_way::MAX_OFFERED_PER_S))
            .help("Messages offered per second, separated by commas; auto: a sweep that looks for the knee")
            .many()
            .or(&[AUTO])
            .print(shared::print_rate),
        one_way::ARRIVALS,
        one_way::PACING,
        one_way::WAITING,
        one_way::PLACEMENT,
        shared::ENDS,
    ],
    shared::CIRCUMSTANCES,
    one_way::ROUNDS,
    one_way::RUN,
];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let lengths = Lengths::read(knobs, "warmup")?;
    let candidates = selection::candidates_if(knobs, "transport", capabilities, one_way::is_reference_or_lossy)?;
    let (rates, sweeps): (Vec<f64>, bool) = (knobs.values("rate"), knobs.has_chosen("rate"));
    let count = if sweeps { knee::MAX_RATES } else { rates.len() };
    one_way::offered_loads(knobs)
        .each(one_way::counts(knobs, "connections"), |case, count| case.primary_mut().connections = count)
        .in_circumstances(knobs, capabilities, |_| true)?
        .vary(count, move |case, _| {
            let chosen = if sweeps { knee::first_rates(case, capabilities) } else { Vec::new() };
            let mut rates = [rates.clone(), chosen].concat();
            rates.sort_by(f64::total_cmp);
            rates.dedup();
            rates.into_iter().map(|rate| case.at_rate(rate)).collect()
        })
        .with_replicates(knobs)
        .plan(&candidates, capabilities, one_way::offered, |case, _| lengths.planned(case, knobs, capabilities))
}

/// Adds rates around the highest delivered rate. Returns no cases once that rate is known closely enough.
fn refine_rates(
    knobs: &Knobs,
    capabilities: &HostCapabilities,
    planned: &[RoundOrder],
    done: &[RoundRecord],
) -> Result<Vec<RoundOrder>, Refused> {
    if !knobs.has_chosen("rate") {
        return Ok(Vec::new());
    }
    let lengths = Lengths::read(knobs, "warmup")?;
    let cases = knee::refine_rates(planned, done);
    Ok(cases.into_iter().map(|case| lengths.planned(case, knobs, capabilities)).collect())
}
