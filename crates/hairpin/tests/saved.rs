//! The saved run: interrupted, shown again, computed again, and damaged.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    PROGRAM, Place, Running, copy, copy_as_another_run, document, edit_json, names_in, rounds, saved_rounds, signal,
    until,
};

#[test]
fn ctrl_c_ends_the_round_saves_and_reports() {
    for (name, ends) in [("INT", "processes"), ("TERM", "processes"), ("INT", "threads")] {
        let place = Place::new();
        let plan = format!(
            "round-trip --placement same-cpu --ends {ends} --transport tcp --rounds 500 \
            --duration 60ms --out run"
        );
        let mut running = place.start(&plan);
        until("a round is saved", || saved_rounds(&place.path("run")) > 0);
        running.busy_client();
        signal(name, running.id());
        let ran = running.end().with_code(130);
        assert!(ran.stdout.starts_with("PARTIAL RUN: stopped by Ctrl-C or SIGTERM; "), "SIG{name}: {ran:#?}");
        assert!(ran.stderr.contains("Run folder  run"), "SIG{name}: {ran:#?}");
        let run = place.json("report run");
        assert_eq!(run["state"], "interrupted");
        assert!(run["cases"][0]["rounds"].as_u64() > Some(0), "{run}");
        assert_eq!(place.hairpin("report run").with_code(0).stdout, ran.stdout, "the same output");
    }
}

#[test]
fn ctrl_c_does_not_wait_for_a_peer_that_does_not_answer() {
    for (transport, waiting) in [("udp", "block"), ("udp", "poll"), ("tcp", "block"), ("shm", "block")] {
        let place = Place::new();
        let plan = format!("round-trip --transport {transport} --waiting {waiting} --placement cross-cpu");
        let mut running = place.start((plan, "--duration 3600s --rounds 2 --timeout 600s --out run"));
        signal("STOP", running.busy_server());
        let began = Instant::now();
        signal("INT", running.id());
        let ran = running.end().with_code(130);
        // The round has 2 s; all other waits have the time-out of 600 s.
        assert!(began.elapsed() < Duration::from_secs(300), "{transport}, {waiting}: {ran:#?}");
        assert!(ran.stdout.starts_with("PARTIAL RUN: stopped by Ctrl-C or SIGTERM; "), "{ran:#?}");
        assert_eq!(saved_rounds(&place.path("run")), 1, "no other round is begun");
    }
}

#[test]
fn a_closed_terminal_does_not_end_a_run_under_nohup() {
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport tcp --rounds 2 --duration 300ms --out run";
    let script = format!("trap '' HUP; exec \"$0\" {plan}");
    let mut running = Running::start(place.command("sh").args(["-c", &script, PROGRAM]));
    running.busy_server();
    signal("HUP", running.id());
    running.end().with_code(0);
    assert_eq!(saved_rounds(&place.path("run")), 2);
}

/// Measures a run of two open-loop cases in `run`. Returns its output.
fn finished(place: &Place, format: &str) -> String {
    let plan = "round-trip --placement same-cpu --transport pipe,udp --rate 20000 --rounds 3 --count 400";
    place.hairpin((plan, ["--seed", "5", "--out", "run", format])).with_code(0).stdout
}

#[test]
fn a_report_is_what_the_run_printed() {
    for format in ["--quiet", "--json", "--csv"] {
        let place = Place::new();
        let printed = finished(&place, format);
        let again = match format {
            "--quiet" => place.hairpin("report run"),
            _ => place.hairpin(["report", "run", format]),
        };
        assert_eq!(again.with_code(0).stdout, printed, "{format}");
    }
}

#[test]
fn a_page_that_cannot_be_written_costs_nothing_else() {
    let place = Place::new();
    let printed = finished(&place, "--quiet");
    std::fs::remove_file(place.path("run/report.html")).expect("it is there");
    // Root may write anywhere, but no user can replace a folder by a file.
    std::fs::create_dir(place.path("run/report.html")).expect("the name is free");
    for command in ["report", "analyse"] {
        let ran = place.hairpin([command, "run"]).with_code(3);
        assert_eq!(ran.stdout, printed, "{command}");
        assert!(ran.stderr.contains("error: cannot write run/report.html: "), "{ran:#?}");
        assert_eq!(names_in(&place.path("run")).len(), 5, "no partial file: {:?}", names_in(&place.path("run")));
    }
    std::fs::remove_dir(place.path("run/report.html")).expect("it is empty");
    let ran = place.hairpin("report run --html /dev/full").with_code(3);
    assert_eq!(ran.stdout, printed);
    assert!(ran.stderr.contains("cannot write /dev/full: No space left"), "{ran:#?}");
}

#[test]
fn lost_output_never_has_exit_code_0() {
    let place = Place::new();
    finished(&place, "--quiet");
    copy_as_another_run(&place.path("run"), &place.path("again"));
    // No transport sends at this rate, so no figure can be used.
    let unusable =
        "round-trip --transport pipe --placement same-cpu --rate 5000000 --duration 20ms --rounds 1 --out late";
    place.hairpin((unusable, "--quiet")).with_code(5);
    copy_as_another_run(&place.path("late"), &place.path("later"));
    place.hairpin("compare late later").with_code(5);
    let commands = "--help; --version; round-trip --help; list; list --json; link list; link show lte; \
        link show lte --json; completions bash; man; claims; claims --json; report run; report run --json; \
        report run --csv; report run --csv=samples; analyse run; compare run again; compare run again --json; compare late later";
    for words in commands.split("; ") {
        let mut full = place.command("sh");
        full.args(["-c", "exec \"$0\" \"$@\" > /dev/full", PROGRAM]).args(words.split(' '));
        let ran = Running::start(&mut full).end();
        assert_eq!(ran.code, Some(3), "{words}: {ran:#?}");
        assert!(ran.stderr.contains("error: cannot write to standard output: No space left"), "{words}: {ran:#?}");
    }
}

#[test]
fn a_run_is_private_to_its_owner_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let mut open = place.command("sh");
    open.args(["-c", "umask 022 && exec \"$0\" \"$@\"", PROGRAM]);
    open.args("round-trip --placement same-cpu --transport pipe --rounds 1 --count 10 --quiet".split(' '));
    Running::start(&mut open).end().with_code(0);
    let run = place.path("hairpin-runs").join(&names_in(&place.path("hairpin-runs"))[0]);
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!([mode(&place.path("hairpin-runs")), mode(&run)], [0o700; 2]);
    for name in ["run.json", "rounds.jsonl", "latency.hlog", "report.html", "samples.parquet"] {
        assert_eq!(mode(&run.join(name)), 0o600, "{name}");
    }
}

#[test]
fn a_report_writes_the_page_again() {
    let place = Place::new();
    finished(&place, "--quiet");
    let page = |name: &str| std::fs::read_to_string(place.path(name)).expect("there is a page");
    let first = page("run/report.html");
    assert!(first.trim_start().starts_with("<!") && first.contains("udp"), "{first}");
    std::fs::write(place.path("run/report.html"), "damaged").expect("it can be written");
    place.hairpin("report run").with_code(0);
    assert_eq!(page("run/report.html"), first);
    place.hairpin("report run --html elsewhere.html").with_code(0).told("Report      elsewhere.html");
    assert_eq!(page("elsewhere.html"), first);
    let ran = place.hairpin("report run --html no/such/folder.html").with_code(2);
    assert!(ran.stderr.contains("cannot write no/such/folder.html: No such file"), "{ran:#?}");
}

#[test]
fn analysing_again_finds_the_same_figures() {
    let place = Place::new();
    let printed = document(&finished(&place, "--json"));
    let before = rounds(&place.path("run"));
    // Saves wrong figures, which must be replaced by figures computed from the samples.
    edit_json(&place.path("run/run.json"), |run| {
        run["cases"][0]["latency_ns"]["p50"]["value"] = 1.0.into();
        run["findings"] = Value::Array(Vec::new());
    });
    let text = std::fs::read_to_string(place.path("run/rounds.jsonl")).expect("rounds");
    let p50 = before[0]["outcome"]["flows"][0]["figures"]["latency_ns"]["p50"].to_string();
    std::fs::write(place.path("run/rounds.jsonl"), text.replace(&format!("\"p50\":{p50}"), "\"p50\":2.0"))
        .expect("fine");

    let again = place.json("analyse run");
    for (one, other) in
        printed["cases"].as_array().expect("cases").iter().zip(again["cases"].as_array().expect("cases"))
    {
        for quantity in ["latency_ns", "service_ns", "lateness_ns", "ledger", "curve", "modes", "round_points"] {
            assert_eq!(one[quantity], other[quantity], "{quantity}");
        }
    }
    assert_eq!(again, printed, "the whole run");
    assert_eq!(rounds(&place.path("run")), before, "the rounds are computed again too");
    assert_eq!(place.json("report run"), printed, "the run is saved");
}

#[test]
fn an_answer_is_written_again_when_a_run_is_opened_and_saved_texts_are_ignored() {
    let place = Place::new();
    let printed = finished(&place, "--quiet");
    let saved = place.json("report run");
    let with_other_words = |run: &mut Value| {
        run["answer"]["headline"] = json!("Others are faster.");
        run["answer"]["sentences"] = json!(["By far."]);
    };
    // Runs of earlier versions have no statements.
    let in_words_only = |run: &mut Value| {
        run["answer"] = json!({"headline": "Words of an earlier version.", "sentences": ["And more."]});
    };
    let without = |run: &mut Value| drop(run.as_object_mut().expect("an object").remove("answer"));
    for change in [with_other_words as fn(&mut Value), in_words_only, without] {
        edit_json(&place.path("run/run.json"), change);
        assert_eq!(place.json("report run"), saved);
        assert_eq!(place.hairpin("report run").with_code(0).stdout, printed);
    }
}

/// Returns the errors of a command for a run that `damage` has damaged. The command must not change the run.
fn says(command: &str, damage: impl FnOnce(&Path)) -> String {
    let place = Place::new();
    place.hairpin("round-trip --placement same-cpu --transport pipe --rounds 2 --count 50 --out run").with_code(0);
    damage(&place.path("run"));
    copy(&place.path("run"), &place.path("copy"));
    let ran = place.hairpin((command, "run")).refused();
    for name in ["run.json", "rounds.jsonl", "latency.hlog"] {
        let bytes = |folder: &str| std::fs::read(place.path(folder).join(name)).ok();
        assert_eq!(bytes("run"), bytes("copy"), "{command:?} changed {name}");
    }
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
    ran.stderr
}

fn cut_short(path: &Path) {
    let bytes = std::fs::read(path).expect("it was saved");
    std::fs::write(path, &bytes[..bytes.len() * 2 / 3]).expect("it can be written");
}

fn break_a_line(path: &Path) {
    let text = std::fs::read_to_string(path).expect("it was saved");
    let lines: Vec<&str> = text.lines().collect();
    let broken = lines.iter().enumerate().map(|(at, line)| if at == 1 { &line[..line.len() / 2] } else { line });
    std::fs::write(path, broken.collect::<Vec<_>>().join("\n") + "\n").expect("it can be written");
}

#[test]
fn a_complete_run_without_its_last_line_is_still_reported() {
    let place = Place::new();
    finished(&place, "--quiet");
    let file = place.path("run/rounds.jsonl");
    let text = std::fs::read_to_string(&file).expect("it was saved");
    std::fs::write(&file, &text[..text.len() - 40]).expect("it can be written");
    let ran = place.hairpin("report run").with_code(0);
    let told = "Not all was saved: the last line of rounds.jsonl is cut short.";
    assert_eq!(ran.stdout.matches(told).count(), 1, "{ran:#?}");
    assert!(!ran.stdout.contains("PARTIAL RUN"), "{ran:#?}");
    // The figures would lack the last round.
    place.hairpin("analyse run").refused().told("rounds.jsonl: its last line is cut short");
}

#[test]
fn damage_is_reported_with_its_place() {
    let samples = |run: &Path| run.join("samples.parquet");
    let said = says("analyse", |run| cut_short(&samples(run)));
    assert!(said.contains("cannot read run/samples.parquet: "), "{said}");
    assert!(said.contains("(hint: was it cut short or edited?"), "{said}");
    let said = says("analyse", |run| std::fs::write(samples(run), "nothing").expect("it can be written"));
    assert!(said.contains("cannot read run/samples.parquet: "), "{said}");
    let said = says("analyse", |run| std::fs::remove_file(samples(run)).expect("it was saved"));
    assert!(said.contains("run/samples.parquet: No such file"), "{said}");

    let said = says("analyse", |run| cut_short(&run.join("latency.hlog")));
    assert!(said.contains("cannot read run/latency.hlog: "), "{said}");
    let said = says("analyse", |run| std::fs::remove_file(run.join("latency.hlog")).expect("it was saved"));
    assert!(said.contains("run/latency.hlog: No such file"), "{said}");
    let said = says("analyse", |run| {
        let log = run.join("latency.hlog");
        let text = std::fs::read_to_string(&log).expect("it is text");
        std::fs::write(&log, text.replace("HISTF", "HISTG")).expect("it can be written");
    });
    assert!(said.contains("cannot read run/latency.hlog: "), "{said}");

    for command in ["report", "analyse"] {
        let said = says(command, |run| cut_short(&run.join("run.json")));
        assert!(said.contains("cannot read run/run.json: the file is not JSON: "), "{said}");
        let said = says(command, |run| break_a_line(&run.join("rounds.jsonl")));
        assert!(said.contains("cannot read run/rounds.jsonl: line 2: "), "{said}");
        let said = says(command, |run| std::fs::remove_file(run.join("run.json")).expect("it was saved"));
        assert!(said.contains("run holds no run: ") && said.contains("(hint: "), "{said}");
    }
    let said = says("report --json", |run| edit_json(&run.join("run.json"), |run| run["cases"] = "none".into()));
    assert!(said.contains("the run does not match format 3: "), "{said}");
}

#[test]
fn a_record_that_a_kill_truncated_is_skipped() {
    let place = Place::new();
    finished(&place, "--quiet");
    edit_json(&place.path("run/run.json"), |run| run["state"] = "running".into());
    let file = place.path("run/rounds.jsonl");
    let text = std::fs::read_to_string(&file).expect("it was saved");
    std::fs::write(&file, &text[..text.len() - 40]).expect("it can be written");
    let shown = place.hairpin("report run").with_code(0).stdout;
    assert!(shown.starts_with("PARTIAL RUN: still running, or killed; 5 of 6 rounds"), "{shown}");
}

#[test]
fn a_damaged_samples_file_is_reported_after_the_other_samples() {
    let place = Place::new();
    finished(&place, "--quiet");
    let file = place.path("run/samples.parquet");
    let mut bytes = std::fs::read(&file).expect("it was saved");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xff);
    std::fs::write(&file, bytes).expect("it can be written");
    let ran = place.hairpin("report run --csv=samples").with_code(2).told("cannot read run/samples.parquet: ");
    let of_round = |number: &str| ran.stdout.lines().filter(|line| line.starts_with(&format!("{number},"))).count();
    assert!(of_round("0") >= 400 && of_round("5") == 0, "{} {}", of_round("0"), of_round("5"));
}
