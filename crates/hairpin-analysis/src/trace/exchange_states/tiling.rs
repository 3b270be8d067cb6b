//! Covers an exchange with states: each moment has the state of the highest layer there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hairpin_model::exchange_state::{Actor, ExchangeState, StateSpan};
use hairpin_model::trace::End;

/// The order in which evidence prevails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A stage of the exchange.
    Stage,
    /// Something in a stage that needs no cause: a call, the shortest travel time.
    Within,
    /// What samples of the socket show.
    Sampled,
    /// Why bytes waited.
    Held,
    /// What the waiting bytes waited for.
    Awaited,
}

/// A time in which an exchange may be in a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) rank: Rank,
    pub(super) state: ExchangeState,
    /// The end that is in the state.
    pub(super) at: End,
}

/// Returns the spans from `began_ns` to `ended_ns`, without gaps and overlaps, in ns since `began_ns`. Time without a layer
/// is `no-evidence`. Of layers of one rank, the last one prevails.
pub(super) fn tile(began_ns: u64, ended_ns: u64, layers: &[Layer]) -> Vec<StateSpan> {
    let inside = |cut: &u64| began_ns < *cut && *cut < ended_ns;
    let mut cuts: Vec<u64> = layers.iter().flat_map(|layer| [layer.from_ns, layer.until_ns]).filter(inside).collect();
    cuts.extend([began_ns, ended_ns.max(began_ns)]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut order: Vec<usize> = (0..layers.len()).collect();
    order.sort_by_key(|place| Reverse(layers[*place].from_ns));
    let mut present: BinaryHeap<(Rank, usize)> = BinaryHeap::new();
    let mut spans: Vec<StateSpan> = Vec::new();
    for pair in cuts.windows(2) {
        while let Some(place) = order.pop_if(|place| layers[*place].from_ns <= pair[0]) {
            present.push((layers[place].rank, place));
        }
        while present.peek().is_some_and(|(_, place)| layers[*place].until_ns <= pair[0]) {
            present.pop();
        }
        let top = present.peek().map(|(_, place)| &layers[*place]);
        let (state, who) =
            top.map_or((ExchangeState::NoEvidence, Actor::Unknown), |top| (top.state, top.state.who(top.at)));
        let [from_ns, until_ns] = [pair[0], pair[1]].map(|cut| cut - began_ns);
        match spans.last_mut().filter(|last| (last.state, last.who) == (state, who)) {
            Some(last) => last.until_ns = until_ns,
            None => spans.push(StateSpan { state, who, from_ns, until_ns }),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RANKS: [Rank; 5] = [Rank::Stage, Rank::Within, Rank::Sampled, Rank::Held, Rank::Awaited];

    #[test]
    fn the_highest_layer_prevails_and_time_without_one_has_no_evidence() {
        let layer = |from_ns, until_ns, rank, state| Layer { from_ns, until_ns, rank, state, at: End::Client };
        let layers = [
            layer(0, 60, Rank::Stage, ExchangeState::ClientIdle),
            layer(20, 30, Rank::Awaited, ExchangeState::DelayedAck),
            layer(10, 40, Rank::Held, ExchangeState::Nagle),
        ];
        let spans = tile(5, 70, &layers);
        let all: Vec<_> = spans.iter().map(|span| (span.state, span.from_ns, span.until_ns)).collect();
        let expected = [
            (ExchangeState::ClientIdle, 0, 5),
            (ExchangeState::Nagle, 5, 15),
            (ExchangeState::DelayedAck, 15, 25),
            (ExchangeState::Nagle, 25, 35),
            (ExchangeState::ClientIdle, 35, 55),
            (ExchangeState::NoEvidence, 55, 65),
        ];
        assert_eq!(all, expected);
    }

    fn time() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..60, Just(u64::MAX), any::<u64>()]
    }

    proptest! {
        #[test]
        fn spans_are_without_gaps_and_each_moment_has_the_highest_layer(
            (began_ns, ended_ns) in (time(), time()),
            layers in proptest::collection::vec((time(), time(), 0..RANKS.len(), any::<bool>()), 0..12),
        ) {
            let layer = |(place, (from_ns, until_ns, rank, client)): (usize, (u64, u64, usize, bool))| Layer {
                from_ns, until_ns, rank: RANKS[rank], state: ExchangeState::ALL[place],
                at: if client { End::Client } else { End::Server },
            };
            let layers: Vec<Layer> = layers.into_iter().enumerate().map(layer).collect();
            let spans = tile(began_ns, ended_ns, &layers);
            prop_assert!(spans.len() <= 2 * layers.len() + 1);
            let mut at_ns = 0;
            for span in &spans {
                prop_assert!(span.from_ns == at_ns && span.until_ns > at_ns);
                at_ns = span.until_ns;
                for ns in [span.from_ns, span.until_ns - 1].map(|ns| ns + began_ns) {
                    let covers = |layer: &&Layer| layer.from_ns <= ns && ns < layer.until_ns;
                    let top = layers.iter().filter(covers).max_by_key(|layer| layer.rank);
                    prop_assert_eq!(span.state, top.map_or(ExchangeState::NoEvidence, |top| top.state));
                }
            }
            prop_assert_eq!(at_ns, ended_ns.saturating_sub(began_ns));
        }
    }
}
