//! `run-queue`: an end that could run waits for a CPU.
//!
//! Such waits last up to a time slice, so they are rare and long. Evidence: the part `run-queue` of the latency budget: how
//! long the thread of a sampled message was runnable without a CPU (`run_delay` of /proc/PID/schedstat), in a message for
//! which it slept once. A control loop has no budget. Its evidence is the `run_delay` of both ends, minus the time for
//! which they wait for each other on one CPU, as a share of all response time, and that other programs kept their CPUs
//! busy; the counter-experiment runs both ends with `SCHED_FIFO`.

use hairpin_model::case::Scheduling;
use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::{FIFO, OTHER_CPUS};
use hairpin_model::latency_budget::parts::RUN_QUEUE;
use hairpin_model::{
    Case, CaseSummary, CounterExperiment, Finding, FindingCard, Measured, Placement, Run, Waiting,
    finding_keys as keys,
};

use super::support::{Hits, evidence_of, from_budget, judge_by_block, paired, rounds_of, with_share};
use crate::lateness::waited_in_flow_ns;

pub(super) const CARD: FindingCard = FindingCard {
    code: "run-queue",
    about: About::Cause,
    what: "an end that could run waited for a CPU",
    why: "the scheduler then causes the latency, and a faster path does not help",
};

/// Minimum share of the mean round trip. Ends that share a CPU always wait for each other.
const MIN_SHARE: f64 = 0.25;
const MIN_SHARE_ON_ONE_CPU: f64 = 0.5;
/// For a control loop: minimum share of the response time, and of the time of its CPUs that other programs used. Without such
/// programs a wait is that of a wake-up, or of the hypervisor.
const MIN_SHARE_OF_LOOP: f64 = 0.05;
const MIN_USED_BY_OTHERS: f64 = 0.25;

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let look = |case: &Case| {
        let is_shared = case.ends.placement == Placement::SameCpu;
        Some((if is_shared { MIN_SHARE_ON_ONE_CPU } else { MIN_SHARE }, elsewhere(case)))
    };
    let of_loops = Hits::findings(run, |case| waits_of_loop(run, case)).planned_first(run);
    [from_budget(run, (&CARD, OTHER_CPUS), &[RUN_QUEUE], look), of_loops.joined()].concat()
}

fn waits_of_loop(run: &Run, case: &CaseSummary) -> Option<Finding> {
    // A search tries periods that are too short.
    let counts = case.case.replicate == 0 && run.plan.period_search.is_none();
    // Other programs do not delay a real-time loop: its waits are those of its wake-ups.
    let is_delayed = counts && case.case.ends.scheduling == Scheduling::Other;
    case.case.primary().load.periodic().filter(|_| is_delayed)?;
    let rounds = rounds_of(run, &case.id);
    let sum = |of: &dyn Fn(&Measured) -> f64| rounds.iter().map(|(_, measured)| of(measured)).sum::<f64>();
    let cycles = sum(&|measured| measured.primary().figures.samples as f64);
    let waited_ns = sum(&|measured| waited_in_flow_ns(measured).sum::<u64>() as f64);
    let responses_ns =
        sum(&|measured| measured.primary().figures.latency_ns.mean * measured.primary().figures.samples as f64);
    let cpus = |measured: &Measured| match measured.noise.cpus.len() {
        0 => run.environment().cpus_online.max(1) as f64,
        cpus => cpus as f64,
    };
    let used_by_others = sum(&used_by_others_ns) / sum(&|measured| cpus(measured) * measured.noise.wall_ns as f64);
    if !(cycles > 0.0 && waited_ns >= MIN_SHARE_OF_LOOP * responses_ns && used_by_others >= MIN_USED_BY_OTHERS) {
        return None;
    }
    let (share, per_cycle_ns) = ((waited_ns / responses_ns).min(1.0), waited_ns / cycles);
    let check = check_of_loop(&case.case);
    Some(Finding {
        evidence: vec![
            evidence_of(case, keys::CPU_WAITS, per_cycle_ns),
            evidence_of(case, keys::SHARE_OF_RESPONSES, share),
            evidence_of(case, keys::USED_BY_OTHERS, used_by_others),
        ],
        proved: judge_by_block(run, case, &check, per_cycle_ns, wait_per_cycle_ns),
        counter_experiment: Some(check),
        ..with_share(&CARD, Severity::Warning, share)
    })
}

/// CPU time that other programs used on the CPUs of both ends, or on all CPUs if these are not known, in ns.
fn used_by_others_ns(measured: &Measured) -> f64 {
    let noise = &measured.noise;
    let of_cpus: u64 = noise.cpus.iter().map(|cpu| cpu.busy_ns).sum();
    let own = [Some(measured.client()), measured.server()].into_iter().flatten().map(|end| end.cpu_ns).sum::<u64>();
    let relay = measured.link.as_ref().and_then(|link| link.relay).map_or(0, |relay| relay.cpu_ns);
    let all = if noise.cpus.is_empty() { noise.busy_ns } else { of_cpus };
    all.saturating_sub(own + relay) as f64
}

fn wait_per_cycle_ns(measured: &Measured) -> Option<f64> {
    let cycles = measured.primary().figures.samples;
    (cycles > 0).then(|| waited_in_flow_ns(measured).sum::<u64>() as f64 / cycles as f64)
}

fn check_of_loop(case: &Case) -> CounterExperiment {
    if case.ends.waiting == Waiting::Spin {
        return paired(OTHER_CPUS, [case.clone(), elsewhere(case)]);
    }
    paired(FIFO, [case.clone(), case.clone().with(|changed| changed.ends.scheduling = Scheduling::Fifo)])
}

fn elsewhere(case: &Case) -> Case {
    let placement = if case.ends.placement == Placement::CrossCpu { Placement::SameCpu } else { Placement::CrossCpu };
    case.clone().with(|changed| changed.ends.placement = placement)
}

#[cfg(test)]
mod tests {
    use hairpin_model::CpuNoise;

    use super::*;
    use crate::fixture::trips::{PLAIN, Parts, trip};
    use crate::fixture::{Fixture, apart, control_loop, paced, pair, shows, verdict};

    /// Rounds on two CPUs in which each 40th round trip waits for a CPU at the server, by this time.
    fn waiting(wait_ns: i64) -> Parts {
        let mut parts = PLAIN;
        parts[3] = wait_ns;
        parts
    }

    fn found(case: &Case, trips: &[Parts], latency_ns: u64) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        fixture.budget_of(case, latency_ns, &trips.iter().map(|parts| trip(*parts)).collect::<Vec<_>>());
        fixture.findings("run-queue")
    }

    #[test]
    fn rare_long_waits_for_a_cpu_are_found_by_their_share_of_the_mean() {
        let tcp = apart(Case::ping_pong("tcp"));
        let mut trips = vec![PLAIN; 99];
        trips.push(waiting(1_000_000));
        let found = found(&tcp, &trips, 15_500);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 10_000.0 / 15_500.0).abs() < 1e-3, "{}", found[0].share);
        assert!(shows(&found[0], keys::MEAN_OF_PART, 10_000.0));
        assert!(shows(&found[0], keys::SHARE_OF_SLOWEST, 1_000_000.0 / 1_005_500.0), "{:?}", found[0].evidence);
        assert_eq!(pair(&found[0]).map(|case| case.ends.placement), [Placement::CrossCpu, Placement::SameCpu]);
    }

    #[test]
    fn the_finding_begins_at_a_quarter_or_on_one_cpu_at_half() {
        let two_cpus = apart(Case::ping_pong("tcp"));
        let one_cpu = Case::ping_pong("tcp");
        let count = |case: &Case, wait_ns| found(case, &[waiting(wait_ns)], 10_000).len();
        assert_eq!([count(&two_cpus, 1_830), count(&two_cpus, 1_840)], [0, 1], "a quarter of 7.3 us");
        assert_eq!([count(&one_cpu, 5_400), count(&one_cpu, 5_600)], [0, 1], "half of 11 us");
    }

    #[test]
    fn work_of_the_server_and_a_long_network_are_not_waits() {
        let tcp = apart(Case::ping_pong("tcp"));
        for part in [2, 4, 5] {
            let mut parts = PLAIN;
            parts[part] = 1_000_000;
            assert_eq!(found(&tcp, &[parts], 1_000_000), [], "part {part}");
        }
        let mut fixture = Fixture::new();
        fixture.rounds_of(&tcp, &[1_000_000; 8]);
        assert_eq!(fixture.findings("run-queue"), [], "without a budget");
    }

    /// Six rounds of 200 periods with responses of 100 us on one CPU, which other programs keep busy for the share `busy`.
    fn loops(fixture: &mut Fixture, case: &Case, waited_ns: u64, busy: f64) {
        for block in 0..6 {
            fixture.round_with(case, block, &paced(1_000_000, &[(60_000, 40_000); 200]), |measured| {
                measured.ends.iter_mut().for_each(|end| (end.pinned_cpu, end.cpu_ns) = (Some(1), 1_000_000));
                measured.ends[0].waited_for_cpu_ns = Some(waited_ns);
                measured.noise.wall_ns = measured.duration_ns;
                let busy_ns = (busy * measured.duration_ns as f64) as u64 + 2_000_000;
                measured.noise.cpus = vec![CpuNoise { cpu: 1, steal_ns: 0, busy_ns }];
            });
        }
    }

    fn found_in_loop(waited_ns: u64, busy: f64) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        loops(&mut fixture, &control_loop(), waited_ns, busy);
        fixture.findings("run-queue")
    }

    #[test]
    fn waits_of_a_control_loop_beyond_the_work_of_the_other_end_are_found() {
        let found = found_in_loop(6_000_000, 0.9);
        assert!((found[0].share - 0.25).abs() < 0.01, "5 of 20 ms a round: {}", found[0].share);
        assert!(shows(&found[0], keys::CPU_WAITS, 25_000.0), "{:?}", found[0].evidence);
        assert_eq!(pair(&found[0]).map(|case| case.ends.scheduling), [Scheduling::Other, Scheduling::Fifo]);
        assert_eq!(found_in_loop(1_900_000, 0.9), [], "less than 5 %");
        let mut fixture = Fixture::new();
        loops(&mut fixture, &control_loop().with(|case| case.ends.scheduling = Scheduling::Fifo), 6_000_000, 0.9);
        assert_eq!(fixture.findings("run-queue"), [], "other programs do not delay SCHED_FIFO");
        assert_eq!([0.24, 0.26].map(|busy| found_in_loop(6_000_000, busy).len()), [0, 1], "by whom?");
    }

    #[test]
    fn a_real_time_policy_confirms_or_refutes_the_waits_of_a_control_loop() {
        let checked = |with_fifo_ns: u64| {
            let mut fixture = Fixture::new();
            loops(&mut fixture, &control_loop(), 6_000_000, 0.9);
            let fifo = control_loop().with(|case| case.ends.scheduling = Scheduling::Fifo);
            loops(&mut fixture, &fifo, with_fifo_ns, 0.9);
            fixture.findings("run-queue").remove(0)
        };
        assert_eq!([1_000_000, 5_900_000].map(|ns| verdict(&checked(ns)).to_owned()), ["confirmed", "refuted"]);
    }

    #[test]
    fn other_cpus_confirm_or_refute_the_cause() {
        let tcp = apart(Case::ping_pong("tcp"));
        let checked = |elsewhere_ns: u64| {
            let mut fixture = Fixture::new();
            fixture.budget_of(&tcp, 105_500, &[trip(waiting(100_000))]);
            fixture.rounds_of(&elsewhere(&tcp), &[elsewhere_ns; 6]);
            fixture.findings("run-queue").remove(0)
        };
        assert_eq!(verdict(&checked(5_500)), "confirmed");
        let stays = checked(104_000);
        assert_eq!((verdict(&stays), stays.share), ("refuted", 0.0));
    }
}
