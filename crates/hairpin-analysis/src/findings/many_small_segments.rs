//! `many-small-segments`: with `TCP_NODELAY`, a request leaves in many segments instead of a few.
//!
//! `TCP_NODELAY` avoids waiting but sends a segment for each write. Each segment costs about 66 bytes of headers, a trip
//! through both kernels, often an acknowledgment, and on a real network a packet. Evidence: `TCP_NODELAY` granted as on, and
//! the segments that the kernel counted compared with the number that the bytes need; the traced writes and segments. The
//! share is what one write saves, or 0 if not measured.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::{CORK_REQUESTS, ONE_WRITE};
use hairpin_model::options::OptionName;
use hairpin_model::summary::Verdict;
use hairpin_model::trace::End;
use hairpin_model::{CaseSummary, Finding, FindingCard, Remedy, Run, fact, fact_names, finding_keys as keys};

use super::support::{Traced, checked_by, evidence_of, known_evidence, other_remedy, pure_acks, with_share};
use crate::trace::switch;

pub(super) const CARD: FindingCard = FindingCard {
    code: "many-small-segments",
    about: About::Cause,
    what: "with TCP_NODELAY a request leaves in many segments where a few are enough",
    why: "each write becomes a packet with its own headers, which both kernels process",
};

const MIN_RATIO: f64 = 10.0;
/// Payload that fits any segment: the IPv6 minimum MTU (RFC 8200, 1280 bytes) minus headers.
const MIN_SEGMENT_BYTES: f64 = 1_220.0;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let nodelay = switch(&case.client().effective_options, OptionName::Nodelay);
    let counted = case.primary().exchanges.as_ref()?.segments_per_exchange.filter(|_| nodelay == Some(true))?;
    let load = &case.case.primary().load;
    let facts = case.client().facts.as_slice();
    let most_bytes = fact::number(facts, fact_names::SND_MSS_BYTES).unwrap_or(0.0).max(MIN_SEGMENT_BYTES);
    let needed = [load.size_bytes(), load.reply_size_bytes()].map(|bytes| (bytes as f64 / most_bytes).ceil());
    let needed: f64 = needed.iter().sum();
    if case.case.replicate != 0 || counted.value < MIN_RATIO * needed {
        return None;
    }
    // One write has no gaps between writes, so its saving would include the gaps.
    let pauses = load.exchange().is_some_and(|exchange| exchange.gap_ns > 0);
    let (remedy, kind) = if pauses { (Remedy::Cork, CORK_REQUESTS) } else { (Remedy::OneWrite, ONE_WRITE) };
    let other = other_remedy(run, case, remedy, kind);
    let change = other.as_ref().and_then(|other| other.change).filter(|change| change.verdict == Verdict::Faster);
    let share = change.map_or(0.0, |change| change.saved_share().value.clamp(0.0, 1.0));
    let mut evidence = vec![
        evidence_of(case, keys::COUNTED_SEGMENTS, counted),
        evidence_of(case, keys::NEEDED, needed),
        evidence_of(case, keys::NODELAY_ON, 1.0).of(End::Client.word()),
    ];
    if let Some(traced) = Traced::of(run, case) {
        let writes = traced.figure(|exchange| Some(exchange.writes as f64));
        let segments = traced.figure(|exchange| Some(exchange.segments as f64));
        evidence.extend(known_evidence(case, [(keys::WRITES, writes), (keys::SEGMENTS, segments)]));
    }
    evidence.extend(pure_acks(case));
    let severity = if share > 0.0 { Severity::Warning } else { Severity::Note };
    Some(checked_by(other, Finding { evidence, ..with_share(&CARD, severity, share) }))
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, ExchangeCounts, Fact};

    use super::*;
    use crate::fixture::traces::{MS, US, switches};
    use crate::fixture::{Fixture, pair, small_writes, value, verdict};

    const CODE: &str = "many-small-segments";

    fn measure(fixture: &mut Fixture, case: &Case, latency: u64, segments: u64, nodelay: &str) {
        let latencies: Vec<u64> = (0..8).map(|k| latency + latency / 400 * k).collect();
        fixture.rounds_with(case, &latencies, |measured| {
            measured.ends[0].options = switches(nodelay, "off");
            let segments = Some(100 * segments);
            measured.primary_mut().exchange_counts =
                Some(ExchangeCounts { exchanges: 100, segments, ..ExchangeCounts::default() });
        });
    }

    #[test]
    fn the_share_is_the_saving_of_one_write() {
        let (nodelay, one_write) = (small_writes("nodelay"), small_writes("one-write"));
        let mut fixture = Fixture::new();
        measure(&mut fixture, &nodelay, 500 * US, 101, "on");
        measure(&mut fixture, &one_write, 20 * US, 2, "off");
        let found = fixture.findings(CODE);
        assert_eq!((found.len(), found[0].severity, &found[0].cases), (1, Severity::Warning, &vec![nodelay.id()]));
        assert!((found[0].share - 0.96).abs() < 0.001, "{}", found[0].share);
        assert_eq!(verdict(&found[0]), "confirmed");
        assert_eq!([keys::COUNTED_SEGMENTS, keys::NEEDED].map(|key| value(&found[0], key)), [101.0, 2.0]);
        assert_eq!(found[0].proved.as_ref().unwrap().kind, ONE_WRITE);
        assert_eq!(pair(&found[0]), [nodelay, one_write]);
    }

    #[test]
    fn with_pauses_between_writes_one_write_is_not_a_fair_check() {
        let mut fixture = Fixture::new();
        let mut nodelay = small_writes("nodelay");
        nodelay.primary_mut().load.exchange_mut().unwrap().gap_ns = 1_000_000;
        measure(&mut fixture, &nodelay, 99_500 * US, 101, "on");
        let found = fixture.findings(CODE);
        assert_eq!(pair(&found[0])[1].primary().load.exchange().as_ref().unwrap().remedy, Remedy::Cork);
    }

    #[test]
    fn without_a_check_or_if_refuted_the_finding_is_a_note() {
        let mut untried = Fixture::new();
        measure(&mut untried, &small_writes("nodelay"), 500 * US, 101, "on");
        let found = untried.findings(CODE);
        assert_eq!((found[0].severity, found[0].share, found[0].proved.as_ref()), (Severity::Note, 0.0, None));
        let mut refuted = Fixture::new();
        measure(&mut refuted, &small_writes("nodelay"), 500 * US, 101, "on");
        measure(&mut refuted, &small_writes("one-write"), 500 * US, 2, "off");
        let found = refuted.findings(CODE);
        assert_eq!((found[0].severity, found[0].share), (Severity::Note, 0.0));
        assert_eq!(verdict(&found[0]), "refuted");
    }

    fn of_writes(remedy: &str, writes: &str) -> Case {
        small_writes(remedy)
            .with(|case| case.primary_mut().load.exchange_mut().unwrap().writes = writes.parse().unwrap())
    }

    /// A hundred writes of 400 B: one segment on loopback, 28 on Ethernet.
    #[test]
    fn the_segment_size_is_that_of_the_connection() {
        let found = |most_bytes: f64| {
            let case = of_writes("nodelay", "100x400");
            let mut fixture = Fixture::new();
            fixture.rounds_with(&case, &[500 * US; 8], |measured| {
                measured.ends[0].options = switches("on", "off");
                measured.ends[0].facts = vec![Fact::number(fact_names::SND_MSS_BYTES, most_bytes)];
                measured.primary_mut().exchange_counts =
                    Some(ExchangeCounts { exchanges: 100, segments: Some(3_480), ..ExchangeCounts::default() });
            });
            fixture.findings(CODE)
        };
        let loopback = found(65_483.0);
        assert_eq!([keys::COUNTED_SEGMENTS, keys::NEEDED].map(|key| value(&loopback[0], key).round()), [35.0, 2.0]);
        assert_eq!(found(1_448.0), []);
    }

    #[test]
    fn few_segments_nagle_and_large_requests_are_not_findings() {
        let mut fixture = Fixture::new();
        measure(&mut fixture, &small_writes("nodelay"), 100 * US, 19, "on");
        measure(&mut fixture, &small_writes("default"), 44 * MS, 101, "off");
        let large = of_writes("quickack", "100x1000");
        measure(&mut fixture, &large, 500 * US, 101, "on");
        fixture.rounds_with(&Case::ping_pong("tcp"), &[10 * US; 8], |measured| {
            measured.ends[0].options = switches("on", "off");
        });
        assert_eq!(fixture.findings(CODE), []);
    }
}
