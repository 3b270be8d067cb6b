//! `shared-connection`: messages wait for bulk data on the same connection.
//!
//! Why: a connection is one ordered stream of bytes. Data that is written later arrives later: it waits for the
//! current write, for unsent data in the socket, and for lost segments before it (head-of-line blocking). The explained
//! time is the latency added compared with the same probe on its own connection, if the run has that case; otherwise
//! the wait before the kernel accepts the first byte plus the wait for unsent data. The finding's share excludes the
//! wait for unsent data, which `own-send-queue` covers, unless a load sets `notsent-lowat`. The counter-experiment
//! gives the probe its own connection. Advice: one connection for each kind of traffic, or a transport with several
//! streams.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::OWN_CONNECTION;
use hairpin_model::flow::ConnectionUse;
use hairpin_model::{Case, CaseSummary, Figure, Finding, FindingCard, Options, Run, finding_keys as keys};

use super::own_send_queue::{find_unsent, is_bounded};
use super::support::{Hits, change_of, judge_by_block, known_evidence, p50, paired, sibling_of};

pub(super) const CARD: FindingCard = FindingCard {
    code: "shared-connection",
    about: About::Cause,
    what: "messages waited for bulk data on the same connection",
    why: "a connection delivers in order, so each message waits for all data written before it",
};

/// Minimum share of the latency to report.
const MIN_SHARE: f64 = 0.1;

struct Shared {
    loaded_ns: Figure,
    /// Latency added compared with a separate connection, if measured.
    longer_ns: Option<Figure>,
    /// Wait before the kernel accepts the first byte, and wait in the socket.
    waits_ns: [Option<Figure>; 2],
}

impl Shared {
    fn explained_ns(&self) -> f64 {
        let waits = self.waits_ns.iter().flatten().map(|wait| wait.value).sum::<f64>();
        self.longer_ns.map_or(waits, |longer| longer.value).min(self.loaded_ns.value)
    }

    /// Returns the explained time. Excludes the wait for unsent data, unless a load sets `notsent-lowat`.
    fn own_ns(&self, case: &Case) -> f64 {
        let reported = self.waits_ns[1].filter(|_| !is_bounded(case));
        (self.explained_ns() - reported.map_or(0.0, |unsent| unsent.value)).max(0.0)
    }
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let hits = Hits::among(run, |case| find_shared_waits(run, case));
    let Some(first) = hits.first() else { return Vec::new() };
    let check = paired(OWN_CONNECTION, [first.case.case.clone(), with_own_connection(&first.case.case)]);
    let [before, unsent] = first.data.waits_ns;
    let figures = [
        (keys::LOADED_P50, Some(first.data.loaded_ns)),
        (keys::LONGER, first.data.longer_ns),
        (keys::BEFORE_FIRST_BYTE, before),
        (keys::UNSENT_WAIT, unsent),
    ];
    vec![Finding {
        evidence: known_evidence(first.case, figures),
        proved: judge_by_block(run, first.case, &check, first.data.explained_ns(), p50),
        counter_experiment: Some(check),
        ..hits.finding(&CARD, Severity::Warning).with(keys::EXPLAINED, first.data.explained_ns())
    }]
}

fn with_own_connection(case: &Case) -> Case {
    case.clone().with(|case| {
        let probe = case.primary_mut();
        (probe.connection_use, probe.options) = (ConnectionUse::Own, Options::default());
    })
}

fn find_shared_waits(run: &Run, case: &CaseSummary) -> Option<(f64, Shared)> {
    if case.case.replicate != 0 || case.case.primary().connection_use != ConnectionUse::Shared {
        return None;
    }
    let own = sibling_of(run, &with_own_connection(&case.case));
    let longer_ns = own.and_then(|own| change_of(run, [own, case], p50)).map(|(longer, _)| longer);
    let before = case.primary().lateness_ns.as_ref().and_then(|lateness| lateness.p50);
    let shared = Shared {
        loaded_ns: case.primary().latency_ns.p50?,
        longer_ns,
        waits_ns: [before, find_unsent(run, case).map(|unsent| unsent.delay_ns)],
    };
    let is_certain = shared.longer_ns.is_none_or(|longer| longer.low.is_none_or(|low| low > 0.0));
    let is_relevant = shared.explained_ns() >= MIN_SHARE * shared.loaded_ns.value;
    (is_relevant && is_certain).then(|| (shared.own_ns(&case.case) / shared.loaded_ns.value, shared))
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
