//! Raw samples as Parquet columns, one file a round: Snappy-compressed, without nested types, so that any reader
//! takes them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use hairpin_model::round::RoundOrder;
use hairpin_model::samples::{Fate, Samples};
use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
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

/// Places of the columns in [`SCHEMA`].
const SEQUENCE: usize = 2;
const WARM_UP: usize = 3;
const DUE: usize = 4;
const SENT: usize = 5;
const RECEIVED: usize = 6;
const FATE: usize = 8;

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
    let mut rows = Vec::new();
    for index in 0..reader.num_row_groups() {
        read_group(&*reader.get_row_group(index)?, &mut rows)?;
    }
    Ok(Columns(rows))
}

/// Column by column: the row-wise interface takes four times as long.
fn read_group(group: &dyn RowGroupReader, rows: &mut Vec<Row>) -> Result<(), ParquetError> {
    if group.num_columns() <= FATE {
        return Err(torn("a column of the schema"));
    }
    let count = usize::try_from(group.metadata().num_rows()).map_err(|_| torn("a number of rows"))?;
    let whole = |column| match group.get_column_reader(column)? {
        ColumnReader::Int64ColumnReader(reader) => values(reader, count, column == RECEIVED),
        _ => Err(torn("a column of whole numbers")),
    };
    let (sequence, due, sent) = (whole(SEQUENCE)?.0, whole(DUE)?.0, whole(SENT)?.0);
    let (received, is_there) = whole(RECEIVED)?;
    let warm_up = match group.get_column_reader(WARM_UP)? {
        ColumnReader::BoolColumnReader(reader) => values(reader, count, false)?.0,
        _ => return Err(torn("the column warm_up")),
    };
    let fates = match group.get_column_reader(FATE)? {
        ColumnReader::ByteArrayColumnReader(reader) => values(reader, count, false)?.0,
        _ => return Err(torn("the column fate")),
    };
    let mut received = received.into_iter();
    for row in 0..count {
        let word = fates[row].as_utf8()?;
        let fate: Fate = word.parse().map_err(|error| ParquetError::General(format!("{error}")))?;
        let received_ns = if is_there[row] == 1 { received.next().map(i64::cast_unsigned) } else { None };
        if received_ns.is_none() != (fate == Fate::Lost) {
            return Err(torn("received_ns where the fate tells of an answer"));
        }
        rows.push(Row {
            sequence: sequence[row].cast_unsigned(),
            warm_up: warm_up[row],
            due_ns: due[row].cast_unsigned(),
            sent_ns: sent[row].cast_unsigned(),
            received_ns,
            fate,
        });
    }
    Ok(())
}

/// All values of a column, and where it may be null the level of each row: 1 where there is a value.
fn values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    count: usize,
    nullable: bool,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < count {
        let (records, _, _) =
            reader.read_records(count - read, nullable.then_some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(torn("as many values as rows"));
        }
        read += records;
    }
    let complete = if nullable { levels.len() == count } else { values.len() == count };
    if complete { Ok((values, levels)) } else { Err(torn("as many values as rows")) }
}

/// A file that is not what the schema promises.
fn torn(what: &str) -> ParquetError {
    ParquetError::General(format!("it lacks {what}"))
}
