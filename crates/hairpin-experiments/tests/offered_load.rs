//! The plans of `offered-load`, and the rates that its sweep adds.

use hairpin_experiments::experiments::offered_load::OFFERED_LOAD;
use hairpin_experiments::knee::MAX_RATES;
use hairpin_experiments::{Done, Knobs, Refused};
use hairpin_model::options::OptionName;
use hairpin_model::{Extent, Load, Outcome, Placement, RoundRecord, Sent};

use crate::common::{Plan, assert_refused, capabilities, measured, next, plan_on, running};

fn offered_load(flags: &[(&str, &str)]) -> Result<Plan, Refused> {
    plan_on(&capabilities(), &OFFERED_LOAD, flags)
}

fn rates(plan: &Plan) -> Vec<f64> {
    plan.cases.iter().filter_map(|case| case.primary().load.rate_per_s()).collect()
}

#[test]
fn without_rates_tcp_and_udp_are_swept() {
    let plan = offered_load(&[]).unwrap();
    let transports: std::collections::BTreeSet<&str> =
        plan.cases.iter().map(|case| case.primary().transport.as_str()).collect();
    assert_eq!(transports.into_iter().collect::<Vec<_>>(), ["tcp", "udp"]);
    assert_eq!(rates(&plan)[..6], [1e3, 4e3, 16e3, 64e3, 256e3, 1024e3]);
    assert_eq!(plan.cases[0].label(), "udp block same-cpu up 64 B 1000/s");
    assert!(plan.rounds.iter().all(|order| order.extent == Extent::DurationNs(200_000_000)));
}

#[test]
fn over_a_link_with_a_known_rate_the_sweep_is_around_that_rate() {
    let plan = offered_load(&[("transport", "udp"), ("size", "1222"), ("link", "satellite")]).unwrap();
    // 10 Mbit/s carry 1000 packets/s of 1250 B, including headers.
    assert_eq!(rates(&plan), [250.0, 500.0, 750.0, 900.0, 1000.0, 1100.0, 1500.0, 2000.0]);
    let down = offered_load(&[("transport", "udp"), ("size", "1222"), ("link", "satellite"), ("direction", "down")]);
    assert_eq!(rates(&down.unwrap())[4], 1e4, "100 Mbit/s");
}

#[test]
fn kernel_pacing_sets_each_rate_in_bytes_per_second() {
    let plan = offered_load(&[("transport", "tcp"), ("pacing", "kernel"), ("rate", "1000,0.001")]).unwrap();
    let asked = |place: usize| plan.cases[place].primary().options.get(OptionName::PacingRate).map(str::to_owned);
    assert_eq!(rates(&plan), [0.001, 1000.0], "rates ascend");
    assert_eq!((asked(0), asked(1)), (Some("1".to_owned()), Some("64000".to_owned())));
    let shared =
        offered_load(&[("transport", "tcp"), ("pacing", "kernel"), ("rate", "1000"), ("connections", "8")]).unwrap();
    assert_eq!(shared.cases[0].primary().options.get(OptionName::PacingRate), Some("8000"), "per connection");
}

#[test]
fn bad_input_is_refused_with_its_reason() {
    for rate in ["0", "-1", "NaN", "inf", "1e400", "1e19", "100000001", "0.000001", "fast", ""] {
        assert_refused(&OFFERED_LOAD, &[(&[("rate", rate)], "rate"), (&[("rate", rate)], "hint")]);
    }
    let refused: &[(&[(&str, &str)], &str)] = &[
        (&[("arrivals", "burst=0")], "burst"),
        (&[("arrivals", "burst=1000001")], "burst"),
        (&[("pacing", "soon")], "pacing"),
        (&[("transport", "udp"), ("pacing", "kernel")], "the kernel paces TCP only"),
        (&[("transport", "icmp")], "no program receives"),
        (&[("pacing", "spin"), ("placement", "same-cpu")], "both ends share one CPU"),
        (&[("size", "0")], "size"),
        (&[("transport", "udp"), ("size", "7")], "at least 8 B"),
    ];
    assert_refused(&OFFERED_LOAD, refused);
    assert_eq!(rates(&offered_load(&[("transport", "tcp"), ("rate", "1e8")]).unwrap()), [1e8]);
}

/// Measured rounds of a plan: all messages arrived at rates up to `knee_per_s`, half of them at higher rates.
fn delivered_up_to(plan: &Plan, knee_per_s: f64) -> Vec<RoundRecord> {
    let mut rounds = measured(&plan.rounds);
    for round in &mut rounds {
        let Load::Offered { offered_per_s, .. } = round.order.case.primary().load else { panic!("{round:?}") };
        let Outcome::Measured(measured) = &mut round.outcome else { panic!("{round:?}") };
        let flow = measured.primary_mut();
        flow.ledger.sent = 1000;
        flow.ledger.received = if offered_per_s <= knee_per_s { 1000 } else { 500 };
        let over_ns = 1e12 / offered_per_s;
        flow.sent = Some(Sent { messages: 1000, over_ns: over_ns as u64, ..Sent::default() });
    }
    rounds
}

#[test]
fn a_sweep_is_refined_between_delivered_and_undelivered_rates() {
    let flags = [("transport", "udp"), ("placement", "cross-cpu"), ("rounds", "3")];
    let plan = offered_load(&flags).unwrap();
    let mut done = delivered_up_to(&plan, 50e3);
    let mut added = Vec::new();
    while let Some(more) = next(&OFFERED_LOAD, &flags, &done) {
        assert_eq!((more.cases.len(), more.rounds.len()), (1, 3), "one case with three rounds");
        added.extend(rates(&more));
        done.extend(delivered_up_to(&more, 50e3));
        assert!(rates(&plan).len() + added.len() <= MAX_RATES, "the sweep ends");
    }
    assert_eq!(added[..2], [32e3, 45.3e3], "the geometric means of 16 000 and 64 000, then of 32 000 and 64 000");
    let mut measured = [rates(&plan), added].concat();
    measured.sort_by(f64::total_cmp);
    assert!(measured.windows(2).all(|pair| pair[0] < pair[1]), "each rate is measured once: {measured:?}");
    let low = measured.iter().copied().filter(|rate| *rate <= 50e3).fold(0.0, f64::max);
    let high = measured.iter().copied().filter(|rate| *rate > 50e3).fold(f64::INFINITY, f64::min);
    assert!(high / low <= 1.2, "{low} to {high}");
}

#[test]
fn rates_from_the_user_are_not_refined() {
    let flags = [("transport", "udp"), ("placement", "cross-cpu"), ("rounds", "3"), ("rate", "16k,64k")];
    let plan = offered_load(&flags).unwrap();
    assert_eq!(next(&OFFERED_LOAD, &flags, &delivered_up_to(&plan, 50e3)), None);
}

/// The relay of the link uses the other CPU.
#[test]
fn over_a_link_both_ends_share_a_cpu_by_default() {
    let placements = |flags: &[(&str, &str)]| -> Vec<Placement> {
        let given = [flags, &[("transport", "udp"), ("rate", "100"), ("seed", "7")]].concat();
        let given = given.into_iter().map(|(name, text)| (name.to_owned(), vec![text.to_owned()]));
        let knobs = Knobs::from_given(OFFERED_LOAD.knobs, given.collect::<Vec<_>>()).unwrap();
        let plan = running(OFFERED_LOAD.next(&knobs, &capabilities(), &Done::default()).unwrap()).unwrap();
        plan.cases.iter().map(|case| case.ends.placement).collect()
    };
    assert_eq!(placements(&[]), [Placement::CrossCpu]);
    assert_eq!(placements(&[("link", "satellite")]), [Placement::SameCpu]);
}
