//! CSV tables for spreadsheets and data frames, with one row per case or one row per sample.
//!
//! Column names include units, an interval is two columns (`_low`, `_high`), and null is an empty cell. Control
//! characters that could affect a terminal are escaped as `\u{1b}`; `--json` leaves them unchanged.

use std::io::Write;

use hairpin_model::round_columns::ROUND_COLUMNS;
use hairpin_model::samples::COLUMNS;
use hairpin_model::{CaseSummary, Flow, RoundRecord, Run, Samples, printable};

use crate::columns::{self, Column, Value};

/// Returns the summaries as CSV: a header line, then one row per case in plan order. Omits columns that are empty in
/// every row. Empty without cases.
pub fn summary(run: &Run) -> String {
    if run.cases.is_empty() {
        return String::new();
    }
    let all = columns::all().flat_map(|column| cells(column, &run.cases));
    let used: Vec<Vec<String>> = all.filter(|cells| cells[1..].iter().any(|cell| !cell.is_empty())).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in 0..=run.cases.len() {
        writer.write_record(used.iter().map(|cells| &cells[line])).expect(IN_MEMORY);
    }
    String::from_utf8(writer.into_inner().expect(IN_MEMORY)).expect("all cells are UTF-8")
}

const IN_MEMORY: &str = "writing to memory with rows of one length cannot fail";

/// Returns the cells of a column, its name first. A figure has three columns: `p50_ns`, `p50_ns_low`, `p50_ns_high`.
fn cells(column: &Column, rows: &[CaseSummary]) -> Vec<Vec<String>> {
    let texts = |suffix: &str, of: &dyn Fn(&CaseSummary) -> String| {
        let texts = rows.iter().map(|row| printable::line(&of(row)).into_owned());
        std::iter::once(format!("{}{suffix}", column.name)).chain(texts).collect()
    };
    let numbers = |suffix: &str, of: &dyn Fn(&CaseSummary) -> Option<f64>| {
        let text = |number: f64| if number.is_finite() { number.to_string() } else { String::new() };
        texts(suffix, &|row| of(row).map(text).unwrap_or_default())
    };
    match column.value {
        Value::Words(of) => vec![texts("", &of)],
        Value::Count(of) => vec![texts("", &|row| of(row).to_string())],
        Value::Number(_, of) => vec![numbers("", &of)],
        Value::Figure(_, of) => vec![
            numbers("", &|row| Some(of(row)?.value)),
            numbers("_low", &|row| of(row)?.low),
            numbers("_high", &|row| of(row)?.high),
        ],
    }
}

/// Writes the samples of each flow as rows, with the columns of `samples.parquet` and the latency.
pub struct SamplesTable<W: Write> {
    writer: csv::Writer<W>,
}

impl<W: Write> SamplesTable<W> {
    pub fn new(into: W) -> std::io::Result<Self> {
        let mut writer = csv::Writer::from_writer(into);
        let names = ROUND_COLUMNS.iter().map(|(name, _)| *name).chain(COLUMNS.iter().map(|column| column.name));
        writer.write_record(names.chain(["latency_ns"])).map_err(of_the_writer)?;
        Ok(Self { writer })
    }

    /// Writes the samples of a flow in a round. Latency is the time from due to received. Both latency and the
    /// received time are empty if no answer arrived.
    pub fn flow(&mut self, record: &RoundRecord, flow: &Flow, samples: &Samples) -> std::io::Result<()> {
        let of_round = ROUND_COLUMNS.iter().map(|(_, value)| printable::line(&value.text(record, flow)).into_owned());
        let of_round: Vec<String> = of_round.collect();
        for row in 0..samples.kept() {
            let of_message = COLUMNS.iter().map(|column| (column.get)(samples, row).map(|value| column.text(value)));
            let cells = of_message.chain([samples.latency_ns(row).map(|latency_ns| latency_ns.to_string())]);
            let fields = of_round.iter().cloned().chain(cells.map(Option::unwrap_or_default));
            self.writer.write_record(fields).map_err(of_the_writer)?;
        }
        Ok(())
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// Errors of the writer; a full disk is often only reported here.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.writer.flush()?;
        self.writer.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}

/// Unwraps the I/O error from the error of `csv`.
fn of_the_writer(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => std::io::Error::other(format!("{kind:?}")),
    }
}
