//! The contract of `--json` for scripts, on runs of the real program.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::contract::assert_kept;
use crate::support::{Place, list, rounds, text};

#[test]
fn every_transport_keeps_the_contract() {
    let place = Place::new();
    let run = place.json("round-trip --placement same-cpu --transport all --rounds 2 --count 200 --out run");
    assert_eq!(place.processes(), [0; 0], "its child processes have ended before it");
    assert_kept(&run);
    let names = |can_run: bool| -> Vec<&str> {
        let those = hairpin_transports::ALL.iter().filter(|transport| transport.can_run().is_ok() == can_run);
        those.map(|transport| transport.card().name).collect()
    };
    let transports: Vec<&str> =
        list(&run["cases"]).iter().map(|case| text(&case["case"]["flows"][0]["transport"])).collect();
    assert_eq!(transports, names(true), "in the order of the list");
    let skipped: Vec<&str> = list(&run["skipped"]).iter().map(|one| text(&one["transport"])).collect();
    assert_eq!(skipped, names(false));
    for case in list(&run["cases"]) {
        assert_eq!((&case["rounds"], &case["flows"][0]["samples"]), (&json!(2), &json!(400)), "{case}");
        assert_eq!(case["valid"], true, "{case}");
        let (transport, flow) = (&case["case"]["flows"][0]["transport"], &case["flows"][0]);
        assert_eq!(list(&case["ends"]).len() == 1, transport == "icmp", "{case}");
        let ends = if transport == "memory" { "threads" } else { "processes" };
        assert_eq!(case["case"]["ends"]["kind"], ends, "{case}");
        assert!(flow["service_ns"].is_null() && flow["lateness_ns"].is_null(), "a closed loop has neither: {case}");
        for name in ["setup_ns", "first_message_ns"] {
            assert!(flow[name]["value"].is_number(), "{name}: {case}");
        }
    }
    assert_eq!(run["plan"]["rounds_ordered"], 2 * transports.len());
    assert_eq!(rounds(&place.path("run")).len(), 2 * transports.len());
}

#[test]
fn the_quick_survey_keeps_the_contract_and_proves_its_calibration() {
    let place = Place::new();
    let run = place.json("--quick --seed 7 --timeout 30s");
    assert_kept(&run);
    let facts = [&run["plan"]["experiment"], &run["seed"], &run["state"]];
    assert_eq!(facts, [&json!("survey"), &json!(7), &json!("complete")]);
    let placements: Vec<&str> =
        list(&run["cases"]).iter().map(|case| text(&case["case"]["ends"]["placement"])).collect();
    assert!(placements.contains(&"same-cpu") && placements.contains(&"cross-cpu"), "{placements:?}");
    let pairs = list(&run["comparisons"]).iter().filter(|pair| pair["role"] == "a-a");
    assert_eq!(pairs.count(), 1, "the A/A pair");
}

#[test]
fn a_percentile_is_shown_only_with_enough_samples() {
    let place = Place::new();
    for (count, p99, p999) in
        [("499", false, false), ("500", true, false), ("4999", true, false), ("5000", true, true)]
    {
        let run = place.json(format!("round-trip --placement same-cpu --transport pipe --rounds 2 --count {count}"));
        let latency = &list(&run["cases"])[0]["latency_ns"];
        let shown = [&latency["p50"], &latency["p99"], &latency["p999"]].map(Value::is_object);
        assert_eq!(shown, [true, p99, p999], "two rounds of {count}: {latency}");
    }
}

#[test]
fn an_open_loop_reports_service_time_and_lateness_too() {
    let place = Place::new();
    let run = place.json("round-trip --transport tcp,udp,pipe,memory --rate 5000 --rounds 2 --count 200");
    assert_kept(&run);
    for case in list(&run["cases"]) {
        assert_eq!(case["flows"][0]["load"]["rate_per_s"], 5000.0);
        let reliable = case["case"]["flows"][0]["transport"] != "udp";
        assert!(!reliable || (case["flows"][0]["samples"] == 400 && case["ledger"]["sent"] == 400), "{case}");
        for quantity in ["service_ns", "lateness_ns"] {
            for figure in ["p50", "p90", "max", "mean"] {
                assert!(case["flows"][0][quantity][figure]["value"].is_number(), "{quantity} {figure}: {case}");
            }
        }
        // The latency counts from due, the service time from sent, so the latency is never shorter.
        let p50 = |quantity: &str| case["flows"][0][quantity]["p50"]["value"].as_f64().expect("a figure");
        assert!(p50("latency_ns") >= p50("service_ns"), "{case}");
    }
}

#[test]
fn an_unreachable_rate_is_reported_and_is_not_a_failure() {
    let place = Place::new();
    // At ten million messages per second, the buffers in both directions of every transport fill up. Neither end may
    // then wait for the other end forever.
    let transports = "pipe,fifo,unix-stream,unix-seqpacket,unix-datagram,tcp,udp";
    let plan = format!("round-trip --placement same-cpu --transport {transports} --rate 10M --rounds 1 --count 3000");
    let run = place.json(plan);
    assert_kept(&run);
    for case in list(&run["cases"]) {
        // If the warm-up lost messages, the ledger includes them.
        let lossy = case["case"]["flows"][0]["transport"] == "udp" && case["ledger"]["sent"].as_u64() >= Some(3000);
        assert!(lossy || (case["flows"][0]["samples"] == 3000 && case["ledger"]["sent"] == 3000), "{case}");
        assert_eq!(case["valid"], false, "the requested rate was not reached: {case}");
    }
    assert_eq!(list(&run["findings"])[0]["code"], "rate-not-reached", "{}", run["findings"]);
}

#[test]
fn sizes_and_answers_of_other_sizes_are_swept() {
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport tcp,unix-seqpacket --rounds 1 --count 40 --timeout 60s";
    let run = place.json((plan, "--size 1,7,64KiB --reply-size 3,100000"));
    assert_kept(&run);
    let expected: Vec<[u64; 2]> =
        [1, 7, 65536].into_iter().flat_map(|size| [3, 100_000].map(|reply| [size, reply])).collect();
    for transport in ["tcp", "unix-seqpacket"] {
        let cases = list(&run["cases"]).iter().filter(|case| case["case"]["flows"][0]["transport"] == transport);
        let bytes = |case: &Value, key: &str| case["flows"][0]["load"][key].as_u64().expect("bytes");
        let sizes = cases.map(|case| ["size_bytes", "reply_size_bytes"].map(|key| bytes(case, key)));
        assert_eq!(sizes.collect::<Vec<_>>(), expected, "{transport}");
    }
    for case in list(&run["cases"]) {
        assert_eq!(case["ledger"]["received"], 40, "{case}");
    }
}

#[test]
fn options_are_read_back_at_both_ends() {
    let place = Place::new();
    let run = place.json(
        "round-trip --transport tcp --placement same-cpu --option nodelay=on,sndbuf=65536 \
        --option nodelay=off --option none --rounds 2 --count 50",
    );
    let asked: Vec<&Value> = list(&run["cases"]).iter().map(|case| &case["case"]["flows"][0]["options"]).collect();
    assert_eq!(asked, [&json!({"nodelay": "on", "sndbuf": "65536"}), &json!({"nodelay": "off"}), &json!({})]);
    for (case, effective) in list(&run["cases"]).iter().zip(["on", "off", "off"]) {
        for end in list(&case["ends"]) {
            let options = list(&end["effective_options"]);
            let by_name: BTreeMap<&str, &Value> = options.iter().map(|one| (text(&one["name"]), one)).collect();
            let nodelay = by_name["nodelay"];
            assert_eq!((&nodelay["before"], &nodelay["after"]), (&json!(effective), &json!(effective)), "{end}");
            let asked = case["case"]["flows"][0]["options"].get("nodelay").cloned();
            assert_eq!(nodelay["asked"], asked.unwrap_or_default(), "{end}");
            let asked_and_met = options.iter().all(|one| one["met"] == true);
            assert!(asked_and_met && by_name.contains_key("congestion"), "{end}: {options:?}");
        }
    }
}

#[test]
fn an_option_that_was_not_granted_fails_the_round_unless_that_is_allowed() {
    let place = Place::new();
    let asked = "round-trip --placement same-cpu --transport tcp,pipe --option none --option sndbuf=1";
    let asked = format!("{asked} --rounds 2 --count 50 --json");
    let ran = place.hairpin(&asked).with_code(3);
    let run = ran.json();
    let labels: Vec<&str> = list(&run["cases"]).iter().map(|case| text(&case["label"])).collect();
    assert_eq!(labels, ["tcp block same-cpu", "tcp block same-cpu sndbuf=1", "pipe block same-cpu"]);
    let refused = &list(&run["cases"])[1];
    assert_eq!((&refused["rounds"], &refused["valid"]), (&json!(0), &json!(false)), "{refused}");
    assert_eq!(list(&refused["failed_rounds"]).len(), 2, "{refused}");
    for cause in list(&refused["failed_rounds"]) {
        assert!(text(cause).contains("option sndbuf=1 was not granted: the kernel says "), "{cause}");
    }
    for other in [0, 2] {
        assert_eq!(list(&run["cases"])[other]["flows"][0]["samples"], 100, "other cases continue");
    }

    let run = place.hairpin((asked, "--allow-unmet-options")).with_code(0).json();
    let allowed = &list(&run["cases"])[1];
    assert_eq!((&allowed["flows"][0]["samples"], &allowed["valid"]), (&json!(100), &json!(false)), "{allowed}");
    let why = list(&allowed["why_invalid"]);
    assert!(text(&why[0]).contains("requested 1, the kernel granted "), "{why:?}");
    assert_eq!(list(&run["cases"])[0]["valid"], true, "only that case is invalid");
}

#[test]
fn the_seed_decides_the_order_of_rounds() {
    let place = Place::new();
    let order = |seed: &str, out: &str| {
        let plan = "round-trip --placement same-cpu --transport pipe,tcp,udp,unix-stream,shm --rounds 3 --count 5";
        let run = place.json((plan, format!("--warmup 0 --seed {seed} --out {out}")));
        assert_eq!(run["seed"].as_u64().map(|seed| seed.to_string()).as_deref(), Some(seed));
        let of = |round: &Value| (round["order"]["block"].as_u64(), text(&round["case_id"]).to_owned());
        rounds(&place.path(out)).iter().map(of).collect::<Vec<_>>()
    };
    let first = order("11", "first");
    assert_eq!(first, order("11", "again"));
    assert_ne!(first, order("12", "other"));
    for (number, block) in first.chunks(5).enumerate() {
        let cases: std::collections::BTreeSet<_> = block.iter().map(|(_, case)| case).collect();
        assert_eq!(cases.len(), 5, "every case once in each block");
        assert!(block.iter().all(|(of, _)| *of == Some(number as u64)), "{block:?}");
    }
}
