//! Finds causes and other findings, each with a code, evidence, and a counter-experiment that could refute it.
//!
//! Findings are data: figures and facts with keys of [`hairpin_model::finding_keys`]; the report crate has their texts.
//! Each file holds one [`Detector`] with its explanation and tests. To add a detector, add its file and its name in
//! [`ALL`]. No detector trims samples; a detector that excludes data says so.

use std::cmp::Reverse;

use hairpin_model::finding::{About, Severity};
use hairpin_model::{Case, CounterExperiment, ExchangeState, Finding, Run};

mod support;

pub use support::Detector;
use support::{CANNOT_TELL, CONFIRMED, Detect, REFUTED, needs_one_host};

mod aa_differs;
mod autocorking;
mod bufferbloat;
mod cold_start;
pub(crate) mod congestion_control;
mod cork_not_released;
mod cpu_contention;
pub(crate) mod cpu_quota;
mod datagrams_over_mtu;
mod deadline_misses;
mod delayed_ack;
mod drift;
mod echo_stalled;
mod generator_late;
mod head_of_line_blocking;
mod limited_cpu;
mod link_drops;
mod link_late;
mod link_saturated;
mod machine_states;
mod many_small_segments;
mod nagle_meets_delayed_ack;
mod nagle_waits;
mod noisy_machine;
mod own_send_queue;
mod placement_lottery;
mod rate_not_reached;
mod retransmission;
mod rounds_left_out;
mod run_queue;
mod sender_bursts;
mod server_work;
mod shared_connection;
mod stack_dominated;
mod strays;
mod timer_slack;
mod udp_receive_overrun;
mod udp_send_overrun;
mod unexplained_loss;
mod wake_up_dominated;

macro_rules! detectors {
    ($($look:ident $file:ident $([$($state:ident)*])?,)*) => {
        &[$(Detector { card: $file::CARD, states: &[$($(ExchangeState::$state),*)?], detect: Detect::$look($file::detect) }),*]
    };
}

/// All detectors, each with the states of an exchange that it explains.
pub const ALL: &[Detector] = detectors![
    Run aa_differs, Strongest autocorking[Autocork], ProvedFirst bufferbloat[Queueing], Strongest cold_start,
    ProvedFirst congestion_control[Pacing CongestionWindow], Strongest cork_not_released[Cork],
    ProvedFirst cpu_contention[WaitingForCpu], Strongest cpu_quota[WaitingForCpu], Run datagrams_over_mtu,
    PlannedFirst deadline_misses, Strongest delayed_ack[DelayedAck], Run drift, PlannedFirst echo_stalled[ServerProgram],
    Strongest generator_late, Strongest head_of_line_blocking, Run limited_cpu, Strongest link_drops, Run link_late,
    Strongest link_saturated[Queueing], Run machine_states, Strongest many_small_segments[SendCall],
    Run nagle_meets_delayed_ack[Nagle DelayedAck], Strongest nagle_waits[Nagle], Run noisy_machine,
    Strongest own_send_queue[CongestionWindow], Run placement_lottery, Run rate_not_reached,
    Run retransmission[FastRecovery TailLossProbe RetransmissionTimeout], Run rounds_left_out,
    Run run_queue[WaitingForCpu], Strongest sender_bursts, Run server_work[ServerProgram],
    Strongest shared_connection, Run stack_dominated[SendCall], Run strays, Strongest timer_slack,
    Strongest udp_receive_overrun, Strongest udp_send_overrun, Run unexplained_loss, Run wake_up_dominated[WakeUp],
];

/// Minimum share of the latency; a cause that explains less is a note.
const MIN_CAUSE_SHARE: f64 = 0.01;

/// Returns the findings on `run`, whose rounds, cases and comparisons must be filled in. Causes come first, ordered by
/// share; then traffic; then findings on the run or the machine, most severe first.
pub fn findings(run: &Run) -> Vec<Finding> {
    let found = ALL.iter().flat_map(|detector| detector.detect(run));
    let mut findings: Vec<Finding> =
        found.map(|finding| without_verdict_on_unusable(finding, run)).map(adjust).collect();
    findings.sort_by_key(|finding| rank(finding, run));
    deadline_misses::explain(run, &mut findings);
    if run.cases.iter().any(|row| row.case.host().is_some()) {
        findings.iter_mut().for_each(remove_check_on_one_host);
    }
    findings
}

fn without_verdict_on_unusable(mut finding: Finding, run: &Run) -> Finding {
    let pairs = finding.counter_experiment.iter().flat_map(|check| check.pair.iter().flat_map(|pair| pair.iter()));
    let checked: Vec<String> = pairs.map(Case::id).chain(finding.cases.first().cloned()).collect();
    let unusable = run.cases.iter().any(|case| !case.valid && checked.contains(&case.id));
    if let Some(proved) = finding.proved.as_mut().filter(|proved| unusable && proved.verdict == CONFIRMED) {
        CANNOT_TELL.clone_into(&mut proved.verdict);
    }
    finding
}

/// Adjusts a finding to the result of its counter-experiment and to its share. A refuted cause explains nothing and is
/// reported as refuted; a cause below [`MIN_CAUSE_SHARE`] becomes a note.
fn adjust(finding: Finding) -> Finding {
    if finding.about != About::Cause {
        return finding;
    }
    if finding.proved.as_ref().is_some_and(|proved| proved.verdict == REFUTED) {
        return Finding { severity: Severity::Note, share: 0.0, ..finding };
    }
    if finding.share < MIN_CAUSE_SHARE { Finding { severity: Severity::Note, ..finding } } else { finding }
}

/// Removes, between two hosts, a counter-experiment whose change is possible only on one host.
fn remove_check_on_one_host(finding: &mut Finding) {
    let cannot_run = |experiment: &mut CounterExperiment| experiment.repeat.cases.iter().any(needs_one_host);
    finding.counter_experiment.take_if(cannot_run);
}

type Rank = (bool, About, Reverse<Severity>, Reverse<i64>, Reverse<Severity>, Option<usize>);

/// Returns the sort key of a finding: causes, then traffic, then the run. Causes are ordered by share in whole
/// percents, then by severity; others by severity, then by share; ties by the order of cases in the plan. A CPU quota
/// comes first, because it distorts the shares of the other causes.
fn rank(finding: &Finding, run: &Run) -> Rank {
    // Fits an i64: a share is at most a few hundred percent.
    let percents = (finding.share * 100.0).round() as i64;
    let first_case = run.cases.iter().position(|row| finding.cases.contains(&row.id));
    let severity = if finding.about == About::Cause { Severity::Note } else { finding.severity };
    let is_quota = finding.code == cpu_quota::CARD.code;
    (!is_quota, finding.about, Reverse(severity), Reverse(percents), Reverse(finding.severity), first_case)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use hairpin_model::{Case, FindingCard, Placement};

    use super::*;
    use crate::fixture::links::between_hosts;
    use crate::fixture::{Fixture, back_to_back, repeated, small_writes};

    #[test]
    fn every_file_of_the_folder_is_in_the_list() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/findings");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<String> = names
            .filter(|name| name != "mod.rs" && name != "support")
            .map(|name| name.trim_end_matches(".rs").replace('_', "-"))
            .collect();
        let codes: BTreeSet<String> = ALL.iter().map(|detector| detector.card.code.to_owned()).collect();
        assert_eq!(files, codes);
        assert_eq!(codes.len(), ALL.len(), "two detectors have the same code");
    }

    #[test]
    fn an_empty_run_and_a_quiet_one_have_no_findings() {
        assert_eq!(findings(&Fixture::new().run()), []);
        let latencies = [10_000, 10_010, 9_990, 10_005, 9_995, 10_000];
        let mut quiet = Fixture::of(&[(&Case::ping_pong("tcp"), &latencies)]);
        quiet.failed(&Case::ping_pong("icmp"), 0, "no permission");
        assert_eq!(findings(&quiet.run()), []);
    }

    #[test]
    fn a_counter_experiment_between_two_hosts_needs_no_single_host() {
        let tcp = between_hosts(Case::ping_pong("tcp"));
        let mut finding = findings(&Fixture::alike(3, &tcp, &cold()).run()).remove(0);
        assert_eq!(repeated(&finding), std::slice::from_ref(&tcp), "a longer warm-up");
        let both = [Placement::SameCpu, Placement::CrossCpu];
        let placed = both.map(|placement| tcp.clone().with(|changed| changed.ends.placement = placement));
        finding.counter_experiment = Some(support::counter_experiment("", placed));
        remove_check_on_one_host(&mut finding);
        assert_eq!(finding.counter_experiment, None);
    }

    /// Linux acknowledges the first exchanges of a connection quickly and delays later ones, in every round.
    #[test]
    fn exchanges_that_begin_quickly_are_neither_a_drift_nor_a_cold_start() {
        let latencies = [[600_000; 40].as_slice(), &[44_000_000; 60]].concat();
        let fixture = Fixture::alike(6, &small_writes("default"), &back_to_back(&[600_000], &latencies));
        assert_eq!(findings(&fixture.run()), []);
    }

    fn cold() -> hairpin_model::samples::Samples {
        back_to_back(&[90_000; 20], &[[90_000; 10].as_slice(), &[1000; 90]].concat())
    }

    #[test]
    fn causes_come_first_and_findings_on_the_run_last() {
        let mut fixture = Fixture::alike(3, &Case::ping_pong("tcp"), &cold());
        fixture.round_with(&Case::ping_pong("udp"), 0, &back_to_back(&[], &[1000; 100]), |measured| {
            measured.primary_mut().ledger.sent = 107;
            measured.primary_mut().ledger.unexplained = 7;
        });
        let found = findings(&fixture.run());
        let order: Vec<_> = found.iter().map(|one| (one.about, one.severity, one.code.as_str())).collect();
        let expected =
            [(About::Cause, Severity::Warning, "cold-start"), (About::Run, Severity::Problem, "unexplained-loss")];
        assert_eq!(order, expected);
    }

    #[test]
    fn causes_are_ordered_by_share_and_others_by_severity() {
        let run = Fixture::of(&[(&Case::ping_pong("tcp"), &[1000; 3])]).run();
        let of = |about, severity, share| {
            let card = FindingCard { about, ..ALL[0].card };
            rank(&Finding { share, ..support::blank(&card, severity) }, &run)
        };
        assert!(of(About::Cause, Severity::Warning, 0.5) < of(About::Cause, Severity::Problem, 0.4));
        assert!(of(About::Cause, Severity::Problem, 0.5) < of(About::Cause, Severity::Warning, 0.5));
        assert!(of(About::Cause, Severity::Note, 0.0) < of(About::Traffic, Severity::Note, 0.9));
        assert!(of(About::Traffic, Severity::Note, 0.0) < of(About::Run, Severity::Problem, 0.9));
        assert!(of(About::Run, Severity::Problem, 0.1) < of(About::Run, Severity::Warning, 0.9));
    }

    #[test]
    fn a_cause_below_one_percent_is_a_note_and_a_fault_of_the_run_stays_severe() {
        let severity = |about, share| {
            let card = FindingCard { about, ..ALL[0].card };
            adjust(Finding { share, ..support::blank(&card, Severity::Warning) }).severity
        };
        assert_eq!(severity(About::Cause, 0.0099), Severity::Note);
        assert_eq!(severity(About::Cause, 0.01), Severity::Warning);
        assert_eq!(severity(About::Run, 0.0), Severity::Warning);
    }

    #[test]
    fn a_refuted_cause_is_reported_as_refuted_and_explains_nothing() {
        let after = |verdict: &str| {
            let card = FindingCard { about: About::Cause, ..ALL[0].card };
            let proved = support::check_result("changed", verdict, 0.0.into());
            adjust(Finding { share: 0.9, proved: Some(proved), ..support::blank(&card, Severity::Warning) })
        };
        let refuted = after(REFUTED);
        assert_eq!((refuted.severity, refuted.share), (Severity::Note, 0.0));
        assert_eq!((after("cannot-tell").severity, after("confirmed").share), (Severity::Warning, 0.9));
    }

    #[test]
    fn equal_shares_are_ordered_by_the_plan() {
        let mut fixture = Fixture::new();
        for remedy in ["default", "cork"] {
            fixture.round(&small_writes(remedy), 0, &back_to_back(&[], &[1000; 20]));
        }
        let run = fixture.run();
        let about = |case: usize, share: f64| {
            let mut finding = support::blank(&ALL[0].card, Severity::Warning);
            (finding.cases, finding.share) = (vec![run.cases[case].id.clone()], share);
            rank(&finding, &run)
        };
        assert!(about(0, 0.996) < about(1, 1.0), "both are 100 %");
        assert!(about(1, 1.0) < about(0, 0.99));
    }
}
