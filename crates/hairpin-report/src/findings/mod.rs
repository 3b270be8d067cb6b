//! Texts of findings: summary, advice, result of the check, evidence; also the order of findings.
//!
//! [`fill`] writes the texts from the data of the analysis. If the folder `words` has no file for a finding, its
//! texts are made from its card and its figures.

use hairpin_model::finding::About;
use hairpin_model::{Evidence, Finding, FindingCard, Proved, Run, quantities};

mod view;
mod words;

use view::{Cases, View, environment};

/// Writes the texts of a run's findings, replacing saved texts. `cards` has the cards of all findings. Findings saved
/// by earlier versions have no data, and so keep their texts.
pub fn fill(run: &mut Run, cards: &[FindingCard]) {
    let environment = environment();
    let cases: Cases<'_> = run.cases.iter().map(|case| (case.id.as_str(), case)).collect();
    let card = |finding: &Finding| cards.iter().find(|card| card.code == finding.code && finding.facts.is_some());
    let with_texts = |finding: &Finding| match card(finding) {
        Some(card) => write_texts(&View::new(&cases, finding, &environment), card),
        None => finding.clone(),
    };
    run.findings = run.findings.iter().map(with_texts).collect();
}

fn write_texts(view: &View<'_>, card: &FindingCard) -> Finding {
    let finding = view.finding;
    let section = |name: &str| view.render(words::section(card.code, name)?);
    let own = |what: &str, kind: &str| section(&format!("{what} {kind}"));
    let change = |kind: &str| own("check", kind).unwrap_or_else(|| kind.replace('-', " "));
    let done = |kind: &str| {
        own("done", kind).unwrap_or_else(|| change(kind).split([';', ':']).next().unwrap_or_default().to_owned())
    };
    let (mut summary, mut advice) = section("summary").zip(section("advice")).unwrap_or_else(|| fallback(view, card));
    if finding.about == About::Cause && finding.proved.as_ref().is_some_and(|proved| proved.verdict == REFUTED) {
        let label = finding.cases.first().map_or("", |id| view.label_of(id));
        summary = format!("{label}: checked, and not the cause: {}.", card.what);
        advice = "No action needed: another finding may name the cause.".to_owned();
    }
    let mut finding = Finding { summary, advice, ..finding.clone() };
    finding.evidence.iter_mut().for_each(|piece| piece.what = describe(view, piece));
    if let Some(experiment) = &mut finding.counter_experiment {
        experiment.change = change(&experiment.kind);
    }
    if let Some(proved) = &mut finding.proved {
        let on = proved.case.as_ref().map_or_else(String::new, |id| format!(" ({})", view.label_of(id)));
        proved.check = done(&proved.kind) + &on;
    }
    finding
}

/// Describes a figure: `bytes in the queue, by the link's log, up, LABEL`.
fn describe(view: &View<'_>, piece: &Evidence) -> String {
    let of = words::figure(&format!("of {}", piece.of)).unwrap_or(&piece.of);
    let what = match words::figure(&piece.key) {
        Some(place) if place.contains("{}") => place.replace("{}", of),
        words => words.map_or_else(|| piece.key.replace('-', " "), str::to_owned) + &after_comma(of),
    };
    what + &after_comma(piece.case.as_ref().map_or("", |id| view.label_of(id)))
}

fn after_comma(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(", {text}") }
}

const REFUTED: &str = "refuted";

/// Returns the summary and the advice of a finding that has no text file, from its card and its first figures.
fn fallback(view: &View<'_>, card: &FindingCard) -> (String, String) {
    let label = view.finding.cases.first().map_or_else(String::new, |id| format!("{}: ", view.label_of(id)));
    let figures = view.finding.evidence.iter().take(2).map(|piece| {
        evidence_line(&Evidence { what: describe(view, &Evidence { case: None, ..piece.clone() }), ..piece.clone() })
    });
    let figures = figures.collect::<Vec<_>>().join(", ");
    let figures = if figures.is_empty() { figures } else { format!(" ({figures})") };
    let summary = format!("{label}{}{figures}: {}. {}", card.what, card.why, view.others());
    let advice = if view.finding.counter_experiment.is_some() { "Run its check." } else { "See the evidence." };
    (summary.trim_end().to_owned(), advice.to_owned())
}

/// Returns the result of a check: `keep the CPUs awake. Confirmed: saved 54.1 us (52.0-56.3)`, or `use a receive buffer
/// of 4 MiB. Confirmed: losses fell by 61 % of the messages sent`. Savings and their interval have no sign.
pub(crate) fn proof(proved: &Proved) -> String {
    let is_less = proved.effect.value < 0.0;
    let size = if is_less { proved.effect.falling(|effect| 0.0 - effect) } else { proved.effect };
    let effect = match (proved.unit.as_str(), is_less) {
        ("share", true) => format!("losses fell by {} of the messages sent", quantities::share_figure(size)),
        ("share", false) => format!("losses rose by {} of the messages sent", quantities::share_figure(size)),
        ("share-of-periods", true) => format!("misses fell by {} of the periods", quantities::share_figure(size)),
        ("share-of-periods", false) => format!("misses rose by {} of the periods", quantities::share_figure(size)),
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

/// Returns the first sentence of a text. The two dots of a range do not end a sentence.
pub(crate) fn first_sentence(text: &str) -> &str {
    let ends = |end: &usize| !text[..*end].ends_with('.');
    text.match_indices(". ").map(|(end, _)| end).find(ends).map_or(text, |end| &text[..=end])
}

/// Returns what a finding says, as a part of a sentence: its code, if it has no title.
pub(crate) fn title(code: &str) -> String {
    words::section(code, "title").map_or_else(|| code.replace('-', " "), |title| title.trim_end().to_owned())
}

/// Returns two lists of findings: causes and packet events, then findings about the run.
pub(crate) fn by_subject(run: &Run) -> [(&'static str, Vec<&Finding>); 2] {
    let about_run = |finding: &&Finding| finding.about == About::Run;
    let (of_run, causes) = run.findings.iter().partition(about_run);
    [("Findings", causes), ("Run and machine", of_run)]
}

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
