//! A one-way experiment that only tests have. With its own file and this line in place of the list, the loop plans,
//! runs, saves and answers it, and the program, which does not know it, reports it.

#[path = "../../hairpin-experiments/tests/common/one_way.rs"]
mod one_way;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hairpin::measure::{Task, Watch, carry_out};
use hairpin::tool;
use hairpin_engine::{Engine, environment};
use hairpin_experiments::Knobs;
use hairpin_model::answer::Answer;
use hairpin_model::machine::Machine;
use hairpin_model::round::{RoundOrder, RoundRecord};
use hairpin_model::run::{FORMAT, Host, Plan, Run, State};
use hairpin_model::trace::End;
use hairpin_store::RunFolder;

use crate::support::contract::assert_kept;
use crate::support::{PROGRAM, Place, list, text};
use one_way::ONE_WAY;

struct Unwatched;

impl Watch for Unwatched {
    fn announced(&mut self, _: &Plan, _: usize) {}
    fn ordered(&mut self, _: usize) {}
    fn next(&mut self, _: &RoundOrder) {}
    fn done(&mut self, _: &RoundRecord) {}
}

#[test]
fn an_experiment_is_a_file_and_a_line() {
    let place = Place::new();
    let capabilities = hairpin_engine::engine::capabilities().expect("the CPUs are known");
    let given = [("transport", "tcp,pipe,unix-seqpacket"), ("placement", "same-cpu"), ("rounds", "2"), ("seed", "7")];
    let knobs = given.map(|(name, value)| (name, vec![value.to_owned()]));
    let knobs = Knobs::from_given(ONE_WAY.knobs, knobs).expect("they are its own");
    let engine = Engine::new(PathBuf::from(PROGRAM), Arc::new(AtomicBool::new(false))).expect("the CPUs are known");
    let folder = RunFolder::create(&place.path("run")).expect("the folder is new");
    let plan = Plan { experiment: ONE_WAY.name.to_owned(), question: ONE_WAY.question.to_owned(), ..Plan::default() };
    let run = Run {
        format: FORMAT,
        tool: tool::this(),
        command_line: Vec::new(),
        started_unix_s: 0,
        duration_ns: 0,
        state: State::Running,
        seed: 7,
        plan: Plan { knobs: knobs.pairs(), ..plan },
        hosts: vec![Host { role: End::Client, environment: environment::read(&engine) }],
        cards: capabilities.saved_cards(),
        machine: Machine::default(),
        cases: Vec::new(),
        comparisons: Vec::new(),
        findings: Vec::new(),
        skipped: Vec::new(),
        answer: Answer::default(),
        unsaved: Vec::new(),
        rounds: Vec::new(),
    };
    let task = Task {
        experiment: &ONE_WAY,
        knobs: &knobs,
        capabilities: &capabilities,
        engine: &engine,
        folder: &folder,
        prove: false,
    };
    let run = carry_out(&task, run, &mut Unwatched).expect("its knobs are not refused");
    folder.write_run(&run).expect("there is room");
    let shown = place.json(&["report", "run"]);
    assert_kept(&shown);
    assert_eq!((text(&shown["plan"]["experiment"]), text(&shown["state"])), ("one-way", "complete"));
    assert_eq!(list(&shown["cases"]).len(), 3);
    for case in list(&shown["cases"]) {
        let flow = &case["flows"][0];
        let counts =
            [&flow["ledger"]["sent"], &flow["ledger"]["received"], &flow["samples"]].map(|count| count.as_u64());
        assert_eq!(counts, [Some(40); 3], "{case}");
        assert_eq!(text(&flow["direction"]), "down", "{case}");
    }
    assert!(text(&shown["answer"]["headline"]).contains("goodput"), "{}", shown["answer"]);
    place.assert_nothing_left();
}
