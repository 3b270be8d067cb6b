//! Computes the figures of a round from its samples. This runs between rounds, so it must be fast: one pass over the
//! histogram per percentile, one partial sort of the raw columns.

use hairpin_model::round::Purpose;
use hairpin_model::summary::EARLY_EXCHANGES;
use hairpin_model::{Case, ColdStart, LinkRecord, Percentiles, RoundFigures, Samples};
use hdrhistogram::Histogram;

use crate::drops;
use crate::modes::modes;

/// The number of equal parts in the course of a round.
pub const COURSE_PARTS: usize = 10;
/// Indices of the early messages (2 to 11). They must not overlap the steady state, the last half of the messages.
const EARLY_MESSAGES: std::ops::Range<usize> = 1..11;

/// Computes the figures of one round of `case`: percentiles from the histogram, others from the raw columns.
///
/// Figures of an evidence round list every exchange, figures of a timed round only the first few. `duration_ns` is
/// the time from the first measured message to the end of the last; if it is 0, the rate is 0. `link` is the record
/// of the link between the ends, if it carried only this flow; `reliable` says whether the transport is reliable.
pub fn round_figures(
    case: &Case,
    purpose: Purpose,
    samples: &Samples,
    duration_ns: u64,
    link: Option<&LinkRecord>,
    reliable: bool,
) -> RoundFigures {
    let answered = samples.latency.len();
    // A list that grows would need twice the memory with millions of samples.
    let mut measured = Vec::with_capacity(samples.kept());
    measured.extend(samples.latencies_ns());
    let mut early: Vec<u64> =
        samples.warm_up_latencies_ns().chain(measured.iter().copied()).take(EARLY_MESSAGES.end).collect();
    let exchanges = match (case.primary().load.exchange(), purpose) {
        (_, Purpose::Traced | Purpose::Untraced) => usize::MAX,
        (Some(_), Purpose::Timed) => EARLY_EXCHANGES,
        (None, Purpose::Timed) | (_, Purpose::Stamped) => 0,
    };
    let all = samples.warm_up_latencies_ns().chain(measured.iter().copied());
    let early_exchanges_ns = all.take(exchanges).map(|latency| latency as f64).collect();
    RoundFigures {
        stamped: None,
        drops: link.and_then(|link| drops::figures(samples, link, reliable)),
        samples: answered,
        latency_ns: percentiles(&samples.latency),
        service_ns: samples.service.as_ref().map(percentiles),
        lateness_ns: samples.lateness.as_ref().map(percentiles),
        rate_per_s: if duration_ns == 0 { 0.0 } else { answered as f64 * 1e9 / duration_ns as f64 },
        cold_start: cold_start(&mut early, &measured, samples),
        course_ns: course(&mut measured),
        modes: modes(&samples.latency),
        early_exchanges_ns,
    }
}

/// Computes percentiles by nearest rank, as HdrHistogram's `value_at_quantile` does: the largest value in the bucket,
/// at most 0.1 % above the true value. All percentiles of an empty histogram are 0.
pub fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64;
    if histogram.is_empty() {
        return Percentiles::default();
    }
    Percentiles {
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max() as f64,
        mean: histogram.mean(),
    }
}

fn cold_start(early: &mut [u64], measured: &[u64], samples: &Samples) -> Option<ColdStart> {
    let warm_up = samples.warm_up_latencies_ns().count();
    let steady_from = measured.len() / 2;
    if early.len() < EARLY_MESSAGES.end || warm_up + steady_from < EARLY_MESSAGES.end {
        return None;
    }
    let first_ns = early[0] as f64;
    let early_ns = median_of(&mut early[EARLY_MESSAGES])?;
    let steady_ns = median_of(&mut measured[steady_from..].to_vec())?;
    Some(ColdStart { first_ns, early_ns, steady_ns })
}

fn course(measured: &mut [u64]) -> Vec<f64> {
    if measured.len() < COURSE_PARTS {
        return Vec::new();
    }
    let length = measured.len();
    (0..COURSE_PARTS)
        .filter_map(|part| median_of(&mut measured[part * length / COURSE_PARTS..(part + 1) * length / COURSE_PARTS]))
        .collect()
}

fn median_of(values: &mut [u64]) -> Option<f64> {
    let (upper, even) = (values.len() / 2, values.len().is_multiple_of(2));
    if values.is_empty() {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable(upper);
    let upper = *upper as f64;
    let lower = if even { below.iter().max().map_or(upper, |value| *value as f64) } else { upper };
    Some(lower.midpoint(upper))
}

#[cfg(test)]
mod tests {
    use hairpin_model::samples::{Fate, MAX_LATENCY_NS};
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{back_to_back, paced, small_writes};

    fn figures(samples: &Samples, duration_ns: u64) -> RoundFigures {
        round_figures(&Case::ping_pong("tcp"), Purpose::Timed, samples, duration_ns, None, true)
    }

    #[test]
    fn a_round_of_known_latencies_has_known_figures() {
        // 20 warm-up messages of 3 000 ns, then 1 000 messages of 1 001 to 2 000 ns.
        let latencies: Vec<u64> = (1001..=2000).collect();
        let samples = back_to_back(&[3000; 20], &latencies);
        let figures = figures(&samples, 1_500_500);
        let expected = Percentiles { p50: 1500.0, p90: 1900.0, p99: 1990.0, p999: 1999.0, max: 2000.0, mean: 1500.5 };
        assert_eq!(figures.latency_ns, expected);
        assert_eq!(figures.samples, 1000);
        assert!((figures.rate_per_s - 1000.0 * 1e9 / 1_500_500.0).abs() < 1e-6);
        assert_eq!(figures.cold_start, Some(ColdStart { first_ns: 3000.0, early_ns: 3000.0, steady_ns: 1750.5 }));
        let parts: Vec<f64> = (0..10).map(|part| 1050.5 + 100.0 * f64::from(part)).collect();
        assert_eq!(figures.course_ns, parts);
        assert_eq!((figures.service_ns, figures.lateness_ns), (None, None));
    }

    #[test]
    fn an_open_loop_has_service_time_and_lateness() {
        let figures = figures(&paced(1_000_000, &[(500, 1500); 100]), 100_000_000);
        assert_eq!(figures.latency_ns.p50, 2000.0);
        assert_eq!(figures.service_ns.map(|service| service.p50), Some(1500.0));
        assert_eq!(figures.lateness_ns.map(|lateness| lateness.p50), Some(500.0));
    }

    #[test]
    fn a_lost_message_has_no_latency_and_does_not_shift_other_messages() {
        let mut samples = back_to_back(&[], &[100; 30]);
        for row in 0..10 {
            samples.fate[row] = Fate::Lost;
        }
        let figures = figures(&samples, 1);
        assert_eq!(figures.course_ns, vec![100.0; 10]);
        assert_eq!(figures.cold_start, None, "twenty answered: their last half begins before message 12");
    }

    #[test]
    fn an_empty_round_has_no_rate_and_does_not_panic() {
        let figures = figures(&back_to_back(&[], &[]), 0);
        assert_eq!(figures, RoundFigures::default());
    }

    #[test]
    fn the_first_exchanges_are_kept_including_the_warm_up() {
        let samples = back_to_back(&[600, 44_000], &[44_001, 44_002, 44_003, 44_004, 44_005, 44_006, 44_007]);
        let timed = round_figures(&small_writes("default"), Purpose::Timed, &samples, 1, None, true);
        let early = [600.0, 44_000.0, 44_001.0, 44_002.0, 44_003.0, 44_004.0, 44_005.0, 44_006.0];
        assert_eq!(timed.early_exchanges_ns, early);
        let evidence = round_figures(&small_writes("default"), Purpose::Untraced, &samples, 1, None, true);
        assert_eq!(evidence.early_exchanges_ns, [&early[..], &[44_007.0]].concat());
        assert_eq!(figures(&samples, 1).early_exchanges_ns.len(), 0, "no exchanges in a ping-pong");
    }

    #[test]
    fn latencies_beyond_an_hour_are_an_hour() {
        // Beyond an hour by less than the width of a bucket.
        let figures = figures(&back_to_back(&[], &[3_603_477_561_344]), 1);
        let hour = MAX_LATENCY_NS as f64;
        assert!((hour..=hour * (1.0 + 1.0 / 1024.0)).contains(&figures.latency_ns.max), "{}", figures.latency_ns.max);
    }

    proptest! {
        #[test]
        fn percentiles_rise_and_stay_within_the_samples(values in proptest::collection::vec(0_u64..u64::MAX / 4, 1..200)) {
            let figures = figures(&back_to_back(&[], &values), 1).latency_ns;
            let order = [figures.p50, figures.p90, figures.p99, figures.p999, figures.max];
            prop_assert!(order.windows(2).all(|pair| pair[0] <= pair[1]), "{order:?}");
            let (least, most) = (values.iter().min().unwrap(), values.iter().max().unwrap());
            // A histogram bucket is at most 1/1024 wide.
            prop_assert!(figures.p50 >= (*least).min(MAX_LATENCY_NS) as f64);
            prop_assert!(figures.max <= (*most).clamp(1, MAX_LATENCY_NS) as f64 * (1.0 + 1.0 / 1024.0) + 1.0);
            prop_assert!(figures.mean <= figures.max && figures.mean >= 0.0);
        }

        #[test]
        fn scaled_samples_have_scaled_figures(values in proptest::collection::vec(1_000_u64..1_000_000, 25..100), scale in 2_u64..1000) {
            let plain = figures(&back_to_back(&[], &values), 1_000_000);
            let scaled: Vec<u64> = values.iter().map(|value| value * scale).collect();
            let scaled = figures(&back_to_back(&[], &scaled), 1_000_000 * scale);
            let client = |a: f64, b: f64| (a * scale as f64 / b - 1.0).abs() < 0.0025;
            prop_assert!(client(plain.latency_ns.p50, scaled.latency_ns.p50));
            prop_assert!(client(plain.latency_ns.p999, scaled.latency_ns.p999));
            prop_assert!(client(plain.latency_ns.mean, scaled.latency_ns.mean));
            prop_assert!((plain.rate_per_s / scaled.rate_per_s / scale as f64 - 1.0).abs() < 1e-9);
            for (a, b) in plain.course_ns.iter().zip(&scaled.course_ns) {
                prop_assert!((a * scale as f64 - b).abs() < 1e-6);
            }
        }
    }
}
