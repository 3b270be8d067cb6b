//! `small-writes`: what do small writes cost, and which remedy helps?
//!
//! An exchange is a request, written in several calls, and its answer. Each remedy over each transport is a case. TCP
//! is the transport where small writes stall; byte streams without Nagle's algorithm are controls. A control runs
//! only [`CONTROL_REMEDIES`], unless `--remedy` requests others. A control skips requested TCP-only remedies, with a
//! reason if `--transport` names the control, otherwise silently.
//!
//! If the program's writes are unknown, as with `--writes 37 --reply 1040`, a request or an answer may leave in two
//! writes. TCP then also runs the request in two writes, and the answer in two writes, with default options.
//!
//! Defaults and why:
//! - both placements: on one CPU and on two CPUs.
//! - [`DURATION_NS`] per round, with at least one exchange: one remedy takes 208 ms per exchange and another 0.05 ms,
//!   so no fixed number of exchanges suits both.
//! - warm-up by [`exchange_time::warm_up`]: three exchanges if they stall; one with a forgotten cork, where the first
//!   exchange is as slow as the others; otherwise the exchanges that fit 10 ms.
//! - over a link, a round lasts longer, up to 1 s, see [`links`].
//! - evidence rounds, see [`crate::evidence`], after all timed rounds.

use hairpin_model::options::OptionName;
use hairpin_model::quantities::{duration_argument, exact_duration};
use hairpin_model::{Card, Case, Exchange, Extent, HostCapabilities, Load, Options, Refused, Remedy, Repeat, Writes};

use crate::budget;
use crate::combinations::Combinations;
use crate::exchange_time::{self, pauses_ns};
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::links;
use crate::possible;
use crate::quantity::{DAY_NS, MAX_MESSAGES, MAX_TIMEOUT_NS};
use crate::selection;
use crate::sequence;
use crate::shared;

pub const SMALL_WRITES: Experiment = Experiment {
    name: "small-writes",
    question: "What do small writes cost, and which remedy helps?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| case.primary().load.exchange().is_some(),
    refine: None,
    search: None,
};

/// Default measured time of a round, in ns.
pub const DURATION_NS: u64 = 40_000_000;
pub const BATCH: Remedy = Remedy::Batch(10);
/// Remedies that a control runs by default: separate writes and one write.
pub const CONTROL_REMEDIES: &[Remedy] = &[Remedy::Default, Remedy::OneWrite];
const TRANSPORTS: &[&str] = &["tcp", "unix-stream", "pipe"];
const OF_REMEDIES: &[OptionName] = &[OptionName::Nodelay, OptionName::Cork, OptionName::Quickack];

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT.help("Byte streams, or all; without --remedy, those without Nagle's algorithm run only default and one-write")
        .or(TRANSPORTS),
        Knob::new("writes", "SIZES", KnobKind::Writes).help("Writes of a request: 100x2 is a hundred of 2 bytes, 4,3210 is two. Repeat it to compare requests")
        .repeat()
        .or(&["100x2"])
        .print(|repeat| print_exchange(repeat, "", |exchange| exchange.writes.to_string())),
        Knob::new("remedy", "NAME", KnobKind::Remedy).help("Any: default, nodelay, cork, cork-forgotten, more, one-write, writev, quickack, batch=N (batch=10 merges ten)")
        .many()
        .or(&["all"])
        .print(|repeat| print_exchange(repeat, "", |exchange| exchange.remedy.to_string())),
        Knob::new("gap", "TIME", KnobKind::Duration { min_ns: 0, max_ns: MAX_TIMEOUT_NS }).help("Pause between two writes; one-write and writev make one call, so they never pause")
        .or(&["0ms"])
        .print(|repeat| print_exchange(repeat, "0ns", |exchange| duration_argument(exchange.gap_ns))),
        Knob::new("reply", "BYTES", shared::SIZE)
            .help("Size of each answer, 1 B to 1 GiB")
            .or(&["4"])
            .print(|repeat| {
                repeat.values("4", |case| {
                    let load = &case.primary().load;
                    let is_one_write = load.exchange()?.reply_writes.is_none();
                    Some(if is_one_write { load.reply_size_bytes().to_string() } else { "4".to_owned() })
                })
            }),
        Knob::new("reply-writes", "SIZES", KnobKind::Writes)
            .help("Writes of each answer, instead of --reply: 40,1000 is two. The remedies merge them as those of a request")
            .print(|repeat| {
                let writes = |exchange: &Exchange| exchange.reply_writes.as_ref().map(ToString::to_string);
                repeat.values("", |case| Some(case.primary().load.exchange().and_then(writes).unwrap_or_default()))
            }),
        Knob::new("pipeline", "REQUESTS", KnobKind::Whole { min: 1, max: 1024 }).help("Requests written before the first answer is read")
        .or(&["1"])
        .print(|repeat| print_exchange(repeat, "1", |exchange| exchange.pipeline.to_string())),
        shared::WAITING,
        shared::PLACEMENT,
        shared::ENDS,
    ],
    shared::CIRCUMSTANCES,
    &[
        Knob::new("exchanges", "NUMBER", KnobKind::Whole { min: 1, max: MAX_MESSAGES })
            .help("Exchanges measured in each round, instead of --duration"),
        shared::DURATION.help("How long each round measures, at least one exchange [default: 40ms; over a link up to 1s]"),
    ],
    budget::BLOCKS_UNTIL,
    &[
        super::round_trip::WARM_UP
            .help("Warm-up of each round, exchanges or a time; auto: 1 to 200 exchanges, fewer where they stall"),
        shared::TRACE,
    ],
    shared::RUN,
    shared::FAULTS,
];

fn print_exchange(repeat: &Repeat, usual: &str, of: fn(&Exchange) -> String) -> Vec<String> {
    repeat.values(usual, |case| case.primary().load.exchange().map(of))
}

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    refuse_options_of_remedies(&knobs.values("option"))?;
    let every_remedy: Vec<Remedy> = Remedy::PLAIN.iter().copied().chain([BATCH]).collect();
    let (mut writes, remedies) = (writes(knobs)?, knobs.choices("remedy", &every_remedy));
    let in_two = if knobs.is_given("remedy") { Vec::new() } else { in_two_writes(&writes) };
    writes.extend(in_two.iter().cloned());
    let (gap_ns, pipeline) = (knobs.value("gap").unwrap_or(0), knobs.value("pipeline").unwrap_or(1));
    let exchange = move |(writes, reply): &Parts| {
        let reply_writes = Some(reply.clone()).filter(|reply| reply.sizes().len() > 1);
        Exchange { writes: writes.clone(), gap_ns, pipeline, reply_writes, remedy: Remedy::Default }
    };
    let (extent, asked_warm_up) = (shared::extent(knobs, "exchanges")?, knobs.value("warmup"));
    let count = [asked_warm_up, extent].map(|extent| match extent {
        Some(Extent::Count(count)) => count,
        Some(Extent::DurationNs(_)) | None => 0,
    });
    let exchanges = count[0].saturating_add(count[1]).max(pipeline);
    writes.iter().try_for_each(|parts| refuse_endless_gaps(&exchange(parts), exchanges))?;
    let candidates = selection::candidates_if(knobs, "transport", capabilities, |_| true)?;
    let planned = |case: Case, card: &Card| {
        let travel_ns = links::travel_ns(&case, capabilities);
        let extent = extent.unwrap_or(Extent::DurationNs(links::duration_ns(DURATION_NS, travel_ns)));
        let of_case = |exchange| exchange_time::warm_up(&case, exchange, card, travel_ns);
        let auto = case.primary().load.exchange().map(of_case);
        let warm_up = asked_warm_up.or(auto).unwrap_or(Extent::Count(0));
        sequence::template(case, [warm_up, extent], knobs, capabilities)
    };
    let (planned, skipped) = Combinations::default()
        .each(writes, move |case, parts| {
            let reply_size_bytes = parts.1.total_bytes();
            case.primary_mut().load = Load::Exchange { exchange: exchange(&parts), reply_size_bytes };
        })
        .in_circumstances(knobs, capabilities, |name| !OF_REMEDIES.contains(&name))?
        .vary(remedies.len(), |case, card| {
            let is_in_two = in_two.iter().any(|parts| case.primary().load.exchange() == Some(&exchange(parts)));
            match (is_in_two, possible::is_tcp(card)) {
                (true, true) => vec![case.clone()],
                (true, false) => Vec::new(),
                _ => with_remedies(case, remedies_for(card, &remedies, knobs)),
            }
        })
        .with_replicates(knobs)
        .plan(&candidates, capabilities, |card| Case::ping_pong(card.name), planned)?;
    planned.iter().try_for_each(|order| refuse_a_long_gap(gap_ns, order.timeout_ns))?;
    Ok((planned, skipped))
}

/// The writes of a request and of its answer.
type Parts = (Writes, Writes);

fn writes(knobs: &Knobs) -> Result<Vec<Parts>, Refused> {
    let reply: Option<Writes> = knobs.value("reply-writes");
    if reply.is_some() && knobs.is_given("reply") {
        return Err(Refused::new("--reply and --reply-writes both give the size of an answer", "omit --reply"));
    }
    let reply = reply.unwrap_or_else(|| Writes::one(knobs.value("reply").unwrap_or(4)));
    let writes: Vec<Writes> = knobs.choices("writes", &[]);
    Ok(writes.into_iter().map(|writes| (writes, reply.clone())).collect())
}

/// If requests and answers are one write each: the first request in two writes, and its answer in two writes.
fn in_two_writes(writes: &[Parts]) -> Vec<Parts> {
    let is_one_write = |(writes, reply): &Parts| writes.sizes().len() == 1 && reply.sizes().len() == 1;
    let Some((request, reply)) = writes.first().filter(|_| writes.iter().all(is_one_write)) else {
        return Vec::new();
    };
    let in_two = [(request.halves(), Some(reply.clone())), (Some(request.clone()), reply.halves())];
    in_two.into_iter().filter_map(|(request, reply)| request.zip(reply)).collect()
}

/// Returns the remedies to run on a transport. TCP runs all of `remedies`.
fn remedies_for(card: &Card, remedies: &[Remedy], knobs: &Knobs) -> Vec<Remedy> {
    if possible::is_tcp(card) {
        remedies.to_vec()
    } else if knobs.is_given("remedy") {
        let is_run = |remedy: &Remedy| knobs.is_given("transport") || !remedy.needs_tcp();
        remedies.iter().copied().filter(is_run).collect()
    } else {
        CONTROL_REMEDIES.to_vec()
    }
}

fn with_remedies(case: &Case, remedies: Vec<Remedy>) -> Vec<Case> {
    let with = |remedy| {
        let mut case = case.clone();
        if let Some(exchange) = case.primary_mut().load.exchange_mut() {
            exchange.remedy = remedy;
        }
        case
    };
    remedies.into_iter().map(with).collect()
}

/// Refuses pauses that are not shorter than the server's time-out.
fn refuse_a_long_gap(gap_ns: u64, timeout_ns: u64) -> Result<(), Refused> {
    if gap_ns >= timeout_ns {
        let what = format!(
            "a gap of {} is not shorter than the time-out of {}, so the server would give up",
            exact_duration(gap_ns),
            exact_duration(timeout_ns)
        );
        return Err(Refused::new(what, "raise --timeout, or lower --gap"));
    }
    Ok(())
}

/// Refuses rounds of these exchanges with more than a day of pauses.
fn refuse_endless_gaps(exchange: &Exchange, exchanges: u64) -> Result<(), Refused> {
    if pauses_ns(exchange).saturating_mul(exchanges) > DAY_NS {
        let pauses = (exchange.writes.sizes().len() as u64 - 1).saturating_mul(exchanges);
        let gap = exact_duration(exchange.gap_ns);
        let what = format!("{pauses} pauses of {gap} in one round take more than 24 h");
        return Err(Refused::new(what, "lower --gap, or use fewer --writes, --exchanges or --pipeline"));
    }
    Ok(())
}

fn refuse_options_of_remedies(sets: &[Options]) -> Result<(), Refused> {
    match sets.iter().flat_map(Options::iter).find(|(name, _)| OF_REMEDIES.contains(name)) {
        Some((name, value)) => Err(Refused::new(
            format!("--option {name}={value} conflicts with the remedies, which set `{name}` themselves"),
            "compare remedies with --remedy, for instance --remedy default,nodelay",
        )),
        None => Ok(()),
    }
}
