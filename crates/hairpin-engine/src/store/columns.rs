//! Raw samples as Parquet columns, one file a round: Snappy-compressed, without nested types, so that any reader
//! takes them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use hairpin_model::round::RoundOrder;
use hairpin_model::samples::{Fate, Samples};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use parquet::schema::parser::parse_message_type;

use super::histograms::Histograms;
use super::{StoreError, file_error};

/// The columns. Times are ns since the round began; `received_ns` is null where no answer came.
const SCHEMA: &str = "message samples {
    REQUIRED INT32 round;
    REQUIRED BYTE_ARRAY case_id (UTF8);
    REQUIRED INT64 sequence;
    REQUIRED BOOLEAN warm_up;
    REQUIRED INT64 due_ns;
    REQUIRED INT64 sent_ns;
    OPTIONAL INT64 received_ns;
    REQUIRED INT64 size_bytes;
    REQUIRED BYTE_ARRAY fate (UTF8);
}";

/// One raw sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number in the round.
    pub sequence: u64,
    /// Part of the warm-up.
    pub warm_up: bool,
    /// When it was due, in ns since the round began.
    pub due_ns: u64,
    /// When its send call began.
    pub sent_ns: u64,
    /// When its answer was there.
    pub received_ns: Option<u64>,
    /// What became of it.
    pub fate: Fate,
}

/// The columns as read back.
#[derive(Debug, Default)]
pub(super) struct Columns(Vec<Row>);

impl Columns {
    pub(super) fn rows(self) -> Vec<Row> {
        self.0
    }

    /// The samples of a round, from its columns and its histograms.
    pub(super) fn with(self, histograms: Histograms, measured: u64) -> Samples {
        let rows = self.0;
        Samples {
            warm_up: rows.iter().take_while(|row| row.warm_up).count(),
            sequence: rows.iter().map(|row| row.sequence).collect(),
            due_ns: rows.iter().map(|row| row.due_ns).collect(),
            sent_ns: rows.iter().map(|row| row.sent_ns).collect(),
            received_ns: rows.iter().map(|row| row.received_ns.unwrap_or(0)).collect(),
            fate: rows.iter().map(|row| row.fate).collect(),
            latency: histograms.latency,
            service: histograms.service,
            lateness: histograms.lateness,
            measured,
        }
    }
}

pub(super) fn write(
    path: &Path,
    round: u32,
    case_id: &str,
    order: &RoundOrder,
    samples: &Samples,
) -> Result<(), StoreError> {
    let file = File::create(path).map_err(file_error("write", path))?;
    write_columns(file, round, case_id, order, samples).map_err(|error| {
        drop(std::fs::remove_file(path));
        file_error("write", path)(into_io(error))
    })
}

/// The system's own error where there is one inside, so that a full disk is told as such.
fn into_io(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    }
}

fn write_columns(
    file: File,
    round: u32,
    case_id: &str,
    order: &RoundOrder,
    samples: &Samples,
) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
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
            (2, ColumnWriter::Int64ColumnWriter(column)) => {
                column.write_batch(&wide(&samples.sequence), None, None)?;
            }
            (3, ColumnWriter::BoolColumnWriter(column)) => {
                let warm_up: Vec<bool> = (0..rows).map(|row| row < samples.warm_up).collect();
                column.write_batch(&warm_up, None, None)?;
            }
            (4, ColumnWriter::Int64ColumnWriter(column)) => {
                column.write_batch(&wide(&samples.due_ns), None, None)?;
            }
            (5, ColumnWriter::Int64ColumnWriter(column)) => {
                column.write_batch(&wide(&samples.sent_ns), None, None)?;
            }
            (6, ColumnWriter::Int64ColumnWriter(column)) => {
                let here: Vec<i16> = samples.fate.iter().map(|fate| i16::from(*fate != Fate::Lost)).collect();
                let times = samples.received_ns.iter().zip(&here).filter(|(_, here)| **here == 1);
                let times: Vec<i64> = times.map(|(time, _)| time.cast_signed()).collect();
                column.write_batch(&times, Some(&here), None)?;
            }
            (7, ColumnWriter::Int64ColumnWriter(column)) => {
                column.write_batch(&vec![order.case.size_bytes.cast_signed(); rows], None, None)?;
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

pub(super) fn read(path: &Path) -> Result<Columns, StoreError> {
    let file = File::open(path).map_err(file_error("read", path))?;
    read_columns(file).map_err(|error| StoreError::Damaged { path: path.to_owned(), cause: error.to_string() })
}

fn read_columns(file: File) -> Result<Columns, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let time = |value: i64| value.cast_unsigned();
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let word = row.get_string(8)?;
        let fate = word.parse().map_err(|error| ParquetError::General(format!("{error}")))?;
        rows.push(Row {
            sequence: time(row.get_long(2)?),
            warm_up: row.get_bool(3)?,
            due_ns: time(row.get_long(4)?),
            sent_ns: time(row.get_long(5)?),
            received_ns: if fate == Fate::Lost { None } else { Some(time(row.get_long(6)?)) },
            fate,
        });
    }
    Ok(Columns(rows))
}
