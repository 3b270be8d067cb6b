//! Raw samples as Parquet columns: Snappy-compressed and without nested types, so that any reader can read them. A file
//! has one row group per round: one round during the run, all of them once they are merged.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use hairpin_model::round::RoundOrder;
use hairpin_model::samples::{Fate, Samples};
use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::error::StoreError;
use super::folder::Folder;
use super::histograms::Histograms;
use super::pages::{self, BoundedPages, torn};

/// The columns. Times are ns since the round began; `received_ns` is null without an answer. Earlier versions wrote no
/// `label`, and used another order.
pub(super) const SCHEMA: &str = "message samples {
    REQUIRED INT32 round;
    REQUIRED BYTE_ARRAY case_id (UTF8);
    REQUIRED BYTE_ARRAY label (UTF8);
    REQUIRED INT64 sequence;
    REQUIRED BOOLEAN warm_up;
    REQUIRED INT64 due_ns;
    REQUIRED INT64 sent_ns;
    OPTIONAL INT64 received_ns;
    REQUIRED BYTE_ARRAY fate (UTF8);
    REQUIRED INT64 size_bytes;
}";

/// The columns that are read, by name.
const ROUND: &str = "round";
const SEQUENCE: &str = "sequence";
const WARM_UP: &str = "warm_up";
const DUE: &str = "due_ns";
const SENT: &str = "sent_ns";
const RECEIVED: &str = "received_ns";
const FATE: &str = "fate";

/// One raw sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number in the round.
    pub sequence: u64,
    pub warm_up: bool,
    /// When it was due, in ns since the round began.
    pub due_ns: u64,
    /// When its send call began.
    pub sent_ns: u64,
    /// When its answer was complete; `None` without an answer.
    pub received_ns: Option<u64>,
    pub fate: Fate,
}

/// The columns as read; `received_ns` is 0 without an answer.
#[derive(Debug, Default)]
pub(super) struct Columns {
    sequence: Vec<u64>,
    warm_up: Vec<bool>,
    due_ns: Vec<u64>,
    sent_ns: Vec<u64>,
    received_ns: Vec<u64>,
    fate: Vec<Fate>,
}

/// The raw samples of one round.
#[derive(Debug, Default)]
pub struct Rows(pub(super) Columns);

impl Rows {
    /// The samples in order of arrival.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Row> + '_ {
        let columns = &self.0;
        (0..columns.fate.len()).map(|row| Row {
            sequence: columns.sequence[row],
            warm_up: columns.warm_up[row],
            due_ns: columns.due_ns[row],
            sent_ns: columns.sent_ns[row],
            received_ns: (columns.fate[row] != Fate::Lost).then_some(columns.received_ns[row]),
            fate: columns.fate[row],
        })
    }
}

impl Columns {
    /// The samples of a round, from its columns and its histograms.
    pub(super) fn with(self, histograms: Histograms, measured: u64) -> Samples {
        Samples {
            warm_up: self.warm_up.iter().take_while(|warm_up| **warm_up).count(),
            sequence: self.sequence,
            due_ns: self.due_ns,
            sent_ns: self.sent_ns,
            received_ns: self.received_ns,
            fate: self.fate,
            latency: histograms.latency,
            service: histograms.service,
            lateness: histograms.lateness,
            measured,
            phases: histograms.phases.map(Box::new),
        }
    }
}

/// Writes the samples of one round to a separate file.
pub(super) fn write(
    folder: &Folder,
    name: &str,
    round: u32,
    case_id: &str,
    order: &RoundOrder,
    samples: &Samples,
) -> Result<(), StoreError> {
    let written = folder.write::<std::io::Error>(name, |file| {
        writer(file.try_clone()?)
            .and_then(|writer| write_columns(writer, round, case_id, order, samples))
            .map_err(into_io)
    });
    written.map_err(folder.error("write", name))
}

/// Writes the row groups of these files, which [`write`] wrote, to one file. Their pages are copied unchanged, one at a
/// time. If it fails it leaves no file.
pub(super) fn merge<'n>(folder: &Folder, parts: impl Iterator<Item = &'n str>, name: &str) -> Result<(), StoreError> {
    let copy = |file: &mut File| -> Result<(), ParquetError> {
        let mut writer = writer(file.try_clone()?)?;
        for part in parts {
            let part = folder.file(part, super::limits::SAMPLES_BYTES)?;
            for group in pages::metadata(&part, pages::METADATA_BYTES)?.row_groups() {
                append(&mut writer, &part, group)?;
            }
        }
        writer.close()?;
        // The parts are removed next.
        Ok(file.sync_all()?)
    };
    folder.write::<std::io::Error>(name, |file| copy(file).map_err(into_io)).map_err(folder.error("write", name))
}

fn append(
    writer: &mut SerializedFileWriter<File>,
    part: &File,
    group: &RowGroupMetaData,
) -> Result<(), ParquetError> {
    let mut to = writer.next_row_group()?;
    for column in group.columns() {
        let close = ColumnCloseResult {
            bytes_written: u64::try_from(column.compressed_size()).map_err(|_| torn("a size"))?,
            rows_written: u64::try_from(group.num_rows()).map_err(|_| torn("a number of rows"))?,
            metadata: column.clone(),
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        to.append_column(part, close)?;
    }
    to.close().map(drop)
}

fn writer(file: File) -> Result<SerializedFileWriter<File>, ParquetError> {
    // Only the round has statistics, to find its row group. Those of other columns would only take space.
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ROUND.into(), EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .build();
    SerializedFileWriter::new(file, Arc::new(parse_message_type(SCHEMA)?), Arc::new(properties))
}

/// The system error inside, if any, so that a full disk is reported as such.
fn into_io(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    }
}

pub(super) fn write_columns(
    mut writer: SerializedFileWriter<File>,
    round: u32,
    case_id: &str,
    order: &RoundOrder,
    samples: &Samples,
) -> Result<(), ParquetError> {
    let label = order.case.label();
    let mut group = writer.next_row_group()?;
    let rows = samples.kept();
    let wide = |values: &[u64]| values.iter().map(|value| value.cast_signed()).collect::<Vec<i64>>();
    let words: Vec<ByteArray> = Fate::ALL.iter().map(|fate| ByteArray::from(fate.word())).collect();
    for index in 0.. {
        let Some(mut column) = group.next_column()? else { break };
        match (index, column.untyped()) {
            (0, ColumnWriter::Int32ColumnWriter(column)) => {
                column.write_batch(&vec![round.cast_signed(); rows], None, None)?;
            }
            (1, ColumnWriter::ByteArrayColumnWriter(column)) => {
                column.write_batch(&vec![ByteArray::from(case_id); rows], None, None)?;
            }
            (2, ColumnWriter::ByteArrayColumnWriter(column)) => {
                column.write_batch(&vec![ByteArray::from(label.as_str()); rows], None, None)?;
            }
            (3, ColumnWriter::Int64ColumnWriter(column)) => {
                column.write_batch(&wide(&samples.sequence), None, None)?;
            }
            (4, ColumnWriter::BoolColumnWriter(column)) => {
                let warm_up: Vec<bool> = (0..rows).map(|row| row < samples.warm_up).collect();
                column.write_batch(&warm_up, None, None)?;
            }
            (5, ColumnWriter::Int64ColumnWriter(column)) => {
                column.write_batch(&wide(&samples.due_ns), None, None)?;
            }
            (6, ColumnWriter::Int64ColumnWriter(column)) => {
                column.write_batch(&wide(&samples.sent_ns), None, None)?;
            }
            (7, ColumnWriter::Int64ColumnWriter(column)) => {
                let here: Vec<i16> = samples.fate.iter().map(|fate| i16::from(*fate != Fate::Lost)).collect();
                let times = samples.received_ns.iter().zip(&here).filter(|(_, here)| **here == 1);
                let times: Vec<i64> = times.map(|(time, _)| time.cast_signed()).collect();
                column.write_batch(&times, Some(&here), None)?;
            }
            (9, ColumnWriter::Int64ColumnWriter(column)) => {
                column.write_batch(&vec![order.case.primary().load.size_bytes().cast_signed(); rows], None, None)?;
            }
            (8, ColumnWriter::ByteArrayColumnWriter(column)) => {
                let fates: Vec<ByteArray> = samples.fate.iter().map(|fate| words[*fate as usize].clone()).collect();
                column.write_batch(&fates, None, None)?;
            }
            _ => return Err(ParquetError::General(format!("column {index} is not what the schema says"))),
        }
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// An open samples file.
pub(super) struct SamplesFile {
    folder: Folder,
    name: String,
    file: Arc<File>,
    file_bytes: u64,
    metadata: ParquetMetaData,
    /// The row group of each round; empty if the file has only one round.
    by_round: HashMap<u32, usize>,
}

/// Opens the file of one round.
pub(super) fn of_a_round(folder: &Folder, name: &str) -> Result<SamplesFile, StoreError> {
    SamplesFile::open(folder, name, super::limits::SAMPLES_BYTES, pages::METADATA_BYTES)
}

/// Opens a file of merged rounds.
pub(super) fn of_a_run(folder: &Folder, name: &str) -> Result<SamplesFile, StoreError> {
    let mut opened = SamplesFile::open(folder, name, super::limits::MERGED_BYTES, pages::MERGED_METADATA_BYTES)?;
    opened.by_round = opened.index().map_err(|error| folder.damaged(name, error.to_string()))?;
    Ok(opened)
}

impl SamplesFile {
    fn open(folder: &Folder, name: &str, most: u64, most_metadata: usize) -> Result<Self, StoreError> {
        let damaged = |error: ParquetError| folder.damaged(name, error.to_string());
        let file = folder.file(name, most).map_err(folder.error("read", name))?;
        let file_bytes = file.metadata().map_err(folder.error("read", name))?.len();
        let metadata = pages::metadata(&file, most_metadata).map_err(damaged)?;
        let (folder, name) = (folder.clone(), name.to_owned());
        Ok(Self { folder, name, file: Arc::new(file), file_bytes, metadata, by_round: HashMap::new() })
    }

    /// Finds the row group of each round by the column's statistics.
    fn index(&self) -> Result<HashMap<u32, usize>, ParquetError> {
        let mut by_round = HashMap::new();
        let round_column = column_of(&self.metadata, ROUND)?;
        for (number, group) in self.metadata.row_groups().iter().enumerate() {
            let column = group.columns().get(round_column).ok_or_else(|| torn("the column round"))?;
            let Some(Statistics::Int32(round)) = column.statistics() else { return Err(torn("a row group's round")) };
            let one = round.min_opt().zip(round.max_opt()).filter(|(least, most)| least == most);
            let (round, _) = one.ok_or_else(|| torn("one round in each row group"))?;
            if by_round.insert(round.cast_unsigned(), number).is_some() {
                return Err(torn("one row group for each round"));
            }
        }
        Ok(by_round)
    }

    /// Reads the columns of a round that has `kept` samples.
    pub(super) fn read(&self, round: u32, kept: u64) -> Result<Columns, StoreError> {
        let groups = self.metadata.row_groups();
        let groups = match self.by_round.get(&round) {
            Some(group) => &groups[*group..=*group],
            None if self.by_round.is_empty() => groups,
            None => &[],
        };
        self.read_groups(groups, kept).map_err(|error| self.folder.damaged(&self.name, error.to_string()))
    }

    fn read_groups(&self, groups: &[RowGroupMetaData], kept: u64) -> Result<Columns, ParquetError> {
        let rows: Option<u64> =
            groups.iter().try_fold(0_u64, |rows, group| rows.checked_add(u64::try_from(group.num_rows()).ok()?));
        if rows != Some(kept) {
            return Err(ParquetError::General("the row count differs from rounds.jsonl".to_owned()));
        }
        let mut columns = Columns::default();
        for metadata in groups {
            let group = Group { file: &self.file, file_bytes: self.file_bytes, of_file: &self.metadata, metadata };
            read_group(&group, &mut columns)?;
        }
        Ok(columns)
    }
}

/// The index of a column in a file.
fn column_of(metadata: &ParquetMetaData, name: &str) -> Result<usize, ParquetError> {
    let columns = metadata.file_metadata().schema_descr().columns();
    columns.iter().position(|column| column.name() == name).ok_or_else(|| torn(&format!("the column {name}")))
}

/// A row group of an open file.
struct Group<'a> {
    file: &'a Arc<File>,
    file_bytes: u64,
    of_file: &'a ParquetMetaData,
    metadata: &'a RowGroupMetaData,
}

impl Group<'_> {
    fn rows(&self) -> Result<usize, ParquetError> {
        usize::try_from(self.metadata.num_rows()).map_err(|_| torn("a number of rows"))
    }

    fn column(&self, name: &str) -> Result<ColumnReader, ParquetError> {
        let place = column_of(self.of_file, name)?;
        let metadata = self.metadata.columns().get(place).ok_or_else(|| torn("a column of the schema"))?;
        let optional = i16::from(name == RECEIVED);
        let description = metadata.column_descr_ptr();
        if (description.max_def_level(), description.max_rep_level()) != (optional, 0) {
            return Err(torn("a column of the schema"));
        }
        let pages = BoundedPages::new(self.file, self.file_bytes, metadata, self.rows()?)?;
        Ok(get_column_reader(description, Box::new(pages)))
    }

    /// Reads a column of integers in parts. For nullable columns also returns a level per row: 1 if there is a value.
    fn whole(
        &self,
        column: &str,
        mut take: impl FnMut(&[i64], &[i16]) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let ColumnReader::Int64ColumnReader(mut reader) = self.column(column)? else {
            return Err(torn("a column of whole numbers"));
        };
        in_parts(&mut reader, self.rows()?, column == RECEIVED, |part, levels| take(part, levels))
    }

    fn times(&self, column: &str, into: &mut Vec<u64>) -> Result<(), ParquetError> {
        into.reserve_exact(self.rows()?);
        self.whole(column, |part, _| {
            into.extend(part.iter().map(|number| number.cast_unsigned()));
            Ok(())
        })
    }
}

/// Reads column by column: the row-wise interface takes four times as long.
fn read_group(group: &Group<'_>, columns: &mut Columns) -> Result<(), ParquetError> {
    let (rows, before) = (group.rows()?, columns.fate.len());
    group.times(SEQUENCE, &mut columns.sequence)?;
    group.times(DUE, &mut columns.due_ns)?;
    group.times(SENT, &mut columns.sent_ns)?;
    let ColumnReader::BoolColumnReader(mut reader) = group.column(WARM_UP)? else {
        return Err(torn("the column warm_up"));
    };
    columns.warm_up.reserve_exact(rows);
    in_parts(&mut reader, rows, false, |part, _| {
        columns.warm_up.extend_from_slice(part);
        Ok(())
    })?;
    let ColumnReader::ByteArrayColumnReader(mut reader) = group.column(FATE)? else {
        return Err(torn("the column fate"));
    };
    columns.fate.reserve_exact(rows);
    in_parts(&mut reader, rows, false, |part, _| {
        for word in part {
            let fate = word.as_utf8()?.parse().map_err(|error| ParquetError::General(format!("{error}")))?;
            columns.fate.push(fate);
        }
        Ok(())
    })?;
    let (received_ns, fates) = (&mut columns.received_ns, &columns.fate);
    debug_assert_eq!(received_ns.len(), before, "every group filled all columns");
    received_ns.reserve_exact(rows);
    group.whole(RECEIVED, |part, levels| {
        let mut there = part.iter();
        for level in levels {
            let received = if *level == 1 { there.next() } else { None };
            if received.is_none() != (fates[received_ns.len()] == Fate::Lost) {
                return Err(torn("received_ns where the fate tells of an answer"));
            }
            received_ns.push(received.map_or(0, |received| received.cast_unsigned()));
        }
        Ok(())
    })
}

/// Maximum values decoded at once.
const PART: usize = 1 << 16;

/// Reads all values of a column in parts, with the level of each row for nullable columns.
fn in_parts<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    nullable: bool,
    mut take: impl FnMut(&[T::T], &[i16]) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
    let (mut part, mut levels) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        part.clear();
        levels.clear();
        let (records, values, _) =
            reader.read_records(PART.min(rows - read), nullable.then_some(&mut levels), None, &mut part)?;
        let told = if nullable { levels.len() } else { values };
        if records == 0 || told != records || part.len() != values {
            return Err(torn("as many values as rows"));
        }
        take(&part, &levels)?;
        read += records;
    }
    Ok(())
}
