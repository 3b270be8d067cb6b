//! `bufferbloat`: a load fills a queue on the path, and all other traffic waits in it.
//!
//! Evidence, per round: the bytes in the queue under steady load and the rate at which they left, from the link's log;
//! without a link, the bytes that the load's TCP has in flight beyond the path's capacity (minimum RTT x delivery rate),
//! divided by its delivery rate. The delays of both directions are added, and compared with the median latency that the
//! load adds in the same rounds: the added latency must exceed what a short queue explains, and the queue must explain
//! most of it. Other delays (a CPU, the path itself) queue few bytes. The counter-experiment is the same link with CoDel
//! (RFC 8289); on a path that is not emulated, the load at 95 % of its goodput.

use hairpin_model::finding::{About, Severity};
use hairpin_model::flow::{ConnectionUse, Direction};
use hairpin_model::{
    CaseSummary, CounterExperiment, Finding, FindingCard, Flow, Key, Measured, Run, finding_keys as keys, names,
};

use super::support::{evidence_of, judge_by_block, load_at, p50, rounds_of, with_codel, with_share};
use crate::compare::over_points;
use crate::in_span::{drained_bytes_per_s, loaded_states, queue_bytes};
use crate::statistics::interval::median_over;
use crate::statistics::location::median;

pub(super) const CARD: FindingCard = FindingCard {
    code: "bufferbloat",
    about: About::Cause,
    what: "a load fills a queue of the path, and all other traffic waits in it",
    why: "every other message waits for the bytes that the load has queued, however small or rare it is",
};

/// Maximum delay of a short queue, in ns: twice the target of CoDel (RFC 8289, section 4.3); ten times the target if
/// CoDel manages the queue, because a few connections push the delay above the target.
const MAX_SHORT_NS: f64 = 10e6;
const MAX_SHORT_BY_CODEL_NS: f64 = 50e6;
const QUEUE_STAGE: &str = "queue";
/// Minimum share of the added latency that the queue must explain.
const MIN_QUEUE_SHARE: f64 = 0.5;
/// Rate of the load in the counter-experiment, as a share of its goodput.
const CHECK_LOAD_SHARE: f64 = 0.95;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Queue {
    direction: Direction,
    bytes: f64,
    bytes_per_s: f64,
}

impl Queue {
    fn delay_ns(&self) -> f64 {
        self.bytes * 1e9 / self.bytes_per_s
    }
}

/// Returns the counter-experiment: CoDel in the queues of the link; if that is not possible, a slower load.
fn check(case: &CaseSummary) -> Option<CounterExperiment> {
    if let Some(experiment) = with_codel(case).filter(|_| !is_managed_by_codel(case)) {
        return Some(experiment);
    }
    if case.case.primary().connection_use == ConnectionUse::Shared {
        return None;
    }
    let goodput = |load: &Flow| case.flow(&load.id)?.one_way.as_ref()?.goodput_bytes_per_s;
    // One rate, the rate of the slowest load, applies to all loads.
    let slowest = case.case.loads().into_iter().filter_map(goodput).map(|goodput| goodput.value).reduce(f64::min)?;
    load_at(&case.case, CHECK_LOAD_SHARE * slowest * 8.0)
}

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    if case.case.replicate != 0 || case.case.loads().is_empty() {
        return None;
    }
    let under_load = case.under_load.as_ref()?;
    let (phases, added_ns) = (&under_load.phases, under_load.added_ns.p50?);
    let (idle_ns, loaded_ns) = (phases.idle.probe.latency_ns.p50?, phases.loaded.probe.latency_ns.p50?);
    let short_ns = if is_managed_by_codel(case) { MAX_SHORT_BY_CODEL_NS } else { MAX_SHORT_NS };
    if added_ns.value <= short_ns {
        return None;
    }
    let rounds: Vec<&Measured> = rounds_of(run, &case.id).into_iter().map(|(_, measured)| measured).collect();
    let over = |values: Vec<f64>| median_over(&values, over_points(case, run.plan.alpha));
    let (bytes, each_round) = each_round(case, &rounds)?;
    let delay_ns = over(each_round.iter().map(|queues| queues.iter().map(Queue::delay_ns).sum()).collect())?;
    let explained_ns = delay_ns.value.min(added_ns.value);
    if explained_ns < MIN_QUEUE_SHARE * added_ns.value {
        return None;
    }
    let added = [(keys::ADDED_P50, added_ns), (keys::IDLE_P50, idle_ns), (keys::LOADED_P50, loaded_ns)];
    let mut evidence = added.map(|(key, figure)| evidence_of(case, key, figure)).to_vec();
    for direction in load_directions(case) {
        let of = |of: fn(&Queue) -> f64| {
            let way = each_round.iter().flatten().filter(|queue| queue.direction == direction);
            over(way.map(of).collect())
        };
        let figures = [
            (bytes, of(|queue| queue.bytes)),
            (keys::LEAVING, of(|queue| queue.bytes_per_s)),
            (keys::BYTES_OVER_RATE, of(Queue::delay_ns)),
        ];
        let known = figures.into_iter().filter_map(|(key, figure)| Some((key, figure?)));
        evidence.extend(known.map(|(key, figure)| evidence_of(case, key, figure).of(direction.word())));
    }
    let check = check(case);
    // The change must remove the latency under load.
    let proved = check.as_ref().and_then(|check| judge_by_block(run, case, check, explained_ns, p50));
    let finding = with_share(&CARD, Severity::Warning, explained_ns / loaded_ns.value);
    let finding = finding.with(keys::QUEUE_DELAY, delay_ns.value);
    Some(Finding { evidence, proved, counter_experiment: check, ..finding })
}

/// Whether the queue of every loaded direction already has CoDel, so that it cannot be added.
fn is_managed_by_codel(case: &CaseSummary) -> bool {
    let shown = case.path.relay.as_ref().and_then(|relay| relay.shown.as_ref());
    shown.is_some_and(|shown| {
        load_directions(case).into_iter().all(|way| {
            let of = if way == Direction::Down { &shown.down } else { &shown.up };
            let mut queues = of.stages.iter().filter(|stage| stage.stage == QUEUE_STAGE);
            queues.any(|queue| queue.line_with_codel.is_none())
        })
    })
}

fn load_directions(case: &CaseSummary) -> Vec<Direction> {
    names::distinct(case.case.loads().iter().map(|flow| flow.direction))
}

/// Returns the queues of each round that has data: from the link, otherwise from the load's own TCP.
fn each_round(case: &CaseSummary, rounds: &[&Measured]) -> Option<(Key, Vec<Vec<Queue>>)> {
    let by = |of: fn(&CaseSummary, &Measured) -> Option<Vec<Queue>>| {
        let all: Vec<_> = rounds.iter().filter_map(|measured| of(case, measured)).collect();
        (!all.is_empty()).then_some(all)
    };
    let of_tcp = || by(tcp_queues).map(|all| (keys::IN_FLIGHT_BYTES, all));
    by(link_queues).map(|all| (keys::QUEUE_BYTES, all)).or_else(of_tcp)
}

fn link_queues(case: &CaseSummary, measured: &Measured) -> Option<Vec<Queue>> {
    let loaded = measured.phases.as_ref()?.loaded;
    let queue = |direction: Direction| {
        let bytes = queue_bytes(measured, direction, loaded)?;
        Some(Queue { direction, bytes, bytes_per_s: drained_bytes_per_s(measured, direction, loaded)? })
    };
    load_directions(case).into_iter().map(queue).collect()
}

fn tcp_queues(case: &CaseSummary, measured: &Measured) -> Option<Vec<Queue>> {
    let queue = |load: &Flow| {
        let direction = load.direction;
        let record = measured.flow(&load.id)?;
        let steady: Vec<_> =
            loaded_states(measured, record)?.filter(|state| state.delivered_bytes_per_s > 0).collect();
        let beyond = steady.iter().map(|state| {
            let path_bytes = state.delivered_bytes_per_s as f64 * state.least_round_trip_ns as f64 / 1e9;
            (state.in_flight_bytes as f64 - path_bytes).max(0.0)
        });
        let rates = steady.iter().map(|state| state.delivered_bytes_per_s as f64);
        let (bytes, rates): (Vec<f64>, Vec<f64>) = (beyond.collect(), rates.collect());
        Some(Queue { direction, bytes: median(&bytes)?, bytes_per_s: median(&rates)? })
    };
    case.case.loads().into_iter().map(queue).collect()
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Figure, SenderState};

    use super::*;
    use crate::fixture::links::over;
    use crate::fixture::under_load::{Beside, probed, probed_over_link};
    use crate::fixture::{Fixture, figure_of, pair, value};

    const MS: u64 = 1_000_000;

    fn codel() -> Case {
        over("rate=10mbit queue=256KiB codel=5ms/100ms delay=5ms", probed(&[Direction::Up]))
    }

    fn found_in(case: &Case, beside: Beside) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        fixture.all_beside(case, beside);
        fixture.findings("bufferbloat")
    }

    fn found(beside: Beside) -> Vec<Finding> {
        found_in(&probed_over_link(), beside)
    }

    #[test]
    fn a_queue_that_causes_the_latency_is_reported_with_bytes_and_rate() {
        // 212 500 B at 1.25 MB/s take 170 ms, of 174 ms that the load adds.
        let found = found(Beside::latencies(10 * MS, 184 * MS).queued(212_500));
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 170.0 / 184.0).abs() < 1e-9, "{}", found[0].share);
        let told = [keys::ADDED_P50, keys::QUEUE_BYTES, keys::LEAVING, keys::BYTES_OVER_RATE, keys::QUEUE_DELAY];
        assert_eq!(told.map(|key| value(&found[0], key)), [174e6, 212_500.0, 1.25e6, 170e6, 170e6]);
        assert_eq!(figure_of(&found[0], keys::QUEUE_BYTES, "up").map(|bytes| bytes.value), Some(212_500.0));
        assert_eq!(value(&found[0], keys::IDLE_P50), 10e6);
        assert_eq!(found[0].figure(keys::LOADED_P50).unwrap(), Figure::new(184e6, 184e6, 184e6));
        let added = found[0].evidence[0].value;
        assert_eq!((added.low, added.high), (Some(174e6), Some(174e6)));
    }

    #[test]
    fn the_check_is_codel_on_the_same_link() {
        let found = found(Beside::latencies(10 * MS, 184 * MS).queued(212_500));
        assert_eq!(pair(&found[0]), [probed_over_link(), codel()]);
    }

    #[test]
    fn a_small_rise_of_latency_is_not_bufferbloat() {
        // The added latency must exceed 10 ms, however long the path is.
        for (idle, loaded, count) in
            [(MS, 10 * MS, 0), (MS, 12 * MS, 1), (100 * MS, 109 * MS, 0), (100 * MS, 195 * MS, 1)]
        {
            // The bytes explain all of the added latency: 1 250 B take 1 ms.
            let queued = Beside::latencies(idle, loaded).queued((loaded - idle) / MS * 1250);
            assert_eq!(found(queued).len(), count, "{idle} {loaded}");
        }
    }

    #[test]
    fn a_queue_with_codel_is_short_until_far_above_its_target() {
        let found = |loaded_ns: u64| {
            let mut fixture = Fixture::new();
            let added = Beside::latencies(10 * MS, loaded_ns).queued((loaded_ns / MS - 10) * 1250);
            (0..6).for_each(|block| {
                fixture.beside_with(&probed_over_link(), block, added, |measured| {
                    measured.link.as_mut().unwrap().up.stages[0].line_with_codel = None;
                });
            });
            fixture.findings("bufferbloat")
        };
        assert_eq!(found(59 * MS), []);
        // CoDel in the queue of the unloaded way back would change nothing.
        let [own, limited] = pair(&found(61 * MS)[0]);
        assert_eq!(own, probed_over_link());
        assert_eq!(limited.flows[1].load.rate_per_s(), Some(9.12e6 / 8.0 / 1400.0));
    }

    #[test]
    fn among_several_cases_a_checked_case_is_reported() {
        let mut fixture = Fixture::new();
        let worse = probed_over_link().with(|case| case.primary_mut().load.set_sizes(100, 100));
        fixture.all_beside(&worse, Beside::latencies(10 * MS, 210 * MS).queued(250_000));
        fixture.all_beside(&probed_over_link(), Beside::latencies(10 * MS, 184 * MS).queued(212_500));
        fixture.all_beside(&codel(), Beside::latencies(10 * MS, 15 * MS).queued(6_000));
        let found = fixture.findings("bufferbloat").remove(0);
        assert_eq!(found.cases, [probed_over_link().id(), worse.id()]);
        assert_eq!(found.proved.unwrap().verdict, "confirmed");
    }

    #[test]
    fn a_queue_that_explains_less_than_half_of_the_added_latency_is_not_reported() {
        let added = Beside::latencies(10 * MS, 110 * MS);
        assert_eq!(found(added.queued(62_000)), [], "49.6 ms of 100");
        assert_eq!(found(added.queued(63_000)).len(), 1, "50.4 ms of 100");
        assert_eq!(found(added.queued(0)), []);
    }

    #[test]
    fn a_queue_explains_at_most_the_added_latency() {
        let found = found(Beside::latencies(10 * MS, 110 * MS).queued(1_250_000));
        assert!((found[0].share - 100.0 / 110.0).abs() < 1e-9, "{}", found[0].share);
        assert_eq!([keys::QUEUE_DELAY, keys::ADDED_P50].map(|key| value(&found[0], key)), [1e9, 100e6]);
    }

    #[test]
    fn the_queues_of_both_directions_add_up() {
        let link = "rate=10mbit queue=256KiB delay=5ms";
        // 40 ms each way explain the added 80 ms; one direction alone would be less than half.
        let queues = Some([(50_000, 1_250_000), (25_000, 625_000)]);
        let beside = Beside { queues, ..Beside::latencies(10 * MS, 95 * MS) };
        let both = found_in(&over(link, probed(&[Direction::Up, Direction::Down])), beside);
        assert!((both[0].share - 80.0 / 95.0).abs() < 1e-9, "{}", both[0].share);
        let of = |key, way: &str| figure_of(&both[0], key, way).unwrap().value;
        assert_eq!([of(keys::QUEUE_BYTES, "up"), of(keys::LEAVING, "up")], [50_000.0, 1.25e6]);
        assert_eq!([of(keys::QUEUE_BYTES, "down"), of(keys::LEAVING, "down")], [25_000.0, 625_000.0]);
        assert_eq!(value(&both[0], keys::QUEUE_DELAY), 80e6);
        assert_eq!(found_in(&over(link, probed(&[Direction::Down])), beside), []);
    }

    /// 250 KB in flight on a path with a capacity of 12.5 KB (10 ms at 1.25 MB/s): the excess is 237.5 KB or 190 ms.
    const STATE: SenderState = SenderState {
        at_ns: 0,
        in_flight_bytes: 250_000,
        not_sent_bytes: 0,
        round_trip_ns: 200 * MS,
        least_round_trip_ns: 10 * MS,
        delivered_bytes_per_s: 1_250_000,
    };

    #[test]
    fn without_a_link_the_loads_tcp_is_used_and_the_check_limits_the_load() {
        let beside = Beside { state: Some(STATE), ..Beside::latencies(10 * MS, 210 * MS) };
        let found = found_in(&probed(&[Direction::Up]), beside);
        assert!((found[0].share - 190.0 / 210.0).abs() < 1e-9, "{}", found[0].share);
        assert_eq!(value(&found[0], keys::IN_FLIGHT_BYTES), 237_500.0);
        assert_eq!(found[0].figure(keys::QUEUE_BYTES), None);
        // 95 % of 1.2 MB/s are 9.12 Mbit/s.
        let limited = &pair(&found[0])[1].flows[1].load;
        assert_eq!((limited.size_bytes(), limited.rate_per_s()), (1400, Some(9.12e6 / 8.0 / 1400.0)));
    }

    #[test]
    fn tcp_without_a_queue_and_a_path_without_a_load_are_not_findings() {
        let beside = |in_flight_bytes| Beside {
            state: Some(SenderState { in_flight_bytes, ..STATE }),
            ..Beside::latencies(10 * MS, 210 * MS)
        };
        assert_eq!(found_in(&probed(&[Direction::Up]), beside(12_500)), []);
        assert_eq!(found_in(&probed(&[Direction::Up]), Beside { state: None, ..beside(0) }), []);
        assert_eq!(
            found_in(&over("rate=10mbit", probed(&[])), Beside::latencies(10 * MS, 184 * MS).queued(212_500)),
            []
        );
    }

    #[test]
    fn codel_confirms_the_finding_if_it_shortens_the_latency_and_otherwise_refutes_it() {
        let verdict = |with_codel_ns: u64, blocks: u32| {
            let mut fixture = Fixture::new();
            for block in 0..blocks {
                fixture.beside(&probed_over_link(), block, Beside::latencies(10 * MS, 184 * MS).queued(212_500));
                let short = Beside::latencies(10 * MS, with_codel_ns).queued(6_000);
                fixture.beside(&codel(), block, short);
            }
            let found = fixture.findings("bufferbloat").remove(0);
            (found.proved.unwrap().verdict, found.severity)
        };
        assert_eq!(verdict(20 * MS, 6), ("confirmed".to_owned(), Severity::Warning));
        assert_eq!(verdict(170 * MS, 6), ("refuted".to_owned(), Severity::Note));
        // A full reduction needs no interval; a reduction by half does.
        assert_eq!(verdict(20 * MS, 3).0, "confirmed");
        assert_eq!(verdict(90 * MS, 3).0, "cannot-tell");
    }

    /// `link-saturated` would report the same queue again, because the load's packets also wait in it.
    #[test]
    fn the_saturated_link_is_reported_once() {
        let mut fixture = Fixture::new();
        fixture.all_beside(&probed_over_link(), Beside::latencies(10 * MS, 184 * MS).queued(212_500));
        for record in &mut fixture.rounds {
            let hairpin_model::round::Outcome::Measured(measured) = &mut record.outcome else { continue };
            let queue = &mut measured.link.as_mut().unwrap().up.stages[0];
            (queue.time_inside_ns, queue.packets.entered, queue.packets.out) = (170 * MS * 100, 100, 100);
        }
        let codes: Vec<String> = crate::findings(&fixture.run()).into_iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["bufferbloat"]);
    }
}
