//! `survey`: which transport is fastest on this machine, and what makes the others slower?
//!
//! The survey runs without any flag, so it must end within 25 s on two CPUs, report included. Its cases are the
//! [`LINES`] below, over every transport that can run here, at 4 B each way, in [`ROUNDS`] rounds.
//!
//! The arithmetic: a round costs its warm-up, its messages times the round trip, and [`OVERHEAD_NS`] for two fresh
//! processes and a fresh connection. [`estimate`] does it with the floors of bare loops in [`FLOORS`], and a test
//! holds the sum for every transport under [`BUDGET_NS`]. The sum is dominated by the line `waking`: each of its
//! rounds spends 40 ms in warm-up, because the first 40 ms of a connection that wakes CPUs read differently from the
//! rest, and 26 ms in 400 messages of about 66 us. With 4000 samples over ten rounds it has its p99 and shows a dash
//! for p99.9; samples for that (10 000) would cost four more seconds.

use hairpin_model::card::AnsweredBy;
use hairpin_model::case::{Case, CpuIdle, Ends, LOOPBACK, Placement, Waiting};
use hairpin_model::ground::{Candidate, Ground};
use hairpin_model::round::{Extent, RoundRecord};

use crate::experiment::{Experiment, Step};
use crate::experiments::round_trip::WARM_UP_MESSAGES;
use crate::knob::Knob;
use crate::knobs::Knobs;
use crate::links::{self, LinkChoice};
use crate::quantity::SECOND_NS;
use crate::refused::Refused;
use crate::selection::{self, Sieve};
use crate::sequence::{self, Common, Planned};
use crate::shared::{LINK, LINK_BACKEND, PLANT, PLANT_TWIN, SEED, WARM_UP_NS};

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Survey;

/// Rounds of each case.
pub const ROUNDS: u64 = 10;
/// The same with `--quick`: enough that a case of the shortest line (400 messages a round) still has its p99.
pub const QUICK_ROUNDS: u64 = 3;
/// What a round costs beyond its messages: two processes, a connection, and their end.
pub const OVERHEAD_NS: u64 = 6_000_000;
/// What all rounds may cost together by [`estimate`]. The rest of the 25 s is for slower days and for the report.
pub const BUDGET_NS: u64 = 18 * SECOND_NS;

/// Which transports a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// All that have an echo half of ours and the line's waiting.
    EchoHalves,
    /// All that the kernel answers.
    Kernel,
    /// Both of these.
    All,
    /// One: `tcp`, or the first that has an echo half where `tcp` cannot run.
    One,
}

impl Over {
    /// It in words, for the document.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::EchoHalves => "all that Hairpin answers",
            Self::Kernel => "all that the kernel answers",
            Self::All => "all",
            Self::One => "tcp",
        }
    }
}

/// One line of the survey's table: the same case over some transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its word.
    pub name: &'static str,
    /// Over which transports.
    pub over: Over,
    /// How both ends wait.
    pub waiting: Waiting,
    /// Where they run.
    pub placement: Placement,
    /// How deep CPUs may sleep.
    pub cpu_idle: CpuIdle,
    /// 1 for the second of the A/A pair.
    pub twin: u8,
    /// Messages measured in each round.
    pub count: u64,
    /// The unmeasured start of each round.
    pub warm_up: Extent,
    /// What it is there for.
    pub why: &'static str,
}

const TOGETHER: Line = Line {
    name: "path",
    over: Over::All,
    waiting: Waiting::Block,
    placement: Placement::Together,
    cpu_idle: CpuIdle::Deep,
    twin: 0,
    count: 2000,
    warm_up: Extent::Count(WARM_UP_MESSAGES),
    why: "what the path itself costs, with no CPU to wake",
};

const WAKING: Line = Line {
    name: "waking",
    over: Over::EchoHalves,
    placement: Placement::Apart,
    count: 400,
    warm_up: Extent::DurationNs(WARM_UP_NS),
    why: "what most programs see: two CPUs, and each message wakes the other one",
    ..TOGETHER
};

const SPINNING: Line = Line {
    name: "spinning",
    over: Over::EchoHalves,
    waiting: Waiting::Spin,
    placement: Placement::Apart,
    count: 5000,
    warm_up: Extent::Count(2 * WARM_UP_MESSAGES),
    why: "the floor: nobody sleeps, nobody is woken",
    ..TOGETHER
};

/// The survey's table.
pub const LINES: &[Line] = &[
    TOGETHER,
    WAKING,
    SPINNING,
    Line { name: "spinning-kernel", over: Over::Kernel, placement: Placement::Together, ..SPINNING },
    Line {
        name: "kept-awake",
        over: Over::One,
        cpu_idle: CpuIdle::Shallow,
        why: "counter-experiment to `waking`: only the CPUs' sleep is changed",
        ..WAKING
    },
    Line {
        name: "again",
        over: Over::One,
        twin: 1,
        why: "the A/A pair of `path`: must not be told apart",
        ..TOGETHER
    },
];

/// The survey's table, as METHODOLOGY.md lists it.
#[must_use]
pub fn table() -> &'static [Line] {
    LINES
}

/// Round trips of bare loops, 4 B, p50 in ns, by transport: block/together, block/apart, spin (apart, or together
/// where the kernel answers). From hand-written C loops on a 2-CPU KVM guest with Linux 6.18; for `memory`, `fifo`,
/// `unix-seqpacket` and IPv6 their nearest relative stands in. They are used for the time budget and for nothing else.
pub const FLOORS: &[(&str, [u64; 3])] = &[
    ("memory", [4_500, 56_000, 140]),
    ("shm", [4_500, 56_000, 140]),
    ("pipe", [5_000, 54_000, 4_000]),
    ("fifo", [5_000, 54_000, 4_000]),
    ("unix-stream", [9_400, 60_000, 3_300]),
    ("unix-seqpacket", [7_800, 66_000, 3_400]),
    ("unix-datagram", [7_800, 66_000, 3_400]),
    ("udp", [10_200, 69_000, 6_100]),
    ("udp6", [10_200, 69_000, 6_100]),
    ("tcp", [13_400, 70_000, 8_100]),
    ("tcp6", [13_400, 70_000, 8_100]),
    ("icmp", [4_000, 45_000, 4_000]),
];

/// What a transport without a line in [`FLOORS`] is taken to cost: a little more than TCP.
pub const UNKNOWN_FLOOR: [u64; 3] = [15_000, 75_000, 9_000];

/// How long these rounds will take, in ns, by [`FLOORS`] and [`OVERHEAD_NS`].
#[must_use]
pub fn estimate(planned: &[Planned], rounds: u64) -> u64 {
    rounds * planned.iter().map(round_ns).sum::<u64>()
}

/// How long one round of this case will take, in ns.
#[must_use]
pub fn round_ns(planned: &Planned) -> u64 {
    let floor =
        FLOORS.iter().find(|(name, _)| *name == planned.case.transport).map_or(UNKNOWN_FLOOR, |found| found.1);
    let round_trip_ns = match (planned.case.waiting, planned.case.placement, planned.case.cpu_idle) {
        (Waiting::Spin, _, _) => floor[2],
        (_, Placement::Apart, CpuIdle::Deep) => floor[1],
        _ => floor[0],
    };
    let takes_ns = |extent: Extent| match extent {
        Extent::Count(count) => count * round_trip_ns,
        Extent::DurationNs(duration_ns) => duration_ns,
    };
    OVERHEAD_NS + takes_ns(planned.warm_up) + takes_ns(planned.extent)
}

/// Transports that the survey leaves out, for its time: `mptcp` is TCP with one more layer over it, on a path that has
/// no second way to go. `round-trip` and `small-writes` measure it.
pub const LEFT_OUT: &[&str] = &["mptcp"];

/// The lines that are measured over an emulated link: the path and its A/A pair. The others are about waking a CPU
/// and spinning, which a link of milliseconds hides.
pub const OVER_LINKS: &[&str] = &["path", "again"];

const KNOBS: &[Knob] = &[
    LINK,
    LINK_BACKEND,
    SEED,
    Knob::switch("quick", "Three rounds of each case instead of ten: a few seconds, wide intervals"),
    PLANT,
    PLANT_TWIN,
];

impl Experiment for Survey {
    fn name(&self) -> &'static str {
        "survey"
    }

    fn question(&self) -> &'static str {
        "Which transport is fastest on this machine, and what makes the others slower?"
    }

    fn knobs(&self) -> &'static [Knob] {
        KNOBS
    }

    fn next(&self, knobs: &Knobs, ground: &Ground, done: &[RoundRecord]) -> Result<Step, Refused> {
        if !done.is_empty() {
            return Ok(Step::Done);
        }
        let (plant, plant_twin) = (knobs.plant("plant")?, knobs.plant("plant-twin")?);
        let mut sieve = Sieve::new(ground);
        let mut candidates = selection::candidates(&[], ground)?;
        candidates.retain(|candidate| !LEFT_OUT.contains(&candidate.card.name));
        let runnable = sieve.runnable(&candidates);
        for link in links::asked(knobs, ground)? {
            let is_emulated = link.link.line != LOOPBACK;
            for line in LINES.iter().filter(|line| !is_emulated || OVER_LINKS.contains(&line.name)) {
                for candidate in over(line, &runnable) {
                    let mut case = case(line, candidate, link.clone());
                    case.plant = if line.twin == 1 { plant_twin.or(plant) } else { plant };
                    sieve.offer(&candidate.card, planned(line, case, ground));
                }
            }
        }
        let (planned, skipped) = sieve.finish()?;
        let rounds = if knobs.is_on("quick") { QUICK_ROUNDS } else { ROUNDS };
        let rounds = sequence::orders(&planned, rounds, knobs.seed()?, COMMON)?;
        let cases = planned.into_iter().map(|planned| planned.case).collect();
        Ok(Step::Run { cases, rounds, skipped })
    }
}

const COMMON: Common = Common { keep_samples: 100_000, allow_unmet_options: false, port: 0 };

/// The candidates that a line is about. A waiting that a card does not have is no news in a survey: it is left out
/// without a word, and `hairpin list` shows it.
fn over<'g>(line: &Line, runnable: &[&'g Candidate]) -> Vec<&'g Candidate> {
    let ours = |candidate: &Candidate| candidate.card.answered_by == AnsweredBy::EchoHalf;
    let mut chosen: Vec<&Candidate> = match line.over {
        Over::All => runnable.to_vec(),
        Over::EchoHalves => runnable.iter().copied().filter(|candidate| ours(candidate)).collect(),
        Over::Kernel => runnable.iter().copied().filter(|candidate| !ours(candidate)).collect(),
        Over::One => {
            let tcp = runnable.iter().copied().find(|candidate| candidate.card.name == "tcp");
            tcp.or_else(|| runnable.iter().copied().find(|candidate| ours(candidate))).into_iter().collect()
        }
    };
    chosen.retain(|candidate| candidate.card.waitings.contains(&line.waiting));
    chosen
}

fn case(line: &Line, candidate: &Candidate, link: LinkChoice) -> Case {
    let mut case = Case {
        waiting: line.waiting,
        placement: line.placement,
        ends: selection::ends(&candidate.card, Ends::Processes, false),
        cpu_idle: line.cpu_idle,
        twin: line.twin,
        ..Case::ping_pong(candidate.card.name)
    };
    link.set(&mut case);
    case
}

fn planned(line: &Line, case: Case, ground: &Ground) -> Planned {
    let travel_ns = links::travel_ns(&case, ground);
    let over_a_link = Extent::Count(links::warm_up_count(WARM_UP_MESSAGES, travel_ns));
    Planned {
        extent: Extent::Count(links::count(line.count, travel_ns)),
        warm_up: if case.is_emulated() { over_a_link } else { line.warm_up },
        timeout_ns: links::timeout_ns(&case, ground),
        case,
    }
}
