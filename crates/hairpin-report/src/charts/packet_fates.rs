//! Dropped packets over time, with a lane per stage and a mark per packet. Overlapping marks are merged.

use std::collections::BTreeMap;

use hairpin_model::{DirectionRecord, DroppedPacket, quantities};

use super::over_time::{Span, look_of_stage};
use crate::page_text::nbsp;

const LANE_HEIGHT: f64 = 30.0;
/// Marks closer than this share of the plot are merged, so that a lane has at most about a hundred marks.
const MIN_GAP: f64 = 0.008;

/// Returns the chart; `None` if the run lists no drops.
pub(crate) fn chart(direction: &DirectionRecord, span: &Span, of: &str) -> Option<String> {
    let mut lanes: BTreeMap<usize, (&str, Vec<&DroppedPacket>)> = BTreeMap::new();
    for drop in &direction.drops {
        let place = direction.stages.iter().position(|stage| stage.stage == drop.stage);
        let place = place.unwrap_or(direction.stages.len());
        lanes.entry(place).or_insert_with(|| (&drop.stage, Vec::new())).1.push(drop);
    }
    if lanes.is_empty() {
        return None;
    }
    let mut frame = span.frame(
        "Dropped packets, one mark per packet (or per group of packets close together)".to_owned(),
        format!("When packets were dropped, by stage, {of}"),
    );
    let count = lanes.len() as f64;
    frame.height = LANE_HEIGHT * count;
    for (number, (stage, drops)) in lanes.into_values().enumerate() {
        let height = 1.0 - (number as f64 + 0.5) / count;
        frame.across.push((height, stage.to_owned()));
        for some in group_overlapping(drops, span) {
            let look = look_of_stage(stage);
            // Hollow marks mean no payload.
            let fill = if some.iter().any(|drop| drop.carries_data) { "d0" } else { "d1" };
            let place = span.place(some[0].dropped_ns);
            frame.mark((look, &format!("s{look} {fill}")), place, height, &in_words(&some));
        }
    }
    Some(frame.finish())
}

fn group_overlapping<'d>(mut drops: Vec<&'d DroppedPacket>, span: &Span) -> Vec<Vec<&'d DroppedPacket>> {
    drops.sort_by_key(|drop| drop.dropped_ns);
    let mut places: Vec<Vec<&DroppedPacket>> = Vec::new();
    for drop in drops {
        match places.last_mut() {
            Some(some) if span.place(drop.dropped_ns) - span.place(some[0].dropped_ns) < MIN_GAP => some.push(drop),
            _ => places.push(vec![drop]),
        }
    }
    places
}

/// Returns `packet 411, 1500 B with payload: arrived at 274 ms, dropped at 1.02 s by loss: random`.
fn in_words(drops: &[&DroppedPacket]) -> String {
    let time = |ns: u64| nbsp(&quantities::duration(ns as f64));
    let payload = |drop: &DroppedPacket| if drop.carries_data { "with payload" } else { "without payload" };
    match drops {
        [] => String::new(),
        [one] => format!(
            "packet {}, {} B {}: arrived at {}, dropped at {} by {}: {}",
            one.number,
            one.size_bytes,
            payload(one),
            time(one.arrived_ns),
            time(one.dropped_ns),
            one.stage,
            one.reason
        ),
        [first, .., last] => {
            let between = |of: fn(&DroppedPacket) -> u64| {
                let all = || drops.iter().map(|drop| of(drop));
                (all().min().unwrap_or(0), all().max().unwrap_or(0))
            };
            let (from, to) = between(|drop| drop.number);
            let sizes = match between(|drop| drop.size_bytes) {
                (least, most) if least == most => format!("{most} B each"),
                (least, most) => format!("{least} to {most} B"),
            };
            let mut reasons: Vec<&str> = drops.iter().map(|drop| drop.reason.as_str()).collect();
            reasons.sort_unstable();
            reasons.dedup();
            format!(
                "{}, numbers {from} to {to}, {sizes}: dropped from {} to {} by {}: {}",
                quantities::counted(drops.len() as u64, "packet"),
                time(first.dropped_ns),
                time(last.dropped_ns),
                first.stage,
                reasons.join(", ")
            )
        }
    }
}
