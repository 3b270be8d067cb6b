//! The canary: an injected fault must be found, and named first.

use serde_json::Value;

use crate::support::{Place, list, text};

const CASES: &str = "round-trip --placement same-cpu --transport pipe,tcp,udp --rounds 2 --count 200";

fn findings(run: &Value) -> Vec<(&str, f64)> {
    let shared = |finding: &'_ Value| finding["share"].as_f64().expect("a share");
    list(&run["findings"]).iter().map(|finding| (text(&finding["code"]), shared(finding))).collect()
}

#[test]
fn a_stalled_server_is_found_and_named_first() {
    let place = Place::new();
    // Every 20th message of about 20 us stalls for 5 ms, so stalls take most of the time on any machine.
    let run = place.json((CASES, "--injected-fault sleep=5ms/20"));
    let found = findings(&run);
    assert_eq!(found.first().map(|first| first.0), Some("echo-stalled"), "{found:?}");
    let greatest = found.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    assert!(found[0].1 > 0.5 && found[0].1 >= greatest, "{found:?}");
    let finding = &list(&run["findings"])[0];
    assert_eq!(finding["severity"], "problem");
    assert_eq!(list(&finding["cases"]).len(), 3, "each case was stalled: {finding}");
    for evidence in list(&finding["evidence"]) {
        assert!(evidence["value"]["value"].is_number() && evidence["unit"].is_string(), "{evidence}");
    }
}

#[test]
fn a_server_that_is_not_stalled_is_not_blamed() {
    let place = Place::new();
    // The server's turnaround takes a few hundred nanoseconds. On a busy machine the server may lose the CPU in that
    // time once in a while, but not five times in one case, which is the minimum to report.
    let run = place.json(CASES);
    let found = findings(&run);
    assert_ne!(found.first().map(|first| first.0), Some("echo-stalled"), "{found:?}");
}

#[test]
fn a_slower_replicate_is_called_slower() {
    let place = Place::new();
    // The fault adds 200 us to each message of about 10 us. No machine noise hides this.
    let injected = "--replicate-fault busy=200us --rounds 6";
    let plan = "round-trip --placement same-cpu --transport pipe --count 100";
    let low = || {
        let run = place.json((plan, &injected));
        let pairs = list(&run["comparisons"]);
        let pair = pairs.iter().find(|pair| pair["role"] == "a-a").expect("replicates are compared");
        assert_eq!(pair["verdict"], "slower", "{pair}");
        pair["ratio"]["low"].as_f64()
    };
    // If the machine slows down during the run, the ratio has no interval.
    let found = (0..20).find_map(|_| low());
    assert!(found > Some(1.0), "{found:?}");
}
