//! One direction of a link as a row of boxes: the entry, the stages with their figures and drops, and the exit. The
//! boxes are HTML, so that they adapt to the width of the window.

use std::fmt::Write as _;

use hairpin_model::link::Direction;
use hairpin_model::{DirectionRecord, StageRecord, quantities};

use super::svg::escape;
use crate::links;
use crate::page_text::nbsp;

const ENDS: [&str; 2] = ["near end", "far end"];

/// Draws the near end on the left, so upward packets go right, and downward packets go left.
pub(crate) fn chart(direction: Direction, record: &DirectionRecord) -> String {
    let [from, to] = match direction {
        Direction::Up => ENDS,
        Direction::Down => [ENDS[1], ENDS[0]],
    };
    let end =
        |name: &str, count: String| format!("<li class=\"end\"><b>{name}</b><small>{}</small></li>", escape(&count));
    let mut html = format!("<ol class=\"link-path {direction}\" aria-label=\"{from} to {to}\">");
    html.push_str(&end(from, format!("{} in", quantities::counted(record.packets.entered, "packet"))));
    record.stages.iter().for_each(|stage| html.push_str(&stage_html(stage)));
    html.push_str(&end(to, format!("{} out", quantities::count(record.packets.out))));
    html.push_str("</ol>");
    html
}

fn stage_html(stage: &StageRecord) -> String {
    let mut html = format!(
        "<li class=\"stage\"><span class=\"box\"><b>{}</b> <span>{}</span></span>",
        escape(&stage.stage),
        escape(&stage.figures)
    );
    if stage.time_inside_ns > 0 && stage.packets.out > 0 {
        let mean_ns = stage.time_inside_ns as f64 / stage.packets.out as f64;
        let _ = write!(html, "<small>inside for {} (mean)</small>", nbsp(&quantities::duration(mean_ns)));
    }
    if !stage.packets.dropped.is_empty() {
        let _ =
            write!(html, "<small class=\"bad\">dropped: {}</small>", escape(&links::by_name(&stage.packets.dropped)));
    }
    let others = [
        (stage.packets.duplicated, "duplicated"),
        (stage.packets.reordered, "reordered"),
        (stage.packets.corrupted, "corrupted"),
    ];
    for (count, what) in others.iter().filter(|(count, _)| *count > 0) {
        let _ = write!(html, "<small>{what}: {}</small>", quantities::count(*count));
    }
    html.push_str("</li>");
    html
}
