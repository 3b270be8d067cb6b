//! `delayed-ack`: the server acknowledged data long after its arrival.
//!
//! A receiver that has nothing to send delays its acknowledgment, by 40 ms and more on Linux (RFC 1122, 4.2.3.2). The delay
//! costs nothing unless something waits for the ACK: Nagle's algorithm, a full window, a cautious sender. Evidence, in
//! traced rounds: pure ACKs sent at least 10 ms after their data reached the server's host; and the pure ACKs that the
//! kernel counted. If Nagle's algorithm waited for them in the same case, only `nagle-meets-delayed-ack` is reported.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::QUICK_ACKS;
use hairpin_model::trace::End;
use hairpin_model::{CaseSummary, Finding, FindingCard, Remedy, Run, TracedExchange, Wait, finding_keys as keys};

use super::support::{Traced, evidence_of, other_remedy, pure_acks, stall, with_share};

pub(super) const CARD: FindingCard = FindingCard {
    code: "delayed-ack",
    about: About::Traffic,
    what: "the server sent ACKs late",
    why: "a delayed ACK costs nothing by itself, but delays whatever waits for it",
};

/// Minimum share and minimum number of exchanges to report.
const MIN_SHARE: f64 = 0.1;
const MIN_EXCHANGES: usize = 2;
/// Maximum time between an acknowledgment and a write that waited for it, in ns.
const MAX_GAP_NS: u64 = 1_500_000;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    if case.case.replicate != 0 || stall(run, case).is_some() {
        return None;
    }
    let traced = Traced::of(run, case)?;
    let late = |_: &TracedExchange, wait: &Wait| is_late(wait);
    let often = traced.frequency(late);
    let enough = often.some >= MIN_EXCHANGES && often.some as f64 >= MIN_SHARE * often.all as f64;
    let longest = |exchange: &TracedExchange| {
        let late = exchange.waits.iter().filter(|wait| is_late(wait)).map(|wait| wait.until_ns - wait.from_ns);
        late.max().map(|delay_ns| delay_ns as f64)
    };
    let delay_ns = traced.figure(longest).filter(|_| enough)?;
    // The share of the time of all traced exchanges during which data was held until a late acknowledgment arrived.
    let waited = traced.frequency(|exchange, wait| {
        let with = |ack: &Wait| is_late(ack) && ack.over_ns().abs_diff(wait.until_ns) <= MAX_GAP_NS;
        wait.end == End::Client && wait.cause != ExchangeState::DelayedAck && exchange.waits.iter().any(with)
    });
    // `quickack` would replace another remedy, and the pair would then differ in more than quick ACKs.
    let plain = case.case.primary().load.exchange().is_some_and(|own| own.remedy == Remedy::Default);
    let other = other_remedy(run, case, Remedy::Quickack, QUICK_ACKS).filter(|_| plain);
    let mut evidence = vec![
        evidence_of(case, keys::ACK_DELAY, delay_ns),
        evidence_of(case, keys::LATE_ACK_EXCHANGES, often.of_exchanges()),
    ];
    evidence.extend(pure_acks(case));
    let finding = often.add_facts(with_share(&CARD, Severity::Note, waited.share)).with(keys::WAITED, waited.share);
    Some(Finding {
        evidence,
        counter_experiment: other.map(|other| other.experiment),
        ..finding.with_if(case.case.path.across.is_some(), keys::TWO_HOSTS)
    })
}

fn is_late(wait: &Wait) -> bool {
    wait.cause == ExchangeState::DelayedAck && wait.end == End::Server
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::traces::{self, MS, US, switches, uncaptured};
    use crate::fixture::{Fixture, evidence_rounds, found_traced, pair, shows, small_writes, traced_rounds, value};

    const CODE: &str = "delayed-ack";

    #[test]
    fn late_acknowledgments_that_nothing_waits_for_are_a_note() {
        for trace in [traces::one_write(60 * MS), uncaptured(traces::one_write(60 * MS))] {
            let case = small_writes("default");
            let found = found_traced(CODE, &case, 60 * MS, &trace, &switches("off", "off"));
            assert_eq!((found.len(), found[0].severity, found[0].share), (1, Severity::Note, 0.0));
            let known = [keys::SEEN, keys::TRACED, keys::WAITED].map(|key| value(&found[0], key));
            assert_eq!(known, [18.0, 18.0, 0.0], "nothing waited for the ACKs");
            assert!(shows(&found[0], keys::ACK_DELAY, 40e6) && !found[0].has(keys::TWO_HOSTS), "{found:?}");
            assert_eq!(pair(&found[0]), [case, small_writes("quickack")]);
        }
    }

    #[test]
    fn late_acknowledgments_caused_only_by_tracing_are_not_evidence() {
        let off = switches("off", "off");
        for (untraced, found) in [([20 * MS; 6], 0), ([60 * MS; 6], 1)] {
            let mut fixture = Fixture::new();
            let evidence = (&traces::one_write(60 * MS), &untraced[..]);
            evidence_rounds(&mut fixture, &small_writes("default"), 20 * MS, evidence, [&off, &off]);
            assert_eq!(fixture.findings(CODE).len(), found);
        }
    }

    #[test]
    fn late_acks_are_not_reported_twice_and_quick_acks_are_not_a_finding() {
        let off = switches("off", "off");
        let mut fixture = Fixture::new();
        traced_rounds(&mut fixture, &small_writes("default"), 44 * MS, &traces::none(), &off);
        traced_rounds(&mut fixture, &small_writes("one-write"), 40 * MS, &traces::one_write(39 * MS), &off);
        traced_rounds(&mut fixture, &small_writes("nodelay"), MS, &traces::nodelay(), &switches("on", "off"));
        traced_rounds(&mut fixture, &small_writes("cork"), 180 * US, &traces::cork(), &off);
        fixture.rounds_of(&small_writes("quickack"), &[40 * MS; 6]);
        assert_eq!(fixture.findings(CODE), []);
    }

    #[test]
    fn a_wait_for_a_late_ack_is_reported_if_nagle_is_unproven() {
        let found = found_traced(CODE, &small_writes("default"), 44 * MS, &traces::none(), &[]);
        assert!(found[0].share > 0.9 && value(&found[0], keys::WAITED) > 0.9, "{found:?}");
    }
}
