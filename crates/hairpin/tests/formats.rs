//! Saved runs of every format before this one: they must load, report and analyse for as long as Hairpin exists. A folder in
//! `tests/formats` is named after its format and, except for the first, after its content; a new format adds some,
//! written by the last program with the old format.

use std::collections::BTreeSet;
use std::path::Path;

use hairpin_model::run::FORMAT;
use serde_json::Value;

use crate::support::contract::assert_kept;
use crate::support::{Place, copy, copy_as_another_run, list, names_in, text};

/// Calls `check` for each format, with a place that has such a run in `run`.
fn each_format(check: impl Fn(&Place, u64)) {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let names = names_in(&formats);
    let format_of = |name: &String| -> u64 {
        let number = name.split('-').next().unwrap_or_default();
        number.parse().expect("a folder is named after its format")
    };
    let known: BTreeSet<u64> = names.iter().map(format_of).collect();
    assert_eq!(known, (1..u64::from(FORMAT)).collect(), "a saved run of every format before this one");
    for name in &names {
        let place = Place::new();
        copy(&formats.join(name), &place.path("run"));
        check(&place, format_of(name));
    }
}

/// The saved file, unchanged.
fn saved(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.path("run/run.json")).expect("it is there");
    serde_json::from_str(&text).expect("it is JSON")
}

/// The same for each run that has its samples; those of `survey` are large and were not checked in.
fn each_format_with_samples(check: impl Fn(&Place, u64)) {
    each_format(|place, format| {
        let files = ["samples", "samples.parquet"].map(|name| place.path("run").join(name));
        if files.iter().any(|file| file.exists()) {
            check(place, format);
        }
    });
}

#[test]
fn old_runs_load_and_report() {
    each_format(|place, format| {
        let before = saved(place);
        assert_eq!(before["format"], format);
        let shown = place.hairpin("report run").with_code(0).stdout;
        for case in list(&before["cases"]) {
            let flow = if format == 1 { &case["case"] } else { &case["case"]["flows"][0] };
            let transport = flow["transport"].as_str().expect("a name");
            assert!(shown.contains(transport), "format {format}, {transport}: {shown}");
        }
        let page = std::fs::read_to_string(place.path("run/report.html")).expect("it was made");
        assert!(page.contains("</html>"), "format {format}");
        let run = place.json("report run");
        assert_kept(&run);
        assert_eq!(run["format"], FORMAT, "it is lifted to this format");
        assert_eq!(list(&run["cases"]).len(), list(&before["cases"]).len(), "format {format}");
        assert_eq!(saved(place), before, "a report changes nothing");
    });
}

#[test]
fn the_ladder_of_a_run_without_traces_is_a_note_and_of_an_unknown_case_an_error() {
    each_format(|place, format| {
        let shown = place.hairpin("report run --ladder").with_code(0).stdout;
        let is_traced = place.path("run").join("traces").exists();
        assert_eq!(shown.contains("No exchange of this run was traced"), !is_traced, "format {format}: {shown}");
        let refused = place.hairpin("report run --ladder=zzz").with_code(2).stderr;
        assert!(refused.contains("unknown case of the ladder `zzz` (hint: one of all, most-telling"), "{refused}");
        place.hairpin("report run --ladder --json").with_code(2);
        place.hairpin("report run --ladder --csv").with_code(2);
    });
}

#[test]
fn old_runs_are_computed_anew_from_their_samples() {
    each_format_with_samples(|place, format| {
        let before = saved(place);
        let run = place.json("analyse run");
        assert_kept(&run);
        for (case, old) in list(&run["cases"]).iter().zip(list(&before["cases"])) {
            let of_flow = |key: &str| if format == 1 { &old[key] } else { &old["flows"][0][key] };
            assert_eq!(case["rounds"], old["rounds"], "format {format}");
            for key in ["samples", "ledger"] {
                assert_eq!(case["flows"][0][key], *of_flow(key), "format {format}: {key}");
            }
            for quantity in ["latency_ns", "service_ns", "lateness_ns"] {
                let p50 = |figures: &Value| figures["p50"]["value"].clone();
                assert_eq!(p50(&case["flows"][0][quantity]), p50(of_flow(quantity)), "format {format}: {quantity}");
            }
        }
        let commands = |run: &Value| -> Vec<String> {
            let findings = list(&run["findings"]).iter();
            let commands = findings.map(|finding| finding["counter_experiment"]["command"].to_string());
            let program = text(&run["command_line"][0]).rsplit('/').next().expect("a name");
            // The number of connections was `--streams`, and the program always `hairpin`.
            let commands = commands.map(|command| command.replace(" --streams ", " --connections "));
            commands.map(|command| command.replacen("\"hairpin ", &format!("\"{program} "), 1)).collect()
        };
        // Format 1 has older names of values.
        assert!(format == 1 || commands(&run) == commands(&before), "format {format}: {:?}", commands(&run));
        assert_eq!(saved(place)["format"], FORMAT, "it is saved in this format");
        place.hairpin("report run").with_code(0);
    });
}

#[test]
fn old_runs_still_have_their_samples() {
    each_format_with_samples(|place, format| {
        let rounds = std::fs::read_to_string(place.path("run/rounds.jsonl")).expect("it is there");
        let rounds = rounds.lines().map(|line| serde_json::from_str::<Value>(line).expect("a round"));
        let kept = |round: Value| -> u64 {
            let outcome = &round["outcome"];
            let flows = if format == 1 { std::slice::from_ref(outcome) } else { list(&outcome["flows"]) };
            let saved = flows.iter().filter(|flow| flow["samples_file"].is_string());
            saved.filter_map(|flow| flow["samples_kept"].as_u64()).sum()
        };
        let rows = place.hairpin("report run --csv=samples").with_code(0).stdout;
        assert_eq!(rows.lines().count() as u64 - 1, rounds.map(kept).sum::<u64>(), "format {format}");
    });
}

#[test]
fn old_runs_can_be_compared() {
    each_format(|place, format| {
        copy_as_another_run(&place.path("run"), &place.path("again"));
        let ran = place.hairpin("compare run again --allow-unlike").with_code(0);
        // Some runs have too few rounds for intervals, or rounds that differ too much.
        let told = ["no difference found", "cannot tell without an interval."];
        assert!(
            told.iter().any(|told| ran.stdout.contains(&format!(" compared: {told}"))),
            "format {format}: {ran:#?}"
        );
    });
}

#[test]
fn a_run_of_the_format_before_is_compared_with_one_of_this_and_what_differs_is_said() {
    let place = Place::new();
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    for name in ["1-small-writes", "2-small-writes"] {
        copy(&formats.join(name), &place.path(name));
    }
    let compare = ["compare", "1-small-writes", "2-small-writes"];
    let unlike = place.hairpin(compare).with_code(2).stderr;
    assert!(unlike.contains("the runs differ") && unlike.contains("tool: commit: "), "{unlike}");
    let report = place.hairpin((compare, "--allow-unlike --json")).with_code(0).json();
    let labels: BTreeSet<&str> = list(&report["rows"]).iter().filter_map(|row| row["case"].as_str()).collect();
    assert_eq!(labels, BTreeSet::from(["tcp block same-cpu default 2x2 B"]), "the case of both: {report}");
    let told = place.hairpin((compare, "--allow-unlike")).with_code(0).stdout;
    for only in ["one-write 2x2 B: only in 1-small-writes", "nodelay 2x2 B: only in 2-small-writes"] {
        assert!(told.contains(only), "{only}: {told}");
    }
}
