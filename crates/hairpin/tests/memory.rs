//! Memory stays bounded for any number of messages and connections.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Number of samples that a round keeps.
const KEPT: usize = 10_000;
const MESSAGES: usize = 100_000;

#[test]
fn a_round_of_many_messages_stays_under_100_mb() {
    let folder = tempfile::tempdir().expect("a folder for temporary files can be written to");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hairpin"));
    let plan = format!(
        "round-trip --transport pipe --placement same-cpu --rounds 1 --count {MESSAGES} --keep-samples {KEPT} --csv=samples --out run"
    );
    command.args(plan.split_whitespace());
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program can be started");
    let mut output = child.stdout.take().expect("piped");
    // The program prints the first sample after it has measured and saved everything. The samples exceed the capacity
    // of the pipe, so the program is still running when its memory is read.
    let (mut begin, mut rest) = ([0; 1], Vec::new());
    let first = output.read_exact(&mut begin);
    let peak_kb = peak_kb(child.id());
    let read = output.read_to_end(&mut rest);
    let code = child.wait().expect("it is our child").code();
    first.and(read).expect("its output can be read");
    assert_eq!(code, Some(0));

    let peak_kb = peak_kb.expect("the program was still running");
    assert!(peak_kb < 100_000, "{peak_kb} kB");
    let lines = rest.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines, 1 + KEPT, "a header and as many samples as are kept");
    let run = std::fs::read_to_string(folder.path().join("run/run.json")).expect("it was saved");
    let run: serde_json::Value = serde_json::from_str(&run).expect("it is JSON");
    let samples = run["cases"][0]["flows"][0]["samples"].as_u64().expect("a count");
    assert_eq!(samples, MESSAGES as u64);
    assert_eq!(run["cases"][0]["ledger"]["unexplained"], 0);
}

/// Only the comparison with a shorter round shows a leak of 64 bytes per message in the processes of a round.
#[test]
fn ten_times_the_messages_take_no_more_memory() {
    let most_kb = |messages: usize| {
        let folder = tempfile::tempdir().expect("a folder for temporary files can be written to");
        let plan = format!(
            "round-trip --transport pipe --placement same-cpu --rounds 1 --count {messages} --keep-samples {KEPT} --out run"
        );
        let (code, most_kb, _) = watched(&plan, folder.path());
        assert_eq!(code, Some(0));
        most_kb
    };
    // On a busy machine the shorter round can end before its memory is read.
    let mut trials = (0..5).map(|_| (most_kb(20_000), most_kb(200_000)));
    let found = trials.find(|(few_kb, many_kb)| *many_kb < few_kb + 6_000);
    assert!(found.is_some(), "all five long rounds took 6 MB more than short rounds");
}

/// The program, the process of the round and the server together.
#[test]
fn a_thousand_connections_stay_under_150_mb() {
    let folder = tempfile::tempdir().expect("a folder for temporary files can be written to");
    let plan =
        "message-rate --transport tcp --connections 1000 --batch 1 --duration 1s --rounds 1 --placement same-cpu";
    let (code, most_kb, most_processes) = watched(plan, folder.path());
    // On a busy machine the figures may be unusable.
    assert!([Some(0), Some(5)].contains(&code), "{code:?}");
    assert_eq!(most_processes, 3);
    assert!(most_kb < 150_000, "{most_kb} kB");
}

/// Runs a plan. Returns its exit code, and the maximum memory and number of its processes.
fn watched(plan: &str, folder: &Path) -> (Option<i32>, u64, usize) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hairpin"));
    command.args(plan.split_whitespace()).current_dir(folder);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    let (mut most_kb, mut most_processes) = (0, 0);
    let code = loop {
        let held: Vec<u64> = family(child.id()).into_iter().filter_map(peak_kb).collect();
        most_kb = most_kb.max(held.iter().sum());
        most_processes = most_processes.max(held.len());
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    (code, most_kb, most_processes)
}

/// A process and all its descendants.
fn family(id: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| std::fs::read_to_string(task.path().join("children")));
    let children: Vec<u32> =
        children.flat_map(|ids| ids.split(' ').flat_map(str::parse).collect::<Vec<_>>()).collect();
    std::iter::once(id).chain(children.into_iter().flat_map(family)).collect()
}

/// Peak resident memory of a process.
fn peak_kb(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
