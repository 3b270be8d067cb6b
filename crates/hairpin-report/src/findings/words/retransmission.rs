use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::WITHOUT_STAGE;
use hairpin_model::quantities::{duration, rounded, share};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Keep more in flight on one connection, so that later packets reveal a loss within a round trip. On \
             paths known to be short, lower the minimum time-out (ip route ... rto_min, TCP_RTO_MIN_US). Where \
             only the newest value counts, use UDP and ignore losses.",
        )
    },
    checks: &[(
        WITHOUT_STAGE,
        "drop nothing",
        "remove what dropped the packets from the link; if the mean stays the same, it is not the cause",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let how = match told.show(keys::BY_FAST, rounded) {
        Some(fast) => format!(
            ": {fast} by fast retransmit, {} at a retransmission time-out, {} more to recover from one; {} tail loss \
             probes",
            told.show(keys::TIME_OUTS, rounded)?,
            told.show(keys::TO_RECOVER, rounded)?,
            told.show(keys::LOSS_PROBES, rounded)?
        ),
        None => String::new(),
    };
    let cost = match told.value(keys::LINK_DROPPED) {
        None => "The run does not show which messages waited for it.".to_owned(),
        Some(0.0) => "The link dropped no packet of a message meanwhile.".to_owned(),
        Some(dropped) => cost(told, dropped)?,
    };
    Some(format!(
        "{}: {} segments were sent again in {} rounds (with warm-up){how}. {cost}{}",
        told.label(),
        told.show(keys::RESENT, rounded)?,
        told.value(keys::ROUNDS)?,
        told.in_all()
    ))
}

fn cost(told: &Told<'_>, dropped: f64) -> Option<String> {
    let hit = match (told.show(keys::HIT_P50, duration), told.show(keys::OTHER_P50, duration)) {
        (Some(hit), Some(other)) => format!(
            "had a median of {hit}, the others {other}; the additional time is {} of the total",
            told.show(keys::ADDED_SHARE, share)?
        ),
        _ => "cannot be compared, as there were no others".to_owned(),
    };
    let tail = told
        .show(keys::SHARE_OF_TAIL, share)
        .map_or_else(String::new, |part| format!(", and {part} of the slowest 1 % were among them"));
    Some(format!(
        "The link dropped {} packets with payload. The {} messages in flight then {hit}{tail}.",
        rounded(dropped),
        told.show(keys::IN_FLIGHT_THEN, rounded)?
    ))
}
