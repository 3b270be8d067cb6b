//! The sentence about how to wait.

use hairpin_model::answer::CPU_SECONDS_PER_SECOND_SAVED;
use hairpin_model::quantities::{duration, message_rate};
use hairpin_model::{CaseSummary, Waiting};

/// Returns `1 connection: block up to 3 000 messages/s; busy-poll above, if two CPUs are free (saves 62 us a message).`
pub(super) fn how_to_wait(
    sleeping: &CaseSummary,
    spinning: &CaseSummary,
    up_to_per_s: Option<f64>,
) -> Option<String> {
    let connections = match sleeping.case.primary().connections {
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    };
    let sleep = match sleeping.case.ends.waiting {
        Waiting::Block => "block".to_owned(),
        other => format!("wait by {other}"),
    };
    let Some(up_to_per_s) = up_to_per_s else {
        return Some(format!("{connections}: {sleep}; busy-polling is not proved to be faster."));
    };
    let saved = duration(sleeping.p50_ns()? - spinning.p50_ns()?);
    Some(format!(
        "{connections}: {sleep} up to {}; busy-poll above, if two CPUs are free (saves {saved} a message, for at most \
         {CPU_SECONDS_PER_SECOND_SAVED} s of CPU time per second saved).",
        message_rate(up_to_per_s)
    ))
}
