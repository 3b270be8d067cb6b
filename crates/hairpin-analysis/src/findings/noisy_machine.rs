//! `noisy-machine`: something else used the machine during rounds.
//!
//! Evidence, per round: at least 1 % of the time taken by the hypervisor (steal); more than 10 % used by other programs,
//! beyond the 10 ms resolution of the counters; more runnable tasks than CPUs; or ends with their own CPUs preempted at
//! least once in 1 000 messages. Preemptions do not count for ends that share a CPU with each other or with a link's
//! emulator, or that a CPU quota stopped. CPU time of a link's emulator is not noise. Load averages are shown but not used:
//! they cover the last minute. The effect compares the p50 of disturbed rounds, relative to the median of their case, with
//! quiet rounds; a busy machine can also show *better* medians, because the scheduler then puts both ends on one CPU. The
//! figures include disturbed rounds.

use hairpin_model::finding::{About, Severity};
use hairpin_model::names::{distinct, grouped};
use hairpin_model::trace::End;
use hairpin_model::{
    EndReport, Evidence, Finding, FindingCard, Key, Measured, RoundRecord, Run, finding_keys as keys,
};

use super::cpu_quota::is_throttled;
use super::support::{blank, evidence, longer_run};
use crate::statistics::location::median;

pub(super) const CARD: FindingCard = FindingCard {
    code: "noisy-machine",
    about: About::Run,
    what: "other programs used the machine while rounds ran",
    why: "other programs add tails, move medians either way, and make runs differ",
};

const MIN_ROUNDS_SHARE: f64 = 0.1;
const MIN_STEAL: f64 = 0.01;
const MIN_OTHERS: f64 = 0.1;
/// Resolution of the CPU time counters, in ns per CPU.
const RESOLUTION_NS: f64 = 10e6;
const MIN_PREEMPTED_SHARE: f64 = 0.001;
const MIN_PREEMPTIONS: u64 = 10;
/// Minimum effect on the medians for a warning; noise in half of the rounds also suffices.
const MIN_EFFECT: f64 = 0.03;

type NoisyRound<'r> = (&'r RoundRecord, &'r Measured, Vec<Key>);

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    // With the rounds that do not count.
    let measured = run.rounds.iter().filter_map(|round| Some((round, round.measured()?)));
    let rounds: Vec<NoisyRound<'_>> =
        measured.map(|(round, measured)| (round, measured, signs(round, measured, run))).collect();
    let disturbed = rounds.iter().filter(|(_, _, signs)| !signs.is_empty());
    let noisy = disturbed.clone().count();
    let affected = noisy as f64 / rounds.len().max(1) as f64;
    if noisy == 0 || affected < MIN_ROUNDS_SHARE {
        return Vec::new();
    }
    let effect = effect(run, &rounds);
    let grave = affected >= 0.5 || effect.is_some_and(|ratio| (ratio - 1.0).abs() >= MIN_EFFECT);
    let finding = Finding {
        cases: distinct(disturbed.clone().map(|(round, _, _)| round.case_id.clone())),
        evidence: all_evidence(run, &rounds, affected, effect),
        counter_experiment: disturbed.clone().next().map(|(round, _, _)| longer_run(&round.order.case)),
        share: effect.map_or(0.0, |ratio| (ratio - 1.0).abs().min(1.0)),
        ..blank(&CARD, if grave { Severity::Warning } else { Severity::Note })
    };
    let finding = finding
        .with(keys::NOISY_ROUNDS, noisy as f64)
        .with(keys::ROUNDS, rounds.len() as f64)
        .with_if(effect.is_some_and(|ratio| ratio <= 1.0 - MIN_EFFECT), keys::NOISE_HELPED);
    let by_sign = grouped(rounds.iter().flat_map(|(_, _, signs)| signs).map(|sign| (*sign, ())));
    vec![by_sign.into_iter().fold(finding, |finding, (sign, seen)| finding.with(sign, seen.len() as f64))]
}

fn signs(round: &RoundRecord, measured: &Measured, run: &Run) -> Vec<Key> {
    let noise = &measured.noise;
    let cpus = run.environment().cpus_online.max(1) as f64;
    let capacity_ns = noise.wall_ns as f64 * cpus;
    let own = ends_cpu_ns(measured, server_is_elsewhere(run));
    // Subtract the link's emulator: its CPU time, its runnable task, and its preemptions.
    let relay = measured.link.as_ref().and_then(|link| link.relay);
    let own = own + relay.map_or(0.0, |relay| relay.cpu_ns as f64);
    // Concurrent flows share the CPUs of their ends.
    let apart = measured.flows.len() == 1
        && relay.is_none_or(|relay| {
            relay.pinned_cpu.is_some() && measured.ends.iter().all(|end| end.pinned_cpu != relay.pinned_cpu)
        });
    let pushes: u64 = measured.ends.iter().map(|end| end.involuntary_switches).sum();
    let steal = noise.steal_ns > 0 && noise.steal_ns as f64 >= MIN_STEAL * capacity_ns;
    let others = noise.busy_ns as f64 - own > MIN_OTHERS * capacity_ns + RESOLUTION_NS * cpus;
    let runnable = noise.runnable_before as f64 > cpus + if relay.is_some() { 1.0 } else { 0.0 };
    let preempted = round.order.case.ends.placement.has_own_cpus()
        && apart
        && !is_throttled(measured)
        && pushes >= MIN_PREEMPTIONS
        && pushes as f64 >= MIN_PREEMPTED_SHARE * measured.primary().figures.samples as f64;
    // The round does not count, because its ends waited for their CPUs.
    let waited = !is_throttled(measured)
        && run.case(&round.case_id).is_some_and(|case| {
            case.omitted_rounds.iter().any(|out| out.round == round.number && out.why.is_of_machine())
        });
    let all = [
        (keys::BY_WAITING, waited),
        (keys::BY_STEAL, steal),
        (keys::BY_OTHERS, others),
        (keys::BY_RUNNABLE, runnable),
        (keys::BY_PREEMPTION, preempted),
    ];
    all.into_iter().filter(|(_, is_seen)| *is_seen).map(|(sign, _)| sign).collect()
}

fn server_is_elsewhere(run: &Run) -> bool {
    run.host(End::Server).is_some_and(|server| server.boot_id != run.environment().boot_id)
}

fn ends_cpu_ns(measured: &Measured, server_is_elsewhere: bool) -> f64 {
    let ends = || measured.ends.iter().filter(|end| end.host == End::Client || !server_is_elsewhere);

    let by_phase =
        |end: &EndReport| Some(end.phase_usage.as_ref()?.each().map(|(_, usage)| usage.cpu_ns as f64).sum::<f64>());
    let of_all_phases: Option<f64> = ends().map(by_phase).sum();
    of_all_phases.unwrap_or_else(|| {
        // The CPU time is known only for the measured part; assume that the ends were as busy during the warm-up.
        let own = ends().map(|end| end.cpu_ns).sum::<u64>() as f64;
        own * (measured.noise.wall_ns as f64 / measured.duration_ns.max(1) as f64).max(1.0)
    })
}

/// The p50 of noisy rounds / p50 of quiet rounds, each relative to the case's median; `None` if either is missing.
fn effect(run: &Run, rounds: &[NoisyRound<'_>]) -> Option<f64> {
    let relative = |noisy: bool| -> Option<f64> {
        let chosen = rounds.iter().filter(|(_, _, signs)| signs.is_empty() != noisy);
        let ratios = chosen.filter_map(|(round, measured, _)| {
            let reference = run.case(&round.case_id)?.primary().latency_ns.p50?.value;
            (reference > 0.0).then(|| measured.primary().figures.latency_ns.p50 / reference)
        });
        median(&ratios.collect::<Vec<_>>())
    };
    Some(relative(true)? / relative(false).filter(|quiet| *quiet > 0.0)?)
}

fn all_evidence(run: &Run, rounds: &[NoisyRound<'_>], affected: f64, effect: Option<f64>) -> Vec<Evidence> {
    let total =
        |of: &dyn Fn(&Measured) -> u64| rounds.iter().map(|(_, measured, _)| of(measured) as f64).sum::<f64>();
    let pushes = |measured: &Measured| {
        measured.client().involuntary_switches + measured.server().map_or(0, |end| end.involuntary_switches)
    };
    let mut all = vec![
        evidence(keys::DISTURBED, affected),
        evidence(keys::STEAL, total(&|measured| measured.noise.steal_ns)),
        evidence(keys::PREEMPTIONS, total(&pushes)),
    ];
    all.extend(run.environment().load.first().map(|load| evidence(keys::LOAD_AVERAGE, *load)));
    all.extend(effect.map(|ratio| evidence(keys::NOISE_RATIO, ratio)));
    all
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, EndReport, FlowRecord, Host};

    use super::*;
    use crate::fixture::links::{link, over};
    use crate::fixture::{Fixture, apart, back_to_back, value};

    fn run(disturb: impl Fn(&mut Measured), disturbed: &[u32]) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        for block in 0..10 {
            let noisy = disturbed.contains(&block);
            let samples = back_to_back(&[], &[if noisy { 12_000 } else { 10_000 }; 10_000]);
            fixture.round_with(&apart(Case::ping_pong("tcp")), block, &samples, |measured| {
                if noisy {
                    disturb(measured);
                }
            });
        }
        fixture.findings("noisy-machine")
    }

    #[test]
    fn each_sign_is_found_and_its_effect_measured() {
        type Disturb = fn(&mut Measured);
        let signs: [(Disturb, Key); 4] = [
            (|measured| measured.noise.steal_ns = 10_000_000, keys::BY_STEAL),
            (|measured| measured.noise.busy_ns = 2 * measured.noise.wall_ns, keys::BY_OTHERS),
            (|measured| measured.noise.runnable_before = 3, keys::BY_RUNNABLE),
            (|measured| measured.ends[0].involuntary_switches = 10, keys::BY_PREEMPTION),
        ];
        for (disturb, sign) in signs {
            let found = run(disturb, &[2, 5, 7]);
            assert_eq!((found.len(), found[0].severity), (1, Severity::Warning), "{sign:?}");
            assert_eq!([keys::NOISY_ROUNDS, keys::ROUNDS].map(|key| value(&found[0], key)), [3.0, 10.0]);
            let all = signs.iter().map(|(_, key)| *key).chain([keys::BY_WAITING]);
            let seen: Vec<_> = all.filter_map(|key| Some((key.name, found[0].figure(key)?.value))).collect();
            assert_eq!(seen, [(sign.name, 3.0)]);
            assert!((found[0].share - 0.2).abs() < 0.01, "{}", found[0].share);
        }
    }

    /// Steal counts from 1 % of both CPUs' time in a round, preemptions from 10; a finding needs a tenth of the
    /// rounds.
    #[test]
    fn the_finding_begins_at_the_threshold() {
        let stolen = |share: f64| {
            move |measured: &mut Measured| {
                measured.noise.steal_ns = (share * 2.0 * measured.noise.wall_ns as f64) as u64;
            }
        };
        assert_eq!(run(stolen(0.0099), &[2, 5]), []);
        assert_eq!(run(stolen(0.0101), &[2, 5]).len(), 1);
        assert_eq!(run(|measured| measured.ends[0].involuntary_switches = 9, &[2, 5]), []);
        assert_eq!(run(|measured| measured.ends[0].involuntary_switches = 10, &[2]).len(), 1, "one of ten rounds");
    }

    #[test]
    fn slow_rounds_without_a_sign_and_ends_that_preempt_each_other_are_no_noise() {
        assert_eq!(run(|_| {}, &[2, 5, 7]), []);
        let mut together = Fixture::new();
        together.rounds_with(&Case::ping_pong("tcp"), &[10_000; 5], |measured| {
            measured.ends[0].involuntary_switches = 100;
        });
        assert_eq!(together.findings("noisy-machine"), []);
    }

    #[test]
    fn an_emulator_that_spins_is_not_another_program() {
        let over_a_link = |disturb: fn(&mut Measured)| {
            let mut fixture = Fixture::new();
            let case = over("delay=1ms", apart(Case::ping_pong("tcp")));
            fixture.rounds_with(&case, &[2_000_000; 10], |measured| {
                measured.link = Some(link());
                disturb(measured);
            });
            fixture.findings("noisy-machine")
        };
        let spinning = |measured: &mut Measured| {
            measured.noise.busy_ns += measured.noise.wall_ns;
            measured.noise.runnable_before = 3;
            measured.link.as_mut().unwrap().relay.as_mut().unwrap().cpu_ns = measured.noise.wall_ns;
        };
        assert_eq!(over_a_link(spinning), []);
        let spinning_beside_another = |measured: &mut Measured| {
            measured.noise.busy_ns += 2 * measured.noise.wall_ns;
            measured.link.as_mut().unwrap().relay.as_mut().unwrap().cpu_ns = measured.noise.wall_ns;
        };
        assert_eq!(value(&over_a_link(spinning_beside_another)[0], keys::BY_OTHERS), 10.0);
        fn preempted(measured: &mut Measured, relay: Option<usize>) {
            (measured.ends[0].pinned_cpu, measured.ends[1].pinned_cpu) = (Some(0), Some(1));
            measured.ends[0].involuntary_switches = 50;
            measured.link.as_mut().unwrap().relay.as_mut().unwrap().pinned_cpu = relay;
        }
        assert_eq!(over_a_link(|measured| preempted(measured, Some(1))), [], "the emulator shares a CPU with an end");
        assert_eq!(over_a_link(|measured| preempted(measured, None)), []);
        assert_eq!(over_a_link(|measured| preempted(measured, Some(2))).len(), 1);
    }

    #[test]
    fn the_ends_of_a_second_flow_are_not_other_programs() {
        let found = |second_cpu_ns: u64| {
            run(
                |measured| {
                    measured.noise.busy_ns += measured.noise.wall_ns;
                    let second: Vec<_> =
                        measured.ends.iter().map(|end| EndReport { flow: "back".into(), ..end.clone() }).collect();
                    measured.ends.extend(second);
                    measured.ends[3].cpu_ns = second_cpu_ns.min(measured.duration_ns);
                    measured.ends[3].involuntary_switches = 50;
                    let back = FlowRecord { id: "back".into(), ..measured.primary().clone() };
                    measured.flows.push(back);
                },
                &[2, 5, 7],
            )
        };
        assert_eq!(found(u64::MAX), []);
        assert_eq!(value(&found(0)[0], keys::BY_OTHERS), 3.0);
    }

    /// CPU time of a server on another host must not be subtracted from this host's.
    #[test]
    fn a_server_on_another_host_does_not_hide_other_programs() {
        let found = |boot_id: &str| {
            let mut fixture = Fixture::new();
            let samples = back_to_back(&[], &[10_000; 10_000]);
            fixture.round_with(&apart(Case::ping_pong("tcp")), 0, &samples, |measured| {
                measured.noise.busy_ns = 2 * measured.noise.wall_ns;
                for end in &mut measured.ends {
                    (end.host, end.cpu_ns) = (end.role, measured.duration_ns);
                }
            });
            let mut run = fixture.run();
            run.hosts[0].environment.boot_id = Some("one".to_owned());
            run.hosts.push(Host { role: End::Server, ..run.hosts[0].clone() });
            run.hosts[1].environment.boot_id = Some(boot_id.to_owned());
            detect(&run).len()
        };
        assert_eq!([found("one"), found("another")], [0, 1]);
    }

    #[test]
    fn without_quiet_rounds_no_effect_is_reported() {
        let found = run(|measured| measured.noise.runnable_before = 9, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(found[0].figure(keys::NOISE_RATIO), None);
        assert_eq!(found[0].share, 0.0);
    }
}
