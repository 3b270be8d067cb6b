//! `cold-start`: the first messages of a connection take much longer than later ones.
//!
//! Why: a program that connects for one question pays the cold price, not the steady one; and where the warm-up was
//! too short, the steady figures are polluted. Evidence: the first message, the median of messages 2 to 11, the
//! median of the last half of the round, each over rounds; and the first tenth of the measured part against its last
//! half. Advice: keep connections open, or read `first_message_ns`; lengthen the warm-up where it leaks.

use hairpin_model::figure::Figure;
use hairpin_model::finding::{Finding, FindingCard, Severity};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, ColdStart};

use super::Detector;
use super::support::{Hits, blank, counter_experiment, evidence, rounds_of};
use crate::humane;
use crate::compare::over_points;
use crate::statistics::interval::median_over;
use crate::statistics::location::median;

pub(super) struct ColdStarts;

const CARD: FindingCard = FindingCard {
    code: "cold-start",
    what: "the first messages of a connection take much longer than later ones",
    why: "a short exchange pays the cold price, and a warm-up that is too short leaves it in the figures",
};

/// The first message this many times the steady state, or messages 2 to 11 `EARLY` times, is worth a word.
const FIRST: f64 = 3.0;
const EARLY: f64 = 1.5;
/// The first tenth of the measured part above the steady state by this: the warm-up was too short.
const LEAK: f64 = 1.25;

struct Cold {
    first: Figure,
    early: Figure,
    steady: Figure,
    leak: f64,
}

impl Detector for ColdStarts {
    fn card(&self) -> FindingCard {
        CARD
    }

    fn detect(&self, run: &Run) -> Vec<Finding> {
        let hits = Hits::among(run, |case| cold(run, case));
        let Some(first) = hits.first() else { return Vec::new() };
        let (cold, label) = (&first.with, &first.case.label);
        let leaks: Vec<String> =
            hits.0.iter().filter(|hit| hit.with.leak >= LEAK).map(|hit| hit.case.label.clone()).collect();
        let mut summary = format!(
            "{label}: the first message takes {}, messages 2 to 11 take {}, later ones {}: {} of the time of its first \
             eleven messages is starting cold.{}",
            humane::duration_figure(&cold.first),
            humane::duration(cold.early.value),
            humane::duration(cold.steady.value),
            humane::share(first.share),
            hits.others()
        );
        let mut advice = "Keep connections open where latency matters; for short exchanges read the first-message \
                          figure and not the p50."
            .to_owned();
        if !leaks.is_empty() {
            summary +=
                &format!(" The warm-up was too short for {}: its end is in the figures.", humane::names(&leaks));
            advice += " Lengthen the warm-up (--warmup).";
        }
        let severity = if leaks.is_empty() { Severity::Note } else { Severity::Warning };
        // A thousand, or as many as take a second.
        let many = (1e9 / cold.steady.value.max(1.0)).clamp(10.0, 1000.0).round();
        let longer = vec![((warm_up(run, &first.case.id) * 4) as f64).max(many).to_string()];
        vec![Finding {
            cases: hits.ids(),
            summary,
            evidence: vec![
                evidence(format!("first message, {label}"), cold.first, "ns"),
                evidence(format!("messages 2 to 11, {label}"), cold.early, "ns"),
                evidence(format!("last half of the round, {label}"), cold.steady, "ns"),
                evidence(format!("first tenth over the last half, {label}"), Figure::bare(cold.leak), "ratio"),
            ],
            advice,
            counter_experiment: Some(counter_experiment(
                "a longer warm-up: the p50 must stay as it is",
                &[&first.case.case],
                "warmup",
                &longer,
            )),
            share: first.share,
            ..blank(&CARD, severity)
        }]
    }
}

fn cold(run: &Run, case: &CaseSummary) -> Option<(f64, Cold)> {
    let rounds = rounds_of(run, &case.id);
    let starts: Vec<_> = rounds.iter().filter_map(|(_, measured)| measured.figures.cold_start).collect();
    let median_of = |part: fn(&ColdStart) -> f64| {
        median_over(&starts.iter().map(part).collect::<Vec<_>>(), over_points(case, run.plan.alpha))
    };
    let first = median_of(|start| start.first_ns)?;
    let early = median_of(|start| start.early_ns)?;
    let steady = median_of(|start| start.steady_ns)?;
    let courses = rounds.iter().map(|(_, measured)| &measured.figures.course_ns).filter(|course| course.len() >= 10);
    let leaks: Vec<f64> = courses.filter_map(|course| Some(course[0] / median(&course[5..])?)).collect();
    let leak = median(&leaks).filter(|leak| leak.is_finite()).unwrap_or(1.0);
    let slow = first.value >= FIRST * steady.value || early.value >= EARLY * steady.value || leak >= LEAK;
    let spent = first.value + 10.0 * early.value;
    let share = if spent > 0.0 { (1.0 - 11.0 * steady.value / spent).clamp(0.0, 1.0) } else { 0.0 };
    slow.then_some((share, Cold { first, early, steady, leak }))
}

/// Messages of warm-up that rounds of the case were ordered to have; 0 where it was a duration.
fn warm_up(run: &Run, id: &str) -> u64 {
    rounds_of(run, id).first().map_or(0, |(round, _)| match round.order.warm_up {
        hairpin_model::round::Extent::Count(count) => count,
        hairpin_model::round::Extent::DurationNs(_) => 0,
    })
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;

    use super::*;
    use crate::made_up::{MadeUp, back_to_back};

    #[test]
    fn a_slow_first_message_is_a_note() {
        let mut made_up = MadeUp::new();
        let warm_up = [[100_000; 1].as_slice(), &[10_000; 19]].concat();
        for block in 0..6 {
            made_up.round(&Case::ping_pong("tcp"), block, &back_to_back(&warm_up, &[10_000; 100]));
        }
        let found = made_up.findings("cold-start");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Note));
        // 100 us + 10 x 10 us, of which 11 x 10 us would be steady.
        assert!((found[0].share - 0.45).abs() < 0.001, "{}", found[0].share);
        assert!(found[0].summary.contains("the first message takes 100 us"), "{}", found[0].summary);
    }

    #[test]
    fn a_warm_up_that_was_too_short_is_a_warning() {
        let mut made_up = MadeUp::new();
        let measured = [[15_000; 10].as_slice(), &[10_000; 90]].concat();
        made_up.round(&Case::ping_pong("tcp"), 0, &back_to_back(&[16_000; 20], &measured));
        let found = made_up.findings("cold-start");
        assert_eq!(found[0].severity, Severity::Warning);
        assert!(
            found[0].summary.contains("The warm-up was too short for tcp block together"),
            "{}",
            found[0].summary
        );
    }

    #[test]
    fn a_steady_connection_is_none() {
        let mut made_up = MadeUp::new();
        made_up.rounds_of(&Case::ping_pong("tcp"), &[10_000; 6]);
        assert_eq!(made_up.findings("cold-start"), []);
    }
}
