//! Whatever the user types: no panic, and no order that its card does not allow.

mod common;

use std::collections::BTreeSet;

use common::{Plan, ground, plan_on};
use hairpin_experiments::experiments::ALL;
use hairpin_experiments::sequence::permutation;
use hairpin_model::card::{AnsweredBy, Reach};
use hairpin_model::case::{CpuIdle, Ends, LOOPBACK, Pattern, Placement, Waiting};
use hairpin_model::ground::Ground;
use hairpin_model::round::{Extent, RoundOrder};
use proptest::prelude::*;

const DAY_NS: u64 = 86_400_000_000_000;

/// Says again, in its own words, what an order must be; it shares no code with the rules under test.
fn assert_valid(order: &RoundOrder, ground: &Ground) {
    let case = &order.case;
    let label = case.label();
    let candidate = ground.candidate(&case.transport).expect("a known transport");
    let card = &candidate.card;
    assert!(candidate.can_run.is_ok(), "{label} cannot run");
    assert!(card.waitings.contains(&case.waiting), "{label}");
    assert!(case.options.iter().all(|(name, _)| card.options.contains(&name)), "{label}");
    for size in [case.size_bytes, case.reply_size_bytes] {
        assert!(size >= card.min_message_bytes.max(1) && size <= card.max_message_bytes.min(1 << 30), "{label}");
    }
    assert!(case.placement != Placement::Apart || ground.cpus.len() >= 2, "{label}");
    assert!(case.cpu_idle == CpuIdle::Deep || ground.may_keep_cpus_awake.is_ok(), "{label}");
    assert_eq!(case.link, LOOPBACK);
    if card.answered_by == AnsweredBy::Kernel {
        assert!(case.size_bytes == case.reply_size_bytes && case.plant.is_none(), "{label}");
        assert!(case.ends == Ends::Processes && case.placement != Placement::Apart, "{label}");
    } else {
        let may_spin = case.placement != Placement::Together && ground.cpus.len() >= 2;
        assert!(case.waiting != Waiting::Spin || may_spin, "{label}");
        assert!(card.reach != Reach::Process || case.ends == Ends::Threads, "{label}");
    }
    if let Pattern::Paced { rate_per_s } = case.pattern {
        assert!(rate_per_s > 0.0 && rate_per_s <= 1e7, "{label}");
    }
    match order.extent {
        Extent::Count(count) => assert!((1..=10_000_000_000).contains(&count)),
        Extent::DurationNs(duration_ns) => assert!((1..=DAY_NS).contains(&duration_ns)),
    }
    assert!(order.timeout_ns > 0);
}

fn assert_consistent(plan: &Plan, ground: &Ground) {
    assert!(!plan.cases.is_empty() && plan.rounds.len() <= 100_000);
    assert_eq!(plan.rounds.len() % plan.cases.len(), 0);
    let ids: BTreeSet<String> = plan.cases.iter().map(hairpin_model::case::Case::id).collect();
    assert_eq!(ids.len(), plan.cases.len(), "no case twice");
    for block in plan.rounds.chunks(plan.cases.len()) {
        assert_eq!(block.iter().map(|order| order.case.id()).collect::<BTreeSet<_>>(), ids);
    }
    plan.rounds.iter().take(plan.cases.len()).for_each(|order| assert_valid(order, ground));
}

/// A value for a knob: often a fitting one, sometimes anything.
fn text() -> impl Strategy<Value = String> {
    let fitting = [
        "all",
        "none",
        "block",
        "poll,spin",
        "together",
        "apart,free",
        "processes",
        "threads",
        "tcp,udp",
        "memory",
        "icmp",
        "4",
        "1",
        "1,64KiB",
        "1GiB",
        "0",
        "1k",
        "100",
        "0.5",
        "2M",
        "40ms",
        "1s",
        "2s",
        "auto",
        "nodelay=on",
        "sndbuf=4096,nodelay=off",
        "congestion=cubic",
        "loopback",
        "deep",
        "shallow,deep",
        "on",
        "off",
        "sleep=5ms/100",
        "busy=1300ns",
        "3",
    ];
    prop_oneof![6 => prop::sample::select(fitting.to_vec()).prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn some_ground() -> impl Strategy<Value = Ground> {
    (1_usize..3, any::<bool>(), prop::collection::vec(any::<bool>(), 10)).prop_map(|(cpus, may, can_run)| {
        let mut ground = ground();
        ground.cpus.truncate(cpus);
        let why = || hairpin_model::card::WhyNot { reason: "refused".to_owned(), hint: "run as root".to_owned() };
        if !may {
            ground.may_keep_cpus_awake = Err(why());
        }
        for (candidate, can_run) in ground.candidates.iter_mut().zip(can_run) {
            if !can_run {
                candidate.can_run = Err(why());
            }
        }
        ground
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_panics_and_every_order_is_valid(
        which in 0..ALL.len(),
        turned in prop::collection::btree_map(0_usize..32, text(), 0..5),
        ground in some_ground(),
    ) {
        let experiment = ALL[which];
        let knobs = experiment.knobs();
        let flags: Vec<(&str, &str)> = turned
            .iter()
            .filter_map(|(index, text)| knobs.get(*index).map(|knob| (knob.name, text.as_str())))
            .collect();
        match plan_on(&ground, experiment, &flags) {
            Ok(plan) => assert_consistent(&plan, &ground),
            Err(refused) => {
                prop_assert!(!refused.what.is_empty() && !refused.hint.is_empty());
                prop_assert!(refused.to_string().ends_with(')'), "{}", refused);
            }
        }
    }

    #[test]
    fn a_permutation_holds_every_index_once(len in 0_usize..60, seed: u64, block: u32) {
        let order = permutation(len, seed, block);
        prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), (0..len).collect::<BTreeSet<_>>());
        prop_assert_eq!(order.len(), len);
        prop_assert_eq!(order, permutation(len, seed, block));
    }
}

/// The property above would prove little if nearly everything were refused.
#[test]
fn fitting_values_are_mostly_accepted() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut accepted = 0;
    for _ in 0..300 {
        let transports = prop::sample::subsequence(ground().names(), 1..5).new_tree(&mut runner).unwrap().current();
        let waiting =
            prop::sample::select(vec!["block", "all", "poll,block"]).new_tree(&mut runner).unwrap().current();
        let size = prop::sample::select(vec!["1", "4,100", "1000"]).new_tree(&mut runner).unwrap().current();
        let flags = [("transport", transports.join(",")), ("waiting", waiting.to_owned()), ("size", size.to_owned())];
        let flags: Vec<(&str, &str)> = flags.iter().map(|(name, text)| (*name, text.as_str())).collect();
        if let Ok(plan) = plan_on(&ground(), ALL[1], &flags) {
            assert_consistent(&plan, &ground());
            accepted += 1;
        }
    }
    assert!(accepted > 250, "{accepted} of 300");
}
