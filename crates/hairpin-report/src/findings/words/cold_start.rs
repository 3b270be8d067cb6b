use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::LONGER_WARM_UP;
use hairpin_model::quantities::{duration, duration_figure};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Use a longer warm-up (--warmup), or measure for longer. For programs that connect for a single \
             request, use the figure of the first message instead of the p50.",
        )
    },
    checks: &[(
        LONGER_WARM_UP,
        "use a longer warm-up",
        "use a longer warm-up; the first tenth must then take as long as the rest",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let message = told
        .show_figure(keys::FIRST_MESSAGE, duration_figure)
        .map_or_else(String::new, |first| format!(" The first message of a connection takes {first}."));
    Some(format!(
        "{}: the warm-up was too short. The first tenth of each round takes {} per message, the last \
         half {}.{message}{}",
        told.label(),
        told.show_figure(keys::FIRST_TENTH, duration_figure)?,
        told.show(keys::LAST_HALF, duration)?,
        told.others()
    ))
}
