//! Latency by CPU time per message: a mark for each way to wait and number of connections.

use std::fmt::Write as _;

use hairpin_model::ladder::CaseKind;
use hairpin_model::names::{distinct, grouped};
use hairpin_model::{Case, CaseSummary, Figure, Run, Waiting};

use super::percentiles::swatch;
use super::plot::{Curve, Place, Plot, Point, log_scale};
use super::quantity::Quantity;
use super::series::SeriesStyle;

/// Returns the charts of each transport and setting that was measured with several ways to wait, of which at least one is more
/// than block, poll and spin.
pub(crate) fn charts(run: &Run) -> Vec<String> {
    let is_drawn = |row: &&CaseSummary| row.valid && row.case.replicate == 0 && places(row).is_some();
    let drawn = run.cases.iter().filter(|row| CaseKind::of(&row.case) == CaseKind::RoundTrips).filter(is_drawn);
    grouped(drawn.map(|row| (settings(&row.case), row)))
        .iter()
        .filter_map(|(title, rows)| {
            let waitings = distinct(rows.iter().map(|row| row.case.ends.waiting));
            let are_compared = waitings.len() > 1 && waitings.iter().any(|waiting| !Waiting::BASIC.contains(waiting));
            charts_of(title, &waitings, rows).filter(|_| are_compared)
        })
        .collect()
}

/// The settings of a case beside how it waits on how many connections.
fn settings(case: &Case) -> String {
    let one = case.clone().with(|case| case.primary_mut().connections = 1);
    let first = [one.marked_transport(), one.ends.placement.in_words().to_owned()];
    first.into_iter().chain(one.details()).collect::<Vec<_>>().join(", ")
}

/// Draws all cases and, as busy-polling differs most, those whose ends sleep once more on scales of their own.
fn charts_of(title: &str, waitings: &[Waiting], rows: &[&CaseSummary]) -> Option<String> {
    let looks = |waiting: Waiting| {
        SeriesStyle::numbered(waitings.iter().position(|known| *known == waiting).unwrap_or_default())
    };
    let sleeping: Vec<&CaseSummary> = rows.iter().filter(|row| !row.case.ends.waiting.spins()).copied().collect();
    let mut html = format!("<div class=\"xy-charts\">{}", chart(&format!("{title}: all"), looks, rows)?);
    if sleeping.len() < rows.len() && sleeping.len() > 2 {
        html += &chart(&format!("{title}: ends that sleep, enlarged"), looks, &sleeping)?;
    }
    html.push_str("</div><ul class=\"sequence-legend\">");
    for waiting in waitings {
        let looks = looks(*waiting);
        let _ = write!(html, "<li class=\"{}\">{}{}</li>", looks.classes(), swatch(looks), waiting.in_words());
    }
    Some(html + "</ul>")
}

fn chart(title: &str, looks: impl Fn(Waiting) -> SeriesStyle, rows: &[&CaseSummary]) -> Option<String> {
    let both = || rows.iter().filter_map(|row| places(row));
    let time = |ns| Quantity::Latency.tick(ns);
    let x =
        log_scale(both().flat_map(|(x, _)| x.values()), "CPU time of both ends per round trip (log scale)", 6, time)?;
    let y = log_scale(both().flat_map(|(_, y)| y.values()), "round trip, p50 (log scale)", 8, time)?;
    let mut curves = Vec::new();
    for (waiting, mut rows) in grouped(rows.iter().map(|row| (row.case.ends.waiting, *row))) {
        rows.sort_by_key(|row| row.case.primary().connections);
        curves.push(Curve { looks: looks(waiting), points: rows.into_iter().filter_map(point).collect() });
    }
    let described = format!("Round trip by CPU time per message, {title}");
    Some(Plot { described, x: &x, y: &y, curves }.figure(title))
}

fn point(row: &CaseSummary) -> Option<Point> {
    let (x, y) = places(row)?;
    let connections = row.case.primary().connections;
    let label = if connections > 1 { connections.to_string() } else { String::new() };
    let words = format!(
        "{}, connections: {connections}; round trip p50 {}, CPU time {}",
        row.case.ends.waiting.in_words(),
        Quantity::Latency.with_bounds(row.primary().latency_ns.p50?),
        Quantity::Latency.with_bounds(cpu_ns(row)?)
    );
    Some(Point { x, y, words, label, ring: false })
}

fn places(row: &CaseSummary) -> Option<(Place, Place)> {
    Place::of(cpu_ns(row)).zip(Place::of(row.primary().latency_ns.p50))
}

/// The CPU time of both ends per round trip, in ns. Its bounds are the sums of the bounds, which are at least as far apart as
/// those of the sum.
fn cpu_ns(row: &CaseSummary) -> Option<Figure> {
    let ends = row.ends.iter().map(|end| end.cpu_seconds_per_message);
    let sum = ends.reduce(|sum, end| {
        let (sum, end) = (sum?, end?);
        let both = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        Some(Figure {
            value: sum.value + end.value,
            low: both(sum.low, end.low),
            high: both(sum.high, end.high),
            ..sum
        })
    });
    Some(sum??.rising(|seconds| seconds * 1e9))
}
