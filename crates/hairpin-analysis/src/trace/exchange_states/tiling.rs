//! Covers an exchange with states: each moment has the state of the highest layer there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use hairpin_model::exchange_state::{Actor, ExchangeState, StateSpan};
use hairpin_model::trace::End;

/// The order in which evidence prevails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
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

/// Times in which an exchange may be in a state, of any order, also empty ones.
#[derive(Default)]
pub(super) struct Tiling(Vec<(Range<u64>, Rank, ExchangeState, Actor)>);

impl Tiling {
    /// Adds a layer; `at` is the end that is in the state.
    pub(super) fn add(&mut self, rank: Rank, during: Range<u64>, state: ExchangeState, at: End) {
        self.0.push((during, rank, state, state.who(at)));
    }

    /// Returns the spans from `began_ns` to `ended_ns`, without gaps and overlaps, in ns since `began_ns`. Time without a
    /// layer is `no-evidence`. Of layers of one rank, the last one prevails.
    pub(super) fn spans(&self, began_ns: u64, ended_ns: u64) -> Vec<StateSpan> {
        let layers = &self.0;
        let cuts = layers.iter().flat_map(|(during, ..)| [during.start, during.end]);
        let mut cuts: Vec<u64> = cuts.filter(|cut| began_ns < *cut && *cut < ended_ns).collect();
        cuts.extend([began_ns, ended_ns.max(began_ns)]);
        cuts.sort_unstable();
        cuts.dedup();
        let mut order: Vec<usize> = (0..layers.len()).collect();
        order.sort_by_key(|place| Reverse(layers[*place].0.start));
        let mut present: BinaryHeap<(Rank, usize)> = BinaryHeap::new();
        let mut spans: Vec<StateSpan> = Vec::new();
        for pair in cuts.windows(2) {
            while let Some(place) = order.pop_if(|place| layers[*place].0.start <= pair[0]) {
                present.push((layers[place].1, place));
            }
            while present.peek().is_some_and(|(_, place)| layers[*place].0.end <= pair[0]) {
                present.pop();
            }
            let top = present.peek().map(|(_, place)| (layers[*place].2, layers[*place].3));
            let (state, who) = top.unwrap_or((ExchangeState::NoEvidence, Actor::Unknown));
            let [from_ns, until_ns] = [pair[0], pair[1]].map(|cut| cut - began_ns);
            match spans.last_mut().filter(|last| (last.state, last.who) == (state, who)) {
                Some(last) => last.until_ns = until_ns,
                None => spans.push(StateSpan { state, who, from_ns, until_ns }),
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RANKS: [Rank; 5] = [Rank::Stage, Rank::Within, Rank::Sampled, Rank::Held, Rank::Awaited];

    #[test]
    fn the_highest_layer_prevails_and_time_without_one_has_no_evidence() {
        let mut tiling = Tiling::default();
        tiling.add(Rank::Stage, 0..60, ExchangeState::ClientIdle, End::Client);
        tiling.add(Rank::Awaited, 20..30, ExchangeState::DelayedAck, End::Server);
        tiling.add(Rank::Held, 10..40, ExchangeState::Nagle, End::Client);
        let spans = tiling.spans(5, 70);
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
            let mut tiling = Tiling::default();
            for (place, (from_ns, until_ns, rank, client)) in layers.into_iter().enumerate() {
                let at = if client { End::Client } else { End::Server };
                tiling.add(RANKS[rank], from_ns..until_ns, ExchangeState::ALL[place], at);
            }
            let (spans, layers) = (tiling.spans(began_ns, ended_ns), &tiling.0);
            prop_assert!(spans.len() <= 2 * layers.len() + 1);
            let mut at_ns = 0;
            for span in &spans {
                prop_assert!(span.from_ns == at_ns && span.until_ns > at_ns);
                at_ns = span.until_ns;
                for ns in [span.from_ns, span.until_ns - 1].map(|ns| ns + began_ns) {
                    let top = layers.iter().filter(|layer| layer.0.contains(&ns)).max_by_key(|layer| layer.1);
                    prop_assert_eq!(span.state, top.map_or(ExchangeState::NoEvidence, |top| top.2));
                }
            }
            prop_assert_eq!(at_ns, ended_ns.saturating_sub(began_ns));
        }
    }
}
