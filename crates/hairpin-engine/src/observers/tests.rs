//! Checks the marks of real rounds and their order.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hairpin_model::flow::Direction;
use hairpin_model::{Case, EndKind, EndReport, Extent, FactValue, Flow, Outcome, RoundOrder};

use super::*;
use crate::Engine;

pub(super) mod double;

/// The marks of the client and of the server. Omits running marks, because their number depends on the duration.
fn marks(case: Case) -> [String; 2] {
    let case = case.with(|case| case.ends.kind = EndKind::Threads);
    let order = RoundOrder { warm_up: Extent::Count(10), ..RoundOrder::of(case, 100) };
    let engine = Engine::new(PathBuf::new(), Arc::default()).unwrap();
    let outcome = engine.run(0, &order).record.outcome;
    let Outcome::Measured(measured) = outcome else { panic!("{outcome:?}") };
    let of_end = |end: &EndReport| {
        let fact = end.facts.iter().find(|fact| fact.name == double::MARKS).unwrap();
        let FactValue::Word(marks) = &fact.value else { panic!("{fact:?}") };
        marks.replace(" running", "")
    };
    [of_end(&measured.ends[0]), of_end(&measured.ends[1])]
}

#[test]
fn observers_get_the_marks_of_both_ends() {
    let all = "opening load first last end";
    assert_eq!(marks(Case::ping_pong("tcp")), [all, "opening load first end"]);
    for direction in [Direction::Up, Direction::Down] {
        assert_eq!(marks(Case::of(Flow::stream("tcp", 1000, direction))), [all; 2], "{direction}");
    }
}

#[test]
fn marks_are_nested() {
    struct Named(&'static str, Arc<Mutex<String>>);
    impl Observer for Named {
        fn begin(_: Context<'_>) -> Option<Self> {
            None
        }
        fn mark(&mut self, _: Mark<'_>) {
            self.1.lock().unwrap().push_str(self.0);
        }
        fn end(&mut self) {
            self.1.lock().unwrap().push_str(self.0);
        }
        fn report(self: Box<Self>, _: &mut Observations) {}
    }

    let log = Arc::new(Mutex::new(String::new()));
    let mut observers = Observers(vec![Box::new(Named("a", log.clone())), Box::new(Named("b", log.clone()))]);
    observers.mark(Mark::First);
    observers.mark(Mark::Last);
    observers.end();
    assert_eq!(*log.lock().unwrap(), "abbaba", "the last observer, CPU time, excludes the other observers");
}
