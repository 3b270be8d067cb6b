use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::LOWER_RATE;
use hairpin_model::quantities::{rounded, share};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Send at the rate of the device: pace in the program (hairpin offered-load --rate), or let the kernel pace \
             (the queue discipline fq and SO_MAX_PACING_RATE). A longer queue (txqueuelen, the limit of the queue discipline) \
             only absorbs bursts. IP_RECVERR makes the kernel report these drops.",
        )
    },
    checks: &[(
        LOWER_RATE,
        "offer 80 % of the rate that arrived",
        "offer 80 % of the rate that arrived; if as much is lost, the rate is not the cause",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let parts = [
        (keys::BY_QDISC, "dropped by the queue discipline of its device"),
        (keys::BY_MEMORY, "refused for lack of memory (ENOBUFS)"),
    ];
    let parts = parts.into_iter().filter_map(|(key, what)| Some(format!("{} {what}", told.show(key, rounded)?)));
    let whose = if told.has(keys::SHARED_COUNTER) {
        " The counter is that of the whole network namespace, so other programs may have a part in it."
    } else {
        ""
    };
    Some(format!(
        "{}: the sender's kernel lost {} of {} messages ({}): {}.{whose}{}",
        told.label(),
        told.show(keys::LOST_AT_SENDER, rounded)?,
        told.show(keys::SENT, rounded)?,
        told.show(keys::SHARE_OF_SENT, share)?,
        parts.collect::<Vec<_>>().join(", "),
        told.others()
    ))
}
