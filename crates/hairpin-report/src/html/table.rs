//! The summary tables, with every figure of every case. The script of the page can sort the rows.

use minijinja::{Value, context};

use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::{CaseSummary, Figure, Group, OtherState, quantities};

use crate::columns::{self, Column};
use crate::exchanges;
use crate::one_way::Shared;
use crate::page_text::nbsp;
use crate::unit::Unit;

fn columns(kind: CaseKind) -> &'static str {
    match kind {
        CaseKind::RoundTrips => {
            "latency_p50_ns latency_p90_ns latency_p99_ns latency_p999_ns latency_max_ns latency_mean_ns \
             rate_per_s lost_with_unexplained cpu_ns_per_message setup_ns first_message_ns set_up_round_trips set_up_packets \
             set_up_bytes set_up_cpu_ns rounds samples"
        }
        CaseKind::Exchanges => {
            "latency_p50_ns latency_p90_ns latency_p99_ns latency_max_ns request_bytes_per_s \
             speed_up_against_default segments_per_exchange pure_acks_per_exchange system_calls_per_exchange \
             first_exchange_ns cpu_ns_per_exchange setup_ns rounds samples"
        }
        CaseKind::Messages => {
            "batch received_per_s rate_against_none time_per_message_against_none_ns sent_per_s latency_p50_ns latency_p99_ns latency_max_ns lost_share \
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
        CaseKind::Periods => {
            "latency_p50_ns latency_p99_ns latency_p999_ns latency_max_ns release_jitter_p50_ns \
             release_jitter_p99_ns release_jitter_max_ns misses miss_share longest_miss_run rounds"
        }
        CaseKind::UnderLoad => {
            "idle_p50_ns idle_p99_ns loaded_p50_ns loaded_p99_ns added_p50_ns added_p99_ns loaded_lost_share \
             load_goodput_bytes_per_s queue_p50_bytes queue_max_bytes responsiveness_rpm recovering_p50_ns \
             recovered_after_ns loaded_cpus_used loaded_probe_waited_ns rounds"
        }
    }
}

/// Returns one table per kind of cases, with rows in the order of the groups. The title is the name of the kind, such
/// as `Round trips`, and `titles` are those of the figure columns.
pub(super) fn of(groups: &[Group<'_>], shared: &Shared) -> Vec<Value> {
    let of_kind = |kind: CaseKind| {
        let rows = || rows(groups).filter(|(group, _)| group.kind == kind);
        let is_optional = !matches!(kind, CaseKind::RoundTrips | CaseKind::Exchanges);
        let is_optional = |column: &Column| is_optional || column.name.starts_with("set_up_");
        let is_shown =
            |column: &&Column| !is_optional(column) || rows().any(|(_, row)| column.number_of(row).is_some());
        let columns: Vec<&Column> = columns(kind).split_whitespace().map(columns::by_name).filter(is_shown).collect();
        let titles: Vec<&str> = columns.iter().map(|column| column.title()).collect();
        let cells = |row: &CaseSummary| {
            let cell = |column: &&Column| cell(&column.text(row), column.bounds(row), column.number_of(row));
            columns.iter().map(cell).collect()
        };
        let rows: Vec<Value> = rows().map(|(group, row)| table_row(shared, group, row, cells(row))).collect();
        (!rows.is_empty()).then(|| context! { title => kind.title(), titles, rows })
    };
    CaseKind::ALL.into_iter().filter_map(of_kind).collect()
}

fn rows<'g, 'r>(groups: &'g [Group<'r>]) -> impl Iterator<Item = (&'g Group<'r>, &'r CaseSummary)> {
    groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, *row)))
}

/// Returns the first exchanges of a connection, for cases in which one of them differs from the steady state.
pub(super) fn first_exchanges(groups: &[Group<'_>], shared: &Shared) -> Option<Value> {
    let rows = || rows(groups).filter(|(_, row)| exchanges::first_differ(row));
    let most = rows().map(|(_, row)| exchanges::early(row).len()).max()?;
    let table_row = |(group, row): (&Group<'_>, &CaseSummary)| {
        let early = exchanges::early(row);
        let times = (0..most).map(|place| early.get(place).copied()).chain([row.primary().latency_ns.p50]);
        table_row(shared, group, row, times.map(time_cell).collect())
    };
    let titles: Vec<String> = (1..=most).map(|number| number.to_string()).chain(["p50".to_owned()]).collect();
    let rows: Vec<Value> = rows().map(table_row).collect();
    Some(context! { title => "First exchanges of a connection", titles, rows })
}

/// Returns the figures of rounds in the other state of the machine; `None` if there are none.
pub(super) fn other_states(groups: &[Group<'_>], shared: &Shared) -> Option<Value> {
    let table_row = |(group, row): (&Group<'_>, &CaseSummary)| {
        let of_state = |other: &OtherState| {
            let share = cell(&quantities::share(other.share), None, Some(other.share));
            let latency = &other.latency_ns;
            let figures = [latency.p50, latency.p90, latency.p99, row.primary().latency_ns.p50].map(time_cell);
            table_row(shared, group, row, [share].into_iter().chain(figures).collect())
        };
        row.other_states.iter().map(of_state).collect::<Vec<_>>()
    };
    let rows: Vec<Value> = rows(groups).flat_map(table_row).collect();
    let titles = ["share of rounds", "p50", "p90", "p99", "p50 above"];
    (!rows.is_empty()).then(|| context! { title => "Rounds in the other state of the machine", titles, rows })
}

fn table_row(shared: &Shared, group: &Group<'_>, row: &CaseSummary, cells: Vec<Value>) -> Value {
    let case = &row.case;
    // The name omits the varied quantity, which has its own column.
    let mut words = shared.series(row);
    let name = words.remove(0);
    if let Some(exchange) = case.primary().load.exchange() {
        words.insert(0, format!("{} {}", case.primary().transport, ladder::request(case, exchange)));
    }
    words.extend((group.kind == CaseKind::UnderLoad).then(|| format!("probe {}", group.subject)));
    words.extend(group.path.clone());
    let (waiting, placement) = (case.ends.waiting.word(), case.ends.placement.word());
    context! { name, details => nbsp(&words.join(" ")), waiting, placement, valid => row.valid, cells }
}

fn time_cell(figure: Option<Figure>) -> Value {
    let key = figure.and_then(Figure::finite);
    cell(&Unit::Time.text(key), Unit::Time.bounds(figure), key)
}

fn cell(text: &str, interval: Option<String>, key: Option<f64>) -> Value {
    let interval = interval.map(|bounds| nbsp(&bounds).replace('-', "\u{2013}"));
    context! { text => nbsp(text), interval, key }
}
