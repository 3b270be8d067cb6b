//! The summary table: every figure of every case, sortable by the page's script.

use serde::Serialize;

use hairpin_model::figure::Figure;
use hairpin_model::summary::CaseSummary;

use super::MICRO;
use crate::ladder::{self, Group};
use crate::quantities::{self, DASH};

/// The table.
#[derive(Serialize)]
pub(super) struct SummaryTable {
    /// Titles of the columns of figures.
    titles: Vec<&'static str>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    transport: String,
    details: String,
    waiting: String,
    placement: String,
    valid: bool,
    cells: Vec<Cell>,
}

/// A figure as text, its interval, and the number that it is sorted by.
#[derive(Serialize)]
struct Cell {
    text: String,
    interval: Option<String>,
    key: Option<f64>,
}

/// The rows in the order of the ladder.
pub(super) fn of(groups: &[Group<'_>]) -> SummaryTable {
    let titles = vec![
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "mean",
        "rate",
        "lost",
        "CPU per message",
        "set-up",
        "first message",
        "rounds",
        "round trips",
    ];
    let rows = groups.iter().flat_map(|group| &group.rows).map(|row| table_row(row)).collect();
    SummaryTable { titles, rows }
}

fn table_row(row: &CaseSummary) -> Row {
    let latency = &row.latency_ns;
    let figures = [latency.p50, latency.p90, latency.p99, latency.p999, latency.max, latency.mean];
    let mut cells: Vec<Cell> = figures.into_iter().map(time_cell).collect();
    cells.push(cell(row.rate_per_s, quantities::rate, quantities::rate_bounds));
    cells.push(count_cell(ladder::lost(row)));
    cells.push(time_cell(ladder::cpu_ns_per_message(row).map(Figure::bare)));
    cells.push(time_cell(row.setup_ns));
    cells.push(time_cell(row.first_message_ns));
    cells.push(count_cell(row.rounds));
    cells.push(count_cell(row.samples));
    Row {
        transport: row.case.transport.clone(),
        details: row.case.details().join(" "),
        waiting: row.case.waiting.to_string(),
        placement: row.case.placement.to_string(),
        valid: row.valid,
        cells,
    }
}

fn time_cell(figure: Option<Figure>) -> Cell {
    let value = ladder::finite(figure).unwrap_or(f64::NAN);
    let between = |low, high| quantities::bounds(value, low, high, MICRO);
    cell(figure, |ns| quantities::duration(ns, MICRO), between)
}

fn cell(figure: Option<Figure>, text: fn(f64) -> String, between: impl Fn(f64, f64) -> String) -> Cell {
    let key = ladder::finite(figure);
    Cell {
        text: key.map_or_else(|| DASH.to_owned(), text),
        interval: key.and(ladder::interval(figure)).map(|(low, high)| between(low, high)),
        key,
    }
}

fn count_cell(number: u64) -> Cell {
    #[expect(clippy::cast_precision_loss, reason = "a sort key")]
    let key = Some(number as f64);
    Cell { text: quantities::count(number), interval: None, key }
}
