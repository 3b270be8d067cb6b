//! `udp-send-overrun`: the sender's own kernel dropped or refused datagrams, before any network.
//!
//! A datagram that does not fit in the queue discipline of the sender's device is dropped there, although the send call succeeds
//! (udp_send_skb, net/ipv4/udp.c, reports the drop only to sockets with `IP_RECVERR`); if the kernel has no memory, the call fails
//! with `ENOBUFS`. Evidence: the drops of the queue disciplines (rtnetlink, `TCA_STATS2`) and the refused calls. In the host's
//! network namespace, other programs also cause drops. The counter-experiment offers 80 % of the rate that arrived.

use hairpin_model::finding::About;
use hairpin_model::ledger::{QDISC, SEND_BUFFER};
use hairpin_model::{CaseSummary, Finding, FindingCard, Run, finding_keys as keys};

use super::support::{losses_by, with_lower_rate};

pub(super) const CARD: FindingCard = FindingCard {
    code: "udp-send-overrun",
    about: About::Cause,
    what: "the sender's own kernel dropped or refused datagrams: its queue was full",
    why: "the messages never left the sender's host, and most programs get no error",
};

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let lost = losses_by(case, &[QDISC, SEND_BUFFER])?;
    let of = |cause: &str| case.ledger().lost.get(cause).filter(|count| **count > 0).map(|count| *count as f64);
    let is_shared = of(QDISC).is_some() && !case.case.is_emulated();
    let finding = lost.finding(run, &CARD, (case, keys::LOST_AT_SENDER), with_lower_rate(case, 0.8));
    let finding = finding.with_if(is_shared, keys::SHARED_COUNTER);
    Some(finding.with_some(keys::BY_QDISC, of(QDISC)).with_some(keys::BY_MEMORY, of(SEND_BUFFER)))
}

#[cfg(test)]
mod tests {
    use hairpin_model::finding::Severity;
    use hairpin_model::flow::Pacing;
    use hairpin_model::{Arrivals, Case, Measured};

    use super::*;
    use crate::fixture::links::{link, over};
    use crate::fixture::one_way_losses::{counts, interleaved, messages, offered};
    use crate::fixture::{pair, repeated, value, verdict};

    fn found(case: &Case, lost: &[(&str, u64)]) -> Vec<Finding> {
        interleaved(&[(case, &counts(lost, 0.0))]).findings(CARD.code)
    }

    #[test]
    fn drops_and_refusals_of_the_senders_kernel_are_separate() {
        let found = found(&messages("udp"), &[(QDISC, 300), (SEND_BUFFER, 100)]);
        assert_eq!((found.len(), found[0].severity, found[0].share), (1, Severity::Warning, 0.4));
        let counts = [keys::LOST_AT_SENDER, keys::SENT, keys::SHARE_OF_SENT].map(|key| value(&found[0], key));
        assert_eq!(counts, [3200.0, 8000.0, 0.4]);
        assert_eq!([keys::BY_QDISC, keys::BY_MEMORY].map(|key| value(&found[0], key)), [2400.0, 800.0]);
        assert!(found[0].has(keys::SHARED_COUNTER), "{found:?}");
    }

    #[test]
    fn in_its_own_namespace_no_other_program_is_counted() {
        let case = over("delay=1ms", messages("udp"));
        let counted = |measured: &mut Measured| {
            counts(&[(QDISC, 300)], 0.0)(measured);
            measured.link = Some(link());
        };
        let found = interleaved(&[(&case, &counted)]).findings(CARD.code);
        assert!(!found[0].has(keys::SHARED_COUNTER), "{found:?}");
    }

    #[test]
    fn the_check_offers_less_than_arrived() {
        let found = found(&messages("udp"), &[(QDISC, 400)]);
        let [own, slower] = pair(&found[0]);
        assert_eq!(own, messages("udp"));
        let load = &slower.primary().load;
        assert_eq!((load.rate_per_s(), load.size_bytes()), (Some(480.0), 100), "80 % of 600");
        assert_eq!(repeated(&found[0]), [slower], "messages at full speed have another command");
    }

    #[test]
    fn a_lower_rate_confirms_the_cause_if_it_loses_nothing_and_refutes_it_if_it_loses_as_much() {
        let own = offered(Arrivals::Fixed, Pacing::SleepSpin);
        let slow = own.at_rate(480.0);
        for (lost, expected, severity) in [(1, "confirmed", Severity::Warning), (395, "refuted", Severity::Note)] {
            let slower = |measured: &mut _| counts(&[(QDISC, lost)], 0.0)(measured);
            let fixture = interleaved(&[(&own, &counts(&[(QDISC, 400)], 0.0)), (&slow, &slower)]);
            let found = fixture.findings(CARD.code);
            assert_eq!((verdict(&found[0]), found[0].severity), (expected, severity));
        }
    }

    #[test]
    fn no_loss_and_other_causes_are_not_findings() {
        assert_eq!(found(&messages("udp"), &[]), []);
        assert_eq!(found(&messages("udp"), &[("receive-buffer-overflow", 400), ("link", 9)]), []);
    }
}
