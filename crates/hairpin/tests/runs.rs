//! `hairpin runs`: which folders are listed as runs, and which are skipped.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::support::{Place, Running, copy, edit_json, list, names_in, text, until};

const QUICK: &[&str] =
    &["round-trip", "--placement", "same-cpu", "--transport", "pipe", "--rounds", "1", "--count", "20", "--quiet"];

/// A place with three runs in `hairpin-runs`: `new`, `middle` and `old`, begun so many days ago.
fn three_runs() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("hairpin-runs")).unwrap();
    place.hairpin(&[QUICK, &["--out", "hairpin-runs/new"]].concat()).with_code(0);
    for (name, days) in [("middle", 10), ("old", 40)] {
        let to = place.path("hairpin-runs").join(name);
        copy(&place.path("hairpin-runs/new"), &to);
        edit_json(&to.join("run.json"), |run| {
            run["started_unix_s"] = (run["started_unix_s"].as_u64().unwrap() - days * 86_400).into();
        });
    }
    place
}

fn folders(listing: &Value) -> Vec<&str> {
    list(&listing["runs"]).iter().map(|run| text(&run["folder"])).collect()
}

/// The sizes of the files in a folder.
fn size(folder: &Path) -> u64 {
    let sizes = names_in(folder).into_iter().map(|name| {
        let path = folder.join(name);
        if path.is_dir() { size(&path) } else { fs::metadata(path).unwrap().len() }
    });
    sizes.sum()
}

#[test]
fn runs_are_listed_with_date_question_answer_and_size_the_newest_first() {
    let place = three_runs();
    let listing = place.json(&["runs"]);
    assert_eq!(folders(&listing), ["new", "middle", "old"]);
    let saved: Value =
        serde_json::from_slice(&fs::read(place.path("hairpin-runs/middle/run.json")).unwrap()).unwrap();
    let shown = &listing["runs"][1];
    assert_eq!(shown["started_unix_s"], saved["started_unix_s"]);
    assert_eq!(shown["question"], saved["plan"]["question"]);
    assert_eq!(shown["headline"], saved["answer"]["headline"]);
    assert_eq!((text(&shown["experiment"]), text(&shown["state"])), ("round-trip", "complete"));
    assert_eq!(shown["size_bytes"], size(&place.path("hairpin-runs/middle")));

    let ran = place.hairpin(&["runs"]).with_code(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 7, "a heading, and two lines for each run: {ran:#?}");
    for (line, name) in [(1, "new"), (3, "middle"), (5, "old")] {
        assert!(lines[line].contains("round-trip") && lines[line].ends_with(name), "{ran:#?}");
        let answer = lines[line + 1].trim().trim_end_matches("...");
        assert!(!answer.is_empty() && text(&shown["headline"]).starts_with(answer), "{ran:#?}");
    }
    assert!(ran.stderr.starts_with("3 runs, "), "{ran:#?}");
    let elsewhere = place.json(&["runs", "hairpin-runs/../hairpin-runs"]);
    assert_eq!(folders(&elsewhere), ["new", "middle", "old"]);
    let narrow = Running::start(place.command(crate::support::PROGRAM).arg("runs").env("COLUMNS", "60")).end();
    assert!(narrow.stdout.lines().all(|line| line.chars().count() <= 60), "{narrow:#?}");
}

#[test]
fn what_is_no_run_is_skipped_and_counted() {
    let place = three_runs();
    let runs = place.path("hairpin-runs");
    fs::write(runs.join("a file"), "").unwrap();
    fs::create_dir(runs.join("empty")).unwrap();
    symlink("new", runs.join("link")).unwrap();
    let damaged = |name: &str, json: &str| {
        fs::create_dir(runs.join(name)).unwrap();
        fs::write(runs.join(name).join("run.json"), json).unwrap();
    };
    damaged("cut", "{\"format\": 2");
    damaged("foreign", "{\"name\": \"another tool's run\"}");
    damaged(
        "newer",
        r#"{"format": 99, "tool": {"name": "hairpin"}, "started_unix_s": 1, "state": "complete",
        "plan": {"experiment": "a\u001b[31m", "question": "?"}}"#,
    );
    fs::create_dir(runs.join("inner-link")).unwrap();
    symlink("../new/run.json", runs.join("inner-link/run.json")).unwrap();
    fs::create_dir(runs.join("pipe")).unwrap();
    let pipe = runs.join("pipe/run.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    damaged("huge", "");
    fs::File::options().write(true).open(runs.join("huge/run.json")).unwrap().set_len(65 << 20).unwrap();

    let listing = place.json(&["runs"]);
    assert_eq!(folders(&listing), ["new", "middle", "old"]);
    let reason = |name: &str| {
        let skipped = list(&listing["skipped"]).iter().find(|skipped| skipped["name"] == name);
        text(&skipped.unwrap_or_else(|| panic!("{name}: {listing}"))["reason"])
    };
    assert_eq!(reason("a file"), "it is not a folder");
    assert_eq!(reason("link"), "it is not a folder");
    assert_eq!(reason("empty"), "it holds no run.json");
    for (name, cause) in [
        ("cut", "EOF"),
        ("foreign", "missing field"),
        ("newer", "format 99"),
        ("inner-link", "is a symbolic link"),
        ("pipe", "a pipe"),
        ("huge", "larger than 64 MiB"),
    ] {
        assert!(reason(name).contains(cause), "{name}: {}", reason(name));
    }
    assert_eq!(list(&listing["skipped"]).len(), 9);
    let ran = place.hairpin(&["runs"]).with_code(0);
    assert!(ran.stderr.contains("; 9 skipped that are no runs or damaged"), "{ran:#?}");
}

#[test]
fn a_run_that_is_being_written_is_listed_as_such_and_a_killed_one_as_unfinished() {
    let place = Place::new();
    let mut running =
        place.start(&["round-trip", "--transport", "pipe", "--rounds", "100", "--duration", "1s", "--out", "runs/a"]);
    running.busy_client();
    assert_eq!(place.json(&["runs", "runs"])["runs"][0]["state"], "running");
    drop(running);
    until("it has gone", || place.json(&["runs", "runs"])["runs"][0]["state"] == "unfinished");
    let ran = place.hairpin(&["runs", "runs"]).with_code(0);
    assert!(ran.stdout.contains("(unfinished) "), "{ran:#?}");
}

#[test]
fn a_place_without_runs_is_told() {
    let place = Place::new();
    let ran = place.hairpin(&["runs"]).refused();
    assert!(ran.stderr.contains("cannot list hairpin-runs: No such file or directory"), "{ran:#?}");
    assert!(ran.stderr.contains("hairpin runs FOLDER"), "{ran:#?}");
    let ran = place.hairpin(&["runs", "tmp"]).with_code(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "0 runs, 0 B\n"));
}
