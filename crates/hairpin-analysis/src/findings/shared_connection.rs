//! `shared-connection`: messages wait for bulk data on the same connection.
//!
//! Data that is written later arrives later: it waits for the current write, for unsent data in the socket, and for lost segments
//! before it (head-of-line blocking). The explained time is the latency added compared with the same probe on its own connection,
//! if the run has that case; otherwise the wait before the kernel accepts the first byte plus the wait for unsent data. The
//! finding's share excludes the wait for unsent data, which `own-send-queue` covers, unless a load sets `notsent-lowat`. The
//! counter-experiment gives the probe its own connection.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::OWN_CONNECTION;
use hairpin_model::flow::ConnectionUse;
use hairpin_model::{Case, CaseSummary, Finding, FindingCard, Options, Run, finding_keys as keys};

use super::own_send_queue::{is_bounded, unsent_delay_ns};
use super::support::{change_of, judge_by_block, known_evidence, p50, paired, sibling_of, with_share};

pub(super) const CARD: FindingCard = FindingCard {
    code: "shared-connection",
    about: About::Cause,
    what: "messages waited for bulk data on the same connection",
    why: "a connection delivers in order, so each message waits for all data written before it",
};

/// Minimum share of the latency to report.
const MIN_SHARE: f64 = 0.1;

fn with_own_connection(case: &Case) -> Case {
    case.clone().with(|case| {
        let probe = case.primary_mut();
        (probe.connection_use, probe.options) = (ConnectionUse::Own, Options::default());
    })
}

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    if case.case.replicate != 0 || case.case.primary().connection_use != ConnectionUse::Shared {
        return None;
    }
    let own = with_own_connection(&case.case);
    let longer = sibling_of(run, &own).and_then(|own| change_of(run, [own, case], p50)).map(|(longer, _)| longer);
    // The wait before the kernel accepts the first byte, and that in the socket.
    let before = case.primary().lateness_ns.as_ref().and_then(|lateness| lateness.p50);
    let unsent = unsent_delay_ns(run, case);
    let loaded = case.primary().latency_ns.p50?;
    let waits_ns: f64 = [before, unsent].iter().flatten().map(|wait| wait.value).sum();
    let explained_ns = longer.map_or(waits_ns, |longer| longer.value).min(loaded.value);
    let is_certain = longer.is_none_or(|longer| longer.low.is_none_or(|low| low > 0.0));
    if explained_ns < MIN_SHARE * loaded.value || !is_certain {
        return None;
    }
    let reported_ns = unsent.filter(|_| !is_bounded(&case.case)).map_or(0.0, |unsent| unsent.value);
    let figures = [
        (keys::LOADED_P50, Some(loaded)),
        (keys::LONGER, longer),
        (keys::BEFORE_FIRST_BYTE, before),
        (keys::UNSENT_WAIT, unsent),
    ];
    let check = paired(OWN_CONNECTION, [case.case.clone(), own]);
    let share = (explained_ns - reported_ns).max(0.0) / loaded.value;
    Some(Finding {
        evidence: known_evidence(case, figures),
        proved: judge_by_block(run, case, &check, explained_ns, p50),
        counter_experiment: Some(check),
        ..with_share(&CARD, Severity::Warning, share).with(keys::EXPLAINED, explained_ns)
    })
}

#[cfg(test)]
mod tests {
    use hairpin_model::Finding;

    use super::*;
    use crate::fixture::under_load::{Beside, bounded_over_link, shared_over_link};
    use crate::fixture::{Fixture, repeated, shows};

    fn found(cases: &[(Case, Beside)]) -> Option<Finding> {
        Fixture::of_beside(cases).findings(CARD.code).pop()
    }

    #[test]
    fn without_a_sibling_the_finding_is_based_on_unsent_data() {
        let finding = found(&[(shared_over_link(), Beside::unsent(610_000_000, 600_000))])
            .expect("the unsent data takes 500 ms to send");
        assert!(finding.figure(keys::LONGER).is_none() && shows(&finding, keys::EXPLAINED, 500e6), "{finding:?}");
        assert!(finding.share < 0.01, "the probe only waits in the socket, see own-send-queue: {}", finding.share);
        let uses: Vec<_> = repeated(&finding).iter().map(|case| case.primary().connection_use).collect();
        assert_eq!(uses, [ConnectionUse::Shared, ConnectionUse::Own]);
    }

    #[test]
    fn with_notsent_lowat_the_wait_for_unsent_data_counts_for_this_finding() {
        let finding = found(&[(bounded_over_link(), Beside::unsent(110_000_000, 60_000))]).expect("60 kB are unsent");
        assert!((finding.share - 50.0 / 110.0).abs() < 0.01, "{}", finding.share);
    }

    #[test]
    fn the_difference_from_a_separate_connection_confirms_the_cause() {
        let own = with_own_connection(&shared_over_link());
        let both =
            [(shared_over_link(), Beside::unsent(610_000_000, 0)), (own.clone(), Beside::unsent(180_000_000, 0))];
        let finding = found(&both).expect("a probe takes 430 ms longer");
        assert!((finding.share - 430.0 / 610.0).abs() < 0.01, "{}", finding.share);
        assert!(shows(&finding, keys::LONGER, 430e6), "{finding:?}");
        assert_eq!(finding.proved.map(|proved| proved.verdict), Some("confirmed".to_owned()));
        let alike = [(shared_over_link(), Beside::unsent(181_000_000, 0)), (own, Beside::unsent(180_000_000, 0))];
        assert!(found(&alike).is_none());
    }
}
