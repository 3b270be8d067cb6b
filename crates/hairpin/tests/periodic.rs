//! `hairpin periodic` and `--bound` as a user runs them: counts, a search, and errors.

use hairpin_testing::{or_skip, program, works};

use crate::support::contract::assert_kept;
use crate::support::{PROGRAM, Place, Ran, Running, can_link, list, number, rounds, signal, status, text};

#[test]
fn each_period_is_a_miss_or_in_time() {
    let place = Place::new();
    let run = place.json(
        "periodic --transport tcp,shm --period 2ms --devices 1,0 --timing all --count 40 --rounds 1 --warmup 2 --out run",
    );
    assert_kept(&run);
    assert!(list(&run["cases"]).len() > 10, "{}", run["skipped"]);
    for round in rounds(&place.path("run")) {
        let flow = &round["outcome"]["flows"][0];
        let counts = &flow["periodic"];
        assert!(number(&counts["periods"]) >= 40, "{counts}");
        let by_block: u64 = list(&counts["misses_by_block"]).iter().map(number).sum();
        assert_eq!(by_block, number(&counts["misses"]), "{counts}");
        assert!(number(&counts["longest_miss_run"]) <= number(&counts["misses"]), "{counts}");
        assert!(number(&counts["skipped"]) <= number(&counts["misses"]), "{counts}");
    }
    let again = place.json("report run");
    assert_eq!(again["cases"][0]["flows"][0]["periodic"], run["cases"][0]["flows"][0]["periodic"]);
}

#[test]
fn a_search_ends_with_a_period_of_its_range_or_says_why_not() {
    let place = Place::new();
    let run =
        place.json("periodic --find --misses 30% --transport tcp --period 1ms,40ms --over 5s --seed 3 --out run");
    let found = &run["periodic"];
    let end = text(&found["end"]);
    assert!(["confirmed", "not-confirmed", "too-few-periods", "none-holds"].contains(&end), "{found}");
    assert_eq!(found["confirmed"], end == "confirmed");
    if let Some(period_ns) = found["smallest_period_ns"].as_u64() {
        assert!((1_000_000..=40_000_000).contains(&period_ns), "{found}");
    }
    if end == "confirmed" {
        assert!(found["misses"]["high"].as_f64().unwrap() < 0.3, "{found}");
        assert!(number(&found["periods"]) >= 100, "{found}");
        let last = rounds(&place.path("run")).pop().unwrap();
        assert_eq!(last["case_id"], found["case"], "the confirmation comes last");
    }
    let again = place.json("report run");
    assert_eq!(again["periodic"], *found, "a saved run has its result");
}

#[test]
fn a_probability_of_exceeding_a_bound_counts_messages() {
    let place = Place::new();
    let exceeds = |bound: &str| {
        let flags = format!("round-trip --transport tcp --placement same-cpu --count 200 --rounds 2 --bound {bound}");
        let run = place.json(flags);
        run["cases"][0]["flows"][0]["exceeds"].clone()
    };
    let (all, none) = (exceeds("1ns"), exceeds("1h"));
    assert_eq!((&all["bound_ns"], &all["probability"]["value"]), (&1.into(), &1.0.into()));
    assert_eq!((&none["probability"]["value"], &none["probability"]["low"]), (&0.0.into(), &0.0.into()));
    // Clopper and Pearson: 1 - 0.025^(1/400).
    let high = none["probability"]["high"].as_f64().unwrap();
    assert!((high - 0.009_180).abs() < 1e-5, "{none}");
    place.hairpin("round-trip --transport tcp --count 50 --rounds 1 --bound 1us").shown("Above 1 us");
}

#[test]
fn impossible_loops_are_refused_with_the_reason() {
    let place = Place::new();
    for (flags, reason) in [
        ("--period 999ns", "a duration from 1 us"),
        ("--find --period 1ns,1ms", "a duration from 1 us"),
        ("--period 2h", "up to 1 h"),
        ("--period 1ms --deadline 2ms", "is after the end of the period"),
        ("--deadline 3ms", "--deadline 3ms is after the end of the period, 1ms"),
        ("--deadline 0ns", "a duration above 0 and up to 1 h"),
        ("--scheduling fifo --waiting spin", "an end of SCHED_FIFO that busy-polls can keep its CPU from all other"),
        ("--find --rounds 3", "--find chooses the periods, their deadlines and their number, but --rounds is given"),
        ("--misses 1%", "--misses is a limit for --find"),
        ("--find --period 1ms", "--find searches between two periods"),
        ("--find --misses 0%", "a share above 0%"),
        ("--find --transport tcp,udp", "--find searches the period of one case"),
    ] {
        place.hairpin(("periodic", flags)).refused().told(reason);
    }
}

/// Runs a loop as a user who may neither use a real-time policy nor lock memory.
fn without_privileges(place: &Place, flags: &str) -> Ran {
    let drops = ["setpriv", "--bounding-set", "-sys_nice,-ipc_lock"];
    let drops = if works(&[&drops[..], &["true"]].concat()).is_ok() { drops.join(" ") } else { String::new() };
    let plan = "periodic --transport tcp --period 2ms --count 20 --rounds 1";
    let script = format!("ulimit -r 0 && ulimit -l 64 && exec {drops} \"$0\" {plan} {flags}");
    Running::start(place.command("sh").args(["-c", &script, PROGRAM])).end()
}

#[test]
fn a_refused_policy_or_lock_is_skipped_and_the_limit_named() {
    let place = Place::new();
    for (flags, reason) in [
        (
            "--scheduling fifo",
            "cannot use SCHED_FIFO: Operation not permitted (os error 1) (hint: raise RLIMIT_RTPRIO to 80",
        ),
        (
            "--lock-memory",
            "cannot lock memory: Cannot allocate memory (os error 12) (hint: raise RLIMIT_MEMLOCK (ulimit -l)",
        ),
    ] {
        without_privileges(&place, flags).refused().told(reason);
    }
    let run = without_privileges(&place, "--scheduling other,fifo --json").with_code(0).json();
    assert_eq!((list(&run["cases"]).len(), list(&run["skipped"]).len()), (1, 1), "{}", run["skipped"]);
    assert!(
        text(&run["skipped"][0]["reason"]).contains("raise RLIMIT_RTPRIO to 80 (ulimit -r)"),
        "{}",
        run["skipped"]
    );
}

#[test]
fn a_real_time_end_that_the_kernel_ends_is_named_with_the_limit() {
    let place = Place::new();
    let plan = "periodic --transport tcp --placement cross-cpu --scheduling fifo --count 20 --rounds 1";
    let tried = place.hairpin(plan);
    if tried.code == Some(2) {
        skip!("{}", tried.stderr);
    }
    let ended = place.hairpin((plan, "--injected-fault busy=9s/10 --timeout 60s"));
    ended.shown("uses a CPU for 1 s without blocking (RLIMIT_RTTIME)");
}

#[test]
fn busy_threads_run_beside_a_loop_over_a_link() {
    or_skip!(can_link());
    let place = Place::new();
    let run = place.json("periodic --transport tcp --link delay=1ms --load cpu --period 20ms --count 20 --rounds 1");
    let flows: Vec<&str> = list(&run["cases"][0]["case"]["flows"]).iter().map(|flow| text(&flow["id"])).collect();
    assert_eq!((flows, &run["cases"][0]["rounds"]), (vec!["main", "cpu"], &1.into()), "{}", run["cases"][0]);
}

/// Each end's thread has the class, which its children do not inherit, and a limit by which the kernel ends it; nothing of it
/// remains after SIGKILL.
#[test]
fn a_real_time_loop_cannot_starve_the_machine_and_leaves_nothing_when_killed() {
    or_skip!(program("chrt"));
    let place = Place::new();
    let plan = "periodic --transport tcp --period 5ms --scheduling fifo --lock-memory --rounds 1";
    let tried = place.hairpin((plan, "--count 10"));
    if tried.code == Some(2) {
        skip!("{}", tried.stderr);
    }
    let mut running = place.start((plan, "--duration 3600s --timeout 600s"));
    let ends = [running.busy_client(), running.busy_server()];
    for id in ends {
        let shown = Running::start(place.command("chrt").args(["-p", &id.to_string()])).end().with_code(0);
        shown.shown("SCHED_FIFO|SCHED_RESET_ON_FORK");
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
        let limit = limits.lines().find(|line| line.starts_with("Max realtime timeout")).unwrap();
        let words: Vec<&str> = limit.split_whitespace().skip(3).collect();
        assert_eq!(words, ["1000000", "1000000", "us"]);
        assert!(status(id, "VmLck") > Some(0));
    }
    signal("KILL", running.id());
    assert_eq!(running.end().code, None);
    place.assert_nothing_left();
}
