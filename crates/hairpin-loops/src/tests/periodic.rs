//! Control loops on the manual clock.

use hairpin_model::periodic::Overrun;
use hairpin_model::{Periodic, PeriodicCounts};

use super::*;

const PERIOD_NS: u64 = 1_000;

/// An order for `count` periods of 1 us with a deadline of 800 ns.
fn loop_order(overrun: Overrun, count: u64, warm_up: u64) -> RoundOrder {
    let periodic = Periodic { period_ns: PERIOD_NS, deadline_ns: 800, overrun, ..Periodic::default() };
    order(Load::Periodic { periodic, size_bytes: 12, reply_size_bytes: 12 }, count, warm_up)
}

fn counts(client_result: &ClientResult) -> &PeriodicCounts {
    client_result.periodic.as_ref().expect("a control loop")
}

/// When each cycle was due, began and ended.
fn cycles(client_result: ClientResult) -> Vec<[u64; 3]> {
    let samples = client_result.recorder.finish(client_result.origin_ns);
    let rows = samples.due_ns.iter().zip(&samples.sent_ns).zip(&samples.received_ns);
    rows.map(|((due_ns, sent_ns), received_ns)| [*due_ns, *sent_ns, *received_ns]).collect()
}

#[test]
fn releases_are_a_period_apart_however_long_the_cycles_take() {
    let acts = [Act::After(300), Act::After(900), Act::After(100)];
    let client_result = travel(&loop_order(Overrun::Skip, 4, 0), &acts, false).unwrap();
    assert_eq!((client_result.tally.sent, client_result.tally.received), (4, 4));
    let expected = PeriodicCounts {
        periods: 4,
        misses: 1,
        skipped: 0,
        longest_miss_run: 1,
        block_periods: 1,
        misses_by_block: vec![0, 1, 0, 0],
    };
    assert_eq!(counts(&client_result), &expected);
    assert_eq!(client_result.duration_ns, 3 * PERIOD_NS + 300);
    let times = [[1000, 1000, 1300], [2000, 2000, 2900], [3000, 3000, 3100], [4000, 4000, 4300]];
    assert_eq!(cycles(client_result), times);
}

#[test]
fn an_answer_at_its_deadline_is_in_time() {
    let acts = [Act::After(800), Act::After(801)];
    let client_result = travel(&loop_order(Overrun::Skip, 2, 0), &acts, false).unwrap();
    assert_eq!(counts(&client_result).misses_by_block, [0, 1]);
}

#[test]
fn a_long_cycle_omits_the_releases_that_have_passed() {
    // The second cycle ends at 5500: the releases at 3000, 4000 and 5000 have passed.
    let acts = [Act::After(100), Act::After(3500), Act::After(100), Act::After(100)];
    let client_result = travel(&loop_order(Overrun::Skip, 7, 0), &acts, false).unwrap();
    let found = counts(&client_result);
    assert_eq!((found.periods, found.misses, found.skipped, found.longest_miss_run), (7, 4, 3, 4));
    assert_eq!(found.misses_by_block, [0, 1, 1, 1, 1, 0, 0]);
    let times = [[1000, 1000, 1100], [2000, 2000, 5500], [6000, 6000, 6100], [7000, 7000, 7100]];
    assert_eq!(cycles(client_result), times);
}

#[test]
fn a_cycle_that_ends_at_the_next_release_omits_nothing() {
    let acts = [Act::After(1000), Act::After(100)];
    let client_result = travel(&loop_order(Overrun::Skip, 2, 0), &acts, false).unwrap();
    assert_eq!(counts(&client_result).skipped, 0);
    assert_eq!(cycles(client_result), [[1000, 1000, 2000], [2000, 2000, 2100]]);
}

#[test]
fn omitted_releases_after_the_last_period_do_not_count() {
    let client_result = travel(&loop_order(Overrun::Skip, 2, 0), &[Act::After(9_000)], false).unwrap();
    let found = counts(&client_result);
    assert_eq!((found.periods, found.misses, found.skipped), (2, 2, 1));
    assert_eq!(client_result.tally.sent, 1);
}

#[test]
fn caught_up_cycles_run_without_waiting_and_count_from_their_releases() {
    let acts = [Act::After(2500), Act::After(200), Act::After(200), Act::After(200)];
    let client_result = travel(&loop_order(Overrun::CatchUp, 4, 0), &acts, false).unwrap();
    let found = counts(&client_result);
    assert_eq!((found.periods, found.misses, found.skipped), (4, 3, 0));
    let times = [[1000, 1000, 3500], [2000, 3500, 3700], [3000, 3700, 3900], [4000, 4000, 4200]];
    assert_eq!(cycles(client_result), times);
}

#[test]
fn the_devices_are_polled_one_after_another_in_one_cycle() {
    let mut order = loop_order(Overrun::Skip, 2, 0);
    order.case.primary_mut().connections = 3;
    let acts = [100, 200, 300, 100, 400, 400].map(Act::After);
    let client_result = travel(&order, &acts, false).unwrap();
    assert_eq!((client_result.tally.sent, client_result.tally.received), (6, 6));
    assert_eq!(counts(&client_result).misses_by_block, [0, 1], "600 ns and 900 ns");
    assert_eq!(cycles(client_result), [[1000, 1000, 1600], [2000, 2000, 2900]]);
}

#[test]
fn a_loop_that_only_waits_sends_nothing_after_its_warm_up() {
    let mut order = loop_order(Overrun::Skip, 3, 2);
    order.case.primary_mut().load.periodic_mut().unwrap().only_waits = true;
    let client_result = travel(&order, &[Act::After(100)], false).unwrap();
    let tally = &client_result.tally;
    assert_eq!((tally.warm_up_sent, tally.warm_up_received, tally.sent, tally.received), (2, 2, 0, 0));
    let found = counts(&client_result);
    assert_eq!((found.periods, found.misses), (3, 0));
}

#[test]
fn a_lost_answer_ends_its_cycle_and_is_a_miss() {
    let order = loop_order(Overrun::Skip, 1_003, 0);
    let acts = [Act::After(100), Act::Never, Act::After(100), Act::After(100)];
    let client_result = travel(&order, &acts[..], true).unwrap();
    // The time-out of 1 ms ends at a release.
    let found = counts(&client_result);
    assert_eq!((found.periods, found.misses, found.skipped, found.longest_miss_run), (1_003, 1_000, 999, 1_000));
    assert_eq!((client_result.tally.sent, client_result.tally.received), (4, 3));
    let samples = client_result.recorder.finish(client_result.origin_ns);
    assert_eq!(samples.fate, [Fate::Received, Fate::Lost, Fate::Received, Fate::Received]);
}

#[test]
fn a_late_answer_is_matched_with_its_cycle() {
    let order = loop_order(Overrun::Skip, 1_002, 0);
    let acts = [Act::After(TIMEOUT_NS + 50), Act::After(100), Act::After(100)];
    let client_result = travel(&order, &acts, true).unwrap();
    let tally = &client_result.tally;
    assert_eq!((tally.received, tally.late, tally.duplicated), (2, 1, 0));
    assert_eq!(tally.ledger(false, &[], &[], None).unexplained, 0);
    assert_eq!(counts(&client_result).misses, 1_000);
    let samples = client_result.recorder.finish(client_result.origin_ns);
    assert_eq!(samples.fate, [Fate::Late, Fate::Received, Fate::Received]);
}

#[test]
fn a_duration_ends_with_the_last_release_in_it() {
    let order = RoundOrder { extent: Extent::DurationNs(2_500), ..loop_order(Overrun::Skip, 0, 1) };
    let client_result = travel(&order, &[Act::After(100)], false).unwrap();
    assert_eq!((client_result.tally.warm_up_sent, counts(&client_result).periods), (1, 3));
}
