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
//! - evidence rounds, [`crate::evidence::rounds`], after all timed rounds.

use hairpin_model::options::OptionName;
use hairpin_model::quantities::{duration_argument, exact_duration};
use hairpin_model::{Card, Case, Exchange, Extent, HostCapabilities, Options, Refused, Remedy, Repeat, Writes};

use crate::budget;
use crate::exchange_time::{self, pauses_ns};
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind};
use crate::knobs::Knobs;
use crate::links;
use crate::possible;
use crate::quantity::{DAY_NS, MAX_MESSAGES, MAX_TIMEOUT_NS};
use crate::selection;
use crate::sequence::Planned;
use crate::shared::{self, AUTO, Circumstances, each};

pub const SMALL_WRITES: Experiment = Experiment {
    name: "small-writes",
    question: "What do small writes cost, and which remedy helps?",
    knobs: KNOBS,
    plan,
    repeats: |case| case.primary().load.exchange().is_some(),
    refine: None,
};

/// Default measured time of a round, in ns.
pub const DURATION_NS: u64 = 40_000_000;
/// The batch size that `--remedy all` includes.
pub const BATCH: Remedy = Remedy::Batch(10);
/// Remedies that a control runs by default: separate writes and one write.
pub const CONTROL_REMEDIES: &[Remedy] = &[Remedy::Default, Remedy::OneWrite];
const TRANSPORTS: &[&str] = &["tcp", "unix-stream", "pipe"];
/// Options that remedies set, so `--option` must not.
const OF_REMEDIES: &[OptionName] = &[OptionName::Nodelay, OptionName::Cork, OptionName::Quickack];

const KNOBS: &[Knob] = &[
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
    Knob::new("reply-writes", "SIZES", KnobKind::Writes).help("Writes of each answer, instead of --reply: 40,1000 is two. The remedies merge them as those of a request")
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
    shared::OPTION,
    shared::LINK,
    shared::SYSCTL,
    shared::CPU_IDLE,
    Knob::new("exchanges", "NUMBER", KnobKind::Whole { min: 1, max: MAX_MESSAGES }).help("Exchanges measured in each round, instead of --duration"),
    Knob::new("duration", "TIME", shared::LASTS).help("How long each round measures, at least one exchange [default: 40ms; over a link up to 1s]"),
    budget::ROUNDS,
    budget::OVER,
    budget::UNTIL,
    budget::AT_MOST,
    budget::QUICK,
    Knob::new("warmup", "EXTENT", KnobKind::ExtentOr(AUTO)).help("Warm-up of each round, exchanges or a time; auto: 1 to 200 exchanges, fewer where they stall")
    .or(&[AUTO])
    .print(shared::print_warm_up),
    shared::TRACE,
    shared::SEED,
    shared::TIMEOUT,
    shared::KEEP_SAMPLES,
    shared::KEEP_LINK_LOG,
    shared::ALLOW_UNMET_OPTIONS,
    shared::PORT,
    shared::REPLICATE,
    shared::INJECTED_FAULT,
    shared::FAULT_IN_REPLICATE,
];

fn print_exchange(repeat: &Repeat, usual: &str, of: fn(&Exchange) -> String) -> Vec<String> {
    repeat.values(usual, |case| case.primary().load.exchange().map(of))
}

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let asked = Params::read(knobs, capabilities)?;
    let mut candidates = selection::candidates(knobs, "transport", capabilities)?;
    if !knobs.is_given("transport") {
        candidates = selection::reaching(candidates, capabilities);
    }
    asked.circumstances.refuse_too_many(&[candidates.len(), asked.writes.len(), asked.remedies.len()])?;
    let (planned, skipped) = selection::possible_cases(&candidates, capabilities, |card| {
        let mut cases = asked.cases(&asked.writes, card, &asked.remedies_for(card, knobs));
        if possible::is_tcp(card) && !knobs.is_given("remedy") {
            cases.extend(asked.cases(&asked.in_two_writes(), card, &[Remedy::Default]));
        }
        cases.into_iter().map(|case| asked.planned(case, card, knobs, capabilities)).collect()
    })?;
    planned.iter().try_for_each(|planned| asked.refuse_a_long_gap(planned.timeout_ns))?;
    Ok((planned, skipped))
}

struct Params {
    circumstances: Circumstances,
    /// The writes of a request and of its answer.
    writes: Vec<(Writes, Option<Writes>)>,
    gap_ns: u64,
    pipeline: u64,
    reply_size_bytes: u64,
    remedies: Vec<Remedy>,
    extent: Option<Extent>,
    warm_up: Option<Extent>,
}

impl Params {
    fn read(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Self, Refused> {
        let circumstances = Circumstances::read(knobs, capabilities, |name| !OF_REMEDIES.contains(&name))?;
        refuse_options_of_remedies(&circumstances)?;
        let every_remedy: Vec<Remedy> = Remedy::PLAIN.iter().copied().chain([BATCH]).collect();
        let reply_writes: Option<Writes> = knobs.value("reply-writes");
        if reply_writes.is_some() && knobs.is_given("reply") {
            return Err(Refused::new("--reply and --reply-writes both give the size of an answer", "omit --reply"));
        }
        let reply_size_bytes = reply_writes.as_ref().map(Writes::total_bytes);
        let writes: Vec<Writes> = knobs.choices("writes", &[]);
        let asked = Self {
            circumstances,
            writes: writes.into_iter().map(|writes| (writes, reply_writes.clone())).collect(),
            gap_ns: knobs.value("gap").unwrap_or(0),
            pipeline: knobs.value("pipeline").unwrap_or(1),
            reply_size_bytes: reply_size_bytes.or(knobs.value("reply")).unwrap_or(4),
            remedies: knobs.choices("remedy", &every_remedy),
            extent: shared::extent(knobs, "exchanges")?,
            warm_up: knobs.value("warmup"),
        };
        asked.refuse_endless_gaps()?;
        Ok(asked)
    }

    /// Returns the remedies to run on a transport. TCP runs all of `self.remedies`.
    fn remedies_for(&self, card: &Card, knobs: &Knobs) -> Vec<Remedy> {
        let mut remedies = self.remedies.clone();
        if !possible::is_tcp(card) {
            if !knobs.is_given("remedy") {
                return CONTROL_REMEDIES.to_vec();
            }
            remedies.retain(|remedy| knobs.is_given("transport") || !remedy.needs_tcp());
        }
        remedies
    }

    /// If requests and answers are one write each: the first request in two writes, and its answer in two writes.
    fn in_two_writes(&self) -> Vec<(Writes, Option<Writes>)> {
        let is_one_write = |(writes, reply): &(Writes, Option<Writes>)| writes.sizes().len() == 1 && reply.is_none();
        let first = self.writes.first().filter(|_| self.writes.iter().all(is_one_write));
        let Some((writes, _)) = first else { return Vec::new() };
        let request = writes.halves().map(|halves| (halves, None));
        let answer = Writes::one(self.reply_size_bytes).halves().map(|halves| (writes.clone(), Some(halves)));
        request.into_iter().chain(answer).collect()
    }

    /// Every combination on one transport, including impossible ones.
    fn cases(&self, writes: &[(Writes, Option<Writes>)], card: &Card, remedies: &[Remedy]) -> Vec<Case> {
        let exchange = |(writes, reply_writes): &(Writes, Option<Writes>)| Exchange {
            writes: writes.clone(),
            gap_ns: self.gap_ns,
            pipeline: self.pipeline,
            reply_writes: reply_writes.clone(),
            remedy: Remedy::Default,
        };
        let of = |writes| {
            Case::small_writes(card.name, exchange(writes))
                .with(|case| case.primary_mut().load.set_sizes(0, self.reply_size_bytes))
        };
        let mut cases: Vec<Case> = writes.iter().map(of).collect();
        cases = self.circumstances.at_their_places(&cases, card);
        cases = each(&cases, remedies, |case, remedy| {
            if let Some(exchange) = case.primary_mut().load.exchange_mut() {
                exchange.remedy = remedy;
            }
        });
        self.circumstances.with_replicates(&cases)
    }

    fn planned(&self, case: Case, card: &Card, knobs: &Knobs, capabilities: &HostCapabilities) -> Planned {
        let travel_ns = links::travel_ns(&case, capabilities);
        let auto =
            case.primary().load.exchange().map(|exchange| exchange_time::warm_up(&case, exchange, card, travel_ns));
        let extent = self.extent.unwrap_or(Extent::DurationNs(links::duration_ns(DURATION_NS, travel_ns)));
        let warm_up = self.warm_up.or(auto).unwrap_or(Extent::Count(0));
        Planned::of(case, warm_up, extent, knobs, capabilities)
    }

    /// Refuses pauses that are not shorter than the server's time-out.
    fn refuse_a_long_gap(&self, timeout_ns: u64) -> Result<(), Refused> {
        if self.gap_ns >= timeout_ns {
            let what = format!(
                "a gap of {} is not shorter than the time-out of {}, so the server would give up",
                exact_duration(self.gap_ns),
                exact_duration(timeout_ns)
            );
            return Err(Refused::new(what, "raise --timeout, or lower --gap"));
        }
        Ok(())
    }

    /// Refuses rounds with more than a day of pauses.
    fn refuse_endless_gaps(&self) -> Result<(), Refused> {
        let count = |extent: Option<Extent>| match extent {
            Some(Extent::Count(count)) => count,
            Some(Extent::DurationNs(_)) | None => 0,
        };
        let exchanges = count(self.warm_up).saturating_add(count(self.extent)).max(self.pipeline);
        for (writes, _) in &self.writes {
            let (gap_ns, pipeline, remedy) = (self.gap_ns, self.pipeline, Remedy::Default);
            let one_ns =
                pauses_ns(&Exchange { writes: writes.clone(), gap_ns, pipeline, reply_writes: None, remedy });
            if one_ns.saturating_mul(exchanges) > DAY_NS {
                let pauses = (writes.sizes().len() as u64 - 1).saturating_mul(exchanges);
                let what = format!("{pauses} pauses of {} in one round take more than 24 h", exact_duration(gap_ns));
                return Err(Refused::new(what, "lower --gap, or use fewer --writes, --exchanges or --pipeline"));
            }
        }
        Ok(())
    }
}

fn refuse_options_of_remedies(circumstances: &Circumstances) -> Result<(), Refused> {
    let Some((name, value)) =
        circumstances.option_sets.iter().flat_map(Options::iter).find(|(name, _)| OF_REMEDIES.contains(name))
    else {
        return Ok(());
    };
    Err(Refused::new(
        format!("--option {name}={value} conflicts with the remedies, which set `{name}` themselves"),
        "compare remedies with --remedy, for instance --remedy default,nodelay",
    ))
}
