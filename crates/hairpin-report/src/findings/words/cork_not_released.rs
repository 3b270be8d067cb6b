use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::RELEASE_CORK;
use hairpin_model::quantities::duration_figure;

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Clear TCP_CORK right after the last write of each request, also on error paths. Or use MSG_MORE \
             for all writes but the last, which needs no release.",
        )
    },
    checks: &[(
        RELEASE_CORK,
        "release the cork",
        "release the cork after the last write; if the time stays the same, the cork is not the cause",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    Some(format!(
        "{}: the program sets TCP_CORK and never clears it, so the kernel holds the last bytes for {} \
         and then sends them. {}{}",
        told.label(),
        told.show_figure(keys::HELD, duration_figure)?,
        told.seen()?,
        told.others()
    ))
}
