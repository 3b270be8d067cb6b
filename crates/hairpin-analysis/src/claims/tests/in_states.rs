//! Shares of the time of traced exchanges.

use hairpin_model::round::Purpose;
use hairpin_model::{Actor, ExchangeState, TimeInState, TraceFigures};

use super::*;
use crate::fixture::small_writes;

/// A traced round for each value, in which a delayed ACK of the server takes this share of the time; `rest` takes the rest.
fn run_with(shares: &[f64], rest: (ExchangeState, Actor)) -> Run {
    let case = small_writes("default");
    let mut fixture = Fixture::of(&[(&case, &[44 * MS; 6])]);
    fixture.purpose = Purpose::Traced;
    for (block, share) in (0..).zip(shares) {
        let time = |state, who, share| TimeInState { state, who, share, ns: share * 1e6 };
        let states =
            vec![time(ExchangeState::DelayedAck, Actor::ServerKernel, *share), time(rest.0, rest.1, 1.0 - share)];
        fixture.round_with(&case, block, &back_to_back(&[], &[44 * MS; 5]), |measured| {
            measured.traced = Some(TraceFigures { states, ..TraceFigures::default() });
        });
    }
    fixture.run()
}

fn in_states(run: &Run, states: &[&str], at: Option<&str>) -> Judgement {
    let mut rule = json!({"kind": "states", "case": {"remedy": "default"}, "states": states, "at_least": 0.9});
    if let Some(at) = at {
        rule["at"] = at.into();
    }
    judged(run, &json!({"value": 1, "unit": "share"}), &rule)
}

#[test]
fn the_share_over_traced_rounds_is_compared_with_the_bound() {
    let nagle = (ExchangeState::Nagle, Actor::ClientKernel);
    for (shares, verdict, place) in [
        ([0.97, 0.98, 0.975], Verdict::Confirmed, Place::Inside),
        ([0.5, 0.52, 0.51], Verdict::Refuted, Place::Below),
        ([0.89, 0.91, 0.90], Verdict::Undecided, Place::Across),
    ] {
        let found = in_states(&run_with(&shares, nagle), &["delayed-ack"], Some("server"));
        assert_eq!(found.verdict, Some(verdict), "{found:?}");
        let measured = found.measured.unwrap();
        assert!((measured.value - shares[2]).abs() < 1e-9 && found.measured_unit.as_deref() == Some("share"));
        let Some(Reason::Compared { figure, place: at, .. }) = found.reason else { panic!("not compared") };
        assert_eq!((figure, at), (FigureName::TimeInStates, place));
    }
    let run = run_with(&[0.5, 0.52, 0.51], nagle);
    assert_eq!(in_states(&run, &["nagle", "delayed-ack"], None).verdict, Some(Verdict::Confirmed), "both together");
    assert_eq!(in_states(&run, &["nagle", "delayed-ack"], Some("server")).verdict, Some(Verdict::Refuted));
}

#[test]
fn a_union_that_may_be_the_state_prevents_a_refutation() {
    let may_be =
        |state, who: Actor| in_states(&run_with(&[0.5, 0.52, 0.51], (state, who)), &["delayed-ack"], Some("server"));
    let found = may_be(ExchangeState::NagleOrDelayedAck, Actor::Unknown);
    assert_eq!(found.verdict, Some(Verdict::Undecided));
    assert_eq!(may_be(ExchangeState::WorkOrHeld, Actor::Server).verdict, Some(Verdict::Undecided));
    assert_eq!(may_be(ExchangeState::WorkOrHeld, Actor::Client).verdict, Some(Verdict::Refuted), "the other end");
    assert_eq!(may_be(ExchangeState::WindowOrReader, Actor::Server).verdict, Some(Verdict::Refuted), "other states");
}

#[test]
fn without_traced_rounds_nothing_is_tested() {
    let nagle = (ExchangeState::Nagle, Actor::ClientKernel);
    let none = in_states(&run_with(&[], nagle), &["delayed-ack"], None);
    assert_eq!(none.verdict, Some(Verdict::NotTested));
    assert!(matches!(none.reason, Some(Reason::NotTraced { .. })), "{none:?}");
    assert_eq!(in_states(&run_with(&[0.99], nagle), &["delayed-ack"], None).verdict, Some(Verdict::Undecided), "one");
}
