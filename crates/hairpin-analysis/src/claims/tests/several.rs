//! Refutations among several rows, and several looks at a claim.

use super::*;

/// tcp over rounds of about 100 us, udp at 50 us.
fn noisy() -> Run {
    let spread: Vec<u64> = [100, 104, 98, 103, 97, 105, 99, 102, 96, 101].iter().map(|us| us * US).collect();
    Fixture::of(&[(&Case::ping_pong("tcp"), &spread), (&Case::ping_pong("udp"), &[50 * US; 10])]).run()
}

/// A row on tcp's or udp's median, in us.
fn at_most(transport: &str, bound_us: f64) -> Json {
    let name = format!("{transport} at most {bound_us}");
    json!({"name": name, "test": test(&json!({"kind": "at-most", "bound": bound_us, "of": p50(transport)}))})
}

fn claim_of(rows: &[Json]) -> Claim {
    written(&json!({"value": 1, "unit": "us"}), &[("row", json!(rows))])
}

fn judge_share(rows: &[Json], alpha_share: f64) -> JudgedClaim {
    let run = noisy();
    judge(&claim_of(rows), &text(), &BTreeMap::from([("r".to_owned(), Ok(&run))]), alpha_share)
}

fn verdicts(rows: &[Json]) -> Vec<Verdict> {
    judge_share(rows, 1.0).rows.iter().map(|row| row.judgement.verdict.unwrap()).collect()
}

/// A row that is refuted by the 95 % interval, and by no wider one.
fn weakly_refuted() -> Json {
    let low = judge_share(&[at_most("tcp", 1.0)], 1.0).rows[0].judgement.measured.unwrap().low.unwrap();
    at_most("tcp", low * 0.99999)
}

#[test]
fn a_weak_refutation_among_several_rows_is_undecided_and_a_strong_one_stays() {
    use Verdict::{Confirmed, Refuted, Undecided};
    let [confirmed, strong] = [at_most("udp", 90.0), at_most("tcp", 1.0)];
    let alone = judge_share(&[weakly_refuted()], 1.0);
    assert_eq!(alone.headline, Some(Headline::Contradicted), "{alone:?}");
    let among = [weakly_refuted(), confirmed.clone(), at_most("udp", 91.0)];
    let judged = judge_share(&among, 1.0);
    let reason = judged.rows[0].judgement.reason.clone();
    let Some(Reason::OneOfSeveral { measured, comparisons: 3 }) = reason else { panic!("{judged:?}") };
    assert_eq!(Some(*measured), alone.rows[0].judgement.reason, "what the row alone would show");
    assert_eq!(judged.rows[0].case.as_deref(), Some("tcp block same-cpu"));
    assert_eq!(judged.rows[0].judgement.measured, alone.rows[0].judgement.measured);
    assert_eq!((judged.headline, judged.axes.size), (Some(Headline::Undecided), Undecided));
    assert_eq!(verdicts(&among), [Undecided, Confirmed, Confirmed]);
    assert_eq!(verdicts(&[strong, confirmed.clone(), confirmed]), [Refuted, Confirmed, Confirmed]);
}

#[test]
fn each_refutation_that_stands_relieves_the_next() {
    use Verdict::{Confirmed, Refuted, Undecided};
    let [confirmed, strong] = [at_most("udp", 90.0), at_most("tcp", 1.0)];
    assert_eq!(
        verdicts(&[weakly_refuted(), strong.clone()]),
        [Refuted, Refuted],
        "1/2 for the first, 1 for the next"
    );
    assert_eq!(verdicts(&[weakly_refuted(), strong, confirmed]), [Undecided, Refuted, Confirmed], "1/2 is left");
    assert_eq!(verdicts(&[weakly_refuted(), weakly_refuted()]), [Undecided; 2]);
}

#[test]
fn rows_that_decide_nothing_need_no_correction() {
    let mut shown = at_most("udp", 1.0);
    shown["other_setting"] = json!("another transport");
    let absent = at_most("icmp", 1.0);
    let missing = json!({"name": "m", "missing": "a link"});
    let hardware = json!({"name": "h", "other_hardware": true, "test": at_most("udp", 2.0)["test"]});
    let rows = [weakly_refuted(), shown, absent, missing, hardware];
    assert_eq!(verdicts(&rows)[0], Verdict::Refuted);
    assert_eq!(judge_share(&rows, 1.0).headline, Some(Headline::Contradicted));
}

#[test]
fn each_of_two_looks_has_half_of_the_error() {
    let one = judge_share(&[weakly_refuted()], 0.5);
    assert_eq!(one.headline, Some(Headline::Undecided), "an ordinary verdict, without a correction: {one:?}");
    assert!(matches!(one.rows[0].judgement.reason, Some(Reason::Compared { place: Place::Across, .. })));
    assert_eq!(judge_share(&[at_most("tcp", 1.0)], 0.5).headline, Some(Headline::Contradicted));
    let interval = |share: f64| judge_share(&[at_most("tcp", 1.0)], share).rows[0].judgement.measured;
    assert_eq!(interval(0.5), interval(1.0), "the printed interval stays that of 95 %");
}

#[test]
fn the_order_of_a_direction_is_corrected_too() {
    let mut fixture = Fixture::new();
    let base = [100, 104, 98, 103, 97, 105, 99, 102, 96, 101];
    fixture.rounds_of(&Case::ping_pong("udp"), &base.map(|us| us * US));
    // 8 % less on average.
    let other = [-8, -15, 1, -17, -4, -12, 0, -16, -5, -7];
    let slower: Vec<u64> = base.iter().zip(other).map(|(us, percent)| us * (100 + percent) as u64 * 10).collect();
    fixture.rounds_of(&Case::ping_pong("tcp"), &slower);
    let run = fixture.run();
    let order = |name: &str| {
        let rule = json!({"kind": "order", "figure": "p50", "margin": 0, "cases": [case("udp"), case("tcp")]});
        json!({"name": name, "published": {"value": ["udp", "tcp"], "unit": "order"}, "test": test(&rule)})
    };
    let of = |rows: &[Json]| judge_on(&claim_of(rows), &run);
    let alone = of(&[order("a")]);
    assert_eq!(alone.rows[0].judgement.verdict, Some(Verdict::Refuted), "{alone:?}");
    let several: Vec<Json> = (0..20).map(|row| order(&row.to_string())).collect();
    let judged = of(&several);
    assert_eq!(judged.headline, Some(Headline::Undecided), "{:?}", judged.rows[0]);
    assert!(matches!(judged.rows[0].judgement.reason, Some(Reason::OneOfSeveral { comparisons: 20, .. })));
}

#[test]
fn each_step_of_an_order_is_a_chance_to_be_refuted() {
    // A weak refutation, and steps that are clear.
    let run = {
        let mut fixture = Fixture::new();
        let base = [100, 104, 98, 103, 97, 105, 99, 102, 96, 101];
        fixture.rounds_of(&Case::ping_pong("pipe"), &[10 * US; 10]);
        fixture.rounds_of(&Case::ping_pong("udp"), &base.map(|us| us * US));
        // 7 % less on average.
        let other = [-7, -14, 2, -16, -3, -11, 1, -15, -4, -6];
        let less: Vec<u64> = base.iter().zip(other).map(|(us, percent)| us * (100 + percent) as u64 * 10).collect();
        fixture.rounds_of(&Case::ping_pong("tcp"), &less);
        fixture.rounds_of(&Case::ping_pong("icmp"), &[900 * US; 10]);
        fixture.rounds_of(&Case::ping_pong("shm"), &[9_000 * US; 10]);
        fixture.run()
    };
    let order = |names: &[&str]| {
        let cases: Vec<Json> = names.iter().map(|name| case(name)).collect();
        let rule = json!({"kind": "order", "figure": "p50", "margin": 0, "cases": cases});
        let row = json!({"name": "o", "published": {"value": names, "unit": "order"}, "test": test(&rule)});
        judge_on(&claim_of(&[row]), &run).rows.remove(0).judgement
    };
    assert_eq!(order(&["udp", "tcp"]).verdict, Some(Verdict::Refuted));
    let among = order(&["pipe", "udp", "tcp", "icmp", "shm"]);
    assert_eq!(among.verdict, Some(Verdict::Undecided), "{among:?}");
    let Some(Reason::OneOfSeveral { measured, comparisons: 4 }) = among.reason else { panic!("{among:?}") };
    let Reason::Order { steps, .. } = *measured else { panic!("{measured:?}") };
    assert_eq!(steps[1].verdict, Verdict::Refuted, "what the step alone would show");
    assert_eq!(order(&["shm", "pipe", "udp"]).verdict, Some(Verdict::Refuted), "a clear one stays");
}
