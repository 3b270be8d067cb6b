//! Answers to runs with known figures.

use hairpin_model::answer::Answer;
use hairpin_model::case::{Case, Fallback, InjectedFault, Placement, Waiting};
use hairpin_model::compared_by::ComparedBy;
use hairpin_model::figure::Figure;
use hairpin_model::finding::{About, Finding, Proved, Severity};
use hairpin_model::run::Run;
use hairpin_model::summary::{Role, Verdict};

use super::answer;
use crate::fixture::links::{between_hosts, over};
use crate::fixture::{Fixture, at_rate, back_to_back, paced, small_writes};

/// Rounds that vary by half a percent.
fn steady(latency: u64) -> [u64; 12] {
    [2, 5, 0, 3, 1, 4, 2, 5, 0, 3, 1, 4].map(|k| latency + latency * k / 1000)
}

fn run_of(cases: &[(Case, u64)]) -> Run {
    let mut fixture = Fixture::new();
    cases.iter().for_each(|(case, latency)| fixture.rounds_of(case, &steady(*latency)));
    fixture.run()
}

fn answer_of(cases: &[(Case, u64)]) -> Answer {
    answer(&run_of(cases))
}

fn plain(transport: &str, latency: u64) -> (Case, u64) {
    (Case::ping_pong(transport), latency)
}

#[test]
fn the_fastest_is_named_and_compared_with_tcp() {
    let found = answer_of(&[plain("tcp", 13_000), plain("pipe", 5_000), plain("udp", 10_000)]);
    let headline = "Fastest round trip between two processes here: pipe (blocking, same CPU) at p50 5.01 us (95 % \
                    interval 5.0";
    assert!(found.headline.starts_with(headline), "{found:?}");
    assert_eq!(found.sentences, ["tcp under the same conditions: 13.0 us (2.60x)."]);
    let client = answer_of(&[plain("tcp", 5_150), plain("pipe", 5_000)]);
    assert_eq!(client.sentences, ["tcp under the same conditions: 5.17 us (+3.0 %)."]);
}

#[test]
fn between_two_hosts_the_headline_names_the_server_and_marks_fallbacks() {
    let elsewhere = |transport: &str, latency| (between_hosts(Case::ping_pong(transport)), latency);
    let found = answer_of(&[elsewhere("tcp", 13_000), elsewhere("udp", 10_000)]);
    assert!(
        found.headline.starts_with("Fastest round trip to lab: udp (blocking, each pinned) at p50 10.0"),
        "{found:?}"
    );
    let fell_back = elsewhere("tcp", 10_000).0.with(|case| {
        let fallback = Fallback { from: "udp".to_owned(), to: "tcp".to_owned(), evidence: String::new() };
        case.path.across.as_mut().unwrap().fallback = Some(fallback);
    });
    let found = answer_of(&[(fell_back, 10_000), elsewhere("tcp", 13_000)]);
    assert!(
        found.headline.starts_with("Fastest round trip to lab: tcp* (blocking, each pinned) at p50"),
        "{found:?}"
    );
}

#[test]
fn without_a_difference_no_winner_is_named() {
    let found = answer_of(&[plain("pipe", 5_000), plain("fifo", 5_000), plain("tcp", 13_000)]);
    let none = "Fastest round trips between two processes here, no difference found: pipe (blocking, same CPU) at";
    assert!(found.headline.starts_with(none), "{found:?}");
    assert!(found.headline.contains(" and fifo (blocking, same CPU) at p50 5.01 us"), "{found:?}");
    assert!(!found.headline.contains("tcp"), "{found:?}");
    assert_eq!(found.sentences, ["tcp under the same conditions: 13.0 us (2.60x)."]);
    assert_eq!(found.pairs[0].verdict, Verdict::CannotTell, "the ranking says the same");

    let found = answer_of(&[plain("tcp", 13_000), plain("udp", 13_000)]);
    assert!(found.headline.contains("no difference found"), "{found:?}");
    assert_eq!(found.sentences, [""; 0], "tcp is not compared with itself");
}

#[test]
fn a_case_with_a_wide_interval_is_not_slower_because_one_before_it_is() {
    let mut fixture = Fixture::new();
    fixture.rounds_of(&Case::ping_pong("pipe"), &steady(5_000));
    fixture.rounds_of(&Case::ping_pong("fifo"), &steady(5_200));
    let scattered = [4_100, 7_300, 5_400, 4_300, 7_900, 5_500, 4_200, 7_500, 5_600, 4_400, 7_700, 5_300];
    fixture.rounds_of(&Case::ping_pong("tcp"), &scattered);
    let found = answer(&fixture.run());
    let by_p50: Vec<_> = found.pairs.iter().filter(|pair| pair.figure == ComparedBy::P50).collect();
    assert_eq!(by_p50.iter().map(|pair| pair.verdict).collect::<Vec<_>>(), [Verdict::Slower, Verdict::CannotTell]);
    assert!(found.headline.contains("no difference found"), "{found:?}");
    assert!(found.headline.contains("pipe (") && found.headline.contains("tcp ("), "{found:?}");
    assert!(!found.headline.contains("fifo"), "{found:?}");
}

#[test]
fn rivals_on_other_ladders_count_too() {
    let spin = |latency| {
        (
            Case::ping_pong("tcp").with(|changed| {
                changed.ends.waiting = Waiting::Spin;
                changed.ends.placement = Placement::CrossCpu;
            }),
            latency,
        )
    };
    let found = answer_of(&[plain("tcp", 13_000), spin(13_000)]);
    assert!(found.headline.contains("no difference found"), "{found:?}");
    let found = answer_of(&[plain("tcp", 13_000), spin(8_000)]);
    let headline = "Fastest round trip between two processes here: tcp (busy-polling, two CPUs) at p50 8.0";
    assert!(found.headline.starts_with(headline), "{found:?}");
}

#[test]
fn too_few_rounds_for_an_interval_show_no_winner() {
    let mut fixture = Fixture::new();
    fixture.rounds_of(&Case::ping_pong("pipe"), &[5_000, 5_010]);
    fixture.rounds_of(&Case::ping_pong("tcp"), &[13_000, 13_010]);
    let found = answer(&fixture.run());
    assert!(found.headline.ends_with("It has no interval, so no winner is named."), "{found:?}");
}

#[test]
fn neighbours_are_ranked_by_every_figure_that_both_have() {
    let run = run_of(&[plain("tcp", 13_000), plain("pipe", 5_000), plain("udp", 13_000)]);
    let pairs = answer(&run).pairs;
    let transport = |id: &str| run.case(id).unwrap().case.primary().transport.clone();
    let told: Vec<_> =
        pairs.iter().map(|pair| (pair.figure, transport(&pair.a), transport(&pair.b), pair.verdict)).collect();
    let pair = |figure, a: &str, b: &str, verdict| (figure, a.to_owned(), b.to_owned(), verdict);
    let figures = [ComparedBy::P50, ComparedBy::P90, ComparedBy::P99].into_iter();
    let expected: Vec<_> = figures
        .clone()
        .map(|figure| pair(figure, "pipe", "tcp", Verdict::Slower))
        .chain(figures.map(|figure| pair(figure, "tcp", "udp", Verdict::CannotTell)))
        .collect();
    assert_eq!(told, expected);
    assert!((pairs[0].ratio.value - 2.6).abs() < 0.01 && pairs[0].ratio.excludes(2.5), "{:?}", pairs[0]);
}

#[test]
fn a_saved_run_with_a_cyclic_ranking_is_answered() {
    let mut run = run_of(&[plain("pipe", 5_000), plain("tcp", 13_000)]);
    let back = run.comparisons.iter().find(|pair| pair.role == Role::Neighbours).unwrap().clone();
    let (baseline, candidate) = (back.candidate.clone(), back.baseline.clone());
    run.comparisons.push(hairpin_model::summary::Comparison { baseline, candidate, ..back });
    assert!(answer(&run).headline.contains("pipe (blocking, same CPU)"));
}

#[test]
fn one_case_is_reported_by_its_figures_and_no_case_says_so() {
    let found = answer_of(&[plain("tcp", 13_000)]);
    assert!(found.headline.starts_with("tcp block same-cpu: p50 13.0 us (95 % interval 13.0"), "{found:?}");
    assert!(found.headline.ends_with(", p99 13.0 us, 1 200 round trips over 12 rounds."), "{found:?}");
    let found = answer_of(&[(small_writes("default"), 44_000_000)]);
    assert!(found.headline.starts_with("tcp block same-cpu default 100x2 B: p50 44.1 ms"), "{found:?}");
    assert!(found.headline.ends_with("1 200 exchanges over 12 rounds."), "{found:?}");
    assert_eq!(answer_of(&[]).headline, "Nothing was measured: no case could be run.");
}

#[test]
fn an_open_loop_and_an_injected_fault_are_not_ranked() {
    let mut fixture = Fixture::new();
    for (block, transport) in [(0, "tcp"), (0, "udp"), (1, "tcp"), (1, "udp")] {
        fixture.round(&at_rate(Case::ping_pong(transport), 1000.0), block, &paced(1_000_000, &[(0, 10_000); 100]));
    }
    let headline = answer(&fixture.run()).headline;
    assert_eq!(headline, "No overall answer: cases at a given rate (open loop) are not ranked.");
}

#[test]
fn over_several_paths_each_has_its_own_figure() {
    let slow = |transport: &str, latency| (over("delay=2ms", Case::ping_pong(transport)), latency);
    let found = answer_of(&[plain("tcp", 13_000), slow("tcp", 4_000_000)]);
    let of_one =
        "p50 of a round trip with tcp (blocking, same CPU): 13.0 us without a link and 4.01 ms over delay=2ms.";
    assert_eq!(found.headline, of_one);
    let found =
        answer_of(&[plain("tcp", 13_000), plain("udp", 10_000), slow("tcp", 4_000_000), slow("udp", 4_100_000)]);
    let of_two = "Fastest round trip, by p50: 10.0 us without a link with udp (blocking, same CPU) and 4.01 ms over \
                  delay=2ms with tcp (blocking, same CPU).";
    assert_eq!(found.headline, of_two);
    let found =
        answer_of(&[plain("tcp", 13_000), plain("udp", 10_000), slow("tcp", 4_000_000), slow("udp", 4_000_000)]);
    let tie =
        "4.01 ms over delay=2ms (no difference found between tcp (blocking, same CPU) and udp (blocking, same CPU)).";
    assert!(found.headline.ends_with(tie), "{found:?}");
}

fn exchanges(remedies: &[(&str, u64)]) -> Vec<(Case, u64)> {
    remedies.iter().map(|(remedy, latency)| (small_writes(remedy), *latency)).collect()
}

const REMEDIES: &[(&str, u64)] =
    &[("default", 44_000_000), ("nodelay", 550_000), ("one-write", 24_000), ("cork-forgotten", 208_000_000)];

#[test]
fn the_best_remedy_and_those_slower_than_default_are_named() {
    let run = run_of(&exchanges(REMEDIES));
    let found = answer(&run);
    let headline = "An exchange of 100x2 B over tcp takes 44.1 ms at p50 with default options, and 24.1 us with one-write: \
                    1833x as fast (95 % interval 18";
    assert!(found.headline.starts_with(headline), "{found:?}");
    assert_eq!(found.sentences, ["cork-forgotten (0.212x) is slower than default options."]);
    let best = found.best_remedy.expect("one is proved");
    assert_eq!((best.case, best.no_difference), (small_writes("one-write").id(), Vec::new()));
    assert!((best.speed_up.expect("default was measured").value - 1833.0).abs() < 10.0);
}

#[test]
fn remedies_with_equal_throughput_are_no_winners() {
    let found = answer_of(&exchanges(&[("default", 44_000_000), ("writev", 24_000), ("one-write", 24_000)]));
    assert!(!found.headline.contains("most"), "{found:?}");
    assert_eq!(found.sentences, ["No difference found between writev and one-write."]);
    assert_eq!(found.best_remedy.expect("both are proved").no_difference, [small_writes("one-write").id()]);
}

#[test]
fn no_remedy_is_called_faster_without_proof() {
    let found = answer_of(&exchanges(&[("default", 44_000_000), ("nodelay", 44_000_000)]));
    assert!(found.headline.ends_with("with default options; no remedy was found to be faster."), "{found:?}");
    assert_eq!((found.sentences, found.best_remedy), (Vec::new(), None));
}

#[test]
fn a_remedy_without_an_interval_is_faster_if_its_comparison_says_so() {
    let found = |verdict: Verdict| {
        let mut run = run_of(&exchanges(&[("default", 44_000_000), ("nodelay", 500_000)]));
        for row in &mut run.cases {
            let exchanges = row.primary_mut().exchanges.as_mut().expect("exchanges");
            let bare = |figure: Figure| Figure::bare(figure.value);
            exchanges.speed_up_against_default = exchanges.speed_up_against_default.map(bare);
        }
        let comparison = &mut run.comparisons[0];
        (comparison.baseline, comparison.candidate) = (small_writes("default").id(), small_writes("nodelay").id());
        comparison.verdict = verdict;
        answer(&run)
    };
    assert_eq!(found(Verdict::Faster).best_remedy.map(|best| best.case), Some(small_writes("nodelay").id()));
    assert_eq!(found(Verdict::CannotTell).best_remedy, None);
}

#[test]
fn stalls_in_few_exchanges_count_even_if_the_p50_hides_them() {
    let mut fixture = Fixture::new();
    for (block, latency) in (0..).zip(steady(100_000)) {
        let some_stall = [[latency / 4; 60].as_slice(), &[40_000_000; 40]].concat();
        fixture.round(&small_writes("default"), block, &back_to_back(&[], &[44_000_000; 100]));
        fixture.round(&small_writes("nodelay"), block, &back_to_back(&[], &some_stall));
        fixture.round(&small_writes("more"), block, &back_to_back(&[], &[latency; 100]));
    }
    let headline = answer(&fixture.run()).headline;
    assert!(headline.contains("and 100 us with more: 439x"), "{headline}");
}

#[test]
fn without_default_remedies_are_compared_with_each_other() {
    let found = answer_of(&exchanges(&[("nodelay", 550_000), ("one-write", 24_000)]));
    let fastest = "Fastest remedy for an exchange of 100x2 B over tcp: one-write, 8";
    assert!(found.headline.starts_with(fastest), "{found:?}");
    let found = answer_of(&exchanges(&[("writev", 24_000), ("one-write", 24_000)]));
    let none = "Fastest remedies for an exchange of 100x2 B over tcp, no difference found: writev and one-write.";
    assert!(found.headline.starts_with(none), "{found:?}");
}

fn with_gap(remedy: &str) -> Case {
    small_writes(remedy).with(|case| case.primary_mut().load.exchange_mut().unwrap().gap_ns = 1_000_000)
}

#[test]
fn a_remedy_without_pauses_is_not_compared_with_those_that_pause() {
    let paused = [("default", 143_000_000), ("nodelay", 99_600_000), ("one-write", 24_000)];
    let cases: Vec<(Case, u64)> = paused.iter().map(|(remedy, latency)| (with_gap(remedy), *latency)).collect();
    let found = answer_of(&cases);
    assert!(found.headline.contains(" with nodelay: 1.44x as fast"), "not the first of all: {found:?}");
    let apart = "one-write (24.1 us) is not compared: it has none of the 99 pauses of 1.00 ms that --gap puts \
                 between the writes of a request. They are 99.0 ms in all, which the program may need for other \
                 work.";
    assert_eq!(found.sentences, [apart]);
}

#[test]
fn an_injected_fault_is_stated_first_unless_other_cases_are_usable() {
    let injected = |remedy: &str| {
        small_writes(remedy).with(|changed| {
            changed.injected_fault = Some(InjectedFault { stall_ns: 4_000_000, every: 1, sleeps: true })
        })
    };
    let mut cases: Vec<(Case, u64)> = vec![(injected("default"), 44_000_000), (injected("nodelay"), 5_000_000)];
    let found = answer_of(&cases);
    assert_eq!(found.headline, "No overall answer: cases with an injected fault are not ranked.");
    let told = "An exchange of 100x2 B, injected 4 ms every 1 over tcp takes 44.1 ms at p50 with default options";
    assert!(found.sentences[0].starts_with(told), "{found:?}");
    cases.extend(exchanges(REMEDIES));
    assert!(answer_of(&cases).headline.starts_with("An exchange of 100x2 B over tcp takes 44.1 ms"));
}

#[test]
fn other_transports_and_paths_follow_the_first() {
    let elsewhere =
        small_writes("default").with(|changed| changed.primary_mut().transport = "unix-stream".to_owned());
    let cases = [exchanges(&REMEDIES[..3]), vec![(elsewhere, 102_000)]].concat();
    assert_eq!(answer_of(&cases).sentences, ["The same writes take 102 us over unix-stream."]);
    let slow = |remedy: &str, latency| (over("delay=2ms", small_writes(remedy)), latency);
    let cases = [exchanges(&REMEDIES[..3]), vec![slow("default", 48_000_000), slow("one-write", 4_000_000)]].concat();
    let beside = "Over delay=2ms it takes 48.1 ms with default options, and 4.01 ms with one-write.";
    assert_eq!(answer_of(&cases).sentences, [beside]);
}

#[test]
fn the_cause_is_quoted_unless_its_check_did_not_confirm_it() {
    let mut run = run_of(&exchanges(REMEDIES));
    run.findings = vec![Finding {
        code: "nagle-waits".to_owned(),
        about: About::Cause,
        severity: Severity::Warning,
        cases: vec![run.cases[0].id.clone()],
        summary: String::new(),
        evidence: Vec::new(),
        advice: String::new(),
        share: 0.987,
        ..Finding::default()
    }];
    let quoted = "Finding nagle-waits explains 99 % of an exchange.".to_owned();
    assert!(answer(&run).sentences.contains(&quoted), "{:?}", answer(&run));
    let proved = |verdict: &str| Proved {
        check: "change it".to_owned(),
        verdict: verdict.to_owned(),
        effect: hairpin_model::figure::Figure::bare(0.0),
        unit: "ns".to_owned(),
        ..Proved::default()
    };
    run.findings[0].proved = Some(proved("confirmed"));
    assert!(answer(&run).sentences.contains(&quoted));
    run.findings[0].proved = Some(proved("refuted"));
    assert!(!answer(&run).sentences.contains(&quoted));
}
