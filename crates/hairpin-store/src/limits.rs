//! Maximum sizes of the files that are read from a run folder. docs/run-format.md lists these limits.
//!
//! The limits keep every command that reads a run below 500 MB of memory. They are far above what Hairpin writes: 4
//! to 8 KB per round in `rounds.jsonl`, a few hundred bytes per round in `latency.hlog`.

use std::collections::HashSet;

use hairpin_model::{DirectionRecord, LinkRecord, Measured, Outcome, RoundRecord, Run};

/// `run.json`.
pub(super) const MAX_RUN_BYTES: u64 = 64 << 20;
/// `latency.hlog`.
pub(super) const MAX_LOG_BYTES: u64 = 128 << 20;
/// One file in `traces` or `budgets`.
pub(super) const MAX_TRACE_BYTES: u64 = 32 << 20;
/// One file in `samples`: 10 million samples take 250 MB.
pub(super) const MAX_SAMPLES_BYTES: u64 = 512 << 20;
/// `samples.parquet`, of which one round is read at a time.
pub(super) const MAX_MERGED_BYTES: u64 = 2 << 30;
/// Row groups in `samples.parquet`: one per flow and round.
pub(super) const MAX_MERGED_GROUPS: usize = 6000;
/// `rounds.jsonl`.
pub(super) const MAX_ROUNDS_BYTES: u64 = 256 << 20;
/// One line of `rounds.jsonl`.
pub(super) const MAX_LINE_BYTES: u64 = 4 << 20;
/// Samples of one flow in a round: the maximum of `--keep-samples`.
pub(super) const MAX_ROUND_SAMPLES: u64 = 10_000_000;
pub(super) const MAX_RUN_SAMPLES: u64 = 40_000_000;
const MAX_CASES: usize = 2000;

/// Values in one JSON text. A value of two bytes takes up to 32 bytes in memory.
const MAX_VALUES: usize = 2 << 20;
/// Maximum digits of an integer: eleven days in ns.
const MAX_DIGITS: usize = 15;
/// Approximate memory limit of all open runs, in bytes.
const MAX_MEMORY_BYTES: u64 = 320 << 20;
/// Approximate memory per JSON value, in addition to its text, in bytes.
const VALUE_BYTES: u64 = 24;
const MAX_TABLE_ENTRIES: usize = 256;

/// Counts the values in a JSON text. Never counts too few.
fn count_values(json: &[u8]) -> usize {
    json.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

pub(super) fn check_values(json: &[u8]) -> Result<(), String> {
    if count_values(json) > MAX_VALUES {
        return Err(format!("it has more than {MAX_VALUES} values"));
    }
    match find_too_large(json) {
        Some(digits) => Err(format!("the number {digits} is too large")),
        None => Ok(()),
    }
}

/// Returns the first integer, except seeds, with so many digits that sums or products with it could overflow.
fn find_too_large(json: &[u8]) -> Option<&str> {
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
                if end - at > MAX_DIGITS && is_whole && !is_fraction && !is_seed {
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

#[derive(Debug, Default)]
pub struct Memory(u64);

impl Memory {
    /// Charges a JSON text to the budget before it is parsed.
    pub(super) fn charge(&mut self, json: &[u8]) -> Result<(), String> {
        check_values(json)?;
        self.0 += json.len() as u64 + VALUE_BYTES * count_values(json) as u64;
        if self.0 > MAX_MEMORY_BYTES {
            return Err("with this file, the runs that are open at once do not fit in memory".to_owned());
        }
        Ok(())
    }
}

/// Refuses a record with more table entries or samples than a round can have.
pub(super) fn check_record(record: &RoundRecord) -> Result<(), String> {
    let Outcome::Measured(measured) = &record.outcome else { return Ok(()) };
    let Measured { flows, ends, link, .. } = &**measured;
    if flows.iter().any(|flow| flow.samples_kept > MAX_ROUND_SAMPLES) {
        return Err(format!("a round has more than {MAX_ROUND_SAMPLES} samples"));
    }
    let tables = flows.iter().map(|flow| flow.ledger.lost.len()).chain([flows.len(), ends.len()]);
    if tables.chain(link.as_ref().map(max_entries)).any(|entries| entries > MAX_TABLE_ENTRIES) {
        return Err(format!("a table of a round has more than {MAX_TABLE_ENTRIES} entries"));
    }
    Ok(())
}

/// Refuses a run with too many cases: each takes 3 KB for its summary, and cases are compared with each other.
pub(super) fn check_cases(run: &Run) -> Result<(), String> {
    let of_rounds = run.rounds.iter().flat_map(|record| [record.case_id.clone(), record.order.case.id()]);
    let count = of_rounds.collect::<HashSet<_>>().len().max(run.cases.len()).max(run.plan.cases.len());
    if count > MAX_CASES { Err(format!("it has more than {MAX_CASES} cases")) } else { Ok(()) }
}

fn max_entries(link: &LinkRecord) -> usize {
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
        let of_a_line = line.len() as u64 + VALUE_BYTES * 4;
        let mut memory = Memory(MAX_MEMORY_BYTES - 2 * of_a_line);
        assert_eq!([memory.charge(line), memory.charge(line)], [Ok(()), Ok(())]);
        assert!(memory.charge(line).unwrap_err().contains("the runs that are open at once do not fit in memory"));
    }

    #[test]
    fn an_impossibly_large_number_is_refused_unless_it_is_a_seed() {
        for sound in [
            r#"{"seed": 18446744073709551615, "link_seed":18446744073709551615}"#,
            r#"{"a": 999999999999999, "b": 1844674407370955161.5, "c": 0.1234567890123456789, "d": 1e300}"#,
            r#"{"a": "1234567890123456789", "b\"": "\"1234567890123456789"}"#,
        ] {
            assert_eq!(check_values(sound.as_bytes()), Ok(()), "{sound}");
        }
        for unsound in
            [r#"{"a": 1000000000000000}"#, "[-9223372036854775808]", r#"{"seed": [1], "x": 12345678901234567}"#]
        {
            check_values(unsound.as_bytes()).unwrap_err();
        }
    }
}
