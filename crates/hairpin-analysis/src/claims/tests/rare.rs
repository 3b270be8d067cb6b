//! The shortest period of a search, the probability of exceeding a bound, and figures of a loop that only waits.

use hairpin_model::figure::NoInterval;
use hairpin_model::{Exceeds, Fact, FoundPeriod, PeriodSearchPlan, PeriodicCounts, fact_names};

use super::*;
use crate::fixture::control_loop;

/// A control loop with this period.
fn every(period_ns: u64) -> Case {
    control_loop().with(|case| {
        let own = case.primary_mut().load.periodic_mut().unwrap();
        (own.period_ns, own.deadline_ns) = (period_ns, period_ns);
    })
}

/// A search from 0.1 ms on. Each trial has 4000 periods and a number of misses, equal in each block of 40 periods; the last one
/// is the confirmation.
fn search(trials: &[(u64, u64)], confirmed: bool) -> Run {
    let mut fixture = Fixture::new();
    for (block, (period_ns, misses)) in (0..).zip(trials) {
        fixture.round_with(&every(*period_ns), block, &paced(*period_ns, &[(0, 40 * US); 100]), |measured| {
            measured.primary_mut().periodic = Some(PeriodicCounts {
                periods: 4_000,
                misses: *misses,
                block_periods: 40,
                misses_by_block: (0..100).map(|block| misses * (block + 1) / 100 - misses * block / 100).collect(),
                ..PeriodicCounts::default()
            });
        });
    }
    let mut run = fixture.run();
    let (period_ns, _) = *trials.last().unwrap();
    run.plan.period_search = Some(PeriodSearchPlan {
        shortest_ns: 100 * US,
        longest_ns: 100 * MS,
        max_misses: 0.01,
        confirming_periods: 368,
        max_confirmation_ns: 20_000 * MS,
    });
    run.periodic = Some(FoundPeriod {
        case: Some(every(period_ns).id()),
        smallest_period_ns: Some(period_ns),
        max_misses: 0.01,
        confirmed,
        ..FoundPeriod::default()
    });
    run
}

fn at_most(run: &Run, ms: f64) -> Judgement {
    let rule = json!({"kind": "at-most", "of": {"figure": "smallest-period", "case": case("tcp")}});
    judged(run, &json!({"value": ms, "unit": "ms"}), &rule)
}

#[test]
fn a_found_period_is_between_the_longest_that_fails_and_the_one_that_holds() {
    let run = search(&[(MS / 2, 4_000), (MS, 200), (3 * MS, 10), (2 * MS, 45), (3 * MS, 12)], true);
    let found = at_most(&run, 5.0);
    let measured = found.measured.unwrap();
    assert_eq!((measured.value, measured.interval()), (3.0, Some((1.0, 3.0))), "45 of 4000 may be 1 %");
    assert_eq!(found.verdict, Some(Verdict::Confirmed));
    assert_eq!(at_most(&run, 0.9).verdict, Some(Verdict::Refuted), "1 ms fails");
    assert_eq!(at_most(&run, 2.0).verdict, Some(Verdict::Undecided));
    let all_hold = search(&[(100 * US, 1), (100 * US, 0)], true);
    let shortest = at_most(&all_hold, 5.0).measured.unwrap();
    assert_eq!(shortest.interval(), Some((shortest.value, shortest.value)), "the shortest that was tried");
}

#[test]
fn a_period_that_was_not_confirmed_has_no_upper_bound() {
    for (run, why) in [
        (search(&[(MS, 200), (3 * MS, 10), (3 * MS, 38)], false), "the search did not confirm it"),
        (search(&[(MS, 200), (3 * MS, 10), (3 * MS, 39)], true), "the interval at this alpha reaches the limit"),
    ] {
        let found = at_most(&run, 5.0);
        let measured = found.measured.unwrap();
        assert_eq!((measured.value, measured.why), (3.0, Some(NoInterval::NotConfirmed)), "{why}");
        assert_eq!((measured.low, measured.high), (Some(1.0), None), "{why}");
        assert_eq!((found.verdict, found.outer_bounds), (Some(Verdict::Undecided), None), "{why}");
        assert_eq!(at_most(&run, 0.9).verdict, Some(Verdict::Refuted), "1 ms fails all the same");
    }
    let mut none = search(&[(MS, 200)], false);
    none.periodic = Some(FoundPeriod::default());
    let found = at_most(&none, 5.0);
    assert_eq!(found.verdict, Some(Verdict::Undecided));
    assert!(matches!(found.reason, Some(Reason::NotMeasured { .. })), "{found:?}");
    none.cases.clear();
    assert_eq!(at_most(&none, 5.0).verdict, Some(Verdict::NotTested));
}

#[test]
fn a_smaller_alpha_widens_the_interval_of_a_found_period() {
    let run = search(&[(MS, 60), (3 * MS, 10), (3 * MS, 26)], true);
    let claim = claim(
        &json!({"value": 5, "unit": "ms"}),
        &json!({"kind": "at-most", "of": {"figure": "smallest-period", "case": case("tcp")}}),
    );
    let of = |alpha_share: f64| {
        let runs = BTreeMap::from([("r".to_owned(), Ok(&run))]);
        only_row(judge(&claim, &text(), &runs, alpha_share)).verdict
    };
    assert_eq!([of(1.0), of(0.001)], [Some(Verdict::Confirmed), Some(Verdict::Undecided)]);
}

#[test]
fn the_probability_of_exceeding_a_bound_is_judged_by_its_own_interval() {
    let mut run = run();
    let rule =
        |bound: f64| json!({"kind": "at-least", "bound": bound, "of": {"figure": "exceeds", "case": case("tcp")}});
    let published = json!({"value": ["hardly a promise"], "unit": "share"});
    let without = judged(&run, &published, &rule(0.001));
    assert!(matches!(without.reason, Some(Reason::TooFewSamples { .. })), "no bound was given: {without:?}");
    let tcp = run.cases.iter_mut().find(|case| case.case.primary().transport == "tcp").unwrap();
    // 40 of 10 000 messages in clusters of four.
    let probability = Figure::new(0.004, 0.0019, 0.0073);
    tcp.primary_mut().exceeds = Some(Exceeds { bound_ns: MS, probability, effective_samples: 2_500.0 });
    let verdicts = [0.001, 0.003, 0.01].map(|bound| verdict(&run, &published, &rule(bound)));
    assert_eq!(verdicts, [Verdict::Confirmed, Verdict::Undecided, Verdict::Refuted]);
    let judgement = judged(&run, &published, &rule(0.001));
    assert_eq!((judgement.measured, judgement.ratio), (Some(probability), None));
}

#[test]
fn a_loop_that_waits_is_compared_by_jitter_wake_ups_and_cpu_time() {
    let mut fixture = Fixture::new();
    for (slack_ns, jitter_ns, wake_ups) in [(1, 8 * US, 200), (50_000, 60 * US, 100)] {
        let case = control_loop().with(|case| case.ends.timer_slack_ns = Some(slack_ns));
        for block in 0..8 {
            fixture.round_with(&case, block, &paced(MS, &[(jitter_ns, 0); 100]), |measured| {
                measured.primary_mut().periodic = Some(PeriodicCounts { periods: 100, ..PeriodicCounts::default() });
                let client = &mut measured.ends[0];
                (client.voluntary_switches, client.cpu_ns) = (wake_ups, wake_ups * 5_000);
                client.facts.push(Fact::number(fact_names::TIMER_SLACK_NS, slack_ns as f64));
            });
        }
    }
    let run = fixture.run();
    let slack = |slack_ns: u64| json!({"timer_slack_ns": slack_ns});
    let jitter = |slack_ns: u64, us: f64| {
        let of = json!({"figure": "release-jitter-p50", "case": slack(slack_ns)});
        verdict(&run, &json!({"value": us, "unit": "us"}), &json!({"kind": "at-most", "of": of}))
    };
    assert_eq!([jitter(1, 9.0), jitter(50_000, 9.0)], [Verdict::Confirmed, Verdict::Refuted]);
    for figure in ["wake-ups-per-period", "client-cpu-time-per-period"] {
        let rule = json!({"kind": "order", "figure": figure, "cases": [slack(50_000), slack(1)]});
        let order = judged(&run, &json!({"value": ["coarse", "fine"], "unit": "order"}), &rule);
        assert_eq!((order.verdict, order.measured.unwrap().value), (Some(Verdict::Confirmed), 2.0), "{figure}");
    }
    let kept = |of: Json| {
        let rule = json!({"kind": "kept", "case": of, "kept": ["timer-slack"]});
        judged(&run, &json!({"value": ["timer"], "unit": "settings"}), &rule)
    };
    let granted = kept(slack(1));
    let Some(Reason::Kept { timer_slack_ns, .. }) = granted.reason else { panic!("{granted:?}") };
    assert_eq!((granted.verdict, timer_slack_ns), (Some(Verdict::Confirmed), Some([1, 1])));
    let unset = Fixture::of(&[(&Case::ping_pong("tcp"), &[MS; 8])]).run();
    let rule = json!({"kind": "kept", "case": case("tcp"), "kept": ["timer-slack"]});
    assert_eq!(verdict(&unset, &json!({"value": ["timer"], "unit": "settings"}), &rule), Verdict::Refuted);
}
