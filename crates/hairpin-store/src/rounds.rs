//! `rounds.jsonl`: one line per round.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use hairpin_model::{RoundRecord, upgrade};

use super::error::StoreError;
use super::folder::Folder;
use super::limits::{self, Memory};

pub(super) const FILE: &str = "rounds.jsonl";

pub(super) fn begin(folder: &Folder) -> Result<(), StoreError> {
    folder.replace(FILE, b"").map_err(folder.error("write", FILE))
}

pub(super) fn append(folder: &Folder, record: &RoundRecord) -> Result<(), StoreError> {
    let mut line = serde_json::to_string(record).expect("a record has only string keys");
    line.push('\n');
    folder.append(FILE, line.as_bytes()).map_err(folder.error("write", FILE))
}

pub(super) fn rewrite(folder: &Folder, records: &[RoundRecord]) -> Result<(), StoreError> {
    let written = folder.write(FILE, |file| {
        let mut file = BufWriter::new(file);
        for record in records {
            serde_json::to_writer(&mut file, record)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    });
    written.map_err(folder.error("write", FILE))
}

/// The records of a file, and whether its last line is truncated.
pub(super) struct Rounds {
    pub(super) records: Vec<RoundRecord>,
    pub(super) is_cut_short: bool,
}

/// Reads the records of a file in this format. Returns no records if the file is missing.
pub(super) fn read(folder: &Folder, format: u32, memory: &mut Memory) -> Result<Rounds, StoreError> {
    match folder.file(FILE, limits::MAX_ROUNDS_BYTES) {
        Ok(file) => records(BufReader::new(file.take(limits::MAX_ROUNDS_BYTES)), format, memory)
            .map_err(|cause| folder.damaged(FILE, cause)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Rounds { records: Vec::new(), is_cut_short: false })
        }
        Err(error) => Err(folder.error("read", FILE)(error)),
    }
}

/// Parses records, one per line. A last line without a line end is truncated: the run was killed while writing a
/// round, or the file was copied only in part.
pub(super) fn records(mut text: impl BufRead, format: u32, memory: &mut Memory) -> Result<Rounds, String> {
    let mut records = Vec::new();
    let mut is_cut_short = false;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let length = text.by_ref().take(limits::MAX_LINE_BYTES + 1).read_until(b'\n', &mut line);
        if length.map_err(|error| error.to_string())? == 0 {
            break;
        }
        let wrong = |cause: String| format!("line {number}: {cause}");
        if line.len() as u64 > limits::MAX_LINE_BYTES {
            return Err(wrong("it is too long".to_owned()));
        }
        memory.charge(&line).map_err(wrong)?;
        match upgrade::round(&line, format) {
            Ok(record) => {
                limits::check_record(&record).map_err(wrong)?;
                records.push(record);
            }
            Err(_) if line.last() != Some(&b'\n') => is_cut_short = true,
            Err(error) => return Err(wrong(error.to_string())),
        }
    }
    Ok(Rounds { records, is_cut_short })
}
