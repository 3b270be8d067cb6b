use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::CPU_EACH;
use hairpin_model::quantities::{duration, rounded, share};

use super::{Told, Words};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |told| {
        let cpu = if told.has(keys::TWO_HOSTS) { "hairpin serve --cpu" } else { "--placement cross-cpu" };
        Some(format!(
            "Check what delays the server: another program on its CPU, steal time of a virtual CPU, paging, or work before \
             it answers. Give it a CPU of its own ({cpu}), and measure again."
        ))
    },
    checks: &[(
        CPU_EACH,
        "give each end a CPU",
        "give each end a CPU: stalls from sharing one disappear, the server's own stay",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let others = told
        .show(keys::TYPICAL_TURNAROUND, duration)
        .map_or_else(String::new, |usual| format!(", against less than {usual} for half of them"));
    Some(format!(
        "{}: the server held {} of {} messages for about {} each (maximum {}){others}. These stalls are {} \
         of all round-trip time.{}",
        told.label(),
        told.show(keys::STALLED, rounded)?,
        told.show(keys::MESSAGES, rounded)?,
        duration(told.value(keys::TIME_IN_STALLS)? / told.value(keys::STALLED)?),
        told.show(keys::LONGEST_TURNAROUND, duration)?,
        told.show(keys::SHARE_OF_ROUND_TRIPS, share)?,
        told.others()
    ))
}
