//! `udp-receive-overrun`: the receiver's socket buffer was full, so its kernel dropped datagrams.
//!
//! While a receiver does not run (it waits for its CPU, or does something else), its buffer must hold all arrivals, and the
//! kernel drops what does not fit without notice to either program; tools that count at the sender report that as packet loss.
//! Evidence: the receiver's own counter of drops (`SK_MEMINFO_DROPS`; over a link `Udp: RcvbufErrors` of its network namespace),
//! as a share of the messages sent. The counter-experiment is a receive buffer of 4 MiB. If the same share is lost with this
//! buffer, the receiver is slower than the sender on average and no buffer helps: the finding then keeps the counted drops and
//! says that.

use hairpin_model::finding::About;
use hairpin_model::finding_keys::check::LARGER_BUFFER;
use hairpin_model::ledger::RECEIVE_BUFFER;
use hairpin_model::options::OptionName;
use hairpin_model::{
    Case, CaseSummary, CounterExperiment, Evidence, Finding, FindingCard, Placement, Protocol, Run,
    finding_keys as keys,
};

use super::support::{REFUTED, arrived_per_s, evidence, evidence_of, losses_by, paired, sibling_of, with_option};

pub(super) const CARD: FindingCard = FindingCard {
    code: "udp-receive-overrun",
    about: About::Cause,
    what: "the receive buffer of a UDP socket was full, so the receiver's kernel dropped datagrams",
    why: "the receiver lost the datagrams, not the network: the receiver must read faster or have a larger buffer",
};

const CAUSES: &[&str] = &[RECEIVE_BUFFER];
/// The requested `SO_RCVBUF`, in bytes.
const LARGE_BYTES: u64 = 4 << 20;
/// Minimum ratio of the share lost with a larger buffer to the original share to conclude that no buffer helps.
const MIN_EQUAL_LOSS: f64 = 0.9;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    run.cards.get(&case.case.primary().transport).filter(|card| card.protocol == Protocol::Udp)?;
    let check = larger_buffer(&case.case);
    let changed = check.as_ref().and_then(|check| check.pair.as_ref()).map(|pair| &pair[1]);
    let larger = changed.and_then(|changed| sibling_of(run, changed));
    let has_check = check.is_some();
    let mut finding = losses_by(case, CAUSES)?.finding(run, &CARD, (case, keys::LOST_FOR_ROOM), check);
    // The counted drops remain: equal losses with a larger buffer only show that the receiver is too slow.
    let is_refuted = finding.proved.as_ref().is_some_and(|proved| proved.verdict == REFUTED);
    let still_lost = larger.filter(|_| is_refuted);
    let still_lost = still_lost.map(|larger| losses_by(larger, CAUSES).map_or(0.0, |lost| lost.share()));
    let too_slow = still_lost.filter(|share| *share >= MIN_EQUAL_LOSS * finding.share);
    if too_slow.is_some() {
        (finding.proved, finding.counter_experiment) = (None, None);
    }
    finding.evidence.extend(granted_buffer(case));
    finding.evidence.extend(arrived_per_s(case).map(|per_s| evidence_of(case, keys::RECEIVED_PER_S, per_s)));
    finding.evidence.extend(too_slow.map(|share| evidence(keys::LOST_WITH_LARGE, share)));
    let finding = finding.with_if(too_slow.is_none() && has_check, keys::BUFFER_HELPS);
    Some(finding.with_if(case.case.ends.placement == Placement::SameCpu, keys::SAME_CPU))
}

/// Returns the buffer size of the first end that has the option; both ends request the same size.
fn granted_buffer(case: &CaseSummary) -> Option<Evidence> {
    let mut options = case.ends.iter().flat_map(|end| &end.effective_options);
    let bytes = options.find(|option| option.name == OptionName::Rcvbuf)?.before.parse::<f64>().ok()?;
    Some(evidence_of(case, keys::BUFFER_GRANTED, bytes))
}

fn larger_buffer(case: &Case) -> Option<CounterExperiment> {
    let asked = case.primary().options.get(OptionName::Rcvbuf).and_then(|asked| asked.parse::<u64>().ok());
    if asked.is_some_and(|asked| asked >= LARGE_BYTES) {
        return None;
    }
    let changed = with_option(case, OptionName::Rcvbuf, &LARGE_BYTES.to_string());
    Some(paired(LARGER_BUFFER, [case.clone(), changed]))
}

#[cfg(test)]
mod tests {
    use hairpin_model::Options;
    use hairpin_model::finding::Severity;

    use super::*;
    use crate::fixture::one_way_losses::{counts, interleaved, messages};
    use crate::fixture::{pair, repeated, value};

    fn with(options: &str) -> Case {
        messages("udp").with(|case| case.primary_mut().options = Options::parse(options).unwrap())
    }

    fn found(case: &Case, lost: &[(&str, u64)]) -> Vec<Finding> {
        interleaved(&[(case, &counts(lost, 0.0))]).findings(CARD.code)
    }

    #[test]
    fn a_full_buffer_is_the_receivers_loss_and_a_larger_one_is_the_check() {
        let found = found(&with("rcvbuf=4096"), &[(RECEIVE_BUFFER, 400)]);
        assert_eq!((found.len(), found[0].severity, found[0].share), (1, Severity::Warning, 0.4));
        let counts = [keys::LOST_FOR_ROOM, keys::SENT, keys::SHARE_OF_SENT].map(|key| value(&found[0], key));
        assert_eq!(counts, [3200.0, 8000.0, 0.4]);
        assert!(found[0].has(keys::BUFFER_HELPS), "{found:?}");
        let cases = ["rcvbuf=4096", "rcvbuf=4194304"].map(with);
        assert_eq!((&pair(&found[0]), repeated(&found[0])), (&cases, &cases[..]));
    }

    #[test]
    fn a_larger_buffer_that_loses_nothing_confirms_the_cause() {
        let (own, large) = (messages("udp"), with("rcvbuf=4194304"));
        let fixture = interleaved(&[(&own, &counts(&[(RECEIVE_BUFFER, 400)], 0.0)), (&large, &counts(&[], 0.0))]);
        let found = fixture.findings(CARD.code);
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!((proved.verdict.as_str(), proved.unit.as_str()), ("confirmed", "share"));
        assert!((proved.effect.value + 0.4).abs() < 1e-12, "{proved:?}");
    }

    #[test]
    fn a_receiver_that_loses_as_much_with_a_larger_buffer_is_too_slow() {
        let (own, large) = (messages("udp"), with("rcvbuf=4194304"));
        let counted = |lost: u64| move |measured: &mut _| counts(&[(RECEIVE_BUFFER, lost)], 0.0)(measured);
        let found = interleaved(&[(&own, &counted(400)), (&large, &counted(390))]).findings(CARD.code);
        assert_eq!((found.len(), found[0].severity, found[0].share), (1, Severity::Warning, 0.4));
        assert!((value(&found[0], keys::LOST_WITH_LARGE) - 0.39).abs() < 0.005, "{found:?}");
        assert!(!found[0].has(keys::BUFFER_HELPS), "{found:?}");
        assert_eq!((&found[0].proved, &found[0].counter_experiment), (&None, &None));
    }

    #[test]
    fn no_loss_other_causes_and_round_trips_are_not_findings() {
        assert_eq!(found(&messages("udp"), &[]), []);
        assert_eq!(found(&messages("udp"), &[("link", 400), ("qdisc", 9)]), []);
        assert_eq!(found(&Case::ping_pong("udp"), &[("receive-buffer-overflow-server", 400)]), []);
    }
}
