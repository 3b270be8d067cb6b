//! Texts of findings: their order, the result of their check, their evidence.

use hairpin_model::finding::{About, Evidence, Finding, Proved};
use hairpin_model::quantities;
use hairpin_model::run::Run;

/// `keep the CPUs awake. Confirmed: saved 54.1 us (52.0-56.3)`. Savings and their interval have no sign. For losses:
/// `use a receive buffer of 4 MiB. Confirmed: losses fell by 61 % of the messages sent`.
pub(crate) fn proof(proved: &Proved) -> String {
    let is_less = proved.effect.value < 0.0;
    let size = if is_less { proved.effect.falling(|effect| 0.0 - effect) } else { proved.effect };
    let effect = match (proved.unit.as_str(), is_less) {
        ("share", true) => format!("losses fell by {} of the messages sent", quantities::share_figure(size)),
        ("share", false) => format!("losses rose by {} of the messages sent", quantities::share_figure(size)),
        (_, true) => format!("saved {}", quantities::duration_figure(size)),
        (_, false) => format!("added {}", quantities::duration_figure(size)),
    };
    let result = match proved.verdict.as_str() {
        "confirmed" => "Confirmed",
        "refuted" => "Not the cause",
        _ => "Within round-to-round noise",
    };
    let check = if proved.check.is_empty() { String::new() } else { format!("{}. ", proved.check) };
    format!("{check}{result}: {effect}")
}

/// The first sentence of a text; the two full stops of a range do not end it.
pub(crate) fn first_sentence(text: &str) -> &str {
    let ends = |end: &usize| !text[..*end].ends_with('.');
    text.match_indices(". ").map(|(end, _)| end).find(ends).map_or(text, |end| &text[..=end])
}

/// The findings: causes and packet events first, then those about the run.
pub(crate) fn by_subject(run: &Run) -> [(&'static str, Vec<&Finding>); 2] {
    let about_run = |finding: &&Finding| finding.about == About::Run;
    let (of_run, causes) = run.findings.iter().partition(about_run);
    [("Findings", causes), ("Run and machine", of_run)]
}

/// One line per piece of evidence.
pub(crate) fn evidence(finding: &Finding) -> Vec<String> {
    let line = |piece: &Evidence| {
        let value = quantities::in_unit(piece.value.value, &piece.unit);
        let range = match (piece.value.low, piece.value.high) {
            (Some(low), Some(high)) => {
                format!(" ({} .. {})", quantities::in_unit(low, &piece.unit), quantities::in_unit(high, &piece.unit))
            }
            _ => String::new(),
        };
        format!("{}: {value}{range}", piece.what)
    };
    finding.evidence.iter().map(line).collect()
}

/// The labels of a finding's cases; the id of a case that is not in the run.
pub(crate) fn case_labels(run: &Run, ids: &[String]) -> Vec<String> {
    ids.iter().map(|id| run.case(id).map_or_else(|| id.clone(), |row| row.label.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_at_its_full_stop_and_not_in_a_range() {
        assert_eq!(
            first_sentence("It saves 12 us (-32 us .. +8 us) here. More."),
            "It saves 12 us (-32 us .. +8 us) here."
        );
        assert_eq!(first_sentence("It takes 1.5 us"), "It takes 1.5 us");
    }
}
