use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::LONGER;
use hairpin_model::quantities::share;

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Do not rely on small differences in this run. Stop other programs, and measure again for longer. \
             If the same pair differs again, please report it as a defect of Hairpin.",
        )
    },
    checks: &[(LONGER, "measure for longer", "measure for longer")],
};

fn summary(told: &Told<'_>) -> Option<String> {
    Some(format!(
        "{} was called {} than itself by {} ({} of {} A/A pairs). Either the machine changed between rounds, or \
         this is the 5 % of pairs that differ by chance.",
        told.label(),
        told.word(keys::VERDICT)?,
        share((told.value(keys::AA_RATIO)? - 1.0).abs()),
        told.value(keys::AA_DIFFERENT)?,
        told.value(keys::AA_PAIRS)?
    ))
}
