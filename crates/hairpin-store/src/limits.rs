//! Maximum sizes that are read of a run folder. docs/run-format.md lists these limits.
//!
//! They keep every command that reads a run below 500 MB, whatever the folder contains, and are far above what Hairpin
//! writes: 4 to 8 KB per round in `rounds.jsonl`, a few hundred bytes per round in `latency.hlog`.

use std::collections::HashSet;

use hairpin_model::{DirectionRecord, LinkRecord, Measured, Outcome, RoundRecord, Run};

/// `run.json`.
pub(super) const RUN_BYTES: u64 = 64 << 20;
/// `latency.hlog`.
pub(super) const LOG_BYTES: u64 = 128 << 20;
/// One file in `traces`.
pub(super) const TRACE_BYTES: u64 = 32 << 20;
/// One file in `samples`: 10 million samples take 250 MB.
pub(super) const SAMPLES_BYTES: u64 = 512 << 20;
/// `samples.parquet`, of which one round is read at a time.
pub(super) const MERGED_BYTES: u64 = 2 << 30;
/// Flows of all rounds in `samples.parquet`.
pub(super) const MERGED_GROUPS: usize = 6000;
/// `rounds.jsonl`.
pub(super) const ROUNDS_BYTES: u64 = 256 << 20;
/// One line of `rounds.jsonl`.
pub(super) const LINE_BYTES: u64 = 4 << 20;
/// Samples of one round: the maximum of `--keep-samples`.
pub(super) const SAMPLES_OF_A_ROUND: u64 = 10_000_000;
/// Samples of all rounds together.
pub(super) const SAMPLES_OF_A_RUN: u64 = 40_000_000;
const CASES: usize = 2000;

/// Values in one JSON text. A value of two bytes takes up to 32 in memory.
const VALUES: usize = 2 << 20;
/// Maximum digits of an integer: eleven days in ns.
const DIGITS: usize = 15;
/// Memory limit of all open runs, approximate.
const WEIGHT: u64 = 320 << 20;
/// Memory of a value of a record besides its text.
const VALUE_WEIGHT: u64 = 24;
/// Entries in one table of causes or stages.
const ENTRIES: usize = 256;

/// Number of values in a JSON text, never underestimated.
fn count(json: &[u8]) -> usize {
    json.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

/// Refuses a JSON text with too many values, or with an impossibly large integer.
pub(super) fn values(json: &[u8]) -> Result<(), String> {
    if count(json) > VALUES {
        return Err(format!("it has more than {VALUES} values"));
    }
    match too_large(json) {
        Some(digits) => Err(format!("the number {digits} is too large")),
        None => Ok(()),
    }
}

/// The first integer with too many digits: figures are sums and products of such integers. A seed may have any number.
fn too_large(json: &[u8]) -> Option<&str> {
    let (mut is_string, mut at, mut string_end) = (false, 0, 0);
    while at < json.len() {
        match json[at] {
            b'\\' if is_string => at += 1,
            b'"' => {
                is_string = !is_string;
                string_end = at;
            }
            b'0'..=b'9' if !is_string => {
                let end = json[at..]
                    .iter()
                    .position(|byte| !byte.is_ascii_digit())
                    .map_or(json.len(), |length| at + length);
                let is_whole = !matches!(json.get(end), Some(b'.' | b'e' | b'E'));
                let is_fraction = at > 0 && matches!(json[at - 1], b'.' | b'e' | b'E' | b'+');
                let is_seed = json[..string_end].ends_with(b"seed");
                if end - at > DIGITS && is_whole && !is_fraction && !is_seed {
                    return str::from_utf8(&json[at..end.min(at + 40)]).ok();
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The memory that the runs of a command share.
#[derive(Debug, Default)]
pub struct Memory(u64);

impl Memory {
    /// Accounts for a JSON text before it is parsed.
    pub(super) fn take(&mut self, json: &[u8]) -> Result<(), String> {
        values(json)?;
        self.0 += json.len() as u64 + VALUE_WEIGHT * count(json) as u64;
        if self.0 > WEIGHT {
            return Err("with it the runs are more than can be held in memory at once".to_owned());
        }
        Ok(())
    }
}

/// Refuses a record with more table entries or more samples than a round can have.
pub(super) fn record(record: &RoundRecord) -> Result<(), String> {
    let Outcome::Measured(measured) = &record.outcome else { return Ok(()) };
    let Measured { flows, ends, link, .. } = &**measured;
    if flows.iter().any(|flow| flow.samples_kept > SAMPLES_OF_A_ROUND) {
        return Err(format!("a round has more than {SAMPLES_OF_A_ROUND} samples"));
    }
    let tables = flows.iter().map(|flow| flow.ledger.lost.len()).chain([flows.len(), ends.len()]);
    if tables.chain(link.as_ref().map(most_entries)).any(|entries| entries > ENTRIES) {
        return Err(format!("a table of a round has more than {ENTRIES} entries"));
    }
    Ok(())
}

/// Refuses a run with too many cases: a summary takes 3 KB, and cases are compared with each other.
pub(super) fn cases(run: &Run) -> Result<(), String> {
    let of_rounds = run.rounds.iter().flat_map(|record| [record.case_id.clone(), record.order.case.id()]);
    let most = of_rounds.collect::<HashSet<_>>().len().max(run.cases.len()).max(run.plan.cases.len());
    if most > CASES { Err(format!("it has more than {CASES} cases")) } else { Ok(()) }
}

fn most_entries(link: &LinkRecord) -> usize {
    let of_direction = |direction: &DirectionRecord| {
        let stages = direction.stages.iter().map(|stage| stage.packets.dropped.len());
        let timeline = direction.timeline.iter().map(|timeline| timeline.dropped.len());
        stages.chain(timeline).chain([direction.packets.dropped.len(), direction.stages.len()]).max()
    };
    let directions = [&link.up, &link.down].into_iter().filter_map(of_direction);
    directions.chain([link.traces.len(), link.packets.dropped.len()]).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_are_open_at_once_share_the_memory() {
        let line = br#"{"a": [1, 2, 3]}"#;
        let of_a_line = line.len() as u64 + VALUE_WEIGHT * 4;
        let mut memory = Memory(WEIGHT - 2 * of_a_line);
        assert_eq!([memory.take(line), memory.take(line)], [Ok(()), Ok(())]);
        assert!(memory.take(line).unwrap_err().contains("more than can be held in memory at once"));
    }

    #[test]
    fn an_impossibly_large_number_is_refused_unless_it_is_a_seed() {
        for sound in [
            r#"{"seed": 18446744073709551615, "link_seed":18446744073709551615}"#,
            r#"{"a": 999999999999999, "b": 1844674407370955161.5, "c": 0.1234567890123456789, "d": 1e300}"#,
            r#"{"a": "1234567890123456789", "b\"": "\"1234567890123456789"}"#,
        ] {
            assert_eq!(values(sound.as_bytes()), Ok(()), "{sound}");
        }
        for unsound in
            [r#"{"a": 1000000000000000}"#, "[-9223372036854775808]", r#"{"seed": [1], "x": 12345678901234567}"#]
        {
            values(unsound.as_bytes()).unwrap_err();
        }
    }
}
