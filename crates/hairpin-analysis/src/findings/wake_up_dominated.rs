//! `wake-up-dominated`: most of a round trip is waking the other end, not carrying the message.
//!
//! While an end blocks, its CPU halts; each message then pays for an interrupt and for leaving the idle state, at either
//! end. Evidence: the same case with one change that removes this cost, compared block by block: CPUs kept from idling
//! (`/dev/cpu_dma_latency` held at 0, see Documentation/power/pm_qos_interface.rst of the kernel), ends that spin, or both
//! ends on one CPU. Only the first two are checks. An end that spins is never woken: if that saves nothing, waking is not
//! the cause. With CPUs kept awake a blocked end is still woken, but not from deep idle: if that saves nothing and spinning
//! does, the cause is waking, not deep idle. Both ends on one CPU also share its caches, so this alone proves nothing. The
//! part `wake-up` of the latency budget is further evidence; without any changed case it is the only one, and spinning is
//! the check.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::{BUSY_POLL, KEEP_AWAKE};
use hairpin_model::latency_budget::parts::WAKE_UP;
use hairpin_model::summary::Verdict;
use hairpin_model::{
    Case, CaseSummary, CounterExperiment, CpuIdle, EndSettings, Evidence, Finding, FindingCard, Placement, Proved,
    Run, Waiting, finding_keys as keys,
};

use super::support::{
    CONFIRMED, Change, Hit, Hits, REFUTED, add_case, change, counter_experiment, evidence_of, from_budget, in_budget,
    judge_check, kept_awake, paired,
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
struct VariantWithoutWake<'r> {
    /// `awake`, `busy-polling` or `one-cpu`.
    cause: &'static str,
    case: &'r CaseSummary,
    change: Change,
}

struct Waking<'r> {
    strongest: VariantWithoutWake<'r>,
    others: Vec<VariantWithoutWake<'r>>,
    /// The change with the CPUs kept awake, and its verdict, if measured.
    awake: Option<(Change, Proved)>,
    /// The verdict on both ends spinning, if measured.
    spinning: Option<Proved>,
}

impl Waking<'_> {
    /// Returns the result of the checks on waking. If CPUs kept awake have no effect, that only rules out deep idle.
    fn result(&self) -> Option<Proved> {
        match (self.awake.clone().map(|(_, awake)| awake), self.spinning.clone()) {
            (Some(awake), _) if awake.verdict == CONFIRMED => Some(awake),
            (Some(awake), Some(spun)) => Some(if spun.verdict == CONFIRMED { spun } else { awake }),
            (Some(awake), None) => Some(awake).filter(|awake| awake.verdict != REFUTED),
            (None, spun) => spun,
        }
    }

    fn deep_idle_ruled_out(&self) -> Option<Change> {
        self.awake.as_ref().filter(|(_, awake)| awake.verdict == REFUTED).map(|(change, _)| *change)
    }
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let hits = Hits::among(run, |case| find_waking(run, case));
    let Some(first) = hits.first() else { return by_budget(run) };
    // The strongest case with a check of deep idle; without one, the strongest case.
    let tried = hits.0.iter().find(|hit| hit.data.awake.is_some()).unwrap_or(first);
    // A check on the first case is better evidence than one on another case.
    let own = first.data.spinning.clone().filter(|spun| tried.case.id != first.case.id && spun.verdict == CONFIRMED);
    let proved = own.or_else(|| tried.data.result().map(|proved| add_case(tried.case, first.case, proved)));
    // If only deep idle was checked and ruled out, waking is undecided, and the summary says so first.
    let ruled_out = tried.data.deep_idle_ruled_out();
    let is_open = proved.is_none() && ruled_out.is_some();
    let mut evidence = all_evidence(first);
    evidence.extend(ruled_out.map(|change| evidence_of(tried.case, keys::IDLE_SAVED, change.saved_ns())));
    let finding = Finding {
        evidence,
        counter_experiment: Some(experiment(&hits, tried)),
        proved,
        share: if is_open { 0.0 } else { first.share },
        ..hits.finding(&CARD, Severity::Warning)
    };
    let finding = finding.with_if(is_open, keys::UNDECIDED);
    let p50 = first.data.strongest.case.primary().latency_ns.p50;
    vec![
        finding
            .with(keys::CAUSE, first.data.strongest.cause)
            .with(keys::P50_WITHOUT, p50.map_or(0.0, |p50| p50.value))
            .with(keys::ADVICE, advice(ruled_out.is_some(), &first.case.case).join(",").as_str()),
    ]
}

/// Returns the finding of a run without changed cases, by the latency budget of ends that sleep on CPUs of their own.
fn by_budget(run: &Run) -> Vec<Finding> {
    let look = |case: &Case| {
        let EndSettings { waiting, placement, cpu_idle, .. } = case.ends;
        let sleeps = !waiting.spins() && placement.has_own_cpus() && cpu_idle == CpuIdle::Deep;
        let is_tried = |changed: &Case| run.cases.iter().any(|other| other.case == *changed);
        let spinning = spinning(case);
        (sleeps && !is_tried(&spinning) && !is_tried(&kept_awake(case))).then_some((MIN_SHARE, spinning))
    };
    let found = from_budget(run, (&CARD, BUSY_POLL), &[WAKE_UP], look).into_iter().map(|finding| {
        let case = finding.cases.first().and_then(|id| run.case(id));
        let advice = case.map_or_else(Vec::new, |row| advice(false, &row.case)).join(",");
        finding.with(keys::CAUSE, "budget").with(keys::ADVICE, advice.as_str())
    });
    found.collect()
}

fn advice(deep_idle_ruled_out: bool, case: &Case) -> Vec<&'static str> {
    let awake = (!deep_idle_ruled_out).then_some("awake");
    let one_cpu = case.host().is_none().then_some("one-cpu");
    ["busy-polling"].into_iter().chain(awake).chain(one_cpu).collect()
}

/// Returns the next check: whether waking is the cause if deep idle was ruled out, otherwise whether deep idle is.
fn experiment(hits: &Hits<'_, Waking<'_>>, tried: &Hit<'_, Waking<'_>>) -> CounterExperiment {
    let own = &tried.case.case;
    if tried.data.spinning.is_none() && tried.data.deep_idle_ruled_out().is_some() {
        return paired(BUSY_POLL, [own.clone(), spinning(own)]);
    }
    let all = hits.cases().into_iter().cloned().chain([kept_awake(own)]);
    CounterExperiment { pair: Some(Box::new([own.clone(), kept_awake(own)])), ..counter_experiment(KEEP_AWAKE, all) }
}

fn all_evidence(first: &Hit<'_, Waking<'_>>) -> Vec<Evidence> {
    let mut all = Vec::new();
    all.extend(first.case.primary().latency_ns.p50.map(|p50| evidence_of(first.case, keys::P50, p50)));
    for without in std::iter::once(&first.data.strongest).chain(&first.data.others) {
        let saved = [(keys::SAVED, without.change.saved_ns()), (keys::SAVED_SHARE, without.change.saved_share())];
        all.extend(saved.map(|(key, value)| evidence_of(first.case, key, value).of(without.cause)));
    }
    all.extend(in_budget(first.case, &[WAKE_UP], 0.0).into_iter().flat_map(|found| found.evidence));
    all
}

fn spinning(case: &Case) -> Case {
    case.clone().with(|changed| changed.ends.waiting = Waiting::Spin)
}

fn find_waking<'r>(run: &'r Run, case: &'r CaseSummary) -> Option<(f64, Waking<'r>)> {
    let own = &case.case;
    // One-way messages wait for earlier ones and form no round trip. Under load no CPU idles between probe messages.
    if own.primary().load.is_one_way()
        || !own.loads().is_empty()
        || own.ends.waiting.spins()
        || own.ends.cpu_idle == CpuIdle::Shallow
        || own.replicate != 0
    {
        return None;
    }
    let together = own.clone().with(|changed| changed.ends.placement = Placement::SameCpu);
    let siblings = [("awake", kept_awake(own)), ("busy-polling", spinning(own)), ("one-cpu", together)];
    let changes = siblings.into_iter().filter_map(|(cause, sibling)| {
        let other = run.cases.iter().find(|other| other.case == sibling && other.id != case.id)?;
        Some(VariantWithoutWake { cause, case: other, change: change(run, case, other)? })
    });
    let changes: Vec<VariantWithoutWake<'r>> = changes.collect();
    let check = |cause: &str, kind: &str| {
        let change = changes.iter().find(|one| one.cause == cause)?.change;
        Some((change, judge_check(kind, &change)))
    };
    let awake = check("awake", KEEP_AWAKE);
    let spinning = check("busy-polling", BUSY_POLL).map(|(_, proved)| proved);
    let mut telling = changes.into_iter().filter(|without| {
        without.change.verdict == Verdict::Faster && without.change.saved_share().value >= MIN_SHARE
    });
    // In the order of `siblings`: the most direct change first.
    let strongest = telling.next()?;
    let share = strongest.change.saved_share().value.clamp(0.0, 1.0);
    Some((share, Waking { strongest, others: telling.collect(), awake, spinning }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::links::between_hosts;
    use crate::fixture::links::over;
    use crate::fixture::{Fixture, apart, pair, repeated, verdict};

    fn around(latency: u64) -> Vec<u64> {
        (0..8).map(|k| latency + latency / 200 * (k % 4)).collect()
    }

    /// Findings in rounds of each case that take about this time.
    fn found_among(cases: &[(&Case, u64)]) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        cases.iter().for_each(|(case, latency)| fixture.rounds_of(case, &around(*latency)));
        fixture.findings("wake-up-dominated")
    }

    #[test]
    fn one_cpu_for_both_ends_is_advised_on_one_host_only() {
        let here = Case::ping_pong("tcp");
        let lab = between_hosts(here.clone());
        assert_eq!(advice(false, &here), ["busy-polling", "awake", "one-cpu"]);
        assert_eq!(advice(true, &here), ["busy-polling", "one-cpu"]);
        assert_eq!(advice(false, &lab), ["busy-polling", "awake"]);
        assert_eq!(advice(true, &lab), ["busy-polling"]);
    }

    #[test]
    fn a_message_without_an_answer_is_no_round_trip() {
        let tcp = apart(crate::fixture::one_way_losses::messages("tcp"));
        assert_eq!(found_among(&[(&tcp, 66_000), (&spinning(&tcp), 8_000)]), []);
    }

    #[test]
    fn keeping_the_cpus_awake_confirms_the_cause() {
        let [tcp, pipe] = ["tcp", "pipe"].map(|transport| apart(Case::ping_pong(transport)));
        let found = found_among(&[
            (&tcp, 66_000),
            (&kept_awake(&tcp), 11_000),
            (&spinning(&tcp), 8_000),
            (&pipe, 54_000),
            (&Case::ping_pong("pipe"), 5_400),
        ]);
        assert_eq!((found.len(), found[0].severity, found[0].cases.len()), (1, Severity::Warning, 2));
        assert!((found[0].share - 0.9).abs() < 0.01, "the share of the pipe is the maximum: {}", found[0].share);
        for evidence in &found[0].evidence {
            let (low, high) = evidence.value.interval().unwrap();
            assert!((low..=high).contains(&evidence.value.value), "{evidence:?}");
        }
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!(proved.verdict, "confirmed");
        assert!((proved.effect.value + 55_000.0).abs() < 600.0, "{:?}", proved.effect);
        assert_eq!(found[0].cases[1], tcp.id());
        assert!((found[0].shares[1] - 0.83).abs() < 0.005, "{:?}", found[0].shares);
        assert_eq!((proved.kind.as_str(), proved.case.as_ref()), (KEEP_AWAKE, Some(&tcp.id())));
        let labels: Vec<String> = repeated(&found[0]).iter().map(Case::label).collect();
        let expected = ["pipe block cross-cpu", "tcp block cross-cpu", "tcp block cross-cpu CPUs kept awake"];
        assert_eq!(labels, expected, "the command repeats all");
        let labels = pair(&found[0]).map(|case| case.label());
        assert_eq!(labels, expected[1..], "the pair is the strongest that was tried");
    }

    /// Findings on a blocking round trip of 66 us, with these times for CPUs kept awake and for spinning.
    fn found(awake_ns: u64, spinning_ns: Option<u64>) -> Vec<Finding> {
        let tcp = apart(Case::ping_pong("tcp"));
        let (awake, spinning) = (kept_awake(&tcp), spinning(&tcp));
        let together = Case::ping_pong("tcp");
        let mut cases = vec![(&tcp, 66_000), (&awake, awake_ns), (&together, 12_000)];
        cases.extend(spinning_ns.map(|spinning_ns| (&spinning, spinning_ns)));
        found_among(&cases)
    }

    #[test]
    fn if_only_spinning_helps_the_cause_is_waking_and_not_deep_idle() {
        let found = found(65_500, Some(8_000));
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!((proved.kind.as_str(), proved.verdict.as_str()), (BUSY_POLL, "confirmed"));
        assert!((found[0].share - 0.88).abs() < 0.01 && found[0].severity == Severity::Warning, "{:?}", found[0]);
        assert!(found[0].figure(keys::IDLE_SAVED).is_some() && !found[0].has(keys::UNDECIDED), "{found:?}");
        assert_eq!(found[0].word(keys::ADVICE), Some("busy-polling,one-cpu"));
    }

    #[test]
    fn if_neither_helps_waking_is_not_the_cause() {
        let found = found(65_500, Some(64_900));
        assert_eq!((found[0].severity, found[0].share), (Severity::Note, 0.0));
        assert_eq!(verdict(&found[0]), "refuted");
        assert_eq!(found[0].cases, [apart(Case::ping_pong("tcp")).id()]);
    }

    #[test]
    fn if_only_deep_idle_was_checked_spinning_is_the_next_check() {
        let found = found(65_500, None);
        assert_eq!((found[0].severity, found[0].share, found[0].proved.as_ref()), (Severity::Note, 0.0, None));
        assert!(found[0].figure(keys::IDLE_SAVED).is_some() && found[0].has(keys::UNDECIDED), "{found:?}");
        assert_eq!(pair(&found[0]).map(|case| case.ends.waiting), [Waiting::Block, Waiting::Spin]);
    }

    #[test]
    fn a_long_path_is_not_called_waking() {
        let tcp = over("delay=23.5ms", apart(Case::ping_pong("tcp")));
        let siblings = [(&tcp, 47_100_000), (&kept_awake(&tcp), 47_020_000), (&spinning(&tcp), 47_010_000)];
        // The same transport on loopback is no sibling.
        let loopback = (&kept_awake(&apart(Case::ping_pong("tcp"))), 11_000);
        assert_eq!(found_among(&[&siblings[..], &[loopback]].concat()), []);
    }

    #[test]
    fn a_small_saving_and_a_case_without_siblings_are_no_finding() {
        let [tcp, pipe] = ["tcp", "pipe"].map(|transport| apart(Case::ping_pong(transport)));
        assert_eq!(found_among(&[(&tcp, 10_000), (&spinning(&tcp), 8_000), (&pipe, 54_000)]), []);
    }

    #[test]
    fn a_budget_alone_names_the_cause_and_busy_polling_is_its_check() {
        use crate::fixture::trips::trip;
        let tcp = apart(Case::ping_pong("tcp"));
        let found = |case: &Case, wake_ns: i64, spinning_ns: Option<u64>| {
            let mut fixture = Fixture::new();
            let parts = [100, 200, 300, 0, wake_ns, 600, 700, 800, 900, 0, 1_400];
            fixture.budget_of(case, 20_000, &[trip(parts)]);
            spinning_ns.into_iter().for_each(|ns| fixture.rounds_of(&spinning(case), &around(ns)));
            fixture.findings("wake-up-dominated")
        };
        let open = found(&tcp, 15_000, None);
        assert_eq!((open.len(), open[0].word(keys::CAUSE)), (1, Some("budget")));
        assert!((open[0].share - 16_400.0 / 20_000.0).abs() < 1e-3, "{}", open[0].share);
        assert_eq!(pair(&open[0]).map(|case| case.ends.waiting), [Waiting::Block, Waiting::Spin]);
        let checked = found(&tcp, 15_000, Some(5_000));
        assert_eq!((verdict(&checked[0]), checked[0].word(keys::CAUSE)), ("confirmed", Some("busy-polling")));
        assert!(checked[0].figure(keys::SHARE_OF_SAMPLED).is_some(), "the budget is further evidence");
        assert_eq!(found(&tcp, 15_000, Some(19_900)), [], "spinning saves nothing: waking is not the cause");
        assert_eq!(found(&Case::ping_pong("tcp"), 15_000, None), [], "no other CPU is woken");
        assert_eq!(found(&tcp, -300, None), [], "1.1 us of 4.7 us");
    }
}
