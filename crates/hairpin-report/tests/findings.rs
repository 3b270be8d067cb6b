//! The texts of each finding. `findings.jsonl` has findings of the analysis, with their texts replaced by `stale`,
//! without pairs of cases, and with figures of six digits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use hairpin_model::finding::{About, Severity};
use hairpin_model::{CaseSummary, Evidence, FactValue, Figure, Finding, FindingCard, Key, Run, finding_keys as keys};
use hairpin_report::findings::fill;
use hairpin_report::{html, terminal};
use serde::Deserialize;

use crate::shown::plain;
use crate::support::claims::{page_of, tested};
use crate::support::{links, survey};

#[derive(Deserialize)]
struct FindingLine {
    finding: Finding,
    labels: BTreeMap<String, String>,
    left_out: Option<LeftOut>,
}

/// The rounds that do not count because the link was late.
#[derive(Deserialize)]
struct LeftOut {
    valid: bool,
    reasons: Vec<String>,
}

fn lines() -> Vec<FindingLine> {
    let text = include_str!("findings.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn card(code: &str, about: About) -> FindingCard {
    let code = Box::leak(code.to_owned().into_boxed_str());
    FindingCard { code, about, what: "what the card says", why: "why the card says so" }
}

static MADE: LazyLock<(Run, CaseSummary)> = LazyLock::new(|| {
    let with_link = links::run().cases.into_iter().find(|case| case.path.relay.is_some()).unwrap();
    (survey(1), with_link)
});

fn run_of(line: &FindingLine) -> Run {
    let (mut run, with_link) = MADE.clone();
    let plain = run.cases[0].clone();
    let case = |(id, label): (&String, &String)| {
        let mut case = plain.clone();
        (case.id, case.label) = (id.clone(), label.clone());
        if let Some(LeftOut { valid, reasons }) = &line.left_out {
            case.valid = *valid;
            case.path.relay = with_link.path.relay.clone();
            case.path.relay.as_mut().unwrap().rounds_left_out = reasons.clone();
        }
        case
    };
    run.cases = line.labels.iter().map(case).collect();
    run.findings = vec![line.finding.clone()];
    run
}

/// The finding with its texts. Asserts that no stale text is left.
fn worded(line: &FindingLine) -> Finding {
    let mut run = run_of(line);
    fill(&mut run, &[card(&line.finding.code, line.finding.about)]);
    let finding = run.findings.remove(0);
    assert!(!serde_json::to_string(&finding).unwrap().contains("stale"), "{finding:?}");
    finding
}

fn text(finding: &Finding) -> String {
    let mut lines = vec![finding.summary.clone(), format!("Fix: {}", finding.advice)];
    lines.extend(finding.counter_experiment.as_ref().map(|check| format!("Check: {}", check.change)));
    lines.extend(finding.proved.as_ref().map(|proved| format!("Checked: {}: {}", proved.check, proved.verdict)));
    lines.extend(finding.evidence.iter().map(|piece| format!("- {}", piece.what)));
    lines.join("\n") + "\n"
}

#[test]
fn only_causes_explain_a_share_of_the_latency() {
    let explains = |line: &&FindingLine| {
        let run = run_of(line);
        let texts = [
            terminal::render(&run, &plain(200)).contains(", explains "),
            html::render(&run).contains("</span>explains "),
        ];
        assert_eq!(texts[0], texts[1], "{}", line.finding.code);
        texts[0]
    };
    let about: BTreeSet<About> = lines().iter().filter(explains).map(|line| line.finding.about).collect();
    assert_eq!(about, BTreeSet::from([About::Cause]), "missed deadlines are a share of the periods");
}

#[test]
fn each_finding_has_its_own_texts() {
    let mut by_code: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines() {
        let finding = worded(&line);
        let own = finding.summary.contains("not the cause: what the card says") || !finding.summary.contains("card");
        assert!(own && !finding.advice.is_empty(), "{finding:?}");
        by_code.entry(finding.code.clone()).or_default().push(text(&finding));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/findings/words");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let codes: BTreeSet<String> =
        files.filter(|name| name != "figures.txt").map(|name| name.trim_end_matches(".txt").to_owned()).collect();
    assert_eq!(by_code.keys().cloned().collect::<BTreeSet<_>>(), codes);
    for (code, texts) in by_code {
        insta::assert_snapshot!(code, texts.join("\n"));
    }
}

#[test]
fn each_finding_about_the_run_has_a_title_on_the_pages_of_claims() {
    let of_run = lines().into_iter().filter(|line| line.finding.about == About::Run).map(|line| line.finding.code);
    let codes: BTreeSet<String> = of_run.chain(["congestion-control".to_owned()]).collect();
    assert!(codes.len() > 9, "{codes:?}");
    let mut report = tested();
    report.claims[0].warnings = codes.iter().cloned().collect();
    let page = page_of(&report, "B1", 2000);
    let warnings = page.lines().find_map(|line| line.trim().strip_prefix("Warns:")).unwrap().trim();
    let titles: Vec<&str> = warnings.split("; ").collect();
    let without: Vec<_> =
        codes.iter().zip(&titles).filter(|(code, title)| code.replace('-', " ") == **title).collect();
    assert_eq!((titles.len(), without.len()), (codes.len(), 0), "{without:?}");
}

/// A finding without a text file. Its key and its check have no texts either.
fn unknown() -> FindingLine {
    const OWN: Key = Key { name: "retries-of-a-request", unit: "count" };
    let line = lines().into_iter().find(|line| line.finding.code == "cold-start").unwrap();
    let mut finding = line.finding.clone();
    finding.code = "something-new".to_owned();
    finding.evidence = vec![
        Evidence { case: Some(finding.cases[0].clone()), ..Evidence::new(OWN, Figure::new(3.0, 2.0, 4.0)) },
        Evidence::new(keys::SLOW_ROUNDS, 0.5),
    ];
    finding.counter_experiment.as_mut().unwrap().kind = "fewer-retries".to_owned();
    FindingLine { finding, ..line }
}

#[test]
fn a_finding_without_a_text_file_gets_texts_from_its_card_and_figures() {
    insta::assert_snapshot!("a finding without words", text(&worded(&unknown())));
}

#[test]
fn a_finding_with_a_missing_figure_gets_texts_from_its_card() {
    for mut line in lines() {
        line.finding.proved = None;
        let own = worded(&line).summary;
        line.finding.evidence.clear();
        line.finding.facts = Some(BTreeMap::new());
        line.finding.shares.clear();
        let summary = worded(&line).summary;
        assert!(summary != own, "{summary}");
        assert!(!summary.is_empty() && !worded(&line).advice.is_empty());
    }
}

#[test]
fn a_finding_whose_facts_have_the_wrong_type_still_has_a_summary() {
    for mut line in lines() {
        let facts = line.finding.facts.as_mut().unwrap();
        for fact in facts.values_mut() {
            *fact = match fact {
                FactValue::Number(_) => "?".into(),
                FactValue::Word(_) => (-1e300).into(),
            };
        }
        assert!(!worded(&line).summary.is_empty());
    }
}

#[test]
fn a_finding_of_an_earlier_version_keeps_its_texts() {
    let mut run = survey(1);
    let before = run.findings.clone();
    let cards: Vec<FindingCard> = before.iter().map(|finding| card(&finding.code, finding.about)).collect();
    fill(&mut run, &cards);
    assert_eq!(run.findings, before);
    assert!(run.findings.iter().any(|finding| finding.severity == Severity::Warning));
}
