//! The samples of all rounds are merged into one file. If merging fails, each round keeps its own file.

use hairpin_model::samples::COLUMNS;
use hairpin_model::{Outcome, Samples};

use super::*;

/// A saved run of three rounds; the second is an open loop.
fn three_rounds() -> (tempfile::TempDir, RunFolder, Vec<RoundRecord>) {
    let (place, store) = new_run(State::Complete);
    let records = (0..3).map(|number| {
        let mut samples = samples(number % 2 == 1);
        // Values differ between rounds.
        samples.sent_ns.iter_mut().for_each(|sent_ns| *sent_ns += u64::from(number));
        let mut record = record(number, &samples);
        assert!(store.append(&mut record, &by_flow(&samples), None).unwrap().is_empty());
        record
    });
    let records = records.collect();
    (place, store, records)
}

fn files_of(records: &[RoundRecord]) -> Vec<Option<&str>> {
    let files = records.iter().map(|record| match &record.outcome {
        Outcome::Measured(measured) => measured.primary().samples_file.as_deref(),
        Outcome::Failed(_) => None,
    });
    files.collect()
}

/// Returns the values of each round, by row and column.
fn rows_of(store: &RunFolder, records: &[RoundRecord]) -> Vec<Vec<Vec<Option<u64>>>> {
    let mut rows = store.rows();
    let mut values = |record: &RoundRecord| {
        let samples = rows(record, record.order.case.primary()).unwrap();
        let row = |row| COLUMNS.iter().map(|column| (column.get)(&samples, row)).collect();
        (0..samples.kept()).map(row).collect()
    };
    records.iter().map(&mut values).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn merged_samples_are_those_of_the_rounds() {
    let (_place, store, mut records) = three_rounds();
    // An interrupted round has samples too; a failed one does not.
    measured(&mut records[1]).interrupted = true;
    let failure = hairpin_model::Failure::new(hairpin_model::FailureKind::Other, "no", "");
    records.push(RoundRecord { number: 3, outcome: Outcome::Failed(failure), ..records[0].clone() });
    let before = rows_of(&store, &records);
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4, 0]);
    store.merge_samples(&mut records).unwrap();
    assert_eq!(names_in(store.path()), ["latency.hlog", "rounds.jsonl", "run.json", "samples.parquet"]);
    let merged = Some("samples.parquet");
    assert_eq!(files_of(&records), [merged, merged, merged, None]);
    assert_eq!(rows_of(&store, &records), before);
    records.reverse();
    assert_eq!(rows_of(&store, &records), before.into_iter().rev().collect::<Vec<_>>(), "in reverse order");
    records.reverse();
    let (store, run) = RunFolder::open(store.path()).unwrap();
    assert_eq!(run.rounds, records);
    let mut read = store.samples().unwrap();
    let mut read = |record: &RoundRecord| read(record, record.order.case.primary()).unwrap().unwrap();
    let (first, third) = (read(&records[0]), read(&records[2]));
    assert_eq!((first.warm_up, first.received_ns, first.fate), (1, samples(false).received_ns, third.fate));
}

#[test]
fn rounds_keep_their_files_if_merging_fails() {
    let (_place, store, mut records) = three_rounds();
    let before = (records.clone(), rows_of(&store, &records));
    fs::remove_file(store.path().join("rounds.jsonl")).unwrap();
    fs::create_dir(store.path().join("rounds.jsonl")).unwrap();
    store.merge_samples(&mut records).unwrap_err();
    assert_eq!((records.clone(), rows_of(&store, &records)), before);
    assert_eq!(names_in(store.path()), ["latency.hlog", "rounds.jsonl", "run.json", "samples"]);

    let (_place, store, mut records) = three_rounds();
    fs::create_dir(store.path().join("samples.parquet")).unwrap();
    let error = store.merge_samples(&mut records).unwrap_err().to_string();
    assert!(error.contains("cannot write") && error.contains("samples.parquet: Is a directory"), "{error}");
    assert_eq!(rows_of(&store, &records), before.1);
    assert_eq!(names_in(&store.path().join("samples")).len(), 3);
}

#[test]
fn a_wrong_round_number_or_a_repeated_row_group_is_an_error() {
    let (_place, store, mut records) = three_rounds();
    store.merge_samples(&mut records).unwrap();
    records[0].number = 7;
    let error = store.rows()(&records[0], records[0].order.case.primary()).unwrap_err().to_string();
    assert!(error.contains("samples.parquet: Parquet error: the row count differs from rounds.jsonl"), "{error}");

    // The same row group is in the merged file twice.
    let (_place, store, mut records) = three_rounds();
    measured(&mut records[1]).primary_mut().samples_file = Some("samples/round-000000.parquet".to_owned());
    store.merge_samples(&mut records).unwrap();
    let error = store.rows()(&records[0], records[0].order.case.primary()).unwrap_err().to_string();
    let why = "samples.parquet: Parquet error: a flow of a round has more than one row group";
    assert!(error.contains(why), "{error}");
}

#[test]
fn rounds_without_samples_leave_no_file() {
    let (_place, store) = new_run(State::Complete);
    let mut samples = Samples { measured: 1, ..Samples::with_rows(0) };
    samples.latency.saturating_record(8);
    let mut records = [record(0, &samples)];
    store.append(&mut records[0], &by_flow(&samples), None).unwrap();
    assert_eq!(files_of(&records), [None]);
    store.merge_samples(&mut records).unwrap();
    assert_eq!(names_in(store.path()), ["latency.hlog", "rounds.jsonl", "run.json"]);
    let samples = store.samples().unwrap()(&records[0], records[0].order.case.primary()).unwrap().unwrap();
    assert_eq!(samples.latency.len(), 1, "the histogram counts all messages");
}
