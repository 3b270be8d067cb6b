//! Answers to runs with known figures.

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::finding::{About, Severity};
use hairpin_model::options::OptionName;
use hairpin_model::quantities::{duration, factor};
use hairpin_model::round::Purpose;
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{
    Answer, Case, CaseSummary, Fallback, Figure, Finding, InjectedFault, LeftOut, Options, Placement, Proved,
    RoundLeftOut, Run, Statement, Waiting,
};

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

fn ids(transports: &[&str]) -> Vec<String> {
    transports.iter().map(|transport| Case::ping_pong(transport).id()).collect()
}

fn winner(case: &Case) -> Statement {
    Statement::Best { cases: vec![case.id()], verdict: Some(Verdict::Faster) }
}

fn no_winner(cases: Vec<String>) -> Statement {
    Statement::Best { cases, verdict: Some(Verdict::CannotTell) }
}

/// The reference of the answer, its ratio as text, and whether the conditions are the same.
fn reference(found: &Answer) -> Option<(String, String, bool)> {
    found.statements.iter().find_map(|statement| match statement {
        Statement::Reference { case, ratio, same_conditions } => {
            Some((case.clone(), factor(*ratio), *same_conditions))
        }
        _ => None,
    })
}

/// The p50 of a case and its bounds, as texts.
fn p50(run: &Run, case: &Case) -> (String, [String; 2]) {
    let p50 = run.case(&case.id()).unwrap().primary().latency_ns.p50.unwrap();
    let (low, high) = p50.interval().unwrap();
    (duration(p50.value), [low, high].map(duration))
}

#[test]
fn the_fastest_is_named_and_compared_with_tcp() {
    let run = run_of(&[plain("tcp", 13_000), plain("pipe", 5_000), plain("udp", 10_000)]);
    let found = answer(&run);
    assert_eq!(found.statements[0], winner(&Case::ping_pong("pipe")));
    let (middle, [low, _]) = p50(&run, &Case::ping_pong("pipe"));
    assert!(middle == "5.01 us" && low.starts_with("5.0"), "{middle} {low}");
    assert_eq!(p50(&run, &Case::ping_pong("tcp")).0, "13.0 us");
    let tcp = Case::ping_pong("tcp").id();
    assert_eq!(reference(&found), Some((tcp.clone(), "2.60x".to_owned(), true)));
    assert_eq!(found.statements.len(), 2);
    let close = answer_of(&[plain("tcp", 5_150), plain("pipe", 5_000)]);
    assert_eq!(reference(&close), Some((tcp, "1.03x".to_owned(), true)));
}

#[test]
fn the_reference_under_other_conditions_says_so() {
    let spin = |latency| {
        let case = Case::ping_pong("pipe").with(|case| {
            (case.ends.waiting, case.ends.placement) = (Waiting::Spin, Placement::CrossCpu);
        });
        (case, latency)
    };
    let found = answer_of(&[spin(2_000), plain("tcp", 13_000)]);
    assert_eq!(reference(&found), Some((Case::ping_pong("tcp").id(), "6.50x".to_owned(), false)));
}

#[test]
fn between_two_hosts_the_fastest_is_named_even_if_it_is_a_fallback() {
    let elsewhere = |transport: &str, latency| (between_hosts(Case::ping_pong(transport)), latency);
    let run = run_of(&[elsewhere("tcp", 13_000), elsewhere("udp", 10_000)]);
    assert_eq!(answer(&run).statements[0], winner(&elsewhere("udp", 0).0));
    assert!(p50(&run, &elsewhere("udp", 0).0).0.starts_with("10.0"));
    let fell_back = elsewhere("tcp", 10_000).0.with(|case| {
        let fallback = Fallback { from: "udp".to_owned(), to: "tcp".to_owned(), evidence: String::new() };
        case.path.across.as_mut().unwrap().fallback = Some(fallback);
    });
    let found = answer_of(&[(fell_back.clone(), 10_000), elsewhere("tcp", 13_000)]);
    assert_eq!(found.statements[0], winner(&fell_back));
}

#[test]
fn without_a_difference_no_winner_is_named() {
    let run = run_of(&[plain("pipe", 5_000), plain("fifo", 5_000), plain("tcp", 13_000)]);
    let found = answer(&run);
    assert_eq!(found.statements[0], no_winner(ids(&["pipe", "fifo"])));
    assert_eq!(p50(&run, &Case::ping_pong("fifo")).0, "5.01 us");
    assert_eq!(reference(&found), Some((Case::ping_pong("tcp").id(), "2.60x".to_owned(), true)));
    assert_eq!(found.pairs[0].verdict, Verdict::CannotTell, "the ranking agrees");

    let found = answer_of(&[plain("tcp", 13_000), plain("udp", 13_000)]);
    assert_eq!(found.statements, [no_winner(ids(&["tcp", "udp"]))], "tcp is not compared with itself");
}

#[test]
fn a_case_with_a_wide_interval_is_not_slower_because_its_predecessor_is() {
    let mut fixture = Fixture::new();
    fixture.rounds_of(&Case::ping_pong("pipe"), &steady(5_000));
    fixture.rounds_of(&Case::ping_pong("fifo"), &steady(5_200));
    let scattered = [4_100, 7_300, 5_400, 4_300, 7_900, 5_500, 4_200, 7_500, 5_600, 4_400, 7_700, 5_300];
    fixture.rounds_of(&Case::ping_pong("tcp"), &scattered);
    let found = answer(&fixture.run());
    let by_p50: Vec<_> = found.pairs.iter().filter(|pair| pair.figure == ComparedBy::P50).collect();
    assert_eq!(by_p50.iter().map(|pair| pair.verdict).collect::<Vec<_>>(), [Verdict::Slower, Verdict::CannotTell]);
    assert_eq!(found.statements[0], no_winner(ids(&["pipe", "tcp"])));
}

#[test]
fn a_case_far_from_the_best_is_never_called_one_of_the_fastest() {
    let scattered = [10_000, 4_000, 40_000, 4_100, 12_000, 4_200, 41_000, 11_000, 4_300, 42_000, 10_500, 4_400];
    let mut fixture = Fixture::new();
    fixture.rounds_of(&Case::ping_pong("pipe"), &steady(5_000));
    fixture.rounds_of(&Case::ping_pong("tcp"), &scattered);
    let found = answer(&fixture.run());
    let far = Statement::NotSeparated { cases: ids(&["tcp"]) };
    assert_eq!(found.statements, [no_winner(ids(&["pipe"])), far]);
    let mut fixture = Fixture::new();
    fixture.rounds_of(&small_writes("more"), &steady(41_000_000));
    fixture.rounds_of(&small_writes("cork-forgotten"), &scattered.map(|ns| 8_000 * ns));
    let found = answer(&fixture.run());
    let far = Statement::NotSeparated { cases: remedies(&["cork-forgotten"]) };
    assert_eq!(found.statements, [Statement::FastestRemedies { cases: remedies(&["more"]) }, far]);
}

#[test]
fn programs_that_block_on_two_cpus_are_answered_first() {
    let placed = |transport: &str, waiting, latency| {
        let case = Case::ping_pong(transport).with(|case| {
            (case.ends.waiting, case.ends.placement) = (waiting, Placement::CrossCpu);
        });
        (case, latency)
    };
    let [pipe, tcp] = [("pipe", 8_000), ("tcp", 13_000)].map(|(name, ns)| placed(name, Waiting::Block, ns));
    let spinning = placed("shm", Waiting::Spin, 300);
    let found = answer_of(&[pipe.clone(), tcp.clone(), spinning.clone()]);
    let blocking = Statement::BestBlocking { cases: vec![pipe.0.id()], verdict: Some(Verdict::Faster) };
    assert_eq!(found.statements[..2], [blocking, winner(&spinning.0)]);
    assert_eq!(answer_of(&[pipe.clone(), tcp]).statements[0], winner(&pipe.0), "all of them block");
}

#[test]
fn the_fastest_is_also_compared_with_cases_of_other_ladders() {
    let spinning = Case::ping_pong("tcp").with(|changed| {
        changed.ends.waiting = Waiting::Spin;
        changed.ends.placement = Placement::CrossCpu;
    });
    let found = answer_of(&[plain("tcp", 13_000), (spinning.clone(), 13_000)]);
    assert_eq!(found.statements, [no_winner(vec![Case::ping_pong("tcp").id(), spinning.id()])]);
    let run = run_of(&[plain("tcp", 13_000), (spinning.clone(), 8_000)]);
    assert_eq!(answer(&run).statements[0], winner(&spinning));
    assert!(p50(&run, &spinning).0.starts_with("8.0"));
}

#[test]
fn too_few_rounds_for_an_interval_show_no_winner() {
    let mut fixture = Fixture::new();
    fixture.rounds_of(&Case::ping_pong("pipe"), &[5_000, 5_010]);
    fixture.rounds_of(&Case::ping_pong("tcp"), &[13_000, 13_010]);
    let found = answer(&fixture.run());
    assert_eq!(found.statements[0], Statement::Best { cases: ids(&["pipe"]), verdict: None });
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
    assert_eq!(answer(&run).statements[0], winner(&Case::ping_pong("pipe")));
}

#[test]
fn one_case_is_reported_by_its_figures_and_no_case_says_so() {
    let single = |case: &Case| [Statement::Single { case: case.id() }];
    let run = run_of(&[plain("tcp", 13_000)]);
    assert_eq!(answer(&run).statements, single(&Case::ping_pong("tcp")));
    let (middle, [low, _]) = p50(&run, &Case::ping_pong("tcp"));
    assert!(middle == "13.0 us" && low.starts_with("13.0"), "{middle} {low}");
    assert_eq!(run.cases[0].primary().latency_ns.p99.map(|p99| duration(p99.value)), Some("13.0 us".to_owned()));
    assert_eq!((run.cases[0].primary().samples, run.cases[0].rounds), (1200, 12));
    let exchange = small_writes("default");
    let run = run_of(&[(exchange.clone(), 44_000_000)]);
    assert_eq!(answer(&run).statements, single(&exchange));
    assert_eq!(p50(&run, &exchange).0, "44.1 ms");
    assert_eq!((run.cases[0].primary().samples, run.cases[0].rounds), (1200, 12));
    assert_eq!(answer_of(&[]).statements, [Statement::NothingMeasured]);
}

#[test]
fn without_a_usable_case_the_reason_is_given() {
    let mut run = run_of(&[plain("tcp", 13_000), plain("udp", 13_000)]);
    run.cases.iter_mut().for_each(|row| row.valid = false);
    assert_eq!(answer(&run).statements, [Statement::NothingUsable]);
}

/// Twelve rounds, and the disturbed ones among them again with these numbers.
fn disturbed(rounds: u32, repetitions: u32) -> Run {
    let mut run = run_of(&[plain("tcp", 13_000)]);
    for number in 0..repetitions {
        let mut again = run.rounds[number as usize].clone();
        again.number = 12 + number;
        run.rounds.push(again);
    }
    let why = LeftOut::CpuTaken { lost_ns: 9_000_000, span_ns: 10_000_000 };
    let omitted = |round| RoundLeftOut { round, purpose: Purpose::Timed, why: why.clone(), only_tail: false };
    run.cases[0].omitted_rounds = (0..rounds).chain(12..12 + repetitions).map(omitted).collect();
    run
}

#[test]
fn more_than_half_of_the_rounds_are_too_noisy_and_a_repetition_is_not_another_round() {
    let said = |rounds, repetitions| match answer(&disturbed(rounds, repetitions)).statements.first() {
        Some(Statement::TooNoisy { disturbed, rounds, .. }) => Some((*disturbed, *rounds)),
        _ => None,
    };
    assert_eq!([said(6, 0), said(7, 0)], [None, Some((7, 12))]);
    assert_eq!([said(6, 6), said(7, 7)], [None, Some((7, 12))], "disturbed again");
    let mut mended = disturbed(7, 2);
    mended.cases[0].omitted_rounds.truncate(7);
    assert!(!matches!(answer(&mended).statements[0], Statement::TooNoisy { .. }), "two count at the second try");
}

#[test]
fn cases_at_a_given_rate_are_ranked_by_p99_among_those_that_reached_it() {
    let nodelay = |case: Case| {
        case.with(|case| case.primary_mut().options = Options::default().with(OptionName::Nodelay, "on"))
    };
    let [pipe, fifo, tcp] = ["pipe", "fifo", "tcp"].map(|transport| at_rate(Case::ping_pong(transport), 1000.0));
    let fast = nodelay(tcp.clone());
    let mut fixture = Fixture::new();
    // The p50s order the cases in another way than the p99s.
    let messages = |usual: u64, slow: u64| -> Vec<(u64, u64)> {
        (0..150).map(|message| (0, if message % 50 == 0 { slow } else { usual })).collect()
    };
    for block in 0..12 {
        let more = u64::from(block % 5) * 50;
        for (case, usual, slow) in
            [(&pipe, 9_000, 20_000), (&fifo, 9_000, 20_400), (&tcp, 8_000, 900_000), (&fast, 9_000, 30_000)]
        {
            fixture.round(case, block, &paced(1_000_000, &messages(usual, slow + more)));
        }
        // Each message is sent later than the one before.
        let behind: Vec<(u64, u64)> = (0..150).map(|message| (message * 500_000, 1_000)).collect();
        fixture.round(&at_rate(Case::ping_pong("udp"), 1000.0), block, &paced(1_000_000, &behind));
    }
    let mut run = fixture.run();
    let figure = ComparedBy::P99;
    let missed = Statement::RateMissed { cases: vec![at_rate(Case::ping_pong("udp"), 1000.0).id()] };
    let best = |cases: &[&Case], verdict| {
        let cases = cases.iter().map(|case| case.id()).collect();
        Statement::BestAtRate { cases, figure, verdict: Some(verdict) }
    };
    let needs = Statement::NeedsNodelay { case: fast.id(), without: tcp.id(), figure };
    let alike = best(&[&pipe, &fifo], Verdict::CannotTell);
    assert_eq!(answer(&run).statements, [alike, needs.clone(), missed.clone()]);
    run.cases.retain(|row| row.case != pipe && row.case != fifo);
    assert_eq!(answer(&run).statements, [best(&[&fast], Verdict::Faster), needs, missed]);
    run.cases[0].case.injected_fault = Some(InjectedFault { stall_ns: 4_000_000, every: 1, sleeps: true });
    run.cases.truncate(1);
    run.cases.push(CaseSummary { id: "2".to_owned(), ..run.cases[0].clone() });
    assert_eq!(answer(&run).statements, [Statement::NotRanked { open_loop: true, injected_fault: true }]);
}

#[test]
fn over_several_paths_each_has_its_own_figure() {
    let slow = |transport: &str, latency| (over("delay=2ms", Case::ping_pong(transport)), latency);
    let [tcp, udp] = ["tcp", "udp"].map(|transport| Case::ping_pong(transport).id());
    let [slow_tcp, slow_udp] = ["tcp", "udp"].map(|transport| slow(transport, 0).0.id());
    let paths = |here: &[&String], there: &[&String]| {
        let owned = |ids: &[&String]| ids.iter().map(|id| (*id).clone()).collect();
        [Statement::BestOverPaths { paths: vec![owned(here), owned(there)] }]
    };
    let run = run_of(&[plain("tcp", 13_000), slow("tcp", 4_000_000)]);
    assert_eq!(answer(&run).statements, paths(&[&tcp], &[&slow_tcp]));
    let medians = [&Case::ping_pong("tcp"), &slow("tcp", 0).0].map(|case| p50(&run, case).0);
    assert_eq!(medians, ["13.0 us", "4.01 ms"]);
    let found =
        answer_of(&[plain("tcp", 13_000), plain("udp", 10_000), slow("tcp", 4_000_000), slow("udp", 4_100_000)]);
    assert_eq!(found.statements, paths(&[&udp], &[&slow_tcp]));
    let found =
        answer_of(&[plain("tcp", 13_000), plain("udp", 10_000), slow("tcp", 4_000_000), slow("udp", 4_000_000)]);
    assert_eq!(found.statements, paths(&[&udp], &[&slow_tcp, &slow_udp]));
}

fn exchanges(remedies: &[(&str, u64)]) -> Vec<(Case, u64)> {
    remedies.iter().map(|(remedy, latency)| (small_writes(remedy), *latency)).collect()
}

fn remedies(remedies: &[&str]) -> Vec<String> {
    remedies.iter().map(|remedy| small_writes(remedy).id()).collect()
}

fn best_remedy(remedy: &str) -> Statement {
    Statement::Remedy { default: small_writes("default").id(), best: small_writes(remedy).id() }
}

/// The speed-up of a remedy: its throughput / the throughput of default options.
fn speed_up(run: &Run, case: &Case) -> Figure {
    run.case(&case.id()).unwrap().speed_up().unwrap()
}

const REMEDIES: &[(&str, u64)] =
    &[("default", 44_000_000), ("nodelay", 550_000), ("one-write", 24_000), ("cork-forgotten", 208_000_000)];

#[test]
fn the_best_remedy_and_those_slower_than_default_are_named() {
    let run = run_of(&exchanges(REMEDIES));
    let found = answer(&run);
    let slower = Statement::SlowerRemedies { cases: remedies(&["cork-forgotten"]) };
    assert_eq!(found.statements, [best_remedy("one-write"), slower]);
    assert_eq!(["default", "one-write"].map(|remedy| p50(&run, &small_writes(remedy)).0), ["44.1 ms", "24.1 us"]);
    let gain = speed_up(&run, &small_writes("one-write"));
    assert!(factor(gain.value) == "1833x" && (1800.0..1900.0).contains(&gain.low.unwrap()), "{gain:?}");
    assert_eq!(factor(speed_up(&run, &small_writes("cork-forgotten")).value), "0.212x");
    let best = found.best_remedy.expect("a remedy is faster");
    assert_eq!((best.case, best.no_difference), (small_writes("one-write").id(), Vec::new()));
    assert!((best.speed_up.expect("default was measured").value - 1833.0).abs() < 10.0);
}

#[test]
fn remedies_with_equal_throughput_have_no_winner() {
    let found = answer_of(&exchanges(&[("default", 44_000_000), ("writev", 24_000), ("one-write", 24_000)]));
    let equal = Statement::EqualRemedies { cases: remedies(&["writev", "one-write"]) };
    assert_eq!(found.statements, [best_remedy("writev"), equal]);
    assert_eq!(found.best_remedy.expect("both remedies are faster").no_difference, remedies(&["one-write"]));
}

#[test]
fn no_remedy_is_called_faster_without_proof() {
    let unproved = |have_intervals| [Statement::NoRemedy { default: small_writes("default").id(), have_intervals }];
    let found = answer_of(&exchanges(&[("default", 44_000_000), ("nodelay", 44_000_000)]));
    assert_eq!((found.statements.as_slice(), found.best_remedy), (unproved(Some(true)).as_slice(), None));
    let mut fixture = Fixture::new();
    fixture.rounds_of(&small_writes("default"), &[44_000_000, 44_010_000]);
    fixture.rounds_of(&small_writes("nodelay"), &[44_000_000, 44_010_000]);
    assert_eq!(answer(&fixture.run()).statements, unproved(Some(false)));
}

#[test]
fn one_write_each_is_answered_with_two_writes() {
    let with = |writes: &str, reply_writes: Option<&str>| {
        small_writes("default").with(|case| {
            let exchange = case.primary_mut().load.exchange_mut().unwrap();
            exchange.writes = writes.parse().unwrap();
            exchange.reply_writes = reply_writes.map(|writes| writes.parse().unwrap());
        })
    };
    let (one, request, answer) = (with("200", None), with("2x100", None), with("200", Some("2x2")));
    let expected = |request: Option<&Case>, answer: Option<&Case>| {
        let [request, answer] = [request, answer].map(|case| case.map(Case::id));
        Statement::InTwoWrites { default: one.id(), request, answer }
    };
    let of = |cases: &[&Case]| {
        let times = [12_000, 44_000_000, 43_000_000];
        let cases: Vec<_> = cases.iter().zip(times).map(|(case, ns)| ((*case).clone(), ns)).collect();
        answer_of(&cases).statements[0].clone()
    };
    assert_eq!(of(&[&one, &request, &answer]), expected(Some(&request), Some(&answer)));
    assert_eq!(of(&[&one, &answer]), expected(None, Some(&answer)));
    let other = with("2x99", None);
    assert!(matches!(of(&[&one, &other]), Statement::NoRemedy { .. }), "it has fewer bytes");
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
    let run = fixture.run();
    assert_eq!(answer(&run).statements[0], best_remedy("more"));
    let figures = (p50(&run, &small_writes("more")).0, factor(speed_up(&run, &small_writes("more")).value));
    assert_eq!(figures, ("100 us".to_owned(), "439x".to_owned()));
}

#[test]
fn without_default_remedies_are_compared_with_each_other() {
    let fastest = |cases: &[&str]| [Statement::FastestRemedies { cases: remedies(cases) }];
    let run = run_of(&exchanges(&[("nodelay", 550_000), ("one-write", 24_000)]));
    assert_eq!(answer(&run).statements, fastest(&["one-write"]));
    let bytes_per_ms = run.case(&small_writes("one-write").id()).unwrap().bytes_per_ms().unwrap().value;
    assert!((8_000.0..9_000.0).contains(&bytes_per_ms), "{bytes_per_ms}");
    let found = answer_of(&exchanges(&[("writev", 24_000), ("one-write", 24_000)]));
    assert_eq!(found.statements, fastest(&["writev", "one-write"]));
    let elsewhere = (Case::ping_pong("tcp"), 13_000);
    let mut run = run_of(&[exchanges(&[("one-write", 24_000)]), vec![elsewhere]].concat());
    run.cases[1].valid = false;
    assert_eq!(answer(&run).statements, [Statement::OnlyRemedy { case: small_writes("one-write").id() }]);
}

fn with_gap(remedy: &str) -> Case {
    small_writes(remedy).with(|case| case.primary_mut().load.exchange_mut().unwrap().gap_ns = 1_000_000)
}

#[test]
fn a_remedy_without_pauses_is_not_compared_with_remedies_that_pause() {
    let paused = [("default", 143_000_000), ("nodelay", 99_600_000), ("one-write", 24_000)];
    let cases: Vec<(Case, u64)> = paused.iter().map(|(remedy, latency)| (with_gap(remedy), *latency)).collect();
    let run = run_of(&cases);
    let best = Statement::Remedy { default: with_gap("default").id(), best: with_gap("nodelay").id() };
    let without_pauses = Statement::WithoutPauses { case: with_gap("one-write").id() };
    assert_eq!(answer(&run).statements, [best, without_pauses], "one-write is faster but has no pauses");
    assert_eq!(factor(speed_up(&run, &with_gap("nodelay")).value), "1.44x");
}

#[test]
fn an_injected_fault_is_stated_first_unless_other_cases_are_usable() {
    let injected = |remedy: &str| {
        small_writes(remedy).with(|changed| {
            changed.injected_fault = Some(InjectedFault { stall_ns: 4_000_000, every: 1, sleeps: true })
        })
    };
    let mut cases: Vec<(Case, u64)> = vec![(injected("default"), 44_000_000), (injected("nodelay"), 5_000_000)];
    let run = run_of(&cases);
    let not_ranked = Statement::NotRanked { open_loop: false, injected_fault: true };
    let best = Statement::Remedy { default: injected("default").id(), best: injected("nodelay").id() };
    assert_eq!(answer(&run).statements, [not_ranked, best]);
    assert_eq!(p50(&run, &injected("default")).0, "44.1 ms");
    cases.extend(exchanges(REMEDIES));
    assert_eq!(answer_of(&cases).statements[0], best_remedy("one-write"));
}

#[test]
fn other_transports_and_paths_follow_the_first() {
    let elsewhere =
        small_writes("default").with(|changed| changed.primary_mut().transport = "unix-stream".to_owned());
    let run = run_of(&[exchanges(&REMEDIES[..3]), vec![(elsewhere.clone(), 102_000)]].concat());
    let others = Statement::OtherTransports { cases: vec![elsewhere.id()] };
    assert_eq!(answer(&run).statements, [best_remedy("one-write"), others]);
    assert_eq!(p50(&run, &elsewhere).0, "102 us");
    let slow = |remedy: &str, latency| (over("delay=2ms", small_writes(remedy)), latency);
    let cases = [exchanges(&REMEDIES[..3]), vec![slow("default", 48_000_000), slow("one-write", 4_000_000)]].concat();
    let run = run_of(&cases);
    let over_it = ["default", "one-write"].map(|remedy| slow(remedy, 0).0);
    let others = Statement::OtherPaths { paths: vec![over_it.iter().map(Case::id).collect()] };
    assert_eq!(answer(&run).statements, [best_remedy("one-write"), others]);
    assert_eq!(over_it.each_ref().map(|case| p50(&run, case).0), ["48.1 ms", "4.01 ms"]);
}

fn finding(code: &str, case: &Case, share: f64) -> Finding {
    Finding {
        code: code.to_owned(),
        about: About::Cause,
        severity: Severity::Warning,
        cases: vec![case.id()],
        summary: String::new(),
        evidence: Vec::new(),
        advice: String::new(),
        share,
        ..Finding::default()
    }
}

/// Whether the answer quotes the finding if it was not checked, was confirmed, and was refuted.
fn is_quoted(mut run: Run, finding: &Finding) -> [bool; 3] {
    let proved = |verdict: &str| Proved {
        check: "change it".to_owned(),
        verdict: verdict.to_owned(),
        effect: Figure::bare(0.0),
        unit: "ns".to_owned(),
        ..Proved::default()
    };
    let quoted = Statement::Finding { code: finding.code.clone(), case: finding.cases[0].clone() };
    [None, Some(proved("confirmed")), Some(proved("refuted"))].map(|proved| {
        run.findings = vec![Finding { proved, ..finding.clone() }];
        answer(&run).statements.contains(&quoted)
    })
}

#[test]
fn the_cause_is_quoted_unless_its_check_did_not_confirm_it() {
    let run = || run_of(&exchanges(REMEDIES));
    let default = small_writes("default");
    assert_eq!(is_quoted(run(), &finding("nagle-waits", &default, 0.987)), [true, true, false]);
    assert_eq!(is_quoted(run(), &finding("nagle-waits", &default, 0.09)), [false; 3], "the share is too small");
    assert_eq!(is_quoted(run(), &finding("nagle-waits", &small_writes("nodelay"), 0.987)), [false; 3]);
}

#[test]
fn waking_is_quoted_with_round_trips_unless_its_check_did_not_confirm_it() {
    let run = || run_of(&[plain("tcp", 13_000), plain("pipe", 5_000)]);
    let tcp = Case::ping_pong("tcp");
    assert_eq!(is_quoted(run(), &finding("wake-up-dominated", &tcp, 0.84)), [true, true, false]);
    assert_eq!(is_quoted(run(), &finding("wake-up-dominated", &tcp, 0.0)), [false; 3]);
    assert_eq!(is_quoted(run(), &finding("drift", &tcp, 0.84)), [false; 3], "no other finding");
}
