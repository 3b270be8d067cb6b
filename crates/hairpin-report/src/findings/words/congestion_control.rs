use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::{OTHER_CONTROL, OTHER_CONTROL_BY_GOODPUT};
use hairpin_model::quantities::{duration, factor};

use super::{Told, Words};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |told| {
        Some(told.filled(
            "State the congestion control with every bulk figure. On short paths with little loss, try cubic for \
             the connection (TCP_CONGESTION) or the machine (net.ipv4.tcp_congestion_control). Across the \
             internet {pacing} may be the better choice.",
        ))
    },
    checks: &[
        (OTHER_CONTROL, "use {other-control}", CUBIC),
        (OTHER_CONTROL_BY_GOODPUT, "use {other-control}, by the time of 10^9 bytes", CUBIC),
    ],
};

const CUBIC: &str = "use cubic for the same case";

fn summary(told: &Told<'_>) -> Option<String> {
    let (label, pacing, one_way) = (told.label(), told.word(keys::PACING)?, told.has(keys::ONE_WAY));
    let cases = told.finding.cases.len();
    let more = if cases > 1 { format!(" {cases} cases ran with {pacing}.") } else { String::new() };
    let ran = format!("{label} ran with {pacing}, which paces");
    let Some(name) = told.word(keys::OTHER_CONTROL) else {
        let load = if one_way { "at full speed" } else { "with large messages" };
        return Some(format!("{ran}: {load} the figures may show the pacing and not the limit of TCP.{more}"));
    };
    let found = match (told.word(keys::VERDICT)?, one_way) {
        ("cannot-tell", _) => {
            let figure = if one_way { "goodput" } else { "p50" };
            format!("no difference in {figure} was found")
        }
        (verdict, true) => {
            format!("it is {verdict}: {} the goodput", factor(1.0 / told.value(keys::TIME_OVER)?))
        }
        (verdict, false) => format!(
            "it is {verdict} by {} (ratio {:.2})",
            duration(told.value(keys::DIFFERENCE)?.abs()),
            told.value(keys::P50_OVER)?
        ),
    };
    Some(format!("{ran}. With {name} {found}.{more}"))
}
