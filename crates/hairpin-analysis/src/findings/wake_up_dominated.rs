//! `wake-up-dominated`: most of a round trip is waking the other end, not carrying the message.
//!
//! Why: while an end blocks, its CPU halts; each message then pays for an interrupt and for leaving the idle state, at
//! either end. The transport looks slow, and a faster transport would not help. Evidence: the same case with one change
//! that removes this cost, compared block by block: CPUs kept from idling (`/dev/cpu_dma_latency` held at 0, see
//! Documentation/power/pm_qos_interface.rst of the kernel), ends that spin, or both ends on one CPU. Only the first two
//! are checks. An end that spins is never woken: if that saves nothing, waking is not the cause. With CPUs kept awake a
//! blocked end is still woken, but not from deep idle: if that saves nothing and spinning does, the cause is waking,
//! not deep idle. Both ends on one CPU also share its caches, which alone proves nothing. Advice: spin, keep CPUs
//! awake, place both ends on one CPU, or send more with each wake-up.

use hairpin_model::case::{Case, CpuIdle, Placement, Waiting};
use hairpin_model::finding::{About, CounterExperiment, Finding, FindingCard, Proved, Severity};
use hairpin_model::quantities;
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Verdict};

use super::support::{
    CONFIRMED, Change, Hit, Hits, REFUTED, change, checked_on, counter_experiment, evidence, paired, proved,
};

pub(super) const CARD: FindingCard = FindingCard {
    code: "wake-up-dominated",
    about: About::Cause,
    what: "most of a round trip is waking the other end's CPU, not carrying the message",
    why: "a faster transport does not help; another way of waiting does",
};

/// Minimum share of the round trip to report.
const MIN_SHARE: f64 = 0.25;

/// The same case with one change that avoids waking.
struct Without<'r> {
    words: &'static str,
    case: &'r CaseSummary,
    change: Change,
}

/// The evidence from the case's siblings in the run.
struct Waking<'r> {
    strongest: Without<'r>,
    others: Vec<Without<'r>>,
    /// The change with the CPUs kept awake, if measured.
    awake: Option<Change>,
    /// The change with both ends spinning, if measured.
    spinning: Option<Change>,
}

impl Waking<'_> {
    fn kept_awake(&self) -> Option<Proved> {
        self.awake.as_ref().map(|change| proved("keep the CPUs awake", change))
    }

    fn spun(&self) -> Option<Proved> {
        self.spinning.as_ref().map(|change| proved("busy-poll at both ends", change))
    }

    /// The result of the checks on waking. CPUs kept awake without effect only rule out deep idle.
    fn proved(&self) -> Option<Proved> {
        match (self.kept_awake(), self.spun()) {
            (Some(awake), _) if awake.verdict == CONFIRMED => Some(awake),
            (Some(awake), Some(spun)) => Some(if spun.verdict == CONFIRMED { spun } else { awake }),
            (Some(awake), None) => Some(awake).filter(|awake| awake.verdict != REFUTED),
            (None, spun) => spun,
        }
    }

    fn deep_idle_is_not_it(&self) -> bool {
        self.kept_awake().is_some_and(|awake| awake.verdict == REFUTED)
    }
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let hits = Hits::among(run, |case| waking(run, case));
    let Some(first) = hits.first() else { return Vec::new() };
    // The strongest case with a check of deep idle, or else the strongest.
    let tried = hits.0.iter().find(|hit| hit.with.awake.is_some()).unwrap_or(first);
    // A check on the named case is better evidence than one on another case.
    let own = first.with.spun().filter(|spun| tried.case.id != first.case.id && spun.verdict == CONFIRMED);
    let proved = own.or_else(|| tried.with.proved().map(|proved| checked_on(tried.case, first.case, proved)));
    // If only deep idle was checked and ruled out, waking is undecided, which the summary then says first.
    let is_open = proved.is_none() && tried.with.deep_idle_is_not_it();
    let seen = format!("{}{}", summary(first), hits.others());
    let summary = match tried.with.awake.filter(|_| tried.with.deep_idle_is_not_it()) {
        Some(change) => {
            let saved = quantities::duration_figure(change.saved_ns());
            let said =
                format!("Keeping the CPUs awake saves {saved} of {}: deep idle is not the cause", tried.case.label);
            if is_open {
                format!("{said}, and waking itself was not checked. {seen}")
            } else {
                format!("{seen} {said}.")
            }
        }
        None => seen,
    };
    vec![Finding {
        summary,
        evidence: all_evidence(first),
        advice: advice(tried.with.deep_idle_is_not_it(), &first.case.case),
        counter_experiment: Some(experiment(&hits, tried)),
        proved,
        share: if is_open { 0.0 } else { first.share },
        ..hits.finding(&CARD, Severity::Warning)
    }]
}

/// The advice without causes that were ruled out and without options that two hosts lack.
fn advice(deep_idle_is_not_it: bool, case: &Case) -> String {
    let idle = (!deep_idle_is_not_it)
        .then_some("keep the CPUs out of deep idle states (/dev/cpu_dma_latency, cpupower idle-set)");
    let together = case.host().is_none().then_some("put both ends on one CPU");
    let ways: Vec<&str> = ["busy-poll at both ends"].into_iter().chain(idle).chain(together).collect();
    let ways = match ways.as_slice() {
        [ways @ .., last] if !ways.is_empty() => format!("{}, or {last}", ways.join(", ")),
        ways => ways.concat(),
    };
    format!(
        "Where latency matters more than CPU time, {ways}. Otherwise send more data per wake-up. Change the transport last."
    )
}

/// The next check: first whether waking is the cause at all, then whether it is deep idle.
fn experiment(hits: &Hits<'_, Waking<'_>>, tried: &Hit<'_, Waking<'_>>) -> CounterExperiment {
    let own = &tried.case.case;
    if tried.with.awake.is_some() && tried.with.spinning.is_none() && tried.with.deep_idle_is_not_it() {
        let words = "busy-poll at both ends; if the time stays the same, waking is not the cause";
        return paired(words, [own.clone(), spinning(own)]);
    }
    let words = "keep the CPUs awake; if the time stays the same, waking from deep idle is not the cause";
    let all = hits.cases().into_iter().cloned().chain([awake(own)]);
    CounterExperiment { pair: Some(Box::new([own.clone(), awake(own)])), ..counter_experiment(words, all) }
}

fn summary(first: &Hit<'_, Waking<'_>>) -> String {
    let without = &first.with.strongest;
    let p50 = |case: &CaseSummary| case.primary().latency_ns.p50.map_or(0.0, |p50| p50.value);
    format!(
        "{}: waking the other end is {} of the {} round trip; {} it takes {}.",
        first.case.label,
        quantities::share_figure(without.change.saved_share()),
        quantities::duration(p50(first.case)),
        without.words,
        quantities::duration(p50(without.case))
    )
}

fn all_evidence(first: &Hit<'_, Waking<'_>>) -> Vec<hairpin_model::finding::Evidence> {
    let label = &first.case.label;
    let mut all = Vec::new();
    all.extend(first.case.primary().latency_ns.p50.map(|p50| evidence(format!("p50, {label}"), p50, "ns")));
    for without in std::iter::once(&first.with.strongest).chain(&first.with.others) {
        all.push(evidence(format!("saved {}, {label}", without.words), without.change.saved_ns(), "ns"));
        all.push(evidence(format!("share saved {}, {label}", without.words), without.change.saved_share(), "share"));
    }
    all
}

fn spinning(case: &Case) -> Case {
    case.clone().with(|changed| changed.ends.waiting = Waiting::Spin)
}

fn awake(case: &Case) -> Case {
    case.clone().with(|changed| changed.ends.cpu_idle = CpuIdle::Shallow)
}

fn waking<'r>(run: &'r Run, case: &'r CaseSummary) -> Option<(f64, Waking<'r>)> {
    let own = &case.case;
    // One-way messages wait for earlier ones and form no round trip. Under load no CPU idles between probe messages.
    if own.primary().load.is_one_way()
        || !own.loads().is_empty()
        || own.ends.waiting == Waiting::Spin
        || own.ends.cpu_idle == CpuIdle::Shallow
        || own.replicate != 0
    {
        return None;
    }
    let together = own.clone().with(|changed| changed.ends.placement = Placement::SameCpu);
    let siblings = [
        ("with the CPUs kept awake", awake(own)),
        ("with both ends busy-polling", spinning(own)),
        ("with both ends on one CPU", together),
    ];
    let changes = siblings.into_iter().filter_map(|(words, sibling)| {
        let other = run.cases.iter().find(|other| other.case == sibling && other.id != case.id)?;
        Some(Without { words, case: other, change: change(run, case, other)? })
    });
    let changes: Vec<Without<'r>> = changes.collect();
    let with = |of: &dyn Fn(&Case) -> bool| changes.iter().find(|one| of(&one.case.case)).map(|one| one.change);
    let awake = with(&|case| case.ends.cpu_idle == CpuIdle::Shallow);
    let spinning = with(&|case| case.ends.waiting == Waiting::Spin);
    let mut telling = changes.into_iter().filter(|without| {
        without.change.verdict == Verdict::Faster && without.change.saved_share().value >= MIN_SHARE
    });
    // Ordered as above: the most direct first.
    let strongest = telling.next()?;
    let share = strongest.change.saved_share().value.clamp(0.0, 1.0);
    Some((share, Waking { strongest, others: telling.collect(), awake, spinning }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::links::between_hosts;
    use crate::fixture::links::over;
    use crate::fixture::{Fixture, apart};

    fn around(latency: u64) -> Vec<u64> {
        (0..8).map(|k| latency + latency / 200 * (k % 4)).collect()
    }

    #[test]
    fn one_cpu_for_both_ends_is_advised_on_one_host_only() {
        let here = Case::ping_pong("tcp");
        let lab = between_hosts(here.clone());
        let idle = "keep the CPUs out of deep idle states (/dev/cpu_dma_latency, cpupower idle-set)";
        let advised = |refuted, case: &Case| {
            let text = advice(refuted, case);
            let (_, rest) = text.split_once("CPU time, ").unwrap();
            rest.split_once(". Otherwise").unwrap().0.to_owned()
        };
        assert_eq!(advised(false, &here), format!("busy-poll at both ends, {idle}, or put both ends on one CPU"));
        assert_eq!(advised(true, &here), "busy-poll at both ends, or put both ends on one CPU");
        assert_eq!(advised(false, &lab), format!("busy-poll at both ends, or {idle}"));
        assert_eq!(advised(true, &lab), "busy-poll at both ends");
    }

    #[test]
    fn a_message_without_an_answer_is_no_round_trip() {
        let mut fixture = Fixture::new();
        let tcp = apart(crate::fixture::one_way_losses::messages("tcp"));
        fixture.rounds_of(&tcp, &around(66_000));
        fixture.rounds_of(&spinning(&tcp), &around(8_000));
        assert_eq!(fixture.findings("wake-up-dominated"), []);
    }

    #[test]
    fn the_counter_experiment_proves_it() {
        let mut fixture = Fixture::new();
        let tcp = apart(Case::ping_pong("tcp"));
        fixture.rounds_of(&tcp, &around(66_000));
        fixture.rounds_of(&awake(&tcp), &around(11_000));
        fixture.rounds_of(&spinning(&tcp), &around(8_000));
        let pipe = apart(Case::ping_pong("pipe"));
        fixture.rounds_of(&pipe, &around(54_000));
        fixture.rounds_of(&pipe.with(|changed| changed.ends.placement = Placement::SameCpu), &around(5_400));
        let found = fixture.findings("wake-up-dominated");
        assert_eq!((found.len(), found[0].severity, found[0].cases.len()), (1, Severity::Warning, 2));
        assert!((found[0].share - 0.9).abs() < 0.01, "the pipe's is the maximum: {}", found[0].share);
        for evidence in &found[0].evidence {
            let (value, low, high) =
                (evidence.value.value, evidence.value.low.unwrap(), evidence.value.high.unwrap());
            assert!(low <= value && value <= high, "{evidence:?}");
        }
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!(proved.verdict, "confirmed");
        assert!((proved.effect.value + 55_000.0).abs() < 600.0, "{:?}", proved.effect);
        assert!(found[0].summary.contains("Also tcp block cross-cpu: 83 %."), "{}", found[0].summary);
        assert_eq!(proved.check, "keep the CPUs awake (tcp block cross-cpu)");
        let all = &found[0].counter_experiment.as_ref().unwrap().repeat.cases;
        let labels: Vec<String> = all.iter().map(Case::label).collect();
        assert_eq!(
            labels,
            ["pipe block cross-cpu", "tcp block cross-cpu", "tcp block cross-cpu CPUs kept awake"],
            "the command repeats all, the pair the strongest that was tried"
        );
        let pair = found[0].counter_experiment.as_ref().unwrap().pair.clone().unwrap();
        assert_eq!(pair.map(|case| case.label()), ["tcp block cross-cpu", "tcp block cross-cpu CPUs kept awake"]);
    }

    /// Findings on a blocking round trip of 66 us, with these times for CPUs kept awake and for spinning.
    fn found(awake_ns: u64, spinning_ns: Option<u64>) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        let tcp = apart(Case::ping_pong("tcp"));
        fixture.rounds_of(&tcp, &around(66_000));
        fixture.rounds_of(&awake(&tcp), &around(awake_ns));
        fixture.rounds_of(&tcp.clone().with(|changed| changed.ends.placement = Placement::SameCpu), &around(12_000));
        if let Some(spinning_ns) = spinning_ns {
            fixture.rounds_of(&spinning(&tcp), &around(spinning_ns));
        }
        fixture.findings("wake-up-dominated")
    }

    #[test]
    fn if_only_spinning_helps_the_cause_is_waking_and_not_deep_idle() {
        let found = found(65_500, Some(8_000));
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!((proved.check.as_str(), proved.verdict.as_str()), ("busy-poll at both ends", "confirmed"));
        assert!((found[0].share - 0.88).abs() < 0.01 && found[0].severity == Severity::Warning, "{:?}", found[0]);
        assert!(found[0].summary.ends_with(": deep idle is not the cause."), "{}", found[0].summary);
    }

    #[test]
    fn if_neither_helps_waking_is_not_the_cause() {
        let found = found(65_500, Some(64_900));
        assert_eq!((found[0].severity, found[0].share), (Severity::Note, 0.0));
        assert_eq!(found[0].proved.as_ref().unwrap().verdict, "refuted");
        assert!(found[0].summary.contains("tcp block cross-cpu: checked, and not the cause"), "{}", found[0].summary);
    }

    #[test]
    fn if_only_deep_idle_was_checked_spinning_is_the_next_check() {
        let found = found(65_500, None);
        assert_eq!((found[0].severity, found[0].share, found[0].proved.as_ref()), (Severity::Note, 0.0, None));
        let first = found[0].summary.split(". ").next().unwrap();
        assert!(first.ends_with("deep idle is not the cause, and waking itself was not checked"), "{first}");
        let pair = found[0].counter_experiment.as_ref().unwrap().pair.clone().unwrap();
        assert_eq!(pair.map(|case| case.ends.waiting), [Waiting::Block, Waiting::Spin]);
    }

    #[test]
    fn a_long_path_is_not_called_waking() {
        let mut fixture = Fixture::new();
        let tcp = over("delay=23.5ms", apart(Case::ping_pong("tcp")));
        fixture.rounds_of(&tcp, &around(47_100_000));
        fixture.rounds_of(&awake(&tcp), &around(47_020_000));
        fixture.rounds_of(&spinning(&tcp), &around(47_010_000));
        // The same transport on loopback is no sibling.
        fixture.rounds_of(&awake(&apart(Case::ping_pong("tcp"))), &around(11_000));
        assert_eq!(fixture.findings("wake-up-dominated"), []);
    }

    #[test]
    fn a_small_saving_and_a_case_without_siblings_are_no_finding() {
        let mut fixture = Fixture::new();
        let tcp = apart(Case::ping_pong("tcp"));
        fixture.rounds_of(&tcp, &around(10_000));
        fixture.rounds_of(&spinning(&tcp), &around(8_000));
        fixture.rounds_of(&apart(Case::ping_pong("pipe")), &around(54_000));
        assert_eq!(fixture.findings("wake-up-dominated"), []);
    }
}
