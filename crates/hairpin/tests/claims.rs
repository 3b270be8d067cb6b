//! Published claims, listed and tested with the real program.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{PROGRAM, Place, Running, can_link, document, list, names_in, on_one_line, signal, text};

pub(crate) fn claim<'r>(report: &'r Value, id: &str) -> &'r Value {
    let claims = list(&report["claims"]);
    claims.iter().find(|claim| claim["id"] == id).unwrap_or_else(|| panic!("no {id} among {} claims", claims.len()))
}

const HEADLINES: [&str; 10] = [
    "other-hardware",
    "answered",
    "not-yet",
    "not-testable",
    "contradicted",
    "undecided",
    "no-difference",
    "holds-only-if",
    "holds-other-size",
    "holds",
];

/// Checks the fields that every claim has, whatever its verdict.
fn assert_contract(claim: &Value) {
    let id = text(&claim["id"]);
    for field in ["id", "kind", "statement", "about"] {
        assert!(!text(&claim[field]).is_empty(), "{id}: {field}");
    }
    for field in ["letter", "author", "publisher", "title", "url", "retrieved", "what", "setting", "quote"] {
        assert!(!text(&claim["source"][field]).is_empty(), "{id}: {field}");
    }
    for field in ["why", "so_what"] {
        assert!(!text(&claim["text"][field]).is_empty(), "{id}: {field}");
    }
    let is_tested = !claim["age_s"].is_null();
    let headline = &claim["headline"];
    assert!(headline.is_null() || HEADLINES.contains(&text(headline)), "{id}: {headline}");
    assert_eq!(headline == "holds-only-if", !claim["only_if"].is_null(), "{id}: {claim}");
    let has_verdict = !headline.is_null() && (is_tested || headline == "not-yet");
    assert_eq!(!text(&claim["text"]["sentence"]).is_empty(), has_verdict, "{id}: {claim}");
    let decides = ["not-yet", "not-testable", "undecided"].contains(&headline.as_str().unwrap_or_default());
    assert_eq!(claim["decides"].is_null(), !decides, "{id}: {claim}");
    let axes = ["confirmed", "refuted", "equal", "undecided", "not-tested", "not-claimed"];
    for axis in ["direction", "size", "cause"] {
        assert!(axes.contains(&text(&claim["axes"][axis])), "{id}: {axis}");
    }
    assert!(claim["text_errors"].is_array() && !list(&claim["rows"]).is_empty(), "{id}");
    for row in list(&claim["rows"]) {
        assert_row(id, row, is_tested);
    }
}

fn assert_row(id: &str, row: &Value, is_tested: bool) {
    let nullable = ["measured", "measured_unit", "ratio", "margin", "verdict", "shown", "knob", "case", "evidence"];
    let of_rule = ["run", "rule_because", "rule_changed", "stand_in", "missing", "skipped"];
    for field in nullable.iter().chain(&of_rule) {
        assert!(row.get(field).is_some(), "{id} has no field {field}: {row}");
    }
    assert!(!row["published"]["value"].is_null() && !text(&row["published"]["unit"]).is_empty(), "{id}");
    assert!(!text(&row["about"]).is_empty() && ["direction", "size", "cause"].contains(&text(&row["axis"])), "{id}");
    assert!(row["given_back"].is_boolean() && row["other_hardware"].is_boolean(), "{id}");
    let verdicts = ["confirmed", "refuted", "equal", "undecided", "not-tested", "shown"];
    assert_eq!(row["verdict"].is_null(), !is_tested, "{id}: {row}");
    assert!(!is_tested || verdicts.contains(&text(&row["verdict"])), "{id}: {row}");
    assert_eq!(text(&row["why"]).is_empty(), !is_tested, "{id}: {row}");
    assert!(row["verdict"] != "shown" || !row["shown"].is_null(), "{id}: {row}");
    let has_rule = row["missing"].is_null() && row["skipped"].is_null();
    for field in ["run", "rule_because", "rule_changed"] {
        assert_eq!(row[field].is_null(), !has_rule, "{id}: {field}: {row}");
    }
    if !row["measured"].is_null() {
        assert!(row["measured"]["value"].is_number() && row["measured"].get("low").is_some(), "{id}");
        assert!(!row["measured_unit"].is_null() && !row["evidence"].is_null(), "{id}: {row}");
    }
    if !has_rule && is_tested {
        assert_eq!((&row["measured"], &row["verdict"]), (&Value::Null, &json!("not-tested")), "{id}: {row}");
    }
}

#[test]
fn claims_are_listed_and_nothing_is_measured() {
    let place = Place::new();
    let report = place.json("claims");
    let ids: BTreeSet<&str> = list(&report["claims"]).iter().map(|claim| text(&claim["id"])).collect();
    assert_eq!(ids.len(), 73);
    for claim in list(&report["claims"]) {
        assert_contract(claim);
        assert!(claim["age_s"].is_null(), "{claim}");
        let mut own = list(&claim["rows"]).iter().filter(|row| row["shown"].is_null()).peekable();
        let is_missing = own.peek().is_some() && own.all(|row| !row["missing"].is_null());
        let headline = if is_missing { json!("not-yet") } else { Value::Null };
        assert_eq!(claim["headline"], headline, "{claim}");
    }
    assert_eq!((&report["environment"], &report["remarks"], &report["to"]), (&Value::Null, &json!([]), &Value::Null));
    let ping = &list(&claim(&report, "D1")["rows"])[0];
    assert_eq!((&ping["given_back"], &ping["other_hardware"]), (&json!(true), &json!(true)), "a delay that was set");
    assert!(text(&ping["stand_in"]).contains("emulated link"), "{ping}");
    for columns in [60, 80, 100] {
        let shown = |arguments: &[&str]| {
            let mut narrow = place.command(PROGRAM);
            narrow.arg("claims").args(arguments).env("COLUMNS", columns.to_string());
            let shown = Running::start(&mut narrow).end().with_code(0).stdout;
            let wide = shown.lines().find(|line| line.chars().count() > columns);
            assert_eq!(wide, None, "wider than {columns}");
            shown
        };
        let overview = shown(&[]);
        assert!(overview.starts_with("73 claims: 64 can be tested here, 9 not yet.\n"), "{overview}");
        let begins: BTreeSet<&str> = overview.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert!(ids.is_subset(&begins), "{:?} are missing", ids.difference(&begins));
        let pages = on_one_line(&shown(&["D"]));
        for claim in list(&report["claims"]).iter().filter(|claim| claim["source"]["letter"] == "D") {
            for said in [&claim["statement"], &claim["text"]["why"], &claim["text"]["so_what"]] {
                assert!(pages.contains(text(said)), "{} is cut at {columns} columns", claim["id"]);
            }
        }
    }
    assert_eq!(names_in(&place.path(".")), ["tmp"], "a list leaves nothing behind");
}

#[test]
fn claims_are_tested_with_each_run_performed_once_and_everything_saved() {
    let place = Place::new();
    let ran = place.hairpin("claims run D1 e24 B6 A11 --rounds 3 --seed 5 --out tested --json").with_code(0);
    let report = ran.json();
    let shown: Vec<&str> = list(&report["claims"]).iter().map(|claim| text(&claim["id"])).collect();
    assert_eq!(shown, ["A11", "B6", "D1", "E24"], "in the order of the texts");
    for claim in list(&report["claims"]) {
        assert_contract(claim);
        assert_eq!(claim["age_s"], 0);
    }
    let options = claim(&report, "B6");
    assert_eq!((&options["kind"], &options["headline"]), (&json!("procedure"), &json!("answered")), "{options}");
    let [option, rest] = list(&options["rows"]) else { panic!("{options}") };
    assert_eq!((&option["verdict"], &option["run"]), (&json!("confirmed"), &json!("B-default-pattern")));
    assert!(text(&option["why"]).contains("nodelay on requested, on granted"), "{option}");
    assert!(text(&rest["missing"]).starts_with("a client with the text's arguments"), "{rest}");
    let icmp = can_run(&place, "icmp") && can_link().is_ok();
    let delay = claim(&report, "D1");
    let expected = if icmp { ["other-hardware", "shown"] } else { ["not-testable", "not-tested"] };
    let row = &list(&delay["rows"])[0];
    assert_eq!([text(&delay["headline"]), text(&row["verdict"])], expected, "the link's delay was set, not measured");
    assert!(text(&row["shown"]).starts_with("The link's delay was taken from this figure"), "{row}");
    // Checks no verdict: three rounds are too few for one.
    let mechanism = claim(&report, "E24");
    assert!(list(&mechanism["rows"]).iter().all(|row| row["measured"]["value"].is_number()), "{mechanism}");
    assert_eq!(mechanism["headline"], "undecided");
    let runs: Vec<&str> = list(&report["runs"]).iter().map(|run| text(&run["name"])).collect();
    assert_eq!(runs, ["A-waiting", "A-runtime", "B-default-pattern", "D-ping", "E-mechanisms", "E-streams-within"]);
    for run in list(&report["runs"]) {
        let command = text(&run["command"]);
        assert!(command.ends_with("--rounds 3 --seed 5") && command.matches("--rounds").count() == 1, "{command}");
        if run["name"] == "D-ping" && !icmp {
            assert!(run["folder"].is_null() && !text(&run["problem"]).is_empty(), "{run}");
            continue;
        }
        let folder = place.path("tested").join(text(&run["folder"]));
        assert!(folder.join("run.json").exists() && folder.join("report.html").exists(), "{run}");
    }
    let evidence = list(&report["claims"]).iter().flat_map(|claim| list(&claim["rows"])).map(|row| &row["evidence"]);
    for file in evidence.filter_map(Value::as_str) {
        assert!(place.path("tested").join(file).exists(), "{file}");
    }
    let saved = std::fs::read_to_string(place.path("tested/claims.json")).expect("it was saved");
    assert_eq!(saved, ran.stdout);
    let page = std::fs::read_to_string(place.path("tested/report.html")).expect("it was saved");
    assert!(shown.iter().all(|id| page.contains(&format!("id=\"{id}\"")) || page.contains(&format!(">{id}<"))));
    place.hairpin("claims run D1 --out tested").refused().told("already holds tested claims (hint: ");
}

fn can_run(place: &Place, transport: &str) -> bool {
    let listed = place.json("list");
    let found = list(&listed["transports"]).iter().find(|one| one["name"] == transport).expect("it is built");
    found["can_run"] == true
}

#[test]
fn claims_that_cannot_be_tested_are_refused_and_no_file_is_created() {
    let place = Place::new();
    for (arguments, reason) in [
        ("", "no claim was named (hint: name claims such as B1 or texts such as D, or give --all)"),
        ("--quick", "no claim was named"),
        ("B1 --all", "cannot be used with"),
        ("--all --quick --rounds 3", "cannot be used with"),
        ("D6 --link lte --to @none", "cannot be used with"),
        ("D6 --link lt", "link `lt`: no built-in profile is called `lt` (hint: did you mean `lte`?)"),
        ("A1 --link lte", "nothing can be tested, and nothing was run: A1 is skipped: it is about one machine"),
        (
            "B11",
            "unknown claim `B11` (hint: there are A1 to A20, B1 to B7, C1 to C9, D1 to D6, E1 to E27 and F1 to F4)",
        ),
        ("b9", "unknown claim `B9` (hint: there are A1 to A20, "),
        ("E27", "nothing can be tested, and nothing was run: E27 needs hardware clocks (hint: "),
        ("E16 E27", "E16 needs who replied, and how late; E27 needs hardware clocks"),
        ("B1 --csv", "tip: claims are printed by --json; `hairpin report RUN --csv` prints each of their runs"),
    ] {
        place.hairpin(("claims run", arguments)).refused().told(reason);
    }
    assert_eq!(names_in(&place.path(".")), ["tmp"]);
}

#[test]
fn the_claims_of_one_text_are_listed_alone() {
    let place = Place::new();
    let report = place.json("claims b D1");
    let ids: Vec<&str> = list(&report["claims"]).iter().map(|claim| text(&claim["id"])).collect();
    assert_eq!(ids, ["B1", "B2", "B3", "B4", "B5", "B6", "B7", "D1"]);
    place.hairpin("claims B9").refused().told("unknown claim `B9` (hint: there are A1 to A20, B1 to B7, ");
}

#[test]
fn a_test_of_claims_records_the_commands_that_it_ran() {
    let place = Place::new();
    let ran = place.hairpin("claims run B7 --rounds 1 --out tested").with_code(0);
    let saved = document(&std::fs::read_to_string(place.path("tested/claims.json")).expect("it was saved"));
    let command = text(&list(&saved["runs"])[0]["command"]);
    let seed = &saved["seed"];
    assert!(command.ends_with(&format!("--placement same-cpu --rounds 1 --seed {seed}")), "{command}");
    assert!(ran.stderr.starts_with("1 run, about "), "{ran:#?}");
    assert!(ran.stderr.contains(&format!("Run B-default-pattern: {command}\n")), "{ran:#?}");
    assert!(on_one_line(&ran.stdout).contains("waits for the answer. Answered: "), "{ran:#?}");
    let page = std::fs::read_to_string(place.path("tested/report.html")).expect("it was saved");
    assert!(page.contains(&command.replace('/', "&#x2f;")), "{command}");
    assert!(page.contains(&format!("claims run B7 --rounds 1 --seed {seed}</code>")), "without the folder");
    // The folder of claims is shown and listed like that of a run.
    std::fs::remove_file(place.path("tested/report.html")).expect("it was saved");
    let shown = place.hairpin("report tested").with_code(0);
    assert!(on_one_line(&shown.stdout).contains("waits for the answer. Answered: "), "{shown:#?}");
    assert!(shown.stdout.contains("Runs:   tested/B-default-pattern/report.html"), "{shown:#?}");
    assert!(shown.stderr.ends_with("Report      tested/report.html\n"), "{shown:#?}");
    let again = std::fs::read_to_string(place.path("tested/report.html")).expect("it was written again");
    assert_eq!(again, page);
    place.hairpin("report tested --html own.html --json").with_code(0);
    assert_eq!(std::fs::read_to_string(place.path("own.html")).expect("it was written"), page);
    for flag in ["csv", "ladder"] {
        let why = format!("tested contains claims, which have no --{flag} (hint: ");
        place.hairpin(("report tested", &*format!("--{flag}"))).refused().told(&why);
    }
    let listing = place.json("runs .");
    let listed = json!({"folder": "tested", "started_unix_s": saved["started_unix_s"], "claims": 1});
    assert_eq!(listing["claims"], json!([listed]));
    assert!(list(&listing["skipped"]).iter().all(|skipped| skipped["name"] != "tested"), "{listing}");
    let lines = place.hairpin("runs .").with_code(0).stdout;
    assert!(lines.ends_with("  1 claim  tested\n"), "{lines}");
}

#[test]
fn an_interrupted_test_of_claims_judges_only_runs_that_began() {
    let place = Place::new();
    let mut running = place.start("claims run A9 A11 --rounds 200 --out tested --json --quiet");
    running.busy_server();
    signal("INT", running.id());
    let ran = running.end().with_code(130);
    let report = ran.json();
    assert_eq!(report["state"], "interrupted");
    assert_eq!(list(&report["claims"]).len(), 2);
    // The second run never began, so its claim has no verdict.
    let waiting = claim(&report, "A11");
    assert_eq!(list(&waiting["rows"])[0]["why"], "the user ended the command before this run");
    assert_eq!((&waiting["headline"], &waiting["age_s"]), (&Value::Null, &Value::Null));
    assert!(waiting["decides"].is_null() && waiting["text"]["sentence"] == "", "{waiting}");
    assert!(place.path("tested/claims.json").exists() && place.path("tested/A-buffers-offered/run.json").exists());
}

#[test]
fn all_claims_are_tested_by_short_runs_until_the_user_ends_them() {
    let place = Place::new();
    let mut running = place.start("claims run --all --quick --json");
    running.busy_server();
    signal("INT", running.id());
    let ran = running.end().with_code(130);
    assert!(!ran.stderr.contains("times more where a claim stays undecided"), "one look: {}", ran.stderr);
    let report = ran.json();
    assert_eq!(list(&report["claims"]).len(), 73);
    for run in list(&report["runs"]) {
        let command = text(&run["command"]);
        // A search takes a second for each round.
        let flag = if command.contains(" --find ") { " --over " } else { " --rounds " };
        let rounds = command.split(flag).nth(1).and_then(|rest| rest.split(' ').next());
        let rounds: Option<u64> = rounds.and_then(|rounds| rounds.trim_end_matches('s').parse().ok());
        assert!(rounds.is_some_and(|rounds| (4..=8).contains(&rounds)), "{command}");
    }
    // Of every text, whatever the first run measured: what has no experiment.
    let not_yet = list(&report["claims"]).iter().filter(|claim| claim["headline"] == "not-yet").count();
    assert_eq!(not_yet, 9);
    let [folder] = &names_in(&place.path("hairpin-runs"))[..] else { panic!("one folder of claims") };
    assert!(folder.ends_with("-claims"), "{folder}");
}

#[test]
fn claims_about_a_path_are_tested_on_a_given_link() {
    or_skip!(can_link());
    let place = Place::new();
    let ran = place.hairpin("claims run D6 A1 --link delay=2ms --rounds 2 --seed 5 --out tested --json").with_code(0);
    let report = ran.json();
    assert_eq!(report["to"], "delay=2ms");
    let [run] = list(&report["runs"]) else { panic!("{report}") };
    assert!(text(&run["command"]).ends_with("--rounds 2 --seed 5 --link delay=2ms"), "{run}");
    assert_eq!(text(&run["command"]).matches("--link").count(), 1, "in place of the text's link: {run}");
    let machine = claim(&report, "A1");
    assert_eq!(machine["headline"], "not-testable");
    assert!(list(&machine["rows"]).iter().all(|row| row["skipped"] == "it is about one machine"), "{machine}");
    let path = claim(&report, "D6");
    let rows = list(&path["rows"]);
    let measured: Vec<&str> =
        rows.iter().filter(|row| !row["measured"].is_null()).map(|row| text(&row["name"])).collect();
    assert_eq!(measured, ["in order", "two round trips with Nagle on", "NODELAY removes the wait"]);
    for row in rows.iter().filter(|row| !row["measured"].is_null()) {
        assert!(row["stand_in"].is_null(), "the path is the given one: {row}");
    }
}
