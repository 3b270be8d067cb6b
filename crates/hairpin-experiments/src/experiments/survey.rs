//! `survey`: which transport is fastest on this machine, and what makes the others slower?
//!
//! The survey needs no flags. It measures the [`LINES`] below over every transport that can run here, with 4 B each
//! way, in as many blocks as fit the time budget ([`crate::budget`]).
//!
//! A round costs its warm-up, its messages times the round-trip time, and the start of two processes and a connection
//! ([`crate::estimate`]). The line `waking` dominates a block: each of its rounds spends 40 ms on warm-up, because
//! the first 40 ms of a connection that wakes CPUs differ from the rest, and 26 ms on 400 messages of about 66 us.
//! Eight rounds of that line give 3200 samples, enough for p99; p99.9, shown as a dash, needs 10 000, or 4 s more.

use hairpin_model::case::LOOPBACK;
use hairpin_model::{
    AnsweredBy, Candidate, Card, Case, CpuIdle, EndKind, EndSettings, Extent, HostCapabilities, KnownLink, Placement,
    Refused, RoundOrder, Waiting,
};

use crate::budget;
use crate::experiment::{Experiment, Planning};
use crate::experiments::round_trip::WARM_UP_MESSAGES;
use crate::knob::{Knob, count, joined};
use crate::knobs::Knobs;
use crate::links;
use crate::selection;
use crate::sequence;
use crate::shared::{self, FAULT_IN_REPLICATE, INJECTED_FAULT, LINK, SEED, TIMEOUT, refuse_across_hosts};
use crate::warm_up::WARM_UP_NS;

pub const SURVEY: Experiment = Experiment {
    name: "survey",
    question: "Which transport is fastest on this machine, and what makes the others slower?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    // `round-trip` repeats the cases, because the survey cannot select single ones.
    repeats: |_| false,
    refine: None,
    search: None,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// All transports that a Hairpin server answers.
    Served,
    Kernel,
    /// Both [`Over::Served`] and [`Over::Kernel`].
    All,
    /// The reference transport, else the first runnable one that a Hairpin server answers.
    One,
}

/// One line of the survey's table: the same settings over several transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurveyLine {
    pub name: &'static str,
    pub over: Over,
    pub waiting: Waiting,
    pub placement: Placement,
    /// How deep idle CPUs may sleep.
    pub cpu_idle: CpuIdle,
    /// 1 for the second case of the A/A pair.
    pub replicate: u8,
    /// Messages measured per round.
    pub count: u64,
    pub warm_up: Extent,
}

/// The cost of the path itself, without waking a CPU.
const PATH: SurveyLine = SurveyLine {
    name: "path",
    over: Over::All,
    waiting: Waiting::Block,
    placement: Placement::SameCpu,
    cpu_idle: CpuIdle::Deep,
    replicate: 0,
    count: 2000,
    warm_up: Extent::Count(WARM_UP_MESSAGES),
};

/// What most programs do: two CPUs, and each message wakes the other CPU.
const WAKING: SurveyLine = SurveyLine {
    name: "waking",
    over: Over::Served,
    placement: Placement::CrossCpu,
    count: 400,
    warm_up: Extent::DurationNs(WARM_UP_NS),
    ..PATH
};

/// The minimum: neither end sleeps, so no CPU needs waking.
const SPINNING: SurveyLine = SurveyLine {
    name: "spinning",
    over: Over::Served,
    waiting: Waiting::Spin,
    placement: Placement::CrossCpu,
    count: 5000,
    warm_up: Extent::Count(2 * WARM_UP_MESSAGES),
    ..PATH
};

pub const LINES: &[SurveyLine] = &[
    PATH,
    WAKING,
    SPINNING,
    SurveyLine { name: "spinning-kernel", over: Over::Kernel, placement: Placement::SameCpu, ..SPINNING },
    // Counter-experiment to `waking`: only the sleep depth of the CPUs is changed.
    SurveyLine { name: "kept-awake", over: Over::One, cpu_idle: CpuIdle::Shallow, ..WAKING },
    // The A/A pair of `path`: no difference is expected.
    SurveyLine { name: "again", over: Over::One, replicate: 1, ..PATH },
];

/// The lines measured over an emulated link, where the microseconds of waking and spinning are negligible.
pub const OVER_LINKS: &[&str] = &["path", "again"];

const KNOBS: &[&[Knob]] = &[&[LINK], budget::BLOCKS_UNTIL, &[TIMEOUT, SEED, INJECTED_FAULT, FAULT_IN_REPLICATE]];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    refuse_across_hosts(knobs, capabilities)?;
    let links = links::asked(knobs, capabilities)?;
    let mut candidates = selection::candidates(knobs, "transport", capabilities)?;
    candidates.retain(|candidate| candidate.card.in_survey);
    selection::possible_cases(&candidates, capabilities, |runnable| {
        let mut planned = Vec::new();
        for link in &links {
            let is_local = link.line == LOOPBACK && capabilities.far.is_none();
            for line in LINES.iter().filter(|line| is_local || OVER_LINKS.contains(&line.name)) {
                let carriers = transports_of(line, runnable).into_iter();
                planned.extend(carriers.map(|carrier| template(line, &carrier.card, link, knobs, capabilities)));
            }
        }
        planned
    })
}

/// Returns the transports that have the line's waiting mode. `hairpin list` shows the modes of each transport.
fn transports_of<'g>(line: &SurveyLine, runnable: &[&'g Candidate]) -> Vec<&'g Candidate> {
    let served = |candidate: &Candidate| candidate.card.answered_by == AnsweredBy::Server;
    let mut selected: Vec<&Candidate> = match line.over {
        Over::All => runnable.to_vec(),
        Over::Served => runnable.iter().copied().filter(|candidate| served(candidate)).collect(),
        Over::Kernel => runnable.iter().copied().filter(|candidate| !served(candidate)).collect(),
        Over::One => {
            let reference = runnable.iter().copied().find(|candidate| candidate.card.is_reference);
            reference.or_else(|| runnable.iter().copied().find(|candidate| served(candidate))).into_iter().collect()
        }
    };
    selected.retain(|candidate| candidate.card.waitings.contains(&line.waiting));
    selected
}

fn template(
    line: &SurveyLine,
    card: &Card,
    link: &KnownLink,
    knobs: &Knobs,
    capabilities: &HostCapabilities,
) -> RoundOrder {
    let mut case = Case::ping_pong(card.name);
    case.ends = EndSettings {
        kind: selection::ends(card, EndKind::Processes, false),
        waiting: line.waiting,
        placement: line.placement,
        cpu_idle: line.cpu_idle,
        ..case.ends
    };
    case.replicate = line.replicate;
    case.injected_fault = shared::fault(knobs, line.replicate);
    links::set(&mut case, link.clone(), capabilities.far.as_ref());
    let travel_ns = links::travel_ns(&case, capabilities);
    let over_a_link = Extent::Count(links::warm_up_count(WARM_UP_MESSAGES, travel_ns));
    let warm_up = if case.crosses_a_network() { over_a_link } else { line.warm_up };
    let extent = Extent::Count(links::count(line.count, travel_ns));
    sequence::template(case, [warm_up, extent], knobs, capabilities)
}
