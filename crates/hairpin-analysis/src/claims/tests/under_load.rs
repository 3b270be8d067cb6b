//! Figures of a probe under load.

use hairpin_model::flow::{Direction, FlowRole};
use hairpin_model::{Flow, Ledger, ProbePhases};

use super::*;

/// Eight rounds of 100 messages; the 10 lost ones are among the 50 of the loaded phase.
fn probe_rounds(case: &Case) -> Fixture {
    Fixture::alike_with(8, case, &back_to_back(&[], &[100 * US; 40]), |measured| {
        let flow = measured.primary_mut();
        (flow.ledger.sent, flow.ledger.received) = (100, 90);
        let mut phases = ProbePhases::default();
        phases.by_phase.idle.ledger = Ledger { sent: 50, received: 50, ..Ledger::default() };
        phases.by_phase.loaded.ledger = Ledger { sent: 50, received: 40, ..Ledger::default() };
        flow.phases = Some(phases);
    })
}

#[test]
fn the_lost_share_of_a_probe_is_from_its_loaded_phase() {
    let mut loaded = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
    loaded.flows.push(Flow::stream("tcp", 65_536, Direction::Up).in_role(FlowRole::Load));
    let run = probe_rounds(&loaded).run();
    for (figure, value) in [("lost-share", 0.2), ("received-share", 0.8)] {
        let of = json!({"figure": figure, "case": {"transport": "udp", "load": "up"}});
        let rule = json!({"kind": "within", "factor": 1.5, "of": of});
        let judgement = judged(&run, &json!({"value": value, "unit": "share"}), &rule);
        let measured = judgement.measured.unwrap_or_else(|| panic!("{figure}: {judgement:?}")).value;
        assert!((measured - value).abs() < 1e-9, "{figure}: {measured}");
    }
    let none = json!({"figure": "lost-share", "case": {"transport": "udp", "load": "none"}});
    let rule = json!({"kind": "within", "factor": 1.5, "of": none});
    assert_eq!(verdict(&run, &json!({"value": 0.2, "unit": "share"}), &rule), Verdict::NotTested);
}
