use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::WITHOUT_STAGE;
use hairpin_model::quantities::{duration, rounded, share};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Send below the rate and keep less in flight: pace at 80 % of it, limit send buffers to rate \
             times round trip, or use a congestion control with short queues (bbr). With UDP the program must \
             limit itself. If you own the bottleneck, shorten its queue or use CoDel (queue=, codel=).",
        )
    },
    checks: &[(
        WITHOUT_STAGE,
        "remove the rate",
        "remove rate and queue from the link; if the time stays the same, the queue is not the cause",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let in_queue = told.finding.evidence.iter().find(|piece| piece.key == keys::QUEUE_TIME.name)?;
    let (entered, dropped) = (told.value(keys::QUEUE_ENTERED)?, told.value(keys::QUEUE_DROPPED)?);
    let losses = if dropped == 0.0 {
        "It dropped none.".to_owned()
    } else {
        format!(
            "It dropped {} of {} packets ({}).",
            rounded(dropped),
            rounded(entered),
            share(dropped / entered.max(1.0))
        )
    };
    let of_latency = match (told.show(keys::QUEUE_SHARE, share), told.show(keys::BOTH_QUEUES_SHARE, share)) {
        (Some(part), _) => format!(", {part} of the mean latency"),
        (_, Some(part)) => format!(", {part} of the mean latency with both directions"),
        _ => String::new(),
    };
    Some(format!(
        "{}: the rate of the link is the limit. On the way {} a packet spends {} in the queue \
         ({}){of_latency}. The queue held up to {} packets. {losses}{}",
        told.label(),
        if in_queue.of == "down" { "back" } else { "out" },
        duration(in_queue.value.value),
        told.word(keys::STAGE_FIGURES)?,
        told.show(keys::QUEUE_MAX_PACKETS, rounded)?,
        told.others()
    ))
}
