//! The load curve: the share of messages not delivered by offered messages per second, and below it one-way latency. A
//! ring marks the knee.

use std::collections::BTreeMap;

use hairpin_model::{CaseSummary, Figure, Knee, quantities};

use super::axis::Axis;
use super::plot::{Curve, Frame, Place, Point, Scale, log_scale};
use super::quantity::Quantity;
use super::series::SeriesStyle;
use super::svg::sample;
use crate::one_way::{Blocks, Series, varied};

/// Returns the two charts; `None` if no series has two rates.
pub(crate) fn charts(
    knees: &[Knee],
    blocks: &Blocks<'_>,
    looks: &BTreeMap<String, SeriesStyle>,
) -> Option<(String, Option<String>)> {
    let rate = |value: f64| Quantity::Rate.tick(value);
    let valid = || blocks.rows().filter(|row| row.valid);
    let offered: Vec<f64> = valid().map(varied).collect();
    let x = log_scale(offered.iter().copied(), "messages offered per second (log scale)", 6, rate)?;
    let missing = valid().filter_map(|row| Place::from_zero(missing(row))).flat_map(Place::values);
    let axis = Axis::from_zero(missing.chain([MIN_MISSING]))?;
    let ticks = axis.ticks(6, quantities::share);
    let y = Scale { axis, title: "not delivered in time".to_owned(), ticks };
    let above = missing_plots(knees, &Frame { blocks, looks, x: &x, y: &y })?;
    let latencies = valid().flat_map(|row| [row.primary().latency_ns.p50, row.primary().latency_ns.p99]);
    let places = latencies.filter_map(Place::of).flat_map(Place::values);
    let below = log_scale(places, "one-way latency, due to received (log scale)", 8, |ns| Quantity::Latency.tick(ns));
    Some((above, below.and_then(|y| latency_plots(&Frame { blocks, looks, x: &x, y: &y }))))
}

/// The chart reaches at least this share, so that a loss of nothing does not look large.
const MIN_MISSING: f64 = 0.02;

fn missing(row: &CaseSummary) -> Option<Figure> {
    Some(row.one_way()?.delivered_share?.falling(|share| (1.0 - share).clamp(0.0, 1.0)))
}

/// Whether the case's rate is the knee of its sweep; false if every rate of the sweep was delivered.
fn is_knee(knees: &[Knee], row: &CaseSummary) -> bool {
    let rate = row.case.primary().load.rate_per_s();
    knees.iter().any(|knee| {
        knee.not_delivered_per_s.is_some() && knee.delivered_per_s == rate && knee.cases.contains(&row.id)
    })
}

fn missing_plots(knees: &[Knee], frame: &Frame<'_>) -> Option<String> {
    let ring = "<svg class=\"swatch\" width=\"20\" height=\"20\" aria-hidden=\"true\"><circle class=\"knee\" cx=\"10\" \
                cy=\"10\" r=\"9\"/></svg>";
    let is_marked = frame.blocks.rows().any(|row| row.valid && is_knee(knees, row));
    let knee = is_marked.then(|| (ring.to_owned(), "knee: the highest rate delivered whole (99 %)".to_owned()));
    let more: Vec<(String, String)> = knee.into_iter().collect();
    let point = |series: &Series<'_>, row: &CaseSummary| {
        let y = Place::from_zero(missing(row)).filter(|_| row.valid)?;
        let ring = is_knee(knees, row);
        let delivered = Quantity::Rate.with_bounds(row.one_way()?.delivered_per_s?);
        let knee = if ring { "; the knee" } else { "" };
        let missing = quantities::share(missing(row)?.value);
        let words = format!("{}: delivered {delivered}, {missing} missing{knee}", offered_words(series, row));
        Some(Point { x: Place::bare(varied(row)), y, words, label: String::new(), ring })
    };
    frame.plots("Share of the offered messages that was not delivered", &more, |_, series| {
        vec![frame.curve(series, |row| point(series, row))]
    })
}

fn latency_plots(frame: &Frame<'_>) -> Option<String> {
    let curve = |series: &Series<'_>, name: &str, dash, of: fn(&CaseSummary) -> Option<Figure>| {
        let curve = frame.curve(series, |row| {
            let y = Place::of(of(row)).filter(|_| row.valid)?;
            let figure = Quantity::Latency.with_bounds(of(row)?);
            let words = format!("{}: one-way {name} {figure}", offered_words(series, row));
            Some(Point { x: Place::bare(varied(row)), y, words, label: String::new(), ring: false })
        });
        Curve { looks: SeriesStyle { dash, ..curve.looks }, ..curve }
    };
    let more = [(sample("key-plain"), "p50".to_owned()), (sample("key-plain broken"), "p99".to_owned())];
    frame.plots("One-way latency, p50 and p99, by messages offered per second", &more, |_, series| {
        vec![
            curve(series, "p50", 0, |row| row.primary().latency_ns.p50),
            curve(series, "p99", 1, |row| row.primary().latency_ns.p99),
        ]
    })
}

fn offered_words(series: &Series<'_>, row: &CaseSummary) -> String {
    format!("{}, offered {}", series.words.join(" "), Quantity::Rate.text(varied(row)))
}
