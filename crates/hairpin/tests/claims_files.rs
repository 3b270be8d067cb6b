//! Claims of a user's file, verdicts that are saved, and tests that are continued and compared.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use hairpin::claims::read_file;
use serde_json::{Value, json};

use crate::claims::claim;
use crate::support::{Place, document, edit_json, list, names_in, number, on_one_line, saved_rounds, signal, text};

/// A text of two claims whose verdicts are certain on any machine, and of one without an experiment.
const OWN: &str = r#"
letter = "X"
title = "Our protocol"
author = "unknown"
publisher = "unknown"
url = "unknown"
retrieved = "unknown"
what = "A note"
setting = "a laptop"

[runs.pipes]
command = "round-trip --transport pipe,unix-stream --placement same-cpu --count 50 --rounds 6"
because = "only the transport is changed"

[[claim]]
id = "X1"
text = "A pipe takes less than 100 seconds"
quote = "a pipe is fast"
about = "machine"
published = { value = 100, unit = "s" }
why = "It is short."
so_what = "Use it."
[claim.test]
run = "pipes"
rule = { kind = "at-most", of = { figure = "p50", case = { transport = "pipe" } } }
rule_because = "an upper bound"
changed = { on = "2026-11-26", because = "first version" }

[[claim]]
id = "X2"
text = "A pipe takes more than 100 seconds"
quote = "a pipe is slow"
about = "machine"
published = { value = 100, unit = "s" }
why = "It is long."
so_what = "Avoid it."
[claim.test]
run = "pipes"
rule = { kind = "at-least", of = { figure = "p50", case = { transport = "pipe" } } }
rule_because = "a lower bound"
changed = { on = "2026-11-26", because = "first version" }

[[claim]]
id = "X3"
text = "A pipe is blue"
quote = "a blue pipe"
about = "machine"
published = { value = ["blue"], unit = "colour" }
why = "It is painted."
so_what = "Look at it."
missing = "an eye"
"#;

fn with_own_file(text: &str) -> Place {
    let place = Place::new();
    std::fs::write(place.path("own.toml"), text).expect("the folder is new");
    place
}

fn headlines(report: &Value) -> Vec<&Value> {
    list(&report["claims"]).iter().map(|claim| &claim["headline"]).collect()
}

#[test]
fn claims_of_a_users_file_are_listed_and_tested() {
    let place = with_own_file(OWN);
    let listed = place.json("claims --file own.toml");
    assert_eq!(headlines(&listed), [&Value::Null, &Value::Null, &json!("not-yet")]);
    assert_eq!(list(&place.json("claims X2 --file own.toml")["claims"]).len(), 1);
    place.hairpin("claims B1 --file own.toml").refused().told("unknown claim `B1` (hint: ");
    let ran = place.hairpin("claims run --file own.toml --seed 3 --out tested --json").with_code(0);
    let report = ran.json();
    assert_eq!(headlines(&report), [&json!("holds"), &json!("contradicted"), &json!("not-yet")]);
    assert_eq!(claim(&report, "X1")["source"]["title"], "Our protocol");
    let [run] = list(&report["runs"]) else { panic!("{report}") };
    let command =
        "hairpin round-trip --transport pipe,unix-stream --placement same-cpu --count 50 --rounds 6 --seed 3";
    assert_eq!((text(&run["name"]), text(&run["command"])), ("X-pipes", command));
    assert!(ran.stderr.contains("; up to 3 times more where a claim stays undecided"), "{}", ran.stderr);
    let one = place.json("claims run X3 X1 --file own.toml --rounds 4 --out one");
    assert_eq!(headlines(&one), [&json!("holds"), &json!("not-yet")]);
}

#[test]
fn a_file_of_claims_that_cannot_be_used_is_refused_with_the_place() {
    let place = Place::new();
    let refusal = |text: &str| {
        let path = place.path("own.toml");
        std::fs::write(&path, text).expect("it can be written");
        let refused = read_file(&path).expect_err("it is refused").to_string();
        assert!(refused.starts_with(&format!("claims of {}: ", path.display())), "{refused}");
        refused
    };
    let changed = |from: &str, to: &str| {
        assert!(OWN.contains(from), "{from}");
        refusal(&OWN.replacen(from, to, 1))
    };
    let line = |part: &str| OWN.lines().position(|line| line.contains(part)).expect("it is there") + 1;
    for (from, to, unknown) in [
        ("setting =", "seting =", "unknown field `seting`"),
        ("so_what =", "so_why =", "unknown field `so_why`"),
        ("rule_because =", "rule_becuse =", "unknown field `rule_becuse`"),
        ("transport = \"pipe\"", "transprot = \"pipe\"", "unknown field `transprot`"),
        ("kind = \"at-most\"", "kind = \"at-most\", bownd = 3", "unknown field `bownd`"),
        ("kind = \"at-most\"", "kind = \"at-all\"", "unknown variant `at-all`"),
        ("figure = \"p50\"", "figure = \"p51\"", "unknown variant `p51`"),
    ] {
        let refused = changed(from, to);
        assert!(
            refused.contains(&format!("at line {}, column ", line(from))) && refused.contains(unknown),
            "{refused}"
        );
        assert!(refused.ends_with("(hint: docs/claims.md describes the format)"), "{refused}");
    }
    let lacks = changed("why = \"It is short.\"\n", "");
    assert!(lacks.contains("missing field `why`") && lacks.contains("at line "), "{lacks}");
    let both = changed("why = \"It is short.\"", "why = \"It is short.\"\nmissing = \"a pipe\"");
    assert!(both.contains("X1 does not have exactly one of") && both.contains("at line "), "{both}");
    for (from, to, cause) in [
        ("run = \"pipes\"", "run = \"pips\"", "X1 names no defined run: pips (hint: add [runs.NAME]"),
        (MACHINE, BETWEEN_HOSTS, "X3 names no defined run: there (hint: add [runs.NAME]"),
        ("letter = \"X\"", "letter = \"B\"", "letter B is that of a built-in text (hint: use another letter)"),
        ("letter = \"X\"", "letter = \"x\"", "letter `x` is no letter from A to Z (hint: use one capital letter)"),
        ("letter = \"X\"", "letter = \"../X\"", "letter `../X` is no letter from A to Z"),
        ("letter = \"X\"", "letter = \"Y\"", "`X1` is no letter Y with a number (hint: call it Y1 or the like)"),
        ("id = \"X2\"", "id = \"X1\"", "two claims are X1 (hint: rename one)"),
        ("id = \"X2\"", "id = \"X02\"", "`X02` is no letter X with a number"),
        (
            "[runs.pipes]",
            "[runs.\"../pipes\"]",
            "run `../pipes` has another name (hint: use small letters, digits and hyphens)",
        ),
    ] {
        let refused = changed(from, to);
        assert!(refused.contains(cause), "{refused}");
    }
    let large = refusal(&format!("{OWN}#{}", "é".repeat(1 << 19)));
    assert!(large.ends_with("larger than 1 MiB (hint: split it)"), "{large}");
    let path = place.path("own.toml");
    std::fs::write(&path, format!("{OWN}#{}", "e".repeat((1 << 20) - OWN.len() - 1))).expect("it can be written");
    assert!(read_file(&path).is_ok(), "1 MiB is allowed");
    std::fs::write(&path, [OWN.as_bytes(), &[0xff]].concat()).expect("it can be written");
    assert!(read_file(&path).expect_err("no UTF-8").to_string().contains("invalid utf-8"));
    place.hairpin("claims --file absent.toml").refused().told("claims of absent.toml: No such file or directory");
    place.hairpin("claims run --file own.toml").refused().told("claims of own.toml: ");
    assert_eq!(names_in(&place.path(".")), ["own.toml", "tmp"], "nothing was run");
}

/// The fields of X3, and the same with a test between two hosts whose run is not defined.
const MACHINE: &str = r#"about = "machine"
published = { value = ["blue"], unit = "colour" }
"#;
const BETWEEN_HOSTS: &str = r#"about = "path"
published = { value = ["blue"], unit = "colour" }
between_hosts.run = "there"
between_hosts.rule = { kind = "kept", case = {}, kept = ["curve"] }
between_hosts.rule_because = "it is drawn"
between_hosts.changed = { on = "2026-11-26", because = "first version" }
"#;

#[test]
fn an_undecided_claim_is_tested_again_with_more_rounds() {
    // Exactly the published figure confirms this rule, so every interval is on both sides of a bound.
    let open = "kind = \"within\", factor = 1, of = { figure = \"p50\", case = { transport = \"pipe\" }, \
                against = { transport = \"unix-stream\" } }";
    let from = "kind = \"at-most\", of = { figure = \"p50\", case = { transport = \"pipe\" } }";
    let ratio = OWN.replacen(from, open, 1).replacen("value = 100, unit = \"s\"", "value = 1, unit = \"x\"", 1);
    let place = with_own_file(&ratio);
    let ran = place.hairpin("claims run --file own.toml --seed 3 --out tested --json").with_code(0);
    let report = ran.json();
    let runs: Vec<(&str, &str)> =
        list(&report["runs"]).iter().map(|run| (text(&run["name"]), text(&run["command"]))).collect();
    let command = "hairpin round-trip --transport pipe,unix-stream --placement same-cpu --count 50";
    let [first, second] = ["6 --seed 3", "18 --seed 4"].map(|rounds| format!("{command} --rounds {rounds}"));
    let open = &list(&claim(&report, "X1")["rows"])[0];
    if claim(&report, "X1")["headline"] == "undecided" {
        assert_eq!(runs, [("X-pipes", first.as_str()), ("X-pipes-2", second.as_str())]);
        assert_eq!(open["evidence"], "X-pipes-2/report.html");
        assert_eq!(saved_rounds(&place.path("tested/X-pipes-2")), 36);
    } else {
        // The two transports differ clearly here.
        assert_eq!((runs.len(), &open["evidence"]), (1, &json!("X-pipes/report.html")));
    }
    let closed = &list(&claim(&report, "X2")["rows"])[0];
    assert_eq!(
        (&claim(&report, "X2")["headline"], &closed["evidence"]),
        (&json!("contradicted"), &json!("X-pipes/report.html"))
    );
}

/// The same text, and a claim that needs a long run, and one that needs another run.
fn with_long_run() -> String {
    let of = |id: &str, run: &str| {
        let claim = OWN.split("[[claim]]").nth(1).expect("X1");
        format!("[[claim]]{}", claim.replace("X1", id).replace("\"pipes\"", &format!("\"{run}\"")))
    };
    let run = |name: &str, rounds: u32| {
        format!(
            "[runs.{name}]\ncommand = \"round-trip --transport pipe --placement same-cpu --count 20000 --rounds {rounds}\"\n\
             because = \"it takes a while\"\n\n"
        )
    };
    let (begin, claims) = OWN.split_at(OWN.find("[[claim]]").expect("X1"));
    format!("{begin}{}{}{claims}{}{}", run("long", 16), run("last", 4), of("X4", "long"), of("X5", "last"))
}

#[test]
fn an_interrupted_test_is_continued_and_complete_runs_are_not_repeated() {
    let place = with_own_file(&with_long_run());
    let command = "claims run --file own.toml --out tested --json";
    let running = place.start(command);
    crate::support::until("the second run has rounds", || saved_rounds(&place.path("tested/X-long")) > 0);
    signal("INT", running.id());
    let stopped = running.end().with_code(130).json();
    assert_eq!(stopped["state"], "interrupted");
    assert_eq!(headlines(&stopped)[..3], [&json!("holds"), &json!("contradicted"), &json!("not-yet")]);
    assert_eq!((&claim(&stopped, "X5")["headline"], &claim(&stopped, "X5")["age_s"]), (&Value::Null, &Value::Null));

    let state = |folder: &str| {
        let saved = std::fs::read_to_string(place.path(&format!("tested/{folder}/run.json"))).expect("it is saved");
        let run = document(&saved);
        (run["state"].clone(), run["started_unix_s"].clone(), saved)
    };
    let kept = state("X-pipes");
    let ran = place.hairpin(command).with_code(0);
    let report = ran.json();
    assert_eq!(report["state"], "complete");
    let expected = ["holds", "contradicted", "not-yet", "holds", "holds"].map(|word| json!(word));
    assert_eq!(headlines(&report), expected.each_ref());
    assert_eq!(report["seed"], stopped["seed"], "the rounds have the same order");
    assert_eq!(state("X-pipes"), kept, "it was complete");
    for (run, is_repeated) in [("X-pipes", false), ("X-long", true), ("X-last", true)] {
        assert_eq!(ran.stderr.contains(&format!("Run {run}: ")), is_repeated, "{run}: {}", ran.stderr);
        assert_eq!(state(run).0, "complete", "{run}");
    }
    assert_eq!(state("X-long-earlier-1").0, "interrupted", "what was measured is kept");
    let folders: Vec<&Value> = list(&report["runs"]).iter().map(|run| &run["folder"]).collect();
    assert_eq!(folders, ["X-pipes", "X-long", "X-last"].map(|name| json!(name)).each_ref());
    place.hairpin(command).refused().told("already holds tested claims (hint: use another folder)");
}

/// Copies the claims of a folder in `hairpin-runs`, without their runs, to another folder there.
fn copied(place: &Place, from: &str, to: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let runs = place.path("hairpin-runs");
    std::fs::create_dir(runs.join(to)).expect("it is new");
    let file = runs.join(to).join("claims.json");
    std::fs::copy(runs.join(from).join("claims.json"), &file).expect("it can be copied");
    edit_json(&file, change);
    file
}

const DAY_S: u64 = 86_400;

fn aged(report: &mut Value, days: u64) {
    report["started_unix_s"] = json!(number(&report["started_unix_s"]) - days * DAY_S);
}

fn set_headlines(report: &mut Value, headline: &str) {
    for claim in report["claims"].as_array_mut().expect("claims").iter_mut().filter(|claim| claim["id"] != "X3") {
        claim["headline"] = json!(headline);
    }
}

#[test]
fn the_latest_verdict_of_each_claim_is_listed_with_its_age() {
    let place = with_own_file(OWN);
    place.hairpin("claims run --file own.toml --seed 3 --quiet").with_code(0);
    let [newest] = <[String; 1]>::try_from(names_in(&place.path("hairpin-runs"))).expect("one folder");
    let listed = || place.json("claims --file own.toml");
    let now_s = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let first = listed();
    assert_eq!(headlines(&first), [&json!("holds"), &json!("contradicted"), &json!("not-yet")]);
    let age_s = number(&claim(&first, "X1")["age_s"]);
    let saved = document(
        &std::fs::read_to_string(place.path(&format!("hairpin-runs/{newest}/claims.json"))).expect("it was saved"),
    );
    assert!(age_s <= now_s() - number(&saved["started_unix_s"]), "{age_s}");
    assert_eq!((&first["remarks"], first["environment"].is_object()), (&json!([]), true));
    let evidence = text(&list(&claim(&first, "X1")["rows"])[0]["evidence"]);
    assert!(place.path(evidence).exists() && evidence.ends_with("X-pipes/report.html"), "{evidence}");

    // Older by its time, whatever its name.
    copied(&place, &newest, "99990101-000000-claims", |report| {
        aged(report, 3);
        set_headlines(report, "undecided");
    });
    assert_eq!(headlines(&listed()), headlines(&first), "the newest verdict");
    assert_eq!(listed()["remarks"], json!([]));
    let on_a_path = |report: &mut Value| {
        report["to"] = json!("lab");
        report["started_unix_s"] = json!(now_s() + 1);
        set_headlines(report, "no-difference");
    };
    copied(&place, &newest, "20260101-000000-claims", on_a_path);
    copied(&place, &newest, "20260102-000000-claims", |report| {
        report["started_unix_s"] = json!(now_s() + 2);
        set_headlines(report, "no-difference");
        for claim in report["claims"].as_array_mut().expect("claims") {
            claim["source"]["title"] = json!("Another protocol");
        }
    });
    assert_eq!(headlines(&listed()), headlines(&first), "neither of a path nor of another text");

    let other_rule = |report: &mut Value| {
        report["started_unix_s"] = json!(now_s() + 3);
        set_headlines(report, "no-difference");
        let claims = report["claims"].as_array_mut().expect("claims");
        claims.iter_mut().for_each(|claim| claim["rows"][0]["rule_changed"] = json!("2026-11-25"));
    };
    copied(&place, &newest, "20260103-000000-claims", other_rule);
    std::fs::create_dir(place.path("hairpin-runs/20260104-000000-claims")).expect("it is new");
    std::fs::write(place.path("hairpin-runs/20260104-000000-claims/claims.json"), "{}").expect("it can be written");
    let report = listed();
    assert_eq!(headlines(&report), headlines(&first), "by the present rules");
    let remarks =
        ["Left out: 3 older verdicts by other rules.", "Left out: 1 result of other versions, or unreadable."];
    assert_eq!(report["remarks"], json!(remarks));
    let shown = on_one_line(&place.hairpin("claims --file own.toml").with_code(0).stdout);
    assert!(remarks.iter().all(|remark| shown.contains(remark)), "{shown}");
}

#[test]
fn verdicts_of_several_machines_are_named_and_an_older_one_stays_if_the_newest_test_left_a_claim_out() {
    let place = with_own_file(OWN);
    place.hairpin("claims run --file own.toml --seed 3 --quiet").with_code(0);
    let [newest] = <[String; 1]>::try_from(names_in(&place.path("hairpin-runs"))).expect("one folder");
    copied(&place, &newest, "20260101-000000-claims", |report| {
        aged(report, 3);
        set_headlines(report, "undecided");
        report["environment"]["cpu_model"] = json!("Another CPU");
    });
    // The newest test has X1 only; of X2 it was ended before the run.
    edit_json(&place.path(&format!("hairpin-runs/{newest}/claims.json")), |report| {
        let claims = report["claims"].as_array_mut().expect("claims");
        (claims[1]["headline"], claims[1]["age_s"]) = (Value::Null, Value::Null);
        claims.truncate(2);
    });
    let report = place.json("claims X1 X2 --file own.toml");
    assert_eq!(headlines(&report), [&json!("holds"), &json!("undecided")]);
    let age_s = number(&claim(&report, "X2")["age_s"]);
    assert!((3 * DAY_S..3 * DAY_S + 3600).contains(&age_s), "{age_s}");
    let [remark] = list(&report["remarks"]) else { panic!("{report}") };
    assert!(text(remark).starts_with("Verdicts of several machines or versions: 1 of "), "{remark}");
    assert!(text(remark).contains("1 of Another CPU, "), "{remark}");
}

#[test]
fn two_results_are_compared_claim_by_claim() {
    let place = with_own_file(OWN);
    place.hairpin("claims run --file own.toml --seed 3 --out tested --quiet").with_code(0);
    std::fs::create_dir(place.path("hairpin-runs")).expect("it is new");
    std::fs::rename(place.path("tested"), place.path("hairpin-runs/tested")).expect("it is moved");
    let compare = |file: &Path| {
        place.hairpin(["claims", "compare", &file.to_string_lossy(), "hairpin-runs/tested"]).with_code(0).stdout
    };
    let same = copied(&place, "tested", "same", |_| {});
    assert!(compare(&same).ends_with("\nDiffering verdicts: 0 of 3.\n"), "{}", compare(&same));
    let other = copied(&place, "tested", "other", |report| {
        report["environment"]["cpu_model"] = json!("Another CPU");
        report["claims"][0]["headline"] = json!("undecided");
        report["claims"][0]["text"]["sentence"] = json!("Undecided: more rounds.");
    });
    let differs = compare(&other);
    assert!(differs.starts_with("Reference  Another CPU, "), "{differs}");
    let said = ["X1   Holds: ", "\n     Reference: Undecided: more rounds.\n     Why it may: the machines differ.\n"];
    assert!(said.iter().all(|said| differs.contains(said)), "{differs}");
    assert!(differs.ends_with("\nDiffering verdicts: 1 of 3.\n") && !differs.contains("X2 "), "{differs}");
    edit_json(&other, |report| report["environment"] = Value::Null);
    let rules = copied(&place, "tested", "rules", |report| {
        report["claims"][1]["headline"] = json!("holds");
        report["claims"][1]["rows"][0]["rule_changed"] = json!("2026-11-25");
    });
    assert!(compare(&rules).contains("Why it may: the rules differ."), "{}", compare(&rules));
    let load = copied(&place, "tested", "load", |report| report["claims"][1]["headline"] = json!("holds"));
    assert!(compare(&load).contains("Why it may: two runs of one machine, whose load may differ."));

    // The comparison has no JSON, and half of it would mislead.
    place.hairpin("claims compare hairpin-runs/other hairpin-runs/tested --json").refused().told("--json");
    let built_in = place.hairpin("claims compare hairpin-runs/other").with_code(0).stdout;
    assert!(built_in.ends_with("\nDiffering verdicts: 0 of 0.\n"), "the built-in claims were not tested: {built_in}");
    place
        .hairpin("claims compare absent.json")
        .refused()
        .told("cannot read absent.json: No such file or directory (os error 2) (hint: give claims.json");
    std::fs::write(place.path("old.json"), "{}").expect("it can be written");
    place.hairpin("claims compare old.json").refused().told("old.json is no result of this version: ");
    place.hairpin("claims compare").refused().told("<REFERENCE>");
}
