//! Arbitrary input never causes a panic, nor a round order that the transport's card does not allow.

use std::collections::BTreeSet;

use hairpin_experiments::Done;

use crate::common::{Plan, SATELLITE, capabilities, every, measured, plan_on, running, turned};
use hairpin_experiments::sequence::permutation;
use hairpin_experiments::{Knob, KnobKind};
use hairpin_model::case::LOOPBACK;
use hairpin_model::flow::{Direction, Pacing};
use hairpin_model::options::OptionName;
use hairpin_model::round::Purpose;
use hairpin_model::{
    AnsweredBy, CpuIdle, EndKind, Extent, HostCapabilities, Load, Placement, Reach, Remedy, RoundOrder, RoundRecord,
    Waiting,
};
use proptest::prelude::*;

const DAY_NS: u64 = 86_400_000_000_000;

/// Asserts that a round order is valid, without using the code under test.
fn assert_valid(order: &RoundOrder, capabilities: &HostCapabilities) {
    let case = &order.case;
    let label = case.label();
    let candidate = capabilities.candidate(&case.primary().transport).expect("a known transport");
    let card = &candidate.card;
    assert!(candidate.can_run.is_ok(), "{label} cannot run");
    assert!(card.waitings.contains(&case.ends.waiting), "{label}");
    assert!(case.primary().options.iter().all(|(name, _)| card.options.contains(&name)), "{label}");
    let load = &case.primary().load;
    let is_one_way = matches!(load, Load::Messages { .. } | Load::Stream { .. } | Load::Offered { .. });
    let reply = (!is_one_way).then(|| load.reply_size_bytes());
    for size in [Some(load.size_bytes()), reply].into_iter().flatten() {
        assert!(size >= card.min_message_bytes.max(1) && size <= card.max_message_bytes.min(1 << 30), "{label}");
    }
    assert!(case.ends.placement != Placement::CrossCpu || capabilities.cpus.len() >= 2, "{label}");
    assert!(case.ends.cpu_idle == CpuIdle::Deep || capabilities.may_keep_cpus_awake.is_ok(), "{label}");
    if case.path.link == LOOPBACK {
        assert!(case.path.name.is_none() && order.link_seed == 0, "{label}");
    } else {
        assert_eq!(card.reach, Reach::Network, "{label}");
        assert!((capabilities.links.relay)().is_ok(), "{label}");
    }
    if is_one_way {
        let loses_by_connection = case.primary().wires() > 1 && case.path.link != LOOPBACK && !card.reliable;
        assert!(card.answered_by == AnsweredBy::Server && !loses_by_connection, "{label}");
        assert!(case.primary().direction != Direction::RoundTrip && case.injected_fault.is_none(), "{label}");
        let blocks = case.ends.waiting == Waiting::Block;
        assert!(!blocks || (case.primary().wires() == 1 && card.waitings.contains(&Waiting::Poll)), "{label}");
        assert!(!card.boundaries || case.primary().load.size_bytes() >= 8, "{label}");
        assert!(case.primary().connections == 1 || card.many_connections, "{label}");
        assert!(case.primary().streams == 1 || card.many_streams, "{label}");
        assert!((1..=1024).contains(&load.batch()), "{label}");
        if let Load::Offered { pacing: Pacing::Kernel, .. } = load {
            assert!(case.primary().options.get(OptionName::PacingRate).is_some(), "{label}");
        }
    } else {
        let waits_together = card.many_connections && card.waitings.contains(&Waiting::Epoll);
        // A control loop polls one connection after another, so its client may block on each.
        let joins = match load.periodic() {
            Some(_) => card.many_connections,
            None => waits_together && case.ends.waiting != Waiting::Block,
        };
        assert!(case.primary().wires() == 1 || joins, "{label}");
        assert_eq!(case.primary().direction, Direction::RoundTrip, "{label}");
    }
    if card.answered_by == AnsweredBy::Kernel {
        assert_eq!(load.size_bytes(), load.reply_size_bytes(), "{label}");
        assert_eq!(case.injected_fault, None, "{label}");
        assert!(case.ends.kind == EndKind::Processes && case.ends.placement != Placement::CrossCpu, "{label}");
    } else {
        let may_spin = case.ends.placement != Placement::SameCpu && capabilities.cpus.len() >= 2;
        assert!(case.ends.waiting != Waiting::Spin || may_spin, "{label}");
        assert!(card.reach != Reach::Process || case.ends.kind == EndKind::Threads, "{label}");
    }
    if let Some(rate_per_s) = load.rate_per_s() {
        assert!(rate_per_s > 0.0 && rate_per_s <= if is_one_way { 1e8 } else { 1e7 }, "{label}");
    }
    if let Some(exchange) = load.exchange() {
        assert!(!card.boundaries && exchange.gap_ns < order.timeout_ns, "{label}");
        assert_eq!(load.size_bytes(), exchange.writes.total_bytes(), "{label}");
        let asks_for_nodelay = exchange.remedy == Remedy::Nodelay || exchange.remedy == Remedy::More;
        assert!(!asks_for_nodelay || card.options.contains(&OptionName::Nodelay), "{label}");
        assert!(exchange.pipeline == 1 || exchange.pipeline * load.reply_size_bytes() <= 32 << 10, "{label}");
    }
    match order.extent {
        Extent::Count(count) => assert!((1..=10_000_000_000).contains(&count)),
        Extent::DurationNs(duration_ns) => assert!((1..=DAY_NS).contains(&duration_ns)),
    }
    assert!(order.timeout_ns > 0);
}

fn assert_consistent(plan: &Plan, capabilities: &HostCapabilities) {
    assert!(!plan.cases.is_empty() && plan.rounds.len() <= 20_000);
    let ids: BTreeSet<String> = plan.cases.iter().map(hairpin_model::case::Case::id).collect();
    assert_eq!(ids.len(), plan.cases.len(), "no case twice");
    for block in plan.rounds.chunk_by(|one, next| one.block == next.block) {
        assert_eq!(block.iter().map(|order| order.case.id()).collect::<BTreeSet<_>>(), ids);
        let timed = block.iter().filter(|order| order.purpose == Purpose::Timed).count();
        let stamped = block.iter().filter(|order| order.purpose == Purpose::Stamped).count();
        assert_eq!((timed, stamped + timed), (ids.len(), block.len()), "one timed round of each case");
        assert!([0, timed].contains(&stamped), "every case is stamped, or none");
        assert!(block.iter().all(|order| (order.purpose == Purpose::Stamped) == order.sample_every.is_some()));
    }
    plan.rounds.iter().take(2 * plan.cases.len()).for_each(|order| assert_valid(order, capabilities));
    let emulated = plan.rounds.iter().filter(|order| order.case.is_emulated());
    let run_seeds: BTreeSet<u64> = emulated.map(|order| order.link_seed - u64::from(order.block)).collect();
    assert!(run_seeds.len() <= 1, "link seeds are the run's seed plus the block number: {run_seeds:?}");
}

/// Asserts that the second step has equally many traced and untraced rounds of the plan's cases, in separate blocks.
fn assert_evidence(plan: &Plan, evidence: &Plan, capabilities: &HostCapabilities) {
    let last = plan.rounds.iter().map(|order| order.block).max().unwrap();
    let of = |purpose| evidence.rounds.iter().filter(|order| order.purpose == purpose).count();
    assert!(evidence.cases.is_empty() && !evidence.rounds.is_empty());
    // A quick run has traced rounds only.
    assert!([0, of(Purpose::Traced)].contains(&of(Purpose::Untraced)) && of(Purpose::Timed) == 0);
    for order in &evidence.rounds {
        assert!(order.block > last && plan.cases.contains(&order.case), "{}", order.case.label());
        assert_valid(order, capabilities);
    }
}

/// Values that a knob of this kind accepts.
fn fitting(kind: KnobKind) -> Vec<&'static str> {
    match kind {
        KnobKind::Switch => vec!["on", "off"],
        KnobKind::Words(words) => words.iter().copied().chain(["all"]).collect(),
        KnobKind::Transport => {
            vec!["all", "tcp", "icmp", "memory", "udp,pipe,tcp", "shm,memory,icmp", "unix-stream,udp"]
        }
        KnobKind::OptionSet => {
            vec!["all", "none", "nodelay=on", "sndbuf=4096,rcvbuf=8192", "congestion=cubic", "tos=4"]
        }
        KnobKind::Link => vec!["loopback", "bridged-vm", "delay=2ms", "satellite", "all", SATELLITE],
        KnobKind::Sysctl => vec!["net.ipv4.tcp_sack=0,1", "net.ipv4.tcp_wmem=4096 8192 16384", "net.core.rmem_max=1"],
        KnobKind::Whole { .. } => vec!["1", "2", "3", "40"],
        KnobKind::Bytes { .. } => vec!["1", "4", "1,64KiB", "65508", "1GiB", "4,200001"],
        KnobKind::Duration { .. } => vec!["40ms", "1s"],
        KnobKind::Share => vec!["2%", "0.1"],
        KnobKind::Rate { .. } => vec!["0.5", "100,1k", "2M"],
        KnobKind::RateOr(word, _) => vec![word, "0.5", "100,1k", "2M"],
        KnobKind::BitRateOr(word) => vec![word, "500kbit", "1mbit,9.5mbit", "10gbit"],
        KnobKind::Congestion => vec!["cubic", "cubic,reno", "none-such"],
        KnobKind::Arrivals => vec!["fixed", "poisson", "burst=8", "fixed,burst=2"],
        KnobKind::ExtentOr(word) => vec![word, "0", "500", "40ms"],
        KnobKind::InjectedFault => vec!["sleep=5ms/100", "busy=1300ns"],
        KnobKind::Writes => vec!["100x2", "4,3210", "200", "3x64KiB,1"],
        KnobKind::Remedy => vec!["all", "default", "nodelay,cork", "one-write,batch=3", "batch=10000,more"],
        KnobKind::OnOff => vec!["on", "off"],
    }
}

/// Some knobs of an experiment, with values that are nearly always valid, and sometimes arbitrary text.
pub(crate) fn flags() -> impl Strategy<Value = (usize, Vec<(&'static str, String)>)> {
    (0..every().len()).prop_flat_map(|which| {
        let knobs = every()[which].knobs;
        let turned = prop::sample::subsequence(knobs.to_vec(), 0..knobs.len().min(7));
        let texts = turned.prop_flat_map(|turned| {
            let text = |knob: &Knob| {
                let name = knob.name;
                // Alone, most ways to wait fit few experiments.
                let fitting = if name == "waiting" {
                    vec!["block", "poll", "spin", "all", "block,epoll,uring", "spin,async,busy-poll,spin-then-block"]
                } else {
                    fitting(knob.kind)
                };
                let fitting = prop::sample::select(fitting).prop_map(str::to_owned);
                prop_oneof![19 => fitting, 1 => ".{0,12}"].prop_map(move |text| (name, text))
            };
            turned.iter().map(text).collect::<Vec<_>>()
        });
        texts.prop_map(move |texts| (which, texts))
    })
}

fn some_capabilities() -> impl Strategy<Value = HostCapabilities> {
    let may = (any::<bool>(), prop::bool::weighted(0.8));
    (1_usize..3, may, prop::collection::vec(any::<bool>(), 12)).prop_map(|(cpus, (may, may_relay), can_run)| {
        let mut capabilities = capabilities();
        capabilities.cpus.truncate(cpus);
        if !may {
            capabilities.may_keep_cpus_awake = Err(refused());
        }
        if !may_relay {
            capabilities.links.relay = || Err(refused());
        }
        for (candidate, can_run) in capabilities.candidates.iter_mut().zip(can_run) {
            if !can_run {
                candidate.can_run = Err(refused());
            }
        }
        capabilities
    })
}

/// Plans the flags and checks the result; returns whether they were accepted.
fn plan_and_check(which: usize, flags: &[(&str, String)], capabilities: &HostCapabilities) -> bool {
    let flags: Vec<(&str, &str)> = flags.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let experiment = every()[which];
    match plan_on(capabilities, &experiment, &flags) {
        Ok(plan) => {
            assert_consistent(&plan, capabilities);
            let knobs = turned(&experiment, &flags).unwrap();
            let next = |rounds: &[RoundRecord]| {
                running(experiment.next(&knobs, capabilities, &Done { rounds, half_width: Some(0.0) }).unwrap())
            };
            let done = measured(&plan.rounds);
            if let Some(evidence) = next(&done) {
                assert_evidence(&plan, &evidence, capabilities);
                assert_eq!(next(&[done, measured(&evidence.rounds)].concat()), None, "the experiment ends");
            }
            true
        }
        Err(refused) => {
            assert!(!refused.what.is_empty() && !refused.hint.is_empty(), "{refused:?}");
            false
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_every_order_is_valid((which, flags) in flags(), capabilities in some_capabilities()) {
        plan_and_check(which, &flags, &capabilities);
    }

    #[test]
    fn a_permutation_holds_every_index_once(len in 0_usize..60, seed: u64, block: u32) {
        let order = permutation(len, seed, block);
        prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), (0..len).collect::<BTreeSet<_>>());
        prop_assert_eq!(order.len(), len);
        prop_assert_eq!(order, permutation(len, seed, block));
    }
}

/// The property above would prove little if nearly all flags were refused.
#[test]
fn many_random_flags_are_accepted() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let accepted = (0..300).filter(|_| {
        let (which, flags) = flags().new_tree(&mut runner).unwrap().current();
        let capabilities = some_capabilities().new_tree(&mut runner).unwrap().current();
        plan_and_check(which, &flags, &capabilities)
    });
    let accepted = accepted.count();
    assert!(accepted > 120, "{accepted} of 300");
}

fn refused() -> hairpin_model::card::WhyNot {
    hairpin_model::card::WhyNot::new("refused", "run as root")
}
