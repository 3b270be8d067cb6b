//! A run survives its folder: what was appended is read back, whatever was cut short.

use std::fs;

use hairpin_model::case::Case;
use hairpin_model::environment::Environment;
use hairpin_model::ledger::Ledger;
use hairpin_model::round::{Extent, Measured, Outcome, RoundOrder, RoundRecord};
use hairpin_model::run::{FORMAT, Plan, Run, State, Tool};
use hairpin_model::samples::{Fate, Samples};
use hairpin_model::summary::RoundFigures;

use super::{RunFolder, StoreError};
use crate::recorder::{Recorder, Stamps};

fn run(state: State) -> Run {
    Run {
        format: FORMAT,
        tool: Tool::default(),
        command_line: Vec::new(),
        started_unix_s: 1,
        duration_ns: 0,
        state,
        seed: 7,
        plan: Plan::default(),
        environment: Environment::default(),
        cases: Vec::new(),
        comparisons: Vec::new(),
        findings: Vec::new(),
        skipped: Vec::new(),
        unsaved: Vec::new(),
        rounds: Vec::new(),
    }
}

fn record(number: u32, samples: &Samples) -> RoundRecord {
    let case = Case::ping_pong("udp");
    let order = RoundOrder {
        case: case.clone(),
        purpose: hairpin_model::round::Purpose::Timed,
        block: 0,
        extent: Extent::Count(3),
        warm_up: Extent::Count(1),
        timeout_ns: 1,
        keep_samples: 3,
        allow_unmet_options: false,
        port: 0,
    };
    let measured = Measured {
        figures: RoundFigures::default(),
        ledger: Ledger { sent: samples.measured, received: samples.latency.len(), ..Ledger::default() }.closed(),
        setup_ns: 1,
        first_message_ns: 2,
        duration_ns: 3,
        client: hairpin_model::round::EndReport::default(),
        echo: None,
        noise: hairpin_model::round::Noise::default(),
        samples_file: None,
        samples_kept: samples.kept() as u64,
        exchange_counts: None,
        traced: None,
        trace_file: None,
        interrupted: false,
    };
    RoundRecord { number, started_ns: 5, case_id: case.id(), order, outcome: Outcome::Measured(Box::new(measured)) }
}

/// One warm-up message, then four of which one is lost and one is beyond the capacity.
fn samples(open_loop: bool) -> Samples {
    let mut recorder = Recorder::new(4, 1, open_loop);
    let stamps = |sequence: u64, fate| Stamps {
        sequence,
        due_ns: sequence * 1000,
        sent_ns: sequence * 1000 + 10,
        received_ns: sequence * 1000 + 110,
        fate,
    };
    recorder.record(stamps(0, Fate::Received));
    recorder.begin_measuring();
    recorder.record(stamps(1, Fate::Received));
    recorder.record(stamps(2, Fate::Lost));
    recorder.record(stamps(3, Fate::Late));
    recorder.record(stamps(4, Fate::Received));
    recorder.finish(0)
}

#[test]
fn rounds_and_samples_are_read_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunFolder::create(folder.path()).unwrap();
    store.write_run(&run(State::Complete)).unwrap();
    let originals = [samples(false), samples(true)];
    let mut records = Vec::new();
    for (number, samples) in originals.iter().enumerate() {
        let mut record = record(u32::try_from(number).unwrap(), samples);
        store.append(&mut record, Some(samples)).unwrap();
        records.push(record);
    }
    let (store, run) = RunFolder::open(folder.path()).unwrap();
    assert_eq!(run.rounds, records);
    let mut read = store.samples().unwrap();
    for (record, original) in records.iter().zip(&originals) {
        let back = read(record).unwrap().unwrap();
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
fn a_killed_run_loses_at_most_the_line_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunFolder::create(folder.path()).unwrap();
    store.write_run(&run(State::Running)).unwrap();
    let samples = samples(false);
    store.append(&mut record(0, &samples), Some(&samples)).unwrap();
    let path = folder.path().join("rounds.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    let (_, run) = RunFolder::open(folder.path()).unwrap();
    assert_eq!(run.rounds.len(), 1);
}

#[test]
fn damage_in_a_complete_run_is_an_error_that_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunFolder::create(folder.path()).unwrap();
    store.write_run(&run(State::Complete)).unwrap();
    fs::write(folder.path().join("rounds.jsonl"), "{}\n").unwrap();
    let error = RunFolder::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn a_run_is_never_overwritten_and_no_run_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunFolder::create(folder.path()).unwrap();
    assert!(matches!(RunFolder::open(folder.path()), Err(StoreError::NoRun { .. })));
    store.write_run(&run(State::Running)).unwrap();
    assert!(matches!(RunFolder::create(folder.path()), Err(StoreError::Occupied(_))));
}

#[test]
fn a_full_disk_is_told_and_leaves_what_was_saved() {
    // /dev/full answers every write with ENOSPC.
    let error = super::append_whole(std::path::Path::new("/dev/full"), b"line\n").unwrap_err();
    assert!(error.to_string().contains("free some space"), "{error}");
}
