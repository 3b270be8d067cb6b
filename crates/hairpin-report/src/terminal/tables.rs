//! Tables that fit the width of the terminal. Columns of low priority are omitted before anything wraps.

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::names::{distinct, grouped};
use hairpin_model::quantities::{self, DASH};
use hairpin_model::{CaseSummary, Figure, Group, Run};

use super::page::{BAD, DIM, LEAD, PLAIN, Page, WARN, clean, wrap};
use crate::columns::{self, Value};
use crate::unit::Unit;
use crate::{exchanges, links, wording};

struct TableSpec {
    of: CaseKind,
    title: &'static str,
    remark: &'static str,
    /// Parsed by [`Shown::list`].
    columns: &'static str,
    /// Adds text below the table, given the groups and the titles of the shown columns.
    below: fn(&mut Page, &[&Group<'_>], &[&str]),
}

pub(super) struct Shown {
    pub(super) name: &'static str,
    interval: bool,
    /// If the width is too small, columns with the highest number are omitted first, columns with 0 never.
    pub(super) spare: u8,
}

impl Shown {
    /// Parses column names. `NAME~` means the interval of NAME; `/2` at the end sets [`Self::spare`].
    pub(super) fn list(names: &'static str) -> Vec<Self> {
        let shown = |word: &'static str| {
            let (word, spare) = word.split_once('/').unwrap_or((word, "0"));
            let interval = word.strip_suffix('~');
            let spare = spare.parse().expect("a number after the slash");
            Self { name: interval.unwrap_or(word), interval: interval.is_some(), spare }
        };
        names.split_whitespace().map(shown).collect()
    }

    pub(super) fn title(&self) -> &'static str {
        if self.interval { "95 %" } else { columns::by_name(self.name).short() }
    }

    pub(super) fn text(&self, row: &CaseSummary) -> String {
        let column = columns::by_name(self.name);
        let text = match column.value {
            _ if self.interval => column.bounds(row).unwrap_or_else(|| DASH.to_owned()),
            Value::Count(of) => quantities::short_count(of(row)),
            _ => column.text(row),
        };
        // If the title ends in "/s", values have no unit.
        let per_s = column.short().ends_with("/s").then(|| text.strip_suffix("/s")).flatten();
        per_s.map_or(text.clone(), |number| number.trim_end().to_owned())
    }
}

const TABLES: &[TableSpec] = &[
    TableSpec {
        of: CaseKind::Exchanges,
        title: "Exchanges",
        remark: "time of an exchange; requests: their bytes per second; speed-up: over default options, median of \
                 ratios paired round by round; 95 %: interval over rounds",
        columns: "latency_p50_ns latency_p50_ns~/2 latency_p99_ns/3 latency_max_ns/4 request_bytes_per_s \
                  speed_up_against_default speed_up_against_default~/1",
        below: |page, groups, _| {
            if let Some(note) = exchanges::gap_note(groups) {
                page.paragraph(0, WARN, &note);
            }
        },
    },
    TableSpec {
        of: CaseKind::Exchanges,
        title: "What an exchange takes",
        remark: "per exchange: segments and pure ACKs of both directions, system calls of the client; first: the \
                 first exchange of a connection; medians over rounds",
        columns: "segments_per_exchange pure_acks_per_exchange system_calls_per_exchange first_exchange_ns \
                  cpu_ns_per_exchange/2 setup_ns/3 samples/1",
        below: |page, groups, _| first_exchanges(page, groups),
    },
    TableSpec {
        of: CaseKind::RoundTrips,
        title: SET_UPS,
        remark: "p50: from the connect call to the first answer; packets, bytes and CPU of both ends: the whole \
                 connection; medians over rounds",
        columns: "latency_p50_ns latency_p50_ns~/2 latency_p90_ns/4 latency_p99_ns/3 set_up_round_trips set_up_packets \
                  set_up_bytes set_up_cpu_ns lost_with_unexplained/1",
        below: |_, _, _| {},
    },
    TableSpec {
        of: CaseKind::RoundTrips,
        title: "Round trips",
        remark: "latency of a round trip; 95 %: interval of p50 over rounds; CPU of both ends",
        columns: "latency_p50_ns latency_p50_ns~/2 latency_p90_ns/4 latency_p99_ns latency_p999_ns/1 latency_max_ns \
                  lost_with_unexplained/3 cpu_ns_per_message/4 coding_ns_per_message/4 setup_ns/5 first_message_ns/5",
        below: set_up,
    },
    TableSpec {
        of: CaseKind::RoundTrips,
        title: "What an end needs",
        remark: "the larger of both ends; peak: largest resident memory of its process",
        columns: "descriptors threads peak_memory_of_end_bytes",
        below: |_, _, _| {},
    },
    TableSpec {
        of: CaseKind::Periods,
        title: "Control loops",
        remark: "response time: from a release to the last answer; missed: share of periods without it by the \
                 deadline; run: most consecutive misses",
        columns: "latency_p50_ns latency_p50_ns~/4 latency_p99_ns latency_p999_ns/2 response_p9999_ns/3 \
                  latency_max_ns/1 periods/5 misses miss_share longest_miss_run",
        below: |_, _, _| {},
    },
    TableSpec {
        of: CaseKind::Periods,
        title: "Release jitter",
        remark: "from a release until the loop was awake; wake-ups: voluntary context switches of the client per \
                 period; CPU of both ends per period",
        columns: "lateness_p50_ns lateness_p50_ns~/2 lateness_p90_ns/4 lateness_p99_ns lateness_p999_ns/1 \
                  release_jitter_p9999_ns/3 lateness_max_ns wake_ups_per_period/2 cpu_ns_per_period/2",
        below: |_, _, _| {},
    },
];

fn time(figure: Option<Figure>) -> String {
    Unit::Time.text(figure.and_then(Figure::finite))
}

pub(super) const GAP: usize = 2;
const GAP_COLUMNS: u16 = 2;
/// Minimum width of the name column. Details that do not fit are on separate lines.
const MIN_NAME_WIDTH: usize = 14;

pub(super) fn link(page: &mut Page, run: &Run) {
    if let Some(link) = links::shared(run) {
        page.gap();
        page.item("Link: ", PLAIN, &link);
    }
}

pub(super) fn tables(page: &mut Page, run: &Run) {
    link(page, run);
    let groups = ladder::groups(&run.cases);
    for sheet in TABLES {
        let of_kind = groups.iter().filter(|group| group.kind == sheet.of);
        let groups: Vec<&Group<'_>> = of_kind.filter(|group| is_set_up(group) == (sheet.title == SET_UPS)).collect();
        if !groups.is_empty() {
            let shown = sheet.show(page, &groups);
            (sheet.below)(page, &groups, &shown);
        }
    }
}

pub(super) const SET_UPS: &str = "Set-ups";

pub(super) fn is_set_up(group: &Group<'_>) -> bool {
    group.rows.iter().any(|row| row.primary().set_up.is_some())
}

impl TableSpec {
    /// Shows one block per group. Returns the titles of the columns that fit.
    fn show(&self, page: &mut Page, groups: &[&Group<'_>]) -> Vec<&'static str> {
        let columns = Shown::list(self.columns);
        let texts = |row: &&CaseSummary| columns.iter().map(|column| column.text(row)).collect();
        let cells: Vec<Vec<String>> = groups.iter().flat_map(|group| group.rows.iter().map(texts)).collect();
        let chosen = fitting(&columns, &cells, page.look.width.saturating_sub(min_name_width(groups)));
        if chosen.is_empty() {
            return Vec::new();
        }
        page.heading(self.title, self.remark);
        let rows = groups.iter().flat_map(|group| group.rows.iter().map(|row| (group.name.as_str(), *row)));
        let rows = rows.map(|(title, row)| (title, row, ladder::row_words(row)));
        show_rows(page, &columns, &cells, &chosen, MIN_NAME_WIDTH, rows);
        chosen.into_iter().map(|column| columns[column].title()).collect()
    }
}

/// Shows a line per case with the chosen columns. Each row has the title of its block, the case and the words that name
/// it; `cells` has the texts of all columns.
pub(super) fn show_rows<'r>(
    page: &mut Page,
    columns: &[Shown],
    cells: &[Vec<String>],
    chosen: &[usize],
    min_room: usize,
    rows: impl Iterator<Item = (&'r str, &'r CaseSummary, Vec<String>)>,
) {
    let taken: usize = chosen.iter().map(|column| GAP + width_of(columns, cells, *column)).sum();
    let room = page.look.width.saturating_sub(taken).max(min_room);
    let mut block = Block::new(chosen.iter().map(|column| columns[*column].title().to_owned()));
    let mut last = None;
    for ((title, row, words), texts) in rows.zip(cells) {
        if last.replace(title) != Some(title) {
            block.title(title);
        }
        let figures = chosen.iter().map(|column| texts[*column].clone());
        block.row(if row.valid { PLAIN } else { BAD }, &lines_of(row, &words, room), figures);
    }
    block.show(page);
}

/// Returns the indices of the columns that have a value and fit `room`.
pub(super) fn fitting(columns: &[Shown], cells: &[Vec<String>], room: usize) -> Vec<usize> {
    let has_values =
        |column: &usize| columns[*column].name == "latency_p50_ns" || cells.iter().any(|row| row[*column] != DASH);
    let chosen = (0..columns.len()).filter(has_values).collect();
    without_spare(chosen, room, |column| (&columns[*column], width_of(columns, cells, *column)))
}

/// Omits columns by [`Shown::spare`] until the others fit `room`. `of` returns a column and its width.
pub(super) fn without_spare<'c, C>(
    mut columns: Vec<C>,
    room: usize,
    of: impl Fn(&C) -> (&'c Shown, usize),
) -> Vec<C> {
    while columns.iter().map(|column| GAP + of(column).1).sum::<usize>() > room {
        let most = columns.iter().map(|column| of(column).0.spare).max().unwrap_or(0);
        if most == 0 {
            break;
        }
        columns.retain(|column| of(column).0.spare != most);
    }
    columns
}

fn width_of(columns: &[Shown], cells: &[Vec<String>], column: usize) -> usize {
    let texts = cells.iter().map(|row| row[column].chars().count());
    texts.max().unwrap_or(0).max(columns[column].title().chars().count())
}

/// Width of the names if their details are on separate lines.
fn min_name_width(groups: &[&Group<'_>]) -> usize {
    let lines = groups.iter().flat_map(|group| &group.rows).flat_map(|row| name_lines(row, MIN_NAME_WIDTH));
    lines.map(|line| line.chars().count()).max().unwrap_or(0).max(MIN_NAME_WIDTH)
}

const DETAIL_INDENT: usize = 4;

/// Splits the name of a case into lines of at most `room` characters: the first word, then the details.
pub(super) fn name_lines(row: &CaseSummary, room: usize) -> Vec<String> {
    lines_of(row, &ladder::row_words(row), room)
}

/// Like [`name_lines`], with other words.
pub(super) fn lines_of(row: &CaseSummary, words: &[String], room: usize) -> Vec<String> {
    let mark = if row.valid || wording::never_measured(row) { "  " } else { "! " };
    let mut words = words.iter().map(|word| clean(word));
    fill(format!("{mark}{}", words.next().unwrap_or_default()), words, room)
}

/// Adds words to a line of at most `room` characters; continues on indented lines.
pub(super) fn fill(first: String, words: impl Iterator<Item = String>, room: usize) -> Vec<String> {
    let mut lines = vec![first];
    for word in words {
        let last = lines.last_mut().expect("lines has the first line");
        if last.chars().count() + 1 + word.chars().count() <= room {
            last.push(' ');
            last.push_str(&word);
        } else {
            let parts = wrap(&word, room.saturating_sub(DETAIL_INDENT));
            lines.extend(parts.into_iter().map(|part| format!("{:DETAIL_INDENT$}{part}", "")));
        }
    }
    lines
}

/// Shows the first exchanges of a connection, for cases in which one of them differs from the steady state.
fn first_exchanges(page: &mut Page, groups: &[&Group<'_>]) {
    let differ = |row: &&&CaseSummary| exchanges::first_differ(row);
    let found: Vec<(&Group<'_>, Vec<&CaseSummary>)> = groups
        .iter()
        .map(|group| (*group, group.rows.iter().filter(differ).copied().collect::<Vec<_>>()))
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    if found.is_empty() {
        return;
    }
    page.heading("First exchanges of a connection", "");
    page.paragraph(0, DIM, exchanges::WHY_FIRST);
    let rows = || found.iter().flat_map(|(_, rows)| rows);
    let most = rows().map(|row| exchanges::early(row).len()).max().unwrap_or(0);
    let room = page.look.width.saturating_sub(min_name_width(groups) + GAP + TIME_WIDTH);
    let shown = most.min(room / (GAP + TIME_WIDTH));
    let titles = (1..=shown).map(|number| number.to_string()).chain(["p50".to_owned()]);
    let mut block = Block::new(titles);
    for (group, rows) in &found {
        block.title(&group.name);
        for row in rows {
            let early = exchanges::early(row);
            let times = (0..shown).map(|place| time(early.get(place).copied()));
            let figures = times.chain([time(row.primary().latency_ns.p50)]);
            block.row(PLAIN, &name_lines(row, min_name_width(groups)), figures);
        }
    }
    block.show(page);
    if let Some(left_out) = exchanges::first_left_out(groups) {
        page.paragraph(0, DIM, &left_out);
    }
}

const TIME_WIDTH: usize = 7;

/// Shows set-up times and first messages if they are not columns, with one row per transport and two figures per
/// group. If the groups do not fit the width, shows several tables.
fn set_up(page: &mut Page, groups: &[&Group<'_>], shown: &[&str]) {
    if shown.contains(&"set-up") {
        return;
    }
    let measured = |group: &&&Group<'_>| group.rows.iter().any(|row| row.primary().setup_ns.is_some());
    let groups: Vec<&Group<'_>> = groups.iter().filter(measured).copied().collect();
    let rows = groups.iter().flat_map(|group| &group.rows);
    let by_name = grouped(rows.map(|row| (ladder::row_name(row), *row))).into_iter();
    let names: Vec<(String, Vec<String>)> =
        by_name.map(|(name, rows)| (name, name_lines(rows[0], MAX_SET_UP_NAME))).collect();
    if names.is_empty() {
        return;
    }
    page.heading("Connection set-up, first message", "medians over rounds");
    let widest = names.iter().flat_map(|(_, lines)| lines).map(|line| line.chars().count()).max().unwrap_or(0);
    let at_once = (page.look.width.saturating_sub(widest) / (GAP + SET_UP_WIDTH)).max(1);
    let ends: Vec<&String> = distinct(groups.iter().map(|group| &group.ends));
    for some in ends.chunks(at_once) {
        let mut block = Block::new(some.iter().map(|ends| (*ends).clone()));
        for of_one_path in groups.chunk_by(|one, other| one.path == other.path) {
            block.title(of_one_path[0].path.as_deref().unwrap_or_default());
            for (name, lines) in &names {
                let of = |ends: &&String| of_one_path.iter().find(|group| group.ends == **ends);
                let found = |ends: &&String| of(ends).and_then(|group| set_up_of(group, name));
                if some.iter().any(|ends| found(ends).is_some()) {
                    block.row(PLAIN, lines, some.iter().map(|ends| found(ends).unwrap_or_else(|| DASH.to_owned())));
                }
            }
        }
        block.show(page);
    }
}

fn set_up_of(group: &Group<'_>, name: &str) -> Option<String> {
    let row = group.rows.iter().find(|row| ladder::row_name(row) == name)?;
    Some(format!("{:>7} {:>8}", time(row.primary().setup_ns), time(row.primary().first_message_ns)))
}

/// Maximum width of names in the table of set-up times; longer names have their details on separate lines.
const MAX_SET_UP_NAME: usize = 20;
/// Width of the two times, set-up and first message.
const SET_UP_WIDTH: usize = 16;

/// A table without borders, with names to the left and figures to the right. Titles between rows span all columns.
pub(super) struct Block {
    table: Table,
    /// The title above each line, if any, and the style of the line.
    lines: Vec<(Option<String>, Style)>,
    title: Option<String>,
    /// The last column, if it has words, which are to the left.
    words: Option<usize>,
}

impl Block {
    pub(super) fn new(titles: impl Iterator<Item = String>) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.add_row(std::iter::once(String::new()).chain(titles).collect::<Vec<_>>());
        Self { table, lines: vec![(None, DIM)], title: None, words: None }
    }

    /// Aligns the last column to the left, for words.
    pub(super) fn with_words_last(mut self) -> Self {
        self.words = self.table.column_count().checked_sub(1);
        self
    }

    /// Sets the title above the next row; an empty title is not shown.
    pub(super) fn title(&mut self, title: &str) {
        self.title = Some(clean(title)).filter(|title| !title.is_empty());
    }

    pub(super) fn row(&mut self, style: Style, name: &[String], figures: impl Iterator<Item = String>) {
        self.table.add_row(std::iter::once(name.join("\n")).chain(figures).collect::<Vec<_>>());
        for place in 0..name.len() {
            self.lines.push((if place == 0 { self.title.take() } else { None }, style));
        }
    }

    pub(super) fn show(mut self, page: &mut Page) {
        for column in self.table.column_iter_mut() {
            let first = column.index == 0;
            let is_left = first || self.words == Some(column.index);
            column.set_cell_alignment(if is_left { CellAlignment::Left } else { CellAlignment::Right });
            column.set_padding((if first { 0 } else { GAP_COLUMNS }, 0));
        }
        for (line, (title, style)) in self.table.lines().zip(self.lines) {
            if let Some(title) = title {
                page.paragraph(0, LEAD, &title);
            }
            page.line(style, &line);
        }
    }
}
