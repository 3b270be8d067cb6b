//! Raw samples as Parquet columns, compressed with Snappy and without nested types, so that any reader can read them.
//! A file has one row group per flow and round. Each round has its own file until all files are merged after the run.

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
use super::limits;
use super::pages::{self, BoundedPages, damaged};

pub(super) const MERGED: &str = "samples.parquet";
const MAX_ROWS: usize = 1 << 16;

/// Returns the schema of the model's columns. Earlier versions wrote fewer columns, in another order.
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

/// Writes the samples of one round to a new file, with a row group for each flow.
pub(super) fn write(
    folder: &Folder,
    name: &str,
    record: &RoundRecord,
    samples: &FlowSamples,
) -> Result<(), StoreError> {
    let written = folder.write(name, |file| {
        writer(file.try_clone()?).and_then(|writer| write_columns(writer, record, samples)).map_err(into_io)
    });
    written.map_err(folder.error("write", name))
}

/// Copies the row groups of files that [`write`] wrote into one file, without decoding their pages. Leaves no file on
/// failure.
pub(super) fn merge<'n>(folder: &Folder, parts: impl Iterator<Item = &'n str>, name: &str) -> Result<(), StoreError> {
    let copy = |file: &mut File| -> Result<(), ParquetError> {
        let mut writer = writer(file.try_clone()?)?;
        for part in parts {
            let part = folder.file(part, limits::MAX_SAMPLES_BYTES)?;
            for group in pages::metadata(&part, pages::MAX_METADATA_BYTES)?.row_groups() {
                append(&mut writer, &part, group)?;
            }
        }
        writer.close()?;
        // The caller removes the parts next.
        Ok(file.sync_all()?)
    };
    folder.write(name, |file| copy(file).map_err(into_io)).map_err(folder.error("write", name))
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
    // Only the columns `round` and `flow` have statistics: readers use them to find a row group.
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

/// Extracts the system error, if any, so that a full disk is reported as such.
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
        let mut to = next_column(&mut group)?;
        match value {
            RoundValue::Number32(of) => fill::<Int32Type>(&mut to, rows, of(record, flow).cast_signed())?,
            RoundValue::Number(of) => fill::<Int64Type>(&mut to, rows, of(record, flow).cast_signed())?,
            RoundValue::Text(of) => fill::<ByteArrayType>(&mut to, rows, of(record, flow).as_str().into())?,
        }
        to.close()?;
    }
    for column in COLUMNS {
        let mut to = next_column(&mut group)?;
        for first in (0..rows).step_by(MAX_ROWS) {
            let part = first..rows.min(first + MAX_ROWS);
            let values = part.clone().filter_map(|row| (column.get)(samples, row));
            match column.kind {
                ColumnKind::Number => write_part::<Int64Type>(&mut to, values.map(u64::cast_signed), None)?,
                ColumnKind::Nullable => {
                    let levels: Vec<i16> = part.map(|row| (column.get)(samples, row).is_some().into()).collect();
                    write_part::<Int64Type>(&mut to, values.map(u64::cast_signed), Some(&levels))?;
                }
                ColumnKind::Flag => write_part::<BoolType>(&mut to, values.map(|value| value == 1), None)?,
                ColumnKind::Word(words) => {
                    let word = |value: u64| Bytes::from_static(words[value as usize].as_bytes()).into();
                    write_part::<ByteArrayType>(&mut to, values.map(word), None)?;
                }
            }
        }
        to.close()?;
    }
    group.close().map(drop)
}

fn next_column<'g>(
    group: &'g mut SerializedRowGroupWriter<'_, File>,
) -> Result<SerializedColumnWriter<'g>, ParquetError> {
    group.next_column()?.ok_or_else(|| ParquetError::General("the schema has too few columns".to_owned()))
}

fn fill<T: DataType>(to: &mut SerializedColumnWriter<'_>, rows: usize, value: T::T) -> Result<(), ParquetError> {
    let part = vec![value; rows.min(MAX_ROWS)];
    (0..rows)
        .step_by(MAX_ROWS)
        .try_for_each(|first| to.typed::<T>().write_batch(&part[..MAX_ROWS.min(rows - first)], None, None).map(drop))
}

/// Writes part of a column. A nullable column has a level for each row: 1 if the row has a value, else 0.
fn write_part<T: DataType>(
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
    /// Row group by round and flow. In files of earlier versions the flow is `None` and means the primary flow.
    groups: Groups,
}

type Groups = HashMap<(u32, Option<Vec<u8>>), usize>;

impl SamplesFile {
    /// Opens the samples of one round, or the merged samples of all.
    pub(super) fn open(folder: &Folder, name: &str) -> Result<Self, StoreError> {
        let is_merged = name == MERGED;
        let (max_bytes, max_metadata) = match is_merged {
            true => (limits::MAX_MERGED_BYTES, pages::MAX_MERGED_METADATA_BYTES),
            false => (limits::MAX_SAMPLES_BYTES, pages::MAX_METADATA_BYTES),
        };
        let damaged = |error: ParquetError| folder.damaged(name, error.to_string());
        let file = folder.file(name, max_bytes).map_err(folder.error("read", name))?;
        let file_bytes = file.metadata().map_err(folder.error("read", name))?.len();
        let metadata = pages::metadata(&file, max_metadata).map_err(damaged)?;
        let has_groups = is_merged || column_index(&metadata, FLOW).is_some();
        let groups = if has_groups { find_groups(&metadata).map_err(damaged)? } else { HashMap::new() };
        let (folder, name) = (folder.clone(), name.to_owned());
        Ok(Self { folder, name, file: Arc::new(file), file_bytes, metadata, groups })
    }

    /// Reads these columns of a flow that has `kept` samples in the round. Leaves the histograms empty.
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
        // Reads required columns first: their values decide which rows of a nullable column must be null.
        let (nullable, required): (Vec<&Column>, Vec<&Column>) =
            columns.iter().partition(|column| column.kind == ColumnKind::Nullable);
        for column in required.into_iter().chain(nullable) {
            let mut rows = ColumnRows { column, samples: &mut samples, next: 0 };
            groups.iter().try_for_each(|group| self.read_column(group, &mut rows))?;
        }
        Ok(samples)
    }

    fn read_column(&self, group: &RowGroupMetaData, rows: &mut ColumnRows<'_>) -> Result<(), ParquetError> {
        let count = usize::try_from(group.num_rows()).map_err(|_| damaged("a number of rows"))?;
        let Column { name, kind, default, .. } = *rows.column;
        let Some(index) = column_index(&self.metadata, name) else {
            let value = default.ok_or_else(|| damaged(&format!("the column {name}")))?;
            return (0..count).try_for_each(|_| rows.set(value));
        };
        let metadata = group.columns().get(index).ok_or_else(|| damaged("a column of the schema"))?;
        let description = metadata.column_descr_ptr();
        if (description.max_def_level(), description.max_rep_level()) != (i16::from(kind == ColumnKind::Nullable), 0)
        {
            return Err(damaged("a column of the schema"));
        }
        let pages = BoundedPages::new(&self.file, self.file_bytes, metadata, count)?;
        match (get_column_reader(description, Box::new(pages)), kind) {
            (ColumnReader::Int64ColumnReader(reader), ColumnKind::Number | ColumnKind::Nullable) => {
                read_rows(reader, count, rows, |value| value.cast_unsigned())
            }
            (ColumnReader::BoolColumnReader(reader), ColumnKind::Flag) => {
                read_rows(reader, count, rows, |value| u64::from(*value))
            }
            (ColumnReader::ByteArrayColumnReader(reader), ColumnKind::Word(words)) => {
                let find = |value: &[u8]| words.iter().position(|word| word.as_bytes() == value);
                read_rows(reader, count, rows, |value| find(value.data()).map_or(u64::MAX, |index| index as u64))
            }
            _ => Err(damaged(&format!("a column {name} of the right type"))),
        }
    }
}

/// Maps each flow of each round to its row group, using the columns' statistics.
fn find_groups(metadata: &ParquetMetaData) -> Result<Groups, ParquetError> {
    let round_column = column_index(metadata, ROUND).ok_or_else(|| damaged("the column round"))?;
    let flow_column = column_index(metadata, FLOW);
    let mut groups = Groups::new();
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let statistics = |column: usize| group.columns().get(column).and_then(ColumnChunkMetaData::statistics);
        let Some(Statistics::Int32(round)) = statistics(round_column) else {
            return Err(damaged("a row group's round"));
        };
        let round = single_value(round).ok_or_else(|| damaged("one round in each row group"))?.cast_unsigned();
        let flow = flow_column.map(|column| match statistics(column) {
            Some(Statistics::ByteArray(flow)) => single_value(flow).map(|flow| flow.data().to_vec()),
            _ => None,
        });
        let flow = flow.map(|flow| flow.ok_or_else(|| damaged("one flow in each row group"))).transpose()?;
        if groups.insert((round, flow), number).is_some() {
            return Err(ParquetError::General("a flow of a round has more than one row group".to_owned()));
        }
    }
    Ok(groups)
}

/// Returns the value of a column whose rows all have the same value, else `None`.
fn single_value<T: PartialEq>(statistics: &ValueStatistics<T>) -> Option<&T> {
    let (min, max) = statistics.min_opt().zip(statistics.max_opt())?;
    (min == max).then_some(min)
}

fn column_index(metadata: &ParquetMetaData, name: &str) -> Option<usize> {
    metadata.file_metadata().schema_descr().columns().iter().position(|column| column.name() == name)
}

struct ColumnRows<'s> {
    column: &'s Column,
    samples: &'s mut Samples,
    next: usize,
}

impl ColumnRows<'_> {
    fn set(&mut self, value: u64) -> Result<(), ParquetError> {
        let is_valid = (self.column.set)(self.samples, self.next, value);
        self.next += 1;
        if is_valid { Ok(()) } else { Err(damaged(&format!("valid values of {}", self.column.name))) }
    }

    /// Sets the value of the next row. Refuses null in a row that needs a value, and a value in any other row.
    fn put(&mut self, value: Option<u64>) -> Result<(), ParquetError> {
        let Column { name, get, .. } = self.column;
        if get(self.samples, self.next).is_some() != value.is_some() {
            return Err(damaged(&format!("{name} in exactly the rows with a value")));
        }
        self.set(value.unwrap_or_default())
    }
}

/// Reads `count` rows of a column, many at a time: reading row by row takes four times as long.
fn read_rows<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    count: usize,
    rows: &mut ColumnRows<'_>,
    number: impl Fn(&T::T) -> u64,
) -> Result<(), ParquetError> {
    let is_nullable = rows.column.kind == ColumnKind::Nullable;
    let (mut part, mut levels) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < count {
        part.clear();
        levels.clear();
        let (records, values, _) =
            reader.read_records(MAX_ROWS.min(count - read), is_nullable.then_some(&mut levels), None, &mut part)?;
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
