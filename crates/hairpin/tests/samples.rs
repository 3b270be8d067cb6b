//! The samples of a run: a file for each round while it runs, one file after its end; both can be read.

use std::path::Path;

use hairpin_testing::or_skip;
use serde_json::Value;

use crate::support::{Place, in_namespaces, names_in, rounds, saved_rounds, text, until};

/// The samples files that the rounds name, each once, in order.
fn files_of(run: &Path) -> Vec<String> {
    let mut files: Vec<String> = rounds(run)
        .iter()
        .filter_map(|round| round["outcome"]["flows"][0]["samples_file"].as_str().map(str::to_owned))
        .collect();
    files.dedup();
    files
}

/// Number of kept samples according to the records of the rounds.
fn kept(run: &Path) -> u64 {
    rounds(run).iter().map(|round| round["outcome"]["flows"][0]["samples_kept"].as_u64().unwrap()).sum()
}

/// Returns the number of samples that `report` prints. Also checks that `analyse` can read the samples.
fn printed(place: &Place, run: &str) -> u64 {
    place.hairpin(["analyse", run]).with_code(0);
    let rows = place.hairpin(["report", run, "--csv=samples"]).with_code(0).stdout;
    rows.lines().count() as u64 - 1
}

#[test]
fn a_run_that_ended_has_one_file_and_a_log_that_names_its_cases() {
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport pipe,unix-stream --rounds 2";
    let run = place.json((plan, "--count 50 --warmup 10 --rate 20k --out run"));
    assert_eq!(files_of(&place.path("run")), ["samples.parquet"]);
    assert!(!place.path("run/samples").exists());
    // Warm-up samples whose answers arrived after the warm-up are omitted.
    assert!((4 * 50..=4 * 60).contains(&kept(&place.path("run"))));
    assert_eq!(printed(&place, "run"), kept(&place.path("run")));

    let log = std::fs::read_to_string(place.path("run/latency.hlog")).unwrap();
    for round in rounds(&place.path("run")) {
        let case = run["cases"].as_array().unwrap().iter().find(|case| case["id"] == round["case_id"]);
        let label = text(&case.unwrap()["label"]).replace(' ', "_");
        for quantity in ["latency", "service", "lateness"] {
            let tag = format!("\nTag={label}.{}.{quantity},", round["number"]);
            assert_eq!(log.matches(&tag).count(), 1, "{tag} {log}");
        }
    }
}

#[test]
fn a_killed_run_keeps_the_files_of_its_rounds_which_can_be_read() {
    let place = Place::new();
    let running = place.start("round-trip --placement same-cpu --transport pipe --rounds 1000 --count 50 --out run");
    until("some rounds are saved", || saved_rounds(&place.path("run")) > 2);
    drop(running);
    until("all processes have ended", || place.processes().is_empty());
    let files = files_of(&place.path("run"));
    assert!(files.len() > 2 && files[2] == "samples/round-000002.parquet", "{files:?}");
    assert!(!place.path("run/samples.parquet").exists());
    assert_eq!(printed(&place, "run"), kept(&place.path("run")));
    assert_eq!(files_of(&place.path("run")), files, "`analyse` leaves the files of the rounds unchanged");
}

#[test]
fn a_disk_that_fills_while_samples_are_merged_keeps_the_files_of_the_rounds() {
    // The disk has room for ten rounds of about 100 kB, but not for a merged copy of them.
    let place = Place::new();
    std::fs::create_dir(place.path("disk")).unwrap();
    let plan =
        "round-trip --placement same-cpu --transport pipe,unix-stream --rounds 5 --count 4000 --warmup 10 --json";
    let script = format!(
        "mount -t tmpfs -o size=1500k none disk && {{ \"$0\" {plan} --out disk/run; code=$?; cp -r disk/run run; exit $code; }}"
    );
    let ran = or_skip!(in_namespaces(&place, "-rm", &script)).with_code(3);
    let run: Value = ran.json();
    let unsaved = run["unsaved"].as_array().unwrap();
    assert_eq!(unsaved.len(), 1, "{unsaved:?}");
    let cause = text(&unsaved[0]["cause"]);
    let told = "the samples stay in one file per round: cannot write disk/run/samples.parquet: No space left";
    assert!(cause.starts_with(told) && ran.stderr.contains(told), "{ran:#?}");
    let files = files_of(&place.path("run"));
    assert_eq!((files.len(), names_in(&place.path("run/samples")).len()), (10, 10));
    let names = names_in(&place.path("run"));
    assert!(!names.iter().any(|name| name.contains("samples.parquet")), "no partial file is left: {names:?}");
    assert_eq!((kept(&place.path("run")), printed(&place, "run")), (10 * 4010, 10 * 4010));
}

#[test]
fn a_run_can_omit_its_samples() {
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport pipe --rounds 2 --count 50";
    let run = place.json((plan, "--no-samples --out run"));
    assert_eq!(run["cases"][0]["flows"][0]["samples"], 100, "the histograms count all messages");
    assert_eq!(names_in(&place.path("run")), ["latency.hlog", "report.html", "rounds.jsonl", "run.json"]);
    assert_eq!((kept(&place.path("run")), printed(&place, "run")), (0, 0));
    let ran = place.hairpin("report run --csv=samples").with_code(0);
    assert!(ran.stderr.starts_with("the run has no raw samples"), "{ran:#?}");
    place.hairpin((plan, "--no-samples --keep-samples 5")).refused().told("'--keep-samples <NUMBER>'");
}
