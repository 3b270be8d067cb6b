//! `latency.hlog`: the histograms of every round as an HdrHistogram interval log (V2, compressed), which other
//! people's tools read. It holds all messages, also those beyond the raw samples that are kept.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hairpin_model::round::RoundRecord;
use hairpin_model::samples::Samples;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use super::{StoreError, append_whole, file_error};

const LOG: &str = "latency.hlog";

/// The log's values are ns; its readers print the interval's maximum in ms, as is their custom.
const NS_PER_MS: f64 = 1e6;

/// The histograms of one round.
pub(super) struct Histograms {
    pub(super) latency: Histogram<u64>,
    pub(super) service: Option<Histogram<u64>>,
    pub(super) lateness: Option<Histogram<u64>>,
}

/// Writes the log's head.
pub(super) fn begin(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(LOG);
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let begun = IntervalLogWriterBuilder::new()
        .add_comment("Tag: case.round.quantity; values in ns")
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut bytes, &mut serializer)
        .map(drop);
    begun.and_then(|()| fs::write(&path, &bytes)).map_err(file_error("write", &path))
}

/// Appends the histograms of a round.
pub(super) fn append(folder: &Path, record: &RoundRecord, samples: &Samples) -> Result<(), StoreError> {
    let path = folder.join(LOG);
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut lines = || -> Result<(), String> {
        let mut log = IntervalLogWriterBuilder::new()
            .with_max_value_divisor(NS_PER_MS)
            .begin_log_with(&mut bytes, &mut serializer)
            .map_err(|error| error.to_string())?;
        let all = [
            ("latency", Some(&samples.latency)),
            ("service", samples.service.as_ref()),
            ("lateness", samples.lateness.as_ref()),
        ];
        for (quantity, histogram) in all {
            let Some(histogram) = histogram else { continue };
            let tag = tag(record, quantity);
            let start = Duration::from_nanos(record.started_ns);
            let length =
                record.measured().map_or(Duration::ZERO, |measured| Duration::from_nanos(measured.duration_ns));
            log.write_histogram(histogram, start, length, Tag::new(&tag)).map_err(|error| format!("{error:?}"))?;
        }
        Ok(())
    };
    lines().map_err(|cause| StoreError::Damaged { path: path.clone(), cause })?;
    // Each appended piece would begin with the head again.
    let text = String::from_utf8_lossy(&bytes);
    let body: String = text.lines().filter(|line| line.starts_with("Tag=")).map(|line| format!("{line}\n")).collect();
    append_whole(&path, body.as_bytes())
}

fn tag(record: &RoundRecord, quantity: &str) -> String {
    format!("{}.{}.{quantity}", record.case_id, record.number)
}

/// The log, still encoded: a few hundred bytes a round, so that long runs stay small in memory.
pub(super) struct Log {
    path: PathBuf,
    encoded: HashMap<String, String>,
}

/// Reads the log.
pub(super) fn read(folder: &Path) -> Result<Log, StoreError> {
    let path = folder.join(LOG);
    let bytes = fs::read(&path).map_err(file_error("read", &path))?;
    let mut encoded = HashMap::new();
    for entry in IntervalLogIterator::new(&bytes) {
        // A line that a crash cut short belongs to no round.
        if let Ok(LogEntry::Interval(interval)) = entry
            && let Some(tag) = interval.tag()
        {
            encoded.insert(tag.as_str().to_owned(), interval.encoded_histogram().to_owned());
        }
    }
    Ok(Log { path, encoded })
}

impl Log {
    /// The histograms of a measured round. They were written before the round's own line, so they must be there.
    pub(super) fn round(&self, record: &RoundRecord) -> Result<Histograms, StoreError> {
        let Some(latency) = self.histogram(&tag(record, "latency"))? else {
            let cause = format!("it has no histogram of round {}", record.number);
            return Err(StoreError::Damaged { path: self.path.clone(), cause });
        };
        let service = self.histogram(&tag(record, "service"))?;
        let lateness = self.histogram(&tag(record, "lateness"))?;
        Ok(Histograms { latency, service, lateness })
    }

    fn histogram(&self, tag: &str) -> Result<Option<Histogram<u64>>, StoreError> {
        let Some(encoded) = self.encoded.get(tag) else { return Ok(None) };
        let damaged =
            |cause: String| StoreError::Damaged { path: self.path.clone(), cause: format!("{tag}: {cause}") };
        let bytes = STANDARD.decode(encoded).map_err(|error| damaged(error.to_string()))?;
        let mut reader: &[u8] = &bytes;
        Deserializer::new().deserialize(&mut reader).map(Some).map_err(|error| damaged(format!("{error:?}")))
    }
}
