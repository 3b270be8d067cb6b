//! Figures of closed and open loops.

use super::*;

#[test]
fn requests_in_flight_follow_from_rate_and_latency() {
    let mut fixture = Fixture::of(&[(&Case::ping_pong("tcp"), &[MS; 8])]);
    // Four requests leave together; their answers arrive 1 ms later.
    fixture
        .rounds_with(&Case::ping_pong("udp"), &[MS; 8], |measured| measured.primary_mut().figures.rate_per_s *= 4.0);
    let run = fixture.run();
    let rule = |transport: &str| json!({"kind": "at-least", "of": {"figure": "in-flight", "case": case(transport)}});
    let published = json!({"value": 2, "unit": "requests"});
    let several = judged(&run, &published, &rule("udp"));
    assert_eq!(several.verdict, Some(Verdict::Confirmed));
    assert!((several.measured.unwrap().value - 4.0).abs() < 0.01, "{several:?}");
    let one = judged(&run, &published, &rule("tcp"));
    assert_eq!(one.verdict, Some(Verdict::Refuted), "{one:?}");
    assert!((one.measured.unwrap().value - 1.0).abs() < 0.05, "{one:?}");
}

#[test]
fn losses_and_rates_are_from_the_ledger_over_the_scheduled_time() {
    let case = at_rate(Case::ping_pong("udp").with(|changed| changed.primary_mut().load.set_sizes(1400, 4)), 1000.0);
    let fixture = Fixture::alike_with(8, &case, &paced(MS, &[(0, 90 * US); 1000]), |measured| {
        let ledger = &mut measured.primary_mut().ledger;
        (ledger.sent, ledger.received, ledger.late) = (1000, 700, 100);
        // The last answers arrive after the scheduled end.
        measured.duration_ns = 2_000 * MS;
    });
    let run = fixture.run();
    let value = |figure: &str, unit: &str| {
        let of = json!({"figure": figure, "case": {"transport": "udp", "rate_per_s": 1000}});
        let judgement =
            judged(&run, &json!({"value": 1, "unit": unit}), &json!({"kind": "within", "factor": 2, "of": of}));
        judgement.measured.unwrap_or_else(|| panic!("{judgement:?}")).value
    };
    assert!((value("lost-share", "share") - 0.2).abs() < 1e-12, "late messages are not lost");
    assert!((value("sent-bytes-per-s", "bytes/s") - 1_400_000.0).abs() < 1.0);
    assert!((value("received-bytes-per-s", "KiB/s") - 1_120_000.0 / 1024.0).abs() < 1e-3);
    assert!((value("received-bytes-per-s", "MiB/s") - 1_120_000.0 / 1_048_576.0).abs() < 1e-6);
}

#[test]
fn service_time_starts_at_the_send_and_means_are_paired_by_round() {
    let mut fixture = Fixture::new();
    for (transport, service) in [("tcp", 90 * US), ("udp", 60 * US)] {
        for block in 0..8 {
            // The slowdown from block to block cancels out.
            let service = service * u64::from(10 + block) / 10;
            let case = at_rate(Case::ping_pong(transport), 1000.0);
            fixture.round(&case, block, &paced(MS, &[(400 * US, service); 50]));
        }
    }
    let run = fixture.run();
    let within = |figure: &str, number: f64| {
        let rule = json!({"kind": "within", "factor": 2, "of": {"figure": figure, "case": case("tcp")}});
        verdict(&run, &json!({"value": number, "unit": "us"}), &rule)
    };
    assert_eq!(within("service-mean", 120.0), Verdict::Confirmed);
    assert_eq!(within("mean", 120.0), Verdict::Refuted, "400 us longer from the due time");
    for figure in ["service-mean", "service-p50"] {
        let rule = json!({"kind": "order", "figure": figure, "cases": [case("udp"), case("tcp")]});
        let order = judged(&run, &json!({"value": ["UDP", "TCP"], "unit": "order"}), &rule);
        assert_eq!(order.verdict, Some(Verdict::Confirmed), "{order:?}");
        let ratio = order.measured.unwrap();
        assert!((ratio.value - 1.5).abs() < 0.01 && ratio.low.unwrap() > 1.49, "{ratio:?}");
        assert!(matches!(&order.reason, Some(Reason::Order { steps, .. }) if steps[0].ratio == order.measured));
    }
    let closed = json!({"kind": "at-least", "of": {"figure": "service-p50", "case": case("tcp")}});
    assert_eq!(
        verdict(&super::run(), &json!({"value": 1, "unit": "us"}), &closed),
        Verdict::Undecided,
        "a closed loop"
    );
}
