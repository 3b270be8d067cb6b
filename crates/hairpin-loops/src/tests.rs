//! The client on the manual clock: exact numbers, no sleeping.

mod arrival_order;
mod late_replies;
mod periodic;
mod small_writes;
mod undamaged;

use std::sync::atomic::AtomicBool;

use hairpin_model::samples::Fate;
use hairpin_model::{Case, Extent, Failure, Load, RoundOrder};

use super::marks::Alone;
use super::scripted::{Act, ScriptedWire};
use super::{Client, ClientResult, run_client};
use crate::clock::ManualClock;

pub(crate) const TIMEOUT_NS: u64 = 1_000_000;

pub(crate) fn order(load: Load, count: u64, warm_up: u64) -> RoundOrder {
    let case = Case::ping_pong("memory").with(|case| {
        case.primary_mut().load = load;
        case.primary_mut().load.set_sizes(12, 12);
    });
    RoundOrder { warm_up: Extent::Count(warm_up), timeout_ns: TIMEOUT_NS, ..RoundOrder::of(case, count) }
}

/// Runs the client over a wire that the test can use afterwards.
fn travel_over(
    wire: &mut ScriptedWire,
    clock: &ManualClock,
    order: &RoundOrder,
    lossy: bool,
) -> Result<ClientResult, Failure> {
    let stop = AtomicBool::new(false);
    run_client(&Client { clock, order, lossy, boundaries: true, phases: None, stop: &stop }, wire, &mut Alone)
}

fn travel(order: &RoundOrder, acts: &[Act], lossy: bool) -> Result<ClientResult, Failure> {
    let clock = ManualClock::default();
    travel_over(&mut ScriptedWire::new(&clock, acts, TIMEOUT_NS), &clock, order, lossy)
}

#[test]
fn a_closed_loop_measures_exactly_the_times_of_the_wire() {
    let order = order(Load::PLAIN, 4, 2);
    let client_result =
        travel(&order, &[Act::After(9000), Act::After(500), Act::After(100), Act::After(300)], false).unwrap();
    assert_eq!(client_result.recorder.first_message_ns(), 9000);
    assert_eq!(client_result.duration_ns, 100 + 300 + 9000 + 500);
    assert_eq!((client_result.tally.sent, client_result.tally.received, client_result.tally.warm_up_sent), (4, 4, 2));
    let samples = client_result.recorder.finish(client_result.origin_ns);
    assert_eq!(samples.latencies_ns().collect::<Vec<_>>(), [100, 300, 9000, 500]);
    assert_eq!(samples.warm_up_latencies_ns().collect::<Vec<_>>(), [9000, 500]);
}

#[test]
fn a_round_fails_after_consecutive_losses_but_not_after_late_answers() {
    let order = order(Load::PLAIN, 30, 0);
    let failure = travel(&order, &[Act::Never], true).unwrap_err();
    assert_eq!(failure.cause, "no answer to 10 messages in a row, each within 1 ms; the last was message 9");
    let one_in_ten: Vec<Act> = std::iter::repeat_n(Act::Never, 9).chain([Act::After(300)]).collect();
    let client_result = travel(&order, &one_in_ten, true).unwrap();
    assert_eq!((client_result.tally.sent, client_result.tally.received), (30, 3));
    let client_result = travel(&order, &[Act::After(TIMEOUT_NS * 3 / 2)], true).unwrap();
    assert_eq!((client_result.tally.sent, client_result.tally.received, client_result.tally.late), (30, 0, 30));
}

#[test]
fn a_round_ends_at_its_deadline() {
    for load in [Load::PLAIN, Load::PLAIN.paced(1e9 / 50_000.0)] {
        // The messages take 5 s: without a deadline the round would succeed.
        let order = RoundOrder { deadline_ns: 2_000_000_000, ..order(load, 100_000, 0) };
        let failure = travel(&order, &[Act::After(50_000)], false).unwrap_err();
        let cause = "was not sent before the deadline of the round, 2 s";
        assert!(failure.cause.ends_with(cause), "{}", failure.cause);
        let order = RoundOrder { extent: Extent::Count(1000), ..order };
        assert_eq!(travel(&order, &[Act::After(50_000)], false).unwrap().tally.received, 1000);
    }
}

#[test]
fn a_duration_ends_with_the_first_message_past_it() {
    let order = RoundOrder { extent: Extent::DurationNs(1000), ..order(Load::PLAIN, 0, 0) };
    let client_result = travel(&order, &[Act::After(300)], false).unwrap();
    assert_eq!((client_result.tally.sent, client_result.duration_ns), (4, 1200));
}

#[test]
fn a_loss_is_counted_and_the_loop_continues() {
    let order = order(Load::PLAIN, 4, 0);
    let acts = [Act::After(100), Act::Never, Act::Twice(200), Act::After(300)];
    let client_result = travel(&order, &acts, true).unwrap();
    let tally = &client_result.tally;
    assert_eq!((tally.sent, tally.received, tally.late, tally.duplicated), (4, 3, 0, 1));
    assert_eq!(tally.ledger(false, &[], &[], None).unexplained, 1, "no kernel counter shows the loss");
    let samples = client_result.recorder.finish(0);
    assert_eq!(samples.fate, [Fate::Received, Fate::Lost, Fate::Received, Fate::Received]);
}

#[test]
fn an_answer_after_the_time_out_is_late_and_not_lost() {
    let order = order(Load::PLAIN, 3, 0);
    let acts = [Act::After(TIMEOUT_NS + 50), Act::After(100), Act::After(100)];
    let client_result = travel(&order, &acts, true).unwrap();
    assert_eq!((client_result.tally.sent, client_result.tally.received, client_result.tally.late), (3, 2, 1));
    assert_eq!(client_result.tally.ledger(false, &[], &[], None).unexplained, 0);
    let samples = client_result.recorder.finish(0);
    assert_eq!(samples.fate, [Fate::Late, Fate::Received, Fate::Received]);
    assert_eq!(samples.latencies_ns().collect::<Vec<_>>(), [TIMEOUT_NS + 50, 100, 100]);
}

#[test]
fn silence_and_garbage_fail_a_lossless_round() {
    let order = order(Load::PLAIN, 3, 0);
    let silent = travel(&order, &[Act::After(1), Act::Never], false).unwrap_err();
    assert_eq!(silent.cause, "cannot receive the answer to message 1: timed out: receive made no progress for 1 ms");
    let garbled = travel(&order, &[Act::Garbled(5)], false).unwrap_err();
    assert!(
        garbled.cause.starts_with("the answer to message 0 is not what was sent: byte 11 is"),
        "{}",
        garbled.cause
    );
    let twice = travel(&order, &[Act::Twice(5)], false).unwrap_err();
    assert!(twice.cause.contains("a second time"), "{}", twice.cause);
}

#[test]
fn an_open_loop_sends_on_time_regardless_of_answers() {
    // One message is due every 1000 ns. The second message is answered after 3500 ns, the others after 100 ns.
    let order = order(Load::PLAIN.paced(1e6), 5, 0);
    let client_result =
        travel(&order, &[Act::After(100), Act::After(3500), Act::After(100), Act::After(100), Act::After(100)], true)
            .unwrap();
    assert_eq!((client_result.tally.sent, client_result.tally.received), (5, 5));
    let samples = client_result.recorder.finish(client_result.origin_ns);
    assert_eq!(samples.due_ns, [0, 2000, 3000, 4000, 1000], "rows are in order of arrival");
    assert_eq!(samples.sent_ns, samples.due_ns, "the generator was never late");
    assert_eq!(samples.latencies_ns().collect::<Vec<_>>(), [100, 100, 100, 100, 3500]);
}

#[test]
fn a_delayed_generator_sends_late_and_latency_counts_from_the_due_time() {
    // The slow first answer advances the clock, like a send call that takes long.
    let order = RoundOrder {
        case: (order(Load::PLAIN.paced(1e9), 1, 0).case).with(|changed| changed.primary_mut().load.set_sizes(1, 1)),
        ..order(Load::PLAIN.paced(1e9), 130, 0)
    };
    let client_result = travel(&order, &[Act::After(500)], true).unwrap();
    assert_eq!((client_result.tally.sent, client_result.tally.received), (130, 130));
    assert_eq!(client_result.tally.waited_for_answers, 2);
    let samples = client_result.recorder.finish(client_result.origin_ns);
    // A number of one byte distinguishes 256 messages, so 128 may be in flight. Message 128, due at 128 ns, waits for
    // the first answer at 500 ns and is answered at 1000 ns.
    let row = samples.sequence.iter().position(|sequence| *sequence == 128).unwrap();
    assert_eq!((samples.due_ns[row], samples.sent_ns[row], samples.received_ns[row]), (128, 500, 1000));
    assert_eq!(samples.lateness.unwrap().max(), 372);
    assert_eq!(samples.latency.max(), 872);
}

/// Runs the client over a wire whose sends take one and a half times the gap between messages, so that the client
/// never catches up.
fn travel_behind_time(order: &RoundOrder) -> ClientResult {
    let clock = ManualClock::default();
    let mut wire = ScriptedWire::new(&clock, &[Act::After(100)], TIMEOUT_NS).with_slow_sends(1500);
    travel_over(&mut wire, &clock, order, false).unwrap()
}

#[test]
fn an_open_loop_counts_from_the_due_time_and_receives_answers_between_late_sends() {
    let client_result = travel_behind_time(&order(Load::PLAIN.paced(1e6), 4, 0));
    let samples = client_result.recorder.finish(client_result.origin_ns);
    assert_eq!(samples.due_ns, [0, 1000, 2000, 3000]);
    assert_eq!(samples.sent_ns, [0, 1500, 3000, 4500], "all messages but the first are late");
    assert_eq!(samples.received_ns, [1500, 3000, 4500, 6000], "not all after the last send");
    assert_eq!(
        samples.latencies_ns().collect::<Vec<_>>(),
        [1500, 2000, 2500, 3000],
        "latency is received minus due, not received minus sent"
    );
    let (service, lateness) = (samples.service.unwrap(), samples.lateness.unwrap());
    assert_eq!((service.max(), lateness.max()), (1500, 1500));
    assert!(samples.latency.equivalent(samples.latency.max(), 3000), "{}", samples.latency.max());
}

#[test]
fn a_generator_that_cannot_keep_up_ends_one_time_out_after_the_ordered_duration() {
    let order = order(Load::PLAIN.paced(1e6), 0, 0);
    let order = RoundOrder { extent: Extent::DurationNs(4 * TIMEOUT_NS), ..order };
    let client_result = travel_behind_time(&order);
    // 4 000 messages are due in 4 ms. A send takes 1.5 us, so the generator has sent 3 334 when it ends, at 5 ms.
    assert_eq!((client_result.tally.sent, client_result.tally.received), (3334, 3334));
}

#[test]
fn the_warm_up_of_a_late_generator_ends_by_the_clock() {
    let order = order(Load::PLAIN.paced(1e6), 4, 0);
    let order = RoundOrder { warm_up: Extent::DurationNs(6000), ..order };
    let client_result = travel_behind_time(&order);
    // Six messages are due within 6000 ns, but only four are sent.
    assert_eq!((client_result.tally.warm_up_sent, client_result.tally.sent), (4, 4));
    let samples = client_result.recorder.finish(client_result.origin_ns);
    assert_eq!((samples.warm_up, samples.due_ns[4], samples.sent_ns[4]), (4, 4000, 6000));
}

#[test]
fn an_open_loop_counts_unanswered_messages_as_lost() {
    let order = order(Load::PLAIN.paced(1e6), 4, 1);
    let client_result = travel(&order, &[Act::After(10), Act::After(10), Act::Never], true).unwrap();
    let tally = &client_result.tally;
    assert_eq!((tally.warm_up_sent, tally.warm_up_received, tally.sent, tally.received), (1, 1, 4, 3));
    let samples = client_result.recorder.finish(0);
    assert_eq!(samples.fate.iter().filter(|fate| **fate == Fate::Lost).count(), 1);
    assert_eq!(samples.warm_up, 1);
}

#[test]
fn an_open_loop_over_a_lossless_transport_fails_when_answers_stop() {
    let order = order(Load::PLAIN.paced(1e3), 10, 0);
    let failure = travel(&order, &[Act::After(10), Act::Never], false).unwrap_err();
    assert!(failure.cause.contains("timed out"), "{}", failure.cause);
}
