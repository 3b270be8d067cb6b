//! `--link` in every experiment: its cases, what is refused and skipped, and how round-trip times scale plans.

use std::collections::BTreeSet;

use crate::common::{
    LOSSY, NARROW, Plan, SATELLITE, SLOW, capabilities, every, measured, next, plan_on, refusal, round_trip, turned,
};
use hairpin_experiments::estimate::orders_ns;
use hairpin_experiments::experiments::round_trip::ROUND_TRIP;
use hairpin_experiments::experiments::small_writes::SMALL_WRITES;
use hairpin_experiments::experiments::survey::SURVEY;
use hairpin_experiments::{Experiment, Refused, proof};
use hairpin_model::case::LOOPBACK;
use hairpin_model::round::Purpose;
use hairpin_model::{Case, Extent, HostCapabilities, Remedy, RoundOrder, WhyNot};

const MS: u64 = 1_000_000;
/// Round-trip time over `satellite`, with 4 B each way at 10 and 100 Mbit/s.
const SATELLITE_TRAVEL_NS: u64 = 600 * MS + 3_200 + 320;

/// The plan of an experiment with one flag `--link` per link.
fn over(experiment: &Experiment, links: &[&str], flags: &[(&str, &str)]) -> Plan {
    plan(&capabilities(), experiment, links, flags).unwrap_or_else(|refused| panic!("{refused}"))
}

fn plan(
    capabilities: &HostCapabilities,
    experiment: &Experiment,
    links: &[&str],
    flags: &[(&str, &str)],
) -> Result<Plan, Refused> {
    plan_on(capabilities, experiment, &with_links(links, flags))
}

fn with_links<'f>(links: &[&'f str], flags: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    flags.iter().copied().chain(links.iter().map(|link| ("link", *link))).collect()
}

fn links(plan: &Plan) -> Vec<(&str, Option<&str>)> {
    plan.cases.iter().map(|case| (case.path.link.as_str(), case.path.name.as_deref())).collect()
}

#[test]
fn by_default_only_streams_and_set_ups_cross_a_link() {
    for experiment in every() {
        let plan = plan_on(&capabilities(), &experiment, &[]).unwrap();
        let expected = match experiment.name {
            "streams" => LOSSY,
            "set-up" => SLOW,
            _ => LOOPBACK,
        };
        assert!(links(&plan).iter().all(|link| *link == (expected, None)), "{}", experiment.name);
        assert!(
            expected != LOOPBACK
                || plan.rounds.iter().all(|order| order.link_seed == 0 && order.timeout_ns == 2_000 * MS)
        );
    }
}

#[test]
fn links_are_a_dimension_of_the_cases_in_the_order_given() {
    let plan = over(&ROUND_TRIP, &["bridged-vm", "loopback"], &[("transport", "tcp"), ("size", "4,8")]);
    let labels = [
        "tcp block same-cpu over bridged-vm",
        "tcp block same-cpu",
        "tcp block same-cpu 8 B over bridged-vm",
        "tcp block same-cpu 8 B",
    ];
    assert_eq!(plan.labels(), labels);
    assert_eq!(links(&plan)[0], ("delay=2ms", Some("bridged-vm")));
    assert_eq!(links(&plan)[1], (LOOPBACK, None), "the loopback has no name");
}

#[test]
fn all_selects_every_built_in_profile_and_equal_lines_are_one_link() {
    let tcp = [("transport", "tcp")];
    let every = [LOOPBACK, "delay=2ms", SATELLITE];
    let of = |plan: &Plan| plan.cases.iter().map(|case| case.path.link.clone()).collect::<Vec<_>>();
    assert_eq!(of(&over(&ROUND_TRIP, &["all"], &tcp)), every);
    assert_eq!(of(&over(&ROUND_TRIP, &["satellite", "all"], &tcp)), [SATELLITE, LOOPBACK, "delay=2ms"]);
    for both in [["delay=2ms", "bridged-vm"], ["bridged-vm", "delay=2ms"]] {
        let plan = over(&ROUND_TRIP, &both, &tcp);
        assert_eq!(links(&plan), [("delay=2ms", Some("bridged-vm"))], "{both:?}");
    }
}

#[test]
fn a_profile_keeps_its_commas_and_its_blanks() {
    let line = "rate=1mbit queue=64KiB,100packets";
    let read = turned(&ROUND_TRIP, &with_links(&[line, SATELLITE], &[])).unwrap();
    assert_eq!(read.values::<String>("link"), [line, SATELLITE]);
    assert_eq!(
        refusal(&[("link", line)]),
        "link `rate=1mbit queue=64KiB,100packets` is not known (hint: try bridged-vm)",
        "the reason and the hint of the link parser"
    );
}

#[test]
fn links_are_refused_if_the_relay_cannot_run() {
    let mut without = capabilities();
    without.links.relay = || Err(WhyNot::new("user namespaces are off", "sysctl"));
    assert_eq!(
        plan(&without, &ROUND_TRIP, &["bridged-vm"], &[]).unwrap_err().to_string(),
        "cannot run memory block same-cpu threads over bridged-vm: user namespaces are off; 12 more cannot run for \
         the same reason (hint: sysctl)"
    );
    let loopback_left = plan(&without, &ROUND_TRIP, &["bridged-vm", "loopback"], &[]).unwrap();
    assert!(loopback_left.cases.iter().all(|case| !case.is_emulated()));
}

#[test]
fn local_transports_cross_no_link() {
    for (experiment, left) in [
        (&ROUND_TRIP as &Experiment, &["icmp", "mptcp", "tcp", "tcp6", "udp", "udp6"][..]),
        (&SMALL_WRITES, &["tcp"]),
        (&SURVEY, &["icmp", "tcp", "tcp6", "udp", "udp6"]),
    ] {
        let plan = over(experiment, &["bridged-vm"], &[]);
        let names: BTreeSet<&str> = plan.cases.iter().map(|case| case.primary().transport.as_str()).collect();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), left, "{}", experiment.name);
        let pipe = plan.skipped.iter().find(|skipped| skipped.transport == "pipe").expect("pipe is skipped");
        assert_eq!(pipe.case, None, "all cases of pipe");
        assert_eq!(
            pipe.reason,
            "it works on one machine only, so it cannot cross a link (hint: use tcp, udp or another network \
             transport, or --link loopback)"
        );
    }
    let alone = refusal(&[("transport", "pipe"), ("link", "bridged-vm")]);
    let expected = "cannot run pipe block same-cpu over bridged-vm: it works on one machine only";
    assert!(alone.starts_with(expected), "{alone}");
}

#[test]
fn cases_with_packets_larger_than_the_mtu_are_skipped() {
    let plan = over(&ROUND_TRIP, &[NARROW, "bridged-vm"], &[("transport", "tcp,tcp6,udp6")]);
    let ran: BTreeSet<(&str, &str)> =
        plan.cases.iter().map(|case| (case.primary().transport.as_str(), case.path.link.as_str())).collect();
    let wide = "delay=2ms";
    assert_eq!(ran, [("tcp", NARROW), ("tcp", wide), ("tcp6", wide), ("udp6", wide)].into());
    let reasons: BTreeSet<&str> = plan.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
    let expected = "it needs packets of 1280 B, and the link carries 1279 B at most (hint: use mtu=1280B or more, \
                    or a transport over IPv4)";
    assert_eq!(reasons, [expected].into());
}

#[test]
fn the_seed_of_a_link_is_that_of_the_run_plus_the_block() {
    let flags = [("transport", "tcp,udp"), ("rounds", "3")];
    let plan = over(&ROUND_TRIP, &["bridged-vm", "loopback"], &flags);
    for order in &plan.rounds {
        let expected = if order.case.is_emulated() { 7 + u64::from(order.block) } else { 0 };
        assert_eq!(order.link_seed, expected, "{} in block {}", order.case.label(), order.block);
    }
    let last =
        plan_on(&capabilities(), &ROUND_TRIP, &[("link", "bridged-vm"), ("seed", &u64::MAX.to_string())]).unwrap();
    let seeds: BTreeSet<u64> = last.rounds.iter().map(|order| order.link_seed).collect();
    assert_eq!(seeds.len(), 8, "the seed wraps around");
}

#[test]
fn evidence_and_proof_rounds_have_their_own_link_seeds() {
    let flags = [("transport", "tcp"), ("remedy", "default,nodelay")];
    let timed = over(&SMALL_WRITES, &["bridged-vm"], &flags);
    let done = measured(&timed.rounds);
    let evidence = next(&SMALL_WRITES, &with_links(&["bridged-vm"], &flags), &done).expect("evidence rounds");
    let pair = [timed.cases[0].clone(), timed.cases[1].clone()];
    let proof = proof::orders(&[pair], &done, 2, 7, 30);
    let all: Vec<&RoundOrder> = timed.rounds.iter().chain(&evidence.rounds).chain(&proof).collect();
    assert!(
        all.iter().all(|order| order.case.path.link == "delay=2ms" && order.link_seed == 7 + u64::from(order.block))
    );
    let blocks = |of: &[RoundOrder]| of.iter().map(|order| order.block).collect::<BTreeSet<_>>();
    assert_eq!(blocks(&evidence.rounds), BTreeSet::from([16, 17, 18]));
    assert_eq!(blocks(&proof), BTreeSet::from([30, 31]));
}

#[test]
fn the_length_of_a_round_trip_measurement_fits_the_link() {
    let of = |link: &str| over(&ROUND_TRIP, &[link], &[("transport", "tcp")]).only_order().clone();
    let bridged = of("bridged-vm");
    assert_eq!((bridged.extent, bridged.warm_up), (Extent::Count(250), Extent::Count(10)), "1 s and 40 ms");
    assert_eq!(bridged.timeout_ns, 2_000 * MS);
    let satellite = of("satellite");
    assert_eq!((satellite.extent, satellite.warm_up), (Extent::Count(2), Extent::Count(1)), "the minimum");
    assert_eq!(satellite.timeout_ns, 10 * SATELLITE_TRAVEL_NS + 1_300 * MS + 1_000 * MS);
    let large = over(&ROUND_TRIP, &["satellite"], &[("transport", "tcp"), ("size", "1MiB")]).only_order().clone();
    let sent_ns = (1 << 20) * 8 * 100 + (1 << 20) * 8 * 10;
    assert_eq!(large.timeout_ns, 10 * (600 * MS + sent_ns) + 2_300 * MS, "including the serialization time");
    let survey = over(&SURVEY, &["satellite"], &[]);
    let first = &survey.rounds[0];
    assert_eq!((first.extent, first.warm_up), (Extent::Count(2), Extent::Count(1)));
    assert_eq!(survey.rounds.len(), 8 * survey.cases.len(), "the number of rounds is not scaled");
}

#[test]
fn values_from_the_user_are_not_scaled() {
    let lengths = [("count", "5"), ("warmup", "3"), ("timeout", "700ms"), ("rounds", "4")];
    let flags = [&lengths[..], &[("transport", "tcp"), ("port", "77")]].concat();
    let order = over(&ROUND_TRIP, &["satellite"], &flags).only_order().clone();
    assert_eq!((order.extent, order.warm_up), (Extent::Count(5), Extent::Count(3)));
    assert_eq!((order.timeout_ns, order.port), (700 * MS, 77));
    let flags = [("transport", "tcp"), ("remedy", "default"), ("duration", "10ms")];
    assert_eq!(over(&SMALL_WRITES, &["satellite"], &flags).only_order().extent, Extent::DurationNs(10 * MS));
}

#[test]
fn the_extent_of_an_open_loop_is_not_scaled_and_its_warm_up_takes_a_round_trip() {
    for (link, warm_up_ns) in [("bridged-vm", 40 * MS), ("satellite", SATELLITE_TRAVEL_NS)] {
        let plan = over(&ROUND_TRIP, &[link], &[("transport", "udp"), ("rate", "100")]);
        let order = plan.only_order();
        assert_eq!((order.extent, order.warm_up), (Extent::Count(1250), Extent::DurationNs(warm_up_ns)), "{link}");
    }
}

#[test]
fn rounds_of_small_writes_are_longer_over_a_link_and_a_long_link_has_fewer_evidence_rounds() {
    let of = |link: &str| {
        let plan = over(&SMALL_WRITES, &[link], &[]);
        let evidence = next(&SMALL_WRITES, &[("link", link)], &measured(&plan.rounds));
        (plan, evidence.expect("TCP is traced"))
    };
    let (bridged, evidence) = of("bridged-vm");
    assert_eq!(bridged.rounds[0].extent, Extent::DurationNs(80 * MS), "20 times 4 ms");
    assert_eq!(evidence.rounds.len(), 9 * 2 * 3);
    let (satellite, evidence) = of("satellite");
    assert!(satellite.rounds.iter().all(|order| order.extent == Extent::DurationNs(1_000 * MS)));
    assert!(satellite.rounds.iter().all(|order| order.warm_up == Extent::Count(1)));
    assert_eq!(satellite.rounds.len(), 9 * 8, "the number of rounds is not scaled");
    assert_eq!(evidence.rounds.len(), 9 * 2, "one block");
    assert!(evidence.rounds.iter().all(|order| order.extent == Extent::Count(2) && order.purpose != Purpose::Timed));
    let all = [satellite.rounds, evidence.rounds].concat();
    let takes_s = orders_ns(&all, &capabilities()) / 1_000_000_000;
    assert!((240..400).contains(&takes_s), "{takes_s} s");
}

#[test]
fn a_gap_must_be_shorter_than_the_time_out_of_each_link() {
    let flags = [("transport", "tcp"), ("gap", "3s"), ("exchanges", "1"), ("warmup", "0"), ("writes", "4,4")];
    assert_eq!(over(&SMALL_WRITES, &["satellite"], &flags).cases.len(), 9);
    let refused = plan(&capabilities(), &SMALL_WRITES, &["satellite", "bridged-vm"], &flags).unwrap_err().to_string();
    assert!(refused.starts_with("a gap of 3 s is not shorter than the time-out of 2 s"), "{refused}");
}

#[test]
fn over_a_link_the_survey_measures_only_the_lines_path_and_again() {
    let plan = over(&SURVEY, &["bridged-vm"], &[]);
    let mut labels = plan.labels();
    labels.sort();
    let expected = [
        "icmp block same-cpu over bridged-vm",
        "tcp block same-cpu over bridged-vm",
        "tcp block same-cpu over bridged-vm (again)",
        "tcp6 block same-cpu over bridged-vm",
        "udp block same-cpu over bridged-vm",
        "udp6 block same-cpu over bridged-vm",
    ];
    assert_eq!(labels, expected);
    let alone = plan_on(&capabilities(), &SURVEY, &[]).unwrap().cases.len();
    let both = over(&SURVEY, &["loopback", "bridged-vm"], &[]).cases.len();
    assert_eq!(both, alone + 6, "the loopback keeps all lines");
}

#[test]
fn rounds_over_one_link_are_not_templates_for_another_link() {
    let timed =
        over(&SMALL_WRITES, &["bridged-vm", "satellite"], &[("transport", "tcp"), ("remedy", "default,nodelay")]);
    let done = measured(&timed.rounds);
    let satellite = timed.cases.iter().find(|case| case.path.link == SATELLITE).unwrap();
    let mut corked: Case = satellite.clone();
    corked.primary_mut().load.exchange_mut().unwrap().remedy = Remedy::Cork;
    let orders = proof::orders(&[[satellite.clone(), corked]], &done, 1, 7, 6);
    assert_eq!(orders.len(), 2);
    let is_like =
        |order: &RoundOrder| order.timeout_ns > 8_000 * MS && order.extent == Extent::DurationNs(1_000 * MS);
    assert!(orders.iter().all(is_like));
}

#[test]
fn the_flag_link_may_be_repeated() {
    let text = turned(&ROUND_TRIP, &[("link", "bridged-vm"), ("link", "satellite")]).unwrap();
    assert_eq!(text.values::<String>("link"), ["bridged-vm", "satellite"]);
    assert_eq!(round_trip(&[("transport", "tcp"), ("link", "all"), ("link", "loopback")]).unwrap().cases.len(), 3);
}
