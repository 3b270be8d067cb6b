use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::OWN_CONNECTION;
use hairpin_model::quantities::{duration, duration_figure, share};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Give messages that must be quick a connection of their own, or use a transport with several streams. Where one \
             connection is all there is: small writes, TCP_NOTSENT_LOWAT, and messages before bulk data.",
        )
    },
    checks: &[(
        OWN_CONNECTION,
        "a connection of its own",
        "give the messages a connection of their own; if the latency stays the same, sharing is not the cause",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let explained_ns = told.value(keys::EXPLAINED)?;
    let why = match told.show(keys::LONGER, duration) {
        Some(longer) => format!("{longer} longer than on a connection of its own"),
        None => format!("{} before they are sent", duration(explained_ns)),
    };
    Some(format!(
        "{}: messages wait for bulk data on the same connection: {why}, {} of the median of {}.{}",
        told.label(),
        share(explained_ns / told.value(keys::LOADED_P50)?),
        told.show_figure(keys::LOADED_P50, duration_figure)?,
        told.others()
    ))
}
