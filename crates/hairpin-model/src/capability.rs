//! What an end can be ordered to do, in words: a client compares the words of its orders with those that a server knows.

use crate::case::{Case, Waiting};
use crate::exchange::Remedy;
use crate::flow::{ConnectionUse, Direction, FlowRole, Load, Observer, Opening};
use crate::options::OptionName;

/// Codes of the messages of datagram flows.
pub const DATAGRAM_CODES: &str = "datagram codes";

/// All words that this version knows, except the names of transports.
pub fn known() -> Vec<String> {
    let all = [
        ("load", Load::KINDS),
        ("direction", Direction::WORDS),
        ("role", FlowRole::WORDS),
        ("connection", ConnectionUse::WORDS),
        ("observer", Observer::WORDS),
        ("waiting", Waiting::WORDS),
        ("opening", Opening::WORDS),
        ("remedy", Remedy::WORDS),
    ];
    let words = all.into_iter().flat_map(|(kind, words)| words.iter().map(move |word| format!("{kind} {word}")));
    let options = OptionName::ALL.iter().map(|name| format!("option {name}"));
    words.chain(options).chain([DATAGRAM_CODES.to_owned()]).collect()
}

/// The words of an order of the case, without those that every version knows. `has_codes` says whether its messages have
/// codes.
pub fn needed(case: &Case, has_codes: bool) -> Vec<String> {
    let mut words = vec![format!("waiting {}", case.ends.waiting)];
    for flow in &case.flows {
        words.extend([
            format!("load {}", flow.load.kind()),
            format!("direction {}", flow.direction),
            format!("role {}", flow.role),
            format!("connection {}", flow.connection_use),
            format!("observer {}", flow.load.observer()),
        ]);
        words.extend(flow.opening.map(|opening| format!("opening {opening}")));
        words.extend(flow.options.iter().map(|(name, _)| format!("option {name}")));
        words.extend(flow.load.exchange().map(|exchange| format!("remedy {}", exchange.remedy)));
    }
    if has_codes {
        words.push(DATAGRAM_CODES.to_owned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;

    #[test]
    fn this_version_knows_the_words_of_its_own_cases() {
        let known = known();
        let options = crate::Options::parse("nodelay=on,sndbuf=4096").unwrap();
        for flow in [
            Flow::ping_pong("udp"),
            Flow::stream("tcp", 100, Direction::Down),
            Flow { options, role: FlowRole::Load, ..Flow::ping_pong("tcp") },
        ] {
            let needed = needed(&Case::of(flow), true);
            assert!(needed.iter().all(|word| known.contains(word)), "{needed:?}");
        }
        let needed = needed(&Case::of(Flow::ping_pong("tcp")), false);
        assert!(needed.contains(&"load ping-pong".to_owned()) && !needed.contains(&DATAGRAM_CODES.to_owned()));
    }
}
