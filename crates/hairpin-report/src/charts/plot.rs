//! A plot of points with intervals on two scales, with one line per series. The charts of one-way loads use it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hairpin_model::ladder::CaseKind;
use hairpin_model::{CaseSummary, Figure, Run};

use super::axis::{Axis, Tick};
use super::percentiles::swatch;
use super::series::SeriesStyle;
use super::svg::{down, escape, level, mark, percent, text, trimmed, upright};
use crate::one_way::{Blocks, Panel, Series};

const HEIGHT: f64 = 260.0;
/// Width and height of the coordinate system of lines, which is stretched to the plot.
const GRID: f64 = 1000.0;

#[derive(Clone)]
pub(super) struct Scale {
    pub(super) axis: Axis,
    pub(super) title: String,
    pub(super) ticks: Vec<Tick>,
}

#[derive(Clone, Copy)]
pub(super) struct Place {
    value: f64,
    interval: Option<(f64, f64)>,
}

pub(super) struct Point {
    pub(super) x: Place,
    pub(super) y: Place,
    pub(super) words: String,
    pub(super) label: String,
    pub(super) ring: bool,
}

pub(super) struct Curve {
    pub(super) looks: SeriesStyle,
    pub(super) points: Vec<Point>,
}

pub(super) struct Plot<'p> {
    pub(super) described: String,
    pub(super) x: &'p Scale,
    pub(super) y: &'p Scale,
    pub(super) curves: Vec<Curve>,
}

/// The properties that all plots of a chart share. Each panel has one plot.
pub(super) struct Frame<'p> {
    pub(super) blocks: &'p Blocks<'p>,
    pub(super) looks: &'p BTreeMap<String, SeriesStyle>,
    pub(super) x: &'p Scale,
    pub(super) y: &'p Scale,
}

impl Frame<'_> {
    pub(super) fn curve(&self, series: &Series<'_>, point: impl Fn(&CaseSummary) -> Option<Point>) -> Curve {
        let looks = looks_in(self.looks, series);
        Curve { looks, points: series.rows.iter().filter_map(|row| point(row)).collect() }
    }

    /// Draws a plot for each panel that has a curve, side by side, and below them the legend with `more` entries (sample
    /// as markup, and text). `None` without plots.
    pub(super) fn plots(
        &self,
        described: &str,
        more: &[(String, String)],
        curves: impl Fn(&Panel<'_>, &Series<'_>) -> Vec<Curve>,
    ) -> Option<String> {
        let mut html = String::new();
        for panel in &self.blocks.all {
            let curves: Vec<Curve> = panel.series.iter().flat_map(|series| curves(panel, series)).collect();
            if curves.iter().any(|curve| curve.points.len() > 1) {
                let described = format!("{described}, {}", panel.title);
                html += &Plot { described, x: self.x, y: self.y, curves }.figure(&panel.title);
            }
        }
        let legend_html = legend(self.blocks, self.looks, more);
        (!html.is_empty()).then(|| format!("<div class=\"xy-charts\">{html}</div>{legend_html}"))
    }
}

impl Place {
    pub(super) fn bare(value: f64) -> Self {
        Self { value, interval: None }
    }

    /// Returns the figure as a place; `None` if it cannot be drawn on a logarithmic scale.
    pub(super) fn of(figure: Option<Figure>) -> Option<Self> {
        let figure = figure?;
        let value = figure.finite().filter(|value| *value > 0.0)?;
        Some(Self { value, interval: figure.interval() })
    }

    pub(super) fn from_zero(figure: Option<Figure>) -> Option<Self> {
        let figure = figure?;
        Some(Self { value: figure.finite()?, interval: figure.interval() })
    }

    pub(super) fn values(self) -> impl Iterator<Item = f64> {
        let bounds = self.interval.into_iter().flat_map(|(low, high)| [low, high]);
        [self.value].into_iter().chain(bounds)
    }
}

impl Plot<'_> {
    pub(super) fn figure(&self, title: &str) -> String {
        let mut marks = String::new();
        let mut lines = String::new();
        let mut labelled: Vec<(f64, f64)> = Vec::new();
        for curve in &self.curves {
            let classes = curve.looks.classes();
            let corner = |point: &Point| {
                let [x, y] = [self.x.axis.place(point.x.value), 1.0 - self.y.axis.place(point.y.value)];
                format!("{},{}", trimmed(x * GRID), trimmed(y * GRID))
            };
            let corners: Vec<String> = curve.points.iter().map(corner).collect();
            let _ = write!(lines, "<g class=\"{classes}\"><polyline points=\"{}\"/></g>", corners.join(" "));
            let _ = write!(marks, "<g class=\"{classes}\">");
            for point in &curve.points {
                self.point(&mut marks, point, curve.looks);
                self.label(&mut marks, point, &mut labelled);
            }
            marks.push_str("</g>");
        }
        format!(
            "<figure class=\"xy\"><figcaption>{}</figcaption>\
             <div class=\"plot xy\"><span class=\"axis-title y\">{}</span><svg class=\"chart xy\" width=\"100%\" \
             height=\"{HEIGHT}\" role=\"img\" aria-label=\"{}\">{}<svg class=\"curves\" width=\"100%\" \
             height=\"{HEIGHT}\" viewBox=\"0 0 {GRID} {GRID}\" preserveAspectRatio=\"none\">{lines}</svg>{marks}</svg>\
             <span class=\"axis-title x\">{}</span></div></figure>",
            escape(title),
            escape(&self.y.title),
            escape(&self.described),
            self.grid(),
            escape(&self.x.title)
        )
    }

    fn point(&self, html: &mut String, point: &Point, looks: SeriesStyle) {
        let across = |value: f64| percent(self.x.axis.place(value));
        let up = |value: f64| down(self.y.axis.place(value), HEIGHT);
        let (x, y) = (across(point.x.value), up(point.y.value));
        if let Some((low, high)) = point.x.interval {
            let (from, to) = (across(low), across(high));
            let _ = write!(html, "<line class=\"bar-of\" x1=\"{from}\" x2=\"{to}\" y1=\"{y}\" y2=\"{y}\"/>");
        }
        if let Some((low, high)) = point.y.interval {
            let (from, to) = (up(low), up(high));
            let _ = write!(html, "<line class=\"bar-of\" x1=\"{x}\" x2=\"{x}\" y1=\"{from}\" y2=\"{to}\"/>");
        }
        if point.ring {
            let _ = write!(html, "<circle class=\"knee\" cx=\"{x}\" cy=\"{y}\" r=\"9\"/>");
        }
        html.push_str(&mark("mark", looks.colour, [&x, &y], &point.words));
    }

    /// Draws the text next to a point, unless the text would overlap another text.
    fn label(&self, html: &mut String, point: &Point, labelled: &mut Vec<(f64, f64)>) {
        /// Texts overlap if their distances in both directions are below these shares of the plot.
        const MIN_GAP: (f64, f64) = (0.07, 0.07);
        let (x, y) = (self.x.axis.place(point.x.value), self.y.axis.place(point.y.value));
        let touches =
            |(other_x, other_y): &(f64, f64)| (x - other_x).abs() < MIN_GAP.0 && (y - other_y).abs() < MIN_GAP.1;
        if point.label.is_empty() || labelled.iter().any(touches) {
            return;
        }
        labelled.push((x, y));
        let (x, y, label) = (percent(x), down(y, HEIGHT), escape(&point.label));
        let _ = write!(html, "<text class=\"beside\" x=\"{x}\" y=\"{y}\" dx=\"8\" dy=\"-7\">{label}</text>");
    }

    fn grid(&self) -> String {
        let class = |tick: &Tick| if tick.major { "" } else { " minor" };
        let across = |tick: &Tick| {
            let y = down(tick.place, HEIGHT);
            level(&format!("grid{}", class(tick)), &y) + &text("tick y", "-8", &y, &tick.label)
        };
        let upward = |tick: &Tick| {
            let (x, class) = (percent(tick.place), class(tick));
            upright(&format!("grid{class}"), &x, HEIGHT)
                + &text(&format!("tick{class}"), &x, HEIGHT + 18.0, &tick.label)
        };
        self.y.ticks.iter().map(across).chain(self.x.ticks.iter().map(upward)).collect()
    }
}

/// Returns a logarithmic scale with labels only at these values. If labels are too close, every second one is minor.
pub(super) fn measured_scale(values: &[f64], title: &str, label: impl Fn(f64) -> String) -> Option<Scale> {
    const MIN_GAP: f64 = 0.12;
    let axis = Axis::log(values.iter().copied())?;
    let close = values.windows(2).any(|pair| axis.place(pair[1]) - axis.place(pair[0]) < MIN_GAP);
    let tick = |(number, value): (usize, &f64)| Tick {
        value: *value,
        place: axis.place(*value),
        label: label(*value),
        major: !close || number % 2 == 0,
    };
    Some(Scale { axis, title: title.to_owned(), ticks: values.iter().enumerate().map(tick).collect() })
}

pub(super) fn log_scale(
    values: impl Iterator<Item = f64>,
    title: &str,
    most_ticks: usize,
    label: impl Fn(f64) -> String,
) -> Option<Scale> {
    let axis = Axis::log(values)?;
    Some(Scale { axis, title: title.to_owned(), ticks: axis.ticks(most_ticks, label) })
}

/// Returns the style of each series by its words. Styles are numbered in plan order, so all charts use the same ones.
pub(crate) fn looks_of(run: &Run, blocks: &Blocks<'_>) -> BTreeMap<String, SeriesStyle> {
    let mut looks = BTreeMap::new();
    for row in run.cases.iter().filter(|row| CaseKind::of(&row.case) == blocks.kind && row.case.replicate == 0) {
        let next = looks.len();
        looks.entry(blocks.shared.series(row).join(" ")).or_insert_with(|| SeriesStyle::numbered(next));
    }
    looks
}

pub(super) fn looks_in(looks: &BTreeMap<String, SeriesStyle>, series: &Series<'_>) -> SeriesStyle {
    looks.get(&series.words.join(" ")).copied().unwrap_or(SeriesStyle::numbered(0))
}

pub(crate) fn legend(
    blocks: &Blocks<'_>,
    looks: &BTreeMap<String, SeriesStyle>,
    more: &[(String, String)],
) -> String {
    let mut names: Vec<(&String, &SeriesStyle)> = looks.iter().collect();
    names.sort_by_key(|(_, looks)| (looks.dash, looks.colour));
    let is_drawn = |name: &str| {
        let mut all = blocks.all.iter().flat_map(|panel| &panel.series);
        all.any(|series| series.words.join(" ") == name && series.rows.iter().any(|row| row.valid))
    };
    let mut html = String::from("<ul class=\"sequence-legend\">");
    for (name, looks) in names.into_iter().filter(|(name, _)| is_drawn(name)) {
        let _ = write!(html, "<li class=\"{}\">{}{}</li>", looks.classes(), swatch(*looks), escape(name));
    }
    for (sample_html, text) in more {
        let _ = write!(html, "<li>{sample_html}{}</li>", escape(text));
    }
    html.push_str("</ul>");
    html
}
