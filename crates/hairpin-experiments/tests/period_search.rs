//! Searches of simulated control loops whose shares of misses are known.

use hairpin_experiments::period_search::{Found, Next, PeriodSearch, Trial};
use hairpin_model::rare_events::{Blocks, clustering};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Periods of a block.
const BLOCK: u64 = 20;

/// A loop that misses its deadline if its response takes longer than the period: the share of misses at a period in units of the
/// median response is 1 / (1 + period^shape). Misses come in runs of a random length with this mean; 1 is independent misses.
#[derive(Clone, Copy, Debug)]
struct Loop {
    shape: f64,
    mean_run: f64,
}

impl Loop {
    fn share(self, period: f64) -> f64 {
        1.0 / (1.0 + period.powf(self.shape))
    }

    /// The shortest period that keeps the limit.
    fn shortest(self, max_misses: f64) -> f64 {
        (1.0 / max_misses - 1.0).powf(1.0 / self.shape)
    }

    /// Draws the misses of consecutive periods, by block.
    fn misses(self, period: f64, periods: u64, random: &mut Xoshiro256PlusPlus) -> Vec<u64> {
        let share = self.share(period);
        let ends = 1.0 / self.mean_run;
        let begins = (share * ends / (1.0 - share)).min(1.0);
        let mut blocks = vec![0; usize::try_from(periods.div_ceil(BLOCK)).unwrap()];
        let mut now = if uniform(random) < share { 0 } else { run_length(begins, random) };
        while now < periods {
            let run = if self.mean_run > 1.0 { run_length(ends, random) } else { 1 };
            for miss in now..(now + run).min(periods) {
                blocks[usize::try_from(miss / BLOCK).unwrap()] += 1;
            }
            // Runs of length 1 may follow each other.
            now += run + run_length(if self.mean_run > 1.0 { begins } else { share }, random)
                - u64::from(self.mean_run <= 1.0);
        }
        blocks
    }
}

fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Draws how many periods pass until something with this probability happens, at least 1.
fn run_length(probability: f64, random: &mut Xoshiro256PlusPlus) -> u64 {
    if probability >= 1.0 { 1 } else { (uniform(random).ln() / (-probability).ln_1p()).ceil().max(1.0) as u64 }
}

fn search(max_misses: f64) -> PeriodSearch {
    PeriodSearch { shortest_ns: 1_000_000, longest_ns: 100_000_000, max_misses, max_confirmation_ns: u64::MAX }
}

/// Runs a search of a loop whose median response is 0.77 ms; returns the result and the trials.
fn found(search: PeriodSearch, simulated: Loop, random: &mut Xoshiro256PlusPlus) -> (Found, Vec<Trial>) {
    found_by(search, |period_ns, periods| simulated.misses(period_ns as f64 / 0.77e6, periods, random))
}

/// Runs a search; `misses` draws the misses of consecutive periods, by block.
fn found_by(search: PeriodSearch, mut misses: impl FnMut(u64, u64) -> Vec<u64>) -> (Found, Vec<Trial>) {
    let mut trials = Vec::new();
    for _ in 0..200 {
        match search.next(&trials) {
            Next::Explore { period_ns, periods } | Next::Confirm { period_ns, periods } => {
                let events = &*misses(period_ns, periods);
                let clustering = clustering([Blocks { trials: BLOCK, events }]);
                trials.push(Trial { period_ns, periods, misses: events.iter().sum(), clustering });
            }
            Next::Done(found) => return (found, trials),
        }
    }
    panic!("the search does not end");
}

/// A loop with a response of 0.1 ms on a machine that stops for 1 to 4 ms, in states that last for 10 s on average: stops are
/// seldom in one and frequent in the other.
struct Stops {
    now_s: f64,
    state_ends_s: f64,
    next_s: f64,
    is_bad: bool,
    /// Stops per second in both states.
    rates_per_s: [f64; 2],
}

impl Stops {
    const RESPONSE_S: f64 = 1e-4;

    fn new(rates_per_s: [f64; 2]) -> Self {
        Self { now_s: 0.0, state_ends_s: 0.0, next_s: 0.0, is_bad: false, rates_per_s }
    }

    fn misses(&mut self, period_s: f64, periods: u64, random: &mut Xoshiro256PlusPlus) -> Vec<u64> {
        let mut blocks = vec![0; usize::try_from(periods.div_ceil(BLOCK)).unwrap()];
        let (began_s, ends_s) = (self.now_s, self.now_s + periods as f64 * period_s);
        while self.now_s < ends_s {
            if self.now_s >= self.state_ends_s {
                self.is_bad = !self.is_bad;
                self.state_ends_s = self.now_s - 10.0 * uniform(random).ln();
                self.next_s = self.now_s - uniform(random).ln() / self.rates_per_s[usize::from(self.is_bad)];
            }
            if self.next_s > self.state_ends_s.min(ends_s) {
                self.now_s = self.state_ends_s.min(ends_s);
                continue;
            }
            let stop_s = 0.001 + 0.003 * uniform(random);
            // Releases from this time on, up to the last one whose cycle ends too late.
            let from_s = self.next_s - began_s;
            let until_s = from_s + stop_s + Self::RESPONSE_S - period_s;
            for release in (from_s / period_s).ceil() as u64..=(until_s / period_s).max(0.0) as u64 {
                if let Some(block) = blocks.get_mut(usize::try_from(release / BLOCK).unwrap()) {
                    *block += 1;
                }
            }
            self.now_s = self.next_s;
            self.next_s = self.now_s + stop_s - uniform(random).ln() / self.rates_per_s[usize::from(self.is_bad)];
        }
        blocks
    }

    /// The share of misses in 1 000 s.
    fn share(&self, period_s: f64, random: &mut Xoshiro256PlusPlus) -> f64 {
        let periods = (1_000.0 / period_s) as u64;
        Self::new(self.rates_per_s).misses(period_s, periods, random).iter().sum::<u64>() as f64 / periods as f64
    }
}

#[test]
fn a_machine_that_stops_in_states_of_seconds_gets_a_period_that_holds() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(6);
    let (mut searches, mut confirmed, mut broken) = (0, 0, 0);
    for max_misses in [0.001, 0.01] {
        for rates_per_s in [[0.3, 3.0], [0.1, 10.0], [2.0, 4.0]] {
            let search =
                PeriodSearch { shortest_ns: 100_000, max_confirmation_ns: 120_000_000_000, ..search(max_misses) };
            for _ in 0..50 {
                searches += 1;
                let mut stops = Stops::new(rates_per_s);
                let misses = |period_ns, periods| stops.misses(period_ns as f64 / 1e9, periods, &mut random);
                if let (Found::Confirmed { period_ns, .. }, _) = found_by(search, misses) {
                    confirmed += 1;
                    broken += u32::from(stops.share(period_ns as f64 / 1e9, &mut random) > max_misses);
                }
            }
        }
    }
    assert!(10 * confirmed >= 7 * searches, "{confirmed} of {searches} were confirmed");
    assert!(20 * broken <= searches, "{broken} of {searches} confirmed a period that does not hold");
}

#[test]
fn a_simulated_loop_misses_as_often_as_it_says() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    for mean_run in [1.0, 4.0] {
        let simulated = Loop { shape: 6.0, mean_run };
        let misses: u64 = simulated.misses(2.0, 2_000_000, &mut random).iter().sum();
        let ratio = misses as f64 / 2e6 / simulated.share(2.0);
        assert!((0.95..1.05).contains(&ratio), "{mean_run}: {ratio}");
    }
}

#[test]
fn at_most_5_percent_of_1000_searches_break_their_promise_and_the_median_is_near_the_truth() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(44);
    let (mut searches, mut broken, mut ratios) = (0, 0, Vec::new());
    for max_misses in [0.001, 0.01] {
        for (shape, mean_run) in [(6.0, 1.0), (12.0, 1.0), (12.0, 3.0), (12.0, 10.0), (12.0, 30.0)] {
            let simulated = Loop { shape, mean_run };
            let before = broken;
            for _ in 0..100 {
                searches += 1;
                if let (Found::Confirmed { period_ns, .. }, _) = found(search(max_misses), simulated, &mut random) {
                    let period = period_ns as f64 / 0.77e6;
                    broken += u32::from(simulated.share(period) > max_misses);
                    ratios.push(period / simulated.shortest(max_misses));
                }
            }
            assert!(broken - before <= 5, "{} of 100 searches of {simulated:?} at {max_misses}", broken - before);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    assert_eq!(searches, 1000);
    assert!(broken <= 50, "{broken} of 1000 confirmed a period that does not hold");
    assert!(median <= 1.25, "{median}");
    assert!(ratios.len() >= 950, "{} of 1000 were confirmed", ratios.len());
}

#[test]
fn a_confirmation_that_cannot_show_the_limit_says_what_it_could_show() {
    let short = PeriodSearch { max_confirmation_ns: 1_000_000_000, ..search(0.001) };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (found, trials) = found(short, Loop { shape: 24.0, mean_run: 1.0 }, &mut random);
    let Found::TooFewPeriods { period_ns, periods, provable } = found else { panic!("{found:?}") };
    assert_eq!(periods, 1_000_000_000 / period_ns);
    // Independent periods without a miss show 1 - 0.025^(1/n); clusters, less.
    let independent = 1.0 - 0.025_f64.powf(1.0 / periods as f64);
    assert!((0.999 * independent..2.0 * independent).contains(&provable.high), "{provable:?}");
    assert!(provable.high > 0.001);
    assert!(trials.iter().all(|trial| trial.period_ns <= period_ns * 2));
}

#[test]
fn the_announced_periods_without_a_miss_confirm_and_one_fewer_does_not() {
    let confirming = search(0.001).confirming_periods();
    assert_eq!(confirming, 3688);
    let shown = |periods| hairpin_model::rare_events::event_share(0, periods, 1.0, 0.05).high;
    assert!(shown(confirming) <= 0.001 && shown(confirming - 1) > 0.001);
}

#[test]
fn a_loop_that_always_misses_has_no_period() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let (found, trials) = found(search(0.01), Loop { shape: 0.001, mean_run: 1.0 }, &mut random);
    assert_eq!(found, Found::NoneHolds);
    assert_eq!(trials.last().unwrap().period_ns, 100_000_000);
    assert!(trials.iter().all(|trial| trial.periods <= 120), "a first look is enough");
}

#[test]
fn the_same_trials_give_the_same_search() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let (_, trials) = found(search(0.01), Loop { shape: 12.0, mean_run: 3.0 }, &mut random);
    for (done, trial) in trials.iter().enumerate() {
        let (Next::Explore { period_ns, periods } | Next::Confirm { period_ns, periods }) =
            search(0.01).next(&trials[..done])
        else {
            panic!("the search ended after {done} trials");
        };
        assert_eq!((period_ns, periods), (trial.period_ns, trial.periods));
    }
}

#[test]
fn no_trial_takes_longer_than_a_confirmation_may() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
    for max_misses in [0.001, 1e-9, 1e-300] {
        let short = PeriodSearch { max_confirmation_ns: 1_000_000_000, ..search(max_misses) };
        let (_, trials) = found(short, Loop { shape: 12.0, mean_run: 1.0 }, &mut random);
        let longest_ns = trials.iter().map(|trial| trial.periods * trial.period_ns).max();
        assert!(longest_ns <= Some(1_000_000_000), "{max_misses}: {longest_ns:?}");
    }
    let endless = PeriodSearch { shortest_ns: 1_000, ..search(1e-300) };
    assert_eq!(endless.next(&[]), Next::Explore { period_ns: 1_000, periods: 100_000_000 });
}
