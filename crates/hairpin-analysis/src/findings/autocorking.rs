//! `autocorking`: the kernel merged writes although Nagle's algorithm is off.
//!
//! While an earlier packet is still in the device queue, Linux holds small writes to merge them with later ones
//! (net/ipv4/tcp.c, `tcp_should_autocork`; net.ipv4.tcp_autocorking). Evidence: `TCP_NODELAY` granted as on; the counter
//! `TCPAutoCorking` of /proc/net/netstat grew in traced rounds; requests left in fewer segments than writes. The counter
//! covers the network namespace, which on loopback means the whole machine. The share is the time during which writes were
//! held.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::NO_AUTOCORKING;
use hairpin_model::options::OptionName;
use hairpin_model::trace::End;
use hairpin_model::{CaseSummary, Finding, FindingCard, Run, finding_keys as keys};

use super::support::{Traced, counter_experiment, evidence_of, with_share};
use crate::statistics::interval::{Over, median_over};
use crate::trace::switch;

pub(super) const CARD: FindingCard = FindingCard {
    code: "autocorking",
    about: About::Traffic,
    what: "the kernel merged writes into one segment although Nagle's algorithm is off",
    why: "even with TCP_NODELAY a write may not be its own segment; this looks like Nagle's algorithm but is not",
};

const AUTOCORKING: &str = "net.ipv4.tcp_autocorking";

/// Writes count as merged if they left in fewer segments per write than this.
const PACKED_BELOW: f64 = 0.95;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    if case.case.replicate != 0 || switch(&case.client().effective_options, OptionName::Nodelay) != Some(true) {
        return None;
    }
    let traced = Traced::of(run, case)?;
    let counts: Vec<f64> = traced.rounds.iter().filter_map(|round| Some(round.autocorked? as f64)).collect();
    let counted = median_over(&counts, Over::evidence(0.0))?;
    let writes = traced.figure(|exchange| Some(exchange.writes as f64))?;
    let segments = traced.figure(|exchange| Some(exchange.segments as f64).filter(|some| *some > 0.0))?;
    let share = traced.frequency(|_, wait| wait.cause == ExchangeState::Autocork).share;
    let with = |value| {
        let sysctls = case.case.sysctls.clone().with(AUTOCORKING, value).expect("a valid kernel setting");
        case.case.clone().with(|changed| changed.sysctls = sysctls)
    };
    let are_merged = segments.value < PACKED_BELOW * writes.value && counted.value > 0.0;
    are_merged.then(|| Finding {
        evidence: vec![
            evidence_of(case, keys::AUTOCORKED, counted),
            evidence_of(case, keys::WRITES, writes),
            evidence_of(case, keys::SEGMENTS, segments),
            evidence_of(case, keys::NODELAY_ON, 1.0).of(End::Client.word()),
        ],
        counter_experiment: Some(counter_experiment(NO_AUTOCORKING, ["0", "1"].map(with))),
        ..with_share(&CARD, Severity::Note, share)
    })
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Fact, RoundTrace, Sysctls, fact_names};

    use super::*;
    use crate::fixture::links::over;
    use crate::fixture::traces::{self, MS, switches};
    use crate::fixture::{found_traced, repeated, small_writes, value};

    fn counted(mut trace: RoundTrace, times: f64) -> RoundTrace {
        trace.client.before = vec![Fact::number(fact_names::AUTOCORKING, 5.0)];
        trace.client.after = vec![Fact::number(fact_names::AUTOCORKING, 5.0 + times)];
        trace
    }

    fn found(trace: &RoundTrace, options: (&str, &str)) -> Vec<Finding> {
        found_traced(CARD.code, &small_writes("nodelay"), MS, trace, &switches(options.0, options.1))
    }

    /// The kernel settings that the counter-experiment compares.
    fn compared(found: &[Finding]) -> Vec<String> {
        repeated(&found[0]).iter().map(|case| case.sysctls.to_string()).collect()
    }

    #[test]
    fn fewer_segments_than_writes_and_a_counter_that_grew() {
        // The fixture trace is corked; the test uses it only because a hundred writes left in one segment.
        let found = found(&counted(traces::more(0), 12.0), ("on", "off"));
        assert_eq!((found.len(), found[0].severity, found[0].share), (1, Severity::Note, 0.0));
        let counts = [keys::WRITES, keys::SEGMENTS, keys::AUTOCORKED].map(|key| value(&found[0], key));
        assert_eq!(counts, [100.0, 1.0, 12.0]);
        assert!(repeated(&found[0]).iter().all(|case| case.primary().load.exchange().is_some()));
        assert_eq!(compared(&found), ["net.ipv4.tcp_autocorking=0", "net.ipv4.tcp_autocorking=1"]);
        assert_eq!(found[0].counter_experiment.as_ref().unwrap().pair, None);
    }

    #[test]
    fn over_a_link_and_with_other_settings_the_check_has_both_values() {
        let asked = "net.ipv4.tcp_sack=0".parse::<Sysctls>().unwrap().with(AUTOCORKING, "1").unwrap();
        let case = over("delay=2ms", small_writes("nodelay")).with(|changed| changed.sysctls = asked);
        let trace = counted(traces::more(0), 12.0);
        let found = found_traced(CARD.code, &case, MS, &trace, &switches("on", "off"));
        let told =
            ["net.ipv4.tcp_autocorking=0 net.ipv4.tcp_sack=0", "net.ipv4.tcp_autocorking=1 net.ipv4.tcp_sack=0"];
        assert_eq!(compared(&found), told);
        assert!(repeated(&found[0]).iter().all(|case| case.path.link == "delay=2ms"), "{found:?}");
    }

    #[test]
    fn without_the_counter_or_merging_and_with_nagle_there_is_no_finding() {
        assert_eq!(found(&traces::more(0), ("on", "off")), []);
        assert_eq!(found(&counted(traces::more(0), 0.0), ("on", "off")), []);
        assert_eq!(found(&counted(traces::nodelay(), 12.0), ("on", "off")), []);
        assert_eq!(found(&counted(traces::more(0), 12.0), ("off", "off")), []);
    }
}
