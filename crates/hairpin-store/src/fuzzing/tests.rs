//! The corpus of run folders: runs in the current format and in format 1.

use std::path::PathBuf;
use std::sync::Arc;

use hairpin_model::{
    ByPhase, Failure, FailureKind, FlowSamples, Outcome, PhaseHistograms, PhaseLengths, PhaseSamples, ProbeTimeLine,
};
use hdrhistogram::serialization::{Serializer, V2Serializer};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};

use super::super::tests::fixtures::{by_flow, measured, record, samples, trace, traced};
use super::super::tests::new_run;
use super::super::{Evidence, columns};
use super::*;

fn file(name: usize, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [&[u8::try_from(name).unwrap()][..], &length.to_le_bytes(), bytes].concat()
}

fn input(folder: &Path) -> Vec<u8> {
    let saved = |(number, name): (usize, &&str)| Some(file(number, &fs::read(folder.join(name)).ok()?));
    FILES.iter().enumerate().filter_map(saved).flatten().collect()
}

/// A round of a closed loop and a round of an open loop.
fn two_rounds(is_merged: bool) -> Vec<u8> {
    let (_dir, folder) = new_run(State::Complete);
    let mut records = [0, 1].map(|number| {
        let samples = samples(number == 1);
        let mut record = record(number, &samples);
        assert!(folder.append(&mut record, &by_flow(&samples), None).unwrap().is_empty());
        record
    });
    if is_merged {
        folder.merge_samples(&mut records).unwrap();
    }
    input(folder.path())
}

fn traced_round() -> Vec<u8> {
    let (_dir, folder) = new_run(State::Complete);
    let samples = samples(false);
    folder
        .append(&mut traced(0, &samples), &by_flow(&samples), Some(Evidence::Trace(trace(), Some(vec![7; 4]))))
        .unwrap();
    input(folder.path())
}

/// A run that was killed while writing its second line, or whose second line was truncated.
fn truncated_run(state: State) -> Vec<u8> {
    let (_dir, folder) = new_run(state);
    let samples = samples(false);
    folder.append(&mut record(0, &samples), &by_flow(&samples), None).unwrap();
    folder.note_not_saved("no space left");
    [input(folder.path()), file(1, b"{\"number\":1,")].concat()
}

fn failed_round() -> Vec<u8> {
    let (_dir, folder) = new_run(State::Complete);
    let failure = Failure::new(FailureKind::Other, "the server: no message", "");
    let mut record = RoundRecord { outcome: Outcome::Failed(failure), ..record(0, &samples(false)) };
    folder.append(&mut record, &FlowSamples::new(), None).unwrap();
    input(folder.path())
}

fn round_with_phases() -> Vec<u8> {
    let (_dir, folder) = new_run(State::Complete);
    let mut samples = samples(false);
    let latency = samples.latency.clone();
    let others = ByPhase::of(|_| Some(PhaseHistograms { latency: latency.clone(), service: None, lateness: None }));
    let (counts, over_time) = (ByPhase::default(), ProbeTimeLine::default());
    samples.phases = Some(Box::new(PhaseSamples { others, counts, over_time }));
    let mut record = record(0, &samples);
    record.order.phases = Some(PhaseLengths::usual(false));
    folder.append(&mut record, &by_flow(&samples), None).unwrap();
    input(folder.path())
}

/// A round with uncompressed columns and histograms, so that a fuzzer's changes reach the decoder.
fn unpacked_round() -> Vec<u8> {
    let (_dir, folder) = new_run(State::Complete);
    let samples = samples(true);
    let mut record = record(0, &samples);
    measured(&mut record).primary_mut().samples_file = Some(FILES[4].to_owned());
    folder.append(&mut record, &FlowSamples::new(), None).unwrap();
    let path = folder.path().join(FILES[4]);
    let properties = Arc::new(WriterProperties::builder().build());
    let schema = Arc::new(parse_message_type(&columns::schema()).unwrap());
    let writer = SerializedFileWriter::new(fs::File::create(&path).unwrap(), schema, properties).unwrap();
    columns::write_columns(writer, &record, &by_flow(&samples)).unwrap();
    fs::remove_file(folder.path().join(LOG)).unwrap();
    let histograms = [Some(&samples.latency), samples.service.as_ref(), samples.lateness.as_ref()];
    let unpacked = (0..).zip(histograms).flat_map(|(quantity, histogram)| {
        let mut plain = Vec::new();
        V2Serializer::new().serialize(histogram.expect("an open loop has it"), &mut plain).unwrap();
        file(FIRST_UNPACKED + (quantity << 2), &plain)
    });
    input(folder.path()).into_iter().chain(unpacked).collect()
}

/// The first two rounds of a run that the last version with format 1 saved, and one case of its summaries.
fn format_1_run() -> Vec<u8> {
    let saved = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../hairpin/tests/formats/1");
    let text = |name: &str| fs::read_to_string(saved.join(name)).unwrap();
    let mut run: Value = serde_json::from_str(&text("run.json")).unwrap();
    run["cases"].as_array_mut().unwrap().truncate(1);
    (run["findings"], run["comparisons"]) = (json!([]), json!([]));
    let lines = text("rounds.jsonl").lines().take(2).map(|line| format!("{line}\n")).collect::<String>();
    let files = [(0, serde_json::to_vec(&run).unwrap()), (1, lines.into_bytes()), (2, text(LOG).into_bytes())];
    let samples = [4, 5].map(|number| (number, fs::read(saved.join(FILES[number])).unwrap()));
    files.into_iter().chain(samples).flat_map(|(number, bytes)| file(number, &bytes)).collect()
}

#[test]
fn the_corpus_of_run_folders_is_replayed() {
    let valid = [
        ("two-rounds", two_rounds(false)),
        ("merged", two_rounds(true)),
        ("traced", traced_round()),
        ("killed", truncated_run(State::Running)),
        ("failed", failed_round()),
        ("phases", round_with_phases()),
        ("unpacked", unpacked_round()),
        ("format-1", format_1_run()),
    ];
    let dir = tempfile::tempdir().unwrap();
    hairpin_testing::corpus::replay("run_folders", &valid, |input| run_folders(dir.path(), input));
    assert!(!run_folders(dir.path(), &truncated_run(State::Complete)), "rounds are missing");
}

#[test]
fn the_corpus_of_run_texts_is_replayed() {
    let text = |kind: u8, folder: &[u8], name: usize| {
        let file = files(folder).into_iter().find(|(other, _)| *other == name).unwrap();
        [&[kind], file.1].concat()
    };
    let (traced, unpacked, format_1) = (traced_round(), unpacked_round(), format_1_run());
    let valid = [
        ("run", text(0, &traced, 0)),
        ("run-of-format-1", text(0, &format_1, 0)),
        ("rounds-of-format-1", text(1, &format_1, 1)),
        ("rounds", text(2, &traced, 1)),
        ("rounds-with-phases", text(2, &round_with_phases(), 1)),
        ("failed-round", text(2, &failed_round(), 1)),
        ("trace", text(3, &traced, 6)),
        ("histogram", text(4, &unpacked, FIRST_UNPACKED)),
    ];
    hairpin_testing::corpus::replay("run_texts", &valid, run_texts);
}
