//! `udp-send-overrun`: the sender's own kernel dropped or refused datagrams, before any network.
//!
//! Why: a datagram that does not fit in the queue discipline of the sender's device is dropped there, and the send call
//! succeeds (udp_send_skb, net/ipv4/udp.c, reports it only to sockets with `IP_RECVERR`); if the kernel has no memory
//! the call fails with `ENOBUFS`. Either way no other host saw the message. Evidence: the drops of the queue
//! disciplines (rtnetlink, `TCA_STATS2`) and the refused calls. In the host's own network namespace other programs also
//! increase the first. The counter-experiment offers 80 % of the rate that arrived. Advice: pace.

use hairpin_model::finding::{About, Finding, FindingCard, Severity};
use hairpin_model::ledger::{QDISC, SEND_BUFFER};
use hairpin_model::quantities;
use hairpin_model::run::Run;

use super::support::{Hits, lost_to, slower};

pub(super) const CARD: FindingCard = FindingCard {
    code: "udp-send-overrun",
    about: About::Cause,
    what: "the sender's own kernel dropped or refused datagrams: its queue was full",
    why: "the messages never left the sender's host, and most programs are not told",
};

const CAUSES: &[&str] = &[QDISC, SEND_BUFFER];

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let hits = Hits::among(run, |case| {
        let lost = lost_to(case, CAUSES)?;
        Some((lost.share(), lost))
    });
    let Some(first) = hits.first() else { return Vec::new() };
    let (lost, case) = (&first.with, first.case);
    let words = "offer 80 % of the rate that arrived; if as much is lost, the rate is not the cause";
    let experiment = slower(case, 0.8, words);
    let pair = experiment.as_ref().and_then(|experiment| experiment.pair.as_ref());
    let of = |cause: &str| case.ledger().lost.get(cause).copied().unwrap_or(0);
    let parts = [
        (of(QDISC), "dropped by the queue discipline of its device"),
        (of(SEND_BUFFER), "refused for lack of memory (ENOBUFS)"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", quantities::count(count)))
        .collect();
    let whose = if of(QDISC) > 0 && !case.case.is_emulated() {
        " The counter is that of the whole network namespace, so other programs may have a part in it."
    } else {
        ""
    };
    vec![Finding {
        summary: format!(
            "{}: the sender's kernel lost {} of {} messages ({}): {}.{whose}{}",
            case.label,
            quantities::count(lost.count),
            quantities::count(lost.sent),
            quantities::share(first.share),
            parts.join(", "),
            hits.others()
        ),
        evidence: lost.evidence("messages that the sender's kernel dropped or refused", case),
        advice: "Send at the rate of the device: pace in the program (hairpin offered-load --rate), or let the kernel pace \
                 (the queue discipline fq and SO_MAX_PACING_RATE). A longer queue (txqueuelen, the limit of the queue discipline) \
                 only absorbs bursts. IP_RECVERR makes the kernel report these drops."
            .to_owned(),
        proved: pair.and_then(|pair| lost.gone(run, case, &pair[1], "offer 80 % of the rate that arrived")),
        counter_experiment: experiment,
        ..hits.finding(&CARD, Severity::Warning)
    }]
}

#[cfg(test)]
mod tests {
    use hairpin_model::arrivals::Arrivals;
    use hairpin_model::case::Case;
    use hairpin_model::flow::{Load, Pacing};

    use super::*;
    use crate::fixture::links::{link, over};
    use crate::fixture::one_way_losses::{counts, interleaved, messages, offered};

    fn found(case: &Case, lost: &[(&str, u64)]) -> Vec<Finding> {
        interleaved(&[(case, &counts(lost, 0.0))]).findings(CARD.code)
    }

    #[test]
    fn drops_and_refusals_of_the_senders_kernel_are_separate() {
        let found = found(&messages("udp"), &[(QDISC, 300), (SEND_BUFFER, 100)]);
        assert_eq!((found.len(), found[0].severity, found[0].share), (1, Severity::Warning, 0.4));
        let summary = &found[0].summary;
        assert!(summary.contains("lost 3 200 of 8 000 messages (40 %)"), "{summary}");
        assert!(summary.contains("2 400 dropped by the queue discipline of its device, 800 refused"), "{summary}");
        assert!(summary.contains("that of the whole network namespace"), "{summary}");
    }

    #[test]
    fn in_its_own_namespace_no_other_program_is_counted() {
        let case = over("delay=1ms", messages("udp"));
        let counted = |measured: &mut _| counts(&[(QDISC, 300)], 0.0)(measured);
        let found = interleaved(&[(&case, &|measured| {
            counted(measured);
            measured.link = Some(link());
        })])
        .findings(CARD.code);
        assert!(!found[0].summary.contains("namespace"), "{}", found[0].summary);
    }

    #[test]
    fn the_check_offers_less_than_arrived() {
        let found = found(&messages("udp"), &[(QDISC, 400)]);
        let experiment = found[0].counter_experiment.as_ref().unwrap();
        let pair = experiment.pair.as_ref().unwrap();
        assert_eq!(pair[0], messages("udp"));
        assert!(
            matches!(pair[1].primary().load, Load::Offered { offered_per_s: 480.0, size_bytes: 100, .. }),
            "80 % of 600"
        );
        assert_eq!(experiment.repeat.cases, [pair[1].clone()], "messages at full speed have another command");
    }

    #[test]
    fn a_lower_rate_that_loses_nothing_confirms_it_and_one_that_loses_as_much_refutes_it() {
        let own = offered(Arrivals::Fixed, Pacing::SleepSpin);
        let slow = own.clone().with(|case| {
            if let Load::Offered { offered_per_s, .. } = &mut case.primary_mut().load {
                *offered_per_s = 480.0;
            }
        });
        let verdict = |lost: u64| {
            let slower = |measured: &mut _| counts(&[(QDISC, lost)], 0.0)(measured);
            let fixture = interleaved(&[(&own, &counts(&[(QDISC, 400)], 0.0)), (&slow, &slower)]);
            let found = fixture.findings(CARD.code);
            (found[0].proved.as_ref().unwrap().verdict.clone(), found[0].severity)
        };
        assert_eq!(verdict(1), ("confirmed".to_owned(), Severity::Warning));
        assert_eq!(verdict(395), ("refuted".to_owned(), Severity::Note));
    }

    #[test]
    fn no_loss_and_other_causes_are_no_finding() {
        assert_eq!(found(&messages("udp"), &[]), []);
        assert_eq!(found(&messages("udp"), &[("receive_buffer", 400), ("link", 9)]), []);
    }
}
