//! One-way loads: counts at both ends, and faults in the middle.

use hairpin_testing::or_skip;
use serde_json::Value;

use crate::support::contract::assert_kept;
use crate::support::{
    PROGRAM, Place, Running, can_link, copy_as_another_run, list, number, on_one_line, rounds, signal, text,
};

/// Data sent from a file have no time stamps.
#[test]
fn only_messages_with_times_have_a_latency() {
    let place = Place::new();
    for (source, stamped) in [("buffer", 20), ("file", 0)] {
        let plan = format!(
            "bulk --transport pipe --count 20 --rounds 1 --source {source} --placement same-cpu --out {source} --quiet"
        );
        place.hairpin(&plan).with_code(0);
        for round in rounds(&place.path(source)) {
            let figures = &round["outcome"]["flows"][0]["figures"];
            assert_eq!((&figures["samples"], &figures["stamped"]), (&20.into(), &stamped.into()), "{round}");
            assert_eq!(figures.get("latency_ns").is_some(), stamped > 0, "{round}");
        }
        place.hairpin(["analyse", source]).with_code(0);
    }
}

#[test]
fn every_message_is_accounted_for_by_the_end_that_saw_it() {
    let place = Place::new();
    let plan = "bulk --transport tcp,udp,unix-stream,unix-seqpacket,unix-datagram,pipe,fifo --placement same-cpu --direction up,down \
                --write-size 1000 --count 300 --omit 30 --rounds 2 --out run";
    let run = place.json(plan);
    assert_kept(&run);
    assert_eq!(list(&run["cases"]).len(), 14);
    for case in list(&run["cases"]) {
        let flow = &case["flows"][0];
        assert_eq!((&flow["load"]["kind"], &case["rounds"]), (&"stream".into(), &2.into()), "{case}");
        let ledger = &flow["ledger"];
        let lost: u64 = ledger["lost"].as_object().expect("causes").values().map(number).sum();
        let may_lose = flow["transport"] == "udp";
        // If the warm-up lost messages too, the ledger includes them.
        assert!(number(&ledger["sent"]) == 600 || may_lose && lost > 0, "{case}");
        assert_eq!(number(&ledger["received"]) + lost, number(&ledger["sent"]), "{case}");
        assert!(may_lose || lost == 0 && case["valid"] == true, "{case}");
        assert_eq!(number(&flow["samples"]), number(&ledger["received"]), "{case}");
        assert!(list(&case["ends"]).iter().all(|end| end["cpu_seconds"].as_f64() > Some(0.0)), "{case}");
    }
    let answered = text(&run["answer"]["headline"]);
    assert!(answered.starts_with("Highest goodput"), "{answered}");
    let again = place.json("analyse run");
    for (case, before) in list(&again["cases"]).iter().zip(list(&run["cases"])) {
        assert_eq!(case["flows"], before["flows"], "recomputed from the rounds");
    }
}

#[test]
fn threads_add_up_to_one_flow() {
    let place = Place::new();
    let plan = "bulk --transport tcp,unix-stream --direction up,both --threads 3 --write-size 1000 --duration 300ms \
                --omit 20ms --rounds 1 --out run";
    let run = place.json(plan);
    assert_kept(&run);
    for round in rounds(&place.path("run")) {
        let (flows, ends) = (list(&round["outcome"]["flows"]), list(&round["outcome"]["ends"]));
        assert_eq!(ends.len(), 2 * flows.len(), "{round}");
        for flow in flows {
            let received = &flow["received"];
            let of_threads: Vec<u64> = list(&received["connection_bytes"]).iter().map(number).collect();
            assert_eq!((of_threads.len(), of_threads.iter().sum()), (3, number(&received["bytes"])), "{flow}");
            let (ledger, bytes) = (&flow["ledger"], number(&received["bytes"]));
            assert_eq!((&ledger["unexplained"], number(&ledger["received"])), (&0.into(), bytes / 1000), "{flow}");
        }
    }
    assert_eq!(run["cases"][0]["label"], "tcp block unpinned up 1000 B 3 threads");
    for (flags, why) in [
        ("--transport tcp --placement cross-cpu", "its threads would share the CPU of their end"),
        ("--transport tcp --ends threads", "each flow and each of its threads runs in its own processes"),
        ("--link delay=1ms --transport udp", "the link counts the lost messages of one thread only"),
    ] {
        place.hairpin(format!("bulk --threads 2 {flags}")).refused().told(why);
    }
}

#[test]
fn both_builds_of_the_loops_count_every_message() {
    let place = Place::new();
    let plan = "message-rate --transport tcp,unix-datagram --direction up,down --batch 1,8 --build optimised,unoptimised --count 200 \
                --warmup 20 --rounds 1 --placement same-cpu --out run";
    let run = place.json(plan);
    assert_kept(&run);
    let builds: Vec<bool> = list(&run["cases"])
        .iter()
        .map(|case| {
            let flow = &case["flows"][0];
            let ledger = &flow["ledger"];
            assert_eq!([&ledger["sent"], &ledger["received"]].map(number), [200; 2], "{case}");
            assert_eq!(number(&flow["samples"]), 200, "{case}");
            text(&case["label"]).ends_with("unoptimised build")
        })
        .collect();
    assert_eq!([false, true].map(|build| builds.iter().filter(|one| **one == build).count()), [8; 2]);
}

#[test]
fn connections_share_the_load_and_each_carries_its_count() {
    let place = Place::new();
    let plan = "bulk --transport tcp --placement same-cpu --connections 100 --write-size 100 --count 20 --omit 2 --rounds 1 \
                --out run --json";
    let run = place.hairpin(plan).with_code(0).json();
    let flow = &run["cases"][0]["flows"][0];
    assert_eq!((number(&flow["ledger"]["sent"]), number(&flow["ledger"]["received"])), (2000, 2000), "{flow}");
    let round = &crate::support::rounds(&place.path("run"))[0];
    let received = &round["outcome"]["flows"][0]["received"];
    assert_eq!(number(&received["bytes"]), 200_000, "{received}");
    let timed: u64 = list(&received["interval_bytes"]).iter().map(number).sum();
    assert_eq!(timed, 220_000, "with the warm-up: {received}");
    let by_connection: Vec<u64> = list(&received["connection_bytes"]).iter().map(number).collect();
    assert_eq!(by_connection, [2000; 100], "every connection carries its count");
    assert_eq!(run["cases"][0]["fairness"]["value"], 1.0);
    // One connection sends 22 writes and its hello.
    let client = list(&round["outcome"]["ends"][0]["facts"]);
    let segments = client.iter().find(|fact| fact["name"] == "tcp_info.data_segments_out").expect("TCP counts them");
    assert!(segments["value"].as_f64() >= Some(100.0), "the segments of all connections: {segments}");
}

/// When the measurement begins, the send buffers of 20 connections hold more than this link carries in a second.
#[test]
fn a_buffered_warm_up_does_not_hide_the_rate_of_a_link() {
    let place = Place::new();
    let plan = "bulk --transport tcp --placement same-cpu --connections 20 --rounds 1 --out run";
    let run = place.json((plan, ["--link", "rate=20mbit delay=5ms queue=1MiB"]));
    let flow = &run["cases"][0]["flows"][0];
    let goodput = flow["goodput_bytes_per_s"]["value"].as_f64().expect("something was received");
    assert!((1_250_000.0..2_500_000.0).contains(&goodput), "{goodput} bytes/s of 2 500 000");
    assert_eq!((&flow["ledger"]["sent"], &flow["ledger"]["unexplained"]), (&flow["ledger"]["received"], &0.into()));
    let said = run["findings"].to_string();
    assert!(said.contains("link-saturated") && !said.contains("with both directions"), "one direction: {said}");
}

/// A stream is written in parts of at most 16 MiB. A message and its answer may be larger.
#[test]
fn a_round_trip_may_be_larger_than_a_write_of_a_stream() {
    let place = Place::new();
    let plan = "round-trip --transport tcp --placement same-cpu --size 17MiB --rounds 1 --count 1 --warmup 1 --out run --json";
    let run = place.hairpin(plan).with_code(0).json();
    assert_eq!(run["cases"][0]["flows"][0]["samples"], 1, "{run}");
}

/// Loads at full speed, whose server receives (`up`) or sends (`down`).
const FULL_SPEED: &[&str] = &[
    "bulk --transport tcp --direction up",
    "bulk --transport unix-stream --direction down",
    "bulk --transport unix-seqpacket --direction up",
    "message-rate --transport udp --batch 64 --direction up",
    "message-rate --transport tcp --batch 1 --direction down",
    "message-rate --transport tcp --batch 8 --connections 8 --direction up",
    "offered-load --transport udp --rate 200000 --direction up",
    "offered-load --transport tcp --rate 200000 --direction down",
];

fn begun(place: &Place, load: &str, rest: &str) -> Running {
    let plan = format!("{load} --placement same-cpu --json {rest}");
    place.start(&plan)
}

#[test]
fn a_killed_server_fails_its_round_only() {
    for load in FULL_SPEED {
        let place = Place::new();
        let mut running = begun(&place, load, "--rounds 2 --duration 5s");
        signal("KILL", running.busy_server());
        let run = running.end().with_code(3).json();
        let case = &run["cases"][0];
        let failed = list(&case["failed_rounds"]);
        assert_eq!((failed.len(), number(&case["rounds"])), (1, 1), "{load}: {case}");
        assert!(text(&failed[0]).contains("the server ended early (signal: 9 (SIGKILL))"), "{load}: {failed:?}");
        assert!(number(&case["ledger"]["received"]) > 0 && case["ledger"]["unexplained"] == 0, "{load}: {case}");
    }
}

#[test]
fn a_stopped_server_times_out() {
    for load in FULL_SPEED {
        let place = Place::new();
        let mut running = begun(&place, load, "--rounds 1 --duration 3600s --timeout 400ms");
        signal("STOP", running.busy_server());
        let run = running.end().with_code(3).json();
        let failed = list(&run["cases"][0]["failed_rounds"]);
        assert!(text(&failed[0]).contains("made no progress for 400 ms"), "{load}: {failed:?}");
    }
}

#[test]
fn both_directions_are_two_flows_with_separate_ledgers() {
    let place = Place::new();
    let plan = "bulk --transport tcp,unix-stream --direction both --connections 3 --write-size 1000 --count 200 --omit 10 --rounds 2 \
                --placement same-cpu --out run";
    let run = place.json(plan);
    assert_kept(&run);
    for case in list(&run["cases"]) {
        let flows = list(&case["flows"]);
        let ways: Vec<&str> = flows.iter().map(|flow| text(&flow["direction"])).collect();
        assert_eq!(ways, ["up", "down"], "{case}");
        for flow in flows {
            let ledger = &flow["ledger"];
            assert_eq!((number(&ledger["sent"]), number(&ledger["received"])), (1200, 1200), "{flow}");
            assert!(flow["goodput_bytes_per_s"]["value"].as_f64() > Some(0.0), "{flow}");
            assert!(flow["cpu_seconds_per_million"]["server"]["value"].as_f64() > Some(0.0), "{flow}");
        }
        let of = |flow: &Value| flow["goodput_bytes_per_s"]["value"].as_f64().expect("a figure");
        let all = case["goodput_of_all_bytes_per_s"]["value"].as_f64().expect("a figure");
        assert!(all > of(&flows[0]).max(of(&flows[1])), "{case}");
        for end in ["client", "server"] {
            let of = |figures: &Value| figures[end]["value"].as_f64().expect("a figure");
            let each = [0, 1].map(|flow| of(&flows[flow]["cpu_seconds_per_gb"]));
            let both = of(&case["cpu_seconds_per_gb_of_all"]);
            assert!(both > 0.0 && both < 2.0 * each[0].max(each[1]), "a mean of the flows, not a sum: {case}");
        }
    }
    let brief = on_one_line(&place.hairpin("report run").with_code(0).stdout);
    assert!(brief.contains("No interval for") && brief.contains("fewer than 5 rounds count"), "{brief}");
    let table = place.hairpin("report run --csv").with_code(0).stdout;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let column = rows[0].iter().position(|name| *name == "sent").expect("it is a column");
    let sent = rows[1..].iter().map(|row| row[column]);
    assert!(sent.eq(["2400", "2400"]), "the messages of both flows: {table}");
    for round in rounds(&place.path("run")) {
        let ends = list(&round["outcome"]["ends"]);
        let whose: Vec<[&str; 2]> = ends.iter().map(|end| ["flow", "role"].map(|name| text(&end[name]))).collect();
        let both = ["main", "back"].into_iter().flat_map(|flow| ["client", "server"].map(|role| [flow, role]));
        assert_eq!(whose, both.collect::<Vec<_>>(), "{round}");
    }
}

/// Estimates the bytes of ACKs from the counters of TCP, as on a path without a link.
#[test]
fn the_estimated_bytes_of_acks_agree_with_the_counts_of_a_link() {
    let place = Place::new();
    or_skip!(can_link());
    let plan =
        "bulk --transport tcp,tcp6 --direction up,down --link delay=1ms --count 200 --omit 10 --rounds 1 --out run";
    place.json(plan);
    for round in rounds(&place.path("run")) {
        let outcome = &round["outcome"];
        let goes_up = text(&round["order"]["case"]["flows"][0]["direction"]) == "up";
        let [receiver, back] = if goes_up { ["server", "down"] } else { ["client", "up"] };
        let receiver = list(&outcome["ends"]).iter().find(|end| end["role"] == receiver).expect("it is an end");
        let fact = |name: &str| {
            let found = list(&receiver["facts"]).iter().find(|fact| fact["name"] == name);
            found.and_then(|fact| fact["value"].as_f64()).expect("the kernel reports it")
        };
        let segments = fact("tcp_info.segments_out") - fact("tcp_info.data_segments_out");
        let (told, counted) = (segments * fact("tcp.header_bytes"), outcome["link"][back]["in_bytes"].as_f64());
        let ratio = told / counted.expect("the link counts it");
        // The first packet has more options, and the hello has payload.
        assert!((0.9..=1.0).contains(&ratio), "{told}: {outcome}");
    }
}

/// The other flow continues to its end. Its results are saved, with the cause of the failure.
#[test]
fn a_killed_flow_fails_and_the_other_flow_is_measured() {
    let place = Place::new();
    let plan = "bulk --transport unix-stream --direction both --placement same-cpu --rounds 1 --duration 5s --json \
                --out run";
    let mut running = place.start(plan);
    signal("KILL", running.busy_server());
    let run = running.end().with_code(3).json();
    let case = &run["cases"][0];
    let outcome = &rounds(&place.path("run"))[0]["outcome"];
    let ([failed], [measured]) = (list(&outcome["failed_flows"]), list(&outcome["flows"])) else {
        panic!("one of two flows fails: {outcome}")
    };
    let (failed_id, cause) = (text(&failed["id"]), text(&failed["failure"]["cause"]));
    let expected = format!("flow `{failed_id}`: ");
    assert!(cause.starts_with(&expected), "{cause}");
    assert!(cause.contains("the server ended early (signal: 9 (SIGKILL))"), "{cause}");
    let others = ["main", "back"].into_iter().filter(|id| *id != failed_id);
    assert_eq!(others.collect::<Vec<_>>(), [text(&measured["id"])], "{outcome}");
    assert!(number(&measured["received"]["bytes"]) > 0 && measured["ledger"]["unexplained"] == 0, "{measured}");
    let whose = list(&outcome["ends"]).iter().map(|end| text(&end["flow"]));
    assert_eq!(whose.collect::<Vec<_>>(), [text(&measured["id"]); 2], "{outcome}");

    let failed_rounds = list(&case["failed_rounds"]);
    assert!(failed_rounds.len() == 1 && text(&failed_rounds[0]).contains(&expected), "{case}");
    assert_eq!(case["valid"], false, "{case}");
    let of_failed = list(&case["flows"]).iter().find(|flow| flow["id"] == failed_id).expect("it is a flow");
    assert!(
        of_failed["rate_per_s"].is_null() && of_failed["goodput_bytes_per_s"].is_null(),
        "no figure: {of_failed}"
    );
    assert!(case["goodput_of_all_bytes_per_s"].is_null(), "a failed flow leaves no total: {case}");
    assert_eq!(place.json("report run")["cases"], run["cases"], "it is read as it was saved");
}

#[test]
fn a_low_soft_limit_is_raised_for_a_thousand_connections_and_a_low_hard_limit_is_reported() {
    let place = Place::new();
    for (plan, messages) in [
        ("message-rate --transport tcp,udp,unix-stream --batch 1", 2000),
        ("waiting --transport tcp --waiting poll,epoll,spin-then-block", 2),
    ] {
        let limited = |limit: &str| {
            let rest = "--connections 1000 --count 2 --warmup 1 --rounds 1 --placement same-cpu --json";
            let script = format!("ulimit {limit} 256 && exec \"$0\" {plan} {rest}");
            Running::start(place.command("sh").args(["-c", &script, PROGRAM])).end()
        };
        let run = limited("-S -n").with_code(0).json();
        assert!(list(&run["cases"]).len() >= 2, "{run}");
        for case in list(&run["cases"]) {
            let ledger = &case["ledger"];
            let lost: u64 = ledger["lost"].as_object().expect("causes").values().map(number).sum();
            assert_eq!(number(&ledger["received"]) + lost, number(&ledger["sent"]), "{case}");
            assert!(number(&ledger["sent"]) >= messages && number(&case["rounds"]) == 1, "{case}");
        }
        let run = limited("-n").with_code(3).json();
        for case in list(&run["cases"]) {
            let told = text(&case["failed_rounds"][0]);
            let expected = "cannot allow 1064 open descriptors: the soft limit is 256, the hard limit 256";
            assert!(told.contains(expected), "{told}");
        }
    }
}

#[test]
fn messages_streamed_until_ctrl_c_are_reported() {
    for (direction, ends) in [("up", "processes"), ("down", "processes"), ("up", "threads"), ("down", "threads")] {
        let place = Place::new();
        let plan = format!("bulk --transport tcp --direction {direction} --ends {ends} --placement same-cpu");
        let mut running = place.start((plan, "--rounds 1 --omit 1 --duration 3600s --json"));
        running.busy_client();
        signal("INT", running.id());
        let run = running.end().with_code(130).json();
        let ledger = &run["cases"][0]["ledger"];
        assert!(number(&ledger["sent"]) > 0 && ledger["unexplained"] == 0, "{direction}, {ends}: {run}");
    }
}

#[test]
fn bulk_runs_are_compared_by_goodput_and_a_budget_can_limit_it() {
    let place = Place::new();
    let plan = "bulk --transport pipe --placement same-cpu --count 200 --rounds 6";
    let compare = "compare one other --json";
    // On a busy machine, two runs can be in states that are not comparable, or a run can have no interval.
    let mut runs = (0..20).map(|_| {
        for run in ["one", "other"] {
            drop(std::fs::remove_dir_all(place.path(run)));
        }
        place.hairpin((plan, "--out one --quiet")).with_code(0);
        copy_as_another_run(&place.path("one"), &place.path("other"));
        place.hairpin(compare).with_code(0).json()
    });
    let compared = runs.find(|compared| !compared["rows"][0]["ratio"]["low"].is_null()).expect("an interval");
    let rows: Vec<_> = list(&compared["rows"]).iter().map(|row| (text(&row["figure"]), text(&row["unit"]))).collect();
    assert_eq!(rows, [("goodput", "bytes_per_s")], "{compared}");
    let exit = |budget: &str| place.hairpin((compare, ["--budget", budget]));
    let kept = exit("goodput=-99%").with_code(0).json();
    let budget = &kept["budgets"][0];
    assert_eq!((&budget["figure"], &budget["kept"]), (&"goodput".into(), &true.into()), "{kept}");
    exit("speed=-5%").with_code(2).told("unknown figure `speed`");
}
