//! A control loop: what it does in each period, and the counts of one round.

use serde::{Deserialize, Serialize};

use crate::distribution::LatencyFigures;
use crate::fields::is_default;
use crate::figure::Figure;

use crate::quantities::exact_duration;
use crate::rare_events::Blocks;
use crate::words;

words! {
    /// What a loop does after a cycle that ended later than the next release.
    #[derive(Default)]
    pub enum Overrun: "overrun" {
        /// Omits the releases that have passed, each of which is a miss, and waits for the next one.
        #[default]
        Skip = "skip",
        /// Runs the cycles of all releases that have passed, one after another without waiting.
        CatchUp = "catch-up",
    }

    /// How a loop waits for its next release.
    #[derive(Default)]
    pub enum Timing: "timing" {
        /// nanosleep(2) for the time that is left.
        Sleep = "sleep",
        /// clock_nanosleep(2) until an absolute time (`TIMER_ABSTIME`).
        #[default]
        Absolute = "absolute",
        /// Reads a timer (timerfd_create(2)) set to an absolute time.
        Timerfd = "timerfd",
        Spin = "spin",
        /// Sleeps until 60 us before the release, then polls the clock.
        SleepSpin = "sleep+spin",
    }
}

impl Timing {
    /// Whether the loop keeps its CPU busy during the whole wait.
    pub fn keeps_cpu(self) -> bool {
        self == Self::Spin
    }
}

words! {
    /// Other work on the CPUs of a control loop, as flows of the round.
    #[derive(Default)]
    pub enum BackgroundLoad: "load" {
        #[default]
        None = "none",
        /// A thread that never sleeps on each CPU of the ends.
        Cpu = "cpu",
        /// A stream at full speed between two processes on the CPUs of the ends.
        Net = "net",
        Both = "both",
    }
}

impl BackgroundLoad {
    pub fn flows(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Cpu => &["cpu"],
            Self::Net => &["net"],
            Self::Both => &["cpu", "net"],
        }
    }
}

/// Shortest period: a wait by any timer of the kernel takes longer.
pub const MIN_PERIOD_NS: u64 = 1_000;
/// Longest period: an hour.
pub const MAX_PERIOD_NS: u64 = 3_600_000_000_000;

/// A control loop: every period it polls each connection once, one after another, and awaits each answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Periodic {
    /// Time between two releases, in ns. Release k is due k periods after the first.
    pub period_ns: u64,
    /// Time from a release within which the last answer must have arrived, in ns; at most the period.
    pub deadline_ns: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub overrun: Overrun,
    #[serde(default, skip_serializing_if = "is_default")]
    pub timing: Timing,
    /// Whether measured cycles send nothing: only the wait for the release is measured.
    #[serde(default, skip_serializing_if = "is_default")]
    pub only_waits: bool,
}

impl Periodic {
    /// The period, and settings that are not defaults, a word or two each.
    pub fn details(&self) -> Vec<String> {
        let mut words = vec![format!("every {}", exact_duration(self.period_ns))];
        let has_own_deadline = self.deadline_ns != self.period_ns;
        words.extend(has_own_deadline.then(|| format!("deadline {}", exact_duration(self.deadline_ns))));
        words.extend((self.overrun != Overrun::Skip).then(|| self.overrun.to_string()));
        words.extend((self.timing != Timing::Absolute).then(|| self.timing.to_string()));
        words.extend(self.only_waits.then(|| "no messages".to_owned()));
        words
    }
}

/// Number of blocks in which a round's misses are counted at most; a power of two.
pub const MAX_MISS_BLOCKS: usize = 256;

/// Counts of a control loop in one round, after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PeriodicCounts {
    /// Releases, including omitted ones.
    pub periods: u64,
    /// Periods without a complete answer by their deadline, including omitted releases.
    pub misses: u64,
    /// Releases omitted because an earlier cycle had not ended.
    pub skipped: u64,
    /// Most consecutive misses.
    pub longest_miss_run: u64,
    /// Number of consecutive periods in each block of `misses_by_block`; the last block may have fewer.
    pub block_periods: u64,
    /// Misses in each block, in order; at most [`MAX_MISS_BLOCKS`] blocks.
    pub misses_by_block: Vec<u64>,
}

impl PeriodicCounts {
    /// Counts of no periods, with room for all blocks.
    pub fn with_room() -> Self {
        Self { block_periods: 1, misses_by_block: Vec::with_capacity(MAX_MISS_BLOCKS), ..Self::default() }
    }

    /// The complete blocks.
    pub fn blocks(&self) -> Blocks<'_> {
        let complete = self.periods.checked_div(self.block_periods).unwrap_or(0);
        let complete = usize::try_from(complete).unwrap_or(usize::MAX).min(self.misses_by_block.len());
        Blocks { trials: self.block_periods, events: &self.misses_by_block[..complete] }
    }

    /// Share of missed periods, 0 to 1; 0 without periods.
    pub fn miss_share(&self) -> f64 {
        if self.periods == 0 { 0.0 } else { self.misses as f64 / self.periods as f64 }
    }
}

/// A search of the shortest period at which few enough deadlines are missed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PeriodSearchPlan {
    pub shortest_ns: u64,
    pub longest_ns: u64,
    /// Limit of the share of missed deadlines, above 0 and below 1.
    pub max_misses: f64,
    /// Fewest periods, without a miss, that confirm a period.
    pub confirming_periods: u64,
    /// Longest time of a confirmation, in ns.
    pub max_confirmation_ns: u64,
}

words! {
    /// How a search for the shortest period ended.
    #[derive(Default)]
    pub enum SearchEnd: "end" {
        /// On fresh data the interval of the share of misses is below the limit.
        Confirmed = "confirmed",
        /// It is not, although exploration suggested so.
        NotConfirmed = "not-confirmed",
        /// The time is too short to show the limit; `misses.high` is the smallest share that it can show.
        TooFewPeriods = "too-few-periods",
        /// The loop misses more deadlines even at the longest period.
        NoneHolds = "none-holds",
        /// The search was interrupted, or rounds failed.
        #[default]
        Incomplete = "incomplete",
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct FoundPeriod {
    /// The identity of the case with the period; null without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The shortest period that holds, or the last candidate if `confirmed` is false; null without one.
    pub smallest_period_ns: Option<u64>,
    /// Share of missed deadlines in the confirmation, with its interval by blocks of periods.
    pub misses: Option<Figure>,
    /// Periods of the confirmation.
    pub periods: u64,
    /// Limit of the share of missed deadlines.
    pub max_misses: f64,
    /// Probability that a search does not confirm a period that misses more.
    pub confidence: f64,
    pub confirmed: bool,
    pub end: SearchEnd,
    /// Release jitter at the period, over all rounds.
    pub release_jitter_ns: Option<LatencyFigures>,
    /// Response time at the period, over all rounds.
    pub response_ns: Option<LatencyFigures>,
    /// Most consecutive misses at the period in one round.
    pub longest_miss_run: u64,
}

/// Figures of a control loop over the rounds of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PeriodicFigures {
    /// Time from a release until the loop was awake: the case's `lateness_ns`.
    pub release_jitter_ns: LatencyFigures,
    /// Time from a release to the last answer: the case's `latency_ns`.
    pub response_ns: LatencyFigures,
    /// 99.99th percentile of all response times, in ns; null below 100 000 samples.
    pub response_p9999_ns: Option<f64>,
    /// The same of the release jitter.
    pub release_jitter_p9999_ns: Option<f64>,
    /// Releases over all rounds.
    pub periods: u64,
    /// Missed deadlines over all rounds.
    pub misses: u64,
    /// Omitted releases over all rounds; each is a miss.
    pub skipped: u64,
    /// Most consecutive misses of a round.
    pub longest_miss_run: u64,
    /// Share of missed periods over all rounds, 0 to 1, with its interval by blocks of periods.
    pub miss_share: Option<Figure>,
    /// Number of independent periods that tell as much about the share.
    pub effective_periods: f64,
    /// Times that the client slept per period (voluntary context switches).
    pub wake_ups_per_period: Option<Figure>,
}
