//! The links on the page. A link has its statistics, and for each case one round: path, queue, and packets.

use std::cmp::Reverse;

use minijinja::{Value, context};

use hairpin_model::link::Direction;
use hairpin_model::quantities::{self, DASH};
use hairpin_model::{CaseSummary, DirectionRecord, LinkSummary, PacketCounts, Run, ShownLink};

use crate::charts::over_time::Span;
use crate::charts::{link_path, packet_fates, packet_rates, queue_depth};
use crate::links::{self, Link};
use crate::page_text::{command_words, nbsp};

/// Maximum number of cases with a drawn round, over all links, so that the page stays small.
const MAX_SHOWN: usize = 12;

type Drawn<'r> = (&'r CaseSummary, &'r ShownLink);

/// Returns the links of the run in plan order. The round with the most drops is expanded, all others are collapsed.
pub(super) fn of(run: &Run) -> Vec<Value> {
    let links = links::of(run);
    let mut left = MAX_SHOWN;
    let drawn = links.iter().map(|link| {
        let shown = link.rows.iter().filter_map(|row| Some((*row, row.path.relay.as_ref()?.shown.as_deref()?)));
        let mut shown: Vec<Drawn<'_>> = shown.collect();
        shown.sort_by_key(|(_, shown)| Reverse(dropped(shown)));
        let not_shown = shown.split_off(shown.len().min(left)).len();
        left -= shown.len();
        (shown, not_shown)
    });
    let drawn: Vec<(Vec<Drawn<'_>>, usize)> = drawn.collect();
    let all = drawn.iter().flat_map(|(shown, _)| shown);
    let most = all.min_by_key(|(_, shown)| Reverse(dropped(shown))).map(|(row, _)| row.id.as_str());
    links.iter().zip(&drawn).map(|(link, (shown, not_shown))| view(link, shown, *not_shown, most)).collect()
}

/// Returns the view of a link: the words of its profile (empty if the title already contains the profile), its packets
/// and the rounds that do not count (true if a case is invalid), the bounds of lateness at p50 and at p99, its cases and
/// the drawn rounds, and the number of cases not drawn.
fn view(link: &Link<'_>, shown: &[Drawn<'_>], not_shown: usize, most: Option<&str>) -> Value {
    let row = |row: &&CaseSummary| Some(case_row(row, row.path.relay.as_ref()?));
    let told = |(flag, text): (bool, String)| (flag, nbsp(&text));
    let bounds = link.rows.iter().find_map(|row| Some(row.path.relay.as_ref()?.late_bounds_ns)).unwrap_or_default();
    context! {
        title => links::title(link),
        line => if link.name == link.line { Vec::new() } else { command_words(link.line) },
        account => links::account(link).map(told),
        left_out => links::left_out(link).map(told),
        cases => link.rows.iter().filter_map(row).collect::<Value>(),
        bounds => [bounds.p50, bounds.p99].map(|ns| nbsp(&links::time(ns))),
        shown => shown.iter().map(|one| round_value(*one, most)).collect::<Value>(),
        not_shown,
    }
}

fn dropped(shown: &ShownLink) -> u64 {
    all_dropped(&shown.up.packets) + all_dropped(&shown.down.packets)
}

fn all_dropped(packets: &PacketCounts) -> u64 {
    packets.dropped.values().sum()
}

fn case_row(row: &CaseSummary, link: &LinkSummary) -> Value {
    let (packets, bounds) = (&link.packets, link.late_bounds_ns);
    let late = |ns: u64, bound_ns: u64| (nbsp(&links::time(ns)), ns > bound_ns);
    context! {
        name => row.case.without_link().label(),
        valid => row.valid,
        cells => vec![
            quantities::count(packets.entered),
            quantities::count(packets.out),
            with_names(all_dropped(packets), &links::by_name(&packets.dropped)),
        ],
        late => match link.lateness_ns {
            Some(ns) => vec![late(ns.p50, bounds.p50), late(ns.p99, bounds.p99), late(ns.max, u64::MAX)],
            None => vec![(DASH.to_owned(), false); 3],
        },
        relay_cpu => link.relay_cpu_ns_per_packet.map_or_else(|| DASH.to_owned(), |ns| nbsp(&quantities::duration(ns))),
    }
}

fn with_names(count: u64, names: &str) -> String {
    if names.is_empty() { quantities::count(count) } else { format!("{} ({names})", quantities::count(count)) }
}

fn round_value((row, shown): Drawn<'_>, most: Option<&str>) -> Value {
    let both = [(Direction::Up, &shown.up), (Direction::Down, &shown.down)];
    let about = |(direction, record): &(Direction, &DirectionRecord)| {
        format!("{direction}: {}", links::counts(&record.packets).join(", "))
    };
    context! {
        label => row.case.without_link().label(),
        round => shown.round,
        about => nbsp(&both.iter().map(about).collect::<Vec<_>>().join("; ")),
        open => most == Some(row.id.as_str()),
        directions => both.iter().map(|(way, record)| direction_value(*way, record, row)).collect::<Value>(),
        ledger => both.iter().flat_map(|(direction, record)| ledger(*direction, record)).collect::<Value>(),
    }
}

fn direction_value(direction: Direction, record: &DirectionRecord, row: &CaseSummary) -> Value {
    let of = format!("{direction}, {}", row.label);
    let charts = Span::of(record).map_or_else(Vec::new, |span| {
        vec![
            packet_rates::chart(record, &span, &of),
            queue_depth::chart(record, &span, &of),
            packet_fates::chart(record, &span, &of),
        ]
    });
    let mut notes: Vec<String> = Vec::new();
    notes.extend(queue_depth::without_chart(record).map(str::to_owned));
    notes.extend(record.timeline.is_none().then(|| "The time of drops was not recorded.".to_owned()));
    notes.extend((all_dropped(&record.packets) == 0).then(|| "Nothing was dropped.".to_owned()));
    if record.drops_unlisted > 0 {
        let more = quantities::counted(record.drops_unlisted, "later drop");
        notes.push(format!("{more} not marked: the run lists only the first drops."));
    }
    context! {
        title => match direction {
            Direction::Up => "Up: from the near end to the far end",
            Direction::Down => "Down: from the far end to the near end",
        },
        path_html => link_path::chart(direction, record),
        charts_html => charts.into_iter().flatten().collect::<Value>(),
        notes => notes.iter().map(|note| nbsp(note)).collect::<Value>(),
    }
}

fn ledger(direction: Direction, record: &DirectionRecord) -> Vec<Value> {
    let count = quantities::count;
    let unexplained = |missing: i128| (missing != 0).then(|| format!("does not close: {missing}"));
    let row = |stage: &str, whole: bool, packets: &PacketCounts| {
        context! {
            direction => direction.to_string(),
            stage,
            whole,
            cells => vec![
                count(packets.entered),
                count(packets.out),
                with_names(all_dropped(packets), &links::by_name(&packets.dropped)),
                count(packets.duplicated),
                count(packets.reordered),
                count(packets.corrupted),
                count(packets.inside),
            ],
            unexplained => unexplained(packets.unexplained()),
        }
    };
    let stages = record.stages.iter().map(|stage| row(&stage.stage, false, &stage.packets));
    stages.chain([row("all", true, &record.packets)]).collect()
}
