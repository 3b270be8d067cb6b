use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::LOAD_ELSEWHERE;
use hairpin_model::quantities::{duration, duration_figure, share};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Give the ends that must answer soon a CPU of their own (taskset, cpusets, isolated CPUs), or a real-time \
             priority (chrt(1)); let the load run elsewhere, or send more with each call. A faster path does not help.",
        )
    },
    checks: &[(
        LOAD_ELSEWHERE,
        "run the load on another CPU (mean latency)",
        "run the load on another CPU; if the mean latency stays the same, the CPU is not the cause",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let (waits_ns, loaded_ns) = (told.value(keys::LONGER_WAITS)?, told.value(keys::LOADED_MEAN)?);
    let elsewhere = told.value(keys::ELSEWHERE).map_or_else(String::new, |change_ns| {
        format!(" With the load on another CPU the mean is {}.", duration(loaded_ns + change_ns))
    });
    Some(format!(
        "{}: the probe waits for a CPU that the load keeps busy. The mean latency is {} without the load and {} beside it; \
         both ends wait {} longer for a CPU with each message, {} of the mean, and messages that are due meanwhile wait \
         too.{elsewhere}{}",
        told.label(),
        told.show(keys::IDLE_MEAN, duration)?,
        told.show_figure(keys::LOADED_MEAN, duration_figure)?,
        told.show_figure(keys::LONGER_WAITS, duration_figure)?,
        share(waits_ns.min(told.value(keys::ADDED_MEAN)?) / loaded_ns),
        told.others()
    ))
}
