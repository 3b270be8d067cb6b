//! Runs the examples of docs/scripting.md unchanged, and checks that all exit codes are documented.

use std::path::Path;

use hairpin_testing::{or_skip, program, works};

use crate::support::served::{Served, address};
use crate::support::{PROGRAM, Place, Ran, Running, list, text};

const PAGE: &str = include_str!("../../../../docs/scripting.md");

fn commands(heading: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the page has the heading");
    let section = section.split("\n## ").next().expect("a text before the next heading");
    section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().expect("the block ends").trim()).collect()
}

/// A place with the folder RUN and the schema of a run.
fn with_run() -> Place {
    let place = Place::new();
    let asked = "round-trip --placement same-cpu --transport pipe,unix-stream --count 600";
    place.hairpin((asked, "--rounds 3 --out RUN")).with_code(0);
    std::fs::create_dir(place.path("schemas")).expect("a new folder");
    std::fs::write(place.path("schemas/run.json"), include_str!("../../../../docs/schemas/run.json"))
        .expect("a new file");
    place
}

/// Runs a command of the page in a shell that finds the program and fails if any part of a pipe fails.
fn shell(place: &Place, command: &str) -> Ran {
    let mut path = Path::new(PROGRAM).parent().expect("in a folder").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut bash = place.command("bash");
    let bash = bash.args(["-o", "pipefail", "-c", command]).env("PATH", path);
    // Examples leave the folders of their runs in TMPDIR.
    let bash = bash.env("XDG_STATE_HOME", place.path("state")).env("TMPDIR", place.path(""));
    Running::start(bash).end().with_code(0)
}

/// Runs all commands below a heading. Returns their outputs.
fn printed(place: &Place, heading: &str) -> Vec<String> {
    commands(heading).into_iter().map(|command| shell(place, command).stdout).collect()
}

#[test]
fn the_commands_for_jq_print_the_figures_of_the_run() {
    or_skip!(program("jq"));
    let place = with_run();
    let run = place.hairpin("report RUN --json").with_code(0).json();
    let said = printed(&place, "jq");
    let [p50s, fastest, valid, findings, rounds, rates, knees, goodput, answer] = &said[..] else {
        panic!("nine commands: {said:?}")
    };
    assert_eq!([rates.as_str(), knees, goodput], [""; 3], "these print figures of one-way loads only");
    let p50_ns =
        |case: &serde_json::Value| case["latency_ns"]["p50"]["value"].as_f64().expect("600 messages have one");
    let lines: Vec<Vec<&str>> = p50s.lines().map(|line| line.split('\t').collect()).collect();
    for (line, case) in lines.iter().zip(list(&run["cases"])) {
        assert_eq!((line[0], line[1].parse(), line.len()), (text(&case["label"]), Ok(p50_ns(case)), 4));
    }
    let best = list(&run["cases"]).iter().min_by(|a, b| p50_ns(a).total_cmp(&p50_ns(b))).expect("two cases");
    assert_eq!((lines.len(), fastest.trim(), valid.as_str()), (2, text(&best["label"]), "true\n"));
    let summaries: Vec<String> = list(&run["findings"])
        .iter()
        .map(|finding| format!("{}: {}\n", text(&finding["severity"]), text(&finding["summary"])))
        .collect();
    assert_eq!(*findings, summaries.concat());
    let numbers: Vec<u64> = rounds.lines().filter_map(|line| line.split('\t').next()?.parse().ok()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5], "two cases, three rounds: {rounds}");
    assert!(rounds.lines().all(|line| line.split('\t').nth(2).is_some_and(|p50| p50.parse::<f64>().is_ok())));
    assert!(answer.contains("pipe"), "{answer}");
}

#[test]
fn the_command_for_servers_prints_running_servers() {
    or_skip!(program("jq"));
    let place = Place::new();
    let served = Served::new(&place);
    let at = address(&place);
    assert_eq!(printed(&place, "Two hosts"), [format!("{at}\n")]);
    drop(served);
    assert_eq!(printed(&place, "Two hosts"), [""]);
}

#[test]
fn the_commands_for_jq_print_the_figures_of_one_way_loads() {
    or_skip!(program("jq"));
    let place = Place::new();
    // The second rate is higher than any machine can send.
    let plans = [
        "message-rate --transport unix-stream --batch 1,8 --count 20k --rounds 3 --placement same-cpu --out RUN",
        "offered-load --transport unix-stream --rate 500,20M --duration 60ms --rounds 5 --placement same-cpu --out RUN",
    ];
    let said = plans.map(|plan| {
        let runs = (0..20).map(|_| {
            place.hairpin(plan).with_code(0);
            let run = place.hairpin("report RUN --json").with_code(0).json();
            let said = [5, 6, 7].map(|which| shell(&place, commands("jq")[which]).stdout);
            std::fs::remove_dir_all(place.path("RUN")).expect("it was made just now");
            (run, said)
        });
        // On a busy machine a run can have no knee.
        let mut complete =
            runs.filter(|(run, _)| plan.starts_with("message-rate") || !run["answer"]["knees"].is_null());
        complete.next().expect("one of 20 runs has a knee")
    });
    let [(rates, said_rates), (knees, said_knees)] = said;
    for (line, case) in said_rates[2].lines().zip(list(&rates["cases"])) {
        let figure = line.split('\t').nth(1).and_then(|figure| figure.parse().ok());
        assert_eq!(figure, case["goodput_bytes_per_s"]["value"].as_f64(), "{line}");
    }
    for (line, case) in said_rates[0].lines().zip(list(&rates["cases"])) {
        let columns: Vec<&str> = line.split('\t').collect();
        let figure = &case["received_per_s"]["value"];
        let batch = &case["case"]["flows"][0]["load"]["batch"];
        assert_eq!((columns[0], columns[1]), (text(&case["label"]), batch.to_string().as_str()), "{line}");
        assert_eq!(columns[2].parse::<f64>().ok(), figure.as_f64(), "{line}");
    }
    assert_eq!((said_rates[0].lines().count(), said_rates[1].as_str()), (2, ""), "{said_rates:?}");
    let knee = &knees["answer"]["knees"][0];
    // Which of the two rates was delivered depends on the load of the machine.
    let bounds = ["delivered_per_s", "not_delivered_per_s"]
        .map(|name| knee[name].as_f64().map_or_else(String::new, |rate| rate.to_string()));
    assert_eq!(said_knees[1], bounds.join("\t") + "\n", "{knee}");
    assert!(bounds.iter().any(|bound| bound == "500" || bound == "20000000"), "{knee}");
}

#[test]
fn the_commands_for_pandas_print_each_case() {
    or_skip!(works(&["python3", "-c", "import pandas"]));
    let place = with_run();
    let said = printed(&place, "pandas");
    let [cases, percentiles] = &said[..] else { panic!("two commands: {said:?}") };
    assert!(cases.contains("latency_p50_ns") && cases.contains("unix-stream block same-cpu"), "{cases}");
    let rows = percentiles.lines().filter(|line| line.contains(" 0.50 ") || line.contains(" 0.99 "));
    assert_eq!(rows.count(), 4, "two percentiles of two cases: {percentiles}");
}

#[test]
fn the_commands_for_duckdb_print_each_case() {
    or_skip!(works(&["python3", "-c", "import duckdb"]));
    let place = with_run();
    let said = printed(&place, "DuckDB");
    let [samples, cases] = &said[..] else { panic!("two commands: {said:?}") };
    let run = place.hairpin("report RUN --json").with_code(0).json();
    for case in list(&run["cases"]) {
        assert!(samples.contains(text(&case["id"])) && cases.contains(text(&case["label"])), "{samples}\n{cases}");
    }
}

#[test]
fn an_independent_validator_accepts_the_run() {
    or_skip!(works(&["python3", "-c", "import jsonschema"]));
    let place = with_run();
    assert_eq!(printed(&place, "The schemas"), [""]);
    // The validator does check the run: it rejects a run without cases.
    let run = std::fs::read_to_string(place.path("RUN/run.json")).expect("the run is saved");
    std::fs::write(place.path("RUN/run.json"), run.replacen("\"cases\"", "\"places\"", 2)).expect("it is ours");
    let python = ["-c", commands("The schemas")[0]];
    assert_eq!(Running::start(place.command("sh").args(python)).end().code, Some(1));
}

#[test]
fn every_exit_code_is_documented_in_help_readme_and_scripting_page() {
    let place = Place::new();
    let on_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = |command: &[&str]| on_one_line(&place.hairpin(command).with_code(0).stdout);
    let after = |text: &str| text.split_once("Exit codes: ").expect("it lists the codes").1.to_owned();
    let readme = after(&on_one_line(include_str!("../../../../README.md")));
    let link_run = ["125", "126", "127"];
    for told in [&after(&help(&["--help"])), &after(&help(&["round-trip", "--help"])), &readme] {
        for code in ["0 ", "1 ", "2 ", "3 ", "130 "].into_iter().chain(link_run) {
            assert!(told.contains(code), "{code}: {told}");
        }
    }
    let told = after(&help(&["link", "run", "--help"]));
    for code in
        ["the exit code of COMMAND", "128 + N if signal N ended COMMAND", "2 bad usage"].into_iter().chain(link_run)
    {
        assert!(told.contains(code), "{code}: {told}");
    }
    for code in
        ["0", "1", "2", "3", "130", "the program's own", "128 and the number of a signal"].into_iter().chain(link_run)
    {
        assert!(PAGE.contains(&format!("\n| {code} | ")), "{code}");
    }
}
