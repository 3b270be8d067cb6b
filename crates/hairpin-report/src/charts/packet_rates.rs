//! Packets per second over time in one direction of a link: packets in, packets out and drops.

use std::fmt::Write as _;

use hairpin_model::{DirectionRecord, quantities};

use super::axis::Axis;
use super::over_time::{Span, legend, look_of_stage};

/// Returns the chart; `None` without packets.
pub(crate) fn chart(direction: &DirectionRecord, span: &Span, of: &str) -> Option<String> {
    let timeline = direction.timeline.as_ref()?;
    let rates = |counts: &[u64]| counts.iter().map(|count| span.per_s(*count)).collect::<Vec<f64>>();
    let (entered, out) = (rates(&timeline.entered), rates(&timeline.out));
    let dropped: Vec<(&str, Vec<f64>)> =
        timeline.dropped.iter().map(|(stage, counts)| (stage.as_str(), rates(counts))).collect();
    let all = entered.iter().chain(&out).chain(dropped.iter().flat_map(|(_, rates)| rates));
    let axis = Axis::from_zero(all.map(|rate| rate * 1.08))?;
    let title = format!("Packets per second, in each {}", span.interval());
    let mut frame = span.frame(title, format!("Packets per second over time, {of}"));
    frame.ticks(axis.ticks(4, |rate| format!("{}/s", quantities::number(rate))));
    let mut shapes = format!("<polygon class=\"surface entered\" points=\"{}\"/>", span.surface(&entered, &axis));
    let mut entries =
        vec![("key-surface entered".to_owned(), "in".to_owned()), ("key-line out".to_owned(), "out".to_owned())];
    for (stage, rates) in &dropped {
        let look = look_of_stage(stage);
        let _ = write!(shapes, "<polyline class=\"line s{look} d1\" points=\"{}\"/>", span.steps(rates, &axis));
        entries.push((format!("key-line broken s{look}"), format!("dropped by {stage}")));
    }
    let _ = write!(shapes, "<polyline class=\"line out\" points=\"{}\"/>", span.steps(&out, &axis));
    frame.stretched = shapes;
    frame.legend = legend(entries);
    Some(frame.finish())
}
