//! From samples to findings on a fixture run in which every latency, and so every figure, is known.

use crate::support::{Fixture, apart, at_rate, back_to_back, paced, value};
use hairpin_analysis::{Budget, compare_runs, findings, unlike};
use hairpin_model::finding::Severity;
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{
    BudgetResult, Case, CpuIdle, Fact, Figure, Invalid, Run, Waiting, fact_names, finding_keys as keys,
};

const BLOCKS: u32 = 10;

/// Ten blocks of TCP on two CPUs (blocking, twice; spinning; with CPUs kept awake), a pipe, and UDP at a rate. In block
/// `b` all latencies are `b` thousandths longer: all cases drift alike, by a negligible amount.
fn survey(scale: u64) -> Run {
    let tcp = apart(Case::ping_pong("tcp"));
    let again = tcp.clone().with(|changed| changed.replicate = 1);
    let spin = tcp.clone().with(|changed| changed.ends.waiting = Waiting::Spin);
    let awake = tcp.clone().with(|changed| changed.ends.cpu_idle = CpuIdle::Shallow);
    let pipe = apart(Case::ping_pong("pipe"));
    let mut fixture = Fixture::new();
    for block in 0..BLOCKS {
        let latency = |base: u64| base * scale / 100 + base / 1000 * u64::from(block);
        for (case, base) in [(&tcp, 64_000), (&again, 64_000), (&spin, 8_000), (&awake, 11_000), (&pipe, 50_000)] {
            let samples = back_to_back(&[latency(base); 20], &ramp(latency(base)));
            fixture.round_with(case, block, &samples, |measured| {
                measured.ends[0].facts =
                    vec![Fact::number(fact_names::RETRANSMITS, 2.0), Fact::number(fact_names::CWND_PACKETS, 10.0)];
                measured.ends[0].cpu_ns = 250_000_000;
            });
        }
        fixture.round(
            &at_rate(apart(Case::ping_pong("udp")), 1000.0),
            block,
            &paced(1_000_000, &[(100, 60_000); 200]),
        );
    }
    fixture.failed(&Case::ping_pong("icmp"), 0, "cannot open a raw socket: permission denied");
    let mut run = fixture.run();
    run.findings = findings(&run);
    run
}

/// 1 000 latencies, spread over the round: 899 of `base`, and 91, 9 and 1 of two, four and eight times `base`.
fn ramp(base: u64) -> Vec<u64> {
    let of = |k: u64| match k {
        _ if k % 1000 == 777 => 8,
        _ if k % 111 == 50 => 4,
        _ if k % 11 == 5 => 2,
        _ => 1,
    };
    (0..1000).map(|k| base * of(k)).collect()
}

/// Whether a figure is within a histogram's step (1/1024) of the expected values.
fn client(figure: Figure, expected: [f64; 3]) -> bool {
    let all = [Some(figure.value), figure.low, figure.high];
    all.iter().zip(expected).all(|(got, expected)| got.is_some_and(|got| (got / expected - 1.0).abs() < 0.001))
}

#[test]
fn summaries_have_the_figures_of_their_samples() {
    let run = survey(100);
    let labels: Vec<&str> = run.cases.iter().map(|case| case.label.as_str()).collect();
    let expected = [
        "tcp block cross-cpu",
        "tcp block cross-cpu (again)",
        "tcp spin cross-cpu",
        "tcp block cross-cpu CPUs kept awake",
        "pipe block cross-cpu",
        "udp block cross-cpu 1000/s",
        "icmp block same-cpu",
    ];
    assert_eq!(labels, expected);
    let tcp = &run.cases[0];
    assert_eq!((tcp.rounds, tcp.primary().samples, tcp.valid), (10, 10_000, true));
    let latency = &tcp.primary().latency_ns;
    // Rounds have p50s of 64 000, 64 064, ... 64 576 ns: their median is 64 288.
    let p50 = latency.p50.unwrap();
    assert!((p50.value / 64_288.0 - 1.0).abs() < 0.001, "{p50:?}");
    assert!(p50.low.unwrap() >= 64_000.0 && p50.low.unwrap() < p50.value && p50.high.unwrap() <= 64_576.0 * 1.001);
    assert!((latency.p90.unwrap().value / (2.0 * 64_288.0) - 1.0).abs() < 0.001, "{:?}", latency.p90);
    assert!((latency.p999.unwrap().value / (4.0 * 64_288.0) - 1.0).abs() < 0.001, "10 000 samples have a p99.9");
    assert!(client(latency.max.unwrap(), [8.0 * 64_576.0, 8.0 * 64_000.0, 8.0 * 64_576.0]), "{:?}", latency.max);
    let retransmissions = [Fact::number(fact_names::RETRANSMITS, 20.0), Fact::number(fact_names::CWND_PACKETS, 10.0)];
    assert_eq!(tcp.client().facts, retransmissions, "events add up, quantities do not");
    assert!((tcp.client().cpu_seconds - 2.5).abs() < 1e-9);
    assert_eq!(
        (tcp.primary().ledger.sent, tcp.primary().ledger.received, tcp.primary().ledger.unexplained),
        (10_000, 10_000, 0)
    );
    let quantiles: Vec<f64> = tcp.primary().curve.iter().map(|point| point.quantile).collect();
    assert!(
        quantiles.is_sorted() && quantiles.ends_with(&[0.9999, 1.0]) && quantiles.contains(&0.999),
        "as far as 10 000 samples go, and the maximum: {quantiles:?}"
    );
    let greatest = tcp.primary().curve.last().map(|point| point.latency_ns);
    assert!(greatest.is_some_and(|ns| (ns / (8.0 * 64_576.0) - 1.0).abs() < 0.001), "{greatest:?}");
    assert!(tcp.primary().curve.windows(2).all(|pair| pair[0].latency_ns <= pair[1].latency_ns));
    let icmp = &run.cases[6];
    assert!(!icmp.valid && icmp.primary().latency_ns.p50.is_none());
    assert_eq!(icmp.reasons, [Invalid::NotMeasured { failed_rounds: 1 }]);
}

#[test]
fn an_open_loop_has_its_service_time_and_too_few_samples_for_a_p999() {
    let run = survey(100);
    let udp = &run.cases[5];
    assert!(udp.valid, "{:?}", udp.reasons);
    assert!(client(udp.primary().service_ns.unwrap().p50.unwrap(), [60_000.0; 3]));
    assert_eq!(udp.primary().lateness_ns.unwrap().p50, Some(Figure::new(100.0, 100.0, 100.0)));
    assert_eq!(
        (udp.primary().samples, udp.primary().latency_ns.p99.is_some(), udp.primary().latency_ns.p999),
        (2000, true, None)
    );
}

#[test]
fn comparisons_report_differences_and_undecided_pairs() {
    let run = survey(100);
    let found = |role: Role, baseline: usize, candidate: usize| {
        let (baseline, candidate) = (&run.cases[baseline].id, &run.cases[candidate].id);
        let mut all = run.comparisons.iter().filter(|pair| pair.role == role);
        all.find(|pair| pair.baseline == *baseline && pair.candidate == *candidate).cloned().expect("a compared pair")
    };
    assert_eq!(found(Role::AgainstItself, 0, 1).verdict, Verdict::CannotTell);
    let awake = found(Role::CounterExperiment, 0, 3);
    assert_eq!((awake.verdict, awake.blocks), (Verdict::Faster, 10));
    assert!(
        client(awake.ratio, [11.0 / 64.0; 3]) || (awake.ratio.value * 64.0 / 11.0 - 1.0).abs() < 0.002,
        "{awake:?}"
    );
    assert!((awake.difference_ns.unwrap().value / -53_238.0 - 1.0).abs() < 0.002, "{awake:?}");
    assert_eq!(found(Role::CounterExperiment, 0, 2).verdict, Verdict::Faster);
    assert_eq!(found(Role::Neighbours, 4, 0).verdict, Verdict::Slower, "the pipe is the faster neighbour");
    assert_eq!(run.comparisons.len(), 4, "{:?}", run.comparisons);
}

#[test]
fn the_wake_up_finding_is_confirmed_with_its_share() {
    let run = survey(100);
    let codes: Vec<(&str, Severity)> =
        run.findings.iter().map(|finding| (finding.code.as_str(), finding.severity)).collect();
    let both = [("wake-up-dominated", Severity::Warning), ("retransmission", Severity::Note)];
    assert_eq!(codes, both, "twenty segments were sent again, at an unknown cost");
    let finding = &run.findings[0];
    assert!((finding.share - 53.0 / 64.0).abs() < 0.002, "{}", finding.share);
    assert_eq!(finding.proved.as_ref().map(|proved| proved.verdict.as_str()), Some("confirmed"));
    assert_eq!((finding.cases[0].as_str(), finding.word(keys::CAUSE)), (run.cases[0].id.as_str(), Some("awake")));
    assert!((value(finding, keys::SAVED_SHARE) - 0.83).abs() < 0.005, "{finding:?}");
}

#[test]
fn identical_runs_show_no_difference_and_one_fifth_slower_breaks_the_budget() {
    let (one, slower) = (survey(100), survey(120));
    assert_eq!(unlike(&one, &slower), []);
    let budgets: Vec<Budget> = ["p50=+5%", "p99=+5%", "rate=5%"].iter().map(|text| text.parse().unwrap()).collect();
    let broken = |compared: &hairpin_analysis::RunComparison| -> Vec<usize> {
        let exceeded = |budget: &Budget| {
            let outcomes = Budget::check_all(&[*budget], compared);
            let usable = |outcome: &&BudgetResult| outcome.baseline_usable && outcome.candidate_usable;
            outcomes.iter().filter(usable).filter(|outcome| outcome.kept == Some(false)).count()
        };
        budgets.iter().map(exceeded).collect()
    };
    assert_eq!(broken(&compare_runs(&[&one], &[&one])), [0, 0, 0]);
    // TCP four times and the pipe; UDP's latencies were not scaled, and ICMP has none.
    assert_eq!(broken(&compare_runs(&[&one], &[&slower])), [5, 5, 5]);
}

#[test]
fn a_run_of_huge_and_equal_latencies_does_not_panic() {
    let mut fixture = Fixture::new();
    fixture.rounds_of(&Case::ping_pong("tcp"), &[u64::MAX / 4096; 7]);
    fixture.rounds_of(&Case::ping_pong("tcp").with(|changed| changed.replicate = 1), &[0; 7]);
    fixture.round(&at_rate(Case::ping_pong("udp"), 1e-9), 0, &paced(1, &[]));
    let run = fixture.run();
    assert!(!findings(&run).is_empty(), "the pair differs");
    let json = serde_json::to_string(&run).expect("every figure is a number");
    assert!(hairpin_model::upgrade::load(&json).is_ok(), "the saved run can be read");
}
