//! `unexplained-loss`: messages are missing, or too many arrived, and no counter says why.
//!
//! An exception is a surplus that copies made by the link may explain, because a full receive buffer counts them too
//! ([`Ledger::may_count_copies`](hairpin_model::ledger::Ledger::may_count_copies)). On a reliable transport a loss with a
//! known cause counts too: such a round should have failed. If datagrams travel as segments of one packet (the option
//! `gso`), the kernel counts a dropped packet once, so the missing messages may be other segments of that packet, which is
//! only a note.

use hairpin_model::finding::{About, Severity};
use hairpin_model::ledger::MAX_SEGMENTS;
use hairpin_model::options::OptionName;
use hairpin_model::{CaseSummary, EndSummary, Finding, FindingCard, Ledger, Run, finding_keys as keys};

use super::support::{evidence, longer_run, strongest, with_share};
use crate::trace::switch;

pub(super) const CARD: FindingCard = FindingCard {
    code: "unexplained-loss",
    about: About::Run,
    what: "messages are missing, or too many arrived, and no counter says why",
    why: "Hairpin does not know what happened to the messages, which is a defect of Hairpin",
};

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let has_segments = |end: &EndSummary| switch(&end.effective_options, OptionName::Gso) == Some(true);
    // Datagrams sent with GSO may have been dropped with others of the same packet.
    let is_known = |case: &CaseSummary| case.ends.iter().any(has_segments) && ledger(case).may_be_segments();
    let segments = |case: &CaseSummary| {
        let (finding, _) = find_missing(run, case, Severity::Note).filter(|_| is_known(case))?;
        Some(finding.with(keys::SEGMENTS_IN_PACKET, MAX_SEGMENTS as f64))
    };
    let defect = |case: &CaseSummary| {
        let (finding, lost) = find_missing(run, case, Severity::Problem).filter(|_| !is_known(case))?;
        let finding = Finding { counter_experiment: Some(longer_run(&case.case)), ..finding };
        let finding = finding.with(keys::LOST, lost as f64);
        Some(finding.with(keys::TRANSPORT, case.case.primary().transport.as_str()))
    };
    [strongest(run, segments), strongest(run, defect)].concat()
}

/// Returns the ledger of the flow with the most to explain. Ledgers of two directions are not added: a surplus in one
/// would hide a deficit in the other.
fn ledger(case: &CaseSummary) -> &Ledger {
    let both = case.flows.iter().map(|flow| &flow.ledger).filter(|_| case.case.goes_both_ways());
    let worst = both.max_by_key(|ledger| (ledger.unexplained.unsigned_abs(), ledger.lost.values().sum::<u64>()));
    worst.unwrap_or(&case.primary().ledger)
}

fn find_missing(run: &Run, case: &CaseSummary, severity: Severity) -> Option<(Finding, u64)> {
    let ledger = ledger(case);
    if case.path.relay.as_ref().is_some_and(|link| ledger.may_count_copies(link.packets.not_messages())) {
        return None;
    }
    let lost = if run.cards.reliable(&case.case.primary().transport) { ledger.lost.values().sum() } else { 0 };
    let count = ledger.unexplained.unsigned_abs().max(lost);
    let share = (count as f64 / ledger.sent.max(1) as f64).min(1.0);
    let received = if case.case.primary().load.is_one_way() { keys::RECEIVED } else { keys::ANSWERS };
    let evidence = vec![
        evidence(keys::SENT, ledger.sent as f64),
        evidence(received, ledger.received as f64),
        evidence(keys::UNEXPLAINED, ledger.unexplained as f64),
    ];
    (count > 0).then(|| (Finding { evidence, ..with_share(&CARD, severity, share) }, lost))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hairpin_model::{Case, LinkRecord, PacketCounts};

    use super::*;
    use hairpin_model::Measured;

    use crate::fixture::links::over;
    use crate::fixture::one_way_losses::{counts, interleaved, messages};
    use crate::fixture::{Fixture, granted, value};

    fn found(transport: &str, sent: u64, lost: &[(&str, u64)]) -> (bool, Vec<Finding>) {
        found_in(&Case::ping_pong(transport), sent, lost)
    }

    fn found_in(case: &Case, sent: u64, lost: &[(&str, u64)]) -> (bool, Vec<Finding>) {
        let mut fixture = Fixture::new();
        fixture.rounds_with(case, &[10_000; 2], |measured| {
            measured.primary_mut().ledger.sent = sent;
            measured.primary_mut().ledger.lost =
                lost.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect::<BTreeMap<_, _>>();
            measured.primary_mut().ledger = measured.primary().ledger.clone().closed();
        });
        let run = fixture.run();
        let found = crate::findings(&run).into_iter().filter(|finding| finding.code == CARD.code).collect();
        (run.cases[0].valid, found)
    }

    #[test]
    fn unexplained_messages_are_a_problem() {
        let (valid, found) = found("udp", 105, &[("receive-buffer-overflow", 3)]);
        assert!(valid, "the latencies of received messages are valid");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Problem));
        assert_eq!([keys::SENT, keys::UNEXPLAINED].map(|key| value(&found[0], key)), [210.0, 4.0]);
        assert!((found[0].share - 4.0 / 210.0).abs() < 1e-12);
    }

    #[test]
    fn a_loss_on_a_reliable_transport_is_a_problem_and_makes_the_case_invalid() {
        let (valid, found) = found("tcp", 103, &[("receive-buffer-overflow", 3)]);
        assert!(!valid);
        assert_eq!([keys::UNEXPLAINED, keys::LOST].map(|key| value(&found[0], key)), [0.0, 6.0]);
        assert_eq!(found[0].word(keys::TRANSPORT), Some("tcp"));
    }

    #[test]
    fn segments_of_dropped_packets_are_a_note_with_gso_and_a_problem_without() {
        let found = |gso: &str, received: u64| {
            let case = messages("udp");
            let change = |measured: &mut Measured| {
                counts(&[("receive-buffer-overflow", 4)], 0.0)(measured);
                measured.primary_mut().ledger.received = received;
                measured.primary_mut().ledger = measured.primary().ledger.clone().closed();
                measured.ends[1].options = vec![granted(OptionName::Gso, gso)];
            };
            let found = interleaved(&[(&case, &change)]).findings(CARD.code);
            assert_eq!(found.len(), 1);
            (found[0].severity, found[0].figure(keys::SEGMENTS_IN_PACKET) == Some(128.0.into()))
        };
        // Four packets of 64 segments.
        assert_eq!(found("on", 1000 - 4 * 64), (Severity::Note, true));
        assert_eq!(found("off", 1000 - 4 * 64), (Severity::Problem, false));
        assert_eq!(found("on", 1000 - 4 * 129), (Severity::Problem, false), "too many for one packet");
    }

    #[test]
    fn copies_in_a_full_buffer_are_known() {
        let found = |not_messages: u64| {
            let mut fixture = Fixture::new();
            fixture.rounds_with(&over("duplicate=30%", Case::ping_pong("udp")), &[10_000; 2], |measured| {
                measured.primary_mut().ledger.sent = measured.primary().ledger.received + 6;
                measured.primary_mut().ledger.lost =
                    BTreeMap::from([("receive-buffer-overflow-server".to_owned(), 9)]);
                measured.primary_mut().ledger = measured.primary().ledger.clone().closed();
                let link = crate::fixture::links::link();
                let packets = PacketCounts { duplicated: not_messages, ..link.packets.clone() };
                measured.link = Some(LinkRecord { packets, ..link });
            });
            fixture.findings(CARD.code)
        };
        assert_eq!(found(3), [], "3 of the 9 packets were copies");
        assert_eq!(value(&found(2)[0], keys::UNEXPLAINED), -6.0);
    }

    #[test]
    fn link_losses_are_explained_but_tcp_must_deliver_anyway() {
        let lost = [("link-loss", 3), ("link-queue", 20), ("link-inside", 1)];
        let over_link = |transport| over("rate=1mbit loss=1%", Case::ping_pong(transport));
        assert_eq!(found_in(&over_link("udp"), 124, &lost), (true, vec![]));
        let (_, found) = found_in(&over_link("udp"), 126, &lost);
        assert_eq!([keys::SENT, keys::UNEXPLAINED].map(|key| value(&found[0], key)), [252.0, 4.0]);
        let (valid, found) = found_in(&over_link("tcp"), 124, &lost);
        assert_eq!((valid, found[0].word(keys::TRANSPORT)), (false, Some("tcp")));
        assert_eq!([keys::UNEXPLAINED, keys::LOST].map(|key| value(&found[0], key)), [0.0, 48.0]);
    }

    #[test]
    fn a_single_message_is_enough_either_way_and_a_closed_ledger_is_no_finding() {
        let unexplained = |sent| found("udp", sent, &[]).1.len();
        assert_eq!((unexplained(99), unexplained(100), unexplained(101)), (1, 0, 1));
        assert_eq!(found("udp", 103, &[("receive-buffer-overflow", 3)]).1, []);
        assert_eq!(found("tcp", 100, &[]), (true, vec![]));
    }
}
