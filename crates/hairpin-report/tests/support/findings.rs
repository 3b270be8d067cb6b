//! Findings for the fixture runs.

use hairpin_model::finding::{About, Severity};
use hairpin_model::{CaseSummary, CounterExperiment, Evidence, Figure, Finding, Proved, Run};

use super::find;

pub(super) fn evidence(what: &str, value: Figure, unit: &str) -> Evidence {
    Evidence { what: what.to_owned(), value, unit: unit.to_owned(), ..Evidence::default() }
}

pub(super) fn findings(cases: &[CaseSummary]) -> Vec<Finding> {
    let apart =
        ["tcp", "udp", "unix-stream", "pipe"].map(|name| find(cases, &format!("{name} block cross-cpu")).id.clone());
    vec![
        Finding {
            code: "wake-up-dominated".to_owned(),
            about: About::Cause,
            severity: Severity::Warning,
            cases: apart.to_vec(),
            summary:
                "On two CPUs, tcp takes 70.2 us blocking and 8.12 us busy-polling: waking the CPU of the peer is \
                      84 % of the round trip."
                    .to_owned(),
            evidence: vec![
                evidence("p50 of tcp block cross-cpu", Figure::new(70_200.0, 66_100.0, 73_900.0), "ns"),
                evidence("p50 of tcp spin cross-cpu", Figure::new(8120.0, 8010.0, 8260.0), "ns"),
                evidence("part of the round trip that is waking", Figure::new(0.84, 0.82, 0.87), "share"),
            ],
            advice: "Where latency matters, spin on a CPU of its own, keep both ends on one CPU, or hold \
                     /dev/cpu_dma_latency at 0 so that idle CPUs do not sleep deeply."
                .to_owned(),
            counter_experiment: Some(CounterExperiment {
                change: "hold /dev/cpu_dma_latency at 0 during the rounds: the round trip must fall by tens of \
                         microseconds, else waking is not the cause"
                    .to_owned(),
                command:
                    "hairpin round-trip --transport tcp --waiting block --placement cross-cpu --cpu-idle deep,shallow \
                          --rounds 10"
                        .to_owned(),
                ..CounterExperiment::default()
            }),
            proved: Some(Proved {
                check: "keep the CPUs awake".to_owned(),
                verdict: "confirmed".to_owned(),
                effect: Figure::new(-58_800.0, -61_000.0, -56_100.0),
                unit: "ns".to_owned(),
                ..Proved::default()
            }),
            share: 0.84,
            ..Finding::default()
        },
        Finding {
            code: "drift".to_owned(),
            about: About::Run,
            severity: Severity::Note,
            cases: vec![find(cases, "tcp block cross-cpu").id.clone()],
            summary: "The rounds of tcp block cross-cpu grew by 10.9 % from the first to the last.".to_owned(),
            evidence: vec![evidence("last round over first round", Figure::bare(1.109), "ratio")],
            advice: "Compare only cases whose rounds were interleaved in one run.".to_owned(),
            share: 0.11,
            ..Finding::default()
        },
        Finding {
            code: "generator-late".to_owned(),
            about: About::Run,
            severity: Severity::Problem,
            cases: vec![cases.last().expect("the invalid case is last").id.clone()],
            summary: "The generator sent 41 200 of the 50 000 messages/s requested."
                .to_owned(),
            evidence: vec![evidence("messages sent per second", Figure::new(41_200.0, 40_900.0, 41_600.0), "per_s")],
            advice: "Request a lower rate, or spin.".to_owned(),
            ..Finding::default()
        },
    ]
}

/// Adds a finding that other programs disturbed this share of the timed rounds.
pub fn disturb(run: &mut Run, share: f64) {
    run.findings.push(Finding {
        code: "noisy-machine".to_owned(),
        about: About::Run,
        severity: Severity::Warning,
        summary: "Rounds were disturbed: other programs used the CPUs.".to_owned(),
        evidence: vec![evidence("rounds disturbed", Figure::bare(share), "share")],
        advice: "Stop other programs and measure again.".to_owned(),
        ..Finding::default()
    });
}
