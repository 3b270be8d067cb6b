use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::QUICK_ACKS;
use hairpin_model::quantities::{duration_figure, share};

use super::nagle_meets_delayed_ack::{late_for_the_client, unknown_delay};
use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "No action is needed while nothing waits for the ACKs. A program that writes in several parts \
             should send them in one write, or set TCP_NODELAY. If you own the server, it can ask for quick \
             ACKs (TCP_QUICKACK, set again after each read).",
        )
    },
    checks: &[(QUICK_ACKS, "use quick ACKs", "use quick ACKs at the server; ACKs must then come at once")],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let waits = match told.value(keys::WAITED)? {
        waited if waited > 0.0 => format!(
            "writes waited for them, {} of the time of all traced exchanges; the trace does not show why",
            share(waited)
        ),
        _ => "nothing waited for them".to_owned(),
    };
    Some(format!(
        "{}: in {} of {} traced exchanges {} delayed an ACK by {}; {waits}.{}{}",
        told.label(),
        told.value(keys::SEEN)?,
        told.value(keys::TRACED)?,
        late_for_the_client(told),
        told.show_figure(keys::ACK_DELAY, duration_figure)?,
        unknown_delay(told),
        told.in_all()
    ))
}
