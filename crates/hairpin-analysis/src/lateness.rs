//! The delay that the emulator and the machine added to the messages of a round, and the bound on it.
//!
//! Lateness is judged for p50 and p99 separately, by the lateness at the same quantile. The bound is 5 % of the case's
//! undisturbed figure, at least 100 us. The undisturbed figure is the median over rounds of (figure minus lateness),
//! so a disturbed round does not raise its own bound.
//!
//! The emulator records the lateness of each packet. For waits the kernel has only totals: time waiting for a CPU
//! (`run_delay` of `/proc/PID/schedstat`), time throttled, and time stolen by the hypervisor. At most N (1 - q) of N
//! messages are above the quantile q, so the total bounds the lateness at q: total / (N (1 - q)). Waking an end takes
//! some of that time in every round, so the minimum per message over the rounds of the case, at most 50 us or 10 % of
//! the p50, is subtracted.

use std::collections::BTreeSet;

use hairpin_model::trace::End;
use hairpin_model::{Case, LeftOut, Load, Measured, Percentiles, RoundRecord, fact, fact_names};

use crate::statistics::location::median;

const MIN_BOUND_NS: f64 = 100_000.0;
const MAX_SHARE: f64 = 0.05;
/// Maximum share of a one-way load's time in which the emulator was late.
const MAX_STALLED_SHARE: f64 = 0.01;
/// Maximum wait per message that waking an end can explain: 50 us, or 10 % of the p50 if that is longer.
const MAX_WAKING_NS: f64 = 50_000.0;
const MAX_WAKING_SHARE_OF_P50: f64 = 0.1;
/// For loads that have only a rate: maximum share of the time.
const MAX_WAKING_SHARE: f64 = 0.1;

const QUANTILES: [f64; 2] = [0.5, 0.99];

/// Why a round's p50, and its p90 and above, do not count.
pub(crate) type Late = [Option<LeftOut>; 2];

/// A timed round, and why it is omitted.
pub(crate) struct Judged<'r> {
    pub(crate) round: &'r RoundRecord,
    pub(crate) measured: &'r Measured,
    pub(crate) why: Option<LeftOut>,
    /// Why its p90 and above are omitted.
    pub(crate) why_tail: Option<LeftOut>,
}

pub(crate) fn judge(rounds: &[(&RoundRecord, &Measured)]) -> Vec<Late> {
    let Some((first, measured)) = rounds.first() else { return Vec::new() };
    if measured.counts_if_disturbed {
        return vec![[None, None]; rounds.len()];
    }
    let case = &first.order.case;
    if has_only_a_rate(case) {
        return judge_rates(rounds);
    }
    let messages: Vec<Messages> = rounds.iter().map(|(_, measured)| Messages::of(case, measured)).collect();
    let waits = messages.iter().filter(|round| round.count > 0.0).map(|round| round.waited_ns / round.count);
    let p50s_ns: Vec<f64> = messages.iter().map(|round| round.figures_ns[0]).collect();
    let max_waking_ns = MAX_WAKING_NS.max(MAX_WAKING_SHARE_OF_P50 * median(&p50s_ns).unwrap_or(0.0));
    let waking_ns = waits.fold(max_waking_ns, f64::min);
    let [median_late, tail_late] = [0, 1].map(|index| {
        let late: Vec<[f64; 2]> = messages.iter().map(|round| round.lateness_ns(index, waking_ns)).collect();
        let net = messages.iter().zip(&late).filter(|(round, _)| round.count > 0.0);
        let net: Vec<f64> = net.map(|(round, late)| round.figures_ns[index] - late[0] - late[1]).collect();
        let bound_ns = median(&net).map_or(MIN_BOUND_NS, |net| MIN_BOUND_NS.max(MAX_SHARE * net));
        let why = |([relay_ns, cpu_ns], round): ([f64; 2], &Messages)| {
            let (late_ns, bound_ns, is_tail) = ((relay_ns + cpu_ns) as u64, bound_ns as u64, index == 1);
            (late_ns > bound_ns).then(|| {
                if relay_ns >= cpu_ns {
                    LeftOut::RelayLate { late_ns, bound_ns, tail_of: is_tail.then_some(round.packets) }
                } else {
                    LeftOut::WaitedForCpu {
                        late_ns,
                        bound_ns,
                        is_tail,
                        was_taken: 2.0 * round.taken_ns > round.waited_ns,
                    }
                }
            })
        };
        late.into_iter().zip(&messages).map(why).collect::<Vec<_>>()
    });
    median_late.into_iter().zip(tail_late).map(|(median, tail)| [median, tail]).collect()
}

/// The time in ns for which the ends of a host were throttled in a round, at most the round's duration. For two hosts:
/// the longer of their times. The kernel sums the time over CPUs. All CPUs of a group are throttled together, so the sum
/// is divided by their number.
pub(crate) fn throttled_ns(measured: &Measured) -> f64 {
    let of_host = |host: End| {
        let ends = || measured.ends.iter().filter(move |end| end.host == host);
        let cpus: BTreeSet<usize> = ends().flat_map(|end| end.seen_cpus.iter().copied()).collect();
        let ns = ends().filter_map(|end| fact::number(&end.facts, fact_names::THROTTLED_NS)).fold(0.0, f64::max);
        ns / cpus.len().max(1) as f64
    };
    of_host(End::Client).max(of_host(End::Server)).min(measured.duration_ns as f64)
}

/// Time in ns for which each end waited for a CPU. Empty for rounds with several flows: they also wait for each other, which
/// is part of the measurement.
fn waited_ns(measured: &Measured) -> impl Iterator<Item = u64> {
    waited_in_flow_ns(measured).filter(|_| measured.flows.len() == 1)
}

/// Time in ns for which each end of the primary flow waited for a CPU, minus the CPU time of the other end and of the emulator
/// if they can use the same CPU.
pub(crate) fn waited_in_flow_ns(measured: &Measured) -> impl Iterator<Item = u64> {
    let relay = measured.link.as_ref().and_then(|link| link.relay);
    let ends = || [Some(measured.client()), measured.server()].into_iter().flatten();
    ends().filter_map(move |end| {
        let shares = |pinned_cpu: Option<usize>| pinned_cpu.is_none() || pinned_cpu == end.pinned_cpu;
        let others = ends().filter(|other| other.role != end.role && other.host == end.host);
        let others_ns = others.filter(|other| shares(other.pinned_cpu)).map(|other| other.cpu_ns).sum::<u64>();
        let relay_ns = relay.filter(|relay| shares(relay.pinned_cpu)).map_or(0, |relay| relay.cpu_ns);
        Some(end.waited_for_cpu_ns?.saturating_sub(others_ns + relay_ns))
    })
}

/// Whether the lateness of the round may exceed the bound of its case, which is not known yet.
pub(crate) fn may_be_late(round: &RoundRecord, measured: &Measured) -> bool {
    let case = &round.order.case;
    if measured.counts_if_disturbed {
        return false;
    }
    has_only_a_rate(case) && Lost::of(measured).is_too_long(0.0)
        || Messages::of(case, measured).lateness_ns(0, 0.0).iter().sum::<f64>() > MIN_BOUND_NS
}

fn has_only_a_rate(case: &Case) -> bool {
    matches!(case.primary().load, Load::Messages { .. } | Load::Stream { .. })
}

/// The messages of a round whose figures are judged.
struct Messages {
    count: f64,
    /// Packets that crossed the link.
    packets: u64,
    /// p50 and p99; for a probe under load, the increases by the load.
    figures_ns: [f64; 2],
    relay_ns: [f64; 2],
    /// Sum over the ends.
    waited_ns: f64,
    /// The part of it that the hypervisor or a quota took.
    taken_ns: f64,
}

impl Messages {
    fn of(case: &Case, measured: &Measured) -> Self {
        let flow = measured.primary();
        let [p50_ns, p99_ns] = [flow.figures.latency_ns.p50, flow.figures.latency_ns.p99];
        let taken_ns = throttled_ns(measured) + measured.noise.steal_of_ends_ns() as f64;
        let (count, figures_ns) = match flow.phases.as_ref().filter(|_| case.is_under_load()) {
            Some(phases) => {
                let (idle, loaded) = (&phases.by_phase.idle, &phases.by_phase.loaded);
                let added_ns = |of: fn(&Percentiles) -> f64| of(&loaded.latency_ns) - of(&idle.latency_ns);
                (loaded.samples, [added_ns(|all| all.p50), added_ns(|all| all.p99)])
            }
            None => (flow.figures.stamped.unwrap_or(flow.figures.samples), [p50_ns, p99_ns]),
        };
        // Waiting for a CPU is a part of what a control loop measures.
        let is_loop = case.primary().load.periodic().is_some();
        let waited_ns = if is_loop { 0 } else { waited_ns(measured).sum::<u64>() };
        let taken_ns = if is_loop { 0.0 } else { taken_ns };
        let late = measured.link.as_ref().and_then(|link| link.lateness_ns);
        let relay_ns = late.map_or([0.0; 2], |late| {
            let (p50, p99) = (late.p50 as f64, late.p99 as f64);
            // A packet late by the p99 in one direction is usually late by the p50 in the other.
            if case.primary().load.is_one_way() { [p50, p99] } else { [2.0 * p50, p50 + p99] }
        });
        let packets = measured.link.as_ref().map_or(0, |link| link.packets.out);
        Self { count: count as f64, packets, figures_ns, relay_ns, waited_ns: waited_ns as f64 + taken_ns, taken_ns }
    }

    /// Returns the lateness at a quantile that the emulator caused, and that waiting for a CPU caused.
    fn lateness_ns(&self, index: usize, waking_ns: f64) -> [f64; 2] {
        if self.count == 0.0 {
            return [0.0; 2];
        }
        let waited_ns = (self.waited_ns - self.count * waking_ns).max(0.0);
        let above = (self.count * (1.0 - QUANTILES[index])).max(1.0);
        [self.relay_ns[index], (waited_ns / above).min(self.figures_ns[index].max(0.0))]
    }
}

/// The time that a one-way load lost.
struct Lost {
    span_ns: f64,
    stalled_ns: f64,
    /// Time without a CPU: the longer wait of the two ends, plus throttled and stolen time.
    waited_ns: f64,
}

impl Lost {
    fn of(measured: &Measured) -> Self {
        let stalled_ns = measured.link.as_ref().and_then(|link| link.stalled_ns).unwrap_or(0) as f64;
        let waited = waited_ns(measured).max().unwrap_or(0);
        let waited_ns = waited as f64 + throttled_ns(measured) + measured.noise.steal_of_ends_ns() as f64;
        Self { span_ns: measured.duration_ns.max(1) as f64, stalled_ns, waited_ns }
    }

    fn waited_share(&self) -> f64 {
        self.waited_ns / self.span_ns
    }

    fn is_too_long(&self, waking_share: f64) -> bool {
        self.stalled_ns > MAX_STALLED_SHARE * self.span_ns || self.waited_share() - waking_share > MAX_SHARE
    }
}

fn judge_rates(rounds: &[(&RoundRecord, &Measured)]) -> Vec<Late> {
    let lost: Vec<Lost> = rounds.iter().map(|(_, measured)| Lost::of(measured)).collect();
    let waking_share = lost.iter().map(Lost::waited_share).fold(MAX_WAKING_SHARE, f64::min);
    let judge = |lost: &Lost| {
        let span_ns = lost.span_ns as u64;
        let why = if lost.stalled_ns > MAX_STALLED_SHARE * lost.span_ns {
            LeftOut::RelayStalled { stalled_ns: lost.stalled_ns as u64, span_ns }
        } else {
            let lost_ns = (lost.waited_ns - waking_share * lost.span_ns) as u64;
            LeftOut::CpuTaken { lost_ns, span_ns }
        };
        [lost.is_too_long(waking_share).then_some(why), None]
    };
    lost.iter().map(judge).collect()
}

#[cfg(test)]
mod tests {
    use hairpin_model::{CpuNoise, EndReport, FlowRecord, Invalid, LinkRecord, RelayReport};

    use super::*;
    use crate::fixture::links::{late_by, over};
    use crate::fixture::{Fixture, back_to_back, one_way_losses};

    const MS: u64 = 1_000_000;

    fn on_own_cpus(measured: &mut Measured) {
        (0..).zip(&mut measured.ends).for_each(|(cpu, end)| end.pinned_cpu = Some(cpu));
    }

    /// Each round has 980 messages of 20 us and 20 of `slowest_ns`. `waited_ns` has one value per round: how long its
    /// client waited for a CPU. Returns the omitted rounds, and whether only their tail is omitted.
    fn omitted(slowest_ns: u64, waited_ns: &[u64]) -> Vec<(u32, bool)> {
        let mut fixture = Fixture::new();
        for (block, waited_ns) in (0..).zip(waited_ns) {
            let latencies = [&[20_000; 980][..], &[slowest_ns; 20]].concat();
            fixture.round_with(&Case::ping_pong("tcp"), block, &back_to_back(&[], &latencies), |measured| {
                on_own_cpus(measured);
                measured.ends[0].waited_for_cpu_ns = Some(*waited_ns);
            });
        }
        fixture.run().cases[0].omitted_rounds.iter().map(|out| (out.round, out.only_tail)).collect()
    }

    #[test]
    fn waiting_for_a_cpu_omits_only_the_quantiles_that_it_can_change() {
        // The p50 is 20 us, so its lateness is below the bound, however long the client waited.
        assert_eq!(omitted(4 * MS, &[4 * MS, 4 * MS, 80 * MS]), [(2, true)]);
        // Waking takes 4 ms of the wait. The rest falls on the 10 messages above the p99. Each of them may be late by
        // 200 us (5 % of 4 ms), so 2 ms in total.
        assert_eq!(omitted(4 * MS, &[4 * MS, 4 * MS, 4_990_000]), []);
        assert_eq!(omitted(4 * MS, &[4 * MS, 4 * MS, 5_010_000]), [], "the bound is 5 % of 4 ms");
        assert_eq!(omitted(4 * MS, &[4 * MS, 4 * MS, 6_010_000]), [(2, true)]);
        assert_eq!(omitted(90_000, &[4 * MS, 4 * MS, 80 * MS]), [], "no message was late by 100 us");
    }

    #[test]
    fn time_for_waking_that_every_round_has_is_not_lateness() {
        assert_eq!(omitted(4 * MS, &[40 * MS, 40 * MS, 40 * MS]), []);
        // Waking explains at most 50 us per message.
        assert_eq!(omitted(4 * MS, &[400 * MS, 400 * MS, 400 * MS]), [(0, true), (1, true), (2, true)]);
    }

    #[test]
    fn a_p50_that_waiting_may_explain_is_omitted_and_a_slow_path_has_a_higher_bound() {
        let run = |latency_ns: u64, waited_ns: &[u64]| {
            let mut fixture = Fixture::new();
            for (block, waited_ns) in (0..).zip(waited_ns) {
                let samples = back_to_back(&[], &[latency_ns; 100]);
                fixture.round_with(&Case::ping_pong("tcp"), block, &samples, |measured| {
                    on_own_cpus(measured);
                    measured.ends[1].waited_for_cpu_ns = Some(*waited_ns);
                });
            }
            fixture.run().cases.remove(0)
        };
        // The client waited 20 ms. If that fell on the slower 50 of the 100 messages, it is 400 us at the p50.
        let case = run(1_500_000, &[0, 0, 20 * MS]);
        assert_eq!((case.rounds, case.valid), (2, true));
        let why = LeftOut::WaitedForCpu { late_ns: 400_000, bound_ns: 100_000, is_tail: false, was_taken: false };
        assert_eq!((case.omitted_rounds[0].round, &case.omitted_rounds[0].why), (2, &why));
        assert_eq!(run(20 * MS, &[0, 0, 20 * MS]).omitted_rounds.iter().filter(|out| !out.only_tail).count(), 0);
        let noisy = run(2 * MS, &[50 * MS, 60 * MS, 70 * MS]);
        assert!(matches!(noisy.reasons[..], [Invalid::RoundsLeftOut { left_out: 3, rounds: 3, .. }]), "{noisy:?}");
    }

    #[test]
    fn time_that_the_hypervisor_took_is_told_from_a_wait_for_other_programs() {
        let why = |waited_ns: u64, steal_ns: u64| {
            let mut fixture = Fixture::new();
            for (block, factor) in (0..).zip([0, 0, 1]) {
                let samples = back_to_back(&[], &[1_500_000; 100]);
                fixture.round_with(&Case::ping_pong("tcp"), block, &samples, |measured| {
                    on_own_cpus(measured);
                    measured.ends[1].waited_for_cpu_ns = Some(factor * waited_ns);
                    // The first 10 ms are within the resolution of the kernel.
                    let steal_ns = factor * (steal_ns + 10 * MS);
                    measured.noise.cpus = vec![CpuNoise { cpu: 1, steal_ns, ..CpuNoise::default() }];
                });
            }
            fixture.run().cases[0].omitted_rounds[0].why.clone()
        };
        let late =
            |was_taken| LeftOut::WaitedForCpu { late_ns: 400_000, bound_ns: 100_000, is_tail: false, was_taken };
        assert_eq!([why(9 * MS, 11 * MS), why(11 * MS, 9 * MS)], [late(true), late(false)]);
    }

    /// The other end and the emulator use the CPU for which an end waits.
    #[test]
    fn ends_and_emulator_on_one_cpu_do_not_disturb_each_other() {
        let waited_ns = |pinned_cpu: Option<usize>| {
            let mut measured = Measured {
                flows: vec![FlowRecord::default()],
                ends: vec![EndReport::default(); 2],
                ..Measured::default()
            };
            on_own_cpus(&mut measured);
            measured.ends[1].role = End::Server;
            (measured.ends[0].waited_for_cpu_ns, measured.ends[1].cpu_ns) = (Some(9 * MS), 5 * MS);
            let relay = RelayReport { pinned_cpu, cpu_ns: 3 * MS, ..RelayReport::default() };
            measured.link = Some(LinkRecord { relay: Some(relay), ..LinkRecord::default() });
            let apart = waited_ns(&measured).collect::<Vec<_>>();
            measured.ends[1].pinned_cpu = Some(0);
            (apart, waited_ns(&measured).collect::<Vec<_>>())
        };
        assert_eq!(waited_ns(Some(1)), (vec![9 * MS], vec![4 * MS]));
        assert_eq!(waited_ns(None), (vec![6 * MS], vec![MS]));
    }

    #[test]
    fn the_bound_of_the_emulators_lateness_is_5_percent_of_the_p50() {
        let case = over("delay=10ms", Case::ping_pong("tcp"));
        let omitted = |late_ns: u64| {
            let mut fixture = Fixture::new();
            for block in 0..3 {
                let late_ns = if block == 2 { late_ns } else { 2_000 };
                fixture.round_with(&case, block, &back_to_back(&[], &[20 * MS; 100]), late_by(late_ns));
            }
            fixture.run().cases[0].omitted_rounds.iter().filter(|out| !out.only_tail).count()
        };
        // A round trip crosses the link twice, so the lateness counts twice; the bound is 1 ms.
        assert_eq!((omitted(490_000), omitted(510_000)), (0, 1));
    }

    #[test]
    fn a_rate_is_omitted_if_its_emulator_stalled_or_an_end_lost_its_cpu() {
        let omitted = |spoil: &dyn Fn(&mut Measured)| {
            let mut fixture = Fixture::new();
            for block in 0..3 {
                let case = one_way_losses::messages("tcp");
                fixture.round_with(&case, block, &back_to_back(&[], &[50_000; 100]), |measured| {
                    one_way_losses::counts(&[], 0.0)(measured);
                    on_own_cpus(measured);
                    measured.duration_ns = 1_000 * MS;
                    measured.ends.iter_mut().for_each(|end| end.waited_for_cpu_ns = Some(20 * MS));
                    if block == 2 {
                        spoil(measured);
                    }
                });
            }
            let left_out = &fixture.run().cases[0].omitted_rounds;
            left_out.iter().map(|out| out.why.clone()).collect::<Vec<_>>()
        };
        assert_eq!(omitted(&|_| {}), []);
        let lost = |share: f64| omitted(&|measured| measured.ends[0].waited_for_cpu_ns = Some((share * 1e9) as u64));
        assert_eq!(lost(0.069), [], "2 % of every round are for waking, and 5 % may be lost");
        assert!(matches!(lost(0.08)[..], [LeftOut::CpuTaken { .. }]));
        let stalled = |stalled_ns: u64| {
            omitted(&|measured| {
                measured.link = Some(LinkRecord { stalled_ns: Some(stalled_ns), ..LinkRecord::default() });
            })
        };
        assert_eq!(stalled(9 * MS), []);
        let why = LeftOut::RelayStalled { stalled_ns: 11 * MS, span_ns: 1_000 * MS };
        assert_eq!(stalled(11 * MS), [why]);
    }
}
