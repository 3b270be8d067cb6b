use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::{CODEL, LOAD_BELOW_GOODPUT};
use hairpin_model::quantities::{byte_rate, bytes, duration, duration_figure, share};

use super::{Told, Words, always, part};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Shorten the queue where it is: CoDel or fq_codel at the bottleneck (tc-fq_codel(8); routers call it SQM). Where \
             that is not yours, let the load keep it short: a congestion control with short queues (bbr), or a rate just below \
             that of the bottleneck.",
        )
    },
    checks: &[
        (
            CODEL,
            "use CoDel in the queue",
            "use CoDel in the queues of the link; if the latency stays the same, the queue is not the cause",
        ),
        (
            LOAD_BELOW_GOODPUT,
            "hold the load at 95 % of its goodput",
            "hold the load at 95 % of its goodput; if the latency stays the same, the queue is not the cause",
        ),
    ],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let (size, source) = if told.value(keys::QUEUE_BYTES).is_some() {
        (keys::QUEUE_BYTES, "by the link's log")
    } else {
        (keys::IN_FLIGHT_BYTES, "by what the load's TCP has in flight beyond what the path holds")
    };
    let each = told.finding.evidence.iter().filter(|piece| piece.key == size.name).map(|queue| {
        let way = if queue.of == "down" { "back" } else { "out" };
        let rate = told.finding.figure_of(keys::LEAVING, &queue.of)?.value;
        Some(format!("{} on the way {way} at {}", bytes(queue.value.value), byte_rate(rate)))
    });
    let (delay_ns, added_ns) = (told.value(keys::QUEUE_DELAY)?, told.value(keys::ADDED_P50)?);
    Some(format!(
        "{}: the load fills a queue, and other traffic waits in it. The median latency is {} without the load and {} beside \
         it. In the queue are {}: a delay of {}, {} of what the load adds ({source}).{}",
        told.label(),
        told.show(keys::IDLE_P50, duration)?,
        told.show_figure(keys::LOADED_P50, duration_figure)?,
        each.collect::<Option<Vec<_>>>()?.join(", and "),
        duration(delay_ns),
        share(part(delay_ns, added_ns)),
        told.others()
    ))
}
