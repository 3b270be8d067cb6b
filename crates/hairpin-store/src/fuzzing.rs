//! The fuzz targets `run_folders` and `run_texts`: any content of a run folder is either read or refused, and what
//! was read can be saved.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hairpin_model::run::{FORMAT, State};
use hairpin_model::{Flow, Outcome, RoundRecord, RoundTrace, Run, RunHeader, Samples, upgrade};

use super::histograms::{LOG, PACKED_COOKIE, decode_histogram};
use super::rounds::records;
use super::{Listing, Memory, RunFolder, StoreError, limits};

const FILES: [&str; 9] = [
    "run.json",
    "rounds.jsonl",
    LOG,
    "samples.parquet",
    "samples/round-000000.parquet",
    "samples/round-000001.parquet",
    "traces/round-000000.json",
    "unsaved.txt",
    "budgets/round-000000.json",
];
/// Indices from this one on mark an uncompressed histogram of the log, because fuzzers cannot invert compression.
/// Bits 0 and 1 of the index are the round, bits 2 to 4 the quantity.
const FIRST_UNPACKED: usize = 0x80;
const QUANTITIES: [&str; 8] = [
    "latency",
    "service",
    "lateness",
    "latency-idle",
    "latency-ramp",
    "latency-loaded",
    "latency-recovering",
    "other",
];

/// Writes the files of the input to a folder below `dir` and reads the run there. Each file in the input is an index
/// of 1 byte, a length and the content. Returns true if the whole run can be read.
pub fn run_folders(dir: &Path, input: &[u8]) -> bool {
    let path = dir.join("run");
    write_files(&path, input);
    let listed = Listing::read(dir).expect("the folder can be read");
    assert_eq!(listed.runs.len() + listed.skipped.len(), 1);
    let read = RunFolder::open(&path).and_then(|(folder, run)| {
        let rounds = rounds(&folder, &run);
        check_saving(&folder, &run);
        if run.state != State::Running { rounds.and(folder.refuse_missing_rounds()) } else { rounds }
    });
    read.inspect_err(|error| assert!(!error.to_string().is_empty())).is_ok() && !listed.runs.is_empty()
}

/// Parses the text of one file of a run without writing it to a folder, which would take most of the time. The first
/// byte selects the file. Returns true if all of the text can be read.
pub fn run_texts(input: &[u8]) -> bool {
    let [kind, text @ ..] = input else { return false };
    match kind % 5 {
        0 => reads_run(text),
        1 => reads_rounds(text, 1),
        2 => reads_rounds(text, FORMAT),
        3 => limits::check_values(text).is_ok() && serde_json::from_slice::<RoundTrace>(text).is_ok(),
        _ => decode_histogram(compress(text).as_bytes()).is_ok(),
    }
}

fn reads_run(text: &[u8]) -> bool {
    let head = limits::check_values(text).and_then(|()| RunHeader::read(text));
    let Some((run, _)) = str::from_utf8(text).ok().and_then(|text| upgrade::load(text).ok()) else { return false };
    let again = serde_json::to_string(&run).expect("a run has only string keys");
    assert!(upgrade::load(&again).is_ok_and(|(again, format)| again == run && format == run.format));
    head.is_ok() && limits::check_cases(&run).is_ok()
}

fn reads_rounds(lines: &[u8], format: u32) -> bool {
    let Ok(rounds) = records(lines, format, &mut Memory::default()) else { return false };
    for record in &rounds.records {
        let again = serde_json::to_vec(record).expect("a record has only string keys");
        assert!(upgrade::round(&again, FORMAT).is_ok_and(|again| again == *record));
    }
    !rounds.is_cut_short && !rounds.records.is_empty()
}

fn write_files(path: &Path, input: &[u8]) {
    drop(fs::remove_dir_all(path));
    for folder in ["samples", "traces", "budgets"] {
        fs::create_dir_all(path.join(folder)).expect("the folder can be made");
    }
    let append = |name: &str, bytes: &[u8]| {
        let mut file =
            fs::File::options().create(true).append(true).open(path.join(name)).expect("a file can be made");
        file.write_all(bytes).expect("a file can be written");
    };
    for (name, bytes) in files(input) {
        if name >= FIRST_UNPACKED {
            append(LOG, line(name, bytes).as_bytes());
        } else {
            append(FILES[name % FILES.len()], bytes);
        }
    }
}

/// Splits an input into file indices and contents. Any input is valid: missing bytes of a length are zero, and
/// content may be shorter than its length. libFuzzer's comparison hooks find only lengths of at least four bytes.
fn files(mut input: &[u8]) -> Vec<(usize, &[u8])> {
    let mut files = Vec::new();
    while let [name, rest @ ..] = input {
        let (length, rest) = rest.split_at(rest.len().min(4));
        let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let (bytes, rest) = rest.split_at(rest.len().min(length));
        files.push((usize::from(*name), bytes));
        input = rest;
    }
    files
}

fn line(name: usize, histogram: &[u8]) -> String {
    let (round, quantity) = (name & 3, QUANTITIES[name >> 2 & 7]);
    format!("Tag=case.{round}.{quantity},0.000,1.000,2.000,{}\n", compress(histogram))
}

fn compress(histogram: &[u8]) -> String {
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(histogram).expect("a Vec takes all");
    let packed = packer.finish().expect("a Vec takes all");
    let length = u32::try_from(packed.len()).expect("an input is short").to_be_bytes();
    STANDARD.encode([&PACKED_COOKIE.to_be_bytes(), &length[..], &packed].concat())
}

/// Reads all data of each round. Returns the first error, but reads the other rounds too.
fn rounds(folder: &RunFolder, run: &Run) -> Result<(), StoreError> {
    let mut samples = folder.samples()?;
    let mut rows = folder.rows();
    let mut read = Ok(());
    for record in &run.rounds {
        for flow in &record.order.case.flows {
            let check = |samples: Samples| check_samples(record, flow, &samples);
            read = read.and(samples(record, flow).map(|samples| samples.into_iter().for_each(check)));
            read = read.and(rows(record, flow).map(check));
        }
        read = read.and(folder.trace_of(record).map(drop)).and(folder.budget_of(record).map(drop));
    }
    read
}

fn check_samples(record: &RoundRecord, flow: &Flow, samples: &Samples) {
    let Samples { sequence, due_ns, sent_ns, received_ns, fate, .. } = samples;
    let lengths = [sequence.len(), due_ns.len(), sent_ns.len(), received_ns.len(), fate.len()];
    assert_eq!(lengths, [kept_rows(record, flow); 5]);
    assert!(samples.warm_up <= samples.kept());
}

fn kept_rows(record: &RoundRecord, flow: &Flow) -> usize {
    let Outcome::Measured(measured) = &record.outcome else { return 0 };
    let flow = measured.flow(&flow.id);
    let kept = flow.filter(|flow| flow.samples_file.is_some()).map_or(0, |flow| flow.samples_kept);
    usize::try_from(kept).expect("it was read")
}

/// Checks that a run that was read can be saved and read again, as when a run is analysed again.
fn check_saving(folder: &RunFolder, run: &Run) {
    folder.write_run(run).expect("it can be written");
    folder.rewrite_rounds(&run.rounds).expect("it can be written");
    let again = RunFolder::open(folder.path()).map(|(_, again)| again.rounds);
    assert!(matches!(again, Ok(rounds) if rounds == run.rounds), "the saved rounds differ from the rounds read back");
}

#[cfg(test)]
mod tests;
