use hairpin_model::finding_keys as keys;
use hairpin_model::quantities::{duration, duration_figure};

use super::nagle_meets_delayed_ack::WITHOUT_NAGLE;
use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Send a request in one write: collect its parts and use write or writev, or MSG_MORE, or TCP_CORK \
             released after the last part. If that is not possible, set TCP_NODELAY, which ends the wait but \
             sends a segment for each write.",
        )
    },
    checks: WITHOUT_NAGLE,
};

fn summary(told: &Told<'_>) -> Option<String> {
    let round_trip = told
        .show(keys::MIN_RTT, duration)
        .map_or_else(String::new, |least| format!(" (TCP measured a round trip of at least {least})"));
    let what = if told.has(keys::OPEN_LOOP) { "messages" } else { "a part of each request at the client" };
    Some(format!(
        "{}: Nagle's algorithm holds {what} for {} until earlier data is acknowledged. The ACK is not delayed; it \
         needs a round trip{round_trip}. {}{}",
        told.label(),
        told.show_figure(keys::HELD_AT, duration_figure)?,
        told.seen()?,
        told.others()
    ))
}
