//! `latency.hlog`: the histograms of every round as an HdrHistogram interval log (V2, compressed), which other tools
//! can read. The histograms count all messages, including those whose raw samples were not kept.

use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::Range;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hairpin_model::phases::Phase;
use hairpin_model::samples::{MAX_LATENCY_NS, latency_histogram};
use hairpin_model::{ByPhase, Flow, FlowSamples, PhaseHistograms, PhaseSamples, ProbeTimeLine, RoundRecord, Samples};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use super::error::StoreError;
use super::folder::Folder;
use super::limits;

pub(super) const LOG: &str = "latency.hlog";

/// Values in the log are in ns; readers print the interval's maximum in ms, as is customary.
const NS_PER_MS: f64 = 1e6;

pub(super) fn begin(folder: &Folder) -> Result<(), StoreError> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let result = IntervalLogWriterBuilder::new()
        .add_comment(
            "Tag: CASE.ROUND.QUANTITY, or CASE.ROUND.QUANTITY@FLOW for another flow than the primary; values in ns",
        )
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut bytes, &mut serializer)
        .map(drop);
    result.and_then(|()| folder.replace(LOG, &bytes)).map_err(folder.error("write", LOG))
}

pub(super) fn append(folder: &Folder, record: &RoundRecord, samples: &FlowSamples) -> Result<(), StoreError> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let case = as_tag(&record.order.case.label());
    let mut lines = || -> Result<(), String> {
        let mut log = IntervalLogWriterBuilder::new()
            .with_max_value_divisor(NS_PER_MS)
            .begin_log_with(&mut bytes, &mut serializer)
            .map_err(|error| error.to_string())?;
        let flows = record.order.case.flows.iter().filter_map(|flow| Some((flow, samples.get(&flow.id)?)));
        for (flow, quantity, histogram) in flows.flat_map(|(flow, samples)| of_flow(flow, samples)) {
            let tag = format!("{case}.{}", tag_key(record, flow, &quantity));
            let start = Duration::from_nanos(record.started_ns);
            let length =
                record.measured().map_or(Duration::ZERO, |measured| Duration::from_nanos(measured.duration_ns));
            log.write_histogram(histogram, start, length, Tag::new(&tag)).map_err(|error| format!("{error:?}"))?;
        }
        Ok(())
    };
    lines().map_err(|cause| folder.damaged(LOG, cause))?;
    // Drop the header, which the library writes for each piece.
    let text = String::from_utf8_lossy(&bytes);
    let body: String = text.lines().filter(|line| line.starts_with("Tag=")).map(|line| format!("{line}\n")).collect();
    folder.append(LOG, body.as_bytes()).map_err(folder.error("write", LOG))
}

fn of_flow<'s>(flow: &'s Flow, samples: &'s Samples) -> impl Iterator<Item = (&'s Flow, String, &'s Histogram<u64>)> {
    let quantities = [
        ("latency", Some(&samples.latency)),
        ("service", samples.service.as_ref()),
        ("lateness", samples.lateness.as_ref()),
    ];
    let phases = samples.phases.iter().flat_map(|phases| phases.others.each());
    let phases = phases.map(|(phase, of)| (phase_quantity(phase), of.as_ref().map(|of| &of.latency)));
    let quantities =
        quantities.map(|(quantity, histogram)| (quantity.to_owned(), histogram)).into_iter().chain(phases);
    quantities.filter_map(move |(quantity, histogram)| Some((flow, quantity, histogram?)))
}

fn phase_quantity(phase: Phase) -> String {
    format!("latency-{phase}")
}

/// Joins the words of a case's label, without characters that a tag must not contain.
fn as_tag(label: &str) -> String {
    let is_separator = |letter: char| letter.is_whitespace() || letter.is_control() || letter == ',';
    label.split(is_separator).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// Returns the part of a tag after the case, which is unique. Earlier versions wrote the case's id before this part.
fn tag_key(record: &RoundRecord, flow: &Flow, quantity: &str) -> String {
    let number = record.number;
    if record.order.case.is_judged_by(flow) {
        return format!("{number}.{quantity}");
    }
    format!("{number}.{quantity}@{}", as_tag(&flow.id.to_string()).replace('.', "_"))
}

/// Returns the [`tag_key`] in a tag. The case before it may contain dots.
fn parse_key(tag: &str) -> Option<&str> {
    let (before, _) = tag.rsplit_once('.')?;
    let begins_at = before.rfind('.')? + 1;
    Some(&tag[begins_at..])
}

/// The log. Histograms stay encoded, in a few hundred bytes per round, so that long runs take little memory.
pub(super) struct Log {
    folder: Folder,
    bytes: Vec<u8>,
    /// Position of the encoded histogram of each [`tag_key`].
    encoded: HashMap<String, Range<usize>>,
}

pub(super) fn read(folder: &Folder) -> Result<Log, StoreError> {
    let bytes = folder.read(LOG, limits::MAX_LOG_BYTES).map_err(folder.error("read", LOG))?;
    let mut encoded = HashMap::new();
    for entry in IntervalLogIterator::new(&bytes) {
        // Skip a truncated line: it belongs to no saved round.
        if let Ok(LogEntry::Interval(interval)) = entry
            && let Some(tag) = interval.tag()
            && let Some(key) = parse_key(tag.as_str())
        {
            let text = interval.encoded_histogram();
            let begins_at = text.as_ptr().addr() - bytes.as_ptr().addr();
            encoded.insert(key.to_owned(), begins_at..begins_at + text.len());
        }
    }
    Ok(Log { folder: folder.clone(), bytes, encoded })
}

impl Log {
    pub(super) fn has_latency(&self, record: &RoundRecord, flow: &Flow) -> bool {
        self.encoded.contains_key(&tag_key(record, flow, "latency"))
    }

    /// Returns the latency histograms of a round's phases. The counts by phase are in the round's record.
    fn phases(&self, record: &RoundRecord, flow: &Flow) -> Result<Option<PhaseSamples>, StoreError> {
        if record.order.phases.is_none() {
            return Ok(None);
        }
        let mut others = ByPhase::default();
        for phase in Phase::ALL {
            let latency = self.histogram(&tag_key(record, flow, &phase_quantity(*phase)))?;
            *others.get_mut(*phase) =
                latency.map(|latency| PhaseHistograms { latency, service: None, lateness: None });
        }
        Ok(Some(PhaseSamples { others, counts: ByPhase::default(), over_time: ProbeTimeLine::default() }))
    }

    /// Adds the histograms of a flow to its samples. Histograms are written before the record of their round, so
    /// missing histograms mean that the log is damaged.
    pub(super) fn complete(&self, record: &RoundRecord, flow: &Flow, rows: Samples) -> Result<Samples, StoreError> {
        let histogram = |quantity: &str| self.histogram(&tag_key(record, flow, quantity));
        let Some(latency) = histogram("latency")? else {
            let cause = format!("it has no histogram of round {}", record.number);
            return Err(self.folder.damaged(LOG, cause));
        };
        let (service, lateness) = (histogram("service")?, histogram("lateness")?);
        Ok(Samples { latency, service, lateness, phases: self.phases(record, flow)?.map(Box::new), ..rows })
    }

    fn histogram(&self, key: &str) -> Result<Option<Histogram<u64>>, StoreError> {
        let Some(encoded) = self.encoded.get(key) else { return Ok(None) };
        decode_histogram(&self.bytes[encoded.clone()])
            .map(Some)
            .map_err(|cause| self.folder.damaged(LOG, format!("{key}: {cause}")))
    }
}

/// The header before the counts in the V2 format: cookie, length of the counts, offset, digits, lowest and highest
/// value, ratio.
const HEADER_BYTES: usize = 40;
const PACKED_HEADER_BYTES: usize = 8;
/// The cookie of a V2 histogram compressed with deflate.
pub(super) const PACKED_COOKIE: u32 = 0x1c84_9314;
/// Maximum size of an encoded count: LEB128 of 64 bits, with all 8 bits of the last byte used.
const COUNT_BYTES: usize = 9;

/// Decodes an untrusted histogram. The library allocates memory for the length and the bounds that the histogram
/// states, so these are checked first: only histograms of the same shape as [`latency_histogram`] are accepted.
pub(super) fn decode_histogram(encoded: &[u8]) -> Result<Histogram<u64>, String> {
    const WRONG_SHAPE: &str = "it is not a histogram from 1 ns to 1 h with three digits";
    let max_places = latency_histogram().distinct_values();
    let packed = STANDARD.decode(encoded).map_err(|error| error.to_string())?;
    let (packed_head, packed) = packed.split_at_checked(PACKED_HEADER_BYTES).ok_or("it is cut short")?;
    let length = u32::try_from(packed.len()).map_err(|_| WRONG_SHAPE)?;
    if packed_head != [PACKED_COOKIE.to_be_bytes(), length.to_be_bytes()].concat() {
        return Err("its length or its compression is wrong".to_owned());
    }
    let max_bytes = HEADER_BYTES + max_places * COUNT_BYTES;
    let mut plain = Vec::new();
    let unpack = flate2::read::ZlibDecoder::new(packed).take(max_bytes as u64 + 1).read_to_end(&mut plain);
    unpack.map_err(|error: io::Error| error.to_string())?;
    let (head, counts) = plain.split_at_checked(HEADER_BYTES).ok_or("it is cut short")?;
    let number = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    // Length and offset, digits, lowest, highest.
    let lengths = (number(4), u64::from(u32::from_be_bytes(head[12..16].try_into().expect("four bytes"))));
    if lengths != ((counts.len() as u64) << 32, 3) || (number(16), number(24)) != (1, MAX_LATENCY_NS) {
        return Err(WRONG_SHAPE.to_owned());
    }
    check_counts(counts, max_places).ok_or(WRONG_SHAPE)?;
    Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|error| format!("{error:?}"))
}

/// Returns `None` unless the counts fill at most `max_places` places. A negative number skips places; a too large
/// number would overflow the library's arithmetic.
fn check_counts(mut counts: &[u8], max_places: usize) -> Option<()> {
    let (mut places, mut messages) = (0_u64, 0_u64);
    while !counts.is_empty() {
        let length =
            counts.iter().take(COUNT_BYTES - 1).position(|byte| byte & 0x80 == 0).map_or(COUNT_BYTES, |at| at + 1);
        let (number, rest) = counts.split_at_checked(length)?;
        let encoded = number.iter().enumerate().fold(0_u64, |sum, (at, byte)| {
            let bits = if at == COUNT_BYTES - 1 { *byte } else { byte & 0x7f };
            sum | u64::from(bits) << (7 * at)
        });
        let (is_skip, size) = (encoded & 1 == 1, (encoded >> 1) + (encoded & 1));
        places = places.checked_add(if is_skip { size } else { 1 })?;
        messages = messages.checked_add(if is_skip { 0 } else { size })?;
        counts = rest;
    }
    (places <= max_places as u64 && messages <= u64::MAX >> 8).then_some(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(plain: &[u8]) -> String {
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(plain).unwrap();
        let packed = packer.finish().unwrap();
        let length = u32::try_from(packed.len()).unwrap().to_be_bytes();
        STANDARD.encode([&PACKED_COOKIE.to_be_bytes(), &length[..], &packed].concat())
    }

    fn plain(digits: u32, highest: u64, length: usize, counts: &[u8]) -> Vec<u8> {
        let mut plain = 0x1c84_9313_u32.to_be_bytes().to_vec();
        plain.extend(u32::try_from(length).unwrap().to_be_bytes());
        plain.extend(0_u32.to_be_bytes());
        plain.extend(digits.to_be_bytes());
        plain.extend(1_u64.to_be_bytes());
        plain.extend(highest.to_be_bytes());
        plain.extend(1.0_f64.to_be_bytes());
        plain.extend(counts);
        plain
    }

    #[test]
    fn a_tag_has_the_case_in_words_and_is_found_by_its_round() {
        assert_eq!(as_tag("tcp block, same CPU 1.5 kB"), "tcp_block_same_CPU_1.5_kB");
        assert_eq!(parse_key("tcp_block_same_CPU_1.5_kB.7.latency"), Some("7.latency"));
        assert_eq!(parse_key("c05053829d953468.0.service"), Some("0.service"));
        assert_eq!(parse_key("7.latency"), None);
    }

    #[test]
    fn only_histograms_of_our_own_shape_are_decoded() {
        let decode = |plain: Vec<u8>| decode_histogram(packed(&plain).as_bytes());
        let one = decode(plain(3, MAX_LATENCY_NS, 2, &[1, 4])).unwrap();
        assert_eq!((one.len(), one.count_at(1)), (2, 2), "a skipped place, then two messages of 1 ns");
        for wrong in [
            plain(5, MAX_LATENCY_NS, 2, &[1, 4]),
            plain(3, u64::MAX, 2, &[1, 4]),
            plain(3, MAX_LATENCY_NS, 0x7fff_ffff, &[1, 4]),
            // Decodes to the minimum i64, which the library would negate to get the number of skipped places.
            plain(3, MAX_LATENCY_NS, 9, &[0xff; 9]),
            plain(3, MAX_LATENCY_NS, 8, &[0xff; 8]),
            // Two counts of about 2^62 messages.
            plain(3, MAX_LATENCY_NS, 18, &[[0xfe; 8].as_slice(), &[0x7f], &[0xfe; 8], &[0x7f]].concat()),
            vec![0; 10 << 20],
        ] {
            decode(wrong).unwrap_err();
        }
        assert!(decode_histogram(b"AAAA").is_err() && decode_histogram(b"no base64!").is_err());
    }
}
