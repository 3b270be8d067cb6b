//! Detects in traces that Nagle's algorithm at one end waits for delayed acknowledgments of the other end.

use std::collections::BTreeSet;

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::options::OptionName;
use hairpin_model::trace::End;
use hairpin_model::{Case, CaseSummary, Figure, Finding, Run, TracedExchange, Wait, finding_keys as keys, words};

use super::{Traced, WaitFrequency, held_ns};
use crate::trace::switch;

/// Maximum time between the acknowledgment and the departure of the bytes, in ns.
const MAX_GAP_NS: u64 = 1_500_000;

pub(crate) struct Stall {
    /// The ends at which bytes were held: one or both, the end with more stalled exchanges first.
    pub(crate) ends: Vec<StallAt>,
    pub(crate) often: WaitFrequency,
    pub(crate) writes: Figure,
    pub(crate) segments: Figure,
}

pub(crate) struct StallAt {
    pub(crate) end: End,
    /// How long bytes were held in an exchange, in ns.
    pub(crate) held_ns: Figure,
    /// How long the acknowledgment that released the bytes was delayed, in ns.
    pub(crate) acknowledged_ns: Figure,
    exchanges: usize,
    /// The positions of the stalled exchanges in a window of requests in flight, from 1.
    places: BTreeSet<usize>,
    /// Which of the exchange's own bytes were held, over all exchanges.
    held: Held,
}

words! {
    enum Held: "held bytes" {
        /// All bytes, each time.
        All = "all",
        /// All bytes except those of the first write, each time.
        AllButTheFirstWrite = "all-but-the-first-write",
        Some = "some",
    }
}

/// Detects the combined effect of Nagle's algorithm and delayed acknowledgments on a case; `None` without this
/// effect. An end counts only if `TCP_NODELAY` and `TCP_CORK` were also off in the timed rounds.
pub(crate) fn stall(run: &Run, case: &CaseSummary) -> Option<Stall> {
    if case.case.replicate != 0 {
        return None;
    }
    let off = |granted| [OptionName::Nodelay, OptionName::Cork].map(|name| switch(granted, name)) == [Some(false); 2];
    let ends = case.ends.iter().filter(|end| off(&end.effective_options)).map(|end| end.role);
    let traced = Traced::of(run, case)?;
    let mut ends: Vec<StallAt> = ends.filter_map(|end| stall_at(&traced, case, end)).collect();
    ends.sort_by_key(|at| std::cmp::Reverse(at.exchanges));
    let stalls = |exchange: &TracedExchange, wait: &Wait| ends.iter().any(|at| is_stall(at.end, exchange, wait));
    let figure = |of: &dyn Fn(&TracedExchange) -> f64| {
        let stalled = |exchange: &TracedExchange| exchange.waits.iter().any(|wait| stalls(exchange, wait));
        traced.figure(|exchange| stalled(exchange).then(|| of(exchange)))
    };
    Some(Stall {
        often: traced.frequency(stalls),
        writes: figure(&|exchange| exchange.writes as f64)?,
        segments: figure(&|exchange| exchange.segments as f64)?,
        ends,
    })
}

fn stall_at(traced: &Traced<'_>, case: &CaseSummary, end: End) -> Option<StallAt> {
    let exchange = case.case.primary().load.exchange();
    let stalls = |exchange: &TracedExchange, wait: &Wait| is_stall(end, exchange, wait);
    let figure =
        |of: &dyn Fn(&TracedExchange) -> f64| traced.figure(|exchange| Some(of(exchange)).filter(|ns| *ns > 0.0));
    let stalled =
        || traced.exchanges().filter(|(_, exchange)| exchange.waits.iter().any(|wait| stalls(exchange, wait)));
    let pipeline = exchange.map_or(1, |exchange| exchange.pipeline);
    let in_flight = usize::try_from(pipeline).unwrap_or(usize::MAX).max(1);
    let whole = match end {
        End::Client => case.case.primary().load.size_bytes(),
        End::Server => case.case.primary().load.reply_size_bytes(),
    };
    let first_write = match end {
        End::Client => exchange.and_then(|exchange| exchange.sizes_written().first().copied()),
        End::Server => exchange.and_then(|exchange| exchange.sizes_answered().first().copied()),
    };
    let first_write = first_write.unwrap_or(0);
    let held = |exchange: &TracedExchange| {
        let of_it = exchange.waits.iter().filter(|wait| stalls(exchange, wait));
        let from = of_it.clone().map(|wait| wait.first_byte).min().and_then(|byte| u64::try_from(byte).ok());
        let until = of_it.map(|wait| wait.end_byte).max().and_then(|byte| u64::try_from(byte).ok());
        match (from, until) {
            (Some(0), Some(until)) if until == whole => Held::All,
            (Some(from), Some(until)) if from == first_write && until == whole => Held::AllButTheFirstWrite,
            _ => Held::Some,
        }
    };
    let kinds: Vec<Held> = stalled().map(|(_, exchange)| held(exchange)).collect();
    let first = *kinds.first()?;
    Some(StallAt {
        end,
        held_ns: figure(&|exchange| held_ns(exchange, stalls))?,
        acknowledged_ns: figure(&|exchange| delay_ns(end, exchange))?,
        exchanges: kinds.len(),
        places: stalled().map(|(place, _)| place % in_flight + 1).collect(),
        held: if kinds.iter().all(|kind| *kind == first) { first } else { Held::Some },
    })
}

/// Whether Nagle's algorithm at `end` caused the wait, and a delayed acknowledgment of the other end ended it.
fn is_stall(end: End, exchange: &TracedExchange, wait: &Wait) -> bool {
    wait.cause == ExchangeState::Nagle
        && wait.end == end
        && exchange
            .waits
            .iter()
            .any(|other| is_late_ack(end, other) && other.over_ns().abs_diff(wait.until_ns) <= MAX_GAP_NS)
}

fn is_late_ack(end: End, wait: &Wait) -> bool {
    wait.cause == ExchangeState::DelayedAck && wait.end != end
}

/// Returns the longest delay of an acknowledgment that released data at `end`, in ns; 0 if none did.
fn delay_ns(end: End, exchange: &TracedExchange) -> f64 {
    let released = |ack: &&Wait| {
        let with = |wait: &Wait| is_stall(end, exchange, wait) && wait.until_ns.abs_diff(ack.over_ns()) <= MAX_GAP_NS;
        is_late_ack(end, ack) && exchange.waits.iter().any(with)
    };
    let delays = exchange.waits.iter().filter(released).map(|ack| ack.until_ns - ack.from_ns);
    delays.max().unwrap_or(0) as f64
}

impl Stall {
    pub(crate) fn add_facts(&self, case: &Case, finding: Finding) -> Finding {
        let finding = self.often.add_facts(finding).with_if(case.path.across.is_some(), keys::TWO_HOSTS);
        let pipeline = case.primary().load.exchange().map(|exchange| exchange.pipeline as f64);
        let finding = finding.with_some(keys::PIPELINE, pipeline);
        self.ends.iter().fold(finding, |finding, at| {
            let (held, places) = match at.end {
                End::Client => (keys::HELD_OF_CLIENT, keys::PLACES_OF_CLIENT),
                End::Server => (keys::HELD_OF_SERVER, keys::PLACES_OF_SERVER),
            };
            let numbers: Vec<String> = at.places.iter().map(usize::to_string).collect();
            finding.with(held, at.held.word()).with(places, numbers.join(",").as_str())
        })
    }
}
