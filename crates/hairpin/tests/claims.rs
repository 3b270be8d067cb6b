//! Published claims, listed and tested with the real program.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Place, document, list, names_in, signal, text};

fn claim<'r>(report: &'r Value, id: &str) -> &'r Value {
    let claims = list(&report["claims"]);
    claims.iter().find(|claim| claim["id"] == id).unwrap_or_else(|| panic!("no {id} among {} claims", claims.len()))
}

/// Checks the fields that every claim has, whatever its verdict.
fn assert_contract(claim: &Value) {
    let id = text(&claim["id"]);
    assert!(!text(&claim["text"]).is_empty(), "{id}");
    assert!(!claim["published"]["value"].is_null() && !text(&claim["published"]["unit"]).is_empty(), "{id}");
    for field in ["measured", "ratio", "verdict", "why"] {
        assert!(claim.get(field).is_some(), "{id} has no field {field}");
    }
    let verdicts = ["holds", "does-not-hold", "cannot-tell", "cannot-run"];
    assert!(claim["verdict"].is_null() || verdicts.contains(&text(&claim["verdict"])), "{id}: {}", claim["verdict"]);
    if !claim["measured"].is_null() {
        assert!(claim["measured"]["value"].is_number() && claim["measured"].get("low").is_some(), "{id}");
    }
    // The measurement of a claim is that of the row with the published number.
    if claim["published"]["value"].is_number() {
        let rows = list(&claim["rows"]).iter().filter(|row| row["beside"].is_null());
        let own = rows.clone().find(|row| row["published"] == claim["published"]).expect("one row is about it");
        assert_eq!((&claim["measured"], &claim["ratio"]), (&own["measured"], &own["ratio"]), "{id}");
    }
    assert!(claim.get("stand_in").is_some(), "{id}");
}

#[test]
fn claims_are_listed_with_their_coverage_and_nothing_is_measured() {
    let place = Place::new();
    let report = place.json("claims");
    let ids: BTreeSet<&str> = list(&report["claims"]).iter().map(|claim| text(&claim["id"])).collect();
    assert_eq!(ids.len(), 69);
    for claim in list(&report["claims"]) {
        assert_contract(claim);
        assert!(claim["measured"].is_null() && claim["ratio"].is_null() && claim["verdict"].is_null(), "{claim}");
        let missing = list(&claim["rows"]).iter().filter(|row| !row["missing"].is_null()).count();
        assert_eq!(claim["coverage"] == "not-covered", missing == list(&claim["rows"]).len(), "{claim}");
        assert!(missing == 0 || claim["coverage"] != "covered", "{claim}");
    }
    let undecided = claim(&report, "D1");
    assert_eq!(undecided["coverage"], "partly", "a delay that was set decides nothing");
    assert!(text(&undecided["stand_in"]).contains("emulated link"), "{undecided}");
    for columns in [60, 80, 100] {
        let mut narrow = place.command(crate::support::PROGRAM);
        narrow.arg("claims").env("COLUMNS", columns.to_string());
        let shown = crate::support::Running::start(&mut narrow).end().with_code(0).stdout;
        let begins: BTreeSet<&str> = shown.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert!(ids.is_subset(&begins), "{:?} are missing", ids.difference(&begins));
        let wide = shown.lines().find(|line| line.chars().count() > columns);
        assert_eq!(wide, None, "wider than {columns}");
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for claim in list(&report["claims"]) {
            assert!(words.contains(text(&claim["text"])), "{} is cut at {columns} columns", claim["id"]);
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
        assert!(!claim["verdict"].is_null() && !text(&claim["why"]).is_empty(), "{claim}");
        for row in list(&claim["rows"]).iter().filter(|row| !row["missing"].is_null()) {
            assert_eq!((&row["measured"], &row["verdict"]), (&Value::Null, &"cannot-run".into()), "{row}");
        }
    }
    let missing = claim(&report, "B6");
    assert_eq!((&missing["measured"], &missing["ratio"]), (&Value::Null, &Value::Null));
    assert_eq!(missing["why"], "cannot-run: `option`, `port, logical packets and progress`.");
    assert_eq!(missing["rows"][0]["why"], "missing: another host: --to");
    let listed = place.json("list");
    let icmp = list(&listed["transports"]).iter().find(|one| one["name"] == "icmp").expect("it is built");
    let expected = if icmp["can_run"] == true { "cannot-tell" } else { "cannot-run" };
    let delay = claim(&report, "D1");
    assert_eq!(delay["verdict"], expected, "the link's delay of 4 ms was set, not measured");
    // The verdict would be the same without an interval, so check the reason too.
    let says_why = text(&delay["why"]).contains("The link's delay was taken from this figure");
    assert!(says_why || icmp["can_run"] == false, "{delay}");
    // Checks no verdict: over a link, a round may not count, and two rounds give no interval.
    assert!(claim(&report, "E24")["measured"]["value"].is_number(), "the measurement of the first row: {report}");
    let runs: Vec<&str> = list(&report["runs"]).iter().map(|run| text(&run["name"])).collect();
    assert_eq!(runs, ["A-waiting", "D-ping", "E-mechanisms", "E-streams-within"]);
    for run in list(&report["runs"]) {
        let command = text(&run["command"]);
        assert!(command.ends_with("--rounds 3 --seed 5") && command.matches("--rounds").count() == 1, "{command}");
        if run["name"] == "D-ping" && icmp["can_run"] == false {
            assert!(run["folder"].is_null() && !text(&run["problem"]).is_empty(), "{run}");
            continue;
        }
        let folder = place.path("tested").join(text(&run["folder"]));
        assert!(folder.join("run.json").exists() && folder.join("report.html").exists(), "{run}");
    }
    let saved = std::fs::read_to_string(place.path("tested/claims.json")).expect("it was saved");
    assert_eq!(saved, ran.stdout);
    let page = std::fs::read_to_string(place.path("tested/report.html")).expect("it was saved");
    assert!(shown.iter().all(|id| page.contains(&format!("<b>{id}</b>"))));
    place.hairpin("claims run D1 --out tested").refused().told("already holds tested claims (hint: ");
}

#[test]
fn claims_that_cannot_be_tested_are_refused_and_no_file_is_created() {
    let place = Place::new();
    for (arguments, reason) in [
        ("B11", "unknown claim `B11` (hint: text B has B1 to B7)"),
        ("b9", "unknown claim `B9` (hint: text B has B1 to B7)"),
        ("E27", "nothing can be tested, and nothing was run: E27 needs hardware clocks (hint: "),
        ("B6 E27", "another host: --to; E27 needs hardware clocks"),
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
    place.hairpin("claims B9").refused().told("unknown claim `B9` (hint: text B has B1 to B7)");
}

#[test]
fn a_test_of_claims_records_the_commands_that_it_ran() {
    let place = Place::new();
    let ran = place.hairpin("claims run D1 --rounds 1 --out tested").with_code(0);
    let saved = document(&std::fs::read_to_string(place.path("tested/claims.json")).expect("it was saved"));
    let command = text(&list(&saved["runs"])[0]["command"]);
    let seed = &saved["seed"];
    assert!(command.ends_with(&format!("--count 20 --rounds 1 --seed {seed}")), "{command}");
    assert!(ran.stderr.contains(&format!("Run 1 of 1: {command}\n")), "{ran:#?}");
    let page = std::fs::read_to_string(place.path("tested/report.html")).expect("it was saved");
    assert!(page.contains(&command.replace('/', "&#x2f;")), "{command}");
    assert!(page.contains(&format!("claims run D1 --rounds 1 --seed {seed}</code>")), "without the folder");
    let shown = place.hairpin("report tested").refused();
    assert!(shown.stderr.contains("tested contains tested claims, not a run (hint: "), "{shown:#?}");
    assert!(shown.stderr.contains("tested/claims.json") && shown.stderr.contains("tested/report.html"), "{shown:#?}");
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
    // The second run never began, so its claim must not be judged.
    let whys: Vec<&str> = list(&claim(&report, "A11")["rows"]).iter().map(|row| text(&row["why"])).collect();
    assert_eq!(whys[0], "the user ended the command before this run");
    assert_eq!(claim(&report, "A11")["verdict"], "cannot-run");
    assert!(place.path("tested/claims.json").exists() && place.path("tested/A-buffers-offered/run.json").exists());
}
