//! `rounds.jsonl`: a line for each round.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use hairpin_model::round::RoundRecord;
use hairpin_model::run::State;
use hairpin_model::upgrade;

use super::error::StoreError;
use super::folder::Folder;
use super::limits::{self, Memory};

/// Its name in the run folder.
pub(super) const FILE: &str = "rounds.jsonl";

/// Makes the file, without a round.
pub(super) fn begin(folder: &Folder) -> Result<(), StoreError> {
    folder.replace(FILE, b"").map_err(folder.error("write", FILE))
}

/// Appends a round's line.
pub(super) fn append(folder: &Folder, record: &RoundRecord) -> Result<(), StoreError> {
    let mut line = serde_json::to_string(record).expect("a record has only string keys");
    line.push('\n');
    folder.append(FILE, line.as_bytes()).map_err(folder.error("write", FILE))
}

/// Writes the file anew, in one step.
pub(super) fn rewrite(folder: &Folder, records: &[RoundRecord]) -> Result<(), StoreError> {
    let written = folder.write::<io::Error>(FILE, |file| {
        let mut file = BufWriter::new(file);
        for record in records {
            serde_json::to_writer(&mut file, record)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    });
    written.map_err(folder.error("write", FILE))
}

/// The rounds that were written in that format; none where the file is missing.
pub(super) fn read(
    folder: &Folder,
    state: State,
    format: u32,
    memory: &mut Memory,
) -> Result<Vec<RoundRecord>, StoreError> {
    match folder.file(FILE, limits::ROUNDS_BYTES) {
        Ok(file) => records(BufReader::new(file.take(limits::ROUNDS_BYTES)), state, format, memory)
            .map_err(|cause| folder.damaged(FILE, cause)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(folder.error("read", FILE)(error)),
    }
}

/// The records of a file; a last line that was cut short belongs to the round in flight when the run was killed.
fn records(
    mut text: impl BufRead,
    state: State,
    format: u32,
    memory: &mut Memory,
) -> Result<Vec<RoundRecord>, String> {
    let mut records = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let length = text.by_ref().take(limits::LINE_BYTES + 1).read_until(b'\n', &mut line);
        if length.map_err(|error| error.to_string())? == 0 {
            break;
        }
        let wrong = |cause: String| format!("line {number}: {cause}");
        if line.len() as u64 > limits::LINE_BYTES {
            return Err(wrong("it is too long".to_owned()));
        }
        memory.take(&line).map_err(wrong)?;
        match upgrade::round(&line, format) {
            Ok(record) => {
                limits::record(&record).map_err(wrong)?;
                records.push(record);
            }
            Err(_) if state == State::Running && text.fill_buf().is_ok_and(<[u8]>::is_empty) => {}
            Err(error) => return Err(wrong(error.to_string())),
        }
    }
    Ok(records)
}
