//! A run folder on a disk that fills up.

#[path = "../src/tests/fixtures.rs"]
mod fixtures;

use std::fs;
use std::path::Path;
use std::process::Command;

use hairpin_model::run::State;
use hairpin_model::{Capture, RoundTrace};
use hairpin_store::{Evidence, RunFolder};

use self::fixtures::{by_flow, run, samples, trace, trace_and_capture, traced};

/// Environment variable with the mount point of the small disk.
const SMALL_DISK: &str = "HAIRPIN_TEST_SMALL_DISK";

#[test]
fn a_disk_that_fills_while_evidence_is_saved_loses_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=64k none \"$0\" && exec \"$@\"";
    let in_namespace = |arguments: &[&std::ffi::OsStr]| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script]).arg(folder.path()).args(arguments).env(SMALL_DISK, folder.path());
        command.output()
    };
    if !in_namespace(&["true".as_ref()]).is_ok_and(|ran| ran.status.success()) {
        hairpin_testing::skip!("`unshare -rm` with a disk of its own is refused here");
    }
    let program = std::env::current_exe().unwrap();
    let test = "small_disk::child_on_a_small_disk";
    let arguments = ["--exact", test, "--ignored", "--nocapture"].map(std::ffi::OsStr::new);
    let ran = in_namespace(&[&[program.as_os_str()], &arguments[..]].concat()).unwrap();
    let passed = String::from_utf8_lossy(&ran.stdout).contains("1 passed");
    assert!(ran.status.success() && passed, "{ran:#?}");
}

#[test]
#[ignore = "child of a_disk_that_fills_while_evidence_is_saved_loses_no_record, which gives it a small disk"]
fn child_on_a_small_disk() {
    let disk = std::env::var(SMALL_DISK).expect("the other test sets it");
    let samples = samples(false);
    let (mut whole, mut without_capture, mut without_trace, mut line_found_no_room) = (0, 0, 0, 0);
    // The disk always has room for the record and its samples.
    for pages in 0..20 {
        for trace_pages in [0, 14] {
            let path = Path::new(&disk).join("run");
            let store = RunFolder::create(&path).unwrap();
            store.write_run(&run(State::Complete)).unwrap();
            let mut record = traced(0, &samples);
            let trace = RoundTrace { exchange_began_ns: vec![1; trace_pages * 2048], ..trace() };
            let evidence = Evidence::Trace(trace, Some(vec![7; pages * 4096]));
            let left_out = store.append(&mut record, &by_flow(&samples), Some(evidence)).unwrap();
            line_found_no_room += left_out.iter().filter(|error| error.to_string().contains("rounds.jsonl")).count();
            let (store, run) = RunFolder::open(&path).unwrap();
            assert_eq!(run.rounds, [record.clone()], "{pages} {left_out:?}");
            assert_eq!(store.rows()(&record, record.order.case.primary()).unwrap().kept(), 4);
            let capture = path.join("captures/round-000000.pcapng");
            let (file, outcome) = trace_and_capture(&record);
            assert_eq!(file.is_some(), path.join("traces/round-000000.json").exists());
            assert_eq!(matches!(outcome, Capture::Saved { .. }), capture.exists());
            match (file, outcome) {
                (Some(_), Capture::Saved { .. }) => whole += 1,
                (Some(_), Capture::Skipped { .. }) => without_capture += 1,
                (None, Capture::Skipped { .. }) => without_trace += 1,
                (None, Capture::Saved { .. }) => panic!("a capture without its trace"),
            }
            fs::remove_dir_all(&path).unwrap();
        }
    }
    assert!(whole > 0 && without_capture > 0 && without_trace > 0, "{whole} {without_capture} {without_trace}");
    assert!(line_found_no_room > 0, "the evidence never filled the disk");
}
