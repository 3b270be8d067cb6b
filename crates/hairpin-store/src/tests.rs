//! Saving a run: everything that was appended is read back, even after a truncation.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use hairpin_model::latency_budget::MAX_TRIPS;
use hairpin_model::run::State;
use hairpin_model::samples::{COLUMNS, Fate};
use hairpin_model::{Capture, Column, RoundRecord, RoundTrace, Run, SampledRound, SampledTrip, Tool};

pub(super) mod fixtures;
mod merging;
mod several_flows;

use self::fixtures::{by_flow, captured, measured, record, run, samples, trace, trace_and_capture, traced};
use super::error::MAKE;
use super::{Evidence, Listing, NotRemoved, RunFolder, StoreError, columns, folder, limits, write_named};

/// A new run in a folder `run`.
pub(super) fn new_run(state: State) -> (tempfile::TempDir, RunFolder) {
    let place = tempfile::tempdir().unwrap();
    let store = RunFolder::create(&place.path().join("run")).unwrap();
    store.write_run(&run_of_this_tool(state)).unwrap();
    (place, store)
}

#[test]
fn rounds_and_samples_are_read_back_as_they_were() {
    let (_place, store) = new_run(State::Complete);
    let originals = [samples(false), samples(true)];
    let mut records = Vec::new();
    for (number, samples) in originals.iter().enumerate() {
        let mut record = record(u32::try_from(number).unwrap(), samples);
        assert!(store.append(&mut record, &by_flow(samples), None).unwrap().is_empty());
        records.push(record);
    }
    let (store, run) = RunFolder::open(store.path()).unwrap();
    assert_eq!(run.rounds, records);
    let mut read = store.samples().unwrap();
    for (record, original) in records.iter().zip(&originals) {
        let back = read(record, record.order.case.primary()).unwrap().unwrap();
        assert_eq!(back.sequence, original.sequence);
        assert_eq!(back.due_ns, original.due_ns);
        assert_eq!(back.sent_ns, original.sent_ns);
        assert_eq!(back.received_ns, original.received_ns);
        assert_eq!(back.fate, original.fate);
        assert_eq!(back.warm_up, 1);
        assert_eq!(back.latency, original.latency);
        assert_eq!(back.latency.len(), 3, "the message beyond the capacity is in the histogram");
        assert_eq!(back.service, original.service);
        assert_eq!(back.lateness, original.lateness);
    }
}

#[test]
fn a_column_that_an_earlier_version_did_not_write_has_its_default() {
    let (_place, store, record) = saved();
    let file = columns::SamplesFile::open(store.files(), "samples/round-000000.parquet").unwrap();
    let sequence = COLUMNS.iter().find(|column| column.name == "sequence").unwrap();
    let columns = |default| [Column { name: "added_later", default, ..*sequence }];
    let read = |default| file.read(&record, record.order.case.primary(), 4, &columns(default));
    assert_eq!(read(Some(7)).unwrap().sequence, [7; 4]);
    let error = read(None).unwrap_err().to_string();
    assert!(error.contains("it lacks the column added_later"), "{error}");
}

#[test]
fn an_answer_without_its_time_and_a_time_without_an_answer_are_damage() {
    let (_place, store, record) = saved();
    let file = columns::SamplesFile::open(store.files(), "samples/round-000000.parquet").unwrap();
    for fate in Fate::ALL {
        let mut columns = COLUMNS.to_vec();
        let place = columns.iter().position(|column| column.name == "fate").unwrap();
        columns[place].set = match fate {
            Fate::Lost => |samples, row, _| {
                samples.fate[row] = Fate::Lost;
                true
            },
            _ => |samples, row, _| {
                samples.fate[row] = Fate::Received;
                true
            },
        };
        let error = file.read(&record, record.order.case.primary(), 4, &columns).unwrap_err().to_string();
        assert!(error.contains("it lacks received_ns in exactly the rows with a value"), "{error}");
    }
}

#[test]
fn a_killed_run_loses_at_most_the_line_in_flight() {
    let (_place, store) = new_run(State::Running);
    let samples = samples(false);
    store.append(&mut record(0, &samples), &by_flow(&samples), None).unwrap();
    let path = store.path().join("rounds.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    let (_, run) = RunFolder::open(store.path()).unwrap();
    assert_eq!(run.rounds.len(), 1);
}

#[test]
fn damage_in_a_complete_run_is_an_error_that_names_the_line() {
    let (_place, store) = new_run(State::Complete);
    fs::write(store.path().join("rounds.jsonl"), "{}\n").unwrap();
    let error = RunFolder::open(store.path()).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn a_run_is_never_overwritten_and_a_missing_run_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunFolder::create(folder.path()).unwrap();
    assert!(matches!(RunFolder::open(folder.path()), Err(StoreError::NoRun { .. })));
    store.write_run(&run(State::Running)).unwrap();
    assert!(matches!(RunFolder::create(folder.path()), Err(StoreError::Occupied(_))));
}

#[test]
fn a_full_disk_is_reported_and_keeps_the_saved_rounds() {
    // Every write to /dev/full fails with ENOSPC.
    let mut full = fs::OpenOptions::new().append(true).open("/dev/full").unwrap();
    let source = folder::append_whole(&mut full, b"line\n").unwrap_err();
    let error = StoreError::File { operation: "write", path: "rounds.jsonl".into(), source };
    assert!(error.to_string().contains("free some space"), "{error}");
}

#[test]
fn only_errors_of_a_new_run_suggest_another_folder() {
    let message = |operation| {
        let source = io::ErrorKind::ReadOnlyFilesystem.into();
        StoreError::File { operation, path: "run".into(), source }.to_string()
    };
    assert!(message(MAKE).contains("with --out"), "{}", message(MAKE));
    let other = message("write");
    assert!(other.ends_with("(hint: use a copy of the run that you can read and write)"), "{other}");
}

#[test]
fn a_trace_and_its_capture_are_read_back_and_untraced_rounds_leave_no_folders() {
    let (_place, store) = new_run(State::Complete);
    let samples = samples(false);
    let mut plain = record(0, &samples);
    store.append(&mut plain, &by_flow(&samples), None).unwrap();
    assert!(!store.path().join("traces").exists() && !store.path().join("captures").exists());

    let mut with_capture = traced(1, &samples);
    let left_out = store
        .append(&mut with_capture, &by_flow(&samples), Some(Evidence::Trace(trace(), Some(b"packets".to_vec()))))
        .unwrap();
    assert!(left_out.is_empty(), "{left_out:?}");
    let saved = captured("captures/round-000001.pcapng", 9);
    assert_eq!(trace_and_capture(&with_capture), (Some("traces/round-000001.json"), &saved));
    assert_eq!(fs::read(store.path().join("captures/round-000001.pcapng")).unwrap(), b"packets");

    let skipped = Capture::Skipped { reason: "no privilege".to_owned() };
    let mut without_capture = traced(2, &samples);
    let evidence = Evidence::Trace(RoundTrace { capture: skipped.clone(), ..trace() }, None);
    store.append(&mut without_capture, &by_flow(&samples), Some(evidence)).unwrap();
    assert_eq!(trace_and_capture(&without_capture), (Some("traces/round-000002.json"), &skipped));

    let (store, run) = RunFolder::open(store.path()).unwrap();
    assert_eq!(run.rounds, [plain, with_capture, without_capture]);
    assert_eq!(store.trace_of(&run.rounds[0]).unwrap(), None);
    assert_eq!(store.trace_of(&run.rounds[1]).unwrap(), Some(RoundTrace { capture: saved, ..trace() }));
    assert_eq!(store.trace_of(&run.rounds[2]).unwrap(), Some(RoundTrace { capture: skipped, ..trace() }));

    fs::write(store.path().join("traces/round-000001.json"), "{").unwrap();
    assert!(matches!(store.trace_of(&run.rounds[1]), Err(StoreError::Damaged { .. })));
    fs::remove_file(store.path().join("traces/round-000001.json")).unwrap();
    let error = store.trace_of(&run.rounds[1]).unwrap_err().to_string();
    assert!(error.contains("traces/round-000001.json: No such file or directory"), "{error}");
}

#[test]
fn sampled_round_trips_are_read_back_and_damage_is_an_error() {
    let (_place, store) = new_run(State::Complete);
    let samples = samples(false);
    let trip = |sequence| SampledTrip { sequence, client: [Some(-7); 9].into(), server: None };
    let budget = SampledRound { server_has_own_clock: true, trips: (0..5).map(trip).collect() };
    let mut stamped = record(0, &samples);
    let evidence = Evidence::Budget(budget.clone());
    assert!(store.append(&mut stamped, &by_flow(&samples), Some(evidence.clone())).unwrap().is_empty());
    assert_eq!(measured(&mut stamped).budget_file.as_deref(), Some("budgets/round-000000.json"));
    // Without room for the round trips, the record is saved without them.
    fs::remove_dir_all(store.path().join("budgets")).unwrap();
    fs::write(store.path().join("budgets"), "a file where the folder should be").unwrap();
    let mut without = record(1, &samples);
    let left_out = store.append(&mut without, &by_flow(&samples), Some(evidence)).unwrap();
    assert!(left_out.len() == 1 && left_out[0].to_string().contains("budgets: Not a directory"), "{left_out:?}");

    let (store, run) = RunFolder::open(store.path()).unwrap();
    assert_eq!(run.rounds, [stamped, without]);
    assert_eq!(store.budget_of(&run.rounds[1]).unwrap(), None);
    fs::remove_file(store.path().join("budgets")).unwrap();
    fs::create_dir(store.path().join("budgets")).unwrap();
    let read = |content: &str| {
        fs::write(store.path().join("budgets/round-000000.json"), content).unwrap();
        store.budget_of(&run.rounds[0])
    };
    let whole = serde_json::to_string(&budget).unwrap();
    assert_eq!(read(&whole).unwrap(), Some(budget));
    let many = SampledRound { trips: vec![trip(1); MAX_TRIPS + 1], ..SampledRound::default() };
    let too_large = whole.replace("-7", "-7000000000000000");
    for damaged in
        [&whole[..whole.len() / 2], &too_large, &whole.replace("[-7,", "["), &serde_json::to_string(&many).unwrap()]
    {
        let error = read(damaged).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }) && error.to_string().contains("budgets/"), "{error}");
    }
}

#[test]
fn a_capture_that_cannot_be_saved_loses_nothing_else() {
    let (_place, store) = new_run(State::Complete);
    let samples = samples(false);
    let in_the_way = |file: &str| fs::write(store.path().join(file), "a file where the folder should be").unwrap();
    let mut records = [traced(0, &samples), traced(1, &samples)];
    in_the_way("captures");
    let left_out = store
        .append(&mut records[0], &by_flow(&samples), Some(Evidence::Trace(trace(), Some(vec![7; 100]))))
        .unwrap();
    assert_eq!(left_out.len(), 1);
    let cause = left_out[0].to_string();
    assert!(cause.contains("captures: Not a directory"), "{cause}");
    let skipped = Capture::Skipped { reason: cause };
    assert_eq!(trace_and_capture(&records[0]), (Some("traces/round-000000.json"), &skipped));

    fs::remove_dir_all(store.path().join("traces")).unwrap();
    in_the_way("traces");
    let left_out = store
        .append(&mut records[1], &by_flow(&samples), Some(Evidence::Trace(trace(), Some(vec![7; 100]))))
        .unwrap();
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert_eq!(trace_and_capture(&records[1]), (None, &Capture::Skipped { reason: left_out[0].to_string() }));
    fs::remove_file(store.path().join("captures")).unwrap();

    let (store, run) = RunFolder::open(store.path()).unwrap();
    assert_eq!(run.rounds, records);
    assert_eq!(store.trace_of(&run.rounds[1]).unwrap(), None);
    let mut rows = store.rows();
    let mut rows = |record: &RoundRecord| rows(record, record.order.case.primary()).unwrap().kept();
    assert_eq!([rows(&records[0]), rows(&records[1])], [4, 4], "the samples were saved");
    assert!(!store.path().join("captures").exists(), "no partial file and no empty folder is left");
}

#[test]
fn the_capture_of_a_round_that_cannot_be_saved_is_marked_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunFolder::create(folder.path()).unwrap();
    let samples = samples(false);
    for in_the_way in ["samples/round-000000.parquet", "rounds.jsonl"] {
        let path = folder.path().join(in_the_way);
        drop(fs::remove_file(&path));
        fs::create_dir(&path).unwrap();
        let mut record = traced(0, &samples);
        let error = store
            .append(&mut record, &by_flow(&samples), Some(Evidence::Trace(trace(), Some(vec![7; 100]))))
            .unwrap_err();
        let StoreError::File { path: named, .. } = &error else { panic!("{error:?}") };
        assert_eq!(named, &path);
        assert_eq!(trace_and_capture(&record), (None, &Capture::Skipped { reason: error.to_string() }));
        for sort in ["traces", "captures"] {
            assert!(!folder.path().join(sort).exists(), "{sort}");
        }
        fs::remove_dir(&path).unwrap();
    }
}

#[test]
fn devices_that_the_user_names_are_written_to_directly() {
    let folder = tempfile::tempdir().unwrap();
    let error = write_named(Path::new("/dev/full"), b"page").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    write_named(&pipe, b"page").unwrap();
    assert!(!fs::metadata(&pipe).unwrap().is_file());
    let mut received = [0; 4];
    reader.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"page");
}

fn saved() -> (tempfile::TempDir, RunFolder, RoundRecord) {
    let (place, store) = new_run(State::Complete);
    let samples = samples(false);
    let mut record = traced(0, &samples);
    store.append(&mut record, &by_flow(&samples), Some(Evidence::Trace(trace(), Some(b"packets".to_vec())))).unwrap();
    (place, store, record)
}

#[test]
fn a_run_is_private_to_the_user() {
    let (_place, store, _) = saved();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(store.path()), 0o700);
    for sort in ["samples", "traces", "captures"] {
        assert_eq!(mode(&store.path().join(sort)), 0o700, "{sort}");
        let file = fs::read_dir(store.path().join(sort)).unwrap().next().unwrap().unwrap().path();
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
    for file in ["run.json", "rounds.jsonl", "latency.hlog"] {
        assert_eq!(mode(&store.path().join(file)), 0o600, "{file}");
    }
}

#[test]
fn no_file_that_a_round_names_is_read_outside_the_folder() {
    let (place, store, mut record) = saved();
    let outside = place.path().join("outside");
    fs::rename(store.path().join("samples/round-000000.parquet"), &outside).unwrap();
    symlink(&outside, store.path().join("samples/link.parquet")).unwrap();
    symlink(place.path(), store.path().join("up")).unwrap();
    let absolute = outside.display().to_string();
    for name in ["../outside", &absolute, "samples/link.parquet", "up/outside", "samples", "/dev/zero", "x\ny\u{1b}"]
    {
        let measured = measured(&mut record);
        measured.primary_mut().samples_file = Some(name.to_owned());
        measured.trace_file = Some(name.to_owned());
        measured.budget_file = Some(name.to_owned());
        let errors = [
            store.rows()(&record, record.order.case.primary()).unwrap_err(),
            store.samples().unwrap()(&record, record.order.case.primary())
                .map(drop)
                .err()
                .unwrap_or_else(|| store.rows()(&record, record.order.case.primary()).unwrap_err()),
            store.trace_of(&record).unwrap_err(),
            store.budget_of(&record).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, StoreError::File { .. }), "{name}: {error:?}");
            assert!(!error.to_string().contains(['\n', '\u{1b}']), "{error}");
        }
    }
}

#[test]
fn the_stated_number_of_samples_limits_what_is_read() {
    let (_place, store, mut record) = saved();
    for (kept, why) in
        [(5, "the row count differs from rounds.jsonl"), (limits::MAX_RUN_SAMPLES + 1, "more than 40000000 samples")]
    {
        measured(&mut record).primary_mut().samples_kept = kept;
        let error = store.rows()(&record, record.order.case.primary()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn rounds_that_would_fill_the_memory_are_refused_while_they_are_read() {
    let (_place, store, record) = saved();
    let line = serde_json::to_string(&record).unwrap();
    let refused = |text: &str| {
        fs::write(store.path().join("rounds.jsonl"), text).unwrap();
        RunFolder::open(store.path()).unwrap_err().to_string()
    };
    let long = "x".repeat(usize::try_from(limits::MAX_LINE_BYTES).unwrap());
    assert!(refused(&format!("{line}\n{long}\n")).contains("line 2: it is too long"));
    let lost: Vec<String> = (0..300).map(|cause| format!("\"{cause}\":1")).collect();
    let crowded = line.replace("\"lost\":{", &format!("\"lost\":{{{}", lost.join(",")));
    assert!(crowded != line && refused(&crowded).contains("more than 256 entries"));
    let many = line.replace("\"samples_kept\":", "\"samples_kept\":1000000000");
    assert!(many != line && refused(&many).contains("more than 10000000 samples"));
    let ids = |at: usize| line.replacen(&record.case_id, &format!("{at:016x}"), 1) + "\n";
    assert!(refused(&(0..2000).map(ids).collect::<String>()).contains("more than 2000 cases"));
    let values = format!("[{}0]", "0,".repeat(3 << 20));
    fs::write(store.path().join("run.json"), values).unwrap();
    let error = RunFolder::open(store.path()).unwrap_err().to_string();
    assert!(error.contains("more than 2097152 values"), "{error}");
}

/// The head of a run that `hairpin` itself wrote.
fn run_of_this_tool(state: State) -> Run {
    Run { tool: Tool { name: hairpin_model::run_header::TOOL.to_owned(), ..Tool::default() }, ..run(state) }
}

#[test]
fn a_run_that_has_changed_or_is_being_written_is_not_removed() {
    let (place, store) = new_run(State::Complete);
    let mut run = run_of_this_tool(State::Complete);
    let listing = Listing::read(place.path()).unwrap();
    assert!(listing.runs[0].is_being_written);
    assert!(matches!(listing.remove(&listing.runs[0]), Err(NotRemoved::BeingWritten)));
    let writer = store.clone();
    drop(store);
    assert!(matches!(listing.remove(&listing.runs[0]), Err(NotRemoved::BeingWritten)), "clones hold the lock too");
    drop(writer);
    let (store, _) = RunFolder::open(&place.path().join("run")).unwrap();
    run.started_unix_s += 1;
    store.write_run(&run).unwrap();
    assert!(matches!(listing.remove(&listing.runs[0]), Err(NotRemoved::Changed)));
    let listing = Listing::read(place.path()).unwrap();
    fs::rename(place.path().join("run"), place.path().join("elsewhere")).unwrap();
    symlink("elsewhere", place.path().join("run")).unwrap();
    assert!(matches!(listing.remove(&listing.runs[0]), Err(NotRemoved::System(_))));
    assert_eq!(fs::read_dir(place.path().join("elsewhere")).unwrap().count(), 4);
    fs::remove_file(place.path().join("run")).unwrap();
    fs::rename(place.path().join("elsewhere"), place.path().join("run")).unwrap();
    listing.remove(&listing.runs[0]).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}
