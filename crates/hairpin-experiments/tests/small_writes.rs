//! `small-writes`: its cases, the length of rounds, refusals, and evidence rounds.

use std::collections::BTreeSet;

use crate::common::{Plan, capabilities, capabilities_without, failed, measured, next, plan_on};
use hairpin_experiments::Forecast;
use hairpin_experiments::Refused;
use hairpin_experiments::budget::MIN_BLOCKS;
use hairpin_experiments::estimate::orders_ns;
use hairpin_experiments::evidence;
use hairpin_experiments::experiments::small_writes::{BATCH, CONTROL_REMEDIES, DURATION_NS, SMALL_WRITES};
use hairpin_model::options::OptionName;
use hairpin_model::round::Purpose;
use hairpin_model::{CpuIdle, Extent, HostCapabilities, Placement, Remedy, RoundOrder, Waiting};

fn small_writes(flags: &[(&str, &str)]) -> Result<Plan, Refused> {
    plan_on(&capabilities(), &SMALL_WRITES, flags)
}

fn refusal(flags: &[(&str, &str)]) -> String {
    small_writes(flags).map(|plan| plan.labels()).expect_err("the flags should be refused").to_string()
}

/// The second step, after all rounds of the first step were measured.
fn evidence_of(flags: &[(&str, &str)]) -> Option<Plan> {
    next(&SMALL_WRITES, flags, &measured(&small_writes(flags).unwrap().rounds))
}

fn of<'p>(plan: &'p Plan, label: &str) -> &'p RoundOrder {
    plan.rounds.iter().find(|order| order.case.label() == label).unwrap_or_else(|| panic!("{label}"))
}

#[test]
fn without_flags_tcp_runs_every_remedy_and_the_controls_two() {
    let plan = small_writes(&[]).unwrap();
    let expected = [
        "tcp block same-cpu default 100x2 B",
        "tcp block same-cpu nodelay 100x2 B",
        "tcp block same-cpu cork 100x2 B",
        "tcp block same-cpu cork-forgotten 100x2 B",
        "tcp block same-cpu more 100x2 B",
        "tcp block same-cpu one-write 100x2 B",
        "tcp block same-cpu writev 100x2 B",
        "tcp block same-cpu quickack 100x2 B",
        "tcp block same-cpu batch=10 100x2 B",
        "unix-stream block same-cpu default 100x2 B",
        "unix-stream block same-cpu one-write 100x2 B",
        "pipe block same-cpu default 100x2 B",
        "pipe block same-cpu one-write 100x2 B",
    ];
    assert_eq!(plan.labels(), expected);
    assert!(plan.skipped.is_empty(), "{:?}", plan.skipped);
    assert_eq!(plan.rounds.len() as u64, 13 * MIN_BLOCKS);
    for order in &plan.rounds {
        assert_eq!((order.purpose, order.extent), (Purpose::Timed, Extent::DurationNs(DURATION_NS)));
        assert_eq!((order.timeout_ns, order.keep_samples, order.port), (2_000_000_000, 100_000, 0));
        let (case, exchange) = (&order.case, order.case.primary().load.exchange().unwrap());
        assert_eq!((case.primary().load.size_bytes(), case.primary().load.reply_size_bytes()), (200, 4));
        assert_eq!((exchange.gap_ns, exchange.pipeline), (0, 1));
        assert!(case.primary().options.is_empty(), "the options that a remedy sets are not options of the case");
    }
}

#[test]
fn every_remedy_is_tried_without_flags() {
    let plan = small_writes(&[("transport", "tcp")]).unwrap();
    let tried: Vec<Remedy> = plan.cases.iter().map(|case| case.primary().load.exchange().unwrap().remedy).collect();
    assert_eq!(tried, [Remedy::PLAIN, &[BATCH]].concat());
}

#[test]
fn the_help_names_every_remedy() {
    let help = SMALL_WRITES.knobs.iter().find(|knob| knob.name == "remedy").unwrap().help;
    for word in Remedy::WORDS {
        assert!(help.split([' ', ',', ';']).any(|other| other == *word), "{word} in {help}");
    }
    assert!(help.contains(&BATCH.to_string()));
}

#[test]
fn warm_ups_are_chosen_by_remedy_or_by_the_user() {
    let plan = small_writes(&[]).unwrap();
    let warm_up = |label: &str| of(&plan, label).warm_up;
    assert_eq!(warm_up("tcp block same-cpu default 100x2 B"), Extent::Count(3));
    assert_eq!(warm_up("tcp block same-cpu cork-forgotten 100x2 B"), Extent::Count(1));
    assert_eq!(warm_up("tcp block same-cpu nodelay 100x2 B"), Extent::Count(15));
    assert_eq!(warm_up("tcp block same-cpu one-write 100x2 B"), Extent::Count(195));
    assert_eq!(warm_up("unix-stream block same-cpu default 100x2 B"), Extent::Count(66), "no Nagle, no stall");
    let plan = small_writes(&[("warmup", "0")]).unwrap();
    assert!(plan.rounds.iter().all(|order| order.warm_up == Extent::Count(0)));
    let plan = small_writes(&[("warmup", "1ms"), ("exchanges", "7")]).unwrap();
    assert!(plan.rounds.iter().all(|order| order.warm_up == Extent::DurationNs(1_000_000)));
    assert!(plan.rounds.iter().all(|order| order.extent == Extent::Count(7)));
}

/// The forecast without flags is the sum of all rounds, including evidence rounds, and METHODOLOGY.md quotes it.
#[test]
fn the_forecast_is_the_sum_of_all_rounds() {
    let both = [("placement", "same-cpu,cross-cpu")];
    let (timed, evidence) = (small_writes(&both).unwrap(), evidence_of(&both).unwrap());
    let evidence_ns = orders_ns(&evidence.rounds, &capabilities());
    let sum_ns = orders_ns(&timed.rounds, &capabilities()) + evidence_ns;
    assert_eq!(
        timed.forecast,
        Forecast {
            rounds: 26 * MIN_BLOCKS,
            lasts_ns: sum_ns,
            evidence_ns,
            has_time_limit: true,
            ..Forecast::default()
        }
    );
    let methodology = include_str!("../../../METHODOLOGY.md");
    let seconds = (sum_ns + 500_000_000) / 1_000_000_000;
    let line = format!(
        "{} timed rounds and {} of evidence, {seconds} s by arithmetic",
        timed.rounds.len(),
        evidence.rounds.len()
    );
    assert!(methodology.contains(&line), "{line}");
}

/// Windows of several requests stall at both ends, but fewer of them run, so that a run takes little longer.
#[test]
fn pipelines_change_the_duration_of_a_run_only_a_little() {
    let ns = |flags: &[(&str, &str)]| {
        let rounds = [small_writes(flags).unwrap().rounds, evidence_of(flags).unwrap().rounds].concat();
        orders_ns(&rounds, &capabilities())
    };
    let tenths = |flags: &[(&str, &str)]| (ns(flags) + 50_000_000) / 100_000_000;
    assert_eq!(tenths(&[("pipeline", "4")]), 169);
    assert!(ns(&[("pipeline", "32")]) < 25 * 1_000_000_000);
    let paused = [
        ("transport", "tcp"),
        ("writes", "4,3210"),
        ("gap", "1ms"),
        ("pipeline", "4"),
        ("remedy", "default,nodelay,one-write,quickack"),
        ("rounds", "3"),
    ];
    assert_eq!(tenths(&paused), 31);
    let one_write = [("transport", "tcp"), ("pipeline", "4"), ("remedy", "one-write")];
    let plan = small_writes(&one_write).unwrap();
    let (least_ns, most_ns) = (40_000_000, 250_000_000);
    for order in &plan.rounds {
        assert_eq!(order.warm_up, Extent::DurationNs(10_000_000), "a warm-up of 200 windows would take 9 s");
        let one_ns = orders_ns(std::slice::from_ref(order), &capabilities());
        assert!((least_ns..most_ns).contains(&one_ns), "{one_ns}");
    }
}

#[test]
fn plans_are_reproducible_and_their_order_depends_on_the_seed() {
    let plans = |seed: &str| {
        let flags = [("seed", seed), ("option", "all")];
        [small_writes(&flags).unwrap(), evidence_of(&flags).unwrap()]
    };
    let ([timed, evidence], [other_timed, other_evidence]) = (plans("1"), plans("2"));
    assert_eq!(plans("1"), [timed.clone(), evidence.clone()]);
    assert_eq!(plans("2"), [other_timed.clone(), other_evidence.clone()]);
    assert_ne!(timed.rounds, other_timed.rounds);
    assert_ne!(evidence.rounds, other_evidence.rounds);
}

#[test]
fn evidence_blocks_trace_each_case_once_and_run_it_untraced_once() {
    let plan = evidence_of(&[]).unwrap();
    assert!(plan.cases.is_empty(), "the first step already has the cases");
    assert!(plan.skipped.is_empty());
    assert_eq!(plan.rounds.len(), 2 * 9 * evidence::BLOCKS as usize, "only tcp is traced, not the controls");
    let mut orders = BTreeSet::new();
    for (number, block) in plan.rounds.chunks(18).enumerate() {
        let first_block = u32::try_from(MIN_BLOCKS).unwrap();
        assert!(block.iter().all(|order| order.block == first_block + u32::try_from(number).unwrap()));
        let line = |order: &RoundOrder| (order.case.label(), order.purpose);
        let lines: Vec<_> = block.iter().map(line).collect();
        assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), 18, "each case once traced and once untraced");
        orders.insert(lines);
    }
    assert_eq!(orders.len(), evidence::BLOCKS as usize, "each block has a different order");
    for order in &plan.rounds {
        assert!(order.case.primary().transport == "tcp" && order.purpose != Purpose::Timed);
        assert_eq!(order.warm_up, Extent::Count(0), "the first exchanges are traced too");
        assert_eq!(order.timeout_ns, 2_000_000_000);
        let exchanges = match order.case.primary().load.exchange().unwrap().remedy {
            Remedy::Default | Remedy::Batch(_) => 4,
            Remedy::CorkForgotten => 2,
            _ => 5,
        };
        assert_eq!(order.extent, Extent::Count(exchanges), "{}", order.case.label());
    }
}

#[test]
fn the_experiment_ends_after_the_evidence_rounds() {
    let timed = small_writes(&[]).unwrap().rounds;
    let evidence = evidence_of(&[]).unwrap().rounds;
    let done = [measured(&timed), failed(&evidence)].concat();
    assert!(next(&SMALL_WRITES, &[], &done).is_none());
    assert!(next(&SMALL_WRITES, &[("trace", "off")], &measured(&timed)).is_none(), "tracing is off");
    let controls = [("transport", "unix-stream,pipe")];
    assert!(evidence_of(&controls).is_none(), "controls are not traced");
}

#[test]
fn only_cases_with_a_measured_round_are_traced() {
    let timed = small_writes(&[]).unwrap().rounds;
    assert!(next(&SMALL_WRITES, &[], &failed(&timed)).is_none());
    let (none, others): (Vec<_>, Vec<_>) =
        timed.into_iter().partition(|order| order.case.label() == "tcp block same-cpu default 100x2 B");
    let done = [measured(&none[..1]), failed(&none[1..]), failed(&others)].concat();
    let plan = next(&SMALL_WRITES, &[], &done).unwrap();
    assert!(plan.rounds.iter().all(|order| order.case == none[0].case));
    assert_eq!(plan.rounds.len(), 2 * evidence::BLOCKS as usize);
}

#[test]
fn a_large_plan_traces_only_some_cases_and_names_the_others() {
    let flags = [("transport", "tcp,tcp6"), ("placement", "same-cpu,cross-cpu")];
    let plan = evidence_of(&flags).unwrap();
    assert_eq!(plan.rounds.len(), 2 * evidence::MAX_CASES * evidence::BLOCKS as usize);
    assert_eq!(plan.skipped.len(), 1);
    let skipped = &plan.skipped[0];
    assert_eq!(skipped.case.as_deref(), Some("the traces of tcp6 block same-cpu cork 100x2 B and 15 more"));
    assert_eq!(skipped.reason, "only the first 20 cases of a plan are traced (hint: use fewer values at once)");
    let exchanges = |flags: &[(&str, &str)]| {
        let plan = evidence_of(&[&[("transport", "tcp"), ("remedy", "nodelay")], flags].concat()).unwrap();
        plan.rounds[0].extent
    };
    assert_eq!(exchanges(&[("pipeline", "10")]), Extent::Count(50), "whole windows");
    assert_eq!(exchanges(&[("pipeline", "1024")]), Extent::Count(200), "at most 20 000 writes");
    assert_eq!(exchanges(&[("writes", "10000x1")]), Extent::Count(2));
}

#[test]
fn only_the_first_case_of_a_pair_is_traced_with_its_injected_fault() {
    let flags = [("transport", "tcp"), ("remedy", "default"), ("replicate", "on"), ("injected-fault", "sleep=40ms")];
    let plan = small_writes(&flags).unwrap();
    assert_eq!(plan.cases.len(), 2);
    assert!(plan.cases.iter().all(|case| case.injected_fault.is_some()));
    assert!(evidence_of(&flags).unwrap().rounds.iter().all(|order| order.case == plan.cases[0]));
}

#[test]
fn controls_run_the_requested_remedies_and_skips_have_reasons() {
    let count = |flags: &[(&str, &str)], transport: &str| {
        let plan = small_writes(flags).unwrap();
        plan.cases.iter().filter(|case| case.primary().transport == transport).count()
    };
    assert_eq!(count(&[], "pipe"), CONTROL_REMEDIES.len());
    assert_eq!(count(&[("transport", "pipe")], "pipe"), CONTROL_REMEDIES.len());
    assert_eq!(count(&[("remedy", "all")], "pipe"), 4, "default, one-write, writev, batch=10");
    let plan = small_writes(&[("remedy", "cork,default")]).unwrap();
    assert_eq!((plan.cases.len(), plan.skipped.len()), (4, 0), "default controls are skipped silently");
    let plan = small_writes(&[("transport", "tcp,pipe"), ("remedy", "cork,default,more")]).unwrap();
    assert_eq!((plan.cases.len(), plan.skipped.len()), (4, 2));
    assert_eq!(plan.skipped[0].case.as_deref(), Some("pipe block same-cpu cork 100x2 B"));
    assert_eq!(
        plan.skipped[0].reason,
        "remedy `cork` changes how TCP sends segments and ACKs (hint: use default, one-write, writev or batch=N \
         with this transport)"
    );
    assert!(refusal(&[("transport", "pipe"), ("remedy", "nodelay")]).contains("remedy `nodelay` changes"));
}

#[test]
fn every_transport_with_boundaries_is_skipped_with_that_reason() {
    let capabilities = capabilities();
    let plan = small_writes(&[("transport", "all")]).unwrap();
    for candidate in &capabilities.candidates {
        let name = candidate.card.name;
        let runs = plan.cases.iter().any(|case| case.primary().transport == name);
        assert_eq!(runs, !candidate.card.boundaries, "{name}");
        let skipped: Vec<_> = plan.skipped.iter().filter(|skipped| skipped.transport == name).collect();
        if runs {
            // MPTCP lacks the option of one remedy and runs all others.
            let lacks: Vec<_> = skipped.iter().map(|skipped| skipped.case.as_deref()).collect();
            let expected = (name == "mptcp").then_some(Some("mptcp block same-cpu quickack 100x2 B"));
            assert_eq!(lacks, expected.into_iter().collect::<Vec<_>>());
        } else {
            assert_eq!(skipped.len(), 1, "{skipped:?}");
            assert_eq!(skipped[0].case, None);
            let reason = "it keeps message boundaries: each write is a message of its own (hint: use a byte \
                          stream such as tcp, unix-stream or pipe)";
            assert_eq!(skipped[0].reason, reason);
        }
    }
    assert!(refusal(&[("transport", "udp")]).contains("it keeps message boundaries"));
}

#[test]
fn a_remedy_whose_option_is_missing_is_skipped() {
    const WITHOUT_QUICKACK: &[OptionName] = &[OptionName::Nodelay, OptionName::Cork];
    let mut capabilities: HostCapabilities = capabilities();
    capabilities.candidates.iter_mut().filter(|candidate| candidate.card.name == "tcp").for_each(|candidate| {
        candidate.card.options = WITHOUT_QUICKACK;
    });
    let plan = plan_on(&capabilities, &SMALL_WRITES, &[("transport", "tcp")]).unwrap();
    assert_eq!((plan.cases.len(), plan.skipped.len()), (8, 1));
    assert_eq!(
        plan.skipped[0].reason,
        "it has no option `quickack`, which remedy `quickack` sets (hint: use another remedy)"
    );
}

#[test]
fn transports_that_cannot_run_are_skipped() {
    let capabilities = capabilities_without("tcp", "the socket was refused: EPERM", "run as root");
    let plan = plan_on(&capabilities, &SMALL_WRITES, &[]).unwrap();
    assert_eq!((plan.cases.len(), plan.skipped.len()), (4, 1));
    assert_eq!(plan.skipped[0].reason, "the socket was refused: EPERM (hint: run as root)");
}

#[test]
fn requests_remedies_and_cpu_idle_combine() {
    let knobs = [("writes", "4, 3210"), ("writes", "2x7"), ("writes", "4,3210")];
    let flags = [&knobs[..], &[("transport", "tcp"), ("remedy", "default,batch=3"), ("cpu-idle", "all")]].concat();
    let plan = small_writes(&flags).unwrap();
    let expected = [
        "tcp block same-cpu default 4+3210 B",
        "tcp block same-cpu default 4+3210 B CPUs kept awake",
        "tcp block same-cpu batch=3 4+3210 B",
        "tcp block same-cpu batch=3 4+3210 B CPUs kept awake",
        "tcp block same-cpu default 2x7 B",
        "tcp block same-cpu default 2x7 B CPUs kept awake",
        "tcp block same-cpu batch=3 2x7 B",
        "tcp block same-cpu batch=3 2x7 B CPUs kept awake",
    ];
    assert_eq!(plan.labels(), expected);
    assert_eq!((plan.cases[0].primary().load.size_bytes(), plan.cases[1].ends.cpu_idle), (3214, CpuIdle::Shallow));
    let plan =
        small_writes(&[("transport", "tcp"), ("remedy", "default"), ("placement", "cross-cpu"), ("waiting", "spin")]);
    let case = plan.unwrap().cases[0].clone();
    assert_eq!((case.ends.placement, case.ends.waiting), (Placement::CrossCpu, Waiting::Spin));
}

#[test]
fn gap_reply_and_pipeline_are_part_of_the_exchange() {
    let flags = [("transport", "tcp"), ("remedy", "default"), ("gap", "1ms"), ("reply", "100"), ("pipeline", "8")];
    let plan = small_writes(&flags).unwrap();
    assert_eq!(plan.labels(), ["tcp block same-cpu default 100x2 B gap 1 ms 8 in flight answer 100 B"]);
    assert_eq!(plan.rounds[0].warm_up, Extent::Count(8), "one window with 8 x 99 ms of pauses");
    assert!(small_writes(&[("gap", "0ms")]).is_ok() && small_writes(&[("gap", "1999ms")]).is_ok());
}

#[test]
fn answers_in_several_writes_are_part_of_the_exchange() {
    let flags =
        [("transport", "tcp"), ("writes", "37"), ("reply-writes", "40,1000"), ("remedy", "default,one-write")];
    let plan = small_writes(&flags).unwrap();
    let label = |remedy| format!("tcp block same-cpu {remedy} 37 B answer 40+1000 B");
    assert_eq!(plan.labels(), ["default", "one-write"].map(label));
    assert_eq!(plan.rounds[0].case.primary().load.reply_size_bytes(), 1040);
    let both = refusal(&[("reply", "8"), ("reply-writes", "40,1000")]);
    assert_eq!(both, "--reply and --reply-writes both give the size of an answer (hint: omit --reply)");
}

#[test]
fn a_request_and_an_answer_of_one_write_are_also_measured_in_two() {
    let flags = [("transport", "tcp,pipe"), ("writes", "37"), ("reply", "1040")];
    let labels = small_writes(&flags).unwrap().labels();
    let in_two = |label: &&String| label.contains('+') || label.contains("2x");
    let expected =
        ["tcp block same-cpu default 18+19 B answer 1040 B", "tcp block same-cpu default 37 B answer 2x520 B"];
    assert_eq!(labels.iter().filter(in_two).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    for (writes, more) in
        [("37", ("remedy", "default")), ("37", ("reply-writes", "2x520")), ("18,19", ("reply", "8"))]
    {
        let labels = small_writes(&[("transport", "tcp"), ("writes", writes), more]).unwrap().labels();
        let of_request = format!(" {} B", writes.replace(',', "+"));
        assert!(labels.iter().all(|label| label.contains(&of_request)), "{labels:?}");
    }
    let smallest = small_writes(&[("transport", "tcp"), ("writes", "1"), ("reply", "1")]).unwrap().labels();
    assert!(smallest.iter().all(|label| label.contains(" 1 B answer 1 B")), "{smallest:?}");
}

#[test]
fn answers_in_flight_must_fit_the_buffers() {
    let plan = |flags: &[(&str, &str)]| small_writes(&[&[("remedy", "one-write")], flags].concat()).unwrap();
    let names = |plan: &Plan| plan.cases.iter().map(|case| case.primary().transport.clone()).collect::<Vec<_>>();
    assert_eq!(names(&plan(&[("reply", "1MiB")])), ["tcp", "unix-stream", "pipe"], "each answer is read at once");
    assert_eq!(names(&plan(&[("pipeline", "127")])), ["tcp", "unix-stream", "pipe"]);
    let many = plan(&[("pipeline", "1024")]);
    assert_eq!(names(&many), ["tcp", "pipe"], "each answer takes additional memory in a Unix socket");
    assert_eq!(
        many.skipped[0].reason,
        "1024 unread answers of 4 B may not fit its buffers, so both ends could wait forever (hint: use \
         --pipeline 127, or a smaller --reply)"
    );
    assert_eq!(names(&plan(&[("pipeline", "32"), ("reply", "1KiB"), ("transport", "tcp")])), ["tcp"]);
    let text = refusal(&[("pipeline", "33"), ("reply", "1KiB"), ("transport", "tcp"), ("remedy", "default")]);
    assert_eq!(
        text,
        "cannot run tcp block same-cpu default 100x2 B 33 in flight answer 1 KiB: 33 unread answers of 1 KiB may \
         not fit its buffers, so both ends could wait forever (hint: use --pipeline 32, or a smaller --reply)"
    );
    let small_buffer = [("pipeline", "2"), ("reply", "600"), ("transport", "tcp"), ("option", "rcvbuf=1KiB")];
    assert!(refusal(&small_buffer).contains("use --pipeline 1"));
}

#[test]
fn option_all_excludes_options_of_remedies() {
    let plan = small_writes(&[("transport", "tcp"), ("remedy", "default"), ("option", "all")]).unwrap();
    assert_eq!(plan.labels()[0], "tcp block same-cpu default 100x2 B");
    assert!(plan.cases.len() > 5, "{:?}", plan.labels());
    for case in &plan.cases {
        let taken = |name| case.primary().options.get(name).is_some();
        assert!(![OptionName::Nodelay, OptionName::Cork, OptionName::Quickack].into_iter().any(taken));
    }
}

fn assert_refused(refused: &[(&[(&str, &str)], &str)]) {
    for (flags, text) in refused {
        assert_eq!(refusal(flags), *text, "{flags:?}");
    }
}

#[test]
fn bad_values_are_refused_with_a_hint_before_anything_runs() {
    assert_refused(&[
        (
            &[("writes", "100x0")],
            "--writes: `100x0` has a write of 0 bytes, which sends nothing (hint: the smallest write is 1 byte)",
        ),
        (
            &[("writes", "many")],
            "--writes: `many` is not a valid write size \
             (hint: 100x2 for a hundred writes of 2 bytes, or 4,3210 for two writes)",
        ),
        (
            &[("writes", "10001x1")],
            "--writes: `10001x1` is not a valid list of writes (hint: 1 to 10000 writes, at most 64 MiB in total)",
        ),
        (&[("remedy", "nodleay")], "--remedy: unknown remedy `nodleay` (hint: did you mean `nodelay`?)"),
        (
            &[("remedy", "default,batch=0")],
            "--remedy: `batch=0` is not a valid number of writes \
             (hint: 1 to 10000, for instance batch=10)",
        ),
        (
            &[("remedy", "batch=N")],
            "--remedy: `batch=N` is not a valid number of writes \
             (hint: 1 to 10000, for instance batch=10)",
        ),
        (&[("transport", "tpc")], "unknown transport `tpc` (hint: did you mean `tcp`?)"),
        (&[("pipeline", "0")], "--pipeline: `0` is not valid (hint: a whole number from 1 to 1024)"),
        (&[("pipeline", "1025")], "--pipeline: `1025` is not valid (hint: a whole number from 1 to 1024)"),
        (&[("reply", "0")], "--reply: `0` is not valid (hint: 1 B to 1 GiB)"),
        (&[("gap", "7200s")], "--gap: `7200s` is not valid (hint: a duration from 0 up to 1 h)"),
        (&[("trace", "maybe")], "--trace: `maybe` is not valid (hint: on or off)"),
        (&[("trace", "all")], "--trace: `all` is not valid (hint: on or off)"),
    ]);
}

#[test]
fn incompatible_values_are_refused_with_a_hint_before_anything_runs() {
    assert_refused(&[
        (
            &[("gap", "3s")],
            "a gap of 3 s is not shorter than the time-out of 2 s, so the server would give up \
             (hint: raise --timeout, or lower --gap)",
        ),
        (
            &[("gap", "40ms"), ("timeout", "40ms")],
            "a gap of 40 ms is not shorter than the time-out of 40 ms, so the server would give up \
             (hint: raise --timeout, or lower --gap)",
        ),
        (
            &[("gap", "10s"), ("timeout", "20s"), ("writes", "10000x1")],
            "9999 pauses of 10 s in one round take more than 24 h (hint: lower --gap, or use fewer --writes, \
             --exchanges or --pipeline)",
        ),
        (
            &[("gap", "1s"), ("exchanges", "1000"), ("warmup", "10")],
            "99990 pauses of 1 s in one round take more than 24 h (hint: lower --gap, or use fewer --writes, \
             --exchanges or --pipeline)",
        ),
        (
            &[("option", "sndbuf=65536,nodelay=on")],
            "--option nodelay=on conflicts with the remedies, which set `nodelay` themselves (hint: compare \
             remedies with --remedy, for instance --remedy default,nodelay)",
        ),
        (
            &[("option", "cork=off")],
            "--option cork=off conflicts with the remedies, which set `cork` themselves (hint: compare remedies \
             with --remedy, for instance --remedy default,nodelay)",
        ),
        (
            &[("exchanges", "10"), ("duration", "1s")],
            "--exchanges and --duration both set the length of a round (hint: give one of them)",
        ),
        (&[("link", "wan")], "link `wan` is not known (hint: try bridged-vm)"),
    ]);
}

#[test]
fn plans_with_too_many_rounds_are_refused() {
    let all = [("remedy", "all"), ("placement", "all"), ("waiting", "all"), ("ends", "all"), ("rounds", "10000")];
    assert!(refusal(&all).contains("more than 20000"));
}
