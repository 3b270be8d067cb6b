//! `hairpin compare --run`: two commands measured with interleaved rounds, and a decision.

use std::os::unix::fs::PermissionsExt as _;

use hairpin_testing::or_skip;
use serde_json::Value;

use crate::support::{Arguments, PROGRAM, Place, Ran, can_link, document, list, rounds, signal, text};

fn gate(place: &Place, arguments: impl Arguments) -> Ran {
    place.hairpin((&["compare"], arguments))
}

fn tcp_over(delay: &str, out: &str) -> String {
    format!(
        "round-trip --transport tcp --placement same-cpu --link 'delay={delay}' --count 4 --timeout 60s --out {out}"
    )
}

const PIPE: &str = "round-trip --transport pipe --placement same-cpu --count 50 --timeout 60s";

/// Block and link seed of each round.
fn blocks(place: &Place, out: &str) -> Vec<(u64, u64)> {
    let of = |round: &Value| ["block", "link_seed"].map(|name| round["order"][name].as_u64().expect("a number"));
    rounds(&place.path(out)).iter().map(of).map(|[block, seed]| (block, seed)).collect()
}

/// Fails unless the comparison ended with this verdict and its exit code. On a machine whose CPUs are all busy the
/// figures may be unusable instead.
fn decided(ran: &Ran, expected: &str) -> Value {
    let report = ran.json();
    let verdict = text(&list(&report["looks"]).last().expect("a look")["verdict"]);
    let is_disturbed = verdict == "unusable" && ran.stdout.contains("for a CPU");
    assert!(verdict == expected || is_disturbed, "{report}");
    let codes = [("held", 0), ("broken", 1), ("undecided", 4), ("unusable", 5)];
    assert_eq!(codes.iter().find(|(word, _)| *word == verdict).map(|(_, code)| *code), ran.code, "{ran:#?}");
    report
}

#[test]
fn a_three_times_longer_path_breaks_a_budget_and_the_reverse_holds_it() {
    let place = Place::new();
    or_skip!(can_link());
    let [short, long] = [tcp_over("20ms", "short"), tcp_over("60ms", "long")];
    let budgets = &["--budget", "p50=+50%,p50<=100ms", "--json", "--at-most", "30s"];
    let report =
        decided(&gate(&place, (&["--run", &short, "--run", &long, "--markdown", "pr.md"], budgets)), "broken");
    let kept: Vec<_> = list(&report["budgets"]).iter().map(|budget| budget["kept"].as_bool()).collect();
    assert_eq!(kept, [Some(false); 2], "{report}");
    assert_eq!(report["differs"]["what"], "link", "{report}");
    assert_eq!([text(&report["baseline"]), text(&report["candidate"])], ["short", "long"]);
    assert!(list(&report["looks"]).iter().all(|look| look["bound"] == 0.0182), "{report}");
    let markdown = std::fs::read_to_string(place.path("pr.md")).expect("it was written");
    assert!(
        markdown.starts_with("**Hairpin: ") && markdown.contains(" link: delay=20ms, delay=60ms. "),
        "{markdown}"
    );
    assert!(
        markdown.contains("\n| case | figure | before | after | change | detectable | verdict |\n|---|"),
        "{markdown}"
    );
    // Both runs have the same blocks with the same random events, and are saved like any run.
    let [one, other] = ["short", "long"].map(|out| blocks(&place, out));
    assert!(one.len() >= 8 && one == other, "{one:?} {other:?}");
    for out in ["short", "long"] {
        place.hairpin(["report", out, "--json"]).with_code(0).json();
    }
    let [short, long] = [tcp_over("20ms", "short-again"), tcp_over("60ms", "long-again")];
    decided(&gate(&place, (&["--run", &long, "--run", &short], budgets)), "held");
}

/// An executable file with these lines of bash.
fn script(place: &Place, name: &str, lines: &str) {
    std::fs::write(place.path(name), format!("#!/bin/bash\n{lines}\n")).expect("it can be written");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path(name), executable).expect("it is ours");
}

#[test]
fn another_build_runs_the_second_rounds() {
    let place = Place::new();
    let version = "if [ \"$1\" = --version ]; then echo 'hairpin 9.8.7 (abc123)'; exit; fi";
    script(&place, "same", &format!("{version}\necho >> calls\nexec {PROGRAM} \"$@\""));
    // A p999 needs more messages, so the budget stays undecided.
    let undecided = &["--run", PIPE, "--binary-b", "./same", "--budget", "p999=+5%", "--at-most", "1s", "--json"];
    let report = decided(&gate(&place, undecided), "undecided");
    let differs = &report["differs"];
    assert_eq!(
        (text(&differs["what"]), text(&differs["candidate"])),
        ("program", "./same 9.8.7 (abc123)"),
        "{report}"
    );
    let run = |name: &str| {
        let path = place.path(text(&report[name]));
        (rounds(&path).len(), document(&std::fs::read_to_string(path.join("run.json")).expect("a run")))
    };
    let ((_, baseline), (count, candidate)) = (run("baseline"), run("candidate"));
    assert_eq!(baseline["seed"], candidate["seed"]);
    assert_eq!(
        [&candidate["tool"]["version"], &baseline["tool"]["commit"]].map(|version| version == "9.8.7 (abc123)"),
        [true, false]
    );
    let calls = std::fs::read_to_string(place.path("calls")).expect("it was called").lines().count();
    assert!(count > 0 && calls == count, "{calls} calls for {count} rounds");

    // A build that measures something else, and one that measures nothing: no figure of theirs is used.
    let other = "exec PROGRAM \"$@\" < <(sed -u 's/\"timeout_ns\":[0-9]*/\"timeout_ns\":59000000000/')";
    script(&place, "deaf", &format!("{version}\n{}", other.replace("PROGRAM", PROGRAM)));
    script(&place, "broken", &format!("{version}\nexit 1"));
    for (name, cause) in [("deaf", "did not run the round as ordered"), ("broken", "it ended early")] {
        let build = format!("./{name}");
        let ran =
            gate(&place, ["--run", PIPE, "--binary-b", &build, "--budget", "p50=+5%", "--json", "--at-most", "100s"]);
        let report = ran.with_code(5).json();
        assert_eq!(list(&report["looks"]).last().expect("a look")["verdict"], "unusable", "{report}");
        let rounds = rounds(&place.path(text(&report["candidate"])));
        // Abandoned after three consecutive failures of one kind.
        let outcomes: Vec<&Value> = rounds.iter().map(|round| &round["outcome"]).collect();
        assert!((3..8).contains(&rounds.len()), "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| outcome["kind"] == "failed"), "{outcomes:?}");
        assert!(rounds.iter().any(|round| text(&round["outcome"]["cause"]).contains(cause)), "{rounds:?}");
    }
}

#[test]
fn an_interrupted_comparison_keeps_both_runs() {
    let place = Place::new();
    let mut running = place.start((
        &["compare", "--run", "round-trip --transport pipe --placement same-cpu --count 100k --out a"],
        &["--run", "round-trip --transport tcp --placement same-cpu --count 100k --out b", "--at-most", "100s"],
    ));
    let first = running.busy_server();
    running.busy_server_after(first);
    signal("INT", running.id());
    running.end().with_code(130);
    for out in ["a", "b"] {
        let run = place.hairpin(["report", out, "--json"]).json();
        assert_eq!(run["plan"]["cases"].as_array().map(Vec::len), Some(1), "{run}");
    }
}

#[test]
fn commands_that_cannot_be_compared_are_refused_before_anything_is_measured() {
    let place = Place::new();
    let (tcp, udp) = ("round-trip --transport tcp", "round-trip --transport udp");
    for (arguments, reason) in [
        (&["--run", tcp][..], "--run is needed twice, or once with --binary-b"),
        (&["--run", "round-trip 'tcp", "--run", tcp], "--run `round-trip 'tcp`: a quote is not closed"),
        (&["--run", "list", "--run", "list"], "it does not measure"),
        (&["--run", "", "--run", tcp], "it does not measure"),
        (&["--run", "round-trip --help", "--run", tcp], "it does not measure"),
        (&["--run", "round-trip --nonsense", "--run", tcp], "unexpected argument '--nonsense' found"),
        (&["--run", "round-trip --size 4x", "--run", tcp], "`4x` is not a number of bytes"),
        (&["--run", "round-trip --rounds 5", "--run", tcp], "--rounds cannot be used here"),
        (&["--run", "round-trip --json", "--run", tcp], "--json cannot be used here"),
        (&["--run", "round-trip --to x", "--run", tcp], "--to cannot be used here"),
        (&["--run", tcp, "--run", "bulk --transport tcp"], "round-trip and bulk are different experiments"),
        (&["--run", tcp, "--run", "round-trip --transport udp --size 9"], "differ in transport"),
        (&["--run", "round-trip --transport tcp,udp", "--run", tcp], "only one command has the case udp"),
        (&["--run", tcp, "--binary-b", "/bin/cat"], "--version does not begin with its name"),
        (&["--run", tcp, "--binary-b", "/missing"], "cannot measure with /missing: No such file"),
        (&["--run", tcp, "--run", udp, "--binary-b", PROGRAM], "--run is needed twice, or once with --binary-b"),
        (&["--run", tcp, "--run", udp, "--at-most", "5"], "its unit is missing"),
        (&["--run", tcp, "--run", udp, "--budget", "p50>=5ms"], "limits the wrong side"),
        (&["a", "b", "--run", tcp], "cannot be used with"),
        (&["a", "b", "--at-most", "5s"], "cannot be used with"),
    ] {
        place.hairpin((&["compare"], arguments)).refused().told(reason);
    }
    assert!(!place.path("hairpin-runs").exists());
}
