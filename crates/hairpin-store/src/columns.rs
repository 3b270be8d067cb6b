//! Raw samples as Parquet columns: Snappy-compressed and without nested types, so that any reader can read them. A file
//! has one row group for each flow of a round: one round during the run, all of them once they are merged.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use hairpin_model::round_columns::{FLOW, ROUND, ROUND_COLUMNS};
use hairpin_model::samples::{COLUMNS, ColumnKind};
use hairpin_model::{Column, Flow, FlowSamples, RoundRecord, RoundValue, Samples};
use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{BoolType, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::error::StoreError;
use super::folder::Folder;
use super::pages::{self, BoundedPages, damaged};

/// Maximum values encoded or decoded at once.
const PART: usize = 1 << 16;

/// The schema of the columns of the model. Earlier versions wrote fewer columns, and in another order.
pub(super) fn schema() -> String {
    let of_round = ROUND_COLUMNS.iter().map(|(name, value)| match value {
        RoundValue::Number32(_) => format!("REQUIRED INT32 {name};"),
        RoundValue::Number(_) => format!("REQUIRED INT64 {name};"),
        RoundValue::Text(_) => format!("REQUIRED BYTE_ARRAY {name} (UTF8);"),
    });
    let of_message = COLUMNS.iter().map(|column| match column.kind {
        ColumnKind::Number => format!("REQUIRED INT64 {};", column.name),
        ColumnKind::Nullable => format!("OPTIONAL INT64 {};", column.name),
        ColumnKind::Flag => format!("REQUIRED BOOLEAN {};", column.name),
        ColumnKind::Word(_) => format!("REQUIRED BYTE_ARRAY {} (UTF8);", column.name),
    });
    format!("message samples {{ {} }}", of_round.chain(of_message).collect::<String>())
}

/// Writes the samples of one round to a separate file: a row group for each flow.
pub(super) fn write(
    folder: &Folder,
    name: &str,
    record: &RoundRecord,
    samples: &FlowSamples,
) -> Result<(), StoreError> {
    let written = folder.write::<std::io::Error>(name, |file| {
        writer(file.try_clone()?).and_then(|writer| write_columns(writer, record, samples)).map_err(into_io)
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
            bytes_written: u64::try_from(column.compressed_size()).map_err(|_| damaged("a size"))?,
            rows_written: u64::try_from(group.num_rows()).map_err(|_| damaged("a number of rows"))?,
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
    // Only the round and the flow have statistics, to find their row group. Others would only take space.
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ROUND.into(), EnabledStatistics::Chunk)
        .set_column_statistics_enabled(FLOW.into(), EnabledStatistics::Chunk)
        .set_statistics_truncate_length(None)
        .set_offset_index_disabled(true)
        .build();
    SerializedFileWriter::new(file, Arc::new(parse_message_type(&schema())?), Arc::new(properties))
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
    record: &RoundRecord,
    samples: &FlowSamples,
) -> Result<(), ParquetError> {
    for flow in &record.order.case.flows {
        if let Some(samples) = samples.get(&flow.id).filter(|samples| samples.kept() > 0) {
            write_group(writer.next_row_group()?, record, flow, samples)?;
        }
    }
    writer.close()?;
    Ok(())
}

fn write_group(
    mut group: SerializedRowGroupWriter<'_, File>,
    record: &RoundRecord,
    flow: &Flow,
    samples: &Samples,
) -> Result<(), ParquetError> {
    let rows = samples.kept();
    for (_, value) in ROUND_COLUMNS {
        let mut to = next(&mut group)?;
        match value {
            RoundValue::Number32(of) => repeat::<Int32Type>(&mut to, rows, of(record, flow).cast_signed())?,
            RoundValue::Number(of) => repeat::<Int64Type>(&mut to, rows, of(record, flow).cast_signed())?,
            RoundValue::Text(of) => repeat::<ByteArrayType>(&mut to, rows, of(record, flow).as_str().into())?,
        }
        to.close()?;
    }
    for column in COLUMNS {
        let mut to = next(&mut group)?;
        for first in (0..rows).step_by(PART) {
            let part = first..rows.min(first + PART);
            let values = part.clone().filter_map(|row| (column.get)(samples, row));
            match column.kind {
                ColumnKind::Number => put::<Int64Type>(&mut to, values.map(u64::cast_signed), None)?,
                ColumnKind::Nullable => {
                    let levels: Vec<i16> = part.map(|row| (column.get)(samples, row).is_some().into()).collect();
                    put::<Int64Type>(&mut to, values.map(u64::cast_signed), Some(&levels))?;
                }
                ColumnKind::Flag => put::<BoolType>(&mut to, values.map(|value| value == 1), None)?,
                ColumnKind::Word(words) => {
                    let word = |value: u64| Bytes::from_static(words[value as usize].as_bytes()).into();
                    put::<ByteArrayType>(&mut to, values.map(word), None)?;
                }
            }
        }
        to.close()?;
    }
    group.close().map(drop)
}

fn next<'g>(group: &'g mut SerializedRowGroupWriter<'_, File>) -> Result<SerializedColumnWriter<'g>, ParquetError> {
    group.next_column()?.ok_or_else(|| ParquetError::General("the schema has too few columns".to_owned()))
}

/// Writes the same value for all rows.
fn repeat<T: DataType>(to: &mut SerializedColumnWriter<'_>, rows: usize, value: T::T) -> Result<(), ParquetError> {
    let part = vec![value; rows.min(PART)];
    (0..rows)
        .step_by(PART)
        .try_for_each(|first| to.typed::<T>().write_batch(&part[..PART.min(rows - first)], None, None).map(drop))
}

/// Writes part of a column; a nullable one has a level for each row: 1 if there is a value.
fn put<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    values: impl Iterator<Item = T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    to.typed::<T>().write_batch(&values.collect::<Vec<_>>(), levels, None).map(drop)
}

pub(super) struct SamplesFile {
    folder: Folder,
    name: String,
    file: Arc<File>,
    file_bytes: u64,
    metadata: ParquetMetaData,
    /// The row group of each flow of each round. Files of earlier versions name no flow, and have the primary one only.
    groups: HashMap<(u32, Option<Vec<u8>>), usize>,
}

pub(super) fn of_a_round(folder: &Folder, name: &str) -> Result<SamplesFile, StoreError> {
    let mut opened = SamplesFile::open(folder, name, super::limits::SAMPLES_BYTES, pages::METADATA_BYTES)?;
    if place_of(&opened.metadata, FLOW).is_some() {
        opened.index().map_err(|error| folder.damaged(name, error.to_string()))?;
    }
    Ok(opened)
}

pub(super) fn of_a_run(folder: &Folder, name: &str) -> Result<SamplesFile, StoreError> {
    let mut opened = SamplesFile::open(folder, name, super::limits::MERGED_BYTES, pages::MERGED_METADATA_BYTES)?;
    opened.index().map_err(|error| folder.damaged(name, error.to_string()))?;
    Ok(opened)
}

impl SamplesFile {
    fn open(folder: &Folder, name: &str, most: u64, most_metadata: usize) -> Result<Self, StoreError> {
        let damaged = |error: ParquetError| folder.damaged(name, error.to_string());
        let file = folder.file(name, most).map_err(folder.error("read", name))?;
        let file_bytes = file.metadata().map_err(folder.error("read", name))?.len();
        let metadata = pages::metadata(&file, most_metadata).map_err(damaged)?;
        let (folder, name) = (folder.clone(), name.to_owned());
        Ok(Self { folder, name, file: Arc::new(file), file_bytes, metadata, groups: HashMap::new() })
    }

    /// Finds the row group of each flow of each round by the columns' statistics.
    fn index(&mut self) -> Result<(), ParquetError> {
        let round_column = place_of(&self.metadata, ROUND).ok_or_else(|| damaged("the column round"))?;
        let flow_column = place_of(&self.metadata, FLOW);
        for (number, group) in self.metadata.row_groups().iter().enumerate() {
            let statistics = |column: usize| group.columns().get(column).and_then(ColumnChunkMetaData::statistics);
            let Some(Statistics::Int32(round)) = statistics(round_column) else {
                return Err(damaged("a row group's round"));
            };
            let round = only(round).ok_or_else(|| damaged("one round in each row group"))?.cast_unsigned();
            let flow = flow_column.map(|column| match statistics(column) {
                Some(Statistics::ByteArray(flow)) => only(flow).map(|flow| flow.data().to_vec()),
                _ => None,
            });
            let flow = flow.map(|flow| flow.ok_or_else(|| damaged("one flow in each row group"))).transpose()?;
            if self.groups.insert((round, flow), number).is_some() {
                return Err(damaged("one row group for each flow of a round"));
            }
        }
        Ok(())
    }

    /// Reads these columns of a flow of a round that has `kept` samples. The histograms are empty.
    pub(super) fn read(
        &self,
        record: &RoundRecord,
        flow: &Flow,
        kept: u64,
        columns: &[Column],
    ) -> Result<Samples, StoreError> {
        let groups = self.metadata.row_groups();
        let of = |flow: Option<Vec<u8>>| self.groups.get(&(record.number, flow));
        let (is_primary, named) = (record.order.case.is_judged_by(flow), of(Some(flow.id.to_string().into_bytes())));
        let groups = match named.or_else(|| of(None).filter(|_| is_primary)) {
            Some(group) => &groups[*group..=*group],
            None if self.groups.is_empty() && is_primary => groups,
            None => &[],
        };
        self.read_groups(groups, kept, columns).map_err(|error| self.folder.damaged(&self.name, error.to_string()))
    }

    fn read_groups(
        &self,
        groups: &[RowGroupMetaData],
        kept: u64,
        columns: &[Column],
    ) -> Result<Samples, ParquetError> {
        let rows: Option<u64> =
            groups.iter().try_fold(0_u64, |rows, group| rows.checked_add(u64::try_from(group.num_rows()).ok()?));
        if rows != Some(kept) {
            return Err(ParquetError::General("the row count differs from rounds.jsonl".to_owned()));
        }
        let mut samples = Samples::with_rows(usize::try_from(kept).map_err(|_| damaged("a number of rows"))?);
        // Whether a value may be null is known once the others have been read.
        let (nullable, required): (Vec<&Column>, Vec<&Column>) =
            columns.iter().partition(|column| column.kind == ColumnKind::Nullable);
        for column in required.into_iter().chain(nullable) {
            let mut rows = Rows { column, samples: &mut samples, next: 0 };
            groups.iter().try_for_each(|group| self.read_column(group, &mut rows))?;
        }
        Ok(samples)
    }

    fn read_column(&self, group: &RowGroupMetaData, rows: &mut Rows<'_>) -> Result<(), ParquetError> {
        let count = usize::try_from(group.num_rows()).map_err(|_| damaged("a number of rows"))?;
        let Column { name, kind, default, .. } = *rows.column;
        let Some(place) = place_of(&self.metadata, name) else {
            let value = default.ok_or_else(|| damaged(&format!("the column {name}")))?;
            return (0..count).try_for_each(|_| rows.set(value));
        };
        let metadata = group.columns().get(place).ok_or_else(|| damaged("a column of the schema"))?;
        let description = metadata.column_descr_ptr();
        if (description.max_def_level(), description.max_rep_level()) != (i16::from(kind == ColumnKind::Nullable), 0)
        {
            return Err(damaged("a column of the schema"));
        }
        let pages = BoundedPages::new(&self.file, self.file_bytes, metadata, count)?;
        match (get_column_reader(description, Box::new(pages)), kind) {
            (ColumnReader::Int64ColumnReader(reader), ColumnKind::Number | ColumnKind::Nullable) => {
                in_parts(reader, count, rows, |value| value.cast_unsigned())
            }
            (ColumnReader::BoolColumnReader(reader), ColumnKind::Flag) => {
                in_parts(reader, count, rows, |value| u64::from(*value))
            }
            (ColumnReader::ByteArrayColumnReader(reader), ColumnKind::Word(words)) => {
                let place = |value: &[u8]| words.iter().position(|word| word.as_bytes() == value);
                in_parts(reader, count, rows, |value| place(value.data()).map_or(u64::MAX, |place| place as u64))
            }
            _ => Err(damaged(&format!("a column {name} of its type"))),
        }
    }
}

/// The value of a column with only one.
fn only<T: PartialEq>(statistics: &ValueStatistics<T>) -> Option<&T> {
    let (least, most) = statistics.min_opt().zip(statistics.max_opt())?;
    (least == most).then_some(least)
}

fn place_of(metadata: &ParquetMetaData, name: &str) -> Option<usize> {
    metadata.file_metadata().schema_descr().columns().iter().position(|column| column.name() == name)
}

/// A column while it is read.
struct Rows<'s> {
    column: &'s Column,
    samples: &'s mut Samples,
    next: usize,
}

impl Rows<'_> {
    fn set(&mut self, value: u64) -> Result<(), ParquetError> {
        let is_sound = (self.column.set)(self.samples, self.next, value);
        self.next += 1;
        if is_sound { Ok(()) } else { Err(damaged(&format!("sound values of {}", self.column.name))) }
    }

    /// Sets the value of the next row, which may be null if the column has no value there.
    fn put(&mut self, value: Option<u64>) -> Result<(), ParquetError> {
        let Column { name, get, .. } = self.column;
        if get(self.samples, self.next).is_some() != value.is_some() {
            return Err(damaged(&format!("{name} in each row that has it, and in no other")));
        }
        self.set(value.unwrap_or_default())
    }
}

/// Reads `count` rows of a column in parts: reading row by row takes four times as long.
fn in_parts<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    count: usize,
    rows: &mut Rows<'_>,
    number: impl Fn(&T::T) -> u64,
) -> Result<(), ParquetError> {
    let is_nullable = rows.column.kind == ColumnKind::Nullable;
    let (mut part, mut levels) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < count {
        part.clear();
        levels.clear();
        let (records, values, _) =
            reader.read_records(PART.min(count - read), is_nullable.then_some(&mut levels), None, &mut part)?;
        let has_all = if is_nullable { levels.len() } else { values } == records && part.len() == values;
        if records == 0 || !has_all {
            return Err(damaged("as many values as rows"));
        }
        let mut values = part.iter();
        for row in 0..records {
            let has_value = levels.get(row).is_none_or(|level| *level == 1);
            let value = if has_value { values.next() } else { None };
            rows.put(value.map(&number))?;
        }
        read += records;
    }
    Ok(())
}
