//! The summary tables: every figure of every case, sortable by the page's script.

use serde::Serialize;

use hairpin_model::figure::Figure;
use hairpin_model::machine::OtherState;
use hairpin_model::summary::{CaseSummary, ExchangeFigures};

use super::MICRO;
use crate::exchanges;
use crate::ladder::{self, Group, Kind};
use crate::quantities::{self, DASH};

/// A table of the cases that measure the same kind of thing.
#[derive(Serialize)]
pub(super) struct SummaryTable {
    /// `Round trips`.
    title: &'static str,
    /// Titles of the columns of figures.
    titles: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
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

/// A column of figures: its title and its cell.
type Column = (&'static str, fn(&CaseSummary) -> Cell);

const ROUND_TRIPS: &[Column] = &[
    ("p50", |row| time_cell(row.latency_ns.p50)),
    ("p90", |row| time_cell(row.latency_ns.p90)),
    ("p99", |row| time_cell(row.latency_ns.p99)),
    ("p99.9", |row| time_cell(row.latency_ns.p999)),
    ("max", |row| time_cell(row.latency_ns.max)),
    ("mean", |row| time_cell(row.latency_ns.mean)),
    ("rate", |row| cell(row.rate_per_s, quantities::rate, quantities::rate_bounds)),
    ("lost", |row| count_cell(ladder::lost(row))),
    ("CPU per message", |row| time_cell(ladder::cpu_ns_per_message(row).map(Figure::bare))),
    ("set-up", |row| time_cell(row.setup_ns)),
    ("first message", |row| time_cell(row.first_message_ns)),
    ("rounds", |row| count_cell(row.rounds)),
    ("round trips", |row| count_cell(row.samples)),
];

const EXCHANGES: &[Column] = &[
    ("p50", |row| time_cell(row.latency_ns.p50)),
    ("p90", |row| time_cell(row.latency_ns.p90)),
    ("p99", |row| time_cell(row.latency_ns.p99)),
    ("max", |row| time_cell(row.latency_ns.max)),
    ("bytes/ms", |row| number_cell(row, |of| of.bytes_per_ms)),
    ("speed-up against none", |row| number_cell(row, |of| of.speed_up_against_none)),
    ("segments", |row| number_cell(row, |of| of.segments_per_exchange)),
    ("bare ACKs", |row| number_cell(row, |of| of.bare_acks_per_exchange)),
    ("system calls", |row| number_cell(row, |of| of.system_calls_per_exchange)),
    ("first exchange", |row| time_cell(row.exchanges.as_ref().and_then(|of| of.first_exchange_ns))),
    ("CPU per exchange", |row| time_cell(ladder::cpu_ns_per_message(row).map(Figure::bare))),
    ("set-up", |row| time_cell(row.setup_ns)),
    ("rounds", |row| count_cell(row.rounds)),
    ("exchanges", |row| count_cell(row.samples)),
];

/// A table for each kind that the run has, its rows in the order of the ladder.
pub(super) fn of(groups: &[Group<'_>]) -> Vec<SummaryTable> {
    let of_kind = |kind: Kind| {
        let columns = match kind {
            Kind::RoundTrips => ROUND_TRIPS,
            Kind::Exchanges => EXCHANGES,
        };
        let rows: Vec<Row> = groups
            .iter()
            .filter(|group| group.kind == kind)
            .flat_map(|group| group.rows.iter().map(move |row| (group, *row)))
            .map(|(group, row)| table_row(group, row, columns.iter().map(|(_, cell)| cell(row)).collect()))
            .collect();
        let titles = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        SummaryTable { title: kind.title(), titles, rows }
    };
    Kind::ALL.map(of_kind).into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// The first exchanges of a connection, where one of them differs from the steady state; null where none does.
pub(super) fn first_exchanges(groups: &[Group<'_>]) -> Option<SummaryTable> {
    let all = || groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, *row)));
    let rows = || all().filter(|(_, row)| exchanges::first_differ(row));
    let early =
        |row: &CaseSummary| row.exchanges.as_ref().map(|of| of.early_exchanges_ns.clone()).unwrap_or_default();
    let most = rows().map(|(_, row)| early(row).len()).max()?;
    let table_row = |(group, row): (&Group<'_>, &CaseSummary)| {
        let early = early(row);
        let cells =
            (0..most).map(|place| time_cell(early.get(place).copied())).chain([time_cell(row.latency_ns.p50)]);
        table_row(group, row, cells.collect())
    };
    let titles = (1..=most).map(|number| number.to_string()).chain(["p50".to_owned()]).collect();
    Some(SummaryTable { title: "First exchanges of a connection", titles, rows: rows().map(table_row).collect() })
}

/// The figures of rounds in the state of the machine that a case's figures do not stand for; null where no case has any.
pub(super) fn other_states(groups: &[Group<'_>]) -> Option<SummaryTable> {
    let all = groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, *row)));
    let table_row = |(group, row): (&Group<'_>, &CaseSummary)| {
        let of_state = |other: &OtherState| {
            let share = Cell { text: quantities::share(other.share), interval: None, key: Some(other.share) };
            let latency = &other.latency_ns;
            let figures = [latency.p50, latency.p90, latency.p99, row.latency_ns.p50].map(time_cell);
            table_row(group, row, [share].into_iter().chain(figures).collect())
        };
        row.other_states.iter().map(of_state).collect::<Vec<_>>()
    };
    let rows: Vec<Row> = all.flat_map(table_row).collect();
    let titles = ["share of rounds", "p50", "p90", "p99", "p50 above"].map(str::to_owned).to_vec();
    (!rows.is_empty()).then_some(SummaryTable { title: "Rounds in the machine's other state", titles, rows })
}

fn table_row(group: &Group<'_>, row: &CaseSummary, cells: Vec<Cell>) -> Row {
    let case = &row.case;
    let mut words = ladder::row_words(row);
    let name = words.remove(0);
    if let Some(exchange) = &case.exchange {
        words.insert(0, format!("{} {}", case.transport, ladder::request(case, exchange)));
    }
    words.extend(group.path.clone());
    Row {
        name,
        details: super::tied(&words.join(" ")),
        waiting: case.waiting.to_string(),
        placement: case.placement.to_string(),
        valid: row.valid,
        cells,
    }
}

fn number_cell(row: &CaseSummary, of: fn(&ExchangeFigures) -> Option<Figure>) -> Cell {
    let figure = row.exchanges.as_ref().and_then(of);
    let value = ladder::finite(figure).unwrap_or(f64::NAN);
    cell(figure, quantities::number, |low, high| quantities::number_bounds(value, low, high, MICRO))
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
