//! Figures that only exchanges have: first exchanges, throughput, counts per exchange, and the speed-up.

use hairpin_model::summary::EARLY_EXCHANGES;
use hairpin_model::{Case, CaseSummary, ExchangeCounts, ExchangeFigures, Figure, Flow, LatencyFigures, Remedy};

use crate::compare::{as_ratio, difference_by_block, logarithms_by_block, over_points};
use crate::over_rounds::OverRounds;

/// Computes the figures of exchanges over the measured rounds of a flow; `None` for other loads. The speed-up needs the
/// other cases: see [`fill_speed_ups`].
pub(crate) fn figures(flow: &Flow, rounds: &OverRounds<'_>, latency_ns: LatencyFigures) -> Option<ExchangeFigures> {
    flow.load.exchange()?;
    let each = |of: fn(&ExchangeCounts) -> Option<u64>| {
        rounds.median(|measured| {
            let counts = measured.primary().exchange_counts.filter(|counts| counts.exchanges > 0)?;
            Some(of(&counts)? as f64 / counts.exchanges as f64)
        })
    };
    let early: Vec<Figure> = (0..EARLY_EXCHANGES)
        .map_while(|place| {
            rounds.median(|measured| measured.primary().figures.early_exchanges_ns.get(place).copied())
        })
        .collect();
    Some(ExchangeFigures {
        exchange_ns: latency_ns,
        first_exchange_ns: early.first().copied(),
        early_exchanges_ns: early,
        bytes_per_ms: rounds
            .median(|measured| Some(measured.primary().figures.rate_per_s * flow.load.size_bytes() as f64 / 1e3)),
        segments_per_exchange: each(|counts| counts.segments),
        pure_acks_per_exchange: each(|counts| counts.pure_acks),
        system_calls_per_exchange: each(|counts| Some(counts.system_calls)),
        speed_up_against_default: None,
    })
}

/// Sets each case's ratio of bytes/ms to that of the same case with the remedy `default`, paired by block like
/// comparisons. Both cases write requests of the same size, so this is also the ratio of exchanges per second.
pub(crate) fn fill_speed_ups(cases: &mut [CaseSummary], alpha: f64) {
    let speed_ups: Vec<Option<Figure>> = cases.iter().map(|case| speed_up(case, cases, alpha)).collect();
    for (case, speed_up) in cases.iter_mut().zip(speed_ups) {
        if let Some(exchanges) = &mut case.primary_mut().exchanges {
            exchanges.speed_up_against_default = speed_up;
        }
    }
}

fn speed_up(case: &CaseSummary, cases: &[CaseSummary], alpha: f64) -> Option<Figure> {
    let exchange = case.case.primary().load.exchange().filter(|exchange| exchange.remedy != Remedy::Default)?;
    let sibling = with_remedy(&case.case.without_replicate(), Remedy::Default);
    // A remedy that merges writes skips pauses of `gap`, so the skipped pauses would count as its speed-up.
    if exchange.pauses_left().is_some() {
        return None;
    }
    let baseline = cases.iter().find(|other| other.case == sibling && other.valid).filter(|_| case.valid)?;
    let rates = |of: &CaseSummary| {
        let points = of.round_points.iter().filter(|point| point.rate_per_s > 0.0);
        logarithms_by_block(points.map(|point| (point.block, point.rate_per_s)))
    };
    let (ratio, _) = difference_by_block(&rates(baseline), &rates(case), over_points(case, alpha))?;
    Some(as_ratio(ratio.figure(alpha)))
}

pub(crate) fn with_remedy(case: &Case, remedy: Remedy) -> Case {
    case.clone().with(|changed| {
        if let Some(exchange) = changed.primary_mut().load.exchange_mut() {
            exchange.remedy = remedy;
        }
    })
}

#[cfg(test)]
mod tests {
    use hairpin_model::round::Purpose;
    use hairpin_model::{Invalid, Measured};

    use super::*;
    use crate::fixture::links::over;
    use crate::fixture::{Fixture, back_to_back, small_writes};

    fn counted(measured: &mut Measured) {
        measured.primary_mut().exchange_counts =
            Some(ExchangeCounts { exchanges: 100, segments: Some(300), pure_acks: Some(100), system_calls: 10_100 });
    }

    #[test]
    fn counts_per_exchange_and_the_speed_up_in_bytes() {
        let mut fixture = Fixture::new();
        let slow: Vec<u64> = [2, 5, 0, 3, 1, 4].map(|k| 44_000_000 + k * 10_000).to_vec();
        let fast: Vec<u64> = slow.iter().map(|latency| latency / 100).collect();
        fixture.rounds_with(&small_writes("default"), &slow, counted);
        fixture.rounds_with(&small_writes("nodelay"), &fast, counted);
        fixture.rounds_of(&Case::ping_pong("tcp"), &[10_000; 6]);
        let run = fixture.run();
        let [baseline, nodelay, ping_pong] = &run.cases[..] else { panic!("three cases") };
        assert_eq!(ping_pong.primary().exchanges, None);
        let baseline = baseline.primary().exchanges.as_ref().unwrap();
        assert_eq!(baseline.segments_per_exchange.unwrap().value, 3.0);
        assert_eq!(baseline.pure_acks_per_exchange.unwrap().value, 1.0);
        assert_eq!(baseline.system_calls_per_exchange.unwrap().value, 101.0);
        // 200 bytes in 44.025 ms.
        assert!((baseline.bytes_per_ms.unwrap().value - 200.0 / 44.025).abs() < 0.001, "{:?}", baseline.bytes_per_ms);
        assert_eq!((baseline.speed_up_against_default, baseline.early_exchanges_ns.len()), (None, EARLY_EXCHANGES));
        assert_eq!(baseline.first_exchange_ns.unwrap().value, 44_025_000.0);
        let speed_up = nodelay.primary().exchanges.as_ref().unwrap().speed_up_against_default.unwrap();
        assert!((speed_up.value - 100.0).abs() < 0.01, "{speed_up:?}");
        assert!(speed_up.low.unwrap() > 99.0 && speed_up.high.unwrap() < 101.0, "paired: {speed_up:?}");
    }

    #[test]
    fn a_remedy_that_skips_pauses_has_no_speed_up() {
        let gap = |remedy: &str, gap_ns| {
            let case = small_writes(remedy);
            case.with(|case| case.primary_mut().load.exchange_mut().unwrap().gap_ns = gap_ns)
        };
        for (gap_ns, fair) in [(0, [true; 3]), (1_000_000, [true, false, false])] {
            let mut fixture = Fixture::new();
            for remedy in ["default", "nodelay", "one-write", "batch=10"] {
                fixture.rounds_of(&gap(remedy, gap_ns), &[44_000_000; 6]);
            }
            let speed_up =
                |case: &CaseSummary| case.primary().exchanges.as_ref().unwrap().speed_up_against_default.is_some();
            assert_eq!(fixture.run().cases[1..].iter().map(speed_up).collect::<Vec<_>>(), fair, "{gap_ns}");
        }
    }

    #[test]
    fn the_speed_up_compares_exchanges_of_equal_sizes() {
        let answered = |remedy: &str, reply_size_bytes| {
            small_writes(remedy).with(|case| case.primary_mut().load.set_sizes(0, reply_size_bytes))
        };
        let mut fixture = Fixture::new();
        for (reply_size_bytes, slow) in [(1, 44_000_000), (4, 10_000_000), (8, 80_000_000)] {
            fixture.rounds_of(&answered("default", reply_size_bytes), &[slow; 6]);
            fixture.rounds_of(&answered("nodelay", reply_size_bytes), &[1_000_000; 6]);
        }
        let run = fixture.run();
        let speed_up = |case: &CaseSummary| Some(case.speed_up()?.value.round());
        let speed_ups: Vec<Option<f64>> = run.cases.iter().map(speed_up).collect();
        assert_eq!(speed_ups, [None, Some(44.0), None, Some(10.0), None, Some(80.0)]);
    }

    #[test]
    fn the_speed_up_compares_cases_over_the_same_link() {
        let mut fixture = Fixture::new();
        let links = ["loopback", "delay=2ms", "delay=20ms"];
        for (link, slow) in links.iter().zip([44_000_000, 10_000_000, 80_000_000]) {
            fixture.rounds_of(&over(link, small_writes("default")), &[slow; 6]);
        }
        fixture.rounds_of(&over("delay=2ms", small_writes("nodelay")), &[4_000_000; 6]);
        fixture.rounds_of(&over("delay=5ms", small_writes("nodelay")), &[10_000_000; 6]);
        let run = fixture.run();
        let speed_up = |place: usize| run.cases[place].primary().exchanges.as_ref().unwrap().speed_up_against_default;
        assert!((speed_up(3).unwrap().value - 2.5).abs() < 0.001, "{:?}", speed_up(3));
        assert_eq!(speed_up(4), None, "no case with default options over that link");
    }

    #[test]
    fn only_timed_rounds_count_and_only_their_failures_invalidate_a_case() {
        let case = small_writes("default");
        let mut fixture = Fixture::new();
        fixture.round(&case, 0, &back_to_back(&[], &[1_000_000; 10]));
        fixture.purpose = Purpose::Traced;
        fixture.round(&case, 0, &back_to_back(&[], &[9_000_000; 10]));
        fixture.failed(&case, 0, "the capture's interface is gone");
        let run = fixture.run();
        let summary = &run.cases[0];
        assert_eq!(
            (summary.rounds, summary.primary().samples, summary.primary().curve.last().unwrap().latency_ns),
            (1, 10, 1_000_447.0)
        );
        assert_eq!(summary.failed_rounds, ["round 2 (traced): the capture's interface is gone (hint: none)"]);
        assert!(summary.valid, "{:?}", summary.reasons);
    }

    #[test]
    fn a_case_whose_only_good_rounds_are_evidence_is_invalid() {
        let case = small_writes("default");
        let mut fixture = Fixture::new();
        fixture.failed(&case, 0, "the server is gone");
        fixture.purpose = Purpose::Untraced;
        fixture.round(&case, 0, &back_to_back(&[], &[9_000_000; 10]));
        fixture.failed(&case, 1, "the server is gone");
        assert_eq!(fixture.run().cases[0].reasons, [Invalid::NotMeasured { failed_rounds: 1 }]);
    }
}
