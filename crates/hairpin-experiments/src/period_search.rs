//! Searches the shortest period of a control loop whose share of missed deadlines stays below a limit.
//!
//! Candidates are a geometric series of periods. Exploration halves the range of candidates until the shortest one that seems to
//! hold is known. A confirmation on fresh data then decides: the period holds if the whole interval of its share of misses lies
//! below the limit. If it does not, longer candidates are explored once more, in longer trials and against a quarter of the limit, so the
//! confidence of each confirmation is that of two.

use hairpin_model::rare_events::{EventShare, event_share};

use crate::knee::round;

/// Ratio of adjacent candidates.
const STEP: f64 = 1.05;
/// Candidates that are passed over while no period has held.
const GALLOP: u32 = 8;
/// How many candidates further the second exploration begins, and its confirmation is.
const RETRY: u32 = 3;
const MAX_CONFIRMATIONS: usize = 2;
/// Probability that a search confirms a period whose share of misses is above the limit.
pub const ALPHA: f64 = 0.05;
/// Alpha of the interval on both sides, so that its upper bound alone has `ALPHA / MAX_CONFIRMATIONS`.
const INTERVAL_ALPHA: f64 = 2.0 * ALPHA / MAX_CONFIRMATIONS as f64;
/// Expected misses, at the limit, of a trial that explores.
const EXPLORED_MISSES: f64 = 5.0;
/// Expected misses, at the limit, of a first look at a candidate: far too short periods need no more.
const GLANCE_MISSES: f64 = 0.3;
/// Fewest periods of a first look, of exploration and of a confirmation, so that clusters of misses show.
const MIN_GLANCED: u64 = 100;
const MIN_EXPLORED: u64 = 1_000;
const MIN_CONFIRMED: u64 = 4_000;
/// Expected misses, at the limit, of a confirmation: up to 5 independent misses leave the interval below the limit.
const CONFIRMED_MISSES: f64 = 11.7;
/// Shortest time of a confirmation, if its longest allows: states of a machine last for seconds.
const MIN_CONFIRMATION_NS: u64 = 30_000_000_000;

/// The longest trial of an exploration is the longest confirmation divided by this.
const EXPLORATION_DIVISOR: u64 = 4;
/// Shortest time of a trial of the second exploration, if its longest allows.
const MIN_SECOND_TRIAL_NS: u64 = 5_000_000_000;

/// Most periods of a trial, so that it has at most 10 000 rounds.
const MAX_PERIODS: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodSearch {
    pub shortest_ns: u64,
    pub longest_ns: u64,
    /// Limit of the share of misses, above 0 and below 1.
    pub max_misses: f64,
    /// Longest time of a confirmation.
    pub max_confirmation_ns: u64,
}

/// What was measured at a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    pub period_ns: u64,
    pub periods: u64,
    pub misses: u64,
    /// Factor by which misses cluster, see [`clustering`](hairpin_model::rare_events::clustering).
    pub clustering: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    Explore { period_ns: u64, periods: u64 },
    Confirm { period_ns: u64, periods: u64 },
    Done(Found),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found {
    /// The shortest candidate that holds, and its share of misses on fresh data.
    Confirmed {
        period_ns: u64,
        misses: EventShare,
    },
    /// The last candidate seemed to hold, but the interval on fresh data is not below the limit.
    NotConfirmed {
        period_ns: u64,
        misses: EventShare,
    },
    /// In the longest time of a confirmation, no more than this could be shown, without a single miss.
    TooFewPeriods {
        period_ns: u64,
        periods: u64,
        provable: EventShare,
    },
    NoneHolds,
}

impl PeriodSearch {
    /// Returns what to do after these trials, which are in the order in which this function asked for them.
    pub fn next(&self, trials: &[Trial]) -> Next {
        let mut replay = Replay { search: *self, trials, done: 0 };
        replay.run().map_or_else(|next| next, Next::Done)
    }

    /// Returns the fewest periods, without a miss, that confirm one.
    pub fn confirming_periods(&self) -> u64 {
        ((INTERVAL_ALPHA / 2.0).ln() / (-self.max_misses).ln_1p()).ceil() as u64
    }

    fn last(&self) -> u32 {
        let ratio = self.longest_ns as f64 / self.shortest_ns.max(1) as f64;
        (ratio.ln() / STEP.ln()).ceil().max(0.0) as u32
    }

    fn period_ns(&self, index: u32) -> u64 {
        let period_ns = self.shortest_ns as f64 * STEP.powi(index.cast_signed());
        (round(period_ns) as u64).min(self.longest_ns)
    }

    /// Returns in how many periods this many misses are expected at the limit, at least `min`.
    fn periods(&self, misses: f64, min: u64) -> u64 {
        ((misses / self.max_misses).ceil() as u64).max(min)
    }
}

#[derive(Clone, Copy, Debug)]
struct Exploration {
    /// The shortest candidate.
    first: u32,
    /// Shortest time of a trial.
    min_ns: u64,
    /// Largest share of misses of a candidate that seems to hold.
    max_share: f64,
}

/// Returns the most periods of a trial that may last this long.
fn affordable(max_ns: u64, period_ns: u64) -> u64 {
    (max_ns / period_ns).min(MAX_PERIODS)
}

/// Takes the decisions again that led to the trials, and then the next one.
struct Replay<'t> {
    search: PeriodSearch,
    trials: &'t [Trial],
    done: usize,
}

impl Replay<'_> {
    /// Fails with the next trial where one is missing.
    fn run(&mut self) -> Result<Found, Next> {
        let exploration = Exploration { first: 0, min_ns: 0, max_share: self.search.max_misses / 2.0 };
        let Some(first) = self.explore(exploration)? else { return Ok(Found::NoneHolds) };
        let last = self.search.last();
        let found = self.confirm(self.search.period_ns(first))?;
        if matches!(found, Found::Confirmed { .. }) || first == last {
            return Ok(found);
        }
        let second = Exploration {
            first: (first + RETRY).min(last),
            min_ns: MIN_SECOND_TRIAL_NS,
            max_share: self.search.max_misses / 4.0,
        };
        match self.explore(second)? {
            Some(second) => self.confirm(self.search.period_ns((second + RETRY).min(last))),
            None => Ok(found),
        }
    }

    /// Returns the shortest candidate that seems to hold: periods become longer until one does, which ends a range that is halved.
    fn explore(&mut self, exploration: Exploration) -> Result<Option<u32>, Next> {
        let last = self.search.last();
        let (mut fails_below, mut holds) = (exploration.first, exploration.first);
        while !self.seems_to_hold(holds, exploration)? {
            if holds == last {
                return Ok(None);
            }
            (fails_below, holds) = (holds + 1, (holds + GALLOP).min(last));
        }
        while fails_below < holds {
            let middle = fails_below.midpoint(holds);
            if self.seems_to_hold(middle, exploration)? {
                holds = middle;
            } else {
                fails_below = middle + 1;
            }
        }
        Ok(Some(holds))
    }

    fn seems_to_hold(&mut self, index: u32, exploration: Exploration) -> Result<bool, Next> {
        let (period_ns, max_misses) = (self.search.period_ns(index), self.search.max_misses);
        let max_ns = self.search.max_confirmation_ns / EXPLORATION_DIVISOR;
        let affordable = affordable(max_ns, period_ns).max(1);
        let glanced = self.search.periods(GLANCE_MISSES, MIN_GLANCED).min(affordable);
        let glance = self.trial(Next::Explore { period_ns, periods: glanced })?;
        let (misses, periods) = (glance.misses, glance.periods);
        if event_share(misses, periods, glance.clustering, ALPHA).low > max_misses {
            return Ok(false);
        }
        let explored =
            self.search.periods(EXPLORED_MISSES, MIN_EXPLORED.max(exploration.min_ns / period_ns)).min(affordable);
        let trial = self.trial(Next::Explore { period_ns, periods: explored })?;
        let share = (misses + trial.misses) as f64 / (periods + trial.periods) as f64;
        Ok(share <= exploration.max_share)
    }

    fn confirm(&mut self, period_ns: u64) -> Result<Found, Next> {
        let search = self.search;
        let near = self.trials[..self.done].iter().filter(|trial| trial.period_ns as f64 * 1.5 >= period_ns as f64);
        let explored = near.map(|trial| trial.clustering).fold(1.0, f64::max);
        let least = MIN_CONFIRMED.max(MIN_CONFIRMATION_NS / period_ns);
        let periods =
            search.periods(CONFIRMED_MISSES * explored, least).min(affordable(search.max_confirmation_ns, period_ns));
        let provable = event_share(0, periods, explored, INTERVAL_ALPHA);
        if provable.high >= search.max_misses {
            return Ok(Found::TooFewPeriods { period_ns, periods, provable });
        }
        let trial = self.trial(Next::Confirm { period_ns, periods })?;
        let clustering = explored.max(trial.clustering);
        let misses = event_share(trial.misses, trial.periods, clustering, INTERVAL_ALPHA);
        let is_confirmed = misses.high < search.max_misses;
        Ok(if is_confirmed {
            Found::Confirmed { period_ns, misses }
        } else {
            Found::NotConfirmed { period_ns, misses }
        })
    }

    fn trial(&mut self, missing: Next) -> Result<Trial, Next> {
        let trial = *self.trials.get(self.done).ok_or(missing)?;
        self.done += 1;
        Ok(trial)
    }
}
