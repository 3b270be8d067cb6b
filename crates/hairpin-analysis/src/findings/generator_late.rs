//! `generator-late`: the open loop sent messages well after they were due.
//!
//! Why: a message is timed from when it was due, so lateness is part of its latency; where it is a great part, the
//! figure tells of the generator (its timer, its CPU) and not of the transport. Rates that were not reached at all are
//! `rate-not-reached`'s. Evidence: lateness against latency, over rounds. Advice: spin, pin apart, lower the rate; or
//! read the service time, which starts at the actual send.

use hairpin_model::figure::Figure;
use hairpin_model::finding::{About, Finding, FindingCard, Severity};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::Detector;
use super::support::{Hits, blank, counter_experiment, evidence, rounds_of};
use crate::{humane, open_loop};

pub(super) struct GeneratorLate;

const CARD: FindingCard = FindingCard {
    code: "generator-late",
    about: About::Run,
    what: "the open loop sent messages well after they were due",
    why: "lateness is part of the latency reported: a great part of it is the generator's and not the transport's",
};

/// From this share of the latency on it is worth a word.
const LEAST: f64 = 0.1;

struct Late {
    lateness: Figure,
    latency: Figure,
    tail: Option<(Figure, Figure)>,
}

impl Detector for GeneratorLate {
    fn card(&self) -> FindingCard {
        CARD
    }

    fn detect(&self, run: &Run) -> Vec<Finding> {
        let hits = Hits::among(run, |case| late(run, case));
        let Some(first) = hits.first() else { return Vec::new() };
        let (late, label) = (&first.with, &first.case.label);
        let mut facts = vec![
            evidence(format!("lateness, mean, {label}"), late.lateness, "ns"),
            evidence(format!("latency, mean, {label}"), late.latency, "ns"),
        ];
        if let Some((lateness, latency)) = late.tail {
            facts.push(evidence(format!("lateness, p99, {label}"), lateness, "ns"));
            facts.push(evidence(format!("latency, p99, {label}"), latency, "ns"));
        }
        let asked = open_loop::asked_per_s(&first.case.case).unwrap_or(0.0);
        vec![Finding {
            cases: hits.ids(),
            summary: format!(
                "{label}: messages left {} late on average, {} of their mean latency of {}.{}",
                humane::duration_figure(&late.lateness),
                humane::share(first.share),
                humane::duration(late.latency.value),
                hits.others()
            ),
            evidence: facts,
            advice:
                "Read the service time for what the transport does after the send. For a punctual generator let it \
                     spin on a CPU of its own (--waiting spin --placement apart), or lower the rate."
                    .to_owned(),
            counter_experiment: Some(counter_experiment(
                "half the rate: a generator that is late for lack of time is then punctual",
                &[&first.case.case],
                "rate",
                &[asked.to_string(), (asked / 2.0).to_string()],
            )),
            share: first.share,
            ..blank(&CARD, Severity::Warning)
        }]
    }
}

fn late(run: &Run, case: &CaseSummary) -> Option<(f64, Late)> {
    let rounds: Vec<_> = rounds_of(run, &case.id).into_iter().map(|(_, measured)| measured).collect();
    if open_loop::share_reached(&case.case, &rounds)? < open_loop::SATURATED_BELOW {
        return None;
    }
    let of = case.lateness_ns?;
    let (lateness, latency) = (of.mean?, case.latency_ns.mean?);
    let tail = of.p99.zip(case.latency_ns.p99);
    let share = if latency.value > 0.0 { (lateness.value / latency.value).clamp(0.0, 1.0) } else { 0.0 };
    let late_tail = tail.is_some_and(|(lateness, latency)| lateness.value >= LEAST * latency.value);
    (share >= LEAST || late_tail).then_some((share, Late { lateness, latency, tail }))
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;

    use super::*;
    use crate::made_up::{MadeUp, at_rate, paced};

    fn found(lateness_ns: u64) -> Vec<Finding> {
        found_with(lateness_ns, 30_000)
    }

    fn found_with(lateness_ns: u64, service_ns: u64) -> Vec<Finding> {
        let mut made_up = MadeUp::new();
        for block in 0..6 {
            let samples = paced(1_000_000, &[(lateness_ns, service_ns); 200]);
            made_up.round(&at_rate(Case::ping_pong("udp"), 1000.0), block, &samples);
        }
        made_up.findings("generator-late")
    }

    #[test]
    fn lateness_that_is_a_quarter_of_the_latency_is_found() {
        let found = found(10_000);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 0.25).abs() < 0.001, "{}", found[0].share);
        let command = &found[0].counter_experiment.as_ref().unwrap().command;
        assert!(command.ends_with("--rate 1000,500"), "{command}");
    }

    #[test]
    fn at_the_threshold_it_begins() {
        // A tenth of the latency.
        assert_eq!(found_with(9_900, 90_100), []);
        assert_eq!(found_with(10_100, 89_900).len(), 1);
    }

    /// The same latency as with 10 us of lateness, made by the answers.
    #[test]
    fn slow_answers_to_punctual_messages_are_none() {
        assert_eq!(found_with(0, 40_000), []);
    }

    #[test]
    fn a_punctual_generator_and_a_closed_loop_are_none() {
        assert_eq!(found(200), []);
        let mut closed = MadeUp::new();
        closed.rounds_of(&Case::ping_pong("udp"), &[30_000; 3]);
        assert_eq!(closed.findings("generator-late"), []);
    }
}
