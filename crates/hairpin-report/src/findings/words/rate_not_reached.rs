use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::LOWER_RATE;
use hairpin_model::held_up::HeldUp;
use hairpin_model::quantities::{byte_rate, rounded};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice,
    checks: &[(LOWER_RATE, "request 80 % of the rate that was reached", "request 80 % of the rate that was reached")],
};

fn summary(told: &Told<'_>) -> Option<String> {
    if let Some(asked) = told.show(keys::LOAD_ASKED, byte_rate) {
        return Some(format!(
            "{}: the load sent {} of the {asked} requested: it is a load at the greatest rate that was possible.{}",
            told.label(),
            told.show(keys::LOAD_SENT, byte_rate)?,
            told.others()
        ));
    }
    let who = match told.word(keys::CAUSE)? {
        "generator" => "the generator sent",
        "receiver" => "all were sent on time, but arrived at",
        "answers" => "all were sent on time, but answers arrived at",
        _ => return None,
    };
    let waited = held_up(told)
        .map_or_else(String::new, |limit| format!(" It had to wait for answers: {}.", limit.cause()));
    let others = match told.finding.cases.len() {
        1 => String::new(),
        cases => format!(" {cases} cases in all did not reach their rate."),
    };
    Some(format!(
        "{}: of {} messages/s requested {who} {} messages/s ({} too few). The figures are not those of the \
         requested rate.{waited}{others}",
        told.label(),
        told.show(keys::ASKED, rounded)?,
        told.show(keys::REACHED, rounded)?,
        told.share()
    ))
}

fn held_up(told: &Told<'_>) -> Option<HeldUp> {
    told.word(keys::HELD_UP)?.parse().ok()
}

fn advice(told: &Told<'_>) -> Option<String> {
    if told.value(keys::LOAD_ASKED).is_some() {
        return always("Request a lower --load-rate, or --load-rate full.");
    }
    let limit = held_up(told)
        .map_or_else(String::new, |limit| format!("Remedy: {}. Otherwise: ", limit.remedy()));
    let faster = match told.word(keys::FASTER_BY) {
        Some("spinning-on-own-cpu") => {
            ", or give each end a CPU of its own and let the sender spin (--placement cross-cpu --pacing spin)"
        }
        Some("spinning") => ", or let the sender spin (--pacing spin)",
        Some("busy-polling") => ", or busy-poll at both ends (--waiting spin)",
        Some("busy-polling-on-own-cpus") => {
            ", or busy-poll at both ends on CPUs of their own (--waiting spin --placement cross-cpu)"
        }
        _ => "",
    };
    Some(format!(
        "{limit}Request at most {} messages/s here{faster}.",
        rounded(told.value(keys::REACHED)? * 0.8)
    ))
}
