//! `hairpin compare`: two saved runs, budgets, and unlike runs.

use serde_json::Value;

use crate::support::{Arguments, Place, Ran, copy, copy_as_another_run, edit_json, list, rounds};

/// Measures a run in `base` and copies it to `slower`. Replaces their figures by figures that do not depend on this
/// machine; in `slower` everything takes 1.5 times as long.
fn two_runs() -> Place {
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport pipe,tcp --rounds 6 --count 200 --out base";
    place.hairpin(plan).with_code(0);
    copy(&place.path("base"), &place.path("slower"));
    for (name, factor) in [("base", 1.0), ("slower", 1.5)] {
        edit_json(&place.path(name).join("run.json"), |run| {
            for case in run["cases"].as_array_mut().expect("cases") {
                // A busy machine measures no tails, or nothing valid.
                (case["valid"], case["why_invalid"]) = (true.into(), Value::Array(vec![]));
                for figure in ["p50", "p90", "p99", "mean"] {
                    let told = serde_json::json!({"value": 10_000.0 * factor, "low": null, "high": null});
                    case["latency_ns"][figure] = told.clone();
                    case["flows"][0]["latency_ns"][figure] = told;
                }
                case["rate_per_s"]["value"] = (90_000.0 / factor).into();
            }
        });
        let lines = rounds(&place.path(name)).into_iter().map(|mut round| {
            let block = round["order"]["block"].as_f64().expect("a number");
            (round["outcome"]["noise"]["steal_ns"], round["outcome"]["noise"]["cpus"]) =
                (0.into(), Value::Array(vec![]));
            for end in round["outcome"]["ends"].as_array_mut().expect("ends") {
                end["waited_for_cpu_ns"] = Value::Null;
            }
            let figures = &mut round["outcome"]["flows"][0]["figures"];
            for figure in ["p50", "p90", "p99", "mean"] {
                figures["latency_ns"][figure] = ((10_000.0 + 10.0 * block) * factor).into();
            }
            figures["rate_per_s"] = ((90_000.0 + 10.0 * block) / factor).into();
            round.to_string() + "\n"
        });
        std::fs::write(place.path(name).join("rounds.jsonl"), lines.collect::<String>()).expect("it can be written");
    }
    place
}

fn compare(place: &Place, arguments: impl Arguments) -> Ran {
    place.hairpin(("compare", arguments))
}

#[test]
fn a_run_that_is_given_twice_is_refused() {
    let place = two_runs();
    copy(&place.path("base"), &place.path("copied"));
    std::os::unix::fs::symlink(place.path("base"), place.path("linked")).expect("a link");
    for (arguments, named) in [
        ("base base", "base and base"),
        ("base base/", "base and base/"),
        ("base copied", "base and copied"),
        ("base linked --against slower", "base and linked"),
        ("base --against slower slower", "slower and slower"),
        ("base slower --against slower", "slower and slower"),
    ] {
        let ran = compare(&place, arguments).refused();
        let reason = format!("{named} are the same run (hint: give each run once)");
        assert!(ran.stderr.contains(&reason), "{arguments:?}: {ran:#?}");
    }
}

#[test]
fn no_difference_is_found_between_alike_runs() {
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport pipe,tcp --rounds 6 --count 300 --out run";
    place.hairpin(plan).with_code(0);
    copy_as_another_run(&place.path("run"), &place.path("again"));
    for budget in ["", "--budget p50=+50%,mean=+50%"] {
        let shown = compare(&place, ("run again", budget));
        // On a busy machine the intervals exceed +-10 %, or no interval is given.
        let found = ["no difference found", "too noisy to tell", "cannot tell without an interval"]
            .map(|words| shown.stdout.contains(&format!(" compared: {words}")));
        assert!(found.contains(&true), "{shown:#?}");
        assert!(!shown.stdout.contains("  slower") && !shown.stdout.contains("  faster"), "{shown:#?}");
    }
    compare(&place, "run again").with_code(0);
}

#[test]
fn a_regression_beyond_its_budget_exits_with_1() {
    let place = two_runs();
    // Without a budget, a regression is only reported.
    compare(&place, "base slower").with_code(0).shown("6 figures compared: 6 slower, 0 faster");
    let shown = compare(&place, "base slower --budget p50=+5%").with_code(1).shown("+50 %");
    assert_eq!(shown.stderr, "");
    for (budget, code) in [
        ("p50=+60%", 0),
        ("p50=+60%,p90=+5%", 1),
        ("rate=-5%", 1),
        ("rate=-60%", 0),
        ("p999=+5%", 4), // 1 200 samples have no p999: a missing figure breaks no budget.
        ("p999=+5%,p50=+5%", 1),
        ("p50<=12us", 1),
        ("p50<=20us", 0),
        ("p999<=1s", 4),
    ] {
        compare(&place, ["base", "slower", "--budget", budget]).with_code(code);
        let lenient = if code == 4 { 0 } else { code };
        compare(&place, ["base", "slower", "--undecided", "pass", "--budget", budget]).with_code(lenient);
    }
    let ran = compare(&place, "base slower --budget p50=+5% --markdown pr.md --json").with_code(1);
    assert_eq!(ran.json()["looks"], serde_json::json!([]), "saved runs have no looks");
    let markdown = std::fs::read_to_string(place.path("pr.md")).expect("it was written");
    assert!(markdown.starts_with("**Hairpin: broken.** 6 figures compared: 6 slower"), "{markdown}");
    compare(&place, "base slower --markdown none/pr.md").with_code(3).told("cannot write none/pr.md: ");
    compare(&place, "slower base --budget p50=+5% --budget rate=-5%").with_code(0);
    copy_as_another_run(&place.path("base"), &place.path("again"));
    compare(&place, "base again --budget p50=+5%").with_code(0);
}

#[test]
fn a_disturbed_run_is_named_in_a_comparison() {
    let place = two_runs();
    for (name, findings) in [("base", &[][..]), ("slower", &["noisy-machine", "drift"])] {
        edit_json(&place.path(name).join("run.json"), |run| {
            let finding = |code: &&str| {
                serde_json::json!({
                    "code": code, "severity": "warning", "cases": [], "summary": "5 of 6 rounds were disturbed.",
                    "evidence": [], "advice": "Measure again.", "counter_experiment": null, "share": 0.0,
                })
            };
            run["findings"] = findings.iter().map(finding).collect::<Vec<_>>().into();
        });
    }
    let shown = compare(&place, "base slower --budget p50=+5%").with_code(1).stdout;
    assert!(shown.contains("slower: noisy-machine: 5 of 6 rounds were disturbed."), "{shown}");
    let printed = compare(&place, "base slower --json").with_code(0).json();
    let told: Vec<_> = list(&printed["cautions"]).iter().map(|one| (&one["run"], &one["code"])).collect();
    assert_eq!(told, [(&"slower".into(), &"noisy-machine".into())]);
    copy_as_another_run(&place.path("base"), &place.path("again"));
    assert!(!compare(&place, "base again").with_code(0).stdout.contains("Caution"), "no caution");
}

#[test]
fn invalid_cases_and_their_run_are_named_first() {
    let place = two_runs();
    edit_json(&place.path("base").join("run.json"), |run| {
        let case = &mut run["cases"][0];
        case["valid"] = false.into();
        case["why_invalid"] = vec!["the emulator was late"].into();
    });
    let shown = compare(&place, "base slower --budget p50=+60%").with_code(5).stdout;
    let first = "3 figures compared: 3 slower, 0 faster, 0 without a difference found. 1 budget NOT kept.\n1 case \
                 is invalid in the baseline (marked with !): do not use its figures.\n";
    assert!(shown.starts_with(first), "{shown}");
    assert_eq!(shown.matches("  invalid\n").count(), 3, "{shown}");
    assert!(shown.contains("\n! p50 ") && shown.contains("\n  p50 "), "each case has its own mark: {shown}");
    assert!(shown.contains(" is invalid in the baseline: the emulator was late\n"), "{shown}");
    assert!(shown.replace("\n  ", " ").contains("NOT kept: no usable figure in the baseline"), "{shown}");
    let printed = compare(&place, "slower base --json").with_code(0).json();
    assert_eq!(list(&printed["rows"]).iter().filter(|row| row["valid"] == false).count(), 3, "{printed}");
    let invalid = &printed["invalid"][0];
    assert_eq!(
        (&invalid["baseline"], &invalid["candidate"][0]),
        (&Value::Array(vec![]), &"the emulator was late".into())
    );
}

#[test]
fn runs_over_different_links_are_compared_and_the_links_are_named() {
    let place = two_runs();
    edit_json(&place.path("slower").join("run.json"), |run| {
        for case in run["cases"].as_array_mut().expect("cases") {
            case["case"]["path"]["link"] = "delay=2ms".into();
            case["case"]["path"]["name"] = "bridged-vm".into();
        }
    });
    let shown = compare(&place, "base slower").with_code(0).stdout;
    let first = "The runs differ in: link (loopback, bridged-vm).\n6 figures compared: 6 slower";
    assert!(shown.starts_with(first), "{shown}");
}

#[test]
fn runs_that_differ_in_one_choice_are_compared_and_the_choice_is_named_first() {
    let place = Place::new();
    for (out, more) in [
        ("on", "--transport tcp --option nodelay=on"),
        ("off", "--transport tcp --option nodelay=off"),
        ("plain", "--transport tcp"),
        ("large", "--transport tcp --size 1KiB"),
        ("spin", "--transport tcp --placement cross-cpu --waiting spin"),
        ("two", "--transport tcp --placement cross-cpu"),
        ("udp", "--transport udp"),
    ] {
        let placement = if more.contains("--placement") { "" } else { "--placement same-cpu" };
        let plan = format!("round-trip --rounds 4 --count 100 --out {out} {placement} {more}");
        place.hairpin(plan).with_code(0);
    }
    for (before, after, what) in [
        ("on", "off", "option nodelay (on, off)"),
        ("plain", "large", "size (4 B, 1 KiB)"),
        ("two", "spin", "waiting (block, spin)"),
        ("plain", "two", "placement (same-cpu, cross-cpu)"),
        ("plain", "udp", "transport (tcp, udp)"),
    ] {
        let shown = compare(&place, [before, after]).with_code(0).stdout;
        // On a busy machine without the tails.
        let first = |count: &str| shown.starts_with(&format!("The runs differ in: {what}.\n{count} compared"));
        assert!(first("2 figures") || first("1 figure"), "{what}: {shown}");
    }
    let printed = compare(&place, "on off --json --budget p50=+100%").json();
    let expected = serde_json::json!({"what": "option nodelay", "baseline": "on", "candidate": "off"});
    assert_eq!((&printed["differs"], list(&printed["budgets"]).len()), (&expected, 1), "{printed}");
    let ran = compare(&place, "on large").refused();
    let refused = "the runs have no case in common and differ in option nodelay (on against default), size (4 B against \
                   1 KiB) (hint: compare runs that differ in one of these only)";
    assert!(ran.stderr.contains(refused), "{ran:#?}");
}

#[test]
fn a_comparison_is_printed_as_json_too() {
    let place = two_runs();
    let ran = compare(&place, "base slower --budget p50=+5% --json").with_code(1);
    let printed = ran.json();
    assert_eq!((&printed["baseline"], &printed["candidate"]), (&"base".into(), &"slower".into()));
    let of = |figure: &str| list(&printed["rows"]).iter().filter(|row| row["figure"] == figure).collect::<Vec<_>>();
    for row in list(&printed["rows"]) {
        let [from, to, ratio] =
            ["baseline", "candidate", "ratio"].map(|of| row[of]["value"].as_f64().expect("a figure"));
        assert!((ratio - to / from).abs() < 1e-9, "the ratio is that of the columns: {row}");
    }
    for row in of("p50") {
        assert_eq!(row["verdict"], "slower", "{row}");
        assert!((row["ratio"]["value"].as_f64().expect("a ratio") - 1.5).abs() < 0.01, "{row}");
    }
    assert_eq!((of("p50").len(), list(&printed["budgets"]).len()), (2, 2), "{printed}");
    assert!(list(&printed["budgets"]).iter().all(|budget| budget["kept"] == false), "{printed}");
}

#[test]
fn budgets_that_cannot_be_understood_are_refused() {
    let place = two_runs();
    for (budget, reason) in [
        ("p50", "budget `p50` has no limit (hint: "),
        ("p50>=5ms", "limits the wrong side (hint: "),
        ("p50<=5", "`5` is not a duration: its unit is missing"),
        ("p98=+5%", "unknown figure `p98` (hint: did you mean `p99`?)"),
        ("p50=much", "budget: "),
        ("p50=+5", "budget `p50=+5` has no unit (hint: "),
        ("p50=+600%", "is out of range (hint: latencies: above -100%, at most +100%; rates: below 100%)"),
        ("p50=-100%", "is out of range (hint: "),
    ] {
        compare(&place, ["base", "slower", "--budget", budget]).refused().told(reason);
    }
}

#[test]
fn unlike_runs_are_compared_only_on_request() {
    let place = two_runs();
    copy(&place.path("base"), &place.path("elsewhere"));
    edit_json(&place.path("elsewhere/run.json"), |run| {
        run["hosts"][0]["environment"]["kernel"] = "Linux 2.6.32".into();
        run["tool"]["version"] = "0.0.1".into();
    });
    let ran = compare(&place, "base elsewhere").refused();
    for told in ["the runs differ:", "machine: kernel: ", " against Linux 2.6.32", "tool: version: "] {
        assert!(ran.stderr.contains(told), "{told}: {ran:#?}");
    }
    assert!(ran.stderr.contains("(hint: --allow-unlike compares them anyway)"), "{ran:#?}");
    let ran = compare(&place, "base elsewhere --allow-unlike").with_code(0);
    assert!(ran.stdout.contains("Linux 2.6.32"), "the difference is still reported: {ran:#?}");

    let other = "round-trip --placement same-cpu --transport pipe --rounds 6 --count 100 --out shorter";
    place.hairpin(other).with_code(0);
    compare(&place, "base shorter").refused().told("messages per round: 200 messages against 100 messages");

    let other = "round-trip --placement same-cpu --transport udp --rounds 6 --count 200 --out udp";
    place.hairpin(other).with_code(0);
    let ran = compare(&place, "base udp").refused();
    let refused = "the runs have no case in common and differ in transport (pipe and tcp against udp), which has several values";
    assert!(ran.stderr.contains(refused), "{ran:#?}");
    let other = "round-trip --placement same-cpu --transport udp,tcp --rounds 6 --count 200 --out some";
    place.hairpin(other).with_code(0);
    compare(&place, "base some").with_code(0).shown("udp block same-cpu").shown("pipe block same-cpu");
}

#[test]
fn a_run_of_a_newer_format_is_refused_by_every_command() {
    let place = two_runs();
    edit_json(&place.path("slower/run.json"), |run| {
        let format = run["format"].as_u64().expect("a number");
        run["format"] = Value::from(format + 1);
    });
    for arguments in ["report slower", "analyse slower", "compare base slower"] {
        let ran = place.hairpin(arguments).refused();
        assert!(ran.stderr.contains("cannot read slower/run.json: the run has format 4, "), "{ran:#?}");
        assert!(ran.stderr.contains("this build reads up to 3 (hint: use a newer hairpin)"), "{ran:#?}");
    }
}
