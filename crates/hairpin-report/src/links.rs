//! The links of a run, and texts about them for the terminal and the page.

use std::collections::BTreeMap;

use hairpin_model::names::grouped;
use hairpin_model::{CaseSummary, LatenessNs, LinkSummary, PacketCounts, Run, path, quantities};

pub(crate) struct Link<'r> {
    pub(crate) name: &'r str,
    pub(crate) line: &'r str,
    pub(crate) rows: Vec<&'r CaseSummary>,
}

pub(crate) fn of(run: &Run) -> Vec<Link<'_>> {
    let emulated = run.cases.iter().filter(|row| row.case.is_emulated());
    let by_line = grouped(emulated.map(|row| (row.case.path.link.as_str(), row)));
    by_line.into_iter().map(|(line, rows)| Link { name: path::name(&rows[0].case), line, rows }).collect()
}

/// Describes the link that all cases use; `None` for several links and for the loopback.
pub(crate) fn shared(run: &Run) -> Option<String> {
    let first = run.cases.first().filter(|row| row.case.is_emulated() && !path::several(&run.cases))?;
    let all = if run.cases.len() == 1 { "" } else { ", of all cases" };
    let line = first.case.path.name.as_ref().map_or_else(String::new, |_| format!(": {}", first.case.path.link));
    Some(format!("{}{all}{line}", path::name(&first.case)))
}

/// Returns a note per link, to print below the figures. True marks unusable figures.
pub(crate) fn notes(run: &Run) -> Vec<(bool, String)> {
    of(run).iter().filter_map(|link| note(link)).collect()
}

/// Returns cautions to print above the figures, about cases that are invalid because of their link.
pub(crate) fn cautions(run: &Run) -> Vec<String> {
    let spoiled = |link: &Link<'_>| {
        let invalid = link.rows.iter().filter(|row| !row.valid);
        let whys: Vec<&String> = invalid.filter_map(|row| row.path.relay.as_ref()?.rounds_left_out.first()).collect();
        let (many, first) = (whys.len() as u64, whys.first()?);
        let are = if many == 1 { "is" } else { "are" };
        let cases = quantities::counted(many, "case");
        let over = path::over_in_short(&link.rows[0].case, &run.cases).unwrap_or_default();
        Some(format!("{cases} {over} {are} invalid, as the link did not match its profile: {first}."))
    };
    of(run).iter().filter_map(spoiled).collect()
}

/// Returns rounds that do not count because of the link: `12 rounds do not count: udp block same-cpu 10, tcp block
/// same-cpu 2 (round 0: the emulator was late by 118 us at p50, bound 100 us; and 11 more)`. True if a case is invalid.
pub(crate) fn left_out(link: &Link<'_>) -> Option<(bool, String)> {
    const MAX_LISTED: usize = 2;
    let each = link.rows.iter().filter_map(|row| Some((*row, &row.path.relay.as_ref()?.rounds_left_out)));
    let rows: Vec<(&CaseSummary, &Vec<String>)> = each.filter(|(_, left_out)| !left_out.is_empty()).collect();
    let name = |(row, left_out): &(&CaseSummary, &Vec<String>)| {
        format!("{} {}", row.case.without_link().label(), quantities::count(left_out.len() as u64))
    };
    let names: Vec<String> = rows.iter().map(name).collect();
    let whys: Vec<&str> = rows.iter().flat_map(|(_, left_out)| *left_out).map(String::as_str).collect();
    let all = whys.len() as u64;
    let more = match whys.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let (rounds, do_not) = (quantities::counted(all, "round"), if all == 1 { "does not" } else { "do not" });
    let why = whys.iter().take(MAX_LISTED).copied().collect::<Vec<_>>().join("; ");
    let text = format!("{rounds} {do_not} count: {} ({why}{more})", names.join(", "));
    (all > 0).then(|| (rows.iter().any(|(row, _)| !row.valid), text))
}

/// Returns `home-uplink (seed 7): 2 404 packets in, 2 398 out, dropped 6 (loss 4, queue 2), late 2 us at p50, 71 us
/// at p99`, with rounds that do not count before the packets. `None` if no round was measured.
fn note(link: &Link<'_>) -> Option<(bool, String)> {
    let (closes, account) = account(link)?;
    let (invalid, left_out) = left_out(link).map_or((false, String::new()), |(invalid, said)| (invalid, said + "; "));
    Some((invalid || !closes, format!("{}: {left_out}{account}", title(link))))
}

/// Returns `home-uplink (seed 7)`. This is the seed of the first block; each further block increments the seed.
pub(crate) fn title(link: &Link<'_>) -> String {
    let seed = link.rows.iter().find_map(|row| row.path.relay.as_ref()).map(|link| format!(" (seed {})", link.seed));
    format!("{}{}", link.name, seed.unwrap_or_default())
}

/// Returns the packets of all cases over a link, their lateness and CPU cost; `None` if no round was measured. False
/// if packets are unaccounted for.
pub(crate) fn account(link: &Link<'_>) -> Option<(bool, String)> {
    let summaries: Vec<&LinkSummary> = link.rows.iter().filter_map(|row| row.path.relay.as_ref()).collect();
    let all = summaries.iter().map(|summary| summary.packets.clone()).reduce(|all, packets| all.plus(&packets))?;
    let mut parts = counts(&all);
    parts.extend(lateness(&summaries));
    parts.extend(relay_cpu(&summaries));
    Some((all.unexplained() == 0, parts.join(", ")))
}

pub(crate) fn counts(packets: &PacketCounts) -> Vec<String> {
    let count = quantities::count;
    let mut parts =
        vec![format!("{} in", quantities::counted(packets.entered, "packet")), format!("{} out", count(packets.out))];
    parts.push(match packets.dropped.values().sum() {
        0 => "none dropped".to_owned(),
        all => format!("dropped {} ({})", count(all), by_name(&packets.dropped)),
    });
    parts.extend(packets.others().map(|(what, of)| format!("{} {what}", count(of))));
    match packets.unexplained() {
        0 => {}
        missing @ 1.. => parts.push(format!("{missing} missing without a cause")),
        extra => parts.push(format!("{} too many", extra.unsigned_abs())),
    }
    parts
}

/// Formats counts as `loss 4, queue 2`.
pub(crate) fn by_name(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(name, of)| format!("{name} {}", quantities::count(*of))).collect::<Vec<_>>().join(", ")
}

/// Returns the lateness of packets; for several cases, the maximum of each percentile.
fn lateness(summaries: &[&LinkSummary]) -> Option<String> {
    let all: Vec<LatenessNs> = summaries.iter().filter_map(|summary| summary.lateness_ns).collect();
    let greatest = |of: fn(&LatenessNs) -> u64| Some(time(all.iter().map(of).max()?));
    let up_to = if all.len() > 1 { "up to " } else { "" };
    Some(format!("late {up_to}{} at p50, {} at p99", greatest(|late| late.p50)?, greatest(|late| late.p99)?))
}

/// Formats a time as `2 us`.
pub(crate) fn time(ns: u64) -> String {
    quantities::round_duration(ns as f64)
}

fn relay_cpu(summaries: &[&LinkSummary]) -> Option<String> {
    let all: Vec<f64> = summaries.iter().filter_map(|summary| summary.relay_cpu_ns_per_packet).collect();
    let most = all.iter().copied().filter(|ns| ns.is_finite()).reduce(f64::max)?;
    let up_to = if all.len() > 1 { "up to " } else { "" };
    Some(format!("emulator CPU {up_to}{} per packet", quantities::duration(most)))
}
