//! How much of a run folder is read at most. docs/run-format.md lists these limits.
//!
//! They keep every command that reads a run below 500 MB, whatever is in the folder, and are far above what Hairpin
//! writes: 4 to 8 KB a round in `rounds.jsonl`, a few hundred bytes a round in `latency.hlog`.

use hairpin_model::link::{DirectionRecord, LinkRecord};
use hairpin_model::round::{Measured, Outcome, RoundRecord};

/// `run.json`.
pub(super) const RUN_BYTES: u64 = 64 << 20;
/// `latency.hlog`.
pub(super) const LOG_BYTES: u64 = 128 << 20;
/// One file in `traces`.
pub(super) const TRACE_BYTES: u64 = 32 << 20;
/// One file in `samples`: 10 million samples take 250 MB.
pub(super) const SAMPLES_BYTES: u64 = 512 << 20;
/// `rounds.jsonl`.
pub(super) const ROUNDS_BYTES: u64 = 256 << 20;
/// One line of it.
pub(super) const LINE_BYTES: u64 = 4 << 20;
/// Samples of one round: the most that `--keep-samples` allows.
pub(super) const SAMPLES_OF_A_ROUND: u64 = 10_000_000;
/// Samples of all rounds together.
pub(super) const SAMPLES_OF_A_RUN: u64 = 40_000_000;
/// Cases of a run.
pub(super) const CASES: usize = 2000;

/// Values in one JSON text. A value of two bytes takes up to 32 in memory.
const VALUES: usize = 2 << 20;
/// What the records of a run may weigh: about their size in memory.
const WEIGHT: u64 = 320 << 20;
/// What a value of a record weighs beside its text.
const VALUE_WEIGHT: u64 = 24;
/// Entries in one table of causes or stages.
const ENTRIES: usize = 256;

/// Values of a JSON text, never counted too low.
fn count(json: &[u8]) -> usize {
    json.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

/// Refuses a JSON text of too many values.
pub(super) fn values(json: &[u8]) -> Result<(), String> {
    if count(json) > VALUES { Err(format!("it has more than {VALUES} values")) } else { Ok(()) }
}

/// What the records that were read weigh together.
#[derive(Debug, Default)]
pub(super) struct Weight(u64);

impl Weight {
    /// Takes in a line before it is read.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<(), String> {
        values(line)?;
        self.0 += line.len() as u64 + VALUE_WEIGHT * count(line) as u64;
        if self.0 > WEIGHT { Err("its rounds are more than can be held in memory".to_owned()) } else { Ok(()) }
    }
}

/// Refuses a record with more in a table or more samples than a round can have.
pub(super) fn record(record: &RoundRecord) -> Result<(), String> {
    let Outcome::Measured(measured) = &record.outcome else { return Ok(()) };
    let Measured { ledger, link, samples_kept, .. } = &**measured;
    if *samples_kept > SAMPLES_OF_A_ROUND {
        return Err(format!("a round has more than {SAMPLES_OF_A_ROUND} samples"));
    }
    if ledger.lost.len().max(link.as_ref().map_or(0, most_entries)) > ENTRIES {
        return Err(format!("a table of a round has more than {ENTRIES} entries"));
    }
    Ok(())
}

fn most_entries(link: &LinkRecord) -> usize {
    let of_direction = |direction: &DirectionRecord| {
        let stages = direction.stages.iter().map(|stage| stage.dropped.len());
        let timeline = direction.timeline.iter().map(|timeline| timeline.dropped.len());
        stages.chain(timeline).chain([direction.packets.dropped.len(), direction.stages.len()]).max()
    };
    let directions = [&link.up, &link.down].into_iter().filter_map(of_direction);
    directions.chain([link.traces.len(), link.packets.dropped.len()]).max().unwrap_or(0)
}
