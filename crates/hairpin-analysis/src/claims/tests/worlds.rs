//! Every built-in claim in worlds of supposed figures: it holds where its text is right, is contradicted where all is the
//! other way round, and does not hold where all is alike unless the text says so.

use std::collections::BTreeSet;

use hairpin_model::claim::ClaimKind;
use hairpin_model::judged_claim::{Headline, Verdict};
use hairpin_model::{Claim, JudgedClaim, Row, Rule, Source, TestMethod, Text, Value};

use super::supposed::suppose;

/// The texts of the program; a test of the program fails if one is missing.
const TEXTS: [&str; 5] = [
    include_str!("../../../../../claims/how-fast-can-tcp-be.toml"),
    include_str!("../../../../../claims/tcp-nodelay-and-cork.toml"),
    include_str!("../../../../../claims/tcp-against-udp.toml"),
    include_str!("../../../../../claims/nagle-write-write-read.toml"),
    include_str!("../../../../../claims/is-tcp-really-that-slow.toml"),
];

/// Ratio of the figures of adjacent names of an order.
const APART: f64 = 1.5;
/// How far beyond a bound a figure is that is published as the bound itself. Supposed intervals are narrower.
const BEYOND: f64 = 1.002;
/// Factor by which an absolute figure is wrong in the inverted world.
const FAR: f64 = 10.0;

/// Every claim with the source of its text, as tested on one host and as tested between two hosts.
fn claims() -> Vec<(Source, Claim)> {
    let texts = TEXTS.map(|text| toml::from_str::<Text>(text).expect("a test of the program reads it"));
    let source = |text: &Text| Source { letter: text.letter.clone(), title: text.title.clone(), ..Source::default() };
    let of_text = |text: &Text| text.claims.iter().map(|claim| (source(text), claim.clone())).collect::<Vec<_>>();
    let here: Vec<(Source, Claim)> = texts.iter().flat_map(of_text).collect();
    let there: Vec<(Source, Claim)> =
        here.iter().map(|(source, claim)| (source.clone(), claim.between_hosts())).collect();
    [here, there].concat()
}

fn rule(row: &Row) -> Option<&Rule> {
    match &row.means {
        TestMethod::Test(test) => Some(&test.rule),
        TestMethod::Missing(_) | TestMethod::Skipped(_) => None,
    }
}

/// The rule of a row that decides.
fn deciding(row: &Row) -> Option<&Rule> {
    rule(row).filter(|_| row.shown().is_none())
}

fn has_deciding_rows(claim: &Claim) -> bool {
    claim.rows.iter().any(|row| deciding(row).is_some())
}

fn is_ratio(rule: &Rule) -> bool {
    rule.measure().is_some_and(|of| of.against.is_some())
}

/// Whether the rule relates figures: what it says may be the other way round, or alike.
fn relates(rule: &Rule) -> bool {
    is_ratio(rule) || matches!(rule, Rule::Order { .. } | Rule::Widens { .. } | Rule::Share { .. })
}

/// Whether the text says that two figures are the same.
fn says_alike(row: &Row) -> bool {
    deciding(row).is_some_and(is_ratio) && row.published.value == Value::Number(1.0)
}

/// The published number; the geometric middle of a range.
fn number(row: &Row) -> Option<f64> {
    match row.published.value {
        Value::Number(number) => Some(number),
        Value::Range([from, to]) => Some((from * to).sqrt()),
        Value::Order(_) | Value::Table(_) => None,
    }
}

/// The bound of `at-least` (0) or `at-most` (1).
fn bound(row: &Row, bound: Option<f64>, end: usize) -> f64 {
    let published = match row.published.value {
        Value::Number(number) => Some(number),
        Value::Range(range) => Some(range[end]),
        Value::Order(_) | Value::Table(_) => None,
    };
    bound.or(published).unwrap_or_else(|| panic!("{} has no bound", row.name))
}

/// The figure that the text publishes.
fn as_published(row: &Row, rule: &Rule) -> f64 {
    match rule {
        Rule::Within { .. } | Rule::Range { .. } => number(row).expect("the rule needs it"),
        Rule::AtLeast { bound: given, .. } => {
            let least = bound(row, *given, 0);
            number(row).filter(|number| *number > least).unwrap_or(least * BEYOND)
        }
        Rule::AtMost { bound: given, .. } => {
            let most = bound(row, *given, 1);
            number(row).filter(|number| *number < most).unwrap_or(most / BEYOND)
        }
        Rule::Share { .. } => number(row).filter(|_| row.published.unit == "share").unwrap_or(1.0),
        Rule::States { at_least, .. } => number(row).unwrap_or(at_least * BEYOND).clamp(at_least * BEYOND, 0.999),
        Rule::Order { .. } | Rule::Widens { .. } => APART,
        Rule::Often { .. }
        | Rule::Kept { .. }
        | Rule::Packets { .. }
        | Rule::Pattern { .. }
        | Rule::Fallback { .. } => 1.0,
    }
}

/// The figure in a world where all is the other way round; what is the same there is `far` apart, and an absolute figure
/// is `far` times the published one, or on the worse side of a bound.
fn inverted(row: &Row, rule: &Rule, far: f64) -> f64 {
    match rule {
        _ if says_alike(row) => far,
        Rule::Order { .. } | Rule::Widens { .. } => 1.0 / APART,
        Rule::Share { .. } => -as_published(row, rule),
        rule if is_ratio(rule) => 1.0 / as_published(row, rule),
        Rule::Within { .. } | Rule::Range { .. } => far * as_published(row, rule),
        Rule::AtLeast { bound: given, .. } => bound(row, *given, 0) / FAR,
        Rule::AtMost { bound: given, .. } => bound(row, *given, 1) * FAR,
        _ => 0.0,
    }
}

/// The figure in a world where nothing differs from anything.
fn alike(row: &Row, rule: &Rule) -> f64 {
    match rule {
        Rule::Share { .. } => 0.0,
        rule if relates(rule) => 1.0,
        rule => as_published(row, rule),
    }
}

fn headline(judged: &JudgedClaim) -> Headline {
    judged.headline.unwrap_or_else(|| panic!("{} is judged", judged.id))
}

#[test]
fn where_the_text_is_right_every_claim_holds() {
    let mut headlines = BTreeSet::new();
    for (source, claim) in claims() {
        let judged = suppose(&claim, &source, |row, rule| Some(as_published(row, rule)));
        let found = headline(&judged);
        headlines.insert(found.to_string());
        let expected = match claim.kind {
            ClaimKind::Statement if has_deciding_rows(&claim) => vec![Headline::Holds],
            ClaimKind::Procedure | ClaimKind::Question if has_deciding_rows(&claim) => vec![Headline::Answered],
            _ => vec![Headline::OtherHardware, Headline::NotYet, Headline::NotTestable],
        };
        assert!(expected.contains(&found), "{}: {found}: {:?}", claim.id, judged.rows);
        assert!(
            judged.only_if.is_none() && judged.axes_are_confirmed_or_unclaimed(),
            "{}: {:?}",
            claim.id,
            judged.axes
        );
    }
    let all = ["answered", "holds", "not-testable", "not-yet", "other-hardware"];
    assert_eq!(headlines, all.map(str::to_owned).into());
}

/// Whether no axis has a verdict against the claim.
trait Axes {
    fn axes_are_confirmed_or_unclaimed(&self) -> bool;
}

impl Axes for JudgedClaim {
    fn axes_are_confirmed_or_unclaimed(&self) -> bool {
        let fine = [Verdict::Confirmed, Verdict::NotClaimed, Verdict::NotTested];
        [self.axes.direction, self.axes.size, self.axes.cause].iter().all(|verdict| fine.contains(verdict))
    }
}

#[test]
fn where_all_is_the_other_way_round_every_statement_is_contradicted() {
    for (source, claim) in claims().into_iter().filter(|(_, claim)| has_deciding_rows(claim)) {
        for far in [FAR, 1.0 / FAR] {
            let judged = suppose(&claim, &source, |row, rule| Some(inverted(row, rule, far)));
            let found = headline(&judged);
            assert_eq!(found, Headline::Contradicted, "{} at {far}: {:?}", claim.id, judged.rows);
        }
    }
}

#[test]
fn where_all_is_alike_only_claims_that_say_so_hold() {
    let mut hold = Vec::new();
    for (source, claim) in claims() {
        let relations: Vec<&Row> = claim.rows.iter().filter(|row| deciding(row).is_some_and(relates)).collect();
        if relations.is_empty() {
            continue;
        }
        let judged = suppose(&claim, &source, |row, rule| Some(alike(row, rule)));
        let found = headline(&judged);
        if relations.into_iter().all(says_alike) {
            let expected = if claim.kind == ClaimKind::Statement { Headline::Holds } else { Headline::Answered };
            assert_eq!(found, expected, "{}: {:?}", claim.id, judged.rows);
            hold.push(claim.id);
        } else {
            let expected = [Headline::NoDifference, Headline::Contradicted];
            assert!(expected.contains(&found), "{}: {found}: {:?}", claim.id, judged.rows);
        }
    }
    let here: BTreeSet<&str> = hold.iter().map(String::as_str).collect();
    assert_eq!(here, ["D4", "E1", "E10", "E22", "E24", "E9"].into());
}

/// The verdict on a row alone, if its figure were this.
fn alone((source, claim): &(Source, Claim), row: &Row, value: f64) -> Verdict {
    let only = Claim { rows: vec![row.clone()], ..claim.clone() };
    let judged = suppose(&only, source, |_, _| Some(value));
    judged.rows[0].judgement.verdict.expect("it is judged")
}

#[test]
fn every_deciding_rule_can_be_confirmed_and_refuted() {
    let mut rules = 0;
    for of in claims() {
        for (row, rule) in of.1.rows.iter().filter_map(|row| Some((row, deciding(row)?))) {
            let place = format!("{} {}", of.1.id, row.name);
            assert_eq!(alone(&of, row, as_published(row, rule)), Verdict::Confirmed, "{place}");
            for far in [FAR, 1.0 / FAR] {
                assert_eq!(alone(&of, row, inverted(row, rule, far)), Verdict::Refuted, "{place} at {far}");
            }
            rules += 1;
        }
    }
    assert!(rules > 100, "{rules}");
}

#[test]
fn no_rule_accepts_a_ratio_and_its_inverse_unless_the_text_says_that_two_figures_are_the_same() {
    for of in claims() {
        for row in of.1.rows.iter().filter(|row| deciding(row).is_some_and(relates) && !says_alike(row)) {
            for step in 2..2000 {
                let ratio = 1.001_f64.powi(step);
                let both = [ratio, 1.0 / ratio].map(|ratio| alone(&of, row, ratio));
                let is_share = matches!(deciding(row), Some(Rule::Share { .. }));
                let both =
                    if is_share { [ratio - 1.0, 1.0 - ratio].map(|saved| alone(&of, row, saved)) } else { both };
                assert_ne!(both, [Verdict::Confirmed; 2], "{} {}: {ratio}", of.1.id, row.name);
            }
        }
    }
}
