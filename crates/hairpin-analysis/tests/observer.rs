//! What observers cost: the rate and the time per message against the same case without one.

use hairpin_analysis::answer;
use hairpin_model::flow::{Direction, Observer};
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{Case, Flow, Load, ObserverCost, Run, Statement};

use crate::support::Fixture;
use crate::support::one_way::Counted;

fn observed(transport: &str, observer: Observer) -> Case {
    let load = Load::Messages { size_bytes: 64, batch: 1, observer };
    Case::of(Flow::one_way(transport, load, Direction::Up))
}

/// Each case with its messages per second.
fn run_of(cases: &[(Case, f64)]) -> Run {
    let mut fixture = Fixture::new();
    let counted = |per_s| Counted { sent_per_s: per_s, arrived: 1.0, latency_ns: 10_000 };
    cases.iter().for_each(|(case, per_s)| fixture.one_way(case, counted(*per_s)));
    let mut run = fixture.run();
    run.answer = answer(&run);
    run
}

fn cost(run: &Run, case: &Case) -> Option<ObserverCost> {
    let row = run.cases.iter().find(|row| row.case == *case).unwrap();
    row.one_way().unwrap().observer.first().copied()
}

#[test]
fn the_cost_is_against_the_same_case_without_an_observer() {
    let [none, clock, hdr] = [Observer::None, Observer::Clock, Observer::Hdr].map(|which| observed("tcp", which));
    let again = none.clone().with(|case| case.replicate = 1);
    let run = run_of(&[(none.clone(), 1e6), (again.clone(), 1e6), (clock.clone(), 0.8e6), (hdr, 0.5e6)]);
    let found = cost(&run, &clock).unwrap();
    assert_eq!(found.observer, Observer::Clock);
    assert!((found.rate_against_none.value - 0.8).abs() < 1e-4, "{found:?}");
    // Rounds vary by up to 0.5 % in both cases, so 250 ns by as much.
    assert!((found.time_per_message_against_none.value - 250.0).abs() < 1.25, "{found:?}");
    assert!(found.rate_against_none.excludes(1.0) && found.time_per_message_against_none.excludes(0.0), "{found:?}");
    assert_eq!(cost(&run, &none), None, "the baseline");
    let twin = cost(&run, &again).unwrap();
    assert_eq!((twin.observer, twin.rate_against_none.value), (Observer::None, 1.0));
    assert!(!twin.rate_against_none.excludes(1.0) && !twin.time_per_message_against_none.excludes(0.0), "{twin:?}");
    let roles: Vec<(Role, Verdict)> = run.comparisons.iter().map(|one| (one.role, one.verdict)).collect();
    let slower = (Role::CounterExperiment, Verdict::Slower);
    assert_eq!(roles, [(Role::AgainstItself, Verdict::CannotTell), slower, slower], "no pair of two observers");
}

#[test]
fn there_is_no_cost_without_a_valid_baseline_of_the_same_case() {
    let [none, clock] = [Observer::None, Observer::Clock].map(|which| observed("tcp", which));
    let larger = clock.clone().with(|case| case.primary_mut().load.set_sizes(1000, 0));
    let mut run = run_of(&[(none, 1e6), (observed("udp", Observer::Clock), 0.8e6), (larger.clone(), 0.5e6)]);
    assert_eq!((cost(&run, &observed("udp", Observer::Clock)), cost(&run, &larger)), (None, None));
    run.answer = answer(&run);
    let best = |statement: &Statement| matches!(statement, Statement::Best { .. });
    assert!(run.answer.statements.iter().any(best), "the answer of message rates: {:?}", run.answer.statements);
}

#[test]
fn the_answer_has_clock_reads_the_largest_cost_and_the_recorder() {
    let costs = [
        (Observer::None, 1e6),
        (Observer::Counter, 0.99e6),
        (Observer::Clock, 0.9e6),
        (Observer::Recorder, 0.7e6),
        (Observer::TracingFile, 0.3e6),
    ];
    let both = |(observer, per_s): &(Observer, f64)| {
        [(observed("tcp", *observer), *per_s), (observed("udp", *observer), per_s / 2.0)]
    };
    let told = |costs: &[(Observer, f64)]| {
        let run = run_of(&costs.iter().flat_map(both).collect::<Vec<_>>());
        let observer = |id: &String| run.case(id).unwrap().case.primary().load.observer();
        let of = |statement: &Statement| match statement {
            Statement::ObserverCosts { cases } => (observer(&cases[0]), cases.len()),
            other => panic!("{other:?}"),
        };
        run.answer.statements.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(told(&costs), [(Observer::Clock, 2), (Observer::TracingFile, 2), (Observer::Recorder, 2)]);
    assert_eq!(told(&costs[..2]), [(Observer::Counter, 2)], "the largest of one");
}
