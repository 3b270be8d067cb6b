//! `nagle-waits`: written bytes were held for a round trip, until an ACK without delay came back.
//!
//! Nagle's algorithm (RFC 896) holds a small segment while an earlier one is unacknowledged. Even if the server acknowledges at
//! once, the rest of a request waits for one round trip of the path: negligible on loopback, but a second trip to the server and
//! back over a link. Evidence, in traced rounds: writes that left when an ACK that was not delayed covered all earlier bytes;
//! untraced exchanges that take as long; `TCP_NODELAY` granted as off. If the acknowledgment was delayed, only
//! `nagle-meets-delayed-ack` is reported. The share is the time that writes were held, relative to the duration of a timed
//! exchange.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::finding::{About, Severity};
use hairpin_model::options::OptionName;
use hairpin_model::trace::End;
use hairpin_model::{
    CaseSummary, Finding, FindingCard, Run, TracedExchange, Wait, fact, fact_names, finding_keys as keys,
};

use super::support::{Traced, checked_by, evidence_of, held_ns, p50_of_exchange, stall, with_share, without_nagle};
use crate::trace::switch;

pub(super) const CARD: FindingCard = FindingCard {
    code: "nagle-waits",
    about: About::Cause,
    what: "Nagle's algorithm held small writes for a round trip, until an earlier one was acknowledged",
    why: "a request in several writes costs one more round trip, however quickly the server sends its ACK",
};

/// Minimum share of the exchanges' time to report.
const MIN_SHARE: f64 = 0.05;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let off = switch(&case.client().effective_options, OptionName::Nodelay) == Some(false);
    if case.case.replicate != 0 || !off || stall(run, case).is_some() {
        return None;
    }
    let traced = Traced::of(run, case)?;
    // In an exchange only the client's writes can be held. In an open loop answers follow one another, so the
    // server's writes can be held too.
    let both_ends = case.case.primary().load.exchange().is_none();
    let by_nagle = |_: &TracedExchange, wait: &Wait| {
        wait.cause == ExchangeState::Nagle && (both_ends || wait.end == End::Client)
    };
    let often = traced.frequency(by_nagle);
    let held = traced.figure(|exchange| Some(held_ns(exchange, by_nagle)).filter(|held| *held > 0.0));
    let held = held.filter(|_| often.share >= MIN_SHARE)?;
    let mut evidence = vec![
        evidence_of(case, keys::HELD_AT, held).of(End::Client.word()),
        evidence_of(case, keys::WAITING_EXCHANGES, often.of_exchanges()),
        evidence_of(case, keys::NODELAY_OFF, 0.0).of(End::Client.word()),
    ];
    let min_rtt_us = fact::number(&case.client().facts, fact_names::MIN_RTT_US);
    evidence.extend(min_rtt_us.map(|us| evidence_of(case, keys::MIN_RTT, us * 1e3)));
    evidence.extend(p50_of_exchange(case));
    let other = without_nagle(run, case);
    let share = other.as_ref().map_or(often.share, |other| other.share(often.share));
    let finding = often.add_facts(with_share(&CARD, Severity::Warning, often.share));
    Some(checked_by(other, Finding { evidence, share, ..finding.with_if(both_ends, keys::OPEN_LOOP) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::links::over;
    use crate::fixture::traces::{self, MS, switches};
    use crate::fixture::{self, Fixture, found_traced, pair, shows, small_writes, traced_rounds, value};

    const CODES: [&str; 3] = ["nagle-waits", "nagle-meets-delayed-ack", "delayed-ack"];

    /// Findings over a link of 23 ms each way; acknowledgments leave `held_ns` after their data arrived.
    fn found(held_ns: u64, options: (&str, &str), add: impl FnOnce(&mut Fixture)) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        let trace = traces::two_writes_across(23 * MS, held_ns);
        let case = over("delay=23ms", small_writes("default"));
        traced_rounds(&mut fixture, &case, 92 * MS + held_ns, &trace, &switches(options.0, options.1));
        add(&mut fixture);
        crate::findings(&fixture.run()).into_iter().filter(|one| CODES.contains(&one.code.as_str())).collect()
    }

    #[test]
    fn over_a_link_writes_wait_even_for_an_immediate_acknowledgment() {
        let found = found(0, ("off", "off"), |_| {});
        assert_eq!(found.iter().map(|one| one.code.as_str()).collect::<Vec<_>>(), ["nagle-waits"]);
        assert_eq!(found[0].severity, Severity::Warning);
        assert!((found[0].share - 0.5).abs() < 0.01, "{}", found[0].share);
        assert!(shows(&found[0], keys::HELD_AT, 46e6), "{found:?}");
        assert_eq!([keys::SEEN, keys::TRACED].map(|key| value(&found[0], key)), [18.0, 18.0]);
        assert_eq!(pair(&found[0])[1].path.link, "delay=23ms");
    }

    #[test]
    fn a_delayed_acknowledgment_over_a_link_is_still_recognized() {
        let found = found(40 * MS, ("off", "off"), |_| {});
        assert_eq!(found.iter().map(|one| one.code.as_str()).collect::<Vec<_>>(), ["nagle-meets-delayed-ack"]);
        assert!(shows(&found[0], keys::RELEASING_ACK, 40e6) && shows(&found[0], keys::HELD_AT, 86e6), "{found:?}");
    }

    #[test]
    fn nodelay_confirms_or_refutes_the_cause() {
        for (with_nodelay, verdict, severity) in
            [(46 * MS, "confirmed", Severity::Warning), (92 * MS, "refuted", Severity::Note)]
        {
            let found = found(0, ("off", "off"), |fixture| {
                let nodelay = over("delay=23ms", small_writes("nodelay"));
                fixture.rounds_of(&nodelay, &(0..6).map(|k| with_nodelay + k * 10_000).collect::<Vec<_>>());
            });
            assert_eq!((fixture::verdict(&found[0]), found[0].severity), (verdict, severity));
        }
    }

    #[test]
    fn without_nagles_algorithm_and_on_loopback_there_is_no_finding() {
        assert_eq!(found(0, ("on", "off"), |_| {}), []);
        let (trace, off) = (traces::acknowledged_in_time(), switches("off", "off"));
        assert_eq!(found_traced(CARD.code, &small_writes("default"), 40 * MS, &trace, &off), []);
    }
}
