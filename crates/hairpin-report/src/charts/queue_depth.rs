//! Queue depth over time in one direction of a link, as the maximum of each interval.

use hairpin_model::{DirectionRecord, quantities};

use super::axis::Axis;
use super::over_time::{Span, legend};
use super::svg::{down, level};

const QUEUE: &str = "queue";

/// Returns the chart; `None` without a queue or if no packet waited in the queue.
pub(crate) fn chart(direction: &DirectionRecord, span: &Span, of: &str) -> Option<String> {
    let timeline = direction.timeline.as_ref()?;
    let (deepest, most_bytes) = deepest(&timeline.queue_bytes_max)?;
    let limit_bytes = limit_bytes(direction);
    // A limit far above the depth would flatten the curve, so only the legend shows it.
    let near = limit_bytes.filter(|limit| most_bytes.saturating_mul(4) >= *limit);
    let (size, unit) = unit(near.unwrap_or(0).max(most_bytes));
    let shown = |bytes: u64| bytes as f64 / size;
    let axis = Axis::from_zero([shown(most_bytes), near.map_or(0.0, shown)].map(|value| value * 1.08))?;
    let values: Vec<f64> = timeline.queue_bytes_max.iter().map(|bytes| shown(*bytes)).collect();
    let title = format!("Queue, {unit}: maximum in each {}, with the packet being sent", span.interval());
    let mut frame = span.frame(title, format!("Depth of the queue over time, {of}"));
    frame.ticks(axis.ticks(4, |value| format!("{}\u{a0}{unit}", quantities::number(value))));
    let (corners, surface) = (span.steps(&values, &axis), span.surface(&values, &axis));
    frame.stretched = format!(
        "<polygon class=\"surface s0\" points=\"{surface}\"/><polyline class=\"line s0\" points=\"{corners}\"/>"
    );
    if let Some(limit) = near {
        frame.marks += &level("limit", &down(axis.place(shown(limit)), frame.height));
    }
    let in_words = |bytes: u64| quantities::bytes(bytes as f64);
    let packets = timeline.queue_packets_max.get(deepest).copied().unwrap_or(0);
    let packets = quantities::counted(packets, "packet");
    let words = format!("maximum at {}: {} in {packets}", span.begins(deepest), in_words(most_bytes));
    frame.mark((0, "s0 d0"), span.middle(deepest), axis.place(shown(most_bytes)), &words);
    let limit = match (limit_bytes, near) {
        (Some(limit), Some(_)) => Some(("key-limit".to_owned(), format!("queue limit {}", in_words(limit)))),
        (Some(limit), None) => {
            Some(("key-none".to_owned(), format!("limit of {}: beyond the scale", in_words(limit))))
        }
        (None, _) => None,
    };
    let depth = ("key-surface s0".to_owned(), format!("depth; {words}"));
    frame.legend = legend([Some(depth), limit].into_iter().flatten());
    Some(frame.finish())
}

/// Returns the text that replaces the chart if [`chart`] returns `None`.
pub(crate) fn without_chart(direction: &DirectionRecord) -> Option<&'static str> {
    let timeline = direction.timeline.as_ref()?;
    let has_queue = direction.stages.iter().any(|stage| stage.stage == QUEUE);
    match deepest(&timeline.queue_bytes_max) {
        Some(_) => None,
        None if has_queue => Some("Nothing waited in the queue."),
        None => Some("No queue: this direction has no rate limit."),
    }
}

/// Returns the index and the bytes of the interval with the maximum depth; `None` if no packet waited.
fn deepest(bytes: &[u64]) -> Option<(usize, u64)> {
    let most = *bytes.iter().max().filter(|most| **most > 0)?;
    Some((bytes.iter().position(|depth| *depth == most)?, most))
}

/// Parses the limit in bytes from the stage's figures: `5.5mbit/s, queue limit 64KiB and 20 packets, tail drop`.
fn limit_bytes(direction: &DirectionRecord) -> Option<u64> {
    let figures = &direction.stages.iter().find(|stage| stage.stage == QUEUE)?.figures;
    // Earlier releases wrote `64KiB may wait`.
    let limits = figures
        .rsplit(", ")
        .find_map(|part| part.strip_prefix("queue limit ").or_else(|| part.strip_suffix(" may wait")))?;
    limits.split(" and ").find_map(|limit| hairpin_model::parse::bytes(limit).ok())
}

pub(super) fn unit(most_bytes: u64) -> (f64, &'static str) {
    const KIB: u64 = 1024;
    match most_bytes {
        0..4096 => (1.0, "B"),
        4096..4_194_304 => (KIB as f64, "KiB"),
        _ => ((KIB * KIB) as f64, "MiB"),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::StageRecord;

    use super::*;

    #[test]
    fn the_limit_is_parsed_from_the_figures_of_the_stage() {
        let limit = |figures: &str| {
            let queue =
                StageRecord { stage: QUEUE.to_owned(), figures: figures.to_owned(), ..StageRecord::default() };
            limit_bytes(&DirectionRecord { stages: vec![queue], ..DirectionRecord::default() })
        };
        assert_eq!(limit("5.5mbit/s, queue limit 64KiB and 20 packets, CoDel 5ms/100ms"), Some(65_536));
        assert_eq!(limit("5.5mbit/s, queue limit 2752KiB, tail drop"), Some(2752 * 1024));
        assert_eq!(limit("5.5mbit/s, 2752KiB may wait, tail drop"), Some(2752 * 1024));
        assert_eq!(limit("replays queue limit 2B, queue limit 1500B, tail drop"), Some(1500));
        assert_eq!(limit("5.5mbit/s, queue limit 1000 packets, tail drop"), None);
        assert_eq!(limit(""), None);
    }
}
