//! `which`: which transport suits messages of this size at this rate, and with which options?
//!
//! Measures the transports that are reliable (unless `--may-lose`), work between these ends, and carry the size:
//! blocking and busy-polling, also with `nodelay` if it is an option of the transport, or with larger buffers if the
//! messages need them. One-way messages are offered at the rate; with `--reply` each has an answer.
//!
//! Defaults and why:
//! - two CPUs, as for most programs. Over an emulated link one CPU, because waking another CPU takes little time
//!   compared with the link. Over a link or between two hosts only blocking ends.
//! - rounds of 200 ms (20 round trips over a link), longer if 1000 messages take longer; at most [`links::LASTS_NS`] or
//!   one round trip, and shorter if `TARGET_NS` requires it.
//! - needs that contradict each other or the link are refused before anything is measured.

use hairpin_model::flow::{Direction, Pacing};
use hairpin_model::options::OptionName;
use hairpin_model::quantities::{bit_rate, byte_rate, exact_bytes, exact_duration, message_rate};
use hairpin_model::{
    AnsweredBy, Arrivals, Card, Case, Extent, Flow, HostCapabilities, KnownLink, Load, Needs, Options, Reach,
    Refused, RoundOrder, Skipped, Waiting,
};

use crate::budget::{self, INTERVAL_BLOCKS, MIN_BLOCKS};
use crate::combinations::Combinations;
use crate::estimate;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind};
use crate::knobs::Knobs;
use crate::links;
use crate::one_way;
use crate::possible;
use crate::quantity::SECOND_NS;
use crate::selection;
use crate::sequence;
use crate::shared;

pub const WHICH: Experiment = Experiment {
    name: "which",
    question: "Which transport suits messages of this size at this rate, and with which options?",
    knobs: KNOBS,
    plan,
    // `offered-load` and `round-trip` repeat the cases.
    repeats: |_| false,
    refine: None,
    search: None,
};

const KNOBS: &[Knob] = &[
    Knob::new("size", "BYTES", shared::SIZE).help("Size of each message").or(&["200B"]),
    Knob::new("rate", "MESSAGES", KnobKind::Rate { max_per_s: 1e12 })
        .help("Messages per second, due at fixed intervals")
        .or(&["5000"]),
    Knob::switch("reply", "Each message has an answer of the same size; the latency is the round trip's"),
    Knob::switch("may-lose", "Messages may be lost: also consider transports that lose some"),
    Knob::new("p99", "TIME", shared::LASTS).help("Maximum p99 of the latency, from when a message was due"),
    shared::TRANSPORT.help("Transports to choose from, separated by commas [default: all that can run here]"),
    shared::WAITING
        .help("How both ends may wait: block, poll, spin, or all [default: block,spin; block over a network]")
        .or(&["block", "spin"]),
    shared::PLACEMENT
        .help("Where both ends run: same-cpu, cross-cpu, unpinned, or all; over a link the default is same-cpu")
        .or(&["cross-cpu"]),
    shared::ENDS,
    Knob { repeat: false, ..shared::LINK }.help("Path between ends: a profile (home-uplink) or words ('delay=20ms')"),
    one_way::DURATION,
    one_way::WARM_UP,
    budget::ROUNDS,
    budget::OVER.or(&["30s"]),
    budget::QUICK,
    shared::SEED,
    one_way::TIMEOUT,
    one_way::KEEP_SAMPLES,
    // A case whose buffers the kernel limits is reported as such.
    Knob::new("allow-unmet-options", "ON_OFF", KnobKind::OnOff)
        .help("Continue if the kernel sets a socket option to another value than requested")
        .or(&["on"])
        .hidden(),
    shared::PORT,
];

/// Time for all rounds, in ns.
const TARGET_NS: u64 = 40 * SECOND_NS;
const QUICK_TARGET_NS: u64 = 7 * SECOND_NS;
/// Measured time of a round, in ns: at least this, and at most [`links::LASTS_NS`].
const MIN_ROUND_NS: u64 = 50_000_000;
/// Measured time of a round without a link, in ns, unless [`MESSAGES`] take longer.
const ROUND_NS: u64 = 200_000_000;
/// Messages that a round needs for its p99.
const MESSAGES: f64 = 1000.0;

/// Upper bound of any transport's rate, in bytes per second: more than a CPU can copy.
const MAX_BYTES_PER_S: f64 = 100e9;
/// Upper bounds of messages per second: without answers, with answers.
const MAX_PER_S: [f64; 2] = [1e8, 1e7];

/// Default buffer of a socket, in bytes (`net.core.rmem_default`).
const BUFFER_BYTES: u64 = 212_992;
/// The kernel's overhead of a message in a buffer, in bytes (`struct sk_buff` and its alignment).
const MESSAGE_OVERHEAD_BYTES: u64 = 768;
/// Assumed longest pause of a receiver, in ns. Its buffer should hold the messages that arrive in this time.
const PAUSE_NS: u64 = 10_000_000;

/// The needs that the knobs state; `None` for another experiment.
pub fn needs(experiment: &Experiment, knobs: &Knobs, capabilities: &HostCapabilities) -> Option<Needs> {
    let asked = || {
        let link = links::asked(knobs, capabilities).ok().and_then(|links| links.into_iter().next());
        Needs {
            size_bytes: knobs.value("size").unwrap_or_default(),
            rate_per_s: knobs.value("rate").unwrap_or_default(),
            reply: knobs.is_on("reply"),
            may_lose: knobs.is_on("may-lose"),
            p99_ns: knobs.value("p99"),
            mtu_bytes: link.filter(|link| link.line != hairpin_model::case::LOOPBACK).map(|link| link.mtu_bytes),
        }
    };
    (experiment.name == WHICH.name).then(asked)
}

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let needs = needs(&WHICH, knobs, capabilities).expect("these are its knobs");
    let [link] = <[KnownLink; 1]>::try_from(links::asked(knobs, capabilities)?)
        .map_err(|_| Refused::new("the answer is about one path", "give one --link"))?;
    refuse_contradictions(&needs, &link)?;
    let mut candidates = selection::candidates(knobs, "transport", capabilities)?;
    let mut lossy = Vec::new();
    if !knobs.is_given("transport") {
        candidates.retain(|candidate| could_matter(&candidate.card, knobs, capabilities));
    }
    if !needs.may_lose {
        (candidates, lossy) = candidates.into_iter().partition(|candidate| candidate.card.reliable);
        if candidates.is_empty() {
            return Err(Refused::new("these transports may lose messages", "add --may-lose, or omit --transport"));
        }
    }
    let waits =
        |case: &Case| knobs.is_given("waiting") || !case.crosses_a_network() || case.ends.waiting != Waiting::Spin;
    let second = Extent::DurationNs(SECOND_NS);
    let (mut planned, mut skipped) = Combinations::default()
        .vary(2, |case, card| with_options(case, card, &needs, &link))
        .in_circumstances(knobs, capabilities, |_| false)?
        .vary(1, |case, _| waits(case).then(|| case.clone()).into_iter().collect())
        .plan(
            &candidates,
            capabilities,
            |card| case(card, &needs),
            |case, _| sequence::template(case, [second; 2], knobs, capabilities),
        )?;
    set_lengths(&mut planned, &needs, knobs, capabilities);
    let why = "it may lose messages (hint: use --may-lose if you can lose some)";
    skipped.extend(lossy.iter().filter(|candidate| candidate.can_run.is_ok()).map(|candidate| Skipped {
        transport: candidate.card.name.to_owned(),
        case: None,
        reason: why.to_owned(),
    }));
    Ok((planned, skipped))
}

/// Whether a transport is a candidate if `--transport` is omitted: it is in the survey, the server answers (not the
/// kernel), it works between processes or `--ends` is given, and a network transport has the path's IP version.
fn could_matter(card: &Card, knobs: &Knobs, capabilities: &HostCapabilities) -> bool {
    let is_ipv6 = capabilities.far.as_ref().is_some_and(|far| far.is_ipv6);
    card.answered_by == AnsweredBy::Server
        && card.in_survey
        && (card.reach != Reach::Process || knobs.is_given("ends"))
        && (card.reach != Reach::Network || possible::is_ipv6(card) == is_ipv6)
}

fn refuse_contradictions(needs: &Needs, link: &KnownLink) -> Result<(), Refused> {
    let Needs { size_bytes, rate_per_s, reply, .. } = *needs;
    let bytes_per_s = size_bytes as f64 * rate_per_s;
    let load = format!("{} at {}", exact_bytes(size_bytes), message_rate(rate_per_s));
    let ways = [("up", true), ("down", reply)].into_iter().zip(link.bits_per_s);
    for ((way, is_used), limit) in ways {
        if let Some(limit) = limit.filter(|limit| is_used && bytes_per_s * 8.0 > *limit as f64) {
            let [needed, carried] = [bytes_per_s * 8.0, limit as f64].map(bit_rate);
            let hint = "lower --rate or --size, or use a faster --link";
            return Err(Refused::new(format!("{load} are {needed}, and the link carries {carried} {way}"), hint));
        }
    }
    let max_per_s = MAX_PER_S[usize::from(reply)];
    if bytes_per_s > MAX_BYTES_PER_S || rate_per_s > max_per_s {
        let [needed, bytes] = [bytes_per_s, MAX_BYTES_PER_S].map(byte_rate);
        let most = format!("no transport carries more than {} or {bytes}", message_rate(max_per_s));
        return Err(Refused::new(format!("{load} are {needed}: {most}"), "lower --rate or --size"));
    }
    match needs.p99_ns {
        Some(p99_ns) if reply && p99_ns < link.round_trip_ns => {
            let [bound, takes] = [p99_ns, link.round_trip_ns].map(exact_duration);
            let what = format!("a round trip over this link takes {takes}, more than --p99 {bound}");
            Err(Refused::new(what, format!("use --p99 {takes} or more, or another --link")))
        }
        _ => Ok(()),
    }
}

/// Returns the case with default options.
fn case(card: &Card, needs: &Needs) -> Case {
    let Needs { size_bytes, rate_per_s, reply, .. } = *needs;
    if reply {
        let mut case = Case::ping_pong(card.name);
        case.primary_mut().load.set_sizes(size_bytes, size_bytes);
        return case.at_rate(rate_per_s);
    }
    let (arrivals, pacing) = (Arrivals::Fixed, Pacing::SleepSpin);
    let load = Load::Offered { offered_per_s: rate_per_s, size_bytes, arrivals, pacing };
    Case::of(Flow::one_way(card.name, load, Direction::Up))
}

/// Returns the case with the sets of options worth trying: the defaults, and one more. For TCP, which sizes its buffers
/// itself, that is without Nagle's algorithm; else with buffers for the messages of a round trip and a pause.
fn with_options(case: &Case, card: &Card, needs: &Needs, link: &KnownLink) -> Vec<Case> {
    let held = needs.rate_per_s * (link.round_trip_ns + PAUSE_NS) as f64 / SECOND_NS as f64;
    let bytes = held * (needs.size_bytes + MESSAGE_OVERHEAD_BYTES) as f64;
    let buffers = [OptionName::Sndbuf, OptionName::Rcvbuf];
    let set = Options::default();
    let other = if possible::is_tcp(card) {
        Some(set.with(OptionName::Nodelay, "on"))
    } else if bytes > BUFFER_BYTES as f64 && buffers.iter().all(|name| card.options.contains(name)) {
        let bytes = format!("{:.0}", bytes.min(f64::from(i32::MAX / 2)));
        Some(buffers.into_iter().fold(set, |set, name| set.with(name, &bytes)))
    } else {
        None
    };
    let with = |options| case.clone().with(|case| case.primary_mut().options = options);
    std::iter::once(case.clone()).chain(other.map(with)).collect()
}

/// Sets the lengths of the rounds so that all fit the time.
fn set_lengths(planned: &mut [RoundOrder], needs: &Needs, knobs: &Knobs, capabilities: &HostCapabilities) {
    let (target_ns, blocks) =
        if knobs.is_on("quick") { (QUICK_TARGET_NS, INTERVAL_BLOCKS) } else { (TARGET_NS, MIN_BLOCKS) };
    let fixed_ns = |order: &RoundOrder| estimate::round_ns(&order.case, [Extent::Count(0); 2], capabilities);
    let starts_ns: u64 = planned.iter().map(fixed_ns).fold(0, u64::saturating_add);
    let left_ns = (target_ns / blocks).saturating_sub(starts_ns) / planned.len().max(1) as u64;
    for order in planned {
        let travel_ns = links::travel_ns(&order.case, capabilities);
        let wanted_ns = links::duration_ns(ROUND_NS, travel_ns).max((MESSAGES / needs.rate_per_s * 1e9) as u64);
        // A third of a round is its warm-up.
        let longest_ns = (left_ns / 3 * 2).max(MIN_ROUND_NS).max(travel_ns);
        let measured_ns = wanted_ns.min(longest_ns).min(links::LASTS_NS.max(travel_ns));
        let extent = Extent::DurationNs(knobs.value("duration").unwrap_or(measured_ns));
        let warm_up = knobs.value("warmup").unwrap_or(Extent::DurationNs((measured_ns / 2).max(travel_ns)));
        *order = sequence::template(order.case.clone(), [warm_up, extent], knobs, capabilities);
    }
}
