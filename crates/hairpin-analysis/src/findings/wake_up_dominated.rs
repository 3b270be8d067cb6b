//! `wake-up-dominated`: most of a round trip is waking the other end, not carrying the message.
//!
//! Why: an end that blocks lets its CPU halt; each message then pays for an interrupt and for leaving the idle state,
//! at either end. The transport looks slow, and a faster transport would not help. Evidence: the same case where one
//! thing takes that cost away, compared block by block: CPUs kept from idling (`/dev/cpu_dma_latency` held at 0, see
//! Documentation/power/pm_qos_interface.rst of the kernel), ends that spin, or both ends on one CPU.
//! The first is the counter-experiment: if the round trip stays as long with the CPUs kept awake, it was not the waking.
//! Advice: spin, keep CPUs awake, place ends together, or send more with each wake-up.

use hairpin_model::case::{Case, CpuIdle, Placement, Waiting};
use hairpin_model::finding::{Finding, FindingCard, Severity};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Verdict};

use super::Detector;
use super::support::{Change, Hit, Hits, blank, change, counter_experiment, evidence, paired, proved, told};
use crate::humane;

pub(super) struct WakeUpDominated;

const CARD: FindingCard = FindingCard {
    code: "wake-up-dominated",
    what: "most of a round trip is waking the other end's CPU, not carrying the message",
    why: "a faster transport would not help: another way of waiting would",
};

/// From this share of the round trip on it is worth a word.
const LEAST: f64 = 0.25;

/// The same case with the waking taken away in one way.
struct Without<'r> {
    words: &'static str,
    case: &'r CaseSummary,
    change: Change,
}

/// What a case's siblings in the run say.
struct Waking<'r> {
    strongest: Without<'r>,
    others: Vec<Without<'r>>,
    /// The change with the CPUs kept awake, where it was measured.
    awake: Option<Change>,
}

impl Detector for WakeUpDominated {
    fn card(&self) -> FindingCard {
        CARD
    }

    fn detect(&self, run: &Run) -> Vec<Finding> {
        let hits = Hits::among(run, |case| waking(run, case));
        let Some(first) = hits.first() else { return Vec::new() };
        let tried = hits.0.iter().find_map(|hit| Some((hit, hit.with.awake?)));
        let proved = tried.map(|(_, change)| proved(&change));
        let refuted = proved.as_ref().is_some_and(|proved| proved.verdict == "refuted");
        let told =
            tried.map_or_else(String::new, |(hit, change)| told(&hit.case.label, "keeping the CPUs awake", &change));
        let experiment = counter_experiment(
            "the same with the CPUs kept awake: if it takes as long, it was not the waking",
            &hits.cases(),
            "cpu-idle",
            &["deep".to_owned(), "shallow".to_owned()],
        );
        vec![Finding {
            cases: hits.ids(),
            summary: format!("{}{}{told}", summary(first), hits.others()),
            evidence: all_evidence(first),
            advice: "Where latency matters more than CPU time, let the ends spin or poll busily, keep CPUs from deep \
                     idle states (/dev/cpu_dma_latency, cpupower idle-set), or put both ends on one CPU. Else send more \
                     with each wake-up. Changing the transport comes after that."
                .to_owned(),
            counter_experiment: Some(paired(experiment, [first.case.case.clone(), awake(&first.case.case)])),
            proved,
            // What the counter-experiment refuted explains nothing.
            share: if refuted { 0.0 } else { first.share },
            ..blank(&CARD, if refuted { Severity::Note } else { Severity::Warning })
        }]
    }
}

fn summary(first: &Hit<'_, Waking<'_>>) -> String {
    let without = &first.with.strongest;
    let p50 = |case: &CaseSummary| case.latency_ns.p50.map_or(0.0, |p50| p50.value);
    format!(
        "{}: {} of its {} round trip, {}, is waking the other end: {} it takes {}.",
        first.case.label,
        humane::duration_figure(&without.change.saved_ns()),
        humane::duration(p50(first.case)),
        humane::share_figure(&without.change.saved_share()),
        without.words,
        humane::duration(p50(without.case))
    )
}

fn all_evidence(first: &Hit<'_, Waking<'_>>) -> Vec<hairpin_model::finding::Evidence> {
    let label = &first.case.label;
    let mut all = Vec::new();
    all.extend(first.case.latency_ns.p50.map(|p50| evidence(format!("p50, {label}"), p50, "ns")));
    for without in std::iter::once(&first.with.strongest).chain(&first.with.others) {
        all.push(evidence(format!("saved {}, {label}", without.words), without.change.saved_ns(), "ns"));
        all.push(evidence(format!("share saved {}, {label}", without.words), without.change.saved_share(), "share"));
    }
    all
}

/// The counter-experiment's case.
fn awake(case: &Case) -> Case {
    Case { cpu_idle: CpuIdle::Shallow, ..case.clone() }
}

fn waking<'r>(run: &'r Run, case: &'r CaseSummary) -> Option<(f64, Waking<'r>)> {
    let own = &case.case;
    if own.waiting == Waiting::Spin || own.cpu_idle == CpuIdle::Shallow || own.twin != 0 {
        return None;
    }
    let spinning = Case { waiting: Waiting::Spin, ..own.clone() };
    let together = Case { placement: Placement::Together, ..own.clone() };
    let siblings = [
        ("with the CPUs kept awake", awake(own)),
        ("with both ends spinning", spinning),
        ("with both ends on one CPU", together),
    ];
    let changes = siblings.into_iter().filter_map(|(words, sibling)| {
        let other = run.cases.iter().find(|other| other.case == sibling && other.id != case.id)?;
        Some(Without { words, case: other, change: change(run, case, other)? })
    });
    let changes: Vec<Without<'r>> = changes.collect();
    let awake = changes.iter().find(|without| without.case.case.cpu_idle == CpuIdle::Shallow).map(|one| one.change);
    let mut telling = changes
        .into_iter()
        .filter(|without| without.change.verdict == Verdict::Faster && without.change.saved_share().value >= LEAST);
    // In the order above: the most direct first.
    let strongest = telling.next()?;
    let share = strongest.change.saved_share().value.clamp(0.0, 1.0);
    Some((share, Waking { strongest, others: telling.collect(), awake }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::links::over;
    use crate::made_up::{MadeUp, apart};

    fn around(latency: u64) -> Vec<u64> {
        (0..8).map(|k| latency + latency / 200 * (k % 4)).collect()
    }

    fn spinning(case: Case) -> Case {
        Case { waiting: Waiting::Spin, ..case }
    }

    #[test]
    fn the_counter_experiment_proves_it() {
        let mut made_up = MadeUp::new();
        let tcp = apart(Case::ping_pong("tcp"));
        made_up.rounds_of(&tcp, &around(66_000));
        made_up.rounds_of(&awake(&tcp), &around(11_000));
        made_up.rounds_of(&spinning(tcp), &around(8_000));
        let pipe = apart(Case::ping_pong("pipe"));
        made_up.rounds_of(&pipe, &around(54_000));
        made_up.rounds_of(&Case { placement: Placement::Together, ..pipe }, &around(5_400));
        let found = made_up.findings("wake-up-dominated");
        assert_eq!((found.len(), found[0].severity, found[0].cases.len()), (1, Severity::Warning, 2));
        assert!((found[0].share - 0.9).abs() < 0.01, "the pipe's is the greatest: {}", found[0].share);
        for evidence in &found[0].evidence {
            let (value, low, high) =
                (evidence.value.value, evidence.value.low.unwrap(), evidence.value.high.unwrap());
            assert!(low <= value && value <= high, "{evidence:?}");
        }
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!(proved.verdict, "confirmed");
        assert!((proved.effect.value + 55_000.0).abs() < 600.0, "{:?}", proved.effect);
        assert!(found[0].summary.contains("In tcp block apart it is 83 %."), "{}", found[0].summary);
        assert!(found[0].summary.contains("Proved on tcp block apart: keeping the CPUs awake saves 5"));
        assert_eq!(
            found[0].counter_experiment.as_ref().unwrap().command,
            "hairpin round-trip --transport pipe,tcp --waiting block --placement apart --cpu-idle deep,shallow"
        );
        let pair = found[0].counter_experiment.as_ref().unwrap().pair.clone().unwrap();
        assert_eq!(pair.map(|case| case.label()), ["pipe block apart", "pipe block apart CPUs kept awake"]);
    }

    #[test]
    fn a_counter_experiment_that_changes_nothing_refutes_it() {
        let mut made_up = MadeUp::new();
        let tcp = apart(Case::ping_pong("tcp"));
        made_up.rounds_of(&tcp, &around(66_000));
        made_up.rounds_of(&awake(&tcp), &around(65_500));
        made_up.rounds_of(&spinning(tcp), &around(8_000));
        let found = made_up.findings("wake-up-dominated");
        assert_eq!(
            (found[0].severity, found[0].proved.as_ref().unwrap().verdict.as_str()),
            (Severity::Note, "refuted")
        );
    }

    #[test]
    fn a_long_way_is_not_called_waking() {
        let mut made_up = MadeUp::new();
        let tcp = over("delay=23.5ms", apart(Case::ping_pong("tcp")));
        made_up.rounds_of(&tcp, &around(47_100_000));
        made_up.rounds_of(&awake(&tcp), &around(47_020_000));
        made_up.rounds_of(&spinning(tcp), &around(47_010_000));
        // The same transport on the loopback is no sibling.
        made_up.rounds_of(&awake(&apart(Case::ping_pong("tcp"))), &around(11_000));
        assert_eq!(made_up.findings("wake-up-dominated"), []);
    }

    #[test]
    fn a_small_saving_and_a_case_without_siblings_are_none() {
        let mut made_up = MadeUp::new();
        let tcp = apart(Case::ping_pong("tcp"));
        made_up.rounds_of(&tcp, &around(10_000));
        made_up.rounds_of(&spinning(tcp), &around(8_000));
        made_up.rounds_of(&apart(Case::ping_pong("pipe")), &around(54_000));
        assert_eq!(made_up.findings("wake-up-dominated"), []);
    }
}
