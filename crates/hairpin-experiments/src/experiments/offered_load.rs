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

use hairpin_model::flow::{Direction, Pacing};
use hairpin_model::{Arrivals, Card, Case, Flow, HostCapabilities, Load, Refused, RoundOrder, RoundRecord};

use crate::budget;
use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning};
use crate::knee;
use crate::knob::{Knob, KnobKind};
use crate::knobs::Knobs;
use crate::one_way::{self, Lengths};
use crate::selection;
use crate::shared::{self, AUTO};

pub const OFFERED_LOAD: Experiment = Experiment {
    name: "offered-load",
    question: "How many messages sent at a given rate arrive, how late, and where are the others lost?",
    knobs: KNOBS,
    plan,
    repeats: |case| matches!(case.primary().load, Load::Offered { .. }) && case.primary().wires() == 1,
    refine: Some(refine_rates),
};

const KNOBS: &[Knob] = &[
    shared::TRANSPORT
        .help("Transports, separated by commas, or all [default: the reference transport and unreliable IPv4]"),
    one_way::DIRECTION,
    one_way::SIZE,
    one_way::CONNECTIONS,
    Knob::new("rate", "MESSAGES", KnobKind::RateOr(AUTO, MAX_PER_S))
        .help("Messages offered per second, separated by commas; auto: a sweep that looks for the knee")
        .many()
        .or(&[AUTO])
        .print(shared::print_rate),
    Knob::new("arrivals", "WHEN", KnobKind::Arrivals)
        .help("When messages are due: fixed, poisson, or burst=N")
        .many()
        .or(&["fixed"])
        .print(|repeat| {
            repeat.values("", |case| case.primary().load.offered().map(|(arrivals, _)| arrivals.to_string()))
        }),
    Knob::new("pacing", "METHOD", KnobKind::Words(Pacing::WORDS))
        .help("How the sender keeps to these times: sleep+spin, spin, or kernel (SO_MAX_PACING_RATE, TCP only)")
        .many()
        .or(&["sleep+spin"])
        .print(|repeat| {
            repeat.values("", |case| case.primary().load.offered().map(|(_, pacing)| pacing.to_string()))
        }),
    one_way::WAITING,
    shared::PLACEMENT
        .help("Where both ends run: same-cpu, cross-cpu, same-core, same-cache, same-node, cross-node, unpinned, or all")
        .or(&["cross-cpu"]),
    shared::ENDS,
    shared::OPTION,
    shared::LINK,
    shared::SYSCTL,
    shared::CPU_IDLE,
    one_way::COUNT,
    one_way::DURATION,
    budget::ROUNDS,
    budget::OVER,
    budget::QUICK,
    one_way::WARM_UP,
    shared::SEED,
    one_way::TIMEOUT,
    one_way::KEEP_SAMPLES,
    shared::KEEP_LINK_LOG,
    shared::ALLOW_UNMET_OPTIONS,
    shared::PORT,
    shared::REPLICATE,
];

const MAX_PER_S: f64 = 1e8;

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let lengths = Lengths::read(knobs, "warmup")?;
    let mut candidates = selection::candidates(knobs, "transport", capabilities)?;
    if !knobs.is_given("transport") {
        candidates.retain(|candidate| one_way::is_reference_or_lossy(&candidate.card));
        candidates = selection::reaching(candidates, capabilities);
    }
    let (rates, sweeps): (Vec<f64>, bool) = (knobs.values("rate"), knobs.has_chosen("rate"));
    let count = if sweeps { knee::MAX_RATES } else { rates.len() };
    let first = |card: &Card| {
        let (arrivals, pacing) = (Arrivals::Fixed, Pacing::SleepSpin);
        let load = Load::Offered { offered_per_s: 1.0, size_bytes: 1, arrivals, pacing };
        Case::of(Flow::one_way(card.name, load, Direction::Up))
    };
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
        .plan(&candidates, capabilities, first, |case, _| lengths.planned(case, knobs, capabilities))
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
