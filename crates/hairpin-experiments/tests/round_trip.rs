//! `round-trip`: its cases, skipped and refused values with their reasons, and the order of rounds.

use std::collections::BTreeSet;

use crate::common::{capabilities, capabilities_without, failed, measured, next, plan_on, refusal, round_trip};
use hairpin_experiments::budget::MIN_BLOCKS;
use hairpin_experiments::experiments::round_trip::{ROUND_TRIP, WARM_UP_MESSAGES};
use hairpin_experiments::warm_up::WARM_UP_NS;
use hairpin_experiments::{Done, Knobs};
use hairpin_model::round::Purpose;
use hairpin_model::{EndKind, Extent, InjectedFault};

#[test]
fn without_flags_every_transport_is_measured_once_in_each_block() {
    let plan = round_trip(&[]).unwrap();
    let names: Vec<&str> = plan.cases.iter().map(|case| case.primary().transport.as_str()).collect();
    assert_eq!(names, capabilities().names());
    assert!(plan.rounds.len() as u64 >= MIN_BLOCKS * plan.cases.len() as u64);
    assert!(plan.skipped.is_empty(), "{:?}", plan.skipped);
    let order = plan.rounds.iter().find(|order| order.case.primary().transport == "tcp").unwrap();
    assert_eq!((order.extent, order.warm_up), (Extent::Count(1250), Extent::Count(WARM_UP_MESSAGES)));
    assert_eq!((order.timeout_ns, order.keep_samples, order.port), (2_000_000_000, 100_000, 0));
    assert!((80_000_000_000..90_000_000_000).contains(&order.deadline_ns), "a minute plus ten time-outs and rounds");
    assert!(order.case.primary().options.is_empty(), "the kernel's default of TCP_NODELAY applies");
}

#[test]
fn kernel_settings_combine_and_each_block_has_every_combination() {
    let (sack, stamps) = ("net.ipv4.tcp_sack=0,1,0", "net.ipv4.tcp_timestamps=0,1");
    let plan = round_trip(&[("transport", "tcp"), ("rounds", "2"), ("sysctl", sack), ("sysctl", stamps)]).unwrap();
    let labels: Vec<String> = plan.cases.iter().map(|case| case.sysctls.to_string()).collect();
    let expected = ["0 0", "0 1", "1 0", "1 1"].map(|pair| {
        let (one, other) = pair.split_once(' ').unwrap();
        format!("net.ipv4.tcp_sack={one} net.ipv4.tcp_timestamps={other}")
    });
    assert_eq!(labels, expected, "without duplicates");
    for block in 0..2 {
        let of_block = plan.rounds.iter().filter(|order| order.block == block);
        assert_eq!(of_block.map(|order| order.case.id()).collect::<BTreeSet<_>>().len(), 4);
    }
    let refused = |value: &str| refusal(&[("transport", "tcp"), ("sysctl", value)]);
    assert!(refused("net.core.rmem_max=1,2").contains("cannot be changed for a single round"));
    assert!(refused("net.ipv4..x=1").contains("is not a kernel setting"));
    let twice = [("transport", "tcp"), ("sysctl", "net.ipv4.tcp_sack=0"), ("sysctl", "net.ipv4.tcp_sack=1")];
    assert!(refusal(&twice).contains("--sysctl net.ipv4.tcp_sack is given twice"));
    let many = (0..2000).map(|value| value.to_string()).collect::<Vec<_>>().join(",");
    let (one, other) = (format!("net.ipv4.tcp_sack={many}"), format!("net.ipv4.tcp_timestamps={many}"));
    let too_many = [("transport", "tcp"), ("sysctl", one.as_str()), ("sysctl", other.as_str())];
    assert!(refusal(&too_many).contains("more than"));
}

#[test]
fn the_experiment_ends_after_its_timed_rounds() {
    let flags = [("transport", "tcp")];
    let order = round_trip(&flags).unwrap().only_order().clone();
    assert_eq!(next(&ROUND_TRIP, &flags, &failed(&[order])), None);
}

/// Messages wait for ACKs only in an open loop, which may send before the previous message is acknowledged.
#[test]
fn an_open_loop_over_tcp_has_evidence_rounds_after_its_timed_rounds() {
    let after = |flags: &[(&str, &str)]| next(&ROUND_TRIP, flags, &measured(&round_trip(flags).unwrap().rounds));
    let plan = after(&[("transport", "tcp,udp"), ("rate", "2000"), ("rounds", "3")]).unwrap();
    assert_eq!(plan.cases.len(), 0);
    assert_eq!(plan.rounds.len(), 6, "three blocks of a traced and an untraced round of tcp");
    for order in &plan.rounds {
        let flow = order.case.primary();
        assert_eq!((flow.transport.as_str(), flow.load.rate_per_s()), ("tcp", Some(2000.0)));
        assert_eq!((order.extent, order.warm_up), (Extent::Count(800), Extent::Count(0)));
        assert!(order.block >= 3, "evidence blocks have different numbers than timed blocks");
    }
    let count = |purpose| plan.rounds.iter().filter(|order| order.purpose == purpose).count();
    assert_eq!([Purpose::Traced, Purpose::Untraced].map(count), [3, 3]);
    let messages = |rate| after(&[("transport", "tcp"), ("rate", rate)]).map(|plan| plan.rounds[0].extent);
    assert_eq!(messages("100"), Some(Extent::Count(40)));
    assert_eq!(messages("2.5"), Some(Extent::Count(3)));
    assert_eq!(messages("2"), None, "the interval is longer than any delayed ACK");
    assert_eq!(after(&[("transport", "tcp"), ("rate", "2000"), ("trace", "off")]), None);
    assert_eq!(after(&[("transport", "tcp")]), None, "a closed loop");
    let flags = [("transport", "tcp"), ("rate", "2000")];
    let all = [round_trip(&flags).unwrap().rounds, after(&flags).unwrap().rounds].concat();
    assert_eq!(next(&ROUND_TRIP, &flags, &measured(&all)), None);
}

#[test]
fn every_block_has_all_cases_in_a_different_order() {
    let plan = round_trip(&[("rounds", "20")]).unwrap();
    let all: BTreeSet<String> = plan.cases.iter().map(hairpin_model::case::Case::id).collect();
    let mut orders = BTreeSet::new();
    for (number, block) in plan.rounds.chunks(plan.cases.len()).enumerate() {
        assert!(block.iter().all(|order| order.block as usize == number));
        let ids: Vec<String> = block.iter().map(|order| order.case.id()).collect();
        assert_eq!(ids.iter().cloned().collect::<BTreeSet<_>>(), all);
        orders.insert(ids);
    }
    assert_eq!(orders.len(), 20, "20 blocks of 12 cases have 20 different orders");
}

#[test]
fn the_order_depends_only_on_the_seed() {
    let with = |seed: &str| round_trip(&[("seed", seed)]).unwrap().rounds;
    assert_eq!(with("1"), with("1"));
    assert_ne!(with("1"), with("2"));
}

#[test]
fn lists_are_swept_in_the_order_given_and_each_value_once() {
    let plan = round_trip(&[("transport", "udp,tcp,udp"), ("size", "8,4,8"), ("placement", "cross-cpu")]).unwrap();
    assert_eq!(
        plan.labels(),
        ["udp block cross-cpu 8 B", "udp block cross-cpu", "tcp block cross-cpu 8 B", "tcp block cross-cpu"]
    );
}

#[test]
fn each_reply_size_and_each_rate_is_a_case() {
    let plan = round_trip(&[("transport", "tcp"), ("reply-size", "4,100"), ("rate", "1k,2k")]).unwrap();
    let labels = ["tcp block same-cpu 1000/s", "tcp block same-cpu 2000/s"].map(str::to_owned).to_vec();
    assert_eq!(plan.labels()[..2], labels);
    assert_eq!(plan.labels()[2..], ["tcp block same-cpu 4/100 B 1000/s", "tcp block same-cpu 4/100 B 2000/s"]);
    assert_eq!(plan.cases[0].primary().load.rate_per_s(), Some(1000.0));
}

#[test]
fn all_takes_every_value_and_skips_impossible_ones_with_the_reason() {
    let plan = round_trip(&[("transport", "tcp"), ("waiting", "all"), ("placement", "all")]).unwrap();
    assert_eq!(plan.cases.len(), 11, "{:?}", plan.labels());
    let skipped: Vec<_> =
        plan.skipped.iter().map(|skipped| (skipped.case.as_deref().unwrap(), &*skipped.reason)).collect();
    let reason = "both ends share one CPU, so a spinning end would keep the other from running (hint: use --placement \
         cross-cpu, or --waiting block)";
    let expected = [
        ("tcp block same-core and 2 more", "one thread (hint: use --placement cross-cpu)"),
        ("tcp block same-node and 2 more", "one cache (hint: use --placement cross-cpu)"),
        ("tcp block cross-node and 2 more", "one node (hint: use --placement cross-cpu)"),
        ("tcp spin same-cpu", reason),
    ];
    assert_eq!(skipped, expected, "a placement that the machine lacks is skipped with that reason");
}

#[test]
fn there_is_one_skip_per_transport_and_reason() {
    let plan = round_trip(&[("option", "nodelay=on"), ("size", "4,8,100000")]).unwrap();
    assert_eq!(plan.labels().len(), 9, "only the three TCP transports have the option; each has three sizes");
    let pipe: Vec<_> = plan.skipped.iter().filter(|skipped| skipped.transport == "pipe").collect();
    assert_eq!(pipe.len(), 1, "{pipe:?}");
    assert_eq!(pipe[0].case, None, "all cases of pipe");
    assert_eq!(pipe[0].reason, "it has no option `nodelay` (hint: omit --option)");
    let plan = round_trip(&[("transport", "udp"), ("size", "4,70000,80000")]).unwrap();
    let cases: Vec<_> = plan.skipped.iter().map(|skipped| skipped.case.as_deref().unwrap()).collect();
    assert_eq!(cases, ["udp block same-cpu 70000 B", "udp block same-cpu 80000 B"], "each size has its own reason");
}

#[test]
fn cases_with_the_same_reason_are_one_skip() {
    let plan = round_trip(&[("transport", "tcp"), ("waiting", "block,spin"), ("size", "4,8,16")]).unwrap();
    assert_eq!(plan.skipped.len(), 1);
    assert_eq!(plan.skipped[0].case.as_deref(), Some("tcp spin same-cpu and 2 more"));
}

#[test]
fn options_are_compared_as_sets() {
    let plan = round_trip(&[("transport", "tcp"), ("option", "none")]).unwrap();
    assert_eq!(plan.labels(), ["tcp block same-cpu"]);
    let every = round_trip(&[("transport", "tcp"), ("option", "all")]).unwrap();
    assert_eq!(every.labels()[0], "tcp block same-cpu", "the empty set comes first");
    assert!(every.labels().contains(&"tcp block same-cpu nodelay=on".to_owned()));
    assert!(every.cases.iter().all(|case| case.primary().options.iter().count() <= 1), "one option per set");
    assert!(!every.labels().iter().any(|label| label.contains("cork")), "cork has no trial value");
    let pipe = round_trip(&[("transport", "pipe"), ("option", "all")]).unwrap();
    assert_eq!((pipe.labels(), pipe.skipped), (vec!["pipe block same-cpu".to_owned()], vec![]));
}

#[test]
fn a_congestion_control_must_be_available() {
    let text = refusal(&[("transport", "tcp"), ("option", "congestion=vegas")]);
    let expected = "cannot run tcp block same-cpu congestion=vegas: congestion control `vegas` is not available here \
                    (hint: one of bbr, cubic, reno)";
    assert_eq!(text, expected);
}

#[test]
fn busy_polling_is_refused_without_a_device_queue() {
    for link in ["loopback", "bridged-vm"] {
        let text = refusal(&[("transport", "tcp"), ("option", "busy-poll=50"), ("link", link)]);
        assert!(text.contains("has a device queue that SO_BUSY_POLL could poll (hint: omit busy-poll; "), "{text}");
    }
    let plan = round_trip(&[("transport", "tcp"), ("option", "busy-poll=0")]).unwrap();
    assert_eq!(plan.labels(), ["tcp block same-cpu busy-poll=0"]);
    let all = round_trip(&[("transport", "tcp"), ("option", "all")]).unwrap();
    assert!(!all.labels().iter().any(|label| label.contains("busy-poll")) && all.skipped.is_empty(), "{all:?}");
}

#[test]
fn memory_runs_as_threads_unless_processes_are_given() {
    assert_eq!(round_trip(&[("transport", "memory")]).unwrap().cases[0].ends.kind, EndKind::Threads);
    let plan = round_trip(&[("transport", "memory,shm"), ("ends", "processes")]).unwrap();
    assert_eq!(plan.labels(), ["shm block same-cpu"]);
    assert_eq!(plan.skipped[0].transport, "memory");
    assert!(plan.skipped[0].reason.contains("two threads of one process only"));
    let all = round_trip(&[("transport", "memory"), ("ends", "all")]).unwrap();
    assert_eq!((all.cases.len(), all.skipped.len()), (1, 1));
}

#[test]
fn a_transport_that_the_kernel_answers_has_one_end() {
    let plan = round_trip(&[("transport", "icmp"), ("ends", "all"), ("waiting", "all")]).unwrap();
    assert_eq!(plan.labels(), ["icmp block same-cpu", "icmp poll same-cpu", "icmp spin same-cpu"]);
    assert!(refusal(&[("transport", "icmp"), ("reply-size", "8")]).contains("as long as the message"));
    assert!(refusal(&[("transport", "icmp"), ("placement", "cross-cpu")]).contains("there is no second CPU"));
    assert!(refusal(&[("transport", "icmp"), ("injected-fault", "busy=1us")]).contains("no fault can be injected"));
}

#[test]
fn cross_cpu_and_spinning_need_two_cpus() {
    let mut one_cpu = capabilities();
    one_cpu.cpus.truncate(1);
    let text = |flags: &[(&str, &str)]| plan_on(&one_cpu, &ROUND_TRIP, flags).unwrap_err().to_string();
    assert!(text(&[("transport", "tcp"), ("placement", "cross-cpu")]).contains("it needs two CPUs"));
    assert!(text(&[("transport", "tcp"), ("placement", "unpinned"), ("waiting", "spin")]).contains("spinning"));
    assert!(plan_on(&one_cpu, &ROUND_TRIP, &[("placement", "unpinned")]).is_ok());
}

#[test]
fn transports_that_cannot_run_are_skipped_or_refused_with_their_reason() {
    let capabilities = capabilities_without("icmp", "the raw socket was refused: EPERM", "run as root");
    let plan = plan_on(&capabilities, &ROUND_TRIP, &[("transport", "icmp,tcp")]).unwrap();
    assert_eq!(plan.labels(), ["tcp block same-cpu"]);
    assert_eq!(plan.skipped[0].reason, "the raw socket was refused: EPERM (hint: run as root)");
    let text = plan_on(&capabilities, &ROUND_TRIP, &[("transport", "icmp")]).unwrap_err().to_string();
    assert_eq!(text, "cannot run icmp: the raw socket was refused: EPERM (hint: run as root)");
    assert_eq!(plan_on(&capabilities, &ROUND_TRIP, &[]).unwrap().skipped.len(), 1, "skipped even if not named");
}

#[test]
fn cpus_are_kept_awake_only_if_permitted() {
    let mut capabilities = capabilities();
    capabilities.may_keep_cpus_awake =
        Err(hairpin_model::card::WhyNot::new("/dev/cpu_dma_latency cannot be opened: EACCES", "run as root"));
    let plan = plan_on(&capabilities, &ROUND_TRIP, &[("transport", "tcp"), ("cpu-idle", "all")]).unwrap();
    assert_eq!(plan.labels(), ["tcp block same-cpu"]);
    assert_eq!(plan.skipped[0].case.as_deref(), Some("tcp block same-cpu CPUs kept awake"));
    assert!(plan.skipped[0].reason.starts_with("/dev/cpu_dma_latency"));
}

#[test]
fn warm_up_is_a_time_if_cpus_may_sleep_otherwise_a_count() {
    let warm_up = |flags: &[(&str, &str)]| round_trip(flags).unwrap().only_order().warm_up;
    let time = Extent::DurationNs(WARM_UP_NS);
    let count = Extent::Count(WARM_UP_MESSAGES);
    assert_eq!(warm_up(&[("transport", "tcp"), ("placement", "cross-cpu")]), time);
    assert_eq!(warm_up(&[("transport", "tcp"), ("placement", "cross-cpu"), ("waiting", "poll")]), time);
    assert_eq!(warm_up(&[("transport", "tcp"), ("placement", "cross-cpu"), ("waiting", "spin")]), count);
    assert_eq!(warm_up(&[("transport", "tcp"), ("rate", "1000")]), time);
    assert_eq!(warm_up(&[("transport", "icmp"), ("placement", "unpinned")]), count);
    assert_eq!(warm_up(&[("transport", "tcp"), ("warmup", "7")]), Extent::Count(7));
    assert_eq!(warm_up(&[("transport", "tcp"), ("warmup", "1ms")]), Extent::DurationNs(1_000_000));
}

#[test]
fn replicates_follow_their_case_and_have_their_own_fault() {
    let plan = round_trip(&[("transport", "tcp"), ("replicate", "on")]).unwrap();
    assert_eq!(plan.labels(), ["tcp block same-cpu", "tcp block same-cpu (again)"]);
    assert_eq!(plan.cases[0], plan.cases[1].without_replicate());
    let plan = round_trip(&[("transport", "tcp"), ("replicate-fault", "busy=1300ns")]).unwrap();
    let injected = InjectedFault { stall_ns: 1300, every: 1, sleeps: false };
    assert_eq!((plan.cases[0].injected_fault, plan.cases[1].injected_fault), (None, Some(injected)));
    let both = [("transport", "tcp"), ("injected-fault", "sleep=1ms"), ("replicate-fault", "busy=1300ns")];
    let plan = round_trip(&both).unwrap();
    assert_eq!(plan.cases[0].injected_fault.map(|injected_fault| injected_fault.stall_ns), Some(1_000_000));
    assert_eq!(plan.cases[1].injected_fault, Some(injected), "the replicate's own fault takes precedence");
    let plan = round_trip(&[("transport", "tcp"), ("injected-fault", "busy=1300ns"), ("replicate", "on")]).unwrap();
    assert_eq!((plan.cases[0].injected_fault, plan.cases[1].injected_fault), (Some(injected), Some(injected)));
}

#[test]
fn bad_input_is_refused_with_a_hint_before_anything_runs() {
    let refused: &[(&[(&str, &str)], &str)] = &[
        (&[("transport", "tpc")], "unknown transport `tpc` (hint: did you mean `tcp`?)"),
        (&[("waiting", "blok")], "--waiting: unknown value `blok` (hint: did you mean `block`?)"),
        (&[("size", "2GiB")], "--size: `2GiB` is not valid (hint: 1 B to 1 GiB)"),
        (
            &[("rate", "-5")],
            "--rate: `-5` is not a rate (hint: a number of messages per second above 0, for \
                             instance 1000 or 20k)",
        ),
        (&[("rate", "11M")], "--rate: `11M` is not valid (hint: from one message per day to 10000000 per second)"),
        (&[("duration", "0s")], "--duration: `0s` is not valid (hint: a duration above 0 and up to 24 h)"),
        (
            &[("duration", "5")],
            "--duration: `5` is not a duration: its unit is missing (hint: for instance 250ms, 1.5s or 20us)",
        ),
        (&[("rounds", "0")], "--rounds: `0` is not valid (hint: a whole number from 1 to 10000)"),
        (
            &[("count", "10000000001")],
            "--count: `10000000001` is not valid (hint: a whole number from 1 to 10000000000)",
        ),
        (&[("port", "65536")], "--port: `65536` is not valid (hint: a whole number from 0 to 65535)"),
        (
            &[("option", "nodelay")],
            "--option: option `nodelay` has no value (hint: write name=value, for instance nodelay=on)",
        ),
        (&[("link", "lopback")], "link `lopback` is not known (hint: try bridged-vm)"),
        (&[("link", "wan")], "link `wan` is not known (hint: try bridged-vm)"),
        (
            &[("count", "10"), ("duration", "1s")],
            "--count and --duration both set the length of a round (hint: give one of them)",
        ),
        (
            &[("count", "1000000"), ("rate", "1")],
            "1000000 messages at 1 per second take more than 24 h (hint: lower --count, raise --rate, or use \
             --duration)",
        ),
        (
            &[("transport", "tcp,udp"), ("waiting", "spin")],
            "cannot run tcp spin same-cpu: both ends share one CPU, so a spinning end would keep the other \
             from running; 1 more cannot run for the same reason (hint: use --placement cross-cpu, or --waiting \
             block)",
        ),
    ];
    for (flags, text) in refused {
        assert_eq!(refusal(flags), *text, "{flags:?}");
    }
}

#[test]
fn plans_with_too_many_rounds_or_cases_are_refused() {
    let text = refusal(&[("size", "1,2,3,4,5,6,7,8,9,10,11"), ("rounds", "10000"), ("transport", "tcp")]);
    let hint = "(hint: use fewer values, or lower --rounds)";
    assert_eq!(text, format!("11 cases x 10000 rounds are 110000 rounds, more than 20000 {hint}"));
    let many = (1..1000).map(|size| size.to_string()).collect::<Vec<_>>().join(",");
    assert!(refusal(&[("size", &many), ("reply-size", &many)]).contains("more than 2000"));
}

#[test]
fn a_seed_is_required() {
    let knobs = Knobs::from_given(ROUND_TRIP.knobs, Vec::<(&str, Vec<String>)>::new()).unwrap();
    let text = ROUND_TRIP.next(&knobs, &capabilities(), &Done::default()).unwrap_err().to_string();
    assert_eq!(text, "no seed was given (hint: give one with --seed NUMBER)");
}

#[test]
fn an_end_of_sched_fifo_that_never_blocks_is_refused() {
    use hairpin_experiments::experiments::periodic::PERIODIC;
    let spins: [(&_, &[(&str, &str)]); 4] = [
        (&ROUND_TRIP, &[("waiting", "spin"), ("placement", "cross-cpu")]),
        (&ROUND_TRIP, &[("waiting", "spin-then-block"), ("placement", "cross-cpu")]),
        (&PERIODIC, &[("timing", "spin"), ("devices", "0")]),
        (&PERIODIC, &[("timing", "spin"), ("period", "1s"), ("placement", "cross-cpu")]),
    ];
    for (experiment, flags) in spins {
        let all = |policy| [&[("transport", "tcp"), ("scheduling", policy)], flags].concat();
        let refused = plan_on(&capabilities(), experiment, &all("fifo")).expect_err("it never blocks").to_string();
        assert!(refused.contains("busy-polls can keep its CPU"), "{refused}");
        assert!(plan_on(&capabilities(), experiment, &all("other")).is_ok(), "{flags:?}");
    }
    let blocks = [("transport", "tcp"), ("scheduling", "fifo"), ("timing", "spin"), ("placement", "cross-cpu")];
    assert!(plan_on(&capabilities(), &PERIODIC, &blocks).is_ok(), "it blocks for each answer");
}
