use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::{LOWER_RATE, WITHOUT_STAGE};
use hairpin_model::quantities::{rounded, share};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |told| {
        always(match told.word(keys::STAGE) {
            Some("queue") => {
                "Send below the rate of the link (hairpin offered-load --rate), and spread what is sent: UDP does not slow down, \
                 so the program must limit itself. A longer queue only delays the loss."
            }
            Some("corrupt") => {
                "The path damages packets and the receiver's kernel drops them for their checksum: look for a bad cable or a bad \
                 radio link. Send what matters again, or add redundancy."
            }
            _ => {
                "The path loses these at every rate. Send what matters again (TCP, QUIC), add redundancy (FEC), or let losses be \
                 where only the newest value counts."
            }
        })
    },
    checks: &[
        (
            LOWER_RATE,
            "offer 95 % of the rate that arrived",
            "offer 95 % of the rate that arrived; if as much is lost, the rate is not the cause",
        ),
        (
            WITHOUT_STAGE,
            "remove the stage {stage}",
            "remove the stage {stage} from the link; if as much is lost, it is not the cause",
        ),
    ],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let stage = match told.word(keys::STAGE) {
        Some(stage) => format!(
            ", most of them in its stage {stage} ({} of {} packets)",
            told.show(keys::STAGE_DROPS, rounded)?,
            told.show(keys::ENTERED, rounded)?
        ),
        None => String::new(),
    };
    Some(format!(
        "{}: the link {} lost {} of {} messages ({}){stage}.{}",
        told.label(),
        told.word(keys::LINK)?,
        told.show(keys::LOST_BY_LINK, rounded)?,
        told.show(keys::SENT, rounded)?,
        told.show(keys::SHARE_OF_SENT, share)?,
        told.others()
    ))
}
