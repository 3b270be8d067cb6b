//! Duplicates and arrival order of datagrams between two hosts, counted at the client and at the server.

use hairpin_model::case::PathKind;
use hairpin_model::{Case, Extent, Load, RemotePath, RoundOrder};

use super::super::arrival_order::ArrivalOrder;
use super::super::echo::Echo;
use super::super::marks::Alone;
use super::super::message::Message;
use super::super::scripted::Act;
use super::undamaged::ServerWire;
use super::{TIMEOUT_NS, order, travel};
use crate::clock::ManualClock;

fn across(case: &mut Case) {
    case.path.across = Some(RemotePath { kind: PathKind::Hosts, host: "far".to_owned(), fallback: None });
}

fn between_hosts(load: Load, count: u64, warm_up: u64) -> RoundOrder {
    let mut order = order(load, count, warm_up);
    across(&mut order.case);
    order
}

#[test]
fn an_open_loop_counts_reordered_answers() {
    // A message is due every 1000 ns. Answer 1 (warm-up) arrives after answer 4, and answer 6 between 8 and 9.
    let held = |number| if number == 1 { 3500 } else { 2100 };
    let acts: Vec<Act> =
        (0..10).map(|number| Act::After(if [1, 6].contains(&number) { held(number) } else { 100 })).collect();
    let load = Load::PLAIN.paced(1e6);
    let client_result = travel(&between_hosts(load.clone(), 8, 2), &acts, true).unwrap();
    assert_eq!(client_result.tally.order.map(|order| (order.reordered, order.duplicated)), Some((2, 0)));
    assert_eq!(travel(&order(load.clone(), 8, 2), &acts, true).unwrap().tally.order, None, "not on one host");
    let in_order = [Act::After(100)];
    assert_eq!(travel(&between_hosts(load, 8, 2), &in_order, false).unwrap().tally.order, None, "not on a stream");
}

#[test]
fn a_closed_loop_counts_duplicates_separately_from_the_arrival_order() {
    let acts = [Act::Twice(100), Act::After(TIMEOUT_NS + 50), Act::After(100), Act::Never, Act::After(100)];
    let client_result = travel(&between_hosts(Load::PLAIN, 5, 0), &acts, true).unwrap();
    let tally = &client_result.tally;
    assert_eq!((tally.received, tally.late, tally.duplicated), (3, 1, 1));
    let order = tally.order.as_ref().expect("the case is between two hosts");
    assert_eq!((order.reordered, order.duplicated), (0, 0), "late and lost messages are not reordered");
}

#[test]
fn the_server_counts_duplicates_and_reordering() {
    let mut case = Case::ping_pong("udp").with(|changed| changed.primary_mut().load.set_sizes(2, 2));
    across(&mut case);
    assert!(ArrivalOrder::may_differ(&case, true));
    let whole = |number| {
        let mut message = Message::new(2, 2);
        message.number(number);
        message.request().to_vec()
    };
    let numbers = [0, 1, 3, 2, 3, 0, 260, 259, 261];
    let mut server = ServerWire { coming: numbers.map(whole).into(), answers: Vec::new() };
    let clock = ManualClock::default();
    let warm_up = Extent::Count(1);
    let echo = Echo { clock: &clock, case: &case, boundaries: true, cpu_only: false, warm_up, notes_order: true };
    let answered = echo.run(&mut server, &mut Alone).unwrap();
    let counts = answered.order.map(|order| (order.reordered, order.duplicated));
    assert_eq!((answered.count, counts), (9, Some((2, 2))));
    assert_eq!(server.answers.len(), 9, "the server answers duplicates too");
}
