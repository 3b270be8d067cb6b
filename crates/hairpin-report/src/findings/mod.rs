//! Texts of findings: their words, their order, the result of their check, their evidence.
//!
//! [`fill`] words what the analysis found. A finding has words of its own in a file of `words`; one without gets them from
//! its card and its figures.

use hairpin_model::finding::{About, CounterExperiment, Evidence, Finding, FindingCard, Proved};
use hairpin_model::quantities;
use hairpin_model::run::Run;

mod figures;
mod told;
mod words;

use told::Told;

/// Words the findings of a run, whatever texts were saved with it; `cards` are those of all findings. Findings of earlier
/// versions have no data and keep their texts.
pub fn fill(run: &mut Run, cards: &[FindingCard]) {
    let card = |finding: &Finding| cards.iter().find(|card| card.code == finding.code && finding.facts.is_some());
    let worded = |finding: &Finding| match card(finding) {
        Some(card) => worded(&Told { run, finding }, card),
        None => finding.clone(),
    };
    run.findings = run.findings.iter().map(worded).collect();
}

fn worded(told: &Told<'_>, card: &FindingCard) -> Finding {
    let (finding, words) = (told.finding, words::of(card.code));
    let [check, change] = [0, 1].map(|which| {
        move |kind: &str| {
            let texts = words.and_then(|words| words.checks.iter().find(|texts| texts.0 == kind));
            texts.map_or_else(|| kind.replace('-', " "), |texts| told.filled([texts.1, texts.2][which]))
        }
    });
    let is_refuted = finding.proved.as_ref().is_some_and(|proved| proved.verdict == REFUTED);
    let (summary, advice) = if finding.about == About::Cause && is_refuted {
        let summary = format!("{}: checked, and not the cause: {}.", told.label(), card.what);
        (summary, "No action needed: another finding may name the cause.".to_owned())
    } else {
        let own = words.and_then(|words| Some(((words.summary)(told)?, (words.advice)(told)?)));
        own.unwrap_or_else(|| generic(told, card, &change))
    };
    Finding {
        summary,
        advice,
        evidence: finding
            .evidence
            .iter()
            .map(|piece| Evidence { what: figures::what(told, piece), ..piece.clone() })
            .collect(),
        counter_experiment: finding
            .counter_experiment
            .clone()
            .map(|experiment| CounterExperiment { change: change(&experiment.kind), ..experiment }),
        proved: finding.proved.clone().map(|proved| {
            let on = proved.case.as_ref().map_or_else(String::new, |id| format!(" ({})", told.label_of(id)));
            Proved { check: check(&proved.kind) + &on, ..proved }
        }),
        ..finding.clone()
    }
}

const REFUTED: &str = "refuted";

/// The summary and the advice of a finding without words of its own.
fn generic(told: &Told<'_>, card: &FindingCard, change: &dyn Fn(&str) -> String) -> (String, String) {
    let label = told.label();
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let figures: Vec<String> = told
        .finding
        .evidence
        .iter()
        .take(2)
        .map(|piece| {
            let figure =
                Evidence { what: figures::what(told, &Evidence { case: None, ..piece.clone() }), ..piece.clone() };
            evidence_line(&figure)
        })
        .collect();
    let figures = if figures.is_empty() { String::new() } else { format!(" ({})", figures.join(", ")) };
    let summary = format!("{label}{}{figures}: {}.{}", card.what, card.why, told.others());
    let advice = match &told.finding.counter_experiment {
        Some(experiment) => format!("Check it: {}.", change(&experiment.kind)),
        None => "See the evidence.".to_owned(),
    };
    (summary, advice)
}

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
        REFUTED => "Not the cause",
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
    finding.evidence.iter().map(evidence_line).collect()
}

fn evidence_line(piece: &Evidence) -> String {
    let value = quantities::in_unit(piece.value.value, &piece.unit);
    let range = match (piece.value.low, piece.value.high) {
        (Some(low), Some(high)) => {
            format!(" ({} .. {})", quantities::in_unit(low, &piece.unit), quantities::in_unit(high, &piece.unit))
        }
        _ => String::new(),
    };
    format!("{}: {value}{range}", piece.what)
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
