//! One-way loads compared, ranked and answered: message rates, goodput, and offered loads by the share that arrived.

use std::collections::BTreeMap;

use hairpin_analysis::{Budget, answer, compare_runs};
use hairpin_model::compared_by::ComparedBy;
use hairpin_model::flow::Direction;
use hairpin_model::knee::NotDelivered;
use hairpin_model::ledger::RECEIVE_BUFFER;
use hairpin_model::options::OptionName;
use hairpin_model::quantities::{byte_rate, duration, factor, message_rate, share};
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{BatchGain, Case, Flow, Run, Statement, Waiting};

use crate::support::Fixture;
use crate::support::links::between_hosts;
use crate::support::one_way::{Counted, messages, offered, stream};

fn at(sent_per_s: f64) -> Counted {
    Counted { sent_per_s, arrived: 1.0, latency_ns: 10_000 }
}

fn run_of(cases: &[(Case, Counted)]) -> Run {
    let mut fixture = Fixture::new();
    cases.iter().for_each(|(case, counted)| fixture.one_way(case, *counted));
    let mut run = fixture.run();
    run.answer = answer(&run);
    run
}

fn winner(id: &str) -> Statement {
    Statement::Best { cases: vec![id.to_owned()], verdict: Some(Verdict::Faster) }
}

fn p50(run: &Run, id: &str) -> String {
    duration(run.case(id).unwrap().p50_ns().unwrap())
}

/// The comparisons in words: role, figure, the labels of both cases, verdict.
fn told(run: &Run) -> Vec<(Role, ComparedBy, String, String, Verdict)> {
    let label = |id: &str| run.case(id).unwrap().label.replace(" block same-cpu up", "");
    let pairs = run.comparisons.iter();
    pairs.map(|one| (one.role, one.figure, label(&one.baseline), label(&one.candidate), one.verdict)).collect()
}

#[test]
fn messages_are_ranked_and_compared_by_the_received_rate() {
    let again = messages("tcp", 1).with(|case| case.replicate = 1);
    // UDP sends more and delivers less.
    let udp = Counted { arrived: 0.5, ..at(1.5e6) };
    let run = run_of(&[
        (messages("tcp", 1), at(1e6)),
        (messages("udp", 1), udp),
        (messages("tcp", 8), at(8e6)),
        (again, at(1e6)),
    ]);
    let (rate, tcp) = (ComparedBy::Rate, "tcp 64 B".to_owned());
    let expected = [
        (Role::AgainstItself, rate, tcp.clone(), "tcp 64 B (again)".to_owned(), Verdict::CannotTell),
        (Role::Neighbours, rate, tcp.clone(), "udp 64 B".to_owned(), Verdict::Slower),
        (Role::CounterExperiment, rate, tcp, "tcp 64 B batch 8".to_owned(), Verdict::Faster),
    ];
    assert_eq!(told(&run), expected);
    assert!((run.comparisons[2].ratio.value - 8.0).abs() < 0.01 && run.comparisons[2].ratio.excludes(7.9));
    assert!(run.comparisons.iter().all(|one| one.difference_ns.is_none() && one.tails.is_empty()));
    let pair = &run.answer.pairs[0];
    assert_eq!((run.answer.pairs.len(), pair.figure, pair.verdict), (1, rate, Verdict::Slower));
    assert_eq!(pair.a, run.cases[0].id, "the higher rate first");
}

#[test]
fn streams_are_ranked_by_goodput_regardless_of_the_write_size() {
    let run =
        run_of(&[(stream("udp", 1400), at(1e6)), (stream("tcp", 65_536), at(5e4)), (stream("tcp", 1024), at(5e5))]);
    let goodput = ComparedBy::Goodput;
    let name = |of: &str| of.to_owned();
    let expected = [
        (Role::Neighbours, goodput, name("tcp 64 KiB"), name("udp 1400 B"), Verdict::Slower),
        (Role::Neighbours, goodput, name("udp 1400 B"), name("tcp 1 KiB"), Verdict::Slower),
        (Role::CounterExperiment, goodput, name("tcp 1 KiB"), name("tcp 64 KiB"), Verdict::Faster),
    ];
    assert_eq!(told(&run), expected);
}

#[test]
fn exactly_one_change_is_compared() {
    let base = stream("tcp", 65_536);
    let changed = |change: fn(&mut Case)| base.clone().with(change);
    let others = [
        changed(|case| case.primary_mut().direction = Direction::Down),
        changed(|case| case.ends.waiting = Waiting::Poll),
        changed(|case| {
            case.ends.waiting = Waiting::Poll;
            case.primary_mut().connections = 8;
        }),
        changed(|case| {
            case.primary_mut().options = case.primary().options.clone().with(OptionName::Congestion, "cubic");
        }),
    ];
    let cases: Vec<(Case, Counted)> =
        std::iter::once(base.clone()).chain(others).map(|case| (case, at(1e5))).collect();
    let run = run_of(&cases);
    let place = |id: &str| run.cases.iter().position(|row| row.id == id).unwrap();
    let pairs: Vec<(usize, usize)> =
        run.comparisons.iter().map(|one| (place(&one.baseline), place(&one.candidate))).collect();
    assert_eq!(pairs, [(0, 1), (0, 2), (0, 4), (2, 3)], "connections with the same waiting only");
}

#[test]
fn offered_loads_are_compared_at_one_rate_and_by_latency_only_where_both_arrived() {
    let whole = |latency_ns| Counted { latency_ns, ..at(1e4) };
    let lossy = Counted { arrived: 0.9, latency_ns: 5_000, ..at(1e4) };
    let figures = |udp: Counted| {
        let spin = offered("udp", 1e4).with(|case| case.ends.waiting = Waiting::Spin);
        let run = run_of(&[(offered("udp", 1e4), udp), (spin, whole(6_000)), (offered("udp", 2e4), at(2e4))]);
        assert_eq!(run.comparisons.len(), 1, "no comparison between loads");
        let one = &run.comparisons[0];
        (one.figure, one.verdict, one.tails.len())
    };
    assert_eq!(figures(whole(10_000)), (ComparedBy::P50, Verdict::Faster, 2));
    let hardly = Counted { arrived: 0.995, ..whole(10_000) };
    assert_eq!(figures(hardly), (ComparedBy::P50, Verdict::Faster, 0), "a lost message would be in the tail");
    assert_eq!(figures(lossy), (ComparedBy::Rate, Verdict::Faster, 0), "the lost messages would have waited");
}

#[test]
fn undelivered_loads_are_not_ranked() {
    let run = run_of(&[
        (offered("udp", 1e5), Counted { arrived: 0.5, ..at(1e5) }),
        (offered("tcp", 1e5), at(1e5)),
        (offered("unix-stream", 1e5), Counted { latency_ns: 4_000, ..at(1e5) }),
        (offered("tcp", 2e5), at(2e5)),
    ]);
    let names = |id: &str| run.case(id).unwrap().case.primary().transport.clone();
    let ranked: Vec<_> = run.answer.pairs.iter().map(|pair| (pair.figure, names(&pair.a), names(&pair.b))).collect();
    let pair = |figure| (figure, "unix-stream".to_owned(), "tcp".to_owned());
    assert_eq!(ranked, [pair(ComparedBy::P50), pair(ComparedBy::P90), pair(ComparedBy::P99)]);
}

#[test]
fn two_runs_are_compared_by_goodput_with_a_budget() {
    let run = |writes_per_s: f64| run_of(&[(stream("tcp", 65_536), at(writes_per_s))]);
    let (before, after) = (run(5e4), run(4.5e4));
    let compared = compare_runs(&[&before], &[&after]);
    let judged: Vec<_> = compared.cases[0].figures.iter().filter(|figure| figure.has_verdict).collect();
    assert_eq!(judged.len(), 1);
    assert_eq!((judged[0].figure, judged[0].verdict), (ComparedBy::Goodput, Verdict::Slower));
    assert!((judged[0].ratio().unwrap().value - 0.9).abs() < 0.001);
    let kept = |budget: &str, after: &Run| {
        let budget: Budget = budget.parse().unwrap();
        Budget::check_all(&[budget], &compare_runs(&[&before], &[after]))[0].kept
    };
    assert_eq!(kept("goodput=-5%", &after), Some(false));
    assert_eq!(kept("goodput=-15%", &after), Some(true));
    assert_eq!(kept("goodput=5%", &run(6e4)), Some(true), "more is better");
    let rates = |per_s: f64| run_of(&[(messages("udp", 8), Counted { arrived: 0.5, ..at(per_s) })]);
    let compared = compare_runs(&[&rates(1e6)], &[&rates(1.2e6)]);
    let rate = compared.cases[0].figures.iter().find(|figure| figure.has_verdict).unwrap();
    assert_eq!((rate.figure, rate.verdict), (ComparedBy::Rate, Verdict::Faster));
}

#[test]
fn runs_at_other_offered_rates_have_no_case_in_common() {
    let run = |per_s: f64| run_of(&[(offered("udp", per_s), at(per_s))]);
    assert_eq!(compare_runs(&[&run(1e4)], &[&run(1e4)]).cases.len(), 1);
    let other = compare_runs(&[&run(1e4)], &[&run(2e4)]);
    assert_eq!((other.cases.len(), other.differs), (0, None));
}

#[test]
fn message_rate_is_answered_with_the_rate_the_gain_the_latency_and_the_loss() {
    let run = run_of(&[
        (messages("tcp", 1), at(1e6)),
        (messages("tcp", 64), Counted { latency_ns: 90_000, ..at(2e7) }),
        (messages("udp", 1), Counted { arrived: 0.75, ..at(4e5) }),
    ]);
    let [one, batch, udp] = [messages("tcp", 1), messages("tcp", 64), messages("udp", 1)].map(|case| case.id());
    let statements = &run.answer.statements;
    assert_eq!(statements[0], winner(&batch));
    let rate = run.case(&batch).unwrap().compared(ComparedBy::Rate).unwrap();
    assert!(message_rate(rate.value) == "20.1 M messages/s" && rate.interval().is_some(), "{rate:?}");
    let Statement::Batches { messages: 64, gains } = &statements[1] else { panic!("{statements:?}") };
    let [BatchGain { case, ratio: Some(ratio) }] = gains.as_slice() else { panic!("{gains:?}") };
    assert!(*case == batch && factor(ratio.value) == "20.0x" && ratio.interval().is_some(), "{gains:?}");
    assert_eq!(statements[2], Statement::LatencyAtRate { case: batch.clone(), unbatched: Some(one.clone()) });
    assert_eq!([&batch, &one].map(|id| p50(&run, id)), ["90.3 us", "10.0 us"]);
    assert_eq!(statements[3..], [Statement::Lost { cases: vec![udp.clone()] }]);
    let ledger = &run.case(&udp).unwrap().primary().ledger;
    let lost = BTreeMap::from([(RECEIVE_BUFFER.to_owned(), 1_203_000)]);
    assert_eq!((ledger.sent, &ledger.lost, ledger.unexplained), (4_812_000, &lost, 0));
    let run = run_of(&[(messages("tcp", 1), at(1e6))]);
    assert_eq!(run.answer.statements, [Statement::Single { case: one.clone() }]);
    let rate = run.case(&one).unwrap().compared(ComparedBy::Rate).unwrap();
    assert!(message_rate(rate.value) == "1.00 M messages/s" && rate.interval().is_some(), "{rate:?}");
    assert_eq!((p50(&run, &one).as_str(), run.cases[0].rounds), ("10.0 us", 12));
}

#[test]
fn without_a_difference_between_rates_no_winner_is_named() {
    let run = run_of(&[(messages("tcp", 1), at(1e6)), (messages("unix-stream", 1), at(1e6))]);
    let cases = ["tcp", "unix-stream"].map(|transport| messages(transport, 1).id()).to_vec();
    assert_eq!(run.answer.statements[0], Statement::Best { cases, verdict: Some(Verdict::CannotTell) });
}

#[test]
fn both_directions_together_do_not_beat_a_single_one() {
    let single = stream("tcp", 65_536);
    let mut both = single.clone();
    both.flows.push(Flow { id: "back".into(), direction: Direction::Down, ..single.primary().clone() });
    let mut run = run_of(&[(single.clone(), at(5e4)), (stream("unix-stream", 65_536), at(3e4))]);
    let mut row = run.cases[0].clone();
    (row.id, row.case) = (both.id(), both.clone());
    run.cases.insert(0, row);
    let statements = answer(&run).statements;
    assert_eq!(statements[0], winner(&single.id()));
    assert_eq!(statements[1], winner(&both.id()), "a headline of its own");
}

#[test]
fn bulk_is_answered_with_goodput_and_never_a_message_rate() {
    let run = run_of(&[(stream("tcp", 65_536), at(5e4)), (stream("udp", 1400), Counted { arrived: 0.5, ..at(1e6) })]);
    let goodput = |run: &Run, id: &str| run.case(id).unwrap().goodput().unwrap();
    let [tcp, udp] = [stream("tcp", 65_536), stream("udp", 1400)].map(|case| case.id());
    assert_eq!(run.answer.statements[0], winner(&tcp));
    assert_eq!(byte_rate(goodput(&run, &tcp).value), "3.28 GB/s");
    assert!(goodput(&run, &tcp).interval().is_some());
    assert!(run.answer.statements.contains(&Statement::Lost { cases: vec![udp.clone()] }), "{:?}", run.answer);
    assert_eq!(share(run.case(&udp).unwrap().primary().ledger.missing_share()), "50 %");
    let elsewhere = |case: Case| (between_hosts(case), at(5e4));
    let run = run_of(&[elsewhere(stream("tcp", 65_536)), elsewhere(stream("mptcp", 4096))]);
    let tcp = between_hosts(stream("tcp", 65_536)).id();
    assert_eq!(run.answer.statements[0], winner(&tcp));
    assert_eq!(byte_rate(goodput(&run, &tcp).value), "3.28 GB/s");
}

#[test]
fn a_sweep_is_answered_with_its_bracket_for_each_transport() {
    let swept = |transport, knee: f64| {
        [1e4, 2e4, 4e4].map(|rate| {
            let arrived = if rate <= knee { 1.0 } else { 0.8 };
            (offered(transport, rate), Counted { sent_per_s: rate, arrived, latency_ns: 20_000 })
        })
    };
    let run = run_of(&[swept("udp", 1e4), swept("udp6", 2e4)].concat());
    let [udp, udp6] = ["udp", "udp6"].map(|transport| offered(transport, 1e4).id());
    let power = |case: &String| Statement::HighestPower { case: case.clone() };
    let knee = |case: &String| Statement::Knee { case: case.clone() };
    assert_eq!(run.answer.statements, [knee(&udp6), power(&udp6), knee(&udp), power(&udp)], "the highest rate first");
    assert_eq!(p50(&run, &offered("udp6", 2e4).id()), "20.1 us");
    assert_eq!(share(run.case(&offered("udp6", 4e4).id()).unwrap().primary().ledger.missing_share()), "20 %");
    let knees: Vec<_> =
        run.answer.knees.iter().map(|knee| (knee.delivered_per_s, knee.not_delivered_per_s)).collect();
    assert_eq!(knees, [(Some(1e4), Some(2e4)), (Some(2e4), Some(4e4))]);
    let knee = &run.answer.knees[0];
    assert_eq!((knee.cases.len(), knee.why_not), (3, Some(NotDelivered::Lost)));
    assert_eq!(knee.highest_power_per_s, Some(4e4), "more arrives at the same latency");
}

#[test]
fn a_sweep_without_a_knee_says_so_and_a_sender_that_fell_behind_is_named() {
    let run = run_of(&[(offered("udp", 1e4), at(1e4)), (offered("udp", 2e4), at(2e4))]);
    let bracket = |run: &Run| {
        let knee = &run.answer.knees[0];
        assert_eq!(run.answer.statements[0], Statement::Knee { case: knee.cases[0].clone() });
        (knee.delivered_per_s, knee.not_delivered_per_s, knee.why_not)
    };
    assert_eq!(bracket(&run), (Some(2e4), None, None));
    let run = run_of(&[(offered("udp", 1e4), at(1e4)), (offered("udp", 4e4), at(2e4))]);
    assert_eq!(bracket(&run), (Some(1e4), Some(4e4), Some(NotDelivered::SenderBehind)));
    let sent_per_s = run.cases[1].one_way().unwrap().sent_per_s.unwrap();
    assert_eq!(message_rate(sent_per_s.value), "20.0 k messages/s");
    let run = run_of(&[(offered("udp", 1e4), Counted { arrived: 0.5, ..at(1e4) }), (offered("udp", 4e4), at(2e4))]);
    assert_eq!(bracket(&run), (None, Some(1e4), Some(NotDelivered::Lost)));
}

#[test]
fn uneven_sends_are_reported_if_even_gaps_were_requested() {
    let with_gaps = |ratio: f64, below_half: f64| {
        let mut run = run_of(&[(offered("udp", 1e4), at(1e4))]);
        let pacing = run.cases[0].primary_mut().one_way.as_mut().unwrap().pacing.as_mut().unwrap();
        pacing.gap_ns.p50 = pacing.gap_ns.p50.map(|gap| gap.rising(|gap| gap * ratio));
        pacing.share_below_half = pacing.share_below_half.map(|share| share.rising(|_| below_half));
        let one_way = run.cases[0].one_way().unwrap();
        let delivered = [one_way.delivered_per_s, one_way.delivered_share].map(|figure| figure.unwrap().value);
        assert_eq!(
            (message_rate(delivered[0]), share(delivered[1])),
            ("10.0 k messages/s".to_owned(), "100 %".to_owned())
        );
        let statements = answer(&run).statements;
        assert_eq!(statements[0], Statement::Single { case: offered("udp", 1e4).id() });
        statements[1..].to_vec()
    };
    assert_eq!(with_gaps(1.005, 0.015), []);
    let off = |statements: Vec<Statement>| match statements.as_slice() {
        [Statement::Uneven { case, median_gap, below_half }] if *case == offered("udp", 1e4).id() => {
            (median_gap.map(factor), *below_half)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(off(with_gaps(1.05, 0.0)), (Some("1.05x".to_owned()), None));
    assert_eq!(off(with_gaps(1.05, 0.03)), (Some("1.05x".to_owned()), Some(0.03)));
    assert_eq!(off(with_gaps(1.0, 0.03)), (None, Some(0.03)));
}

#[test]
fn losses_of_several_cases_of_a_transport_are_one_sentence() {
    let lossy = |arrived: f64| Counted { arrived, ..at(1e6) };
    let run =
        run_of(&[(messages("udp", 1), lossy(0.75)), (messages("udp", 8), lossy(0.5)), (messages("tcp", 1), at(1e6))]);
    let is_loss = |statement: &&Statement| matches!(statement, Statement::Lost { .. });
    let losses: Vec<&Statement> = run.answer.statements.iter().filter(is_loss).collect();
    let udp = [8, 1].map(|batch| messages("udp", batch).id());
    assert_eq!(losses.len(), 1, "{losses:?}");
    let Statement::Lost { cases } = losses[0] else { unreachable!() };
    assert!(cases.len() == 2 && udp.iter().all(|id| cases.contains(id)), "{cases:?}");
    let shares = udp.map(|id| share(run.case(&id).unwrap().primary().ledger.missing_share()));
    assert_eq!(shares, ["50 %", "25 %"]);
}
