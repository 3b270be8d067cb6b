use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::NOTSENT_LOWAT;
use hairpin_model::quantities::{byte_rate, bytes, duration, duration_figure, share};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Set TCP_NOTSENT_LOWAT (16 KiB) on the sender, and choose what to write next when the socket asks for more; or give \
             what must be quick a connection of its own.",
        )
    },
    checks: &[(
        NOTSENT_LOWAT,
        "set notsent-lowat",
        "let the socket keep 16 KiB unsent; if the latency stays the same, its send queue is not the cause",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let delay_ns = told.value(keys::BYTES_OVER_RATE)?;
    let explained_ns = delay_ns.min(told.value(keys::ADDED_P50)?);
    Some(format!(
        "{}: each message waits in the sender's own socket, behind {} of bulk data that are not sent yet. At {} that is {}, {} of \
         the median of {}.{}",
        told.label(),
        told.show(keys::UNSENT, bytes)?,
        told.show(keys::LOAD_RECEIVED, byte_rate)?,
        duration(delay_ns),
        share(explained_ns / told.value(keys::LOADED_P50)?),
        told.show_figure(keys::LOADED_P50, duration_figure)?,
        told.others()
    ))
}
