//! `periodic --find`: plans the rounds of a [`PeriodSearch`], one trial after another, and reads its result.

use hairpin_model::periodic::SearchEnd;
use hairpin_model::quantities::duration_argument;
use hairpin_model::rare_events::{EventShare, clustering};
use hairpin_model::{Figure, FoundPeriod, HostCapabilities, PeriodSearchPlan, PeriodicCounts, Refused, RoundRecord};

use crate::experiment::{Forecast, Planning, Step};
use crate::knob::{Knob, KnobKind};
use crate::knobs::Knobs;
use crate::period_search::{ALPHA, Found, Next, PeriodSearch, Trial};
use crate::quantity::SECOND_NS;

pub const FIND: Knob = Knob::switch("find", "Search the shortest period at which few enough deadlines are missed");
pub const MISSES: Knob = Knob::new("misses", "SHARE", KnobKind::Share)
    .help("With --find: the share of deadlines that may be missed")
    .or(&["0.1%"]);

/// Returns the rounds of all cases.
pub type Plan = fn(&Knobs, &HostCapabilities) -> Result<Planning, Refused>;

/// Range of periods unless two are given.
const RANGE_NS: [u64; 2] = [100_000, SECOND_NS];
/// Longest time of a confirmation unless given.
const MAX_CONFIRMATION_NS: u64 = 120 * SECOND_NS;
/// Longest round, and most periods of one. A trial has several rounds if it needs more.
const MAX_ROUND_NS: u64 = 10 * SECOND_NS;
const MAX_ROUND_PERIODS: u64 = 10_000;

fn search(knobs: &Knobs) -> Option<PeriodSearch> {
    if !knobs.is_on("find") {
        return None;
    }
    let range: Vec<u64> = if knobs.is_given("period") { knobs.values("period") } else { RANGE_NS.to_vec() };
    let over_ns = knobs.value("over").filter(|_| knobs.is_given("over"));
    Some(PeriodSearch {
        shortest_ns: range.iter().copied().min()?,
        longest_ns: range.iter().copied().max()?,
        max_misses: knobs.value("misses")?,
        max_confirmation_ns: over_ns.unwrap_or(MAX_CONFIRMATION_NS),
    })
}

pub fn search_plan(knobs: &Knobs) -> Option<PeriodSearchPlan> {
    let search = search(knobs)?;
    let PeriodSearch { shortest_ns, longest_ns, max_misses, max_confirmation_ns } = search;
    let confirming_periods = search.confirming_periods();
    Some(PeriodSearchPlan { shortest_ns, longest_ns, max_misses, confirming_periods, max_confirmation_ns })
}

/// Returns the rounds of the next trial, which are like those of `plan` with one period; `None` without `--find`.
///
/// # Errors
/// [`Refused`] if the knobs contradict each other or ask for several cases.
pub fn next(
    plan: Plan,
    knobs: &Knobs,
    capabilities: &HostCapabilities,
    done: &[RoundRecord],
) -> Result<Option<Step>, Refused> {
    let Some(search) = search(knobs) else { return Ok(None) };
    check(knobs)?;
    let trials = trials(&search, done);
    let block = done.iter().map(|record| record.order.block + 1).max().unwrap_or(0);
    let (Next::Explore { period_ns, periods } | Next::Confirm { period_ns, periods }) = search.next(&trials) else {
        return Ok(Some(Step::Done));
    };
    // A trial with a failed or missing round ends the search.
    if trials.len() != block as usize {
        return Ok(Some(Step::Done));
    }
    let longest = (MAX_ROUND_NS / period_ns).clamp(1, MAX_ROUND_PERIODS);
    let rounds = periods.div_ceil(longest);
    let (mut cases, mut orders, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let count = periods / rounds + u64::from(round < periods % rounds);
        let own = knobs.with("period", duration_argument(period_ns))?.with("count", count.to_string())?;
        let (mut planned, cannot_run) = plan(&own, capabilities)?;
        if planned.len() > 1 {
            return Err(Refused::new(
                format!("--find searches the period of one case, but {} are planned", planned.len()),
                "give one value each, for instance one --transport and one --placement",
            ));
        }
        planned.iter_mut().for_each(|order| order.block = block);
        cases = planned.iter().map(|order| order.case.clone()).collect();
        orders.append(&mut planned);
        skipped = cannot_run;
    }
    if block > 0 {
        skipped.clear();
        cases.retain(|case| done.iter().all(|record| record.case_id != case.id()));
    }
    let forecast = if block == 0 { forecast(&search) } else { Forecast::default() };
    Ok(Some(Step::Run { cases, rounds: orders, skipped, forecast }))
}

/// Two of the longest confirmations, and about as many trials that explore as take three more.
fn forecast(search: &PeriodSearch) -> Forecast {
    Forecast { rounds: 1, lasts_ns: search.max_confirmation_ns.saturating_mul(5), ..Forecast::default() }
}

fn check(knobs: &Knobs) -> Result<(), Refused> {
    let fixes_rounds = ["rounds", "quick", "count", "duration", "deadline"];
    if let Some(name) = fixes_rounds.into_iter().find(|name| knobs.is_given(name)) {
        return Err(Refused::new(
            format!("--find chooses the periods, their deadlines and their number, but --{name} is given"),
            "omit it; --over limits the time of a confirmation",
        ));
    }
    let range: Vec<u64> = knobs.values("period");
    if knobs.is_given("period") && range.len() != 2 {
        return Err(Refused::new(
            "--find searches between two periods".to_owned(),
            "give the shortest and the longest, for instance --period 200us,20ms, or none",
        ));
    }
    Ok(())
}

/// Joins the rounds to trials. Each trial is a block, of which the rounds count that were asked for: later ones repeat disturbed
/// rounds. A trial with a failed or missing round ends the list.
fn trials(search: &PeriodSearch, done: &[RoundRecord]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for block in 0.. {
        let (Next::Explore { period_ns, periods } | Next::Confirm { period_ns, periods }) = search.next(&trials)
        else {
            break;
        };
        let (mut counted, mut rounds) = (0, Vec::new());
        for record in done.iter().filter(|record| record.order.block == block) {
            let Some(counts) = counts(record) else { return trials };
            if counted < periods {
                counted += counts.periods;
                rounds.push(counts);
            }
        }
        if counted < periods {
            break;
        }
        trials.push(Trial {
            period_ns,
            periods: counted,
            misses: rounds.iter().map(|counts| counts.misses).sum(),
            clustering: clustering(rounds.iter().map(|counts| counts.blocks())),
        });
    }
    trials
}

fn counts(record: &RoundRecord) -> Option<&PeriodicCounts> {
    record.measured()?.primary().periodic.as_ref()
}

/// See [`Search::found`](crate::experiment::Search::found).
pub fn found(knobs: &Knobs, done: &[RoundRecord]) -> Option<FoundPeriod> {
    let search = search(knobs)?;
    let trials = trials(&search, done);
    let mut result = FoundPeriod { max_misses: search.max_misses, confidence: 1.0 - ALPHA, ..FoundPeriod::default() };
    let Next::Done(found) = search.next(&trials) else { return Some(result) };
    let mut set = |end: SearchEnd, period_ns: u64, misses: EventShare, periods: u64| {
        let of_period = |record: &&RoundRecord| {
            record.order.case.primary().load.periodic().is_some_and(|own| own.period_ns == period_ns)
        };
        result.case = done.iter().find(of_period).map(|record| record.case_id.clone());
        result.smallest_period_ns = Some(period_ns);
        result.misses = Some(Figure::new(misses.value, misses.low, misses.high));
        (result.end, result.periods, result.confirmed) = (end, periods, end == SearchEnd::Confirmed);
    };
    let last = trials.last().map_or(0, |trial| trial.periods);
    match found {
        Found::Confirmed { period_ns, misses } => set(SearchEnd::Confirmed, period_ns, misses, last),
        Found::NotConfirmed { period_ns, misses } => set(SearchEnd::NotConfirmed, period_ns, misses, last),
        Found::TooFewPeriods { period_ns, periods, provable } => {
            set(SearchEnd::TooFewPeriods, period_ns, provable, periods);
        }
        Found::NoneHolds => result.end = SearchEnd::NoneHolds,
    }
    Some(result)
}
