//! The one list of causes: every state of an exchange, and the findings that explain it.

use hairpin_model::exchange_state::ExchangeState;

use crate::findings;

/// A state, with the codes of the findings that explain it, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub state: ExchangeState,
    pub findings: Vec<&'static str>,
    pub no_finding_because: Option<&'static str>,
}

const WITHOUT_FINDING: &[(ExchangeState, &str)] = &[
    (ExchangeState::ClientIdle, "the program decides when it writes; that is no property of the transport"),
    (
        ExchangeState::SendBuffer,
        "named only by the granted size of the buffer and the bytes in flight, which no counter confirms",
    ),
    (
        ExchangeState::ReceiveWindow,
        "needs windows in captured packets or samples of the socket, which ordinary rounds do not have",
    ),
    (ExchangeState::SlowReader, "Hairpin's own receivers read at once; other programs are not measured by rounds"),
    (ExchangeState::Propagation, "no program can act on it"),
];

/// Returns all states, without unions.
pub fn causes() -> Vec<Cause> {
    let states = ExchangeState::ALL.iter().copied().filter(|state| state.members().is_empty());
    let cause = |state: ExchangeState| {
        let explaining = findings::ALL.iter().filter(|detector| detector.card.states.contains(&state));
        Cause {
            state,
            findings: explaining.map(|detector| detector.card.code).collect(),
            no_finding_because: WITHOUT_FINDING.iter().find(|(without, _)| *without == state).map(|(_, why)| *why),
        }
    };
    states.map(cause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_finding_or_a_reason_why_there_is_none() {
        for cause in causes() {
            assert_ne!(cause.findings.is_empty(), cause.no_finding_because.is_none(), "{cause:?}");
        }
    }

    #[test]
    fn stall_findings_name_states_and_no_unions() {
        let of = |code: &str| {
            let detector = findings::ALL.iter().find(|detector| detector.card.code == code);
            detector.unwrap_or_else(|| panic!("no finding {code}")).card.states
        };
        for code in [
            "autocorking",
            "cork-not-released",
            "cpu-contention",
            "delayed-ack",
            "echo-stalled",
            "link-saturated",
            "nagle-meets-delayed-ack",
            "nagle-waits",
            "own-send-queue",
            "retransmission",
        ] {
            assert!(!of(code).is_empty() && of(code).iter().all(|state| state.members().is_empty()), "{code}");
        }
        assert_eq!(of("udp-receive-overrun"), [], "datagrams are no byte stream");
    }

    #[test]
    fn the_document_has_every_state_and_union() {
        let text = include_str!("../../../docs/states.md");
        for state in ExchangeState::ALL {
            assert!(text.contains(&format!("| `{state}` |")), "docs/states.md lacks `{state}`");
        }
        for code in causes().iter().flat_map(|cause| cause.findings.clone()) {
            assert!(text.contains(&format!("`{code}`")), "docs/states.md lacks `{code}`");
        }
    }
}
