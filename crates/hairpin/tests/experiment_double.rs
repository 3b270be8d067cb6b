//! A one-way experiment that exists only in tests. It needs only its own file and a line in a list: the library then
//! plans, runs, saves and answers the experiment, and the program reports it without knowing it.

#[path = "../../hairpin-experiments/tests/common/one_way.rs"]
mod one_way;

use hairpin::{Event, Program, Session};

use crate::support::contract::assert_kept;
use crate::support::{PROGRAM, Place, list, text};
use one_way::ONE_WAY;

#[test]
fn an_experiment_is_a_file_and_a_line() {
    let place = Place::new();
    let program = Program::at(PROGRAM, &[]).with_experiments(&[ONE_WAY]);
    let mut session =
        Session::new(&program, "one-way").expect("it is in the list").save_in(place.path("run")).all_rounds(true);
    for (name, value) in
        [("transport", "tcp,pipe"), ("transport", "unix-seqpacket"), ("placement", "same-cpu"), ("rounds", "2")]
    {
        session = session.set(name, value);
    }
    let (mut cases, mut ended) = (0, 0);
    let ran = session.set("seed", "7").run(|event| match event {
        Event::Planned { cases: planned, .. } => cases = planned.len(),
        Event::Ended(round) => ended += u64::from(round.measured().is_some()),
        _ => {}
    });
    let (_, run) = ran.expect("its knobs are not refused");
    assert_eq!((cases, ended, run.seed, &run.unsaved[..]), (3, run.plan.rounds_ordered, 7, &[][..]));
    let shown = place.json("report run");
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
}
