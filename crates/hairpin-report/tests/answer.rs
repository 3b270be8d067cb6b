//! The sentence of each kind of statement. The crate hairpin-analysis tests which statements a run gets.

use std::collections::BTreeMap;

use hairpin_model::answer::BusyCpu;
use hairpin_model::case::PathKind;
use hairpin_model::compared_by::ComparedBy;
use hairpin_model::flow::Direction;
use hairpin_model::knee::NotDelivered;
use hairpin_model::ledger::RECEIVE_BUFFER;
use hairpin_model::phases::Phase;
use hairpin_model::summary::Verdict;
use hairpin_model::{
    Answer, BatchGain, Case, CaseSummary, Choice, ChosenOptions, Fallback, Figure, Finding, FlowSummary,
    InjectedFault, JudgedCase, Ledger, MessageCost, Needs, Options, Placement, RemotePath, Run, Statement, UnmetNeed,
    Waiting, WouldChange,
};
use hairpin_report::{terminal, words};

use crate::support::{self, find, ids, small_writes};

/// The sentences of these statements, one per line.
fn said(run: &Run, statements: impl IntoIterator<Item = Statement>) -> String {
    let mut run = run.clone();
    run.answer.statements = statements.into_iter().collect();
    let (headline, sentences) = words::answer(&run);
    assert!(headline.chars().count() <= 100, "{headline}");
    [vec![headline], sentences].concat().join("\n")
}

fn id(run: &Run, label: &str) -> String {
    find(&run.cases, label).id.clone()
}

fn row<'r>(run: &'r mut Run, id: &str) -> &'r mut CaseSummary {
    run.cases.iter_mut().find(|row| row.id == id).expect("the run has the case")
}

const ALL: [Option<Verdict>; 4] = [Some(Verdict::Faster), Some(Verdict::Slower), Some(Verdict::CannotTell), None];

#[test]
fn nothing_measured_or_ranked() {
    let mut run = support::survey(1);
    let not_ranked = [(true, false), (false, true), (true, true), (false, false)]
        .map(|(open_loop, injected_fault)| Statement::NotRanked { open_loop, injected_fault });
    let nothing = [Statement::NothingMeasured, Statement::NothingUsable];
    let text = said(&run, nothing.into_iter().chain(not_ranked));
    run.cases.iter_mut().for_each(|row| row.failed_rounds.clear());
    insta::assert_snapshot!(format!("{text}\nWithout failed rounds: {}", said(&run, [Statement::NothingUsable])));
}

#[test]
fn single_cases() {
    let single = |run: &Run, id: String| said(run, [Statement::Single { case: id }]);
    let mut run = support::survey(1);
    let tcp = id(&run, "tcp block same-cpu");
    let mut text = vec![single(&run, tcp.clone())];
    row(&mut run, &tcp).valid = false;
    row(&mut run, &tcp).primary_mut().latency_ns.p99 = None;
    text.push(single(&run, tcp.clone()));
    row(&mut run, &tcp).primary_mut().latency_ns.p50 = None;
    text.push(single(&run, tcp));
    let run = small_writes::run(false);
    text.push(single(&run, run.cases[0].id.clone()));
    for mut run in [support::one_way::message_rate(), support::bulk::run(), support::one_way::offered_load()] {
        let case = run.cases[0].id.clone();
        text.push(single(&run, case.clone()));
        let flow = run.cases[0].primary_mut();
        flow.latency_ns.p50 = None;
        let one_way = flow.one_way.as_mut().expect("a one-way load");
        (one_way.cpu_seconds_per_gb.server, one_way.delivered_per_s) = (None, None);
        text.push(single(&run, case.clone()));
        row(&mut run, &case).primary_mut().one_way = None;
        row(&mut run, &case).primary_mut().rate_per_s = None;
        text.push(single(&run, case));
    }
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn the_fastest_round_trips() {
    let mut run = support::survey(1);
    let labels = ["pipe block same-cpu", "fifo block same-cpu", "tcp block same-cpu", "udp block same-cpu"];
    let four = labels.map(|label| id(&run, label));
    let best = |cases: &[String], verdict| Statement::Best { cases: cases.to_vec(), verdict };
    let memory = id(&run, "memory block same-cpu threads");
    let statements = [
        best(&four[..1], Some(Verdict::Faster)),
        best(&four[..2], Some(Verdict::CannotTell)),
        best(&four, Some(Verdict::CannotTell)),
        best(&four[..2], None),
        best(&[memory], Some(Verdict::Faster)),
        Statement::BestBlocking { cases: four[..1].to_vec(), verdict: Some(Verdict::Faster) },
        Statement::NotSeparated { cases: four[..2].to_vec() },
    ];
    let here = said(&run, statements);
    let fallback = Fallback { from: "udp".to_owned(), to: "tcp".to_owned(), evidence: String::new() };
    let lab = |fallback| Some(RemotePath { kind: PathKind::Hosts, host: "lab".to_owned(), fallback });
    row(&mut run, &four[2]).case.path.across = lab(Some(fallback));
    row(&mut run, &four[3]).case.path.across = lab(None);
    let there = said(&run, [2, 3].map(|place| best(&four[place..=place], Some(Verdict::Faster))));
    insta::assert_snapshot!(format!("{here}\n{there}"));
}

#[test]
fn the_fastest_over_each_path() {
    let run = support::links::run();
    let paths = |paths: &[&[usize]]| {
        let of_path = |places: &&[usize]| ids(places.iter().map(|place| &run.cases[*place]));
        Statement::BestOverPaths { paths: paths.iter().map(of_path).collect() }
    };
    let statements = [paths(&[&[0], &[1], &[2], &[4]]), paths(&[&[0], &[1], &[3]]), paths(&[&[0], &[3, 2]])];
    insta::assert_snapshot!(said(&run, statements));
}

#[test]
fn the_reference_transport() {
    let run = support::survey(1);
    let case = id(&run, "tcp block same-cpu");
    let reference = |ratio, same_conditions| Statement::Reference { case: case.clone(), ratio, same_conditions };
    insta::assert_snapshot!(said(&run, [reference(2.6, true), reference(1.03, true), reference(2.6, false)]));
}

#[test]
fn findings() {
    let mut run = support::survey(1);
    let waking = run.findings[0].clone();
    let quoted =
        |finding: &Finding| Statement::Finding { code: finding.code.clone(), case: finding.cases[0].clone() };
    let blocking = said(&run, [quoted(&waking)]);
    let spinning = vec![id(&run, "tcp spin cross-cpu")];
    run.findings[0].cases.clone_from(&spinning);
    let mut text = vec![blocking, said(&run, [quoted(&run.findings[0])])];
    for (code, mut run) in [
        ("congestion-control", support::one_way::write_sizes()),
        ("link-saturated", support::one_way::write_sizes()),
        ("nagle-waits", small_writes::run(false)),
        ("wake-up-dominated", small_writes::run(false)),
    ] {
        let cases = ids(&run.cases[..if code == "nagle-waits" { 1 } else { 2 }]);
        let summary = "tcp ran with bbr, which paces.".to_owned();
        run.findings = vec![Finding { code: code.to_owned(), cases, summary, ..waking.clone() }];
        text.push(said(&run, [quoted(&run.findings[0])]));
    }
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn remedies() {
    let run = small_writes::run(false);
    let at = |places: &[usize]| ids(places.iter().map(|place| &run.cases[*place]));
    let one = |place: usize| run.cases[place].id.clone();
    let no_remedy = |have_intervals| Statement::NoRemedy { default: one(0), have_intervals };
    let statements = vec![
        Statement::Remedy { default: one(0), best: one(5) },
        Statement::EqualRemedies { cases: at(&[5, 6]) },
        no_remedy(None),
        no_remedy(Some(true)),
        no_remedy(Some(false)),
        Statement::InTwoWrites { default: one(5), request: Some(one(0)), answer: Some(one(3)) },
        Statement::InTwoWrites { default: one(5), request: None, answer: Some(one(3)) },
        Statement::OnlyRemedy { case: one(5) },
        Statement::FastestRemedies { cases: at(&[5]) },
        Statement::FastestRemedies { cases: at(&[5, 6]) },
        Statement::SlowerRemedies { cases: at(&[3]) },
        Statement::SlowerRemedies { cases: at(&[3, 8]) },
        Statement::OtherTransports { cases: at(&[9]) },
        Statement::OtherTransports { cases: at(&[9, 12]) },
    ];
    insta::assert_snapshot!(said(&run, statements));
}

#[test]
fn remedies_over_links_with_pauses_and_with_an_injected_fault() {
    let mut run = small_writes::run_with(false, |case| {
        case.injected_fault = Some(InjectedFault { stall_ns: 4_000_000, every: 1, sleeps: true });
    });
    let remedy = |run: &Run| Statement::Remedy { default: run.cases[0].id.clone(), best: run.cases[5].id.clone() };
    let mut text = vec![said(&run, [remedy(&run)])];
    run = small_writes::run_with(false, |case| case.path.link = "delay=2ms".to_owned());
    let paths = vec![ids([&run.cases[0], &run.cases[5]]), ids([&run.cases[1]])];
    text.push(said(&run, [remedy(&run), Statement::OtherPaths { paths }]));
    run = small_writes::run(false);
    text.push(said(&run, [Statement::OtherPaths { paths: vec![ids([&run.cases[0]])] }]));
    small_writes::pause(&mut run, 1_000_000);
    let [merged, partly] = [5, 8].map(|place: usize| run.cases[place].id.clone());
    let statements = [
        remedy(&run),
        Statement::Remedy { default: run.cases[0].id.clone(), best: partly },
        Statement::FastestRemedies { cases: vec![merged.clone()] },
        Statement::WithoutPauses { case: merged },
    ];
    text.push(said(&run, statements));
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn message_rates() {
    let run = support::one_way::message_rate();
    let at = |places: &[usize]| ids(places.iter().map(|place| &run.cases[*place]));
    let best = |places: &[usize], verdict| Statement::Best { cases: at(places), verdict };
    let gain = |place: usize, ratio| BatchGain { case: run.cases[place].id.clone(), ratio };
    let gains = vec![gain(2, Some(Figure::new(24.1, 23.0, 25.2))), gain(8, Some(Figure::bare(20.0))), gain(11, None)];
    let unbatched = Some(run.cases[0].id.clone());
    let statements = vec![
        best(&[2], Some(Verdict::Faster)),
        best(&[2, 8], Some(Verdict::CannotTell)),
        best(&[2, 8, 5, 14, 20], Some(Verdict::CannotTell)),
        best(&[2, 8], None),
        Statement::Batches { messages: 64, gains },
        Statement::LatencyAtRate { case: run.cases[2].id.clone(), unbatched },
        Statement::LatencyAtRate { case: run.cases[2].id.clone(), unbatched: None },
    ];
    let mut text = vec![said(&run, statements)];
    let mut over = run.clone();
    over.cases[2].case.path.link = "delay=2ms".to_owned();
    text.push(said(&over, [2, 8].map(|place| best(&[place], Some(Verdict::Faster)))));
    over.cases.iter_mut().for_each(|row| row.case.path.link = "delay=2ms".to_owned());
    text.push(said(&over, [best(&[2], Some(Verdict::Faster))]));
    let lab = RemotePath { kind: PathKind::Hosts, host: "lab".to_owned(), fallback: None };
    over.cases.iter_mut().for_each(|row| row.case.path.across = Some(lab.clone()));
    text.push(said(&over, [best(&[2], Some(Verdict::Faster))]));
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn losses() {
    let mut run = support::one_way::message_rate();
    let udp = [9, 10, 11].map(|place: usize| run.cases[place].id.clone());
    let lost = |places: &[usize]| Statement::Lost { cases: places.iter().map(|place| udp[*place].clone()).collect() };
    let mut text = vec![said(&run, [lost(&[0]), lost(&[0, 1, 2])])];
    for (id, (received, late)) in udp.iter().zip([(75, 5), (50, 0), (99, 0)]) {
        let lost = BTreeMap::from([(RECEIVE_BUFFER.to_owned(), 100 - received - late)]);
        row(&mut run, id).primary_mut().ledger =
            Ledger { sent: 100, received, late, lost, ..Ledger::default() }.closed();
    }
    text.push(said(&run, [lost(&[0]), lost(&[0, 1, 2])]));
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn goodput() {
    let mut run = support::bulk::run();
    let best = run.cases[0].id.clone();
    run.cases[0].primary_mut().one_way.as_mut().expect("a stream").fairness = Some(Figure::bare(0.71));
    run.cases[0].case.primary_mut().connections = 8;
    let busy = |cpu| Statement::BusyCpu { case: best.clone(), cpu };
    let statements = vec![
        Statement::Best { cases: vec![best.clone()], verdict: Some(Verdict::Faster) },
        Statement::CpuTime { case: best.clone() },
        busy(BusyCpu::Shared),
        busy(BusyCpu::Sender),
        busy(BusyCpu::Receiver),
        Statement::Unfair { case: best.clone() },
        // The case goes one way only, so the statement has no sentence.
        Statement::BothWays { case: best.clone() },
    ];
    let text = said(&run, statements);
    let back = FlowSummary {
        flow: hairpin_model::flow::Flow { direction: Direction::Down, ..run.cases[0].primary().flow.clone() },
        one_way: run.cases[1].primary().one_way.clone(),
        ..run.cases[0].primary().clone()
    };
    run.cases[0].flows.push(back);
    insta::assert_snapshot!(format!("{text}\n{}", said(&run, [Statement::BothWays { case: best.clone() }])));
}

#[test]
fn offered_loads() {
    let mut run = support::one_way::offered_load();
    let [tcp, udp] = [0, 7].map(|place: usize| run.cases[place].id.clone());
    run.answer.knees[0].highest_power_per_s = Some(64e3);
    let mut knee = |change: fn(&mut hairpin_model::knee::Knee)| {
        change(&mut run.answer.knees[1]);
        said(&run, [Statement::Knee { case: udp.clone() }])
    };
    let mut text = vec![
        knee(|_| ()),
        knee(|knee| knee.why_not = Some(NotDelivered::SenderBehind)),
        knee(|knee| knee.why_not = Some(NotDelivered::ReceiverBehind)),
        knee(|knee| knee.delivered_per_s = None),
        knee(|knee| (knee.delivered_per_s, knee.not_delivered_per_s) = (Some(1024e3), None)),
    ];
    let uneven = |median_gap, below_half| Statement::Uneven { case: udp.clone(), median_gap, below_half };
    let statements = vec![
        Statement::LostBelowKnee { case: run.cases[11].id.clone() },
        Statement::HighestPower { case: tcp.clone() },
        Statement::NoneDelivered { per_s: 64e3 },
        uneven(Some(1.05), None),
        uneven(Some(1.05), Some(0.03)),
        uneven(None, Some(0.03)),
        Statement::Best { cases: vec![tcp.clone()], verdict: Some(Verdict::Faster) },
        Statement::Best { cases: vec![tcp.clone(), udp.clone()], verdict: Some(Verdict::CannotTell) },
        Statement::Best { cases: vec![tcp, udp], verdict: None },
    ];
    text.push(said(&run, statements));
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn the_answer_says_where_messages_waited_if_known() {
    let mut run = support::one_way::offered_load();
    let case = run.cases[0].id.clone();
    run.answer.knees[0].why_not = Some(NotDelivered::ReceiverBehind);
    let told = |change: fn(&mut Case)| {
        let mut run = run.clone();
        run.cases.iter_mut().for_each(|row| change(&mut row.case));
        said(&run, [Statement::Knee { case: case.clone() }])
    };
    assert!(told(|_| ()).contains(" the receiver fell behind"));
    assert!(told(|case| case.path.link = "delay=1ms".to_owned()).ends_with("in the link's queue."));
    let lab = told(|case| {
        case.path.across = Some(RemotePath { kind: PathKind::Hosts, host: "lab".to_owned(), fallback: None });
    });
    assert!(lab.ends_with("in the network or at the receiver."), "{lab}");
}

#[test]
fn probes_under_load() {
    let mut run = support::under_load::congestion();
    let [unloaded, cubic, bbr, both] = [0, 1, 2, 3].map(|place: usize| run.cases[place].id.clone());
    let load = |case: &String, verdict| Statement::Load { case: case.clone(), verdict };
    let loads = |cases: &[&String], least: &[&String], most: &[&String]| {
        let [cases, least, most] = [cases, least, most].map(|ids| ids.iter().map(|id| (*id).clone()).collect());
        Statement::Loads { cases, least, most }
    };
    let ascending = [&bbr, &cubic, &both];
    let statements = vec![
        loads(&ascending, &[&bbr], &[&both]),
        loads(&ascending, &[&bbr, &cubic], &[&both]),
        loads(&ascending, &ascending, &[]),
        loads(&ascending, &[], &[]),
        Statement::Responsiveness { cases: vec![bbr.clone(), cubic.clone()] },
        Statement::ProbeLost { case: both.clone(), phase: Phase::Loaded },
        Statement::ProbeLost { case: unloaded.clone(), phase: Phase::Recovering },
    ];
    let several = said(&run, statements);
    let without = ALL.map(|verdict| Statement::WithoutLoad { case: unloaded.clone(), verdict });
    let without = said(&run, without);
    for row in &mut run.cases[1..3] {
        let added = row.under_load.as_mut().expect("a case under load").added_ns.p50.as_mut();
        *added.expect("an added latency") = Figure::bare(9_200_000.0);
    }
    let unordered = said(&run, [loads(&ascending, &[], &[])]);
    run.cases.retain(|row| row.id == cubic || row.id == unloaded);
    let figures = row(&mut run, &cubic).under_load.as_mut().expect("a case under load");
    figures.added_ns.p50 = Some(Figure::new(-1_300_000.0, -1_400_000.0, -1_200_000.0));
    let mut one = vec![said(&run, ALL.map(|verdict| load(&cubic, verdict)))];
    let gets = Statement::LoadGets { case: cubic.clone() };
    one.push(said(&run, [gets.clone()]));
    let row = row(&mut run, &cubic);
    row.valid = false;
    row.under_load.as_mut().expect("a case under load").responsiveness_rpm = None;
    one.push(said(&run, [load(&cubic, Some(Verdict::CannotTell)), gets]));
    insta::assert_snapshot!([several, without, unordered, one.join("\n")].join("\n\n"));
}

#[test]
fn each_path_and_probe_of_a_load_is_named_if_there_are_several() {
    let mut run = support::under_load::congestion();
    let mut other = support::under_load::congestion();
    for row in &mut other.cases {
        row.case.path.link = "delay=5ms codel=5ms/100ms".to_owned();
        row.id = row.case.id();
    }
    let of_path = |run: &Run| {
        let case = run.cases[1].id.clone();
        let verdict = Some(Verdict::Slower);
        [
            Statement::Load { case: case.clone(), verdict },
            Statement::LoadGets { case: case.clone() },
            Statement::WithoutLoad { case: run.cases[0].id.clone(), verdict },
            Statement::ProbeLost { case: run.cases[3].id.clone(), phase: Phase::Loaded },
            Statement::Responsiveness { cases: vec![case] },
        ]
    };
    let statements = [of_path(&run), of_path(&other)].concat();
    run.cases.append(&mut other.cases);
    let mut text = vec![said(&run, statements)];
    run.cases.truncate(4);
    let mut spinning = run.cases[1].clone();
    spinning.case.ends.waiting = Waiting::Poll;
    spinning.id = spinning.case.id();
    let case = spinning.id.clone();
    run.cases.push(spinning);
    text.push(said(&run, [Statement::Load { case, verdict: Some(Verdict::Slower) }]));
    insta::assert_snapshot!(text.join("\n\n"));
}

#[test]
fn statements_about_missing_cases_are_omitted() {
    let run = support::survey(1);
    let known = id(&run, "tcp block same-cpu");
    let (no, none) = ("none".to_owned(), vec!["none".to_owned()]);
    let statements = vec![
        Statement::Single { case: no.clone() },
        Statement::Best { cases: none.clone(), verdict: None },
        Statement::BestOverPaths { paths: vec![none.clone()] },
        Statement::BestOverPaths { paths: Vec::new() },
        Statement::Finding { code: "drift".to_owned(), case: no.clone() },
        Statement::Remedy { default: known.clone(), best: no.clone() },
        Statement::FastestRemedies { cases: none.clone() },
        Statement::EqualRemedies { cases: none.clone() },
        Statement::SlowerRemedies { cases: none.clone() },
        Statement::OtherTransports { cases: none.clone() },
        Statement::OtherPaths { paths: vec![none.clone(), Vec::new()] },
        Statement::Batches { messages: 8, gains: vec![BatchGain { case: no.clone(), ratio: None }] },
        Statement::Lost { cases: none.clone() },
        Statement::Knee { case: no.clone() },
        Statement::HighestPower { case: known.clone() },
        Statement::Loads { cases: none.clone(), least: none.clone(), most: Vec::new() },
        Statement::Responsiveness { cases: none },
        Statement::LoadGets { case: known.clone() },
        Statement::ProbeLost { case: known.clone(), phase: Phase::Ramp },
        Statement::Uneven { case: known.clone(), median_gap: Some(1.0), below_half: None },
        Statement::Unfair { case: known.clone() },
        Statement::CpuTime { case: known.clone() },
        Statement::BothWays { case: known.clone() },
        Statement::WithoutPauses { case: known },
    ];
    assert_eq!(said(&run, statements), "");
    assert_eq!(said(&run, []), "", "no statements");
}

/// Six cases of an offered load: one that all needs choose, two alike, and one for each unmet need.
fn chosen_run() -> Run {
    let mut run = support::one_way::offered_load();
    run.cases.truncate(6);
    run.answer = Answer::default();
    run.plan.needs = Some(Needs { size_bytes: 64, rate_per_s: 1000.0, p99_ns: Some(1_000_000), ..Needs::default() });
    let unmet = [None, None, None, Some(UnmetNeed::Rate), Some(UnmetNeed::Latency), Some(UnmetNeed::NoLoss)];
    let cases = run.cases.iter().zip(unmet).enumerate().map(|(place, (row, unmet))| JudgedCase {
        case: row.id.clone(),
        transport: "tcp".to_owned(),
        latency_ns: row.primary().latency_ns.p50.map(|p50| p50.value),
        delivered_share: Some(if place == 5 { 0.97 } else { 1.0 }),
        cost: MessageCost { client_ns: Some(60_000.0), server_ns: Some(4_000.0 * (place + 1) as f64) },
        unmet: unmet.into_iter().collect(),
    });
    let cases: Vec<JudgedCase> = cases.collect();
    run.answer.choice = Some(Choice {
        answer: String::new(),
        transport: Some("tcp".to_owned()),
        options: Some(ChosenOptions {
            waiting: Waiting::Block,
            placement: Placement::CrossCpu,
            socket: Options::parse("nodelay=on").unwrap(),
        }),
        cost: Some(cases[0].cost),
        ranked_by: ComparedBy::P50,
        not_separated: Vec::new(),
        alike: cases[1..3].iter().map(|case| case.case.clone()).collect(),
        would_change: vec![
            WouldChange::CpuTime { case: cases[2].case.clone() },
            WouldChange::LossTolerated { transports: vec!["udp".to_owned()] },
            WouldChange::HigherRate { per_s: 250e3 },
            WouldChange::LargerMtu { mtu_bytes: 1500 },
            WouldChange::OtherPlacement { placements: vec![Placement::SameCpu] },
        ],
        cases,
    });
    run
}

#[test]
fn a_choice_has_three_sentences_and_one_table() {
    let three = || [Statement::Chosen, Statement::ChosenOptions, Statement::ChangesChoice];
    let mut run = chosen_run();
    let mut text = vec![said(&run, three())];
    let table = terminal::render_brief(&run, &terminal::Look { width: 100, colour: false });
    text.push(table.lines().skip_while(|line| !line.starts_with("Cases")).take(8).collect::<Vec<_>>().join("\n"));
    let choice = run.answer.choice.as_mut().unwrap();
    choice.alike.clear();
    text.push(said(&run, [Statement::Chosen]));
    run.answer.choice.as_mut().unwrap().cases.drain(1..3);
    run.plan.needs = run.plan.needs.map(|needs| Needs { reply: true, ..needs });
    text.push(said(&run, three()));
    let choice = run.answer.choice.as_mut().unwrap();
    choice.cases.remove(0);
    (choice.transport, choice.options, choice.cost) = (None, None, None);
    choice.cases[2].unmet.insert(0, UnmetNeed::Usable);
    choice.would_change.truncate(0);
    text.push(said(&run, three()));
    words::write_answer(&mut run);
    assert_eq!(run.answer.choice.unwrap().answer, run.answer.headline);
    insta::assert_snapshot!(text.join("\n\n"));
}

#[test]
fn cases_at_a_given_rate() {
    let run = support::one_way::offered_load();
    let cases: Vec<String> = run.cases[..4].iter().map(|row| row.id.clone()).collect();
    let figure = ComparedBy::P50;
    let best = |cases: &[String], verdict| Statement::BestAtRate { cases: cases.to_vec(), figure, verdict };
    let statements = [
        best(&cases[..1], Some(Verdict::Faster)),
        best(&cases, Some(Verdict::CannotTell)),
        best(&cases[..1], None),
        Statement::NeedsNodelay { case: cases[0].clone(), without: cases[3].clone(), figure },
        Statement::RateMissed { cases: cases[..2].to_vec() },
    ];
    insta::assert_snapshot!(said(&run, statements));
}

#[test]
fn how_to_wait() {
    let mut run = support::survey(1);
    let [sleeping, spinning] = ["tcp block cross-cpu", "tcp spin cross-cpu"].map(|label| id(&run, label));
    let how = |up_to_per_s| {
        let (sleeping, spinning) = (sleeping.clone(), spinning.clone());
        Statement::HowToWait { sleeping, spinning, up_to_per_s }
    };
    let mut text = vec![said(&run, [how(Some(3_133.6)), how(Some(98_000.0)), how(None)])];
    let case = &mut row(&mut run, &sleeping).case;
    case.ends.waiting = Waiting::ThreadPerConnection;
    case.primary_mut().connections = 100;
    text.push(said(&run, [how(Some(3_133.6)), how(None)]));
    insta::assert_snapshot!(text.join("\n"));
}
