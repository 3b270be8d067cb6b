//! `own-send-queue`: a message waits in the sender's socket, behind bulk data written earlier on the connection.
//!
//! The kernel accepts much more of a stream than it can send at once, and later writes wait until all of this data has left the
//! socket. No queue on the path is the cause, so CoDel does not help. Evidence: the unsent bytes of the load's socket
//! (`tcpi_notsent_bytes` of tcp_info, read every 20 ms), divided by the rate at which the load is received; compared with the
//! median latency that the load adds. The counter-experiment sets the option `notsent-lowat` (`TCP_NOTSENT_LOWAT`, tcp(7)), with
//! which the program keeps the remaining data itself; if already set, the finding is not reported.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::NOTSENT_LOWAT;
use hairpin_model::flow::ConnectionUse;
use hairpin_model::options::OptionName;
use hairpin_model::{Case, CaseSummary, Figure, Finding, FindingCard, Measured, Run, finding_keys as keys};

use super::support::{evidence_of, judge_by_block, median_of, p50, with_load_option, with_share};
use crate::in_span::{goodput, loaded_states, loads};
use crate::statistics::location::median;

pub(super) const CARD: FindingCard = FindingCard {
    code: "own-send-queue",
    about: About::Cause,
    what: "messages waited in the sender's socket, behind bulk data that was written before them",
    why: "the delay is in the sender itself: a better path does not help, but a shorter send queue does",
};

/// Minimum share of the latency to report.
const MIN_SHARE: f64 = 0.1;
/// Maximum unsent bytes of the socket in the counter-experiment.
const LOWAT: &str = "16384";

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let delay_ns = unsent_delay_ns(run, case).filter(|_| !is_bounded(&case.case))?;
    let (added_ns, loaded_ns) = (case.under_load.as_ref()?.added_ns.p50?, case.primary().latency_ns.p50?);
    let explained_ns = delay_ns.value.min(added_ns.value);
    let share = explained_ns / loaded_ns.value;
    if share < MIN_SHARE {
        return None;
    }
    let figures = [
        (keys::UNSENT, median_of(run, case, unsent_bytes)?),
        (keys::LOAD_RECEIVED, median_of(run, case, rate)?),
        (keys::BYTES_OVER_RATE, delay_ns),
        (keys::ADDED_P50, added_ns),
        (keys::LOADED_P50, loaded_ns),
    ];
    let check = with_load_option(&case.case, (OptionName::NotsentLowat, LOWAT), NOTSENT_LOWAT);
    Some(Finding {
        evidence: figures.map(|(key, figure)| evidence_of(case, key, figure)).to_vec(),
        proved: check.as_ref().and_then(|check| judge_by_block(run, case, check, explained_ns, p50)),
        counter_experiment: check,
        ..with_share(&CARD, Severity::Warning, share)
    })
}

/// Returns how long messages wait for the unsent data of a load whose connection the probe shares, in ns.
pub(super) fn unsent_delay_ns(run: &Run, case: &CaseSummary) -> Option<Figure> {
    if case.case.replicate != 0 || case.case.primary().connection_use != ConnectionUse::Shared {
        return None;
    }
    case.under_load.as_ref()?.added_ns.p50?;
    median_of(run, case, |measured| Some(unsent_bytes(measured)? * 1e9 / rate(measured)?))
}

pub(super) fn is_bounded(case: &Case) -> bool {
    case.loads().iter().any(|load| load.options.get(OptionName::NotsentLowat).is_some())
}

fn unsent_bytes(measured: &Measured) -> Option<f64> {
    let load = loads(measured).next()?;
    median(&loaded_states(measured, load)?.map(|state| state.not_sent_bytes as f64).collect::<Vec<_>>())
}

fn rate(measured: &Measured) -> Option<f64> {
    goodput(measured, measured.phases.as_ref()?.loaded).filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Finding, Options};

    use super::*;
    use crate::fixture::under_load::{Beside, bounded_over_link, shared_over_link};
    use crate::fixture::{Fixture, pair, shows};

    fn found(cases: &[(Case, Beside)]) -> Option<Finding> {
        Fixture::of_beside(cases).findings(CARD.code).pop()
    }

    #[test]
    fn unsent_bytes_over_the_rate_are_the_wait_in_the_own_socket() {
        let finding =
            found(&[(shared_over_link(), Beside::unsent(610_000_000, 600_000))]).expect("half a second is unsent");
        assert!(shows(&finding, keys::UNSENT, 586.0 * 1024.0), "{finding:?}");
        assert!((finding.share - 500.0 / 610.0).abs() < 0.01, "{}", finding.share);
        let lowat = Options::parse("notsent-lowat=16384").unwrap();
        let [own, limited] = pair(&finding);
        assert_eq!(own, shared_over_link());
        assert!(limited.flows.iter().all(|flow| flow.options == lowat), "both flows share a connection: {limited:?}");
        assert_eq!(finding.proved, None);
    }

    #[test]
    fn a_program_that_limits_its_socket_is_no_finding() {
        assert!(found(&[(bounded_over_link(), Beside::unsent(120_000_000, 60_000))]).is_none());
    }

    #[test]
    fn the_cause_is_checked_by_the_case_with_less_unsent_data() {
        let both = [
            (shared_over_link(), Beside::unsent(610_000_000, 600_000)),
            (bounded_over_link(), Beside::unsent(120_000_000, 12_000)),
        ];
        let proved = found(&both).unwrap().proved.expect("the other case is in the run");
        assert_eq!((proved.verdict.as_str(), proved.effect.value), ("confirmed", -490_000_000.0));
        assert!(found(&[(shared_over_link(), Beside::unsent(200_000_000, 12_000))]).is_none());
    }
}
