//! The one list of causes: every state of an exchange, and the findings that explain it. docs/states.md says why some
//! states have none.

use hairpin_model::exchange_state::ExchangeState;

use crate::findings;

pub fn causes() -> impl Iterator<Item = (ExchangeState, Vec<&'static str>)> {
    let states = ExchangeState::ALL.iter().copied().filter(|state| state.members().is_empty());
    states.map(|state| {
        let explaining = findings::ALL.iter().filter(|detector| detector.states.contains(&state));
        (state, explaining.map(|detector| detector.card.code).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/states.md");

    #[test]
    fn every_state_has_its_findings_or_a_reason_why_there_is_none() {
        for (state, findings) in causes() {
            let row = DOCUMENT.lines().find(|line| line.starts_with(&format!("| `{state}` |"))).expect("a row");
            let told = row.trim_end_matches(" |").rsplit("| ").next().expect("the last column");
            assert_eq!(findings.is_empty(), told.starts_with("none: "), "{state}: {findings:?}");
            assert!(findings.iter().all(|code| told.contains(&format!("`{code}`"))), "{state}: {findings:?}");
        }
    }

    #[test]
    fn stall_findings_name_states_and_no_unions() {
        let of = |code: &str| {
            let detector = findings::ALL.iter().find(|detector| detector.card.code == code);
            detector.unwrap_or_else(|| panic!("no finding {code}")).states
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
    fn the_document_has_every_union() {
        for union in ExchangeState::ALL.iter().filter(|state| !state.members().is_empty()) {
            assert!(DOCUMENT.contains(&format!("\n| `{union}` |")), "docs/states.md lacks `{union}`");
        }
    }
}
