//! `round-trip`: how long does a message take there and back?
//!
//! Every combination of the knobs' values is a case; combinations that are impossible are skipped with the reason.
//! A closed loop sends the next message when the answer to the last has arrived. With `--rate` messages are due at
//! fixed times, whatever has come back, and each is timed from when it was due.
//!
//! Defaults and why:
//! - placement `together`: both ends on one CPU. It is the steadiest: no CPU falls asleep between the two halves of
//!   a round trip, so the figure is that of the transport and not that of waking a CPU.
//! - 2000 messages a round and 10 rounds: 20 000 samples a case, enough for p99.9 (10 000) with a margin.
//! - warm-up `auto`: where a CPU may fall asleep between messages, the first 40 ms of a connection read differently
//!   from the rest, so 40 ms; elsewhere [`WARM_UP_MESSAGES`] messages, since 40 ms of a fast transport would be more
//!   messages than are kept.

use hairpin_model::card::{AnsweredBy, Card};
use hairpin_model::case::{Case, CpuIdle, Ends, LOOPBACK, Pattern, Placement, Plant, Waiting};
use hairpin_model::ground::Ground;
use hairpin_model::options::{OptionName, Options};
use hairpin_model::round::{Extent, RoundRecord};

use crate::experiment::{Experiment, Step};
use crate::knob::{EVERY, Knob, KnobKind, NO_OPTIONS, PLANT, PLANT_TWIN, SEED};
use crate::knobs::Knobs;
use crate::possible;
use crate::quantity::{DAY_NS, MOST_MESSAGES, SECOND_NS};
use crate::refused::Refused;
use crate::selection::{self, Sieve};
use crate::sequence::{self, Common, MOST_ROUNDS, Planned};

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip;

/// Warm-up, in messages, where no CPU falls asleep between messages.
pub const WARM_UP_MESSAGES: u64 = 500;
/// Warm-up, in nanoseconds, where a CPU may fall asleep between messages.
pub const WARM_UP_NS: u64 = 40_000_000;

/// From this size on a message takes so long that the warm-up is a time too: 500 of them could take minutes.
const LARGE_BYTES: u64 = 64 << 10;

const AUTO: &str = "auto";
const GIB: u64 = 1 << 30;
const SIZE: KnobKind = KnobKind::Bytes { min: 1, max: GIB };
const WAITINGS: &[&str] = &["block", "poll", "spin"];
const PLACEMENTS: &[&str] = &["together", "apart", "free"];
const ENDS: &[&str] = &["processes", "threads"];
const CPU_IDLES: &[&str] = &["deep", "shallow"];

const KNOBS: &[Knob] = &[
    Knob::new("transport", "NAME", KnobKind::Transport, "Transports, or all; without it all that can run here")
        .many(),
    Knob::new("waiting", "HOW", KnobKind::Words(WAITINGS), "How both ends wait: block, poll, spin, or all")
        .many()
        .or(&["block"]),
    Knob::new(
        "placement",
        "WHERE",
        KnobKind::Words(PLACEMENTS),
        "Where they run: together (one CPU), apart, free, or all",
    )
    .many()
    .or(&["together"]),
    Knob::new("ends", "WHAT", KnobKind::Words(ENDS), "What they are: processes, threads, or all")
        .many()
        .or(&["processes"]),
    Knob::new("size", "BYTES", SIZE, "Size of each message, 1 B to 1 GiB").many().or(&["4"]),
    Knob::new("reply-size", "BYTES", SIZE, "Size of each answer; without it that of the message").many(),
    Knob::new(
        "rate",
        "PER_S",
        KnobKind::Rate { max_per_s: 10_000_000.0 },
        "Messages a second, each timed from when it was due; without it the next leaves when the last is answered",
    )
    .many(),
    Knob::new(
        "option",
        "SET",
        KnobKind::OptionSet,
        "Socket options, for instance nodelay=on,sndbuf=4096; repeat it to compare sets; none, or all one by one",
    )
    .repeat(),
    Knob::new("link", "NAME", KnobKind::Link, "The path between the ends; this version has the loopback only")
        .many()
        .or(&[LOOPBACK]),
    Knob::new("cpu-idle", "DEPTH", KnobKind::Words(CPU_IDLES), "How deep idle CPUs may sleep: deep, shallow, or all")
        .many()
        .or(&["deep"]),
    Knob::new(
        "count",
        "MESSAGES",
        KnobKind::Whole { min: 1, max: MOST_MESSAGES },
        "Messages measured in each round, 2000 unless --duration is given",
    ),
    Knob::new(
        "duration",
        "TIME",
        KnobKind::Duration { max_ns: DAY_NS },
        "How long each round measures, instead of --count",
    ),
    Knob::new(
        "rounds",
        "NUMBER",
        KnobKind::Whole { min: 1, max: 10_000 },
        "Rounds of each case, with fresh ends each",
    )
    .or(&["10"]),
    Knob::new(
        "warmup",
        "EXTENT",
        KnobKind::ExtentOr(AUTO),
        "Unmeasured start of each round, messages or a time; auto is 40ms where CPUs may sleep, else 500 messages",
    )
    .or(&[AUTO]),
    SEED,
    Knob::new("timeout", "TIME", KnobKind::Duration { max_ns: 3600 * SECOND_NS }, "How long an answer may take")
        .or(&["2s"]),
    Knob::new(
        "keep-samples",
        "NUMBER",
        KnobKind::Whole { min: 0, max: 10_000_000 },
        "Raw samples kept of each round, at most; a histogram holds all",
    )
    .or(&["100000"]),
    Knob::switch("allow-unmet-options", "Go on although an option was not granted as asked"),
    Knob::new(
        "port",
        "NUMBER",
        KnobKind::Whole { min: 0, max: 65_535 },
        "Port to listen on; 0 lets the kernel choose",
    )
    .or(&["0"]),
    Knob::switch("twin", "Measure each case twice, as an A/A pair").hidden(),
    PLANT,
    PLANT_TWIN,
];

/// Messages measured in each round where neither a count nor a duration is given.
const DEFAULT_COUNT: u64 = 2000;

impl Experiment for RoundTrip {
    fn name(&self) -> &'static str {
        "round-trip"
    }

    fn question(&self) -> &'static str {
        "How long does a message take there and back?"
    }

    fn knobs(&self) -> &'static [Knob] {
        KNOBS
    }

    fn next(&self, knobs: &Knobs, ground: &Ground, done: &[RoundRecord]) -> Result<Step, Refused> {
        if !done.is_empty() {
            return Ok(Step::Done);
        }
        let asked = Asked::read(knobs)?;
        let candidates = selection::candidates(knobs.texts("transport"), ground)?;
        asked.refuse_too_many(candidates.len())?;
        let mut sieve = Sieve::new(ground);
        for candidate in sieve.runnable(&candidates) {
            for case in asked.cases(&candidate.card) {
                sieve.offer(&candidate.card, asked.planned(case, &candidate.card));
            }
        }
        let (planned, skipped) = sieve.finish()?;
        let rounds = sequence::orders(&planned, asked.rounds, asked.seed, asked.common)?;
        let cases = planned.into_iter().map(|planned| planned.case).collect();
        Ok(Step::Run { cases, rounds, skipped })
    }
}

/// The knobs, read.
struct Asked {
    waitings: Vec<Waiting>,
    placements: Vec<Placement>,
    ends: Vec<Ends>,
    ends_given: bool,
    sizes: Vec<u64>,
    reply_sizes: Vec<u64>,
    patterns: Vec<Pattern>,
    option_sets: Vec<Options>,
    every_option: bool,
    cpu_idles: Vec<CpuIdle>,
    twins: Vec<u8>,
    plant: Option<Plant>,
    plant_twin: Option<Plant>,
    extent: Extent,
    warm_up: Option<Extent>,
    rounds: u64,
    seed: u64,
    common: Common,
}

impl Asked {
    fn read(knobs: &Knobs) -> Result<Self, Refused> {
        refuse_links(knobs.texts("link"))?;
        let rates = knobs.rates_per_s("rate")?;
        let extent = extent(knobs, &rates)?;
        let closed_loop = vec![Pattern::PingPong];
        let paced = rates.iter().map(|rate_per_s| Pattern::Paced { rate_per_s: *rate_per_s }).collect();
        let (option_sets, every_option) = option_sets(knobs.texts("option"))?;
        let plant_twin = knobs.plant("plant-twin")?;
        let twins = if knobs.is_on("twin") || plant_twin.is_some() { vec![0, 1] } else { vec![0] };
        let warm_up = if knobs.text("warmup") == Some(AUTO) { None } else { knobs.extent("warmup")? };
        Ok(Self {
            waitings: knobs.words("waiting", Waiting::ALL)?,
            placements: knobs.words("placement", Placement::ALL)?,
            ends: knobs.words("ends", Ends::ALL)?,
            ends_given: knobs.is_given("ends"),
            sizes: knobs.bytes("size")?,
            reply_sizes: knobs.bytes("reply-size")?,
            patterns: if rates.is_empty() { closed_loop } else { paced },
            option_sets,
            every_option,
            cpu_idles: knobs.words("cpu-idle", CpuIdle::ALL)?,
            twins,
            plant: knobs.plant("plant")?,
            plant_twin,
            extent,
            warm_up,
            rounds: knobs.whole("rounds")?.unwrap_or(1),
            seed: knobs.seed()?,
            common: common(knobs)?,
        })
    }

    /// Refuses a plan before its cases are written out one by one, so that no list of lists fills the memory.
    fn refuse_too_many(&self, transports: usize) -> Result<(), Refused> {
        let option_sets = self.option_sets.len() + if self.every_option { OptionName::ALL.len() } else { 0 };
        let factors = [
            transports,
            self.waitings.len(),
            self.placements.len(),
            self.ends.len(),
            self.sizes.len(),
            self.reply_sizes.len().max(1),
            self.patterns.len(),
            option_sets,
            self.cpu_idles.len(),
            self.twins.len(),
        ];
        let combinations = factors.iter().fold(1_u64, |product, factor| product.saturating_mul(*factor as u64));
        if combinations <= MOST_ROUNDS {
            return Ok(());
        }
        Err(Refused::new(
            format!("the knobs combine to {combinations} cases, more than {MOST_ROUNDS}"),
            "sweep fewer values at once",
        ))
    }

    /// Every combination on one transport, impossible ones among them.
    fn cases(&self, card: &Card) -> Vec<Case> {
        let mut cases = vec![Case { transport: card.name.to_owned(), ..Case::ping_pong(card.name) }];
        let sizes = self.sizes.iter().map(|size| (*size, *size)).collect::<Vec<_>>();
        cases = each(&cases, &sizes, |case, (size, reply)| {
            (case.size_bytes, case.reply_size_bytes) = (size, reply);
        });
        if !self.reply_sizes.is_empty() {
            cases = each(&cases, &self.reply_sizes, |case, reply| case.reply_size_bytes = reply);
        }
        cases = each(&cases, &self.options_for(card), |case, options| case.options = options);
        cases = each(&cases, &self.waitings, |case, waiting| case.waiting = waiting);
        cases = each(&cases, &self.placements, |case, placement| case.placement = placement);
        cases = each(&cases, &self.ends, |case, ends| case.ends = selection::ends(card, ends, self.ends_given));
        cases = each(&cases, &self.patterns, |case, pattern| case.pattern = pattern);
        cases = each(&cases, &self.cpu_idles, |case, cpu_idle| case.cpu_idle = cpu_idle);
        each(&cases, &self.twins, |case, twin| {
            case.twin = twin;
            case.plant = if twin == 1 { self.plant_twin.or(self.plant) } else { self.plant };
        })
    }

    /// The sets asked for; with `all` also none, and each option of the card that is worth a trial, alone.
    fn options_for(&self, card: &Card) -> Vec<Options> {
        let mut sets = self.option_sets.clone();
        if self.every_option {
            sets.push(Options::default());
            let trials = card.options.iter().filter_map(|name| name.trial_value().map(|value| (*name, value)));
            sets.extend(trials.map(|(name, value)| Options::default().with(name, value)));
        }
        sets
    }

    fn planned(&self, case: Case, card: &Card) -> Planned {
        let warm_up = self.warm_up.unwrap_or_else(|| warm_up(&case, card));
        Planned { case, extent: self.extent, warm_up }
    }
}

/// Every case with every value.
fn each<V: Clone>(cases: &[Case], values: &[V], set: impl Fn(&mut Case, V)) -> Vec<Case> {
    let with = |case: &Case, value: &V| {
        let mut case = case.clone();
        set(&mut case, value.clone());
        case
    };
    cases.iter().flat_map(|case| values.iter().map(move |value| with(case, value))).collect()
}

/// The warm-up of `auto`.
fn warm_up(case: &Case, card: &Card) -> Extent {
    let pauses = case.pattern != Pattern::PingPong;
    let hands_over_to_another_cpu = case.placement != Placement::Together && card.answered_by == AnsweredBy::EchoHalf;
    let large = case.size_bytes.max(case.reply_size_bytes) > LARGE_BYTES;
    if large || case.waiting != Waiting::Spin && (pauses || hands_over_to_another_cpu) {
        Extent::DurationNs(WARM_UP_NS)
    } else {
        Extent::Count(WARM_UP_MESSAGES)
    }
}

fn refuse_links(links: &[String]) -> Result<(), Refused> {
    match links.iter().find(|link| *link != LOOPBACK && *link != EVERY) {
        Some(link) => Err(possible::no_such_link(link).into()),
        None => Ok(()),
    }
}

fn option_sets(texts: &[String]) -> Result<(Vec<Options>, bool), Refused> {
    let every = texts.iter().any(|text| text == EVERY);
    let mut sets = Vec::new();
    for text in texts.iter().filter(|text| *text != EVERY) {
        sets.push(if text == NO_OPTIONS { Options::default() } else { Options::parse(text)? });
    }
    if sets.is_empty() && !every {
        sets.push(Options::default());
    }
    Ok((sets, every))
}

fn extent(knobs: &Knobs, rates_per_s: &[f64]) -> Result<Extent, Refused> {
    let count = knobs.whole("count")?;
    let duration_ns = knobs.duration_ns("duration")?;
    let extent = match (count, duration_ns) {
        (Some(_), Some(_)) => {
            let what = "--count and --duration are both given, and each says how much a round measures";
            return Err(Refused::new(what, "give one of them"));
        }
        (None, Some(duration_ns)) => Extent::DurationNs(duration_ns),
        (count, None) => Extent::Count(count.unwrap_or(DEFAULT_COUNT)),
    };
    let slowest = rates_per_s.iter().copied().fold(f64::INFINITY, f64::min);
    #[expect(clippy::cast_precision_loss, reason = "a bound of a day needs no exactness")]
    if let Extent::Count(count) = extent
        && count as f64 / slowest > 86_400.0
    {
        let what = format!("{count} messages at {slowest} a second take more than 24 h");
        return Err(Refused::new(what, "lower --count, raise --rate, or give --duration"));
    }
    Ok(extent)
}

fn common(knobs: &Knobs) -> Result<Common, Refused> {
    let port = knobs.whole("port")?.unwrap_or(0);
    Ok(Common {
        timeout_ns: knobs.duration_ns("timeout")?.unwrap_or(2 * SECOND_NS),
        keep_samples: knobs.whole("keep-samples")?.unwrap_or(0),
        allow_unmet_options: knobs.is_on("allow-unmet-options"),
        port: u16::try_from(port).unwrap_or(0),
    })
}
