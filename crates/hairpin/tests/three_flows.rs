//! An experiment that exists only in tests, with three measured flows in one case. It needs only its own file and a
//! line in a list.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hairpin::{Program, Session};
use hairpin_engine::Engine;
use hairpin_experiments::combinations::Combinations;
use hairpin_experiments::experiment::Planning;
use hairpin_experiments::sequence::template;
use hairpin_experiments::shared;
use hairpin_experiments::{Experiment, Knobs, Refused, budget};
use hairpin_model::{Arrivals, Case, Extent, Finished, Flow, FlowId, HostCapabilities, Load, Outcome, RoundOrder};
use hairpin_store::RunFolder;

use crate::support::contract::assert_kept;
use crate::support::{PROGRAM, Place, list, text};

const THREE_FLOWS: Experiment = Experiment {
    name: "three-flows",
    question: "Does each flow have its own figures?",
    knobs: &[shared::PLACEMENT, shared::ENDS, shared::LINK, budget::ROUNDS, shared::SEED],
    plan,
    repeats: |_| false,
    refine: None,
    search: None,
};

/// Messages of each flow, and of its warm-up.
const COUNT: u64 = 20;
const WARM_UP: u64 = 5;
/// Too slow for the deadline that a test sets.
const SLOW_PER_S: f64 = 2.0;

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let combinations = Combinations::default().in_circumstances(knobs, capabilities, |_| true)?;
    let card =
        capabilities.candidates.iter().find(|one| one.card.name == "tcp").expect("it is built in").card.clone();
    let planned = |case| template(case, [WARM_UP, COUNT].map(Extent::Count), knobs, capabilities);
    Ok((combinations.cases(case(1000.0), &card).into_iter().map(planned).collect(), Vec::new()))
}

/// A ping-pong, a ping-pong at a rate, and a one-way load.
fn case(paced_per_s: f64) -> Case {
    let paced = Flow { load: Load::PLAIN.paced(paced_per_s), ..Flow::ping_pong("udp") };
    let offered = Load::Offered {
        offered_per_s: 1000.0,
        size_bytes: 64,
        arrivals: Arrivals::Fixed,
        pacing: hairpin_model::flow::Pacing::SleepSpin,
    };
    let one_way = Flow::one_way("unix-stream", offered, hairpin_model::flow::Direction::Down);
    let flows = [("first", Flow::ping_pong("tcp")), ("second", paced), ("third", one_way)];
    let flows = flows.map(|(id, flow)| Flow { id: id.into(), ..flow });
    Case::of(Flow::ping_pong("tcp")).with(|case| case.flows = flows.to_vec())
}

#[test]
fn each_of_three_measured_flows_has_its_own_figures_ledger_and_samples() {
    let place = Place::new();
    let program = Program::at(PROGRAM, &[]).with_experiments(&[THREE_FLOWS]);
    let session =
        Session::new(&program, "three-flows").expect("it is in the list").save_in(place.path("run")).all_rounds(true);
    let (_, run) = session.set("placement", "same-cpu").set("rounds", "2").run(|_| {}).expect("it is not refused");
    assert_eq!((run.rounds.len(), run.failed_rounds(), &run.unsaved[..]), (2, 0, &[][..]));
    let shown = place.json("report run");
    assert_kept(&shown);
    let [case] = list(&shown["cases"]) else { panic!("one case: {shown}") };
    let ids: Vec<&str> = list(&case["flows"]).iter().map(|flow| text(&flow["id"])).collect();
    assert_eq!(ids, ["first", "second", "third"], "{case}");
    for flow in list(&case["flows"]) {
        let ledger = &flow["ledger"];
        let counts = [&ledger["sent"], &ledger["received"], &flow["samples"]].map(|count| count.as_u64());
        assert_eq!((counts, &ledger["unexplained"]), ([Some(2 * COUNT); 3], &0.into()), "{flow}");
        assert!(flow["latency_ns"]["p50"]["value"].as_f64() > Some(0.0), "{flow}");
    }
    let csv = place.hairpin("report run --csv=samples").with_code(0).stdout;
    let has = |line: &str, value: &str| line.split(',').any(|cell| cell == value);
    for id in ids {
        let of_flow: Vec<&str> = csv.lines().filter(|line| has(line, id)).collect();
        assert!(of_flow.iter().filter(|line| has(line, "received")).count() as u64 >= 2 * COUNT, "{id}: {csv}");
    }
    place.hairpin("analyse run").with_code(0);
    assert_eq!(place.json("report run")["cases"], shown["cases"], "analysed again from the samples");
}

#[test]
fn a_flow_that_ends_early_leaves_two_measured_and_saved() {
    let place = Place::new();
    let engine = Engine::new(PROGRAM.into(), Arc::new(AtomicBool::new(false))).expect("it can be made");
    // The deadline is far longer than the other flows need, and far shorter than the second flow needs.
    let order = RoundOrder { deadline_ns: 8_000_000_000, ..RoundOrder::of(case(SLOW_PER_S), COUNT) };
    let Finished { mut record, samples, .. } = engine.run_apart(0, &order);
    let Outcome::Measured(measured) = &record.outcome else { panic!("{:?}", record.outcome) };
    let [failed] = &measured.failed_flows[..] else { panic!("one failed: {measured:?}") };
    assert_eq!(failed.id, "second".into());
    assert!(failed.failure.cause.starts_with("flow `second`: "), "{}", failed.failure);
    let two = ["first", "third"].map(FlowId::from);
    assert!(samples.keys().eq(&two), "{:?}", samples.keys());
    for id in &two {
        let flow = measured.flow(id).expect("it is measured");
        assert_eq!((flow.ledger.sent, flow.ledger.received, flow.ledger.unexplained), (COUNT, COUNT, 0), "{flow:?}");
    }
    let folder = RunFolder::create(&place.path("run")).expect("it is new");
    folder.append(&mut record, &samples, None).expect("it can be written");
    let mut rows = folder.rows();
    let kept = order.case.flows.iter().map(|flow| rows(&record, flow).expect("it can be read").kept());
    let expected = order.case.flows.iter().map(|flow| samples.get(&flow.id).map_or(0, |samples| samples.kept()));
    assert!(kept.eq(expected) && samples.values().all(|samples| samples.kept() > 0), "{samples:?}");
    assert!(record.measured().is_some() && record.failure().is_some(), "{record:?}");
}
