//! How often a rare event happens, such as a missed deadline, if events cluster.

/// How often an event happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventShare {
    /// Events per trial, 0 to 1.
    pub value: f64,
    /// Bounds of the interval of the share.
    pub low: f64,
    pub high: f64,
    /// Number of independent trials that tell as much about the share as these trials do.
    pub effective_trials: f64,
}

/// Returns the share of `trials` that are events, with its interval at confidence 1 - `alpha`.
///
/// `clustering` is the ratio of the variance of the number of events to its variance if they were independent, at least 1: see
/// [`clustering`]. Both the events and the trials count divided by it.
pub fn event_share(events: u64, trials: u64, clustering: f64, alpha: f64) -> EventShare {
    let effective_trials = trials as f64 / clustering.max(1.0);
    let [low, high] = binomial_interval(events as f64 / clustering.max(1.0), effective_trials, alpha);
    EventShare { value: events as f64 / trials.max(1) as f64, low, high, effective_trials }
}

/// Numbers of events in consecutive blocks.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'b> {
    /// Trials of each block.
    pub trials: u64,
    pub events: &'b [u64],
}

/// Estimates by how much events cluster, at least 1, from their numbers in blocks.
///
/// Blocks that follow each other are merged to ever longer blocks, to whole sequences at last; the result is the largest ratio of
/// any length that leaves [`MIN_BLOCKS`] blocks. With fewer blocks or fewer than two events nothing is known about clusters, and
/// the result is 1.
pub fn clustering<'b>(sequences: impl IntoIterator<Item = Blocks<'b>>) -> f64 {
    let sequences: Vec<Blocks<'_>> = sequences.into_iter().filter(|blocks| !blocks.events.is_empty()).collect();
    // A saved run may have any numbers.
    let all = |blocks: &Blocks<'_>| blocks.trials.saturating_mul(blocks.events.len() as u64);
    let longest = sequences.iter().map(all).max().unwrap_or(0);
    let shortest = sequences.iter().map(|blocks| blocks.trials).max().unwrap_or(1).max(1);
    let lengths = std::iter::successors(Some(shortest), |trials| trials.checked_mul(2));
    let lengths = lengths.take_while(|trials| *trials < longest);
    lengths.chain([longest]).filter_map(|trials| dispersion(&sequences, trials)).fold(1.0, f64::max)
}

/// Fewest blocks whose variance is compared.
pub const MIN_BLOCKS: usize = 10;

/// Variance of the numbers of events in blocks of `trials` over that of independent events.
fn dispersion(sequences: &[Blocks<'_>], trials: u64) -> Option<f64> {
    let merged = sequences.iter().flat_map(|blocks| {
        let merged = usize::try_from(trials / blocks.trials.max(1)).unwrap_or(usize::MAX).max(1);
        blocks.events.chunks_exact(merged)
    });
    let counts: Vec<f64> = merged.map(|block| block.iter().map(|events| *events as f64).sum()).collect();
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let share = mean / trials as f64;
    if counts.len() < MIN_BLOCKS || mean * (counts.len() as f64) < 2.0 || share >= 1.0 {
        return None;
    }
    let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
    Some(squares / (counts.len() - 1) as f64 / (mean * (1.0 - share)))
}

/// Returns the interval of a share of which `successes` of `trials` are an estimate, at confidence 1 - `alpha` (Clopper and Pearson,
/// Biometrika 26, 1934). Both may be fractions, as effective numbers are.
pub fn binomial_interval(successes: f64, trials: f64, alpha: f64) -> [f64; 2] {
    let failures = (trials - successes).max(0.0);
    let low = if successes <= 0.0 { 0.0 } else { beta_quantile(alpha / 2.0, successes, failures + 1.0) };
    let high = if failures <= 0.0 { 1.0 } else { beta_quantile(1.0 - alpha / 2.0, successes + 1.0, failures) };
    [low, high]
}

fn beta_quantile(probability: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        *if beta_cdf(middle, a, b) < probability { &mut low } else { &mut high } = middle;
    }
    0.5 * (low + high)
}

/// The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22).
fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_cdf(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    // Evaluated from the front (Lentz, Applied Optics 15, 1976).
    let not_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut fraction, mut c, mut d) = (1.0, 1.0, 0.0);
    for step in 0..MAX_STEPS {
        let m = f64::from(step / 2);
        let term = match step {
            0 => 1.0,
            _ if step % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 / not_zero(1.0 + term * d);
        c = not_zero(1.0 + term / c);
        fraction *= c * d;
        if step > 0 && (1.0 - c * d).abs() < 1e-12 {
            break;
        }
    }
    front * (fraction - 1.0)
}

/// Bounds the evaluation; arguments of 10^8 need some thousands.
const MAX_STEPS: u32 = 100_000;

/// Stirling's series (DLMF 5.11.1), for arguments above 0.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(successes: u32, trials: u32, alpha: f64) -> [f64; 2] {
        binomial_interval(f64::from(successes), f64::from(trials), alpha)
    }

    #[test]
    fn binomial_intervals_equal_those_of_clopper_and_pearson() {
        for (successes, trials, alpha, [low, high]) in [
            (0, 10, 0.05, [0.0, 0.308_497]),
            (10, 10, 0.05, [0.691_503, 1.0]),
            (5, 10, 0.05, [0.187_086, 0.812_914]),
            (1, 10, 0.05, [0.002_529, 0.445_016]),
            (8, 10, 0.05, [0.443_905, 0.974_789]),
            (0, 1, 0.05, [0.0, 0.975]),
            (10, 10, 0.025, [0.645_195, 1.0]),
            // As many rounds as the command line accepts.
            (10_000, 10_000, 0.05, [0.999_631, 1.0]),
            (0, 10_000, 0.05, [0.0, 0.000_369]),
            (9_000, 10_000, 0.05, [0.893_953, 0.905_813]),
        ] {
            let [is_low, is_high] = binomial_interval(f64::from(successes), f64::from(trials), alpha);
            let differs = (is_low - low).abs().max((is_high - high).abs());
            assert!(differs < 1e-6, "{successes} of {trials}: {is_low} to {is_high}");
        }
        assert_eq!(binomial_interval(0.0, 0.0, 0.05), [0.0, 1.0], "nothing is known without a trial");
    }

    #[test]
    fn a_binomial_interval_covers_its_share_and_narrows_with_trials() {
        let mut width = 1.0;
        for trials in [4, 10, 40, 400, 4000] {
            let [low, high] = interval(trials / 2, trials, 0.05);
            assert!(low < 0.5 && 0.5 < high && high - low < width && (low + high - 1.0).abs() < 1e-9, "{trials}");
            width = high - low;
            for successes in 0..=trials.min(40) {
                let [low, high] = interval(successes, trials, 0.05);
                let [mirrored_low, mirrored_high] = interval(trials - successes, trials, 0.05);
                assert!((low + mirrored_high - 1.0).abs() < 1e-9 && (high + mirrored_low - 1.0).abs() < 1e-9);
                let [wider_low, wider_high] = interval(successes, trials, 0.01);
                assert!(wider_low <= low && high <= wider_high, "{successes} of {trials}");
            }
        }
    }

    fn clustering_of(events: &[u64], trials: u64) -> f64 {
        clustering([Blocks { trials, events }])
    }

    #[test]
    fn events_in_clusters_of_ten_count_a_tenth() {
        // 20 clusters of 10 events in 200 blocks of 50 trials, none next to another.
        let blocks: Vec<u64> = (0..200).map(|block| if block % 10 == 7 { 10 } else { 0 }).collect();
        let by_clusters = clustering_of(&blocks, 50);
        assert!((8.0..12.0).contains(&by_clusters), "{by_clusters}");
        let (share, independent) = (event_share(200, 10_000, 10.0, 0.05), event_share(20, 1_000, 1.0, 0.05));
        assert_eq!((share.low, share.high, share.effective_trials), (independent.low, independent.high, 1_000.0));
        assert!((share.value - 0.02).abs() < 1e-12);
    }

    #[test]
    fn clusters_longer_than_a_block_show_in_longer_blocks() {
        // 4 runs of 100 consecutive events in 10 000 trials: the ratio approaches 100.
        let blocks: Vec<u64> = (0..1_000).map(|block| if block % 250 < 10 { 10 } else { 0 }).collect();
        let by_clusters = clustering_of(&blocks, 10);
        assert!((60.0..140.0).contains(&by_clusters), "{by_clusters}");
        assert!(clustering(blocks.chunks(500).map(|events| Blocks { trials: 10, events })) > 60.0);
    }

    #[test]
    fn rounds_that_differ_cluster_even_if_events_within_a_round_do_not() {
        let rounds: Vec<Vec<u64>> = (0..20).map(|round| vec![u64::from(round % 10 == 0); 30]).collect();
        let by_rounds = clustering(rounds.iter().map(|events| Blocks { trials: 32, events }));
        assert!(by_rounds > 20.0, "{by_rounds}");
    }

    #[test]
    fn no_numbers_of_a_saved_run_overflow() {
        for trials in [0, 1, u64::MAX / 2, u64::MAX] {
            let by_clusters = clustering_of(&[u64::MAX; 30], trials);
            assert!(by_clusters >= 1.0, "{trials}: {by_clusters}");
        }
        let share = event_share(u64::MAX, 1, 1.0, 0.05);
        assert!((0.0..=1.0).contains(&share.low) && share.high == 1.0, "{share:?}");
    }

    #[test]
    fn nothing_is_known_about_clusters_of_few_events_or_blocks() {
        assert_eq!(clustering_of(&[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0], 10), 1.0);
        assert_eq!(clustering_of(&[5, 0, 9], 10), 1.0);
        assert_eq!(clustering_of(&[], 10), 1.0);
        assert_eq!(clustering_of(&[10; 20], 10), 1.0, "all trials are events");
    }
}
