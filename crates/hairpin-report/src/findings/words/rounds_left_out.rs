use hairpin_model::finding_keys as keys;
use hairpin_model::quantities::{counted, duration};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |told| {
        always(match told.word(keys::CAUSE)? {
            "overlapped" => {
                "Measure while no other client does, or have rounds wait longer for their turn (`hairpin serve --limit wait=5min`)."
            }
            _ => "Look at the path of datagrams: `hairpin check` says in which direction they do not come through.",
        })
    },
    checks: &[],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let left_out = told.value(keys::ROUNDS_OUT)?;
    let why = match told.show(keys::SILENT, duration) {
        Some(silent) => {
            format!("no feedback: the sender had heard nothing of the receiver for {silent}, and stopped")
        }
        None => "a round of another client ran at the same time on the server".to_owned(),
    };
    let more = if left_out > 1.0 { format!("; and {} more", left_out - 1.0) } else { String::new() };
    Some(format!(
        "{left_out} of {} left out: round {}: {why}{more}.",
        counted(told.value(keys::ROUNDS)? as u64, "round"),
        told.value(keys::ROUND)?
    ))
}
