//! The samples of each flow of a round.

use hairpin_model::flow::FlowRole;
use hairpin_model::{Case, FailedFlow, Failure, FailureKind, Flow, FlowRecord, FlowSamples, Samples};

use super::*;
use crate::pages;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

const IDS: [&str; 3] = ["main", "second", "a.third"];

/// A round with three flows, each with a different number of samples.
fn round(number: u32) -> (RoundRecord, FlowSamples) {
    let flows = IDS.map(|id| Flow { id: id.into(), ..Flow::ping_pong("udp") });
    let samples: FlowSamples =
        (1..).zip(&flows).map(|(rows, flow)| (flow.id.clone(), of_rows(rows + number as usize))).collect();
    let mut record = record(number, &samples[&flows[0].id]);
    let results = flows.iter().map(|flow| FlowRecord {
        samples_kept: samples[&flow.id].kept() as u64,
        ledger: hairpin_model::Ledger { sent: samples[&flow.id].measured, ..Default::default() },
        ..FlowRecord::of(flow)
    });
    measured(&mut record).flows = results.collect();
    record.order.case = Case { flows: flows.into(), ..record.order.case.clone() };
    (record, samples)
}

fn of_rows(rows: usize) -> Samples {
    let mut samples = Samples { measured: rows as u64, ..Samples::with_rows(rows) };
    samples.latency.saturating_record_n(100, rows as u64);
    samples
}

/// Returns for each flow the number of rows and, if it has a histogram, its rows and the messages in the histogram.
fn counts(store: &RunFolder, record: &RoundRecord) -> Vec<(usize, Option<(usize, u64)>)> {
    let (mut rows, mut samples) = (store.rows(), store.samples().unwrap());
    let of = |flow: &Flow| {
        let with_histograms = samples(record, flow).unwrap();
        let with_histograms = with_histograms.map(|samples| (samples.kept(), samples.latency.len()));
        (rows(record, flow).unwrap().kept(), with_histograms)
    };
    record.order.case.flows.iter().map(of).collect()
}

#[test]
fn the_samples_of_each_flow_are_found_by_its_identity() {
    let (_place, store) = new_run(State::Complete);
    let mut records: Vec<RoundRecord> = Vec::new();
    for number in 0..3 {
        let (mut record, samples) = round(number);
        assert!(store.append(&mut record, &samples, None).unwrap().is_empty());
        records.push(record);
    }
    let of =
        |number: usize| [1, 2, 3].map(|rows| (rows + number, Some((rows + number, (rows + number) as u64)))).to_vec();
    let all = |records: &[RoundRecord]| records.iter().map(|record| counts(&store, record)).collect::<Vec<_>>();
    assert_eq!(all(&records), [of(0), of(1), of(2)]);
    store.merge_samples(&mut records).unwrap();
    assert_eq!(all(&records), [of(0), of(1), of(2)], "after merging");
    records.iter_mut().for_each(|record| record.order.case.flows.reverse());
    records[0].order.case.flows.iter_mut().for_each(|flow| flow.role = FlowRole::Load);
    let reversed = |number| of(number).into_iter().rev().collect::<Vec<_>>();
    let rows = |counts: Vec<(usize, _)>| counts.into_iter().map(|(rows, _)| rows).collect::<Vec<usize>>();
    assert_eq!(rows(counts(&store, &records[1])), rows(reversed(1)), "flows in reverse order");
    let (_, run) = RunFolder::open(store.path()).unwrap();
    assert_eq!(run.rounds.len(), 3);
    assert_eq!(all(&run.rounds), [of(0), of(1), of(2)]);
}

#[test]
fn a_failed_flow_has_no_samples_and_the_other_flows_keep_theirs() {
    let (_place, store) = new_run(State::Complete);
    for failed in IDS {
        let (mut record, mut samples) = round(0);
        let failure = Failure::new(FailureKind::Killed, "it ended early", "");
        samples.remove(&failed.into());
        let measured = measured(&mut record);
        measured.flows.retain(|flow| flow.id != failed.into());
        measured.ends[0].flow = measured.flows[0].id.clone();
        measured.failed_flows = vec![FailedFlow { id: failed.into(), failure: failure.clone() }];
        store.append(&mut record, &samples, None).unwrap();
        assert_eq!(record.failure(), Some(&failure));
        assert_eq!(record.measured().is_some(), failed != "main", "the case is judged by its first flow");
        let expected = (1..).zip(IDS).map(|(rows, id)| if id == failed { 0 } else { rows });
        let rows: Vec<usize> = counts(&store, &record).into_iter().map(|(rows, _)| rows).collect();
        assert_eq!(rows, expected.collect::<Vec<_>>());
    }
    let (_, run) = RunFolder::open(store.path()).unwrap();
    assert_eq!(run.rounds.iter().filter(|round| round.failure().is_some()).count(), 3);
}

#[test]
fn results_and_failures_that_do_not_match_the_flows_of_the_case_are_refused() {
    let (mut record, _) = round(0);
    let failure = Failure::new(FailureKind::Killed, "it ended early", "");
    for (removed, failed, is_sound) in [
        (None, None, true),
        (Some("second"), Some("second"), true),
        (Some("second"), Some("main"), false),
        (Some("second"), None, false),
        (None, Some("second"), false),
    ] {
        let mut changed = record.clone();
        let measured = measured(&mut changed);
        measured.flows.retain(|flow| Some(flow.id.clone()) != removed.map(Into::into));
        measured.failed_flows.extend(failed.map(|id| FailedFlow { id: id.into(), failure: failure.clone() }));
        assert_eq!(changed.is_of_its_case(), is_sound, "{removed:?} {failed:?}");
    }
    measured(&mut record).flows.clear();
    let ids = IDS.map(|id| FailedFlow { id: id.into(), failure: failure.clone() });
    measured(&mut record).failed_flows = ids.into();
    let line = serde_json::to_vec(&record).unwrap();
    hairpin_model::upgrade::round(&line, hairpin_model::run::FORMAT).unwrap_err();
}

/// Rewrites the file without the column `flow`, as earlier versions wrote it.
fn without_flow(path: &Path) {
    let new = fs::File::open(path).unwrap();
    let metadata = pages::metadata(&new, pages::MAX_METADATA_BYTES).unwrap();
    let schema = columns::schema().replace("REQUIRED BYTE_ARRAY flow (UTF8);", "");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let old = path.with_extension("old");
    let mut writer = SerializedFileWriter::new(fs::File::create(&old).unwrap(), schema, Arc::default()).unwrap();
    for group in metadata.row_groups() {
        let mut to = writer.next_row_group().unwrap();
        for column in group.columns().iter().filter(|column| column.column_path().string() != "flow") {
            let close = ColumnCloseResult {
                bytes_written: u64::try_from(column.compressed_size()).unwrap(),
                rows_written: u64::try_from(group.num_rows()).unwrap(),
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            to.append_column(&new, close).unwrap();
        }
        to.close().unwrap();
    }
    writer.close().unwrap();
    fs::rename(old, path).unwrap();
}

/// Files of earlier versions contain samples of the primary flow only.
#[test]
fn samples_without_a_flow_belong_to_the_primary_flow() {
    let (_place, store, record) = saved();
    let mut records = [record];
    for name in ["samples/round-000000.parquet", "samples.parquet"] {
        without_flow(&store.path().join(name));
        let flow = records[0].order.case.primary();
        assert_eq!(store.rows()(&records[0], flow).unwrap().sequence, samples(false).sequence, "{name}");
        let other = Flow { id: "second".into(), ..flow.clone() };
        let error = columns::SamplesFile::open(store.files(), name)
            .unwrap()
            .read(&records[0], &other, 4, COLUMNS)
            .unwrap_err();
        assert!(error.to_string().contains("the row count differs"), "{name}: {error}");
        if name != "samples.parquet" {
            let mut with_flow = records[0].clone();
            store.append(&mut with_flow, &by_flow(&samples(false)), None).unwrap();
            records = [with_flow];
            store.merge_samples(&mut records).unwrap();
        }
    }
}
