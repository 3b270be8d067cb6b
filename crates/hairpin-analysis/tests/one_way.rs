//! One-way loads compared, ranked and answered: message rates, goodput, and offered loads by the share that arrived.

use hairpin_analysis::{Budget, answer, compare_runs};
use hairpin_model::case::{Case, Waiting};
use hairpin_model::compared_by::ComparedBy;
use hairpin_model::flow::Direction;
use hairpin_model::knee::NotDelivered;
use hairpin_model::options::OptionName;
use hairpin_model::run::Run;
use hairpin_model::summary::{Role, Verdict};

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

/// The comparisons in words: role, figure, the labels of both cases, verdict.
fn told(run: &Run) -> Vec<(Role, ComparedBy, String, String, Verdict)> {
    let label = |id: &str| run.case(id).unwrap().label.replace(" block same-cpu up", "");
    let pairs = run.comparisons.iter();
    pairs.map(|one| (one.role, one.figure, label(&one.baseline), label(&one.candidate), one.verdict)).collect()
}

#[test]
fn messages_are_ranked_and_compared_by_those_received() {
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
fn streams_are_ranked_by_goodput_whatever_their_writes() {
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
        budget.check(&compare_runs(&[&before], &[after]))[0].kept
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
    let headline =
        "Highest message rate: tcp up 64 B batch 64 (blocking, same CPU) at 20.1 M messages/s (95 % interval ";
    assert!(run.answer.headline.starts_with(headline), "{:?}", run.answer);
    let sentences = &run.answer.sentences;
    assert!(
        sentences[0].starts_with("With 64 messages a call instead of one: tcp 20.0x (95 % interval "),
        "{sentences:?}"
    );
    let latency = "One-way latency at p50: 90.3 us of tcp up 64 B batch 64, and 10.0 us with one message a call.";
    assert_eq!(sentences[1], latency);
    let loss = "udp up 64 B (blocking, same CPU): 25 % of 4 812 000 messages lost: 1 203 000 (receive buffer full).";
    assert_eq!(sentences[2..], [loss]);
    let one = run_of(&[(messages("tcp", 1), at(1e6))]).answer;
    let alone = "tcp block same-cpu up 64 B: 1.00 M messages/s (95 % interval ";
    assert!(
        one.headline.starts_with(alone) && one.headline.ends_with("one-way latency at p50 10.0 us, 12 rounds."),
        "{one:?}"
    );
}

#[test]
fn without_a_difference_between_rates_no_winner_is_named() {
    let run = run_of(&[(messages("tcp", 1), at(1e6)), (messages("unix-stream", 1), at(1e6))]);
    assert!(run.answer.headline.starts_with("Highest message rate, no difference found: "), "{:?}", run.answer);
}

#[test]
fn bulk_is_answered_with_goodput_and_never_a_message_rate() {
    let run = run_of(&[(stream("tcp", 65_536), at(5e4)), (stream("udp", 1400), Counted { arrived: 0.5, ..at(1e6) })]);
    let headline = "Highest goodput: tcp up 64 KiB (blocking, same CPU) at 3.28 GB/s (95 % interval ";
    assert!(run.answer.headline.starts_with(headline), "{:?}", run.answer);
    assert!(run.answer.sentences.iter().any(|said| said.contains("50 % of")), "{:?}", run.answer);
    let elsewhere = |case: Case| (between_hosts(case), at(5e4));
    let run = run_of(&[elsewhere(stream("tcp", 65_536)), elsewhere(stream("mptcp", 4096))]);
    let headline = "Highest goodput to lab: tcp up 64 KiB (blocking, each pinned) at 3.28 GB/s";
    assert!(run.answer.headline.starts_with(headline), "{:?}", run.answer);
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
    let headline = "udp6 up 64 B (blocking, two CPUs) delivers 20.0 k messages/s (one-way latency at p50 20.1 us); at \
                    40.0 k messages/s 20 % was lost: ";
    assert!(run.answer.headline.starts_with(headline), "{:?}", run.answer);
    let knees: Vec<_> =
        run.answer.knees.iter().map(|knee| (knee.delivered_per_s, knee.not_delivered_per_s)).collect();
    assert_eq!(knees, [(Some(1e4), Some(2e4)), (Some(2e4), Some(4e4))]);
    let knee = &run.answer.knees[0];
    assert_eq!((knee.cases.len(), knee.why_not), (3, Some(NotDelivered::Lost)));
    assert_eq!(knee.highest_power_per_s, Some(4e4), "more arrives at the same latency");
    assert!(
        run.answer.sentences.iter().any(|said| said.contains("highest at 40.0 k messages/s")),
        "{:?}",
        run.answer
    );
}

#[test]
fn a_sweep_without_a_knee_says_so_and_a_sender_that_fell_behind_is_named() {
    let run = run_of(&[(offered("udp", 1e4), at(1e4)), (offered("udp", 2e4), at(2e4))]);
    assert!(
        run.answer.headline.contains("delivers every rate measured, up to 20.0 k messages/s"),
        "{:?}",
        run.answer
    );
    let run = run_of(&[(offered("udp", 1e4), at(1e4)), (offered("udp", 4e4), at(2e4))]);
    let knee = &run.answer.knees[0];
    assert_eq!((knee.not_delivered_per_s, knee.why_not), (Some(4e4), Some(NotDelivered::SenderBehind)));
    assert!(
        run.answer.headline.contains("at 40.0 k messages/s the sender reached 20.0 k messages/s."),
        "{:?}",
        run.answer
    );
    let run = run_of(&[(offered("udp", 1e4), Counted { arrived: 0.5, ..at(1e4) }), (offered("udp", 4e4), at(2e4))]);
    assert!(run.answer.headline.contains("does not deliver the lowest rate measured: at 10.0 k"), "{:?}", run.answer);
}

#[test]
fn uneven_sends_are_reported_if_they_should_be_even() {
    let with_gaps = |ratio: f64, below_half: f64| {
        let mut run = run_of(&[(offered("udp", 1e4), at(1e4))]);
        let pacing = run.cases[0].primary_mut().one_way.as_mut().unwrap().pacing.as_mut().unwrap();
        pacing.gap_ns.p50 = pacing.gap_ns.p50.map(|gap| gap.rising(|gap| gap * ratio));
        pacing.share_below_half = pacing.share_below_half.map(|share| share.rising(|_| below_half));
        answer(&run)
    };
    let even = with_gaps(1.005, 0.015);
    let headline = "udp block cross-cpu up 64 B 10000/s: 10.0 k messages/s of 10.0 k messages/s delivered (100 %), ";
    assert!(even.headline.starts_with(headline), "{even:?}");
    assert_eq!(even.sentences, [""; 0]);
    let off = "udp up 64 B 10000/s (blocking, two CPUs): pacing (sleep+spin) was off: ";
    let median = "the median gap was 1.05x of that asked for";
    assert_eq!(with_gaps(1.05, 0.0).sentences, [format!("{off}{median}.")]);
    let both = format!("{off}{median}, 3.0 % of gaps were below half of that asked for.");
    assert_eq!(with_gaps(1.05, 0.03).sentences, [both]);
}

#[test]
fn losses_of_several_cases_of_a_transport_are_one_sentence() {
    let lossy = |arrived: f64| Counted { arrived, ..at(1e6) };
    let run =
        run_of(&[(messages("udp", 1), lossy(0.75)), (messages("udp", 8), lossy(0.5)), (messages("tcp", 1), at(1e6))]);
    let told: Vec<&String> = run.answer.sentences.iter().filter(|sentence| sentence.contains("lost")).collect();
    assert_eq!(told, ["udp lost 25 % to 50 % of its messages in 2 cases: receive buffer full."]);
}
