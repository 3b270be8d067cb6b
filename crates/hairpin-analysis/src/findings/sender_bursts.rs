//! `sender-bursts`: the sender's messages left in bursts that overran a buffer or a queue.
//!
//! Bursts are requested (`--arrivals burst=N`), or caused by a sender that misses its send times: a generator that sleeps too
//! long catches up by sending all due messages at once, and a tool that does so reports its own bursts as losses of the path.
//! Evidence: the share of intervals between messages below half of the intended interval, which every open loop measures; and
//! messages lost where bursts are lost: in the receive buffer, the sender's queue, or the queue of a link. The
//! counter-experiment keeps the rate and spaces the messages evenly (arrivals fixed, or a sender that spins). A generator that
//! did not reach its rate is reported as `rate-not-reached`.

use hairpin_model::finding::About;
use hairpin_model::finding_keys::check::EVEN;
use hairpin_model::flow::Pacing;
use hairpin_model::ledger::{LINK, QDISC, RECEIVE_BUFFER, SEND_BUFFER};
use hairpin_model::{
    Arrivals, Case, CaseSummary, CounterExperiment, Finding, FindingCard, Load, Run, finding_keys as keys,
};

use super::link_drops::by_queue;
use super::support::{evidence_of, losses_by, paired, rounds_of};
use crate::open_loop;

pub(super) const CARD: FindingCard = FindingCard {
    code: "sender-bursts",
    about: About::Cause,
    what: "the sender sent in bursts, which overran a buffer or a queue",
    why: "the same rate at even intervals may lose nothing",
};

/// Where bursts are lost. The queue of a link counts only for requested bursts.
const BUFFERS: &[&str] = &[RECEIVE_BUFFER, QDISC, SEND_BUFFER];
const BUFFERS_AND_QUEUE: &[&str] = &[RECEIVE_BUFFER, QDISC, SEND_BUFFER, LINK];
/// Minimum share of intervals below half of the intended interval for an uneven sender.
const MIN_UNEVEN_SHARE: f64 = 0.1;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let Load::Offered { arrivals, .. } = case.case.primary().load else { return None };
    let rounds: Vec<_> = rounds_of(run, &case.id).into_iter().map(|(_, measured)| measured).collect();
    if open_loop::share_reached(&case.case, &rounds)? < open_loop::MIN_SHARE_REACHED {
        return None;
    }
    // `None` if the sender caused the bursts.
    let asked = Some(arrivals.at_once()).filter(|count| *count > 1);
    // A sender's jitter does not matter to the queue of a link, which the mean rate fills.
    let causes = if asked.is_some() && by_queue(run, case) { BUFFERS_AND_QUEUE } else { BUFFERS };
    let lost = losses_by(case, causes)?;
    let below_half = case.primary().one_way.as_ref()?.pacing.as_ref().and_then(|pacing| pacing.share_below_half);
    let is_uneven = below_half.is_some_and(|share| share.value >= MIN_UNEVEN_SHARE);
    if asked.is_none() && !is_uneven {
        return None;
    }
    let check = even_counter_experiment(&case.case);
    let mut finding = lost.finding(run, &CARD, (case, keys::LOST_IN_BUFFERS), check);
    finding.evidence.extend(below_half.map(|share| evidence_of(case, keys::BELOW_HALF, share)));
    Some(finding.with_some(keys::BURST, asked.map(f64::from)))
}

/// Returns the case with the same rate at even intervals, by schedule or by pacing; `None` if already even.
fn even_counter_experiment(case: &Case) -> Option<CounterExperiment> {
    let Load::Offered { offered_per_s, size_bytes, arrivals, pacing } = case.primary().load else { return None };
    let with = |arrivals, pacing| {
        let load = Load::Offered { offered_per_s, size_bytes, arrivals, pacing };
        case.clone().with(|changed| changed.primary_mut().load = load)
    };
    let changed = if arrivals != Arrivals::Fixed {
        with(Arrivals::Fixed, pacing)
    } else if pacing == Pacing::SleepSpin && case.ends.placement.has_own_cpus() {
        with(arrivals, Pacing::Spin)
    } else {
        return None;
    };
    Some(paired(EVEN, [case.clone(), changed]))
}

#[cfg(test)]
mod tests {
    use hairpin_model::finding::Severity;

    use super::*;
    use crate::fixture::one_way_losses::{counts, interleaved, messages, offered};
    use crate::fixture::{apart, repeated, shows, value, verdict};

    fn found(case: &Case, lost: &[(&str, u64)], below_half: f64) -> Vec<Finding> {
        interleaved(&[(case, &counts(lost, below_half))]).findings(CARD.code)
    }

    #[test]
    fn requested_bursts_are_checked_by_even_intervals() {
        let burst = offered(Arrivals::Burst(50), Pacing::SleepSpin);
        let even = offered(Arrivals::Fixed, Pacing::SleepSpin);
        let found_with = |lost: u64| {
            let evenly = |measured: &mut _| counts(&[(RECEIVE_BUFFER, lost)], 0.0)(measured);
            let fixture = interleaved(&[(&burst, &counts(&[(RECEIVE_BUFFER, 400)], 0.0)), (&even, &evenly)]);
            let [found] = <[Finding; 1]>::try_from(fixture.findings(CARD.code)).expect("one");
            found
        };
        let confirmed = found_with(0);
        assert_eq!((verdict(&confirmed), confirmed.severity), ("confirmed", Severity::Warning));
        let known = [keys::BURST, keys::LOST_IN_BUFFERS, keys::SENT].map(|key| value(&confirmed, key));
        assert_eq!(known, [50.0, 3200.0, 8000.0]);
        let refuted = found_with(400);
        assert_eq!((verdict(&refuted), refuted.severity), ("refuted", Severity::Note));
        let found = found(&burst, &[(RECEIVE_BUFFER, 400)], 0.0);
        assert_eq!(repeated(&found[0]), [burst, even]);
    }

    #[test]
    fn bursts_of_the_sender_are_seen_in_its_intervals_and_checked_by_spinning() {
        let case = offered(Arrivals::Fixed, Pacing::SleepSpin);
        let lost = &[(RECEIVE_BUFFER, 100), ("link", 7)];
        let together = found(&case, lost, 0.3);
        assert!(!together[0].has(keys::BURST) && shows(&together[0], keys::BELOW_HALF, 0.3), "{together:?}");
        assert!(together[0].figure(keys::BELOW_HALF).unwrap().low.is_some());
        assert_eq!(together[0].share, 0.1);
        assert_eq!(together[0].counter_experiment, None, "a sender that spins needs a CPU");
        let found = found(&apart(case.clone()), lost, 0.3);
        let cases = [apart(case), apart(offered(Arrivals::Fixed, Pacing::Spin))];
        assert_eq!(repeated(&found[0]), cases);
    }

    #[test]
    fn an_even_sender_no_loss_and_a_loss_on_the_path_are_not_findings() {
        let case = offered(Arrivals::Fixed, Pacing::SleepSpin);
        assert_eq!(found(&case, &[(RECEIVE_BUFFER, 400)], 0.09), []);
        assert_eq!(found(&case, &[], 0.5), []);
        assert_eq!(found(&offered(Arrivals::Burst(50), Pacing::SleepSpin), &[("link", 400)], 0.5), []);
        assert_eq!(found(&messages("udp"), &[(RECEIVE_BUFFER, 400)], 0.5), []);
    }

    #[test]
    fn a_sender_that_did_not_reach_its_rate_is_another_finding() {
        let case = offered(Arrivals::Fixed, Pacing::SleepSpin);
        let slow = |measured: &mut hairpin_model::round::Measured| {
            counts(&[(RECEIVE_BUFFER, 400)], 0.5)(measured);
            measured.primary_mut().sent.as_mut().unwrap().over_ns = 2_000_000_000;
        };
        assert_eq!(interleaved(&[(&case, &slow)]).findings(CARD.code), []);
        assert_eq!(interleaved(&[(&case, &slow)]).findings("rate-not-reached").len(), 1);
    }
}
