//! Losses of one-way loads: the ledger closes with the kernel's own counters, and the cause is named.

use hairpin_testing::{or_skip, works};
use serde_json::Value;

use crate::support::{Arguments, PROGRAM, Place, Running, list, number, text};

/// Sends many more datagrams than fit in the smallest buffer before the receiver gets the CPU that both ends share.
const OVERRUN: &str = "message-rate --placement same-cpu --transport udp,udp6 --direction up,down --batch 64 \
    --option rcvbuf=4096 --count 5000 --warmup 500 --rounds 1";

fn codes(run: &Value) -> Vec<&str> {
    list(&run["findings"]).iter().map(|finding| text(&finding["code"])).collect()
}

/// Returns the ledgers of all cases, which must close.
fn ledgers(run: &Value) -> Vec<&Value> {
    let ledgers: Vec<&Value> = list(&run["cases"]).iter().map(|case| &case["ledger"]).collect();
    for ledger in &ledgers {
        assert_eq!(ledger["unexplained"], 0, "{ledger}");
        let lost: u64 = ledger["lost"].as_object().expect("causes").values().map(number).sum();
        assert_eq!(number(&ledger["sent"]), number(&ledger["received"]) + lost, "{ledger}");
    }
    ledgers
}

#[test]
fn a_receive_buffer_that_overran_is_in_the_ledger_and_named() {
    let run = Place::new().json(OVERRUN);
    let ledgers = ledgers(&run);
    assert_eq!(ledgers.len(), 4);
    for ledger in ledgers {
        assert_eq!(ledger["lost"].as_object().map(serde_json::Map::len), Some(1), "{ledger}");
        assert!(number(&ledger["lost"]["receive-buffer-overflow"]) > 1000, "{ledger}");
        assert_eq!(number(&ledger["sent"]), 5500, "the warm-up lost some too: {ledger}");
    }
    assert!(codes(&run).contains(&"udp-receive-overrun"), "{:?}", codes(&run));
    assert!(!codes(&run).contains(&"unexplained-loss"), "{:?}", codes(&run));
}

#[test]
fn a_loss_on_the_link_is_attributed_to_a_stage_of_the_link() {
    let plan = "offered-load --placement same-cpu --transport udp --direction up,down --rate 1000 --count 200";
    let link = ["--link", "delay=1ms drop=50-99 duplicate=30%", "--warmup", "20", "--rounds", "1"];
    let run = Place::new().json((plan, link));
    for ledger in ledgers(&run) {
        assert_eq!((number(&ledger["sent"]), number(&ledger["lost"]["link"])), (200, 50), "{ledger}");
    }
    let finding = list(&run["findings"]).iter().find(|finding| finding["code"] == "link-drops").expect("it lost");
    assert!(text(&finding["summary"]).contains("in its stage loss"), "{finding}");
    assert!(!codes(&run).contains(&"udp-receive-overrun"), "{:?}", codes(&run));
}

#[test]
fn a_queue_discipline_that_dropped_is_in_the_ledger_and_named() {
    const QUEUE: &str = "ip link set lo up && tc qdisc add dev lo root tbf rate 8mbit burst 4kb limit 8kb";
    or_skip!(works(&["unshare", "--net", "sh", "-c", QUEUE]));
    let place = Place::new();
    let mut command = place.command("unshare");
    command.args(["--net", "sh", "-c", &format!("{QUEUE} && exec \"$@\""), "sh", PROGRAM]);
    let plan = "message-rate --placement same-cpu --transport udp --count 5000 --rounds 1 --json";
    let run = Running::start(command.args(plan.words())).end().with_code(0).json();
    for ledger in ledgers(&run) {
        assert!(number(&ledger["lost"]["qdisc"]) > 1000, "{ledger}");
    }
    assert_eq!(codes(&run).first(), Some(&"udp-send-overrun"), "{:?}", codes(&run));
}

/// Between two messages there is no progress for longer than the time-out.
#[test]
fn a_slow_offered_load_is_not_taken_for_a_stalled_one() {
    let plan = "offered-load --transport udp,tcp --rate 0.25 --timeout 2s --count 2 --warmup 0 --rounds 1 --placement same-cpu";
    let run = Place::new().json(plan);
    for ledger in ledgers(&run) {
        assert_eq!((number(&ledger["sent"]), number(&ledger["received"])), (2, 2), "{run}");
    }
}

/// The receiver learns that the measurement has begun long before the first message arrives over the link.
#[test]
fn the_delay_of_a_link_does_not_lower_the_delivered_share() {
    let plan =
        "offered-load --transport udp --rate 200 --duration 300ms --link delay=100ms --rounds 2 --placement same-cpu";
    let run = Place::new().json(plan);
    let share = run["cases"][0]["delivered_share"]["value"].as_f64().expect("a figure");
    assert!(share > 0.9, "it would be 0.75 if the delay counted: {share}");
}
