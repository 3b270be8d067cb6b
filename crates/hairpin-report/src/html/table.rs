//! The summary tables, with every figure of every case. The script of the page can sort the rows.

use serde::Serialize;

use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::{CaseSummary, Figure, Group, OtherState, quantities};

use crate::columns::{self, Column, Unit};
use crate::exchanges;
use crate::one_way::Shared;
use crate::page_text::nbsp;

/// A table of cases of the same kind.
#[derive(Serialize)]
pub(super) struct SummaryTable {
    /// Name of the kind of cases, such as `Round trips`.
    title: &'static str,
    /// Titles of the figure columns.
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

/// A figure as text, its interval, and its sort key.
#[derive(Serialize)]
struct Cell {
    text: String,
    interval: Option<String>,
    key: Option<f64>,
}

/// Returns the column names for a kind of cases, separated by spaces.
fn columns(kind: CaseKind) -> &'static str {
    match kind {
        CaseKind::RoundTrips => {
            "latency_p50_ns latency_p90_ns latency_p99_ns latency_p999_ns latency_max_ns latency_mean_ns \
             rate_per_s lost_with_unexplained cpu_ns_per_message setup_ns first_message_ns rounds samples"
        }
        CaseKind::Exchanges => {
            "latency_p50_ns latency_p90_ns latency_p99_ns latency_max_ns request_bytes_per_s \
             speed_up_against_default segments_per_exchange pure_acks_per_exchange system_calls_per_exchange \
             first_exchange_ns cpu_ns_per_exchange setup_ns rounds samples"
        }
        CaseKind::Messages => {
            "batch received_per_s sent_per_s latency_p50_ns latency_p99_ns latency_max_ns lost_share \
             system_calls_per_message_client system_calls_per_message_server context_switches_per_message_client \
             context_switches_per_message_server cpu_seconds_per_million_client cpu_seconds_per_million_server \
             fairness rounds"
        }
        CaseKind::Offered => {
            "offered_per_s delivered_per_s lost_share latency_p50_ns latency_p99_ns latency_p999_ns \
             latency_max_ns nominal_gap_ns gap_p50_ns gap_p99_ns gap_p999_ns gaps_below_half_share rounds"
        }
        CaseKind::Streams => {
            "write_size_bytes goodput_bytes_per_s warm_up_goodput_bytes_per_s received_per_s lost_share \
             system_calls_per_message_client system_calls_per_message_server cpu_seconds_per_gb_client \
             cpu_seconds_per_gb_server fairness setup_ns rounds"
        }
        CaseKind::UnderLoad => {
            "idle_p50_ns idle_p99_ns loaded_p50_ns loaded_p99_ns added_p50_ns added_p99_ns loaded_lost_share \
             load_goodput_bytes_per_s queue_p50_bytes queue_max_bytes responsiveness_rpm recovering_p50_ns \
             recovered_after_ns loaded_cpus_used loaded_probe_waited_ns rounds"
        }
    }
}

/// Returns one table per kind of cases, with rows in the order of the groups.
pub(super) fn of(groups: &[Group<'_>], shared: &Shared) -> Vec<SummaryTable> {
    let of_kind = |kind: CaseKind| {
        let cases = || groups.iter().filter(|group| group.kind == kind).flat_map(|group| &group.rows);
        let is_optional = !matches!(kind, CaseKind::RoundTrips | CaseKind::Exchanges);
        let is_shown = |column: &&Column| !is_optional || cases().any(|row| column.number_of(row).is_some());
        let columns: Vec<&Column> = columns(kind).split_whitespace().map(columns::by_name).filter(is_shown).collect();
        let rows: Vec<Row> = groups
            .iter()
            .filter(|group| group.kind == kind)
            .flat_map(|group| group.rows.iter().map(move |row| (group, *row)))
            .map(|(group, row)| {
                table_row(shared, group, row, columns.iter().map(|column| Cell::of(column, row)).collect())
            })
            .collect();
        let titles = columns.iter().map(|column| column.title.to_owned()).collect();
        SummaryTable { title: kind.title(), titles, rows }
    };
    CaseKind::ALL.map(of_kind).into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Returns the first exchanges of a connection, for cases in which one of them differs from the steady state.
pub(super) fn first_exchanges(groups: &[Group<'_>], shared: &Shared) -> Option<SummaryTable> {
    let all = || groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, *row)));
    let rows = || all().filter(|(_, row)| exchanges::first_differ(row));
    let most = rows().map(|(_, row)| exchanges::early(row).len()).max()?;
    let table_row = |(group, row): (&Group<'_>, &CaseSummary)| {
        let early = exchanges::early(row);
        let times = (0..most).map(|place| early.get(place).copied()).chain([row.primary().latency_ns.p50]);
        table_row(shared, group, row, times.map(Cell::time).collect())
    };
    let titles = (1..=most).map(|number| number.to_string()).chain(["p50".to_owned()]).collect();
    Some(SummaryTable { title: "First exchanges of a connection", titles, rows: rows().map(table_row).collect() })
}

/// Returns the figures of rounds in the other state of the machine; `None` if there are none.
pub(super) fn other_states(groups: &[Group<'_>], shared: &Shared) -> Option<SummaryTable> {
    let all = groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, *row)));
    let table_row = |(group, row): (&Group<'_>, &CaseSummary)| {
        let of_state = |other: &OtherState| {
            let share = Cell::new(&quantities::share(other.share), None, Some(other.share));
            let latency = &other.latency_ns;
            let figures = [latency.p50, latency.p90, latency.p99, row.primary().latency_ns.p50].map(Cell::time);
            table_row(shared, group, row, [share].into_iter().chain(figures).collect())
        };
        row.other_states.iter().map(of_state).collect::<Vec<_>>()
    };
    let rows: Vec<Row> = all.flat_map(table_row).collect();
    let titles = ["share of rounds", "p50", "p90", "p99", "p50 above"].map(str::to_owned).to_vec();
    (!rows.is_empty()).then_some(SummaryTable { title: "Rounds in the other state of the machine", titles, rows })
}

fn table_row(shared: &Shared, group: &Group<'_>, row: &CaseSummary, cells: Vec<Cell>) -> Row {
    let case = &row.case;
    // The name omits the varied quantity, which has its own column.
    let mut words = shared.series(row);
    let name = words.remove(0);
    if let Some(exchange) = case.primary().load.exchange() {
        words.insert(0, format!("{} {}", case.primary().transport, ladder::request(case, exchange)));
    }
    if group.kind == CaseKind::UnderLoad {
        words.push(format!("probe {}", group.subject));
    }
    words.extend(group.path.clone());
    Row {
        name,
        details: nbsp(&words.join(" ")),
        waiting: case.ends.waiting.to_string(),
        placement: case.ends.placement.to_string(),
        valid: row.valid,
        cells,
    }
}

impl Cell {
    fn of(column: &Column, row: &CaseSummary) -> Self {
        Self::new(&column.text(row), column.bounds(row), column.number_of(row))
    }

    fn time(figure: Option<Figure>) -> Self {
        let key = figure.and_then(Figure::finite);
        Self::new(&Unit::Time.text(key), Unit::Time.bounds(figure), key)
    }

    fn new(text: &str, interval: Option<String>, key: Option<f64>) -> Self {
        Self { text: nbsp(text), interval: interval.map(|bounds| nbsp(&bounds).replace('-', "\u{2013}")), key }
    }
}
