//! CSV tables for spreadsheets and data frames, with one row per case or one row per sample.
//!
//! Column names include units, an interval is two columns (`_low`, `_high`), and null is an empty cell. Control
//! characters that could affect a terminal are escaped as `\u{1b}`; `--json` leaves them unchanged.

use std::io::Write;

use hairpin_model::round_columns::ROUND_COLUMNS;
use hairpin_model::samples::COLUMNS;
use hairpin_model::{CaseSummary, Figure, Flow, RoundRecord, Run, Samples, printable};

use crate::columns::{self, Column, Value};

/// A row under construction. The names of the first row become the header.
#[derive(Default)]
struct Row {
    names: Vec<String>,
    cells: Vec<String>,
}

impl Row {
    fn put(&mut self, name: &str, cell: impl ToString) {
        self.names.push(name.to_owned());
        self.cells.push(printable::line(&cell.to_string()).into_owned());
    }

    fn number(&mut self, name: &str, number: Option<f64>) {
        let shown = number.filter(|number| number.is_finite());
        self.put(name, shown.map(|number| number.to_string()).unwrap_or_default());
    }

    /// Adds `p50_ns`, `p50_ns_low`, `p50_ns_high`.
    fn figure(&mut self, name: &str, figure: Option<Figure>) {
        self.number(name, figure.map(|figure| figure.value));
        self.number(&format!("{name}_low"), figure.and_then(|figure| figure.low));
        self.number(&format!("{name}_high"), figure.and_then(|figure| figure.high));
    }
}

/// Returns the summaries as CSV: a header line, then one row per case in plan order. Omits columns that are empty in
/// every row. Empty without cases.
pub fn summary(run: &Run) -> String {
    let rows: Vec<Row> = run.cases.iter().map(row).collect();
    let Some(Row { names, .. }) = rows.first() else { return String::new() };
    let has_value = |place: &usize| rows.iter().any(|row| !row.cells[*place].is_empty());
    let used: Vec<usize> = (0..names.len()).filter(has_value).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in std::iter::once(names).chain(rows.iter().map(|row| &row.cells)) {
        writer.write_record(used.iter().map(|&place| &record[place])).expect(IN_MEMORY);
    }
    String::from_utf8(writer.into_inner().expect(IN_MEMORY)).expect("all cells are UTF-8")
}

const IN_MEMORY: &str = "writing to memory with rows of one length cannot fail";

fn row(summary: &CaseSummary) -> Row {
    let mut row = Row::default();
    for Column { name, value, .. } in columns::all() {
        match value {
            Value::Words(of) => row.put(name, of(summary)),
            Value::Count(of) => row.put(name, of(summary)),
            Value::Number(_, of) => row.number(name, of(summary)),
            Value::Figure(_, of) => row.figure(name, of(summary)),
        }
    }
    row
}

/// Writes the samples of each flow as rows, with the columns of `samples.parquet` and the latency.
pub struct SamplesTable<W: Write> {
    writer: csv::Writer<W>,
}

impl<W: Write> SamplesTable<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn new(into: W) -> std::io::Result<Self> {
        let mut writer = csv::Writer::from_writer(into);
        let names = ROUND_COLUMNS.iter().map(|(name, _)| *name).chain(COLUMNS.iter().map(|column| column.name));
        writer.write_record(names.chain(["latency_ns"])).map_err(of_the_writer)?;
        Ok(Self { writer })
    }

    /// Writes the samples of a flow in a round. Latency is the time from due to received. Both latency and the
    /// received time are empty if no answer arrived.
    ///
    /// # Errors
    /// Errors of the writer.
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
