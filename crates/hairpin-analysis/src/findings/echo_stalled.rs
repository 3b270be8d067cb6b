//! `echo-stalled`: the server held some messages far longer than others, or all of them far too long.
//!
//! Evidence: the turnarounds that the server stamped, never the client's latencies alone. A turnaround is a stall if it
//! exceeds both 200 us and twenty times the median bucket. If the median is 1 ms or more, every turnaround above 1 ms is a
//! stall, because no server work takes that long. Turnarounds are counted by powers of two, so a turnaround counts only if
//! its whole bucket is above the limit. The effect is the total time of stalls as a share of all round-trip time. The
//! counter-experiment gives each end a CPU; where the stall was injected, it omits that.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::{CPU_EACH, WITHOUT_WORK};
use hairpin_model::{CaseSummary, Finding, FindingCard, Measured, Placement, Run, Turnaround, finding_keys as keys};

use super::support::{
    counter_experiment, evidence, evidence_of, judge_by_block, mean, paired, rounds_of, with_share,
};

pub(super) const CARD: FindingCard = FindingCard {
    code: "echo-stalled",
    about: About::Cause,
    what: "the server took far longer for some messages than for others, or milliseconds for all of them",
    why: "the figures then show the server's delay and not the transport",
};

/// Minimum stall, in ns, and as a multiple of the median turnaround.
const MIN_STALL_NS: f64 = 200_000.0;
const MIN_STALL_RATIO: f64 = 20.0;
/// If the median turnaround has this length, in ns, it is a stall itself.
const ALWAYS_STALL_NS: f64 = 1_000_000.0;
/// Minimum number of stalls over all rounds of a case; fewer are chance.
const MIN_STALLS: u64 = 5;
/// Minimum share of the round-trip time, or of the messages (visible at p99.9), to report.
const MIN_SHARE_OF_TIME: f64 = 0.01;
const MIN_SHARE_OF_MESSAGES: f64 = 0.001;
/// From this share of the time on, the figures no longer describe the transport.
const PROBLEM_SHARE: f64 = 0.05;

pub(super) fn detect(run: &Run, summary: &CaseSummary) -> Option<Finding> {
    let mut all = Turnaround::default();
    let mut round_trips_ns = 0.0;
    for (_, measured) in rounds_of(run, &summary.id) {
        let Some(turnaround) = measured.server().and_then(|end| end.turnaround.as_ref()) else { continue };
        add(&mut all, turnaround);
        round_trips_ns += round_trip_time_ns(measured);
    }
    let of: u64 = all.counts.iter().sum();
    let (from, typical_ns) = first_stalled_bucket(&all)?;
    let count: u64 = all.counts[from..].iter().sum();
    let held_ns = held_ns(&all, from);
    let share = if round_trips_ns > 0.0 { (held_ns / round_trips_ns).clamp(0.0, 1.0) } else { 0.0 };
    let matters = share >= MIN_SHARE_OF_TIME || count as f64 >= MIN_SHARE_OF_MESSAGES * of as f64;
    if count < MIN_STALLS || !matters {
        return None;
    }
    let severity = match share {
        share if share >= PROBLEM_SHARE => Severity::Problem,
        share if share >= MIN_SHARE_OF_TIME => Severity::Warning,
        _ => Severity::Note,
    };
    let case = &summary.case;
    let experiment = match case.injected_fault {
        Some(_) => {
            let changed = case.clone().with(|changed| changed.injected_fault = None);
            paired(WITHOUT_WORK, [case.clone(), changed])
        }
        None => {
            let on = |placement| case.clone().with(|changed| changed.ends.placement = placement);
            counter_experiment(CPU_EACH, [Placement::SameCpu, Placement::CrossCpu].map(on))
        }
    };
    let finding = Finding {
        evidence: vec![
            evidence_of(summary, keys::STALLED, count as f64),
            evidence_of(summary, keys::TIME_IN_STALLS, held_ns),
            evidence_of(summary, keys::LONGEST_TURNAROUND, all.max_ns as f64),
            evidence(keys::SHARE_OF_ROUND_TRIPS, share),
        ],
        proved: judge_by_block(run, summary, &experiment, held_ns / of as f64, mean),
        counter_experiment: Some(experiment),
        ..with_share(&CARD, severity, share).with(keys::MESSAGES, of as f64)
    };
    // Unless most messages stall, the median turnaround is typical.
    let usual = 2.0 * (count as f64) < of as f64 && typical_ns < ALWAYS_STALL_NS;
    let finding = finding.with_if(case.host().is_some(), keys::TWO_HOSTS);
    Some(finding.with_some(keys::TYPICAL_TURNAROUND, usual.then_some(typical_ns)))
}

fn add(all: &mut Turnaround, other: &Turnaround) {
    if all.counts.len() < other.counts.len() {
        all.counts.resize(other.counts.len(), 0);
    }
    all.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
    all.total_ns = all.total_ns.saturating_add(other.total_ns);
    all.max_ns = all.max_ns.max(other.max_ns);
}

/// Returns the sum of a round's round trips, in ns. In an open loop, sums service times, which do not include the
/// wait for the generator.
fn round_trip_time_ns(measured: &Measured) -> f64 {
    // The same server answers in all phases.
    if let Some(phases) = &measured.primary().phases {
        return phases.by_phase.each().map(|(_, phase)| phase.latency_ns.mean * phase.samples as f64).sum();
    }
    let figures = &measured.primary().figures;
    figures.service_ns.unwrap_or(figures.latency_ns).mean * figures.samples as f64
}

fn lower_edge_ns(bucket: usize) -> f64 {
    2_f64.powi(i32::try_from(bucket).unwrap_or(i32::MAX))
}

/// Returns the first bucket entirely above the threshold, and the upper edge of the median bucket, in ns.
fn first_stalled_bucket(all: &Turnaround) -> Option<(usize, f64)> {
    let total: u64 = all.counts.iter().sum();
    let mut below = 0;
    let median = all.counts.iter().position(|count| {
        below += count;
        2 * below >= total && total > 0
    })?;
    let typical_ns = lower_edge_ns(median + 1);
    let usual = lower_edge_ns(median) >= ALWAYS_STALL_NS;
    let threshold = if usual { ALWAYS_STALL_NS } else { MIN_STALL_NS.max(MIN_STALL_RATIO * typical_ns) };
    let from = (0..all.counts.len()).find(|bucket| lower_edge_ns(*bucket) >= threshold)?;
    Some((from, typical_ns))
}

/// Returns the time in the buckets from `from`, in ns: the total minus the other buckets at their midpoints, limited to
/// what the stalled buckets can contain.
fn held_ns(all: &Turnaround, from: usize) -> f64 {
    let at = |buckets: std::ops::Range<usize>, scale: f64| {
        buckets.map(|bucket| all.counts[bucket] as f64 * lower_edge_ns(bucket) * scale).sum::<f64>()
    };
    let beyond = from..all.counts.len();
    let (least, most) = (at(beyond.clone(), 1.0), at(beyond, 2.0).min(all.total_ns as f64));
    (all.total_ns as f64 - at(0..from, 1.5)).min(most).max(least)
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;

    use super::*;
    use crate::fixture::links::between_hosts;
    use crate::fixture::{Fixture, back_to_back, shows, value};

    /// Rounds of 100 messages of 20 us; the server holds `stalls` of them for `held_ns`, the others for 1 us.
    fn rounds(blocks: u32, case: &Case, stalls: u64, held_ns: u64) -> Fixture {
        let latencies: Vec<u64> = (0..100).map(|k| if k < stalls { 20_000 + held_ns } else { 20_000 }).collect();
        Fixture::alike_with(blocks, case, &back_to_back(&[], &latencies), |measured| {
            let mut turnaround = Turnaround { counts: vec![0; 40], total_ns: 0, max_ns: held_ns };
            for held in [vec![1100; 100 - stalls as usize], vec![held_ns; stalls as usize]].concat() {
                turnaround.counts[held.ilog2() as usize] += 1;
                turnaround.total_ns += held;
            }
            measured.ends[1].turnaround = Some(turnaround);
        })
    }

    fn found_in_one(stalls: u64, held_ns: u64) -> Vec<Finding> {
        rounds(1, &Case::ping_pong("tcp"), stalls, held_ns).findings("echo-stalled")
    }

    #[test]
    fn injected_stalls_are_found_first_and_measured() {
        let found = crate::findings(&rounds(3, &Case::ping_pong("tcp"), 2, 2_000_000).run());
        assert_eq!((found[0].code.as_str(), found[0].severity), ("echo-stalled", Severity::Problem));
        assert_eq!(found[0].evidence[0].value.value, 6.0);
        // 6 stalls of 2 ms take 12 ms; 300 round trips of 20 us take 6 ms.
        assert!((found[0].share - 12.0 / 18.0).abs() < 0.02, "{}", found[0].share);
        assert_eq!([keys::STALLED, keys::MESSAGES].map(|key| value(&found[0], key)), [6.0, 300.0]);
        assert!(shows(&found[0], keys::TIME_IN_STALLS, 6.0 * 1.98e6), "{found:?}");
    }

    #[test]
    fn the_advised_cpu_is_on_the_servers_host() {
        let found = |case: &Case| rounds(3, case, 2, 2_000_000).findings("echo-stalled").remove(0);
        let here = found(&Case::ping_pong("tcp"));
        assert!(!here.has(keys::TWO_HOSTS) && here.counter_experiment.is_some(), "{here:?}");
        let elsewhere = found(&between_hosts(Case::ping_pong("tcp")));
        assert!(elsewhere.has(keys::TWO_HOSTS), "{elsewhere:?}");
        assert_eq!(elsewhere.counter_experiment, None);
    }

    #[test]
    fn a_server_that_always_stalls_is_found() {
        let found = found_in_one(100, 40_000_000);
        assert_eq!(found.len(), 1);
        assert_eq!([keys::STALLED, keys::MESSAGES].map(|key| value(&found[0], key)), [100.0, 100.0]);
        assert!(shows(&found[0], keys::TIME_IN_STALLS, 100.0 * 40e6), "{found:?}");
        assert!(!found[0].has(keys::TYPICAL_TURNAROUND), "{found:?}");
        assert_eq!(found_in_one(100, 900_000), [], "the server may work for 900 us");
    }

    #[test]
    fn an_injected_stall_is_checked_by_its_omission() {
        let fault = hairpin_model::InjectedFault { stall_ns: 2_000_000, every: 50, sleeps: true };
        let injected = Case::ping_pong("tcp").with(|case| case.injected_fault = Some(fault));
        let checked = |without_ns: u64| {
            let mut fixture = rounds(6, &injected, 2, 2_000_000);
            fixture.rounds_of(&Case::ping_pong("tcp"), &[without_ns; 6]);
            fixture.findings("echo-stalled").remove(0).proved.unwrap().verdict
        };
        assert_eq!([checked(20_000), checked(60_000)], ["confirmed", "refuted"], "60 us on average with the stalls");
    }

    #[test]
    fn few_stalls_short_ones_and_slow_clients_are_no_finding() {
        assert_eq!(found_in_one(4, 2_000_000), []);
        assert_eq!(found_in_one(10, 150_000), []);
        let latencies = [[2_000_000; 10].as_slice(), &[20_000; 90]].concat();
        let client = Fixture::alike(1, &Case::ping_pong("tcp"), &back_to_back(&[], &latencies));
        assert_eq!(client.findings("echo-stalled"), [], "only the client was slow");
    }
}
