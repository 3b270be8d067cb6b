//! `round-trip`: how long does a message take there and back?
//!
//! Every combination of knob values is a case; impossible combinations are skipped with the reason. By default a
//! closed loop sends each message after the answer to the previous one. With `--rate` messages are due at fixed
//! times, and latency counts from the due time.
//!
//! Defaults and why:
//! - both placements: one CPU shows the cost of the transport itself; two CPUs, as in most programs, add a wake-up.
//! - 1250 messages per round and at least 8 rounds: 10 000 samples per case, enough for p99.9. More rounds narrow an
//!   interval more than longer rounds do, because rounds differ more than messages within a round.
//! - warm-up `auto`: 40 ms if a CPU may sleep between messages, because the first 40 ms of such a connection differ
//!   from the rest; otherwise [`WARM_UP_MESSAGES`], because 40 ms would be too many messages.
//! - evidence rounds, see [`crate::evidence`], after the timed rounds of open loops over TCP, where a message may
//!   wait for the acknowledgment of the previous one.
//! - over a link, the round-trip time limits the number of messages and the warm-up, see [`links`].

use hairpin_model::{Card, Case, Extent, HostCapabilities, Load, Refused, Repeat};

use crate::budget;
use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::links;
use crate::quantity::MAX_MESSAGES;
use crate::selection;
use crate::sequence;
use crate::shared::{self, AUTO};
use crate::warm_up::{WARM_UP_NS, cpus_may_sleep};

pub const ROUND_TRIP: Experiment = Experiment {
    name: "round-trip",
    question: "How long does a message take there and back?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| {
        let is_round_trip = matches!(case.primary().load, Load::PingPong { .. } | Load::Paced { .. });
        is_round_trip && !case.is_under_load() && case.primary().opening.is_none() && case.primary().connections == 1
    },
    refine: None,
    search: None,
};

/// Warm-up in messages if no CPU sleeps between them.
pub const WARM_UP_MESSAGES: u64 = 500;
/// Above this message size the warm-up is always a duration, because 500 messages could take minutes.
const LARGE_BYTES: u64 = 64 << 10;

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT,
        shared::WAITING.help(
            "How both ends wait: block, poll, spin, or all three; also epoll, uring, async... (docs/waiting.md)",
        ),
        shared::PLACEMENT,
        shared::ENDS,
        SIZE,
        REPLY_SIZE,
        Knob::new("rate", "PER_S", KnobKind::Rate { max_per_s: 10_000_000.0 })
            .help(
                "Messages per second, each timed from when it was due. Default: each is sent when the one before is \
                 answered",
            )
            .many()
            .print(shared::print_rate),
    ],
    shared::CIRCUMSTANCES,
    &[shared::SCHEDULING, shared::TIMER_SLACK, COUNT, shared::DURATION],
    budget::BLOCKS_UNTIL,
    &[WARM_UP, shared::BOUND, shared::TRACE],
    shared::RUN,
    shared::FAULTS,
];

pub(super) const SIZE: Knob = Knob::new("size", "BYTES", shared::SIZE)
    .help("Size of each message, 1 B to 1 GiB; HTTP servers at a URL get no body by default")
    .many()
    .or(&["4"])
    .print(|repeat| {
        // A request without a body is the default to a server that is not Hairpin's.
        let size = |case: &Case| Some(case.primary().load.size_bytes()).filter(|size| *size > 0);
        repeat.values("4", |case| Some(size(case)?.to_string()))
    });
pub(super) const REPLY_SIZE: Knob = Knob::new("reply-size", "BYTES", shared::SIZE)
    .help("Size of each answer [default: that of the message]")
    .many()
    .print(print_reply_size);
pub(super) const COUNT: Knob = Knob::new("count", "MESSAGES", KnobKind::Whole { min: 1, max: MAX_MESSAGES })
    .help("Messages measured in each round [default: 1250; over a link as many as fit 1s]");
pub(super) const WARM_UP: Knob = Knob::new("warmup", "EXTENT", KnobKind::ExtentOr(AUTO))
    .help("Warm-up of each round, messages or a time; auto: 40ms where CPUs may sleep, else 500 messages")
    .or(&[AUTO])
    .print(shared::print_warm_up);

fn print_reply_size(repeat: &Repeat) -> Vec<String> {
    let differs = |case: &Case| case.primary().load.reply_size_bytes() != case.primary().load.size_bytes();
    if !repeat.cases.iter().any(differs) {
        return Vec::new();
    }
    repeat.values("", |case| Some(case.primary().load.reply_size_bytes().to_string()))
}

/// Messages per round if neither a count nor a duration is given.
pub(super) const DEFAULT_COUNT: u64 = 1250;
/// Most measured messages and most of the warm-up with a foreign server. Together fewer than the 1000 requests after which
/// common servers close a connection.
const FOREIGN_COUNTS: [u64; 2] = [500, 50];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let rates: Vec<f64> = knobs.values("rate");
    let (extent, asked_warm_up) = (shared::extent(knobs, "count")?, knobs.value("warmup"));
    refuse_more_than_a_day(extent.unwrap_or(Extent::Count(DEFAULT_COUNT)), &rates)?;
    let candidates = selection::candidates(knobs, "transport", capabilities)?;
    let planned = |case: Case, card: &Card| {
        let travel_ns = links::travel_ns(&case, capabilities);
        let is_closed_loop = case.primary().load.rate_per_s().is_none();
        let [most, most_warm_up] = if case.is_foreign() { FOREIGN_COUNTS } else { [DEFAULT_COUNT, WARM_UP_MESSAGES] };
        let count = if is_closed_loop { links::count(most, travel_ns) } else { DEFAULT_COUNT };
        let warm_up = asked_warm_up.unwrap_or_else(|| match warm_up(&case, card, travel_ns) {
            Extent::Count(count) => Extent::Count(count.min(most_warm_up)),
            duration => duration,
        });
        sequence::template(case, [warm_up, extent.unwrap_or(Extent::Count(count))], knobs, capabilities)
    };
    Combinations::default()
        .with_sizes(knobs)
        .with_threads(knobs)
        .in_circumstances(knobs, capabilities, |_| true)?
        .each_on(vec![()], |case, (), card| {
            if card.min_message_bytes == 0 && !knobs.is_given("size") {
                let reply = knobs.is_given("reply-size").then(|| case.primary().load.reply_size_bytes());
                case.primary_mut().load.set_sizes(0, reply.unwrap_or(0));
            }
        })
        .each(rates, |case, rate_per_s| *case = case.at_rate(rate_per_s))
        .with_replicates(knobs)
        .plan(&candidates, capabilities, |card| Case::ping_pong(card.name), planned)
}

pub(super) fn warm_up(case: &Case, card: &Card, travel_ns: u64) -> Extent {
    let large = case.primary().load.size_bytes().max(case.primary().load.reply_size_bytes()) > LARGE_BYTES;
    let is_closed_loop = case.primary().load.rate_per_s().is_none();
    if case.crosses_a_network() && is_closed_loop {
        Extent::Count(links::warm_up_count(WARM_UP_MESSAGES, travel_ns))
    } else if case.crosses_a_network() {
        // The warm-up of an open loop ends no earlier than the first answer.
        Extent::DurationNs(WARM_UP_NS.max(travel_ns))
    } else if large || cpus_may_sleep(case, card) {
        Extent::DurationNs(WARM_UP_NS)
    } else {
        Extent::Count(WARM_UP_MESSAGES)
    }
}

fn refuse_more_than_a_day(extent: Extent, rates_per_s: &[f64]) -> Result<(), Refused> {
    let slowest = rates_per_s.iter().copied().fold(f64::INFINITY, f64::min);
    if let Extent::Count(count) = extent
        && count as f64 / slowest > 86_400.0
    {
        let what = format!("{count} messages at {slowest} per second take more than 24 h");
        return Err(Refused::new(what, "lower --count, raise --rate, or use --duration"));
    }
    Ok(())
}
