use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::EVEN;
use hairpin_model::quantities::{rounded, share, share_figure};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Space messages evenly: pace with a timer that spins at the end (--pacing spin on a CPU of its own), and do not \
             catch up by sending at once what is late. Else the buffers must hold a whole burst.",
        )
    },
    checks: &[(
        EVEN,
        "space the messages evenly",
        "space the messages evenly at the same rate; if as much is lost, the bursts are not the cause",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let how = match (told.value(keys::BURST), told.show_figure(keys::BELOW_HALF, share_figure)) {
        (Some(count), _) => format!("messages came in bursts of {count}, as requested"),
        (None, Some(part)) => {
            format!("{part} of the distances between messages were less than half of what was requested")
        }
        (None, None) => "messages came in bursts".to_owned(),
    };
    Some(format!(
        "{}: {how}, and {} of {} were lost in buffers and queues ({}).{}",
        told.label(),
        told.show(keys::LOST_IN_BUFFERS, rounded)?,
        told.show(keys::SENT, rounded)?,
        told.show(keys::SHARE_OF_SENT, share)?,
        told.others()
    ))
}
