//! Spreads the rounds of an experiment over a time budget.
//!
//! Rounds within seconds of each other are correlated, because machine states last for seconds. An ordinary
//! experiment therefore fills [`ORDINARY_NS`] with at least [`MIN_BLOCKS`] blocks. If blocks are short, it runs up to
//! [`MAX_BLOCKS`] blocks at even intervals over the whole budget.

use hairpin_model::names::distinct;
use hairpin_model::quantities::duration_argument;
use hairpin_model::round::Purpose;
use hairpin_model::{HostCapabilities, Placement, Refused, RoundOrder, RoundRecord, Skipped};

use crate::estimate;
use crate::evidence;
use crate::experiment::{Done, Experiment, Forecast, Step};
use crate::knob::{Knob, KnobKind};
use crate::knobs::Knobs;
use crate::quantity::SECOND_NS;
use crate::sends;
use crate::sequence::{self, Blocks};
use crate::shared::LASTS;

pub const ORDINARY_NS: u64 = 10 * SECOND_NS;
/// Minimum blocks of an ordinary experiment.
pub const MIN_BLOCKS: u64 = 8;
/// Maximum blocks within [`ORDINARY_NS`]: more blocks would be too close together to add information.
pub const MAX_BLOCKS: u64 = 100;
/// Maximum duration of [`MIN_BLOCKS`] blocks of probes under load, in ns; beyond that [`INTERVAL_BLOCKS`] are enough.
const MAX_LOADED_NS: u64 = 30 * SECOND_NS;
/// Duration of a quick run with short rounds, in ns.
pub const QUICK_NS: u64 = 2 * SECOND_NS;
/// Maximum duration of the rounds of a quick run, in ns; with its start and its analysis it takes at most 10 s.
pub const MAX_QUICK_NS: u64 = 8 * SECOND_NS;
/// Part of [`MAX_QUICK_NS`] kept for evidence rounds, in ns.
const QUICK_EVIDENCE_NS: u64 = 2 * SECOND_NS;
/// Blocks that a confidence interval needs. A quick run has fewer if their rounds do not fit its time.
pub const INTERVAL_BLOCKS: u64 = 5;
pub const MAX_UNTIL_NS: u64 = 60 * SECOND_NS;
/// With `--until`, intervals are computed after these sixths of the maximum time: 10, 20, 40 and 60 s of 60 s.
const LOOK_TIMES_SIXTHS: [u64; 4] = [1, 2, 4, 6];
/// Significance level of each of the four interim analyses; 5 % in total (Pocock, "Group sequential methods in the
/// design and analysis of clinical trials", Biometrika 64, 1977).
pub const ALPHA_OF_A_LOOK: f64 = 0.0182;

pub const ROUNDS: Knob = Knob::new("rounds", "NUMBER", KnobKind::Whole { min: 1, max: 10_000 })
    .help("Number of rounds of each case; each has new ends. Default: as many as fit 10s, at least 8");

pub const OVER: Knob = Knob::new("over", "TIME", LASTS)
    .help("Run as many rounds as fit this time, at least 8 of each case")
    .print(|repeat| repeat.over_ns.map(duration_argument).into_iter().collect());

pub const UNTIL: Knob = Knob::new("until", "SHARE", KnobKind::Share)
    .help("Run until the 95 % interval of each p50 is within +-this share of it, for instance 2%");

pub const AT_MOST: Knob = Knob::new("at-most", "TIME", LASTS)
    .help("With --until: the maximum time; the intervals are computed four times")
    .or(&["60s"]);

pub const QUICK: Knob = Knob::switch(
    "quick",
    "Run for at most 10s, or one short round of each case: wide or no intervals; keeps lengths that you set",
);

/// How many rounds there are.
pub const BLOCKS: &[Knob] = &[ROUNDS, OVER, QUICK];
/// How many rounds there are, also until intervals are narrow.
pub const BLOCKS_UNTIL: &[Knob] = &[ROUNDS, OVER, UNTIL, AT_MOST, QUICK];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Time over which rounds are spread, in ns; `None` runs them back to back.
    over_ns: Option<u64>,
    /// Number of blocks, if set by `--rounds`.
    blocks: Option<u64>,
    min_blocks: u64,
    /// Maximum duration of all blocks, in ns, if the run is quick.
    max_ns: Option<u64>,
    /// `--until` and `--at-most`: target half-width of intervals, as a share of the p50, and maximum time in ns.
    until: Option<(f64, u64)>,
}

impl Budget {
    /// Reads the knobs defined in this file.
    ///
    /// # Errors
    /// [`Refused`] if they contradict each other.
    pub fn read(knobs: &Knobs) -> Result<Self, Refused> {
        let (rounds, quick) = (knobs.value("rounds"), knobs.is_on("quick"));
        let is_fixed = quick || rounds.is_some();
        let over_ns = knobs.value("over").filter(|_| knobs.is_given("over") || !is_fixed);
        let until: Option<f64> = knobs.value("until");
        let given = [("--over", over_ns.is_some()), ("--rounds", rounds.is_some()), ("--quick", quick)];
        if let (Some(_), Some((name, _))) = (until, given.iter().find(|(_, given)| *given)) {
            return Err(Refused::new(
                format!("--until adds rounds until intervals are narrow enough, but {name} fixes their number"),
                "give one of them; --at-most limits --until",
            ));
        }
        if quick && (over_ns.is_some() || rounds.is_some()) {
            return Err(Refused::new("--quick already sets a short time and few rounds", "omit --quick"));
        }
        if until.is_none() && knobs.is_given("at-most") {
            return Err(Refused::new("--at-most needs --until", "add --until 2%, or use --over TIME"));
        }
        let at_most_ns = knobs.value("at-most").unwrap_or(MAX_UNTIL_NS);
        Ok(Self {
            over_ns: over_ns.or(rounds.is_none().then_some(if quick { QUICK_NS } else { ORDINARY_NS })),
            blocks: rounds,
            min_blocks: if quick { INTERVAL_BLOCKS } else { MIN_BLOCKS },
            max_ns: quick.then_some(MAX_QUICK_NS),
            until: until.map(|share| (share, at_most_ns)),
        })
    }

    /// Returns the next blocks if a block takes about `block_ns`; `None` if the experiment has enough blocks.
    pub fn next(&self, done: &Done<'_>, block_ns: u64) -> Option<Blocks> {
        let first = done.timed_blocks();
        let Some((target, at_most_ns)) = self.until else {
            return (first == 0).then(|| self.spread(Blocks::default(), self.over_ns, block_ns));
        };
        if first > 0 && done.half_width.is_some_and(|widest| widest <= target) {
            return None;
        }
        let begin_ns = done.elapsed_ns();
        let look_ns = look_times_ns(at_most_ns).find(|look_ns| begin_ns < *look_ns)?;
        Some(self.spread(Blocks { first, begin_ns, ..Blocks::default() }, Some(look_ns - begin_ns), block_ns))
    }

    /// Returns the maximum number of rounds and duration.
    pub fn forecast(&self, cases: usize, block_ns: u64) -> Forecast {
        let over_ns = self.until.map_or(self.over_ns, |(_, at_most_ns)| Some(at_most_ns));
        let count = u64::from(self.spread(Blocks::default(), over_ns, block_ns).count);
        let lasts_ns = count.saturating_mul(block_ns).max(over_ns.unwrap_or(0));
        let lasts_ns = self.max_ns.map_or(lasts_ns, |max_ns| lasts_ns.min(max_ns.max(block_ns)));
        let has_time_limit = self.blocks.is_none();
        Forecast { rounds: count.saturating_mul(cases as u64), lasts_ns, has_time_limit, ..Forecast::default() }
    }

    fn spread(&self, from: Blocks, over_ns: Option<u64>, block_ns: u64) -> Blocks {
        let block_ns = block_ns.max(1);
        let min = if from.first > 0 { 1 } else { self.min_blocks };
        let fitting = over_ns.map_or(0, |over_ns| over_ns / block_ns);
        // A longer budget gets proportionally more blocks.
        let max = MAX_BLOCKS.max(over_ns.unwrap_or(0) / (ORDINARY_NS / MAX_BLOCKS));
        let count = self.blocks.unwrap_or_else(|| fitting.clamp(min, max)).max(1);
        let apart_ns = over_ns.map_or(0, |over_ns| over_ns / count);
        Blocks { count: u32::try_from(count).unwrap_or(u32::MAX), apart_ns, ..from }
    }
}

/// Knobs that set the number of rounds.
pub const ROUND_COUNTS: &[&str] = &["rounds", "over", "until", "at-most", "quick"];
/// Knobs that set the length of a round.
pub const LENGTHS: &[&str] =
    &["count", "duration", "exchanges", "bytes", "warmup", "omit", "idle", "ramp", "recovery"];

/// Shortens the rounds until [`INTERVAL_BLOCKS`] blocks fit `max_ns`, as far as the figures allow.
fn shorten(planned: &mut Vec<RoundOrder>, max_ns: u64, capabilities: &HostCapabilities) {
    let full = planned.clone();
    for divisor in [1, 2, 4, 8] {
        *planned = full.iter().map(|order| sequence::shortened(order, divisor)).collect();
        if estimate::orders_ns(planned, capabilities).saturating_mul(INTERVAL_BLOCKS) <= max_ns {
            return;
        }
    }
}

/// If [`INTERVAL_BLOCKS`] blocks do not fit `max_ns`, removes the cases of all placements but one: two CPUs for one-way
/// loads, else the first. Round trips keep all, since the survey compares placements. Returns what was removed.
fn keep_one_placement(planned: &mut Vec<RoundOrder>, max_ns: u64, capabilities: &HostCapabilities) -> Vec<Skipped> {
    let fits = estimate::orders_ns(planned, capabilities).saturating_mul(INTERVAL_BLOCKS) <= max_ns;
    let placement = |order: &RoundOrder| order.case.ends.placement;
    let is_one_way = |order: &RoundOrder| order.case.primary().load.is_one_way();
    let is_reduced = |order: &RoundOrder| is_one_way(order) || order.case.primary().load.exchange().is_some();
    let two_cpus = planned.iter().find(|order| is_one_way(order) && placement(order) == Placement::CrossCpu);
    let Some(kept) = two_cpus.or(planned.first()).map(placement) else { return Vec::new() };
    if fits || !planned.iter().all(is_reduced) {
        return Vec::new();
    }
    let (kept_orders, removed) = std::mem::take(planned).into_iter().partition(|order| placement(order) == kept);
    *planned = kept_orders;
    let removed: Vec<RoundOrder> = removed;
    let skipped = removed.iter().map(|order| Skipped {
        transport: order.case.primary().transport.clone(),
        case: None,
        reason: format!(
            "a quick run has no time for --placement {} (hint: omit --quick, or name the placement)",
            placement(order)
        ),
    });
    distinct(skipped)
}

/// Times at which intervals are computed, in ns since the start of the run.
fn look_times_ns(at_most_ns: u64) -> impl Iterator<Item = u64> {
    LOOK_TIMES_SIXTHS.into_iter().map(move |sixths| at_most_ns / 6 * sixths)
}

pub type PlacedOrder = (usize, RoundOrder);

impl Experiment {
    /// Returns the next rounds, given the results so far. Called until it returns [`Step::Done`].
    ///
    /// The first step lists the cases and the skipped cases; with `--trace`, evidence rounds come last. The result
    /// depends only on the arguments, because the knob `seed` determines every random choice.
    pub fn next(&self, knobs: &Knobs, capabilities: &HostCapabilities, done: &Done<'_>) -> Result<Step, Refused> {
        if let Some(search) = self.search
            && let Some(step) = (search.next)(knobs, capabilities, done.rounds)?
        {
            return Ok(step);
        }
        let (mut budget, seed) = (Budget::read(knobs)?, knobs.seed()?);
        let traces = knobs.is_on("trace");
        let (mut planned, mut skipped) = (self.plan)(knobs, capabilities)?;
        let quick = knobs.is_on("quick");
        let evidence_ns = if traces { evidence::expected_ns(&planned, capabilities) } else { 0 };
        if quick {
            let max_ns = MAX_QUICK_NS - evidence_ns.min(QUICK_EVIDENCE_NS);
            budget.max_ns = Some(max_ns);
            // On a busy machine estimates are uncertain by a factor of ten, so the time limit reduces the blocks there.
            let idle = HostCapabilities { busy_per_cpu: 0.0, ..capabilities.clone() };
            if !LENGTHS.iter().any(|name| knobs.is_given(name)) {
                shorten(&mut planned, max_ns, &idle);
            }
            if !knobs.is_given("placement") {
                skipped.extend(keep_one_placement(&mut planned, max_ns, &idle));
            }
            let block_ns = estimate::orders_ns(&planned, &idle).max(1);
            budget.min_blocks = (max_ns / block_ns).clamp(1, INTERVAL_BLOCKS);
        }
        let block_ns = estimate::orders_ns(&planned, capabilities);
        let all_ns = budget.min_blocks.saturating_mul(block_ns);
        if all_ns > MAX_LOADED_NS && planned.iter().any(|order| order.phases.is_some()) {
            budget.min_blocks = INTERVAL_BLOCKS;
        }
        let Some(blocks) = budget.next(done, block_ns) else {
            if let Some(step) = self.refine_step(&budget, knobs, capabilities, &planned, done)? {
                return Ok(step);
            }
            if !traces {
                return Ok(Step::Done);
            }
            let left_ns = quick.then(|| MAX_QUICK_NS.saturating_sub(done.elapsed_ns()));
            return Ok(evidence::step(&planned, done.rounds, capabilities, seed, left_ns));
        };
        let rounds = sequence::orders(&planned, blocks, seed)?;
        if blocks.first > 0 {
            return Ok(Step::Run { cases: Vec::new(), rounds, skipped: Vec::new(), forecast: Forecast::default() });
        }
        let mut forecast = budget.forecast(planned.len(), block_ns);
        let blocks = forecast.rounds / planned.len().max(1) as u64;
        forecast.sends = sends::forecast(&planned, blocks, capabilities);
        if traces {
            let left_ns = MAX_QUICK_NS.saturating_sub(forecast.lasts_ns);
            forecast.evidence_ns = if quick { evidence_ns.min(left_ns) } else { evidence_ns };
            forecast.lasts_ns = forecast.lasts_ns.saturating_add(forecast.evidence_ns);
        }
        let cases = distinct(planned.into_iter().map(|order| order.case));
        Ok(Step::Run { cases, rounds, skipped, forecast })
    }

    /// Returns the rounds of the cases that [`Experiment::refine`] adds, if any.
    fn refine_step(
        &self,
        budget: &Budget,
        knobs: &Knobs,
        capabilities: &HostCapabilities,
        planned: &[RoundOrder],
        done: &Done<'_>,
    ) -> Result<Option<Step>, Refused> {
        let Some(refine) = self.refine else { return Ok(None) };
        let mut more = refine(knobs, capabilities, planned, done.rounds)?;
        if let (Some(like), true) = (planned.first(), budget.max_ns.is_some()) {
            more.iter_mut().for_each(|one| (one.warm_up, one.extent) = (like.warm_up, like.extent));
        }
        if more.is_empty() {
            return Ok(None);
        }
        // `--rounds` rounds or the minimum, back to back.
        let count = u32::try_from(budget.blocks.unwrap_or(budget.min_blocks)).unwrap_or(u32::MAX);
        let blocks = Blocks { first: done.timed_blocks(), count, ..Blocks::default() };
        let rounds = sequence::orders(&more, blocks, knobs.seed()?)?;
        let ends_ns = done.elapsed_ns().saturating_add(estimate::orders_ns(&rounds, capabilities));
        if budget.max_ns.is_some_and(|max_ns| ends_ns > max_ns) {
            return Ok(None);
        }
        let cases = more.into_iter().map(|order| order.case).collect();
        Ok(Some(Step::Run { cases, rounds, skipped: Vec::new(), forecast: Forecast::default() }))
    }

    /// Returns the next rounds of two runs of this experiment, in blocks that have the cases of both runs, and the time
    /// of the interim analysis that follows these rounds: the first of the four times after `last_look_ns`. `None` if
    /// the last analysis is over.
    ///
    /// # Errors
    /// [`Refused`] if the knobs request something impossible, or too many rounds.
    pub fn next_interleaved(
        &self,
        runs: [(&Knobs, &HostCapabilities); 2],
        from: Blocks,
        last_look_ns: u64,
        at_most_ns: u64,
    ) -> Result<Option<(Vec<PlacedOrder>, u64)>, Refused> {
        let begin_ns = from.begin_ns.max(last_look_ns);
        let Some(look_ns) = look_times_ns(at_most_ns).find(|look_ns| begin_ns < *look_ns) else { return Ok(None) };
        let (mut templates, mut places, mut block_ns) = (Vec::new(), Vec::new(), 0);
        for (place, (knobs, capabilities)) in runs.into_iter().enumerate() {
            let (planned, _) = (self.plan)(knobs, capabilities)?;
            block_ns += estimate::orders_ns(&planned, capabilities);
            places.resize(places.len() + planned.len(), place);
            templates.extend(planned);
        }
        // On a busy machine blocks take longer than estimated.
        let block_ns = block_ns.max(from.begin_ns / u64::from(from.first.max(1)));
        let budget = Budget { over_ns: None, blocks: None, min_blocks: MIN_BLOCKS, max_ns: None, until: None };
        let (blocks, seed) = (budget.spread(from, Some(look_ns - from.begin_ns), block_ns), runs[0].0.seed()?);
        let orders = sequence::orders(&templates, blocks, seed)?;
        let numbers = (blocks.first..).take(blocks.count as usize);
        let places = numbers.flat_map(|block| sequence::permutation(places.len(), seed, block)).map(|at| places[at]);
        Ok(Some((places.zip(orders).collect(), look_ns)))
    }
}

impl Done<'_> {
    fn timed_blocks(&self) -> u32 {
        let timed = self.rounds.iter().filter(|record| record.order.purpose == Purpose::Timed);
        timed.map(|record| record.order.block.saturating_add(1)).max().unwrap_or(0)
    }

    /// End of the last round, in ns since the start of the run.
    fn elapsed_ns(&self) -> u64 {
        let lasted_ns = |record: &RoundRecord| record.measured().map_or(0, |measured| measured.noise.wall_ns);
        self.rounds.iter().map(|record| record.started_ns + lasted_ns(record)).max().unwrap_or(0)
    }
}
