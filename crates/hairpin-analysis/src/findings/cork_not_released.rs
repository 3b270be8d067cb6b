//! `cork-not-released`: written bytes stayed corked until the kernel's timer released them.
//!
//! A corked socket holds partial segments for up to 200 ms (tcp(7), `TCP_CORK`). Evidence: `TCP_CORK` granted as on before
//! and after the timed rounds; and in traced rounds, bytes written while the socket was corked that left when the kernel's
//! timer expired, without a releasing call. The share is the time for which bytes were held, relative to the duration of a
//! timed exchange.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::RELEASE_CORK;
use hairpin_model::options::OptionName;
use hairpin_model::trace::End;
use hairpin_model::{CaseSummary, Finding, FindingCard, Remedy, Run, TracedExchange, Wait, finding_keys as keys};

use super::support::{Traced, checked_by, evidence_of, held_ns, other_remedy, p50_of_exchange, with_share};
use crate::trace::switch;

pub(super) const CARD: FindingCard = FindingCard {
    code: "cork-not-released",
    about: About::Cause,
    what: "the cork was never released: the kernel sent the rest after 200 ms",
    why: "every exchange waits for the kernel's limit of 200 ms",
};

/// Minimum share of the exchanges' time to report.
const MIN_SHARE: f64 = 0.05;
/// Minimum hold that ends with the kernel's timer, in ns; a released cork holds for less.
const MIN_TIMER_HOLD_NS: i64 = 150_000_000;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    if case.case.replicate != 0 || switch(&case.client().effective_options, OptionName::Cork) != Some(true) {
        return None;
    }
    let traced = Traced::of(run, case)?;
    let often = traced.frequency(is_timer_hold);
    let held = traced.figure(|exchange| Some(held_ns(exchange, is_timer_hold)).filter(|held| *held > 0.0));
    let held = held.filter(|_| often.share >= MIN_SHARE)?;
    let mut evidence = vec![
        evidence_of(case, keys::HELD, held),
        evidence_of(case, keys::STALLED_EXCHANGES, often.of_exchanges()),
        evidence_of(case, keys::CORK_ON, 1.0).of(End::Client.word()),
    ];
    evidence.extend(p50_of_exchange(case));
    let other = other_remedy(run, case, Remedy::Cork, RELEASE_CORK);
    let share = other.as_ref().map_or(often.share, |other| other.share(often.share));
    let finding = often.add_facts(with_share(&CARD, Severity::Warning, often.share));
    Some(checked_by(other, Finding { evidence, share, ..finding }))
}

fn is_timer_hold(_: &TracedExchange, wait: &Wait) -> bool {
    wait.cause == ExchangeState::Cork && wait.end == End::Client && wait.until_ns - wait.from_ns >= MIN_TIMER_HOLD_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::traces::{self, MS, US, switches, uncaptured};
    use crate::fixture::{Fixture, evidence_rounds, pair, shows, small_writes, traced_rounds, value, verdict};

    const CODE: &str = "cork-not-released";

    #[test]
    fn a_forgotten_cork_is_found_and_confirmed_by_releasing_it() {
        for trace in [traces::cork_forgotten(), uncaptured(traces::cork_forgotten())] {
            let (forgotten, released) = (small_writes("cork-forgotten"), small_writes("cork"));
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &forgotten, 208 * MS, &trace, &switches("off", "on"));
            traced_rounds(&mut fixture, &released, 180 * US, &traces::cork(), &switches("off", "off"));
            let found = fixture.findings(CODE);
            assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
            assert_eq!(verdict(&found[0]), "confirmed");
            assert_eq!(found[0].cases, [forgotten.id()]);
            assert!(found[0].share > 0.99 && shows(&found[0], keys::HELD, 207e6), "{found:?}");
            let often = [keys::SEEN, keys::TRACED].map(|key| value(&found[0], key));
            assert!(often == [18.0, 18.0] && value(&found[0], keys::SHARE_OF_SEEN) > 0.995, "{found:?}");
            assert_eq!(found[0].proved.as_ref().unwrap().kind, RELEASE_CORK);
            assert_eq!(pair(&found[0]), [forgotten, released]);
        }
    }

    #[test]
    fn a_stall_caused_only_by_tracing_is_not_evidence() {
        let (off, corked) = (switches("off", "off"), switches("off", "on"));
        for (untraced, found) in [([180 * US; 6], 0), ([207 * MS; 6], 1)] {
            let mut fixture = Fixture::new();
            let evidence = (&traces::cork_forgotten(), &untraced[..]);
            evidence_rounds(&mut fixture, &small_writes("cork-forgotten"), 180 * US, evidence, [&corked, &off]);
            assert_eq!(fixture.findings(CODE).len(), found);
        }
    }

    #[test]
    fn a_released_cork_other_waits_and_latency_alone_are_not_findings() {
        let (off, corked) = (switches("off", "off"), switches("off", "on"));
        let mut fixture = Fixture::new();
        traced_rounds(&mut fixture, &small_writes("cork"), 180 * US, &traces::cork(), &off);
        traced_rounds(&mut fixture, &small_writes("more"), 300 * MS, &traces::more(3 * MS), &off);
        traced_rounds(&mut fixture, &small_writes("default"), 208 * MS, &traces::cork_forgotten(), &off);
        traced_rounds(&mut fixture, &small_writes("nodelay"), 208 * MS, &traces::one_write(207 * MS), &corked);
        fixture.rounds_with(&small_writes("cork-forgotten"), &[208 * MS; 6], |measured| {
            measured.ends[0].options = corked.clone();
        });
        assert_eq!(fixture.findings(CODE), []);
    }
}
