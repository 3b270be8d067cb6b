//! `periodic`: does a control loop keep its deadlines?
//!
//! Every period the loop polls each device once, one after another, and awaits its answer. Release k is due k periods
//! after the first, however long the cycles before it took. Release jitter is the time from a release until the loop
//! was awake, response time that until the last answer. A period is missed if its last answer comes after the deadline, and
//! if it was omitted because an earlier cycle had not ended.
//!
//! Defaults and why:
//! - the reference transport and the unreliable one over IPv4, on two CPUs: a device has a CPU of its own.
//! - a period of 1 ms and the deadline at its end; as many periods as fit 1.3 s, 10 to 10 000: eight rounds have enough for p99.9,
//!   also if some releases are omitted.
//! - `absolute` timing, as with a relative sleep the wait begins late by the time since the clock was read.
//! - the kernel's default timer slack of 50 us: what a program has that does not set it.

use hairpin_model::case::{KERNEL_TIMER_SLACK_NS, Scheduling};
use hairpin_model::flow::{Direction, FlowRole, Observer, Source, WRITE_BYTES};
use hairpin_model::periodic::{BackgroundLoad, MAX_PERIOD_NS, MIN_PERIOD_NS, Overrun, Periodic, Timing};
use hairpin_model::quantities::duration_argument;
use hairpin_model::{
    Card, Case, EndSettings, Extent, Flow, HostCapabilities, Load, Placement, Reach, Refused, Repeat, Waiting,
};

use super::round_trip;
use crate::budget;
use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning, Search};
use crate::find_period;
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::links;
use crate::one_way;
use crate::quantity::DAY_NS;
use crate::selection;
use crate::sequence;
use crate::shared;
use crate::warm_up::WARM_UP_NS;

pub const PERIODIC: Experiment = Experiment {
    name: "periodic",
    question: "Does a control loop keep its deadlines?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| case.primary().load.periodic().is_some(),
    refine: None,
    search: Some(Search {
        next: |knobs, capabilities, done| find_period::next(plan, knobs, capabilities, done),
        plan: find_period::search_plan,
        found: find_period::found,
    }),
};

/// Timer slack of a thread that does not set it.
const KERNEL_SLACK: &str = "50us";
/// Length of a round by default, and fewest and most periods.
const ROUND_NS: u64 = 1_300_000_000;
const COUNTS: [u64; 2] = [10, 10_000];

const KNOBS: &[&[Knob]] = &[
    &[
        one_way::REFERENCE_OR_LOSSY,
        Knob::new("period", "TIME", KnobKind::Duration { min_ns: MIN_PERIOD_NS, max_ns: MAX_PERIOD_NS })
            .help("Time between two releases of the loop, 1us to 1h; with --find the range, as 200us,20ms [100us,1s]")
            .many()
            .or(&["1ms"])
            .print(|repeat| print_loop(repeat, "", |own| duration_argument(own.period_ns))),
        Knob::new("deadline", "TIME", KnobKind::Duration { min_ns: 1, max_ns: MAX_PERIOD_NS })
            .help("Time from a release within which the last answer must arrive [default: the period]")
            .print(|repeat| repeat.values("", |case| own_deadline(case.primary().load.periodic()?))),
        find_period::FIND,
        find_period::MISSES,
        Knob::new("overrun", "WHAT", KnobKind::Words(Overrun::WORDS))
            .help("After a cycle that was too long: skip the releases that have passed, catch-up, or all")
            .many()
            .or(&["skip"])
            .print(|repeat| print_loop(repeat, "skip", |own| own.overrun.to_string())),
        Knob::new("timing", "HOW", KnobKind::Words(Timing::WORDS))
            .help("How the loop waits for a release: sleep, absolute (clock_nanosleep), timerfd, spin, sleep+spin, or all")
            .many()
            .or(&["absolute"])
            .print(|repeat| print_loop(repeat, "absolute", |own| own.timing.to_string())),
        Knob::new("devices", "NUMBER", KnobKind::Whole { min: 0, max: one_way::MAX_CONNECTIONS })
            .help("Connections polled one after another in each period; 0: only the waits are measured")
            .many()
            .or(&["1"])
            .print(|repeat| repeat.values("1", |case| Some(devices(case).to_string()))),
        round_trip::SIZE.help("Size of each message"),
        round_trip::REPLY_SIZE,
        shared::SCHEDULING,
        shared::TIMER_SLACK
            .help("How late the kernel may wake the loop to save wake-ups; no effect with fifo and deadline")
            .or(&[KERNEL_SLACK])
            .print(|repeat| repeat.values(KERNEL_SLACK, |case| Some(duration_argument(case.ends.timer_slack_ns?)))),
        Knob::switch("lock-memory", "Lock the memory of both ends (mlockall)")
            .print(|repeat| repeat.values("", |case| case.ends.lock_memory.then(|| "on".to_owned()))),
        Knob::new("load", "WHAT", KnobKind::Words(BackgroundLoad::WORDS))
            .help("Other work on the CPUs of the ends: none, cpu (busy threads), net (a stream at full speed), both, or all")
            .many()
            .or(&["none"])
            .print(|repeat| repeat.values("none", |case| Some(case.background()?.to_string()))),
        shared::WAITING,
        one_way::PLACEMENT,
        shared::ENDS,
    ],
    shared::CIRCUMSTANCES,
    &[
        Knob::new("count", "PERIODS", round_trip::COUNT.kind)
            .help("Periods measured in each round [default: as many as fit 1.3s, 10 to 10000]"),
        shared::DURATION,
    ],
    budget::BLOCKS,
    &[
        round_trip::WARM_UP
            .help("Warm-up of each round, periods or a time; auto: 40ms and at least 2 periods"),
        shared::BOUND,
    ],
    shared::RUN,
    shared::FAULTS,
];

fn print_loop(repeat: &Repeat, usual: &str, of: fn(&Periodic) -> String) -> Vec<String> {
    repeat.values(usual, |case| case.primary().load.periodic().map(of))
}

fn own_deadline(own: &Periodic) -> Option<String> {
    (own.deadline_ns != own.period_ns).then(|| duration_argument(own.deadline_ns))
}

fn devices(case: &Case) -> u32 {
    let waits = case.primary().load.periodic().is_some_and(|own| own.only_waits);
    if waits { 0 } else { case.primary().connections }
}

fn set_devices(case: &mut Case, devices: u64) {
    let flow = case.primary_mut();
    flow.connections = u32::try_from(devices.max(1)).unwrap_or(1);
    set(case, |own| own.only_waits = devices == 0);
}

fn set(case: &mut Case, change: impl FnOnce(&mut Periodic)) {
    if let Some(own) = case.primary_mut().load.periodic_mut() {
        change(own);
    }
}

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let (periods, deadline_ns): (Vec<u64>, Option<u64>) = (knobs.values("period"), knobs.value("deadline"));
    let (extent, warm_up) = (shared::extent(knobs, "count")?, knobs.value("warmup"));
    check_times(&periods, deadline_ns, extent)?;
    if knobs.is_given("misses") && !knobs.is_on("find") {
        return Err(Refused::new(
            "--misses is a limit for --find, which is not given",
            "add --find, or omit --misses",
        ));
    }
    let mut candidates = selection::candidates_if(knobs, "transport", capabilities, one_way::is_reference_or_lossy)?;
    if !knobs.is_given("transport") {
        candidates.truncate(if knobs.is_on("find") { 1 } else { usize::MAX });
    }
    let planned = |case: Case| {
        let period_ns = case.primary().load.periodic().map_or(1, |own| own.period_ns);
        let travel_ns = links::travel_ns(&case, capabilities);
        let warm_up =
            warm_up.unwrap_or_else(|| Extent::DurationNs(WARM_UP_NS.max(travel_ns).max(period_ns.saturating_mul(2))));
        let extent = extent.unwrap_or_else(|| Extent::Count((ROUND_NS / period_ns).clamp(COUNTS[0], COUNTS[1])));
        sequence::template(case, [warm_up, extent], knobs, capabilities)
    };
    let lock_memory = knobs.is_on("lock-memory");
    Combinations::default()
        .each(periods, move |case, period_ns| {
            set(case, |own| (own.period_ns, own.deadline_ns) = (period_ns, deadline_ns.unwrap_or(period_ns)));
        })
        .each(knobs.choices("overrun", Overrun::ALL), |case, overrun| set(case, |own| own.overrun = overrun))
        .each(knobs.choices("timing", Timing::ALL), |case, timing| set(case, |own| own.timing = timing))
        .each(knobs.values("devices"), set_devices)
        .with_sizes(knobs)
        .with_threads(knobs)
        .in_circumstances(knobs, capabilities, |_| true)?
        .each(knobs.choices("load", BackgroundLoad::ALL), |case, load| set_load(case, load, capabilities))
        .each(vec![lock_memory], |case, lock_memory| case.ends.lock_memory = lock_memory)
        .with_replicates(knobs)
        .plan(&candidates, capabilities, |card| first(card.name), |case, _| planned(case))
}

/// A loop over this transport with the default period.
fn first(transport: &str) -> Case {
    let load = Load::Periodic { periodic: Periodic::default(), size_bytes: 4, reply_size_bytes: 4 };
    Case::of(Flow { load, ..Flow::ping_pong(transport) })
        .with(|case| case.ends.timer_slack_ns = Some(KERNEL_TIMER_SLACK_NS))
}

/// Adds the flows of a load, whose ends have none of the loop's settings but its CPUs.
fn set_load(case: &mut Case, load: BackgroundLoad, capabilities: &HostCapabilities) {
    let card = |suits: fn(&Card) -> bool| {
        let mut cards = capabilities.candidates.iter().map(|candidate| &candidate.card);
        cards.find(|card| suits(card)).map(|card| card.name)
    };
    let [busy, network] =
        [card(|card| card.cpu_only && card.reach != Reach::Process), card(|card| card.is_reference)];
    for id in load.flows() {
        let (transport, waiting, sent) = match *id {
            "cpu" => (busy, Waiting::Spin, Load::Messages { size_bytes: 64, batch: 1, observer: Observer::None }),
            _ => (network, Waiting::Poll, Load::Stream { write_size_bytes: WRITE_BYTES, source: Source::Buffer }),
        };
        let Some(transport) = transport else { continue };
        // A busy thread on each of two CPUs, of which one is that of both ends.
        let placement = match (*id, case.ends.placement) {
            ("cpu", Placement::SameCpu) => Placement::CrossCpu,
            (_, placement) => placement,
        };
        let ends = EndSettings {
            waiting,
            placement,
            scheduling: Scheduling::Other,
            timer_slack_ns: None,
            lock_memory: false,
            ..case.ends
        };
        let flow = Flow::one_way(transport, sent, Direction::Up).in_role(FlowRole::Load);
        case.flows.push(Flow { id: (*id).into(), ends: Some(ends), ..flow });
    }
}

fn check_times(periods: &[u64], deadline_ns: Option<u64>, extent: Option<Extent>) -> Result<(), Refused> {
    let shortest_ns = periods.iter().copied().min().unwrap_or(MIN_PERIOD_NS);
    if let Some(deadline_ns) = deadline_ns.filter(|deadline_ns| *deadline_ns > shortest_ns) {
        return Err(Refused::new(
            format!(
                "--deadline {} is after the end of the period, {}",
                duration_argument(deadline_ns),
                duration_argument(shortest_ns)
            ),
            "use a deadline within the period; --overrun says what follows a late cycle",
        ));
    }
    let longest_ns = periods.iter().copied().max().unwrap_or(0);
    match extent {
        Some(Extent::Count(count)) if count.saturating_mul(longest_ns) > DAY_NS => Err(Refused::new(
            format!("{count} periods of {} take more than 24 h", duration_argument(longest_ns)),
            "lower --count, or use --duration",
        )),
        _ => Ok(()),
    }
}
