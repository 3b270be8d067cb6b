//! The command line: what is refused or skipped and how, and what is printed where.

use crate::support::{Arguments, PROGRAM, Place, Running, list, names_in, rounds, text};

#[test]
fn help_and_version_are_not_errors() {
    let place = Place::new();
    for arguments in ["--help", "-h", "round-trip --help", "compare --help", "help list"] {
        let ran = place.hairpin(arguments).with_code(0);
        assert!(ran.stdout.contains("Usage: hairpin") && ran.stderr.is_empty(), "{ran:#?}");
        assert!(!ran.stdout.contains("--injected-fault") && !ran.stdout.contains("__server"), "hidden: {ran:#?}");
    }
    let help = place.hairpin("--help").stdout;
    let before_usage = help.split("Usage:").next().expect("a beginning");
    assert!(before_usage.lines().all(|line| !line.starts_with(' ')), "{help}");
    assert!(help.contains("Exit codes: 0 fine; 1 a budget was broken; 2 bad usage"), "{help}");
    let version = place.hairpin("--version").with_code(0).stdout;
    assert!(version.starts_with(concat!("hairpin ", env!("CARGO_PKG_VERSION"), " (")), "{version}");
}

#[test]
fn short_forms_of_other_tools_work_and_help_has_two_lengths() {
    let place = Place::new();
    let ran = place.hairpin("round-trip -t pipe --size 1K --rounds 1 --count 20 --placement same-cpu").with_code(0);
    assert!(ran.stdout.contains("pipe 1 KiB"), "{}", ran.stdout);
    let shown = place.hairpin("report").with_code(0);
    assert!(shown.stdout.contains("pipe 1 KiB"), "without a folder it shows the latest run: {}", shown.stdout);
    let [short, long] = ["-h", "--help"].map(|help| place.hairpin(format!("bulk {help}")).with_code(0).stdout);
    let shown = |text: &str, words: &[&str]| words.iter().map(|word| text.contains(word)).collect::<Vec<_>>();
    let words = ["--direction", "Length:", "Output:", "--sysctl", "Another host:"];
    assert_eq!(shown(&short, &words), [true, true, true, false, false]);
    assert_eq!(shown(&long, &words), [true; 5]);
}

#[test]
fn an_unknown_name_gets_the_nearest_one() {
    let place = Place::new();
    for (arguments, nearest) in [
        ("round-trip --placement same-cpu --transport tpc", "unknown transport `tpc` (hint: did you mean `tcp`?)"),
        ("round-trip --placement same-cpu --transport tcp,unix-steam", "(hint: did you mean `unix-stream`?)"),
        ("round-trip --placement same-cpu --transport zzz", "(hint: one of memory, shm, pipe, "),
        ("round-trip --option nodlay=on", "--option: unknown option `nodlay` (hint: did you mean `nodelay`?)"),
        ("round-trip --waiting blok", "--waiting: unknown value `blok` (hint: did you mean `block`?)"),
        ("round-trip --placement sam-cpu", "(hint: did you mean `same-cpu`?)"),
        ("round-trip --ends procceses", "(hint: did you mean `processes`?)"),
        ("round-trip --link lopback", "no built-in profile is called `lopback` (hint: did you mean `loopback`?)"),
        ("round-trip --cpu 0", "--cpu sets two CPUs on one host (hint: use --cpu CLIENT,SERVER"),
        ("round-trip --cpu 0,1,2", "--cpu sets two CPUs on one host (hint: "),
        ("round-trip --cpu 0,x", "invalid value '0,x' for '--cpu <CLIENT,SERVER>'"),
        ("survey --cpu 0,4097", "--cpu 4097: no such CPU (hint: one of "),
        ("round-trip --cpu-idle shalow", "(hint: did you mean `shallow`?)"),
        ("compare a b --budget p98=+5%", "unknown figure `p98` (hint: did you mean `p99`?)"),
        ("man roundtrip", "unknown command `roundtrip` (hint: did you mean `round-trip`?)"),
        ("round-tripp", "a similar subcommand exists: 'round-trip'"),
        ("survy", "some similar subcommands exist: 'serve', 'survey'"),
        ("round-trip --transprt tcp", "a similar argument exists: '--transport'"),
        ("list --jsn", "a similar argument exists: '--json'"),
        ("ping", "(hint: `hairpin round-trip` measures that)"),
        ("throughput", "(hint: `hairpin bulk` measures that)"),
        ("report", "no run in hairpin-runs (hint: give the run folder: hairpin report RUN)"),
        ("round-trip --csv=sumary", "a similar value exists: 'summary'"),
        ("completions bsh", "a similar value exists: 'bash'"),
    ] {
        place.hairpin(arguments).refused().told(nearest);
    }
    assert_eq!(names_in(&place.path(".")), ["tmp"], "a refused command creates no run folder");
}

#[test]
fn impossible_plans_are_refused_before_anything_runs() {
    let place = Place::new();
    for (arguments, reason) in [
        (&["--size", "0"][..], "--size: `0` is not valid (hint: 1 B to 1 GiB)"),
        (&["--size", "4,0"], "--size: `0` is not valid (hint: 1 B to 1 GiB)"),
        (&["--size", "2GiB"], "--size: `2GiB` is not valid (hint: 1 B to 1 GiB)"),
        (&["--size", "1073741825"], "(hint: 1 B to 1 GiB)"),
        (&["--size", "-1"], "--size: `-1` is not a number of bytes (hint: "),
        (&["--size", "99999999999999999999"], "is not a number of bytes (hint: "),
        (&["--size", ""], "--size: `` is not a number of bytes (hint: "),
        (&["--reply-size", "0"], "--reply-size: `0` is not valid (hint: 1 B to 1 GiB)"),
        (&["--transport", "udp", "--size", "65508"], "65508 B does not fit (hint: 1 B to 65507 B)"),
        (&["--transport", "udp6", "--size", "65528"], "65528 B does not fit (hint: 1 B to 65527 B)"),
        (&["--transport", "udp", "--reply-size", "64KiB"], "answer of 64 KiB does not fit (hint: 1 B to 65507 B)"),
        (&["--rate", "0"], "--rate: `0` is not a rate (hint: a number of messages per second above 0"),
        (&["--rate", "-1"], "--rate: `-1` is not a rate (hint: "),
        (&["--rate", "nan"], "--rate: `nan` is not a rate (hint: "),
        (&["--rate", "inf"], "--rate: `inf` is not a rate (hint: "),
        (&["--rate", "11M"], "--rate: `11M` is not valid (hint: from one message per day to 10000000 per second)"),
        (&["--rate", "0.1", "--count", "10k"], "take more than 24 h (hint: "),
        (&["--duration", "0s"], "--duration: `0s` is not valid (hint: "),
        (&["--duration", "-1s"], "--duration: `-1s` is not a duration (hint: "),
        (&["--duration", "90000s"], "--duration: `90000s` is not valid (hint: "),
        (&["--duration", "5"], "--duration: `5` is not a duration: its unit is missing (hint: "),
        (&["--timeout", "0ms"], "--timeout: `0ms` is not valid (hint: "),
        (&["--rounds", "0"], "--rounds: `0` is not valid (hint: a whole number from 1 to 10000)"),
        (&["--count", "0"], "--count: `0` is not valid (hint: a whole number from 1"),
        (&["--count", "9", "--duration", "1s"], "--count and --duration both set the length of a round"),
        (&["--count", "9", "--count", "8"], "cannot be used multiple times"),
        (&["--port", "65536"], "--port: `65536` is not valid (hint: "),
        (&["--seed", "-1"], "--seed: `-1` is not valid (hint: "),
        (&["--warmup", "-1"], "--warmup: `-1` "),
        (&["--size", "1,2,3,4,5,6,7,8,9,10", "--rounds", "10000"], "more than 20000 (hint: "),
        (&["--option", "nodelay=maybe"], "option `nodelay` does not take `maybe` (hint: on or off)"),
        (&["--option", "sndbuf=0"], "option `sndbuf` does not take `0` (hint: "),
        (&["--option", "nodelay"], "option `nodelay` has no value (hint: "),
        (&["--option", "cork=on,cork=off"], "option `cork` is given twice (hint: "),
        (&["--transport", "pipe", "--option", "nodelay=on"], "it has no option `nodelay` (hint: omit --option)"),
        (&["--transport", "tcp", "--option", "congestion=nothing"], "`nothing` is not available here (hint: one of "),
        (&["--injected-fault", "nap=5ms"], "--injected-fault: `nap=5ms` is not an injected fault (hint: "),
        (&["--json", "--csv"], "cannot be used with"),
        (&["what"], "unexpected argument 'what'"),
    ] {
        place.hairpin(("round-trip", arguments)).refused().told(reason);
    }
    assert_eq!(names_in(&place.path(".")), ["tmp"], "a refused command creates no run folder");
}

#[test]
fn impossible_combinations_are_refused_with_the_reason() {
    let place = Place::new();
    let spin = "round-trip --transport tcp --waiting spin --placement same-cpu";
    let ran = place.hairpin(spin).refused();
    let reason = "cannot run tcp spin same-cpu: both ends share one CPU, so a spinning end would keep the other \
                  from running (hint: ";
    assert!(ran.stderr.contains(reason), "{ran:#?}");

    let ran = place.hairpin("round-trip --placement same-cpu --transport memory --ends processes").refused();
    assert!(ran.stderr.contains("it joins two threads of one process only (hint: use --ends threads)"), "{ran:#?}");

    let ran = place.hairpin("round-trip --transport icmp --placement cross-cpu");
    // If ping sockets are not allowed, that is the reason.
    assert!(ran.refused().stderr.contains("cannot run icmp"));
}

#[test]
fn impossible_combinations_are_skipped_if_others_can_run() {
    let place = Place::new();
    let run = place.json(
        "round-trip --transport tcp,pipe,memory --placement same-cpu --ends processes \
        --waiting block,spin --rounds 1 --count 20",
    );
    let labels: Vec<&str> = list(&run["cases"]).iter().map(|case| text(&case["label"])).collect();
    assert_eq!(labels, ["tcp block same-cpu", "pipe block same-cpu"]);
    let skipped: Vec<(&str, &str)> =
        list(&run["skipped"]).iter().map(|one| (text(&one["transport"]), text(&one["reason"]))).collect();
    let spinning = "both ends share one CPU, so a spinning end would keep the other from running";
    for (transport, reason) in [("tcp", spinning), ("pipe", spinning), ("memory", "it joins two threads")] {
        assert!(skipped.iter().any(|(name, why)| *name == transport && why.starts_with(reason)), "{skipped:?}");
    }
}

/// A few quick rounds of two transports.
const QUICK: &str = "round-trip --placement same-cpu --transport pipe,unix-stream --rounds 2 --count 50";

#[test]
fn without_a_terminal_nothing_is_coloured() {
    let place = Place::new();
    let shown = |arguments: &str, environment: &[(&str, &str)]| {
        let mut command = place.command(PROGRAM);
        let ran = Running::start(command.args(arguments.words()).envs(environment.iter().copied())).end();
        ran.stdout + &ran.stderr
    };
    let escapes = |shown: &str| shown.matches('\x1b').count();
    assert_eq!(escapes(&shown(&format!("{QUICK} --out run"), &[])), 0);
    for arguments in ["report run", "round-trip --placement same-cpu --transport tpc", "list", "nothing"] {
        assert_eq!(escapes(&shown(arguments, &[])), 0, "{arguments:?}");
        let (force, no) = (("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1"));
        assert_eq!(escapes(&shown(arguments, &[force, no])), 0, "{arguments:?}");
    }
    // With forced colour, the output has escapes, so the checks above would find them.
    assert!(escapes(&shown("report run", &[("CLICOLOR_FORCE", "1")])) > 0);
    assert!(escapes(&shown("round-trip --placement same-cpu --transport tpc", &[("CLICOLOR_FORCE", "1")])) > 0);
}

#[test]
fn a_report_fits_its_columns() {
    let place = Place::new();
    place.hairpin((QUICK, "--out run")).with_code(0);
    for (columns, widest) in [(None, 100), (Some("80"), 80)] {
        let mut command = place.command(PROGRAM);
        command.args(["report", "run"]).envs(columns.map(|columns| ("COLUMNS", columns)));
        let shown = Running::start(&mut command).end().with_code(0).stdout;
        // A printed command may be wider, because a line break could change its meaning.
        let too_wide = |line: &&str| line.chars().count() > widest && !line.contains("hairpin ");
        assert_eq!(shown.lines().find(too_wide), None, "{columns:?}");
        assert!(shown.contains("unix-stream") && shown.contains("p50"), "{shown}");
    }
}

#[test]
fn standard_output_holds_the_answer_and_standard_error_the_rest() {
    let place = Place::new();
    let ran = place.hairpin((QUICK, "--json --out json")).with_code(0);
    assert_eq!(ran.json()["state"], "complete");
    ran.told("Run folder  json").told("Report      json/report.html");
    let files = names_in(&place.path("json"));
    assert_eq!(files, ["latency.hlog", "report.html", "rounds.jsonl", "run.json", "samples.parquet"]);

    let ran = place.hairpin(QUICK).with_code(0);
    let folders = names_in(&place.path("hairpin-runs"));
    assert!(folders.len() == 1 && folders[0].ends_with("-round-trip"), "{folders:?}");
    assert!(ran.stderr.contains(&format!("Run folder  hairpin-runs/{}", folders[0])), "{ran:#?}");
}

#[test]
fn csv_has_a_row_for_each_case_or_for_each_sample_kept() {
    let place = Place::new();
    // Measures an open loop, in which a message may be sent late.
    let run = place.json((QUICK, "--rate 20k --out run"));
    let cases = list(&run["cases"]);
    let (names, rows) = table(&place.hairpin("report run --csv").with_code(0).stdout);
    assert_eq!(rows.len(), cases.len());
    for (row, case) in rows.iter().zip(cases) {
        let cell = |name: &str| row[place_of(&names, name)].as_str();
        assert_eq!((cell("case_id"), cell("samples"), cell("sent")), (text(&case["id"]), "100", "100"));
        let p50: f64 = cell("latency_p50_ns").parse().expect("a figure");
        assert_eq!(Some(p50), case["latency_ns"]["p50"]["value"].as_f64());
        assert_eq!(cell("connections"), "1");
    }
    assert!(!names.iter().any(|name| name.starts_with("latency_p99")), "100 samples have no p99: {names:?}");

    let (names, rows) = table(&place.hairpin("report run --csv=samples").with_code(0).stdout);
    let rounds = rounds(&place.path("run"));
    let kept: u64 = rounds.iter().filter_map(|round| round["outcome"]["flows"][0]["samples_kept"].as_u64()).sum();
    assert_eq!(rows.len() as u64, kept);
    let measured = rows.iter().filter(|row| row[place_of(&names, "warm_up")] == "false").count();
    assert_eq!(measured, 2 * 2 * 50);
    let number = |row: &[String], name: &str| row[place_of(&names, name)].parse::<u64>().expect("a number");
    for row in &rows {
        assert_eq!(row[place_of(&names, "fate")], "received");
        assert_eq!(number(row, "latency_ns"), number(row, "received_ns") - number(row, "due_ns"));
        let round = &rounds[usize::try_from(number(row, "round")).expect("small")];
        assert_eq!(row[place_of(&names, "case_id")], text(&round["case_id"]));
    }
}

/// A CSV text as column names and rows; each row must have a cell for each name.
fn table(csv: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let cells = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
    let names = cells(reader.headers().expect("there is a header"));
    let rows = reader.records().map(|record| cells(&record.expect("each row has a cell for each name"))).collect();
    (names, rows)
}

fn place_of(names: &[String], name: &str) -> usize {
    names.iter().position(|one| one == name).unwrap_or_else(|| panic!("no column {name} in {names:?}"))
}

#[test]
fn a_run_keeps_as_many_samples_as_asked_and_counts_all() {
    let place = Place::new();
    let (_, rows) = table(&place.hairpin((QUICK, "--csv=samples --keep-samples 20")).stdout);
    assert_eq!(rows.len(), 2 * 2 * 20, "two cases, two rounds");
    let run = place.json((QUICK, "--keep-samples 0 --out none"));
    for case in list(&run["cases"]) {
        assert_eq!(case["flows"][0]["samples"], 100, "the histograms count messages without samples too");
    }
    let files = rounds(&place.path("none"));
    assert!(files.iter().all(|round| round["outcome"]["flows"][0]["samples_kept"] == 0), "{files:?}");
}
