//! The table of the first screen: one row per transport or remedy, columns for each placement and waiting mode.

use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::names::distinct;
use hairpin_model::quantities::DASH;
use hairpin_model::{CaseSummary, Group, Placement, Run, Waiting};

use super::page::{BAD, DIM, PLAIN, Page};
use super::tables::{Block, GAP, SET_UPS, Shown, is_set_up, link, name_lines, without_spare};
use crate::wording;

/// Returns the columns for a kind of cases. They repeat for each waiting mode and placement.
fn columns(kind: CaseKind, is_set_up: bool) -> Vec<Shown> {
    Shown::list(match kind {
        _ if is_set_up => {
            "latency_p50_ns latency_p50_ns~/1 set_up_round_trips set_up_packets/2 set_up_bytes/2 set_up_cpu_ns/3"
        }
        CaseKind::Exchanges => {
            "latency_p50_ns latency_p50_ns~/3 latency_p99_ns/4 speed_up_against_default segments_per_exchange/1 \
             pure_acks_per_exchange/1 system_calls_per_exchange/2"
        }
        CaseKind::Periods => {
            "latency_p50_ns latency_p99_ns/2 release_jitter_p50_ns/1 misses longest_miss_run/3 miss_share"
        }
        _ => {
            "latency_p50_ns latency_p50_ns~/1 latency_p99_ns latency_p999_ns/3 latency_max_ns/2 \
             cpu_ns_per_message/4"
        }
    })
}

type Conditions = (Waiting, Placement);

/// More waiting modes and placements are below each other.
const MAX_SIDE_BY_SIDE: usize = 4;

/// Rows with the same path and subject.
struct Rows<'r> {
    title: String,
    rows: Vec<Row<'r>>,
}

struct Row<'r> {
    any: &'r CaseSummary,
    /// One case for each waiting mode and placement; `None` if not measured.
    cases: Vec<Option<&'r CaseSummary>>,
}

/// Shows one table for each kind of case with answers.
pub(super) fn tables(page: &mut Page, run: &Run) {
    link(page, run);
    let groups = ladder::groups(&run.cases);
    for kind in [CaseKind::RoundTrips, CaseKind::Exchanges, CaseKind::Periods] {
        let groups: Vec<&Group<'_>> = groups.iter().filter(|group| group.kind == kind).collect();
        if !groups.is_empty() {
            show(page, kind, &groups);
        }
    }
}

fn show(page: &mut Page, kind: CaseKind, groups: &[&Group<'_>]) {
    let of_processes = |group: &&&Group<'_>| !group.rows.iter().all(|row| is_answered_by_kernel(row));
    let mut all_conditions: Vec<Conditions> = distinct(groups.iter().filter(of_processes).map(conditions));
    if all_conditions.is_empty() {
        all_conditions = distinct(groups.iter().map(conditions));
    }
    let mut blocks = blocks(groups, &all_conditions);
    if all_conditions.len() > MAX_SIDE_BY_SIDE {
        blocks = below_each_other(groups, &all_conditions);
        all_conditions.clear();
    }
    let only = match all_conditions.as_slice() {
        [(waiting, placement)] => format!("{}, {}", placement.in_words(), waiting.in_words()),
        _ => String::new(),
    };
    let is_set_up = groups.iter().any(|group| is_set_up(group));
    page.heading(if is_set_up { SET_UPS } else { kind.title() }, &only);
    let columns = columns(kind, is_set_up);
    let min_width: usize = columns.iter().filter(|column| column.spare == 0).map(|_| GAP + FIGURE_WIDTH).sum();
    let count = all_conditions.len().max(1);
    let name_width = name_width(&blocks, page.look.width.saturating_sub(min_width * count).max(MIN_NAME));
    let at_once = (page.look.width.saturating_sub(name_width) / min_width).clamp(1, count);
    for first in (0..count).step_by(at_once) {
        let some = first..(first + at_once).min(count);
        let some = (some.clone(), all_conditions.get(some).unwrap_or_default());
        table(page, &columns, some, &blocks, name_width);
    }
}

fn below_each_other<'r>(groups: &[&Group<'r>], all_conditions: &[Conditions]) -> Vec<Rows<'r>> {
    let of = |(waiting, placement): &Conditions| {
        let own: Vec<&Group<'r>> =
            groups.iter().copied().filter(|group| conditions(group) == (*waiting, *placement)).collect();
        let titled = move |block: Rows<'r>| {
            let more = if block.title.is_empty() { String::new() } else { format!(", {}", block.title) };
            Rows { title: format!("{}, {}{more}", waiting.in_words(), placement.in_words()), ..block }
        };
        blocks(&own, &[(*waiting, *placement)]).into_iter().map(titled).collect::<Vec<_>>()
    };
    all_conditions.iter().flat_map(of).collect()
}

/// Whether the kernel answers instead of a second process.
fn is_answered_by_kernel(row: &CaseSummary) -> bool {
    row.rounds > 0 && row.server().is_none()
}

const FIGURE_WIDTH: usize = 7;
const MIN_NAME: usize = 16;

fn conditions(group: &&Group<'_>) -> Conditions {
    (group.waiting, group.placement)
}

/// Groups rows by path and subject. Rows are in the order of the largest group; kernel-answered rows come last.
fn blocks<'r>(groups: &[&Group<'r>], all_conditions: &[Conditions]) -> Vec<Rows<'r>> {
    let keys = distinct(groups.iter().map(|group| (&group.path, &group.subject)));
    let of_key = |(path, subject): (&Option<String>, &String)| {
        let mut own: Vec<&&Group<'r>> =
            groups.iter().filter(|one| (&one.path, &one.subject) == (path, subject)).collect();
        own.sort_by_key(|group| std::cmp::Reverse(group.rows.len()));
        let firsts = own.iter().flat_map(|group| &group.rows).filter(|row| row.case.replicate == 0);
        let names = distinct(firsts.map(|row| ladder::row_name(row)));
        let mut rows: Vec<Row<'r>> = names.iter().filter_map(|name| row(name, &own, all_conditions)).collect();
        rows.sort_by_key(|row| is_answered_by_kernel(row.any));
        let title: Vec<&str> = [subject.as_str(), path.as_deref().unwrap_or_default()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        Rows { title: title.join(", "), rows }
    };
    keys.into_iter().map(of_key).filter(|block| !block.rows.is_empty()).collect()
}

fn row<'r>(name: &str, groups: &[&&Group<'r>], all_conditions: &[Conditions]) -> Option<Row<'r>> {
    let case = |at: &Conditions| {
        let group = groups.iter().find(|group| (group.waiting, group.placement) == *at)?;
        group.rows.iter().copied().find(|row| row.case.replicate == 0 && ladder::row_name(row) == name)
    };
    let cases: Vec<Option<&CaseSummary>> = all_conditions.iter().map(case).collect();
    let any = cases.iter().flatten().next().copied()?;
    Some(Row { any, cases })
}

/// Width of the longest name, at most `room`; longer names have their details on separate lines.
fn name_width(blocks: &[Rows<'_>], room: usize) -> usize {
    let rows = || blocks.iter().flat_map(|block| &block.rows);
    let lines = |room: usize| rows().flat_map(move |row| name(row, room)).map(|line| line.chars().count()).max();
    lines(usize::MAX).filter(|widest| *widest <= room).or_else(|| lines(room)).unwrap_or(room)
}

fn name(row: &Row<'_>, room: usize) -> Vec<String> {
    let mut lines = name_lines(row.any, room);
    if is_answered_by_kernel(row.any) && !row.any.case.is_foreign() {
        lines[0].push_str(" (kernel)");
    }
    lines
}

fn table(
    page: &mut Page,
    columns: &[Shown],
    (shown, all_conditions): (std::ops::Range<usize>, &[Conditions]),
    groups: &[Rows<'_>],
    name_width: usize,
) {
    let rows = groups.iter().flat_map(|group| &group.rows);
    let cases: Vec<Option<&CaseSummary>> = rows.flat_map(|row| &row.cases[shown.clone()]).copied().collect();
    let text =
        |column: &Shown, case: Option<&CaseSummary>| case.map_or_else(|| DASH.to_owned(), |case| column.text(case));
    let width_of = |column: &Shown| {
        let texts = cases.iter().map(|case| text(column, *case).chars().count());
        texts.chain([column.title().chars().count()]).max().unwrap_or(0)
    };
    let has_values = |column: &&Shown| column.spare == 0 || cases.iter().any(|case| text(column, *case) != DASH);
    let chosen: Vec<(&Shown, usize)> =
        columns.iter().filter(has_values).map(|column| (column, width_of(column))).collect();
    let room = page.look.width.saturating_sub(name_width) / shown.len();
    let chosen = without_spare(chosen, room, |(column, width)| (*column, *width));
    let figures_width = chosen.iter().map(|(_, width)| GAP + width).sum::<usize>().max(GAP + WIDEST_TITLE) - GAP;
    // The cell of one waiting mode and placement.
    let figures = |of: &dyn Fn(&Shown) -> String| {
        let figure = |(column, width): &(&Shown, usize)| format!("{:>width$}", of(column), width = GAP + width);
        format!("{:>figures_width$}", chosen.iter().map(figure).collect::<String>().trim_start())
    };
    let titles = shown.clone().map(|_| figures(&|column| column.title().to_owned()));
    let mut table = if all_conditions.len() > 1 {
        let no_name = [" ".repeat(name_width)];
        let mut table = Block::new(all_conditions.iter().map(|(_, placement)| placement.in_words().to_owned()));
        table.row(DIM, &no_name, all_conditions.iter().map(|(waiting, _)| waiting.in_words().to_owned()));
        table.row(DIM, &no_name, titles);
        table
    } else {
        Block::new(titles)
    };
    for group in groups {
        table.title(&group.title);
        for row in &group.rows {
            let cases = &row.cases[shown.clone()];
            if cases.iter().all(Option::is_none) {
                continue;
            }
            let is_valid = cases.iter().flatten().all(|case| case.valid || wording::never_measured(case));
            let mut name = name(row, name_width);
            if !is_valid {
                name[0].replace_range(..1, "!");
            }
            let (first, details) = name.split_at(1);
            let style = if is_valid { PLAIN } else { BAD };
            table.row(style, first, cases.iter().map(|case| figures(&|column| text(column, *case))));
            details.chunks(1).for_each(|line| table.row(PLAIN, line, std::iter::empty()));
        }
    }
    table.show(page);
}

/// Width of `busy-polling`.
const WIDEST_TITLE: usize = 12;
