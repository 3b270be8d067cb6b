//! Answers after the end of the loop, on the manual clock.

use super::*;

/// Runs the loop, advances the clock by `then_ns`, and receives the answers that arrived until then.
fn travel_on(order: &RoundOrder, acts: &[Act], then_ns: u64) -> Result<ClientResult, Failure> {
    let clock = ManualClock::default();
    let mut wire = ScriptedWire::new(&clock, acts, TIMEOUT_NS);
    let mut client_result = travel_over(&mut wire, &clock, order, true).unwrap();
    clock.advance(then_ns);
    assert!(client_result.take_late_replies(&clock, &mut wire)?, "the wire is open");
    Ok(client_result)
}

fn counts(client_result: &ClientResult) -> (u64, u64, u64, u64) {
    let tally = &client_result.tally;
    (tally.sent, tally.received, tally.late, tally.duplicated)
}

#[test]
fn an_answer_after_the_loop_is_late_and_not_lost() {
    for load in [Load::PLAIN, Load::PLAIN.paced(1000.0)] {
        let order = order(load.clone(), 3, 0);
        let acts = [Act::After(100), Act::After(100), Act::After(5 * TIMEOUT_NS)];
        let client_result = travel_on(&order, &acts, 9 * TIMEOUT_NS).unwrap();
        assert_eq!(counts(&client_result), (3, 2, 1, 0), "{load:?}");
        assert!(client_result.late_replies.is_empty());
        assert_eq!(client_result.tally.ledger(false, &[], &[], None).unexplained, 0);
        let samples = client_result.recorder.finish(client_result.origin_ns);
        assert_eq!(samples.fate.last(), Some(&Fate::Late));
        assert!(samples.latencies_ns().last() > Some(5 * TIMEOUT_NS));
    }
}

#[test]
fn missing_answers_stay_unanswered() {
    let order = order(Load::PLAIN, 3, 0);
    let client_result = travel_on(&order, &[Act::After(100), Act::Never, Act::Never], 9 * TIMEOUT_NS).unwrap();
    assert_eq!(counts(&client_result), (3, 1, 0, 0));
    assert_eq!(client_result.late_replies.last_sent_ns(), Some(100 + TIMEOUT_NS), "the third message was sent last");
}

#[test]
fn a_second_copy_after_the_loop_is_duplicated() {
    for load in [Load::PLAIN, Load::PLAIN.paced(1000.0)] {
        let client_result = travel_on(&order(load.clone(), 2, 1), &[Act::Twice(200)], 0).unwrap();
        assert_eq!(counts(&client_result), (2, 2, 0, 2), "{load:?}");
        assert_eq!(client_result.tally.warm_up_duplicated, 1, "{load:?}");
    }
}

#[test]
fn a_warm_up_message_that_is_answered_after_the_loop_counts_for_the_warm_up() {
    let order = order(Load::PLAIN, 1, 1);
    let acts = [Act::After(5 * TIMEOUT_NS), Act::After(100)];
    let client_result = travel_on(&order, &acts, 9 * TIMEOUT_NS).unwrap();
    assert_eq!((counts(&client_result), client_result.tally.warm_up_late), ((1, 1, 0, 0), 1));
    let ledger = client_result.tally.ledger(false, &[], &[], None);
    assert_eq!((ledger.sent, ledger.received, ledger.late, ledger.unexplained), (2, 1, 1, 0));
}

#[test]
fn garbage_after_the_loop_is_reported() {
    let order = order(Load::PLAIN, 2, 0);
    let failure = travel_on(&order, &[Act::Garbled(5 * TIMEOUT_NS)], 20 * TIMEOUT_NS).unwrap_err();
    assert!(failure.cause.starts_with("the answer to message 1 is not what was sent"), "{}", failure.cause);
}
