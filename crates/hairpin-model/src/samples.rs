//! The samples of one round as columns, and a histogram of all of them.
//!
//! [`COLUMNS`] is the layout of a sample in the result of a round's process, in Parquet files and in CSV. A new
//! column needs a field in [`Stamps`] and in [`Samples`], code in [`Samples::of`] that copies it, and an entry in
//! [`COLUMNS`].

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::phases::{ByPhase, ProbeTimeLine};
use crate::words;

words! {
    /// Outcome of a message.
    #[derive(Default)]
    pub enum Fate: "fate" {
        /// The answer arrived in time.
        #[default]
        Received = "received",
        Late = "late",
        Lost = "lost",
    }
}

/// Maximum latency in a histogram, in ns (one hour); longer latencies are recorded as this value.
pub const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// An empty histogram of nanoseconds: 1 ns to an hour, three significant digits, fixed size (about 270 KB).
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).expect("constant bounds are valid")
}

/// The timestamps of one message, in ns of the engine's clock.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// Number of the message in the round.
    pub sequence: u64,
    /// When the message was due.
    pub due_ns: u64,
    /// Start of the send call.
    pub sent_ns: u64,
    /// When the answer was complete; ignored if the message is lost.
    pub received_ns: u64,
    pub fate: Fate,
}

/// The samples of one round: rows for the first messages, up to a limit, and histograms of all measured messages.
///
/// Times are in ns since the round began. Rows `0..warm_up` are warm-up and are not in the histograms.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Number of leading warm-up rows.
    pub warm_up: usize,
    /// Number of each message in the round, from 0, including the warm-up.
    pub sequence: Vec<u64>,
    /// When the message was due; in a closed loop, when it was sent.
    pub due_ns: Vec<u64>,
    /// When its send call began.
    pub sent_ns: Vec<u64>,
    /// When its answer was received; 0 without an answer.
    pub received_ns: Vec<u64>,
    pub fate: Vec<Fate>,
    /// Latency of every measured message: from due to received.
    pub latency: Histogram<u64>,
    /// Service time of every measured message: from sent to received. Only in open loops; otherwise equal to latency.
    pub service: Option<Histogram<u64>>,
    /// Lateness of the generator, from due to sent. Only in an open loop.
    pub lateness: Option<Histogram<u64>>,
    /// Number of measured messages, including those without a row.
    pub measured: u64,
    /// Results by phase in a round with phases; the histograms above then contain only the loaded phase. `None` in
    /// other rounds.
    pub phases: Option<Box<PhaseSamples>>,
}

/// Histograms of one phase.
#[derive(Clone, Debug)]
pub struct PhaseHistograms {
    /// As [`Samples::latency`].
    pub latency: Histogram<u64>,
    /// As [`Samples::service`].
    pub service: Option<Histogram<u64>>,
    /// As [`Samples::lateness`].
    pub lateness: Option<Histogram<u64>>,
}

impl PhaseHistograms {
    /// Empty histograms; service time and lateness only for an open loop.
    pub fn new(open_loop: bool) -> Self {
        let [service, lateness] = [open_loop; 2].map(|open_loop| open_loop.then(latency_histogram));
        Self { latency: latency_histogram(), service, lateness }
    }
}

/// Outcomes of the messages sent in a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseCounts {
    /// Number of the first message; 0 without any.
    pub first_sequence: u64,
    pub sent: u64,
    /// Answered in time.
    pub received: u64,
    /// Answered too late.
    pub late: u64,
    /// Losses reported per message, by cause.
    pub lost: BTreeMap<String, u64>,
}

/// The samples of a round by phase.
#[derive(Clone, Debug)]
pub struct PhaseSamples {
    /// Phases other than the loaded phase, whose histograms are in [`Samples`].
    pub others: ByPhase<Option<PhaseHistograms>>,
    pub counts: ByPhase<PhaseCounts>,
    pub over_time: ProbeTimeLine,
}

impl Samples {
    /// `rows` rows of zeros, with empty histograms.
    pub fn with_rows(rows: usize) -> Self {
        Self {
            warm_up: 0,
            sequence: vec![0; rows],
            due_ns: vec![0; rows],
            sent_ns: vec![0; rows],
            received_ns: vec![0; rows],
            fate: vec![Fate::default(); rows],
            latency: latency_histogram(),
            service: None,
            lateness: None,
            measured: 0,
            phases: None,
        }
    }

    /// Rows for these messages, `warm_up` rows first, with times relative to `origin_ns` and empty histograms.
    pub fn of(stamps: &[Stamps], warm_up: usize, origin_ns: u64) -> Self {
        let since = |ns: u64| ns.saturating_sub(origin_ns);
        let mut samples = Self { warm_up, ..Self::with_rows(stamps.len()) };
        for (row, stamps) in stamps.iter().enumerate() {
            samples.sequence[row] = stamps.sequence;
            samples.due_ns[row] = since(stamps.due_ns);
            samples.sent_ns[row] = since(stamps.sent_ns);
            samples.received_ns[row] = if stamps.fate == Fate::Lost { 0 } else { since(stamps.received_ns) };
            samples.fate[row] = stamps.fate;
        }
        samples
    }

    pub fn kept(&self) -> usize {
        self.sequence.len()
    }

    pub fn latency_ns(&self, row: usize) -> Option<u64> {
        (self.fate[row] != Fate::Lost).then(|| self.received_ns[row].saturating_sub(self.due_ns[row]))
    }

    /// Latencies, in ns, of answered messages after the warm-up that have a row, in order of the rows.
    pub fn latencies_ns(&self) -> impl Iterator<Item = u64> + '_ {
        (self.warm_up..self.kept()).filter_map(|row| self.latency_ns(row))
    }

    /// Latencies, in ns, of answered warm-up messages that have a row, in order of the rows.
    pub fn warm_up_latencies_ns(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.warm_up.min(self.kept())).filter_map(|row| self.latency_ns(row))
    }

    /// Writes the rows in order, each value of [`COLUMNS`] as eight bytes, little-endian. Null is written as 0.
    pub fn write_rows(&self, to: &mut impl Write) -> io::Result<()> {
        (0..self.kept()).try_for_each(|row| {
            let value = |column: usize| (COLUMNS[column].get)(self, row).unwrap_or(0).to_le_bytes();
            let values: [[u8; 8]; COLUMNS.len()] = std::array::from_fn(value);
            to.write_all(values.as_flattened())
        })
    }

    /// Reads `rows` rows; the histograms are empty.
    ///
    /// # Errors
    /// I/O errors of the reader, and [`io::ErrorKind::InvalidData`] if a value is not valid for its column.
    pub fn read_rows(rows: usize, from: &mut impl Read) -> io::Result<Self> {
        let mut samples = Self::with_rows(rows);
        let mut values = [0; COLUMNS.len() * 8];
        for row in 0..rows {
            from.read_exact(&mut values)?;
            for (column, value) in COLUMNS.iter().zip(values.as_chunks().0) {
                if !(column.set)(&mut samples, row, u64::from_le_bytes(*value)) {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, format!("an unknown {}", column.name)));
                }
            }
        }
        Ok(samples)
    }
}

/// Type of a column. All values are numbers here; each file format converts them to its own types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    Number,
    /// A number, or null.
    Nullable,
    /// 0 or 1.
    Flag,
    /// The index of one of these words.
    Word(&'static [&'static str]),
}

/// A column of the samples.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name, ending in the unit if there is one.
    pub name: &'static str,
    pub kind: ColumnKind,
    /// Returns the value of a row; `None` if null.
    pub get: fn(&Samples, usize) -> Option<u64>,
    /// Sets the value of a row. Must be called in order of the rows. Returns false if the value is not valid.
    pub set: fn(&mut Samples, usize, u64) -> bool,
    /// The value in files of versions without the column; `None` if all versions have the column.
    pub default: Option<u64>,
}

impl Column {
    pub fn text(&self, value: u64) -> String {
        match self.kind {
            ColumnKind::Number | ColumnKind::Nullable => value.to_string(),
            ColumnKind::Flag => (value == 1).to_string(),
            ColumnKind::Word(words) => words[value as usize].to_owned(),
        }
    }
}

/// A column of numbers, named like its field.
macro_rules! number {
    ($field:ident) => {
        Column {
            name: stringify!($field),
            kind: ColumnKind::Number,
            get: |samples, row| Some(samples.$field[row]),
            set: |samples, row, value| {
                samples.$field[row] = value;
                true
            },
            default: None,
        }
    };
}

/// The columns of a sample, in file order.
pub const COLUMNS: &[Column] = &[
    number!(sequence),
    Column {
        name: "warm_up",
        kind: ColumnKind::Flag,
        get: |samples, row| Some(u64::from(row < samples.warm_up)),
        // Only leading rows are warm-up.
        set: |samples, row, value| {
            samples.warm_up += usize::from(value == 1 && row == samples.warm_up);
            value == u64::from(row < samples.warm_up)
        },
        default: None,
    },
    number!(due_ns),
    number!(sent_ns),
    Column {
        kind: ColumnKind::Nullable,
        get: |samples, row| (samples.fate[row] != Fate::Lost).then(|| samples.received_ns[row]),
        ..number!(received_ns)
    },
    Column {
        name: "fate",
        kind: ColumnKind::Word(Fate::WORDS),
        get: |samples, row| Some(samples.fate[row] as u64),
        set: |samples, row, value| {
            let fate = usize::try_from(value).ok().and_then(|place| Fate::ALL.get(place));
            fate.map(|fate| samples.fate[row] = *fate).is_some()
        },
        default: None,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_returns_what_was_set() {
        let mut samples = Samples::with_rows(3);
        let values = |kind: ColumnKind| match kind {
            ColumnKind::Number | ColumnKind::Nullable => [u64::MAX, 0, 7],
            ColumnKind::Flag => [1, 1, 0],
            ColumnKind::Word(words) => [0, 1, 2].map(|value: u64| value.min(words.len() as u64 - 1)),
        };
        for column in COLUMNS {
            for (row, value) in values(column.kind).into_iter().enumerate() {
                assert!((column.set)(&mut samples, row, value), "{}", column.name);
            }
        }
        for column in COLUMNS {
            for (row, value) in values(column.kind).into_iter().enumerate() {
                let is_null = column.kind == ColumnKind::Nullable && samples.fate[row] == Fate::Lost;
                assert_eq!((column.get)(&samples, row), (!is_null).then_some(value), "{} {row}", column.name);
            }
        }
        assert_eq!((samples.warm_up, samples.fate[1]), (2, Fate::Late));
    }

    #[test]
    fn a_value_that_a_column_cannot_have_is_refused() {
        let column = |name: &str| COLUMNS.iter().find(|column| column.name == name).unwrap();
        let mut samples = Samples::with_rows(3);
        for (name, row, value) in [("fate", 0, 3), ("fate", 0, u64::MAX), ("warm_up", 0, 2), ("warm_up", 1, 1)] {
            assert!(!(column(name).set)(&mut samples, row, value), "{name}");
        }
        let mut bytes = Vec::new();
        Samples::with_rows(1).write_rows(&mut bytes).unwrap();
        assert!(Samples::read_rows(1, &mut bytes.as_slice()).is_ok());
        bytes[5 * 8] = 9;
        let error = Samples::read_rows(1, &mut bytes.as_slice()).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::InvalidData, "an unknown fate".to_owned()));
    }
}
