//! `hairpin runs`: which folders are listed as runs, which are skipped, and which are removed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::support::{Place, Ran, Running, copy, edit_json, list, names_in, text, until};

const QUICK: &str = "round-trip --placement same-cpu --transport pipe --rounds 1 --count 20 --quiet";

/// A place with three runs in `hairpin-runs`: `new`, and `middle` and `old` from 10 and 40 days ago.
fn three_runs() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("hairpin-runs")).unwrap();
    place.hairpin((QUICK, "--out hairpin-runs/new")).with_code(0);
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

/// Total size of the files in a folder.
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
    let listing = place.json("runs");
    assert_eq!(folders(&listing), ["new", "middle", "old"]);
    let saved: Value =
        serde_json::from_slice(&fs::read(place.path("hairpin-runs/middle/run.json")).unwrap()).unwrap();
    let shown = &listing["runs"][1];
    assert_eq!(shown["started_unix_s"], saved["started_unix_s"]);
    assert_eq!(shown["question"], saved["plan"]["question"]);
    assert_eq!(shown["headline"], saved["answer"]["headline"]);
    assert_eq!((text(&shown["experiment"]), text(&shown["state"])), ("round-trip", "complete"));
    assert_eq!(shown["size_bytes"], size(&place.path("hairpin-runs/middle")));

    let ran = place.hairpin("runs").with_code(0);
    let heads: Vec<&str> = ran.stdout.lines().skip(1).filter(|line| !line.starts_with("  ")).collect();
    assert_eq!(heads.len(), 3, "{ran:#?}");
    for (head, name) in heads.iter().zip(["new", "middle", "old"]) {
        assert!(head.contains("round-trip") && head.ends_with(name), "{ran:#?}");
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    for said in ["question", "headline"] {
        assert!(words(&ran.stdout).contains(&words(text(&shown[said]))), "the whole {said}: {ran:#?}");
    }
    assert!(ran.stderr.starts_with("3 runs, "), "{ran:#?}");
    let elsewhere = place.json("runs hairpin-runs/../hairpin-runs");
    assert_eq!(folders(&elsewhere), ["new", "middle", "old"]);
    let narrow = Running::start(place.command(crate::support::PROGRAM).arg("runs").env("COLUMNS", "60")).end();
    assert!(narrow.stdout.lines().all(|line| line.chars().count() <= 60), "{narrow:#?}");
}

#[test]
fn other_entries_are_skipped_and_counted() {
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

    let listing = place.json("runs");
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
    place
        .hairpin("runs")
        .with_code(0)
        .told("; skipped 9 entries that are not runs or are damaged (--json has the reasons)");
    fs::remove_file(pipe).unwrap();
}

#[test]
fn a_newline_in_a_name_is_escaped_and_one_skipped_entry_is_in_the_singular() {
    let place = three_runs();
    let runs = place.path("hairpin-runs");
    fs::rename(runs.join("old"), runs.join("old\nRemove")).unwrap();
    fs::create_dir(runs.join("empty")).unwrap();
    let ran = place.hairpin("runs").with_code(0);
    let told_on_one_line = |ran: &Ran| ran.stdout.lines().filter(|line| line.ends_with(r"old\u{a}Remove")).count();
    assert_eq!(told_on_one_line(&ran), 1, "{ran:#?}");
    assert!(ran.stderr.contains("; skipped 1 entry that is not a run or is damaged (--json"), "{ran:#?}");
    let ran = place.hairpin("runs --clean --keep 2 --yes").with_code(0);
    assert_eq!(told_on_one_line(&ran), 1, "{ran:#?}");
    assert_eq!(names_in(&runs), ["empty", "middle", "new"]);
}

#[test]
fn a_run_that_is_being_written_is_listed_as_running_and_a_killed_run_as_unfinished() {
    let place = Place::new();
    let mut running = place.start("round-trip --transport pipe --rounds 100 --duration 1s --out runs/a");
    running.busy_client();
    assert_eq!(place.json("runs runs")["runs"][0]["state"], "running");
    drop(running);
    until("the run's processes have ended", || place.json("runs runs")["runs"][0]["state"] == "unfinished");
    place.hairpin("runs runs").with_code(0).shown("(unfinished)");
}

#[test]
fn a_place_without_runs_is_reported() {
    let place = Place::new();
    let ran = place.hairpin("runs").refused();
    assert!(ran.stderr.contains("cannot list hairpin-runs: No such file or directory"), "{ran:#?}");
    assert!(ran.stderr.contains("hairpin runs FOLDER"), "{ran:#?}");
    let ran = place.hairpin("runs tmp").with_code(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "0 runs, 0 B\n"));
}

#[test]
fn runs_are_removed_by_age_size_and_number_and_all_conditions_must_hold() {
    let place = three_runs();
    let runs = place.path("hairpin-runs");
    fs::write(runs.join("notes"), "mine").unwrap();
    let smallest = names_in(&runs).iter().filter(|name| *name != "notes").map(|name| size(&runs.join(name))).min();
    let clean = |flags: &str| {
        let ran = place.hairpin(("runs --clean --yes", flags)).with_code(0);
        (names_in(&runs), ran)
    };
    let all = ["middle", "new", "notes", "old"];
    for flags in ["--older-than 50d", "--larger-than 1GiB", "--keep 3"] {
        let (left, ran) = clean(flags);
        assert_eq!((left, ran.stderr.as_str()), (all.map(str::to_owned).to_vec(), "no run to remove\n"), "{flags:?}");
    }
    let (left, _) = clean("--older-than 30d --larger-than 1GiB");
    assert_eq!(left, all);
    let (left, _) = clean("--older-than 5d --keep 3");
    assert_eq!(left, all);
    let (left, ran) = clean("--older-than 30d");
    assert_eq!(left, ["middle", "new", "notes"]);
    assert!(ran.stdout.contains("old\n") && !ran.stdout.contains("middle\n"), "{ran:#?}");
    assert!(ran.stderr.starts_with("removed 1 run, "), "{ran:#?}");
    let (left, _) = clean("--keep 1");
    assert_eq!(left, ["new", "notes"]);
    let (left, _) = clean(&format!("--larger-than {}", smallest.unwrap() - 1));
    assert_eq!(left, ["notes"]);
}

#[test]
fn nothing_is_removed_unless_the_user_says_yes() {
    let place = three_runs();
    let runs = place.path("hairpin-runs");
    let ran = place.hairpin("runs --clean --keep 0").with_code(2);
    assert!(ran.stderr.contains("standard input is not a terminal (hint: --yes removes them"), "{ran:#?}");
    for flags in ["--clean", "--clean --yes", "--keep 1", "--yes", "--clean --keep x"] {
        place.hairpin(("runs", flags)).refused();
    }
    place.hairpin("runs --clean --older-than 5").refused();
    let ran = place.hairpin("runs --clean --older-than 1000000d").refused();
    assert!(ran.stderr.contains("`1000000d` is too long (hint: for instance 30d"), "{ran:#?}");
    assert_eq!(names_in(&runs), ["middle", "new", "old"]);

    // script(1) gives the program a terminal and types its own input there.
    hairpin_testing::works(&["script", "--version"]).unwrap();
    let answered = |answer: &str| {
        let script = format!("printf '{answer}' | script -qec \"$0 runs --clean --keep 1\" /dev/null");
        Running::start(place.command("sh").args(["-c", &script, crate::support::PROGRAM])).end().with_code(0)
    };
    for answer in ["n\\n", "\\n", "yesterday\\n", "\\004"] {
        let ran = answered(answer);
        assert!(ran.stdout.contains("Remove 2 runs, ") && ran.stdout.contains("nothing removed"), "{ran:#?}");
        assert_eq!(names_in(&runs), ["middle", "new", "old"]);
    }
    let ran = answered("y\\n");
    assert!(ran.stdout.contains("removed 2 runs, "), "{ran:#?}");
    assert_eq!(names_in(&runs), ["new"]);
}

#[test]
fn a_folder_with_files_that_are_not_of_a_run_is_not_removed() {
    let place = three_runs();
    let runs = place.path("hairpin-runs");
    let outside = place.path("outside");
    fs::create_dir(&outside).unwrap();
    // A killed run has a samples file for each round.
    fs::create_dir(runs.join("old/samples")).unwrap();
    fs::write(runs.join("old/samples/round-000000.parquet"), "samples").unwrap();
    fs::write(outside.join("round-000000.json"), "mine").unwrap();
    fs::write(outside.join("run.json"), "mine").unwrap();
    symlink("../outside", runs.join("link-to-folder")).unwrap();
    symlink("new", runs.join("link-to-run")).unwrap();
    let with = |name: &str, change: &dyn Fn(&Path)| {
        let run = runs.join(name);
        copy(&runs.join("old"), &run);
        change(&run);
    };
    with("with-notes", &|run| fs::write(run.join("notes.txt"), "mine").unwrap());
    with("with-folder", &|run| fs::create_dir(run.join("mine")).unwrap());
    with("with-link", &|run| symlink("../../outside/run.json", run.join("report.html.link")).unwrap());
    with("with-linked-file", &|run| {
        fs::remove_file(run.join("report.html")).unwrap();
        symlink("../../outside/run.json", run.join("report.html")).unwrap();
    });
    with("with-linked-folder", &|run| symlink("../../outside", run.join("traces")).unwrap());
    with("with-foreign-sample", &|run| fs::write(run.join("samples/mine.parquet"), "mine").unwrap());
    with("with-deep-folder", &|run| fs::create_dir(run.join("samples/round-000009.parquet")).unwrap());
    with("with-file-as-folder", &|run| fs::write(run.join("links"), "mine").unwrap());
    let before: Vec<_> = names_in(&runs).into_iter().filter(|name| name.starts_with("with-")).collect();
    let sizes: Vec<u64> = before.iter().map(|name| size(&runs.join(name))).collect();
    // Partial files of a killed process are removed too.
    fs::write(runs.join("old/.run.json.77-0.partial"), "{").unwrap();
    fs::write(runs.join("old/samples/.round-000001.parquet.77-1.partial"), "").unwrap();

    let ran = place.hairpin("runs --clean --yes --keep 0").with_code(3);
    let left = names_in(&runs);
    assert_eq!(left, [&["link-to-folder".to_owned(), "link-to-run".to_owned()], &before[..]].concat());
    assert_eq!(
        before.iter().map(|name| size(&runs.join(name))).collect::<Vec<_>>(),
        sizes,
        "these folders are unchanged"
    );
    assert_eq!(names_in(&outside), ["round-000000.json", "run.json"]);
    for (name, what) in [
        ("with-notes", "notes.txt"),
        ("with-folder", "mine"),
        ("with-link", "report.html.link"),
        ("with-linked-file", "report.html"),
        ("with-linked-folder", "traces"),
        ("with-foreign-sample", "samples/mine.parquet"),
        ("with-deep-folder", "samples/round-000009.parquet"),
        ("with-file-as-folder", "links"),
    ] {
        let told = format!("cannot remove hairpin-runs/{name}: it contains {what}, which is not a file of a run\n");
        assert!(ran.stderr.contains(&told), "{told} {ran:#?}");
    }
    assert!(ran.stderr.contains("removed 3 runs, "), "{ran:#?}");
}

#[test]
fn a_run_that_is_being_written_is_not_removed() {
    let place = Place::new();
    let mut running = place.start("round-trip --transport pipe --rounds 100 --duration 1s --out runs/a");
    running.busy_client();
    let clean = || place.hairpin("runs runs --clean --yes --keep 0").with_code(0);
    assert_eq!(clean().stderr, "no run to remove\n");
    drop(running);
    until("the lock of the ended run is released", || clean().stderr.starts_with("removed 1 run, "));
    assert_eq!(names_in(&place.path("runs")), [""; 0]);
}
