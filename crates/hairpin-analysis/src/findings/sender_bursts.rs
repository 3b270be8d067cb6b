//! `sender-bursts`: the sender's messages came in bursts that overran a buffer or a queue.
//!
//! Why: the same rate at even intervals may lose nothing. Bursts are requested (`--arrivals burst=N`), or caused by a
//! sender that misses its send times: a generator that sleeps too long catches up by sending all due messages at once,
//! and a tool that does so reports its own bursts as losses of the path. Evidence: the share of intervals between
//! messages below half of the intended interval, which every open loop measures; and messages lost where bursts are
//! lost: in the receive buffer, the sender's queue, or the queue of a link. The counter-experiment keeps the rate and
//! spaces the messages evenly (arrivals fixed, or a sender that spins). A generator that did not reach its rate is
//! `rate-not-reached`. Advice: pace.

use hairpin_model::arrivals::Arrivals;
use hairpin_model::case::Case;
use hairpin_model::figure::Figure;
use hairpin_model::finding::{About, CounterExperiment, Finding, FindingCard, Severity};
use hairpin_model::flow::{Load, Pacing};
use hairpin_model::ledger::{LINK, QDISC, RECEIVE_BUFFER, SEND_BUFFER};
use hairpin_model::quantities;
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::link_drops::by_queue;
use super::support::{Hits, Lost, evidence, lost_to, paired, rounds_of};
use crate::open_loop;

pub(super) const CARD: FindingCard = FindingCard {
    code: "sender-bursts",
    about: About::Cause,
    what: "the sender sent in bursts, which overran a buffer or a queue",
    why: "the same rate in even distances may lose nothing",
};

/// Places where bursts are lost: a link's queue counts only for requested bursts.
const BUFFERS: &[&str] = &[RECEIVE_BUFFER, QDISC, SEND_BUFFER];
const BUFFERS_AND_QUEUE: &[&str] = &[RECEIVE_BUFFER, QDISC, SEND_BUFFER, LINK];
/// Minimum share of intervals below half for an uneven sender.
const UNEVEN: f64 = 0.1;

struct Bursts {
    lost: Lost,
    /// Messages per requested burst; `None` if the sender caused the bursts.
    asked: Option<u32>,
    below_half: Option<Figure>,
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let hits = Hits::among(run, |case| {
        let bursts = bursts(run, case)?;
        Some((bursts.lost.share(), bursts))
    });
    let Some(first) = hits.first() else { return Vec::new() };
    let (Bursts { lost, asked, below_half }, case) = (&first.with, first.case);
    let experiment = even(&case.case);
    let pair = experiment.as_ref().and_then(|experiment| experiment.pair.as_ref());
    let how = match (asked, below_half) {
        (Some(count), _) => format!("messages came in bursts of {count}, as requested"),
        (None, Some(share)) => format!(
            "{} of the distances between messages were less than half of what was requested",
            quantities::share_figure(*share)
        ),
        (None, None) => "messages came in bursts".to_owned(),
    };
    let mut all_evidence = lost.evidence("messages lost in buffers and queues", case);
    let below = format!("share of distances below half, {}", case.label);
    all_evidence.extend(below_half.map(|share| evidence(below, share, "share")));
    vec![Finding {
        summary: format!(
            "{}: {how}, and {} of {} were lost in buffers and queues ({}).{}",
            case.label,
            quantities::count(lost.count),
            quantities::count(lost.sent),
            quantities::share(first.share),
            hits.others()
        ),
        evidence: all_evidence,
        advice: "Space messages evenly: pace with a timer that spins at the end (--pacing spin on a CPU of its own), and do not \
                 catch up by sending at once what is late. Else the buffers must hold a whole burst."
            .to_owned(),
        proved: pair.and_then(|pair| lost.gone(run, case, &pair[1], "space the messages evenly")),
        counter_experiment: experiment,
        ..hits.finding(&CARD, Severity::Warning)
    }]
}

fn bursts(run: &Run, case: &CaseSummary) -> Option<Bursts> {
    let Load::Offered { arrivals, .. } = case.case.primary().load else { return None };
    let rounds: Vec<_> = rounds_of(run, &case.id).into_iter().map(|(_, measured)| measured).collect();
    if open_loop::share_reached(&case.case, &rounds)? < open_loop::SATURATED_BELOW {
        return None;
    }
    let asked = match arrivals {
        Arrivals::Burst(count) => Some(count).filter(|count| *count > 1),
        Arrivals::Fixed | Arrivals::Poisson => None,
    };
    // A sender's jitter does not matter to the queue of a link, which the mean rate fills.
    let causes = if asked.is_some() && by_queue(run, case) { BUFFERS_AND_QUEUE } else { BUFFERS };
    let lost = lost_to(case, causes)?;
    let below_half = case.primary().one_way.as_ref()?.pacing.as_ref().and_then(|pacing| pacing.share_below_half);
    let is_uneven = below_half.is_some_and(|share| share.value >= UNEVEN);
    (asked.is_some() || is_uneven).then_some(Bursts { lost, asked, below_half })
}

/// The same rate at even intervals, by schedule or by pacing. `None` if the case cannot be more even.
fn even(case: &Case) -> Option<CounterExperiment> {
    let Load::Offered { offered_per_s, size_bytes, arrivals, pacing } = case.primary().load else { return None };
    let with = |arrivals, pacing| {
        let load = Load::Offered { offered_per_s, size_bytes, arrivals, pacing };
        case.clone().with(|changed| changed.primary_mut().load = load)
    };
    let words = "space the messages evenly at the same rate; if as much is lost, the bursts are not the cause";
    let changed = if arrivals != Arrivals::Fixed {
        with(Arrivals::Fixed, pacing)
    } else if pacing == Pacing::SleepSpin && case.ends.placement.has_own_cpus() {
        with(arrivals, Pacing::Spin)
    } else {
        return None;
    };
    Some(paired(words, [case.clone(), changed]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::apart;
    use crate::fixture::one_way_losses::{counts, interleaved, messages, offered};

    fn found(case: &Case, lost: &[(&str, u64)], below_half: f64) -> Vec<Finding> {
        interleaved(&[(case, &counts(lost, below_half))]).findings(CARD.code)
    }

    #[test]
    fn requested_bursts_are_checked_by_even_intervals() {
        let burst = offered(Arrivals::Burst(50), Pacing::SleepSpin);
        let even = offered(Arrivals::Fixed, Pacing::SleepSpin);
        let verdict = |lost: u64| {
            let evenly = |measured: &mut _| counts(&[(RECEIVE_BUFFER, lost)], 0.0)(measured);
            let found = interleaved(&[(&burst, &counts(&[(RECEIVE_BUFFER, 400)], 0.0)), (&even, &evenly)])
                .findings(CARD.code);
            assert_eq!(found.len(), 1);
            (found[0].proved.as_ref().unwrap().verdict.clone(), found[0].severity, found[0].summary.clone())
        };
        let (confirmed, severity, summary) = verdict(0);
        assert_eq!((confirmed.as_str(), severity), ("confirmed", Severity::Warning));
        assert!(summary.contains("in bursts of 50, as requested, and 3 200 of 8 000 were lost"), "{summary}");
        let (refuted, severity, _) = verdict(400);
        assert_eq!((refuted.as_str(), severity), ("refuted", Severity::Note));
        let found = found(&burst, &[(RECEIVE_BUFFER, 400)], 0.0);
        assert_eq!(found[0].counter_experiment.as_ref().unwrap().repeat.cases, [burst, even]);
    }

    #[test]
    fn bursts_of_the_sender_show_in_its_intervals_and_are_checked_by_spinning() {
        let case = offered(Arrivals::Fixed, Pacing::SleepSpin);
        let lost = &[(RECEIVE_BUFFER, 100), ("link", 7)];
        let together = found(&case, lost, 0.3);
        assert!(
            together[0].summary.contains("30 % (30-30) of the distances between messages"),
            "{}",
            together[0].summary
        );
        assert_eq!(
            (together[0].share, &together[0].counter_experiment),
            (0.1, &None),
            "a sender that spins needs a CPU"
        );
        let found = found(&apart(case.clone()), lost, 0.3);
        let cases = [apart(case), apart(offered(Arrivals::Fixed, Pacing::Spin))];
        assert_eq!(found[0].counter_experiment.as_ref().unwrap().repeat.cases, cases);
    }

    #[test]
    fn an_even_sender_no_loss_and_a_loss_on_the_path_are_no_finding() {
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
