//! Nagle's algorithm at one end waiting for delayed acknowledgments of the other: evidence from traces, and its
//! wording.

use std::collections::BTreeSet;

use hairpin_model::case::Case;
use hairpin_model::figure::Figure;
use hairpin_model::names;
use hairpin_model::options::OptionName;
use hairpin_model::quantities;
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;
use hairpin_model::time_sequence::{TracedExchange, Wait, WaitCause};
use hairpin_model::trace::End;

use super::{Often, Traced, held_ns};
use crate::trace::switch;

/// Maximum time between the acknowledgment and the departure of the bytes, in ns.
const TOGETHER_NS: u64 = 1_500_000;

/// The evidence from the traces of a case.
pub(in crate::findings) struct Stall {
    /// The ends at which bytes were held: one or both, the one with more such exchanges first.
    pub(in crate::findings) ends: Vec<StallAt>,
    pub(in crate::findings) often: Often,
    pub(in crate::findings) writes: Figure,
    pub(in crate::findings) segments: Figure,
}

/// The evidence for one end.
pub(in crate::findings) struct StallAt {
    pub(in crate::findings) end: End,
    /// How long bytes were held in an exchange.
    pub(in crate::findings) held_ns: Figure,
    /// The delay of the acknowledgment that released them.
    pub(in crate::findings) acknowledged_ns: Figure,
    /// Number of traced exchanges with a stall.
    exchanges: usize,
    /// Their positions in a window of requests in flight, from 1.
    places: BTreeSet<usize>,
    /// The held part of the exchange's own bytes, over all exchanges.
    held: Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// All of them, each time.
    All,
    /// All but the first write, each time.
    AllButTheFirstWrite,
    /// Varies.
    Some,
}

/// The combined effect of Nagle's algorithm and delayed acknowledgments on a case; `None` without one. An end counts
/// only if `TCP_NODELAY` and `TCP_CORK` were granted as off in the timed rounds too.
pub(in crate::findings) fn stall(run: &Run, case: &CaseSummary) -> Option<Stall> {
    if case.case.replicate != 0 {
        return None;
    }
    let off = |granted| [OptionName::Nodelay, OptionName::Cork].map(|name| switch(granted, name)) == [Some(false); 2];
    let ends = case.ends.iter().filter(|end| off(&end.effective_options)).map(|end| end.role);
    let traced = Traced::of(run, case)?;
    let mut ends: Vec<StallAt> = ends.filter_map(|end| stall_at(&traced, case, end)).collect();
    ends.sort_by_key(|at| std::cmp::Reverse(at.exchanges));
    let met = |exchange: &TracedExchange, wait: &Wait| ends.iter().any(|at| met(at.end, exchange, wait));
    let figure = |of: &dyn Fn(&TracedExchange) -> f64| {
        let stalled = |exchange: &TracedExchange| exchange.waits.iter().any(|wait| met(exchange, wait));
        traced.figure(|exchange| stalled(exchange).then(|| of(exchange)))
    };
    Some(Stall {
        often: traced.often(met),
        writes: figure(&|exchange| exchange.writes as f64)?,
        segments: figure(&|exchange| exchange.segments as f64)?,
        ends,
    })
}

fn stall_at(traced: &Traced<'_>, case: &CaseSummary, end: End) -> Option<StallAt> {
    let exchange = case.case.primary().load.exchange();
    let met = |exchange: &TracedExchange, wait: &Wait| met(end, exchange, wait);
    let figure =
        |of: &dyn Fn(&TracedExchange) -> f64| traced.figure(|exchange| Some(of(exchange)).filter(|ns| *ns > 0.0));
    let stalled = || traced.exchanges().filter(|(_, exchange)| exchange.waits.iter().any(|wait| met(exchange, wait)));
    let pipeline = exchange.map_or(1, |exchange| exchange.pipeline);
    let in_flight = usize::try_from(pipeline).unwrap_or(usize::MAX).max(1);
    let whole = match end {
        End::Client => case.case.primary().load.size_bytes(),
        End::Server => case.case.primary().load.reply_size_bytes(),
    };
    let first_write = match end {
        End::Client => exchange.and_then(|exchange| exchange.sizes_written().first().copied()).unwrap_or(0),
        End::Server => 0,
    };
    let held = |exchange: &TracedExchange| {
        let of_it = exchange.waits.iter().filter(|wait| met(exchange, wait));
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
        held_ns: figure(&|exchange| held_ns(exchange, met))?,
        acknowledged_ns: figure(&|exchange| delay_ns(end, exchange))?,
        exchanges: kinds.len(),
        places: stalled().map(|(place, _)| place % in_flight + 1).collect(),
        held: if kinds.iter().all(|kind| *kind == first) { first } else { Held::Some },
    })
}

/// Whether Nagle's algorithm at `end` caused the wait, and a delayed acknowledgment of the other end ended it.
fn met(end: End, exchange: &TracedExchange, wait: &Wait) -> bool {
    wait.cause == WaitCause::Nagle
        && wait.end == end
        && exchange
            .waits
            .iter()
            .any(|other| late(end, other) && other.over_ns().abs_diff(wait.until_ns) <= TOGETHER_NS)
}

/// Whether the wait is a late acknowledgment of data from `end`.
fn late(end: End, wait: &Wait) -> bool {
    wait.cause == WaitCause::DelayedAck && wait.end != end
}

/// The longest delay of an acknowledgment that released data at `end`; 0 without any.
fn delay_ns(end: End, exchange: &TracedExchange) -> f64 {
    let released = |ack: &&Wait| {
        let with = |wait: &Wait| met(end, exchange, wait) && wait.until_ns.abs_diff(ack.over_ns()) <= TOGETHER_NS;
        late(end, ack) && exchange.waits.iter().any(with)
    };
    let delays = exchange.waits.iter().filter(released).map(|ack| ack.until_ns - ack.from_ns);
    delays.max().unwrap_or(0) as f64
}

impl Stall {
    /// A description in sentences; the first follows a colon.
    pub(in crate::findings) fn told(&self, case: &Case) -> String {
        let of = |at: &StallAt| match case.primary().load.exchange() {
            Some(exchange) => at.told(exchange.pipeline, &self.writes, delayed_by(at.end, case)),
            None => at.told_of_messages(delayed_by(at.end, case)),
        };
        let ends = self.ends.iter().map(of);
        let ends = ends.enumerate().map(|(place, told)| if place == 0 { told } else { capitalised(&told) });
        let of_server = self.ends.iter().any(|at| at.end == End::Client);
        let unknown = if of_server { cannot_tell_the_delay(case) } else { "" };
        format!("{}{unknown} {}", ends.collect::<Vec<_>>().join(" "), self.often.told())
    }
}

/// The unknown part of a delayed server acknowledgment between two hosts, after a sentence; empty on one host.
pub(in crate::findings) fn cannot_tell_the_delay(case: &Case) -> &'static str {
    if case.path.across.is_none() {
        return "";
    }
    " The delay is what the ACK took beyond the shortest round trip; cannot tell how much of it the network took: nothing \
     bounds how far the clocks of the two hosts are apart."
}

/// What delays the acknowledgments of data from `end`.
fn delayed_by(end: End, case: &Case) -> &'static str {
    match end {
        End::Client => late_for_the_client(case),
        End::Server => "the client",
    }
}

/// What delays an acknowledgment that the client sees late.
pub(in crate::findings) fn late_for_the_client(case: &Case) -> &'static str {
    if case.path.across.is_some() { "the server or the network" } else { "the server" }
}

impl StallAt {
    fn told(&self, in_flight: u64, writes: &Figure, other: &str) -> String {
        let held = quantities::duration_figure(self.held_ns);
        let delay = quantities::duration(self.acknowledged_ns.value);
        let (what, at) = match self.end {
            End::Client => ("request", "the client"),
            End::Server => ("answer", "the server"),
        };
        if in_flight == 1 && self.end == End::Client && self.held == Held::AllButTheFirstWrite {
            return format!(
                "of the {} writes of a request Nagle's algorithm holds all but the first for {held}, until it is \
                 acknowledged, and {other} delays that ACK by {delay}.",
                quantities::rounded(writes.value)
            );
        }
        let several = in_flight > 1 && self.places.len() > 1;
        let (verb, them) = if several { ("wait", "them") } else { ("waits", "it") };
        format!(
            "{} {verb} at {at} for {held}: Nagle's algorithm holds {them} until earlier data is acknowledged, and \
             {other} delays that ACK by {delay}.",
            self.held_ones(what, in_flight)
        )
    }

    /// The same for an open loop.
    fn told_of_messages(&self, other: &str) -> String {
        let held = quantities::duration_figure(self.held_ns);
        let delay = quantities::duration(self.acknowledged_ns.value);
        match self.end {
            End::Client => format!(
                "messages wait at the client for {held}: Nagle's algorithm holds each until the one before is \
                 acknowledged, and {other} delays that ACK by {delay}."
            ),
            End::Server => format!(
                "answers wait at the server for {held}: Nagle's algorithm holds each until the one before is \
                 acknowledged, and {other} delays that ACK by {delay}, mostly until its next message is due."
            ),
        }
    }

    /// `requests 2 to 4 of each 4 in flight`; `requests 1 to 4 of each 4 in flight, whole or in part,`.
    fn held_ones(&self, what: &str, in_flight: u64) -> String {
        let whole = self.held == Held::All;
        let numbers: Vec<String> = self.places.iter().map(usize::to_string).collect();
        let ones = match &numbers[..] {
            _ if in_flight == 1 => {
                return if whole { format!("each {what}") } else { format!("a part of each {what}") };
            }
            [one] => format!("{what} {one}"),
            [first, .., last] if numbers.len() > 2 && self.without_gaps() => format!("{what}s {first} to {last}"),
            _ => format!("{what}s {}", names::shortened(&numbers, 2)),
        };
        format!("{ones} of each {in_flight} in flight{}", if whole { "" } else { ", whole or in part," })
    }

    fn without_gaps(&self) -> bool {
        self.places.iter().zip(self.places.iter().skip(1)).all(|(place, next)| next - place == 1)
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
