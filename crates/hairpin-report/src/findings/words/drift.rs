use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::LONGER;
use hairpin_model::quantities::share;

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Look at the rounds over time in the report before you quote one figure. Look for a cause (CPU \
             frequency, another program, memory, the queue of a link), and measure for longer.",
        )
    },
    checks: &[(
        LONGER,
        "measure for longer",
        "measure for longer: a drift continues, chance variation does not",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let what = if told.has(keys::EMULATED) { "The machine or the link's queue" } else { "The machine" };
    let (when, change) = match told.value(keys::CHANGE_OVER_RUN) {
        Some(change) => ("from its first round to its last", change),
        None => ("within each round", told.value(keys::CHANGE_WITHIN)?),
    };
    Some(format!(
        "{what} changed during the run: {when} {} became {} by {}.{}",
        told.label(),
        if change > 0.0 { "slower" } else { "faster" },
        share(change.abs()),
        told.others()
    ))
}
