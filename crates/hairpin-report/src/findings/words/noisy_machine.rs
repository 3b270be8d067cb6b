use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::LONGER;
use hairpin_model::quantities::share;

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Stop other programs and measure again. On a shared host measure for longer, and rely on \
             comparisons within this run more than on single figures.",
        )
    },
    checks: &[(LONGER, "measure for longer", "measure for longer, on a quiet machine")],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let signs = [
        (keys::BY_STEAL, "by CPU time that the hypervisor gave to others (steal)"),
        (keys::BY_OTHERS, "by other programs"),
        (keys::BY_RUNNABLE, "by more runnable tasks than CPUs"),
        (keys::BY_PREEMPTION, "by preemption of an end"),
    ];
    let signs = signs.into_iter().filter_map(|(key, what)| Some(format!("{} {what}", told.value(key)?)));
    let effect = match told.value(keys::NOISE_RATIO) {
        Some(ratio) => format!(
            " Their p50 is {} {} than that of quiet rounds{}.",
            share((ratio - 1.0).abs()),
            if ratio >= 1.0 { "higher" } else { "lower" },
            if told.has(keys::NOISE_HELPED) { ": CPUs that other programs keep awake answer sooner" } else { "" }
        ),
        None => " Their effect on the figures is unknown.".to_owned(),
    };
    Some(format!(
        "{} of {} rounds were disturbed: {}.{effect}",
        told.value(keys::NOISY_ROUNDS)?,
        told.value(keys::ROUNDS)?,
        signs.collect::<Vec<_>>().join(", ")
    ))
}
