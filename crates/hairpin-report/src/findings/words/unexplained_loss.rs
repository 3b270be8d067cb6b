use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::LONGER;
use hairpin_model::quantities::rounded;

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |told| {
        always(if told.has(keys::SEGMENTS_IN_PACKET) {
            "Take the loss from the messages sent and received, and its cause from the counters. Without gso each message is \
             counted."
        } else {
            "Do not use the loss figures of these cases. Please report this with the run folder: a counter is not \
             read, or Hairpin miscounts."
        })
    },
    checks: &[(LONGER, "measure for longer", "measure for longer; a miscount comes back")],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let (label, part, others) = (told.label(), told.share(), told.others());
    let (sent, unexplained) = (told.show(keys::SENT, rounded)?, told.value(keys::UNEXPLAINED)?);
    if let Some(segments) = told.value(keys::SEGMENTS_IN_PACKET) {
        return Some(format!(
            "{label}: of {sent} messages sent, {} are missing without a cause ({part}). With gso a dropped packet is up to \
             {segments} messages and the kernel counts it once, so these may have been in the packets that it dropped.{others}",
            rounded(unexplained.abs())
        ));
    }
    let what = match unexplained {
        0.0 => format!(
            "{} were lost, though {} is reliable",
            told.value(keys::LOST)?,
            told.word(keys::TRANSPORT)?
        ),
        many if many > 0.0 => format!("{many} are missing without a cause"),
        many => format!("{} too many are accounted for", -many),
    };
    Some(format!("{label}: of {sent} messages sent, {what} ({part}).{others}"))
}
