//! Tables of one-way loads and of probes under load. Each series has one row per case, in the order of the varied
//! quantity. If the first screen would have too many rows, batches become columns.

use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::quantities::DASH;
use hairpin_model::{CaseSummary, Group, Run};

use super::observers;
use super::page::{BAD, DIM, PLAIN, Page};
use super::tables::{Block, GAP, Shown, fitting, lines_of, show_rows};
use crate::one_way::{self, Blocks, Panel, varied};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Brief,
    /// Like `Brief`, with more notes.
    More,
    All,
}

struct TableSpec {
    kind: CaseKind,
    /// Suffix of the kind's title.
    title: &'static str,
    extents: &'static [Extent],
    /// Parsed by [`Shown::list`].
    columns: &'static str,
}

const FIRST_SCREENS: &[Extent] = &[Extent::Brief, Extent::More];
const ALL_EXTENTS: &[Extent] = &[Extent::Brief, Extent::More, Extent::All];

const TABLES: &[TableSpec] = &[
    TableSpec {
        kind: CaseKind::Messages,
        title: "",
        extents: FIRST_SCREENS,
        columns: "batch received_per_s received_per_s~/2 latency_p50_ns latency_p99_ns/4 lost_share/1 \
                  cpu_seconds_per_million_client/3 cpu_seconds_per_million_server/3 \
                  system_calls_per_message_client/5 system_calls_per_message_server/5",
    },
    TableSpec {
        kind: CaseKind::Messages,
        title: "",
        extents: &[Extent::All],
        columns: "batch received_per_s received_per_s~/2 latency_p50_ns latency_p90_ns/5 latency_p99_ns \
                  latency_p999_ns/4 latency_max_ns/3 lost_share/1 sent_per_s/6",
    },
    TableSpec {
        kind: CaseKind::Messages,
        title: ", what a message takes",
        extents: &[Extent::All],
        columns: "batch system_calls_per_message_client system_calls_per_message_server \
                  context_switches_per_message_client/1 context_switches_per_message_server/1 \
                  cpu_seconds_per_million_client cpu_seconds_per_million_server coding_ns_per_message/1 fairness/2 setup_ns/3 \
                  peak_memory_bytes_client/4 peak_memory_bytes_server/4",
    },
    TableSpec {
        kind: CaseKind::Streams,
        title: "",
        extents: &[Extent::Brief],
        columns: "write_size_bytes goodput_bytes_per_s goodput_bytes_per_s~/1 lost_share/2 \
                  retransmits/2 cwnd_packets/3 cpu_seconds_per_gb_client/3 cpu_seconds_per_gb_server/3 fairness/1",
    },
    TableSpec {
        kind: CaseKind::Streams,
        title: "",
        extents: &[Extent::More, Extent::All],
        columns: "write_size_bytes goodput_bytes_per_s goodput_bytes_per_s~/2 warm_up_goodput_bytes_per_s/1 \
                  lost_share/3 retransmits/2 cwnd_packets/3 cpu_seconds_per_gb_client/4 \
                  cpu_seconds_per_gb_server/4 fairness/2",
    },
    TableSpec {
        kind: CaseKind::Streams,
        title: ", what a write takes",
        extents: &[Extent::All],
        columns: "write_size_bytes received_per_s system_calls_per_message_client/1 \
                  system_calls_per_message_server/1 context_switches_per_message_client/2 \
                  context_switches_per_message_server/2 coding_ns_per_message/1 setup_ns/3 peak_memory_bytes_client/4 \
                  peak_memory_bytes_server/4",
    },
    TableSpec {
        kind: CaseKind::Offered,
        title: "",
        extents: FIRST_SCREENS,
        columns: "offered_per_s delivered_per_s delivered_per_s~/3 lost_share latency_p50_ns latency_p99_ns/1 \
                  gaps_below_half_share/2",
    },
    TableSpec {
        kind: CaseKind::Offered,
        title: "",
        extents: &[Extent::All],
        columns: "offered_per_s delivered_per_s delivered_per_s~/2 lost_share latency_p50_ns latency_p50_ns~/4 \
                  latency_p99_ns/1 latency_p999_ns/3 latency_max_ns/3",
    },
    TableSpec {
        kind: CaseKind::Offered,
        title: ", pacing",
        extents: &[Extent::All],
        columns: "offered_per_s sent_per_s/2 nominal_gap_ns gap_p50_ns gap_p99_ns gap_p999_ns/1 \
                  gaps_below_half_share lateness_p50_ns/3 lateness_p99_ns/3",
    },
    TableSpec {
        kind: CaseKind::UnderLoad,
        title: "",
        extents: ALL_EXTENTS,
        columns: "idle_p50_ns loaded_p50_ns loaded_p99_ns/5 added_p50_ns added_p50_ns~/2 loaded_lost_share/4 \
                  load_goodput_bytes_per_s queue_p50_bytes/1 responsiveness_rpm/3 recovered_after_ns/6",
    },
    TableSpec {
        kind: CaseKind::UnderLoad,
        title: ", by phase",
        extents: &[Extent::All],
        columns: "idle_p99_ns/1 loaded_p99_ns recovering_p50_ns recovered_after_ns responsiveness_rpm/1 \
                  loaded_lost_share queue_max_bytes/2 loaded_cpus_used/3 loaded_probe_waited_ns/3",
    },
];

/// Explanations of short column titles, in the order of the tables.
const LEGEND: &[(&str, &str)] = &[
    ("latency_p50_ns", "p50: one-way latency"),
    ("lateness_p50_ns", "p50, p99 at the right: lateness, due to sent"),
    ("warm_up_goodput_bytes_per_s", "omitted: goodput of the omitted beginning"),
    ("cpu_seconds_per_million_client", "CPU: s per million messages"),
    ("cpu_seconds_per_gb_client", "CPU: s per GB"),
    ("system_calls_per_message_client", "calls: system calls per message"),
    ("peak_memory_bytes_client", "peak: largest resident memory of the end's process"),
    ("coding_ns_per_message", "encoding: encoding and decoding of a message"),
    ("context_switches_per_message_client", "switches: context switches per message"),
    ("retransmits", "retr: segments retransmitted in all rounds"),
    ("cwnd_packets", "cwnd: congestion window at the end, packets"),
    ("delivered_per_s", "delivered: median round; lost: all rounds together"),
    ("gaps_below_half_share", "gaps < half: sent sooner than half the nominal gap"),
    ("fairness", "goodput: sum of all streams; fairness: Jain's index"),
    ("idle_p50_ns", "idle, loaded: p50 of the probe's round trip; added: median over rounds of loaded minus idle"),
    ("loaded_p99_ns", "p99: loaded"),
    ("loaded_lost_share", "lost: of the probe, loaded"),
    ("load_goodput_bytes_per_s", "goodput: of the load"),
    ("queue_p50_bytes", "queue: median, loaded"),
    ("queue_max_bytes", "max: of the queue, loaded"),
    ("responsiveness_rpm", "RPM: responsiveness, round trips per minute, more is better"),
    ("recovered_after_ns", "recovered: time from the load's end, a dash where later than measured"),
    ("recovering_p50_ns", "recovering: p50 after the load"),
    ("loaded_cpus_used", "CPUs: CPU time of all ends per second"),
    ("loaded_probe_waited_ns", "waited: of the probe for a CPU, per message"),
];

/// Maximum rows of message rates on the first screen. With more cases, batches become columns.
const MAX_ROWS_BY_BATCH: usize = 24;

pub(super) fn tables(page: &mut Page, run: &Run, extent: Extent) {
    let groups = ladder::groups(&run.cases);
    let has_observers = observers::table(page, run);
    for sheet in TABLES.iter().filter(|sheet| sheet.extents.contains(&extent)) {
        if has_observers && extent != Extent::All && sheet.kind == CaseKind::Messages {
            continue;
        }
        let table = Table::of(sheet.kind, &groups, extent);
        if table.blocks.all.is_empty() {
            continue;
        }
        if extent != Extent::All
            && sheet.kind == CaseKind::Messages
            && table.blocks.rows().count() > MAX_ROWS_BY_BATCH
        {
            let batches = table.blocks.varied();
            if batches.len() > 1 {
                table.beside(page, &batches);
                continue;
            }
        }
        table.show(page, sheet, extent);
    }
    let pacing = one_way::pacing(run);
    for line in &pacing {
        page.item("Pacing: ", PLAIN, line);
    }
}

struct Table<'r> {
    blocks: Blocks<'r>,
    shared: String,
}

impl<'r> Table<'r> {
    fn of(kind: CaseKind, groups: &[Group<'r>], extent: Extent) -> Self {
        let mut blocks = Blocks::of(kind, groups, extent == Extent::All);
        let mut words = vec![blocks.shared.in_words()];
        if let [block] = blocks.all.as_mut_slice() {
            words.push(std::mem::take(&mut block.title));
        }
        words.retain(|word| !word.is_empty());
        Self { blocks, shared: words.join(", ") }
    }

    fn show(&self, page: &mut Page, sheet: &TableSpec, extent: Extent) {
        let columns = Shown::list(sheet.columns);
        let texts = |row: &CaseSummary| columns.iter().map(|column| column.text(row)).collect::<Vec<_>>();
        let cells: Vec<Vec<String>> = self.blocks.rows().map(texts).collect();
        let name = self.widest_name(MAX_NAME_WIDTH);
        let mut chosen = fitting(&columns, &cells, page.look.width.saturating_sub(name));
        // The heading already has values that all rows share.
        chosen.retain(|column| columns[*column].name != "write_size_bytes" || self.blocks.varied().len() > 1);
        chosen.retain(|column| columns[*column].name != "batch" || self.blocks.varied() != [1.0]);
        page.heading(&format!("{}{}", self.blocks.kind.title(), sheet.title), &self.shared);
        let hidden = |column: usize| !chosen.contains(&column) && cells.iter().any(|texts| texts[column] != DASH);
        let is_cut = self.blocks.kind == CaseKind::UnderLoad && (0..columns.len()).any(hidden);
        let more = if is_cut && extent != Extent::All { "; --all: more columns" } else { "" };
        page.paragraph(0, DIM, &format!("{}{more}", legend(&columns, &chosen)));
        let series = self.blocks.all.iter().flat_map(|panel| panel.series.iter().map(move |one| (panel, one)));
        let rows = series.flat_map(|(panel, series)| {
            // Only the first row of a series has its name.
            let words = std::iter::once(series.words.clone()).chain(std::iter::repeat(Vec::new()));
            series.rows.iter().zip(words).map(|(row, words)| (panel.title.as_str(), *row, words))
        });
        show_rows(page, &columns, &cells, &chosen, MAX_NAME_WIDTH, rows);
    }

    /// Shows one row per series. Each batch has columns for rate, latency and, if they fit, losses.
    fn beside(&self, page: &mut Page, batches: &[f64]) {
        let all = Shown::list("received_per_s latency_p50_ns lost_share");
        page.heading(self.blocks.kind.title(), &self.shared);
        page.paragraph(0, DIM, "messages/s by messages per call (batch); p50: one-way latency");
        let name = self.widest_name(MAX_NAME_WIDTH);
        let room = page.look.width.saturating_sub(name);
        let (wide, narrow) = (FIGURE_WIDTHS.iter().sum::<usize>(), FIGURE_WIDTHS[..2].iter().sum::<usize>());
        let has_losses = self.blocks.rows().any(|row| all[2].text(row) != DASH);
        let columns = if has_losses && batches.len() * wide <= room { 3 } else { 2 };
        let at_once = (room / if columns == 3 { wide } else { narrow }).max(1);
        for some in batches.chunks(at_once) {
            let titles = some.iter().flat_map(|batch| {
                let titles = [format!("batch {batch}"), all[1].title().to_owned(), all[2].title().to_owned()];
                titles.into_iter().take(columns)
            });
            let mut block = Block::new(titles);
            for Panel { title, series } in &self.blocks.all {
                block.title(title);
                for series in series {
                    let of = |batch: &f64| series.rows.iter().find(|row| varied(row) == *batch).copied();
                    let cases: Vec<Option<&CaseSummary>> = some.iter().map(of).collect();
                    let Some(any) = cases.iter().flatten().find(|row| !row.valid).or(cases.iter().flatten().next())
                    else {
                        continue;
                    };
                    let figures = cases.iter().flat_map(|case| {
                        let text = |column: &Shown| case.map_or_else(|| DASH.to_owned(), |case| column.text(case));
                        all.iter().take(columns).map(text).collect::<Vec<_>>()
                    });
                    let style = if any.valid { PLAIN } else { BAD };
                    block.row(style, &lines_of(any, &series.words, name), figures);
                }
            }
            block.show(page);
        }
    }

    fn widest_name(&self, room: usize) -> usize {
        let all = self.blocks.all.iter().flat_map(|panel| &panel.series);
        let lines = all.flat_map(|series| series.rows.first().map(|row| lines_of(row, &series.words, room)));
        lines.flatten().map(|line| line.chars().count()).max().unwrap_or(0)
    }
}

/// Maximum width of series names; longer names have their details on separate lines.
const MAX_NAME_WIDTH: usize = 18;
/// Widths of a rate, a latency and a share, including the spaces before them.
const FIGURE_WIDTHS: [usize; 3] = [GAP + 8, GAP + 7, GAP + 4];

fn legend(columns: &[Shown], chosen: &[usize]) -> String {
    let is_shown = |name: &str| chosen.iter().any(|column| columns[*column].name == name);
    let mut parts: Vec<&str> =
        LEGEND.iter().filter(|(name, _)| is_shown(name)).map(|(_, meaning)| *meaning).collect();
    parts.extend(
        (chosen.iter().any(|column| columns[*column].title().ends_with(" c"))).then_some("c client, s server"),
    );
    parts.join("; ")
}
