//! The ladder as a table that fits its width: columns are left out, the least needed first, before anything wraps.

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::MICRO;
use super::page::{BAD, DIM, LEAD, PLAIN, Page, clean};
use crate::ladder::{self, Group};
use crate::quantities::{self, DASH};

/// A column: its title, its text, and when it is left out.
struct Column {
    title: &'static str,
    text: fn(&CaseSummary) -> String,
    /// The greatest is left out first where the width does not suffice; 0 never.
    spare: u8,
}

const COLUMNS: &[Column] = &[
    Column { title: "p50", text: |row| time(ladder::p50_ns(row)), spare: 0 },
    Column { title: "95 %", text: p50_bounds, spare: 2 },
    Column { title: "p99", text: |row| time(ladder::finite(row.latency_ns.p99)), spare: 0 },
    Column { title: "p99.9", text: |row| time(ladder::finite(row.latency_ns.p999)), spare: 1 },
    Column { title: "max", text: |row| time(ladder::finite(row.latency_ns.max)), spare: 0 },
    Column { title: "lost", text: |row| quantities::short_count(ladder::lost(row)), spare: 3 },
    Column { title: "CPU/msg", text: |row| time(ladder::cpu_ns_per_message(row)), spare: 4 },
    Column { title: "set-up", text: |row| time(ladder::finite(row.setup_ns)), spare: 6 },
    Column { title: "first", text: |row| time(ladder::finite(row.first_message_ns)), spare: 5 },
];

fn time(ns: Option<f64>) -> String {
    ns.map_or_else(|| DASH.to_owned(), |ns| quantities::duration(ns, MICRO))
}

fn p50_bounds(row: &CaseSummary) -> String {
    match (ladder::p50_ns(row), ladder::interval(row.latency_ns.p50)) {
        (Some(value), Some((low, high))) => quantities::bounds(value, low, high, MICRO),
        _ => DASH.to_owned(),
    }
}

/// Blanks between columns.
const GAP: usize = 2;
const GAP_COLUMNS: u16 = 2;
/// The name column is at least so wide, and details that do not fit stand on lines of their own.
const NAME: usize = 14;

/// The ladder, one block a group, and the set-up times below where they have no columns.
pub(super) fn ladder(page: &mut Page, run: &Run) {
    let groups = ladder::groups(run);
    if groups.is_empty() {
        return;
    }
    let remark = "latency of a round trip; 95 %: interval of p50 over rounds; CPU of both ends";
    page.heading("Round trips", remark);
    let cells: Vec<Vec<Vec<String>>> = groups
        .iter()
        .map(|group| group.rows.iter().map(|row| COLUMNS.iter().map(|column| (column.text)(row)).collect()).collect())
        .collect();
    let chosen = fitting(&cells, page.width());
    let shown: usize = chosen.iter().map(|column| GAP + width_of(&cells, *column)).sum();
    let mut block = Block::new(chosen.iter().map(|column| COLUMNS[*column].title.to_owned()));
    let room = page.width().saturating_sub(shown).max(NAME);
    for (group, rows) in groups.iter().zip(&cells) {
        block.title(&group.name);
        for (row, texts) in group.rows.iter().zip(rows) {
            let figures = chosen.iter().map(|column| texts[*column].clone());
            block.row(if row.valid { PLAIN } else { BAD }, &name_lines(row, room), figures);
        }
    }
    block.show(page);
    if !chosen.iter().any(|column| COLUMNS[*column].title == "set-up") {
        set_up(page, &groups);
    }
}

/// The columns that fit beside the names, in their order.
fn fitting(cells: &[Vec<Vec<String>>], width: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..COLUMNS.len()).collect();
    let needed = |chosen: &[usize]| NAME + chosen.iter().map(|column| GAP + width_of(cells, *column)).sum::<usize>();
    while needed(&chosen) > width {
        let spare = chosen.iter().copied().filter(|column| COLUMNS[*column].spare > 0);
        let Some(least) = spare.max_by_key(|column| COLUMNS[*column].spare) else { break };
        chosen.retain(|column| *column != least);
    }
    // Set-up and first message belong together: both are columns, or both stand below.
    let (set_up, first) = (COLUMNS.len() - 2, COLUMNS.len() - 1);
    if !chosen.contains(&set_up) {
        chosen.retain(|column| *column != first);
    }
    chosen
}

fn width_of(cells: &[Vec<Vec<String>>], column: usize) -> usize {
    let texts = cells.iter().flatten().map(|row| row[column].chars().count());
    texts.max().unwrap_or(0).max(COLUMNS[column].title.chars().count())
}

/// The case's name in lines of at most `room`: the transport, and its details beside or below it.
fn name_lines(row: &CaseSummary, room: usize) -> Vec<String> {
    let mark = if row.valid { "  " } else { "! " };
    let mut lines = vec![format!("{mark}{}", clean(&row.case.transport))];
    for detail in row.case.details() {
        let detail = clean(&detail);
        let last = lines.last_mut().expect("it has the transport");
        if last.chars().count() + 1 + detail.chars().count() <= room {
            last.push(' ');
            last.push_str(&detail);
        } else {
            lines.push(format!("    {detail}"));
        }
    }
    lines
}

/// Set-up time and first message, a row a transport and two columns a group; so many groups at once as fit.
fn set_up(page: &mut Page, groups: &[Group<'_>]) {
    let measured = |group: &&Group<'_>| group.rows.iter().any(|row| row.setup_ns.is_some());
    let groups: Vec<&Group<'_>> = groups.iter().filter(measured).collect();
    let mut names: Vec<(String, Vec<String>)> = Vec::new();
    for row in groups.iter().flat_map(|group| &group.rows) {
        let name = ladder::row_name(row);
        if !names.iter().any(|(known, _)| *known == name) {
            names.push((name, name_lines(row, SET_UP_NAME)));
        }
    }
    if names.is_empty() {
        return;
    }
    page.heading("Connection set-up, first message", "medians over rounds");
    let widest = names.iter().flat_map(|(_, lines)| lines).map(|line| line.chars().count()).max().unwrap_or(0);
    let at_once = (page.width().saturating_sub(widest) / (GAP + SET_UP_PAIR)).max(1);
    for some in groups.chunks(at_once) {
        let mut block = Block::new(some.iter().map(|group| group.name.clone()));
        for (name, lines) in &names {
            let found = |group: &&Group<'_>| {
                let row = group.rows.iter().find(|row| ladder::row_name(row) == *name)?;
                let (set_up, first) = (ladder::finite(row.setup_ns), ladder::finite(row.first_message_ns));
                Some(format!("{:>7} {:>8}", time(set_up), time(first)))
            };
            if some.iter().any(|group| found(group).is_some()) {
                block.row(PLAIN, lines, some.iter().map(|group| found(group).unwrap_or_else(|| DASH.to_owned())));
            }
        }
        block.show(page);
    }
}

/// Names in the table of set-up times: longer ones have their details below.
const SET_UP_NAME: usize = 20;
/// A set-up time and a first message.
const SET_UP_PAIR: usize = 16;

/// A table without borders, names left and figures right, with titles between its rows that share no column.
pub(super) struct Block {
    table: Table,
    /// For each line: the title above it, if any, and its style.
    lines: Vec<(Option<String>, Style)>,
    title: Option<String>,
}

impl Block {
    /// A table with these titles above its columns of figures.
    pub(super) fn new(titles: impl Iterator<Item = String>) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.add_row(std::iter::once(String::new()).chain(titles).collect::<Vec<_>>());
        Self { table, lines: vec![(None, DIM)], title: None }
    }

    /// A title for the rows that follow.
    pub(super) fn title(&mut self, title: &str) {
        self.title = Some(clean(title));
    }

    /// A row: its name in one line or more, and its figures.
    pub(super) fn row(&mut self, style: Style, name: &[String], figures: impl Iterator<Item = String>) {
        self.table.add_row(std::iter::once(name.join("\n")).chain(figures).collect::<Vec<_>>());
        for place in 0..name.len() {
            self.lines.push((if place == 0 { self.title.take() } else { None }, style));
        }
    }

    /// Puts it on the page.
    pub(super) fn show(mut self, page: &mut Page) {
        for column in self.table.column_iter_mut() {
            let first = column.index == 0;
            column.set_cell_alignment(if first { CellAlignment::Left } else { CellAlignment::Right });
            column.set_padding((if first { 0 } else { GAP_COLUMNS }, 0));
        }
        for (line, (title, style)) in self.table.lines().zip(self.lines) {
            if let Some(title) = title {
                page.line(LEAD, &title);
            }
            page.line(style, &line);
        }
    }
}
