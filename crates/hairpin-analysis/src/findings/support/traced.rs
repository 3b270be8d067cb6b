//! The traced rounds of a case, without waits that tracing may have caused.

use hairpin_model::round::Purpose;
use hairpin_model::{
    Case, CaseSummary, Figure, Finding, Load, Measured, Run, TraceFigures, TracedExchange, Wait, finding_keys as keys,
};

use crate::statistics::interval::{Over, median_over};
use crate::statistics::location::median;
use crate::valid_rounds;

/// Maximum excess of a traced exchange over untraced ones, as a share of a wait; above this share, tracing caused the
/// wait.
const MAX_TRACING_EXCESS: f64 = 0.5;

/// The traces of a case, one per traced round.
pub(crate) struct Traced<'r> {
    pub(crate) rounds: Vec<&'r TraceFigures>,
    /// The exchanges of each round, only with waits that count as evidence.
    exchanges: Vec<Vec<TracedExchange>>,
    /// The p50 and mean of an exchange in the timed rounds, which exclude the start of their connections.
    timed_ns: [Option<f64>; 2],
}

impl<'r> Traced<'r> {
    /// Returns the traces of a case; `None` if no exchange was traced. Tracing takes time, which can cause a wait.
    /// Each exchange is therefore compared with an exchange of the untraced rounds ([`controls`]); otherwise its
    /// waits do not count.
    pub(crate) fn of(run: &'r Run, case: &'r CaseSummary) -> Option<Self> {
        let measured = |purpose: Purpose| -> Vec<&'r Measured> {
            let rounds = run.rounds.iter().filter(|round| round.case_id == case.id);
            rounds.filter_map(|round| valid_rounds::evidence_round(round, purpose)).collect()
        };
        let untraced: Vec<&[f64]> = measured(Purpose::Untraced)
            .into_iter()
            .map(|measured| measured.primary().figures.early_exchanges_ns.as_slice())
            .collect();
        let rounds: Vec<&TraceFigures> =
            measured(Purpose::Traced).into_iter().filter_map(|round| round.traced.as_ref()).collect();
        let controls = controls(&rounds, &untraced, in_flight(&case.case));
        let evident = |(round, controls): (&&TraceFigures, Vec<Option<f64>>)| -> Vec<TracedExchange> {
            round.exchanges.iter().zip(controls).map(|(exchange, control)| filter_waits(exchange, control)).collect()
        };
        let exchanges: Vec<_> = rounds.iter().zip(controls).map(evident).collect();
        let any = exchanges.iter().any(|round| !round.is_empty());
        let timed_ns =
            [case.primary().latency_ns.p50, case.primary().latency_ns.mean].map(|figure| Some(figure?.value));
        any.then_some(Self { rounds, exchanges, timed_ns })
    }

    pub(crate) fn exchanges(&self) -> impl Iterator<Item = (usize, &TracedExchange)> {
        self.exchanges.iter().flat_map(|round| round.iter().enumerate())
    }

    /// Returns the median over rounds of the median over exchanges, with its interval; `None` without values.
    pub(crate) fn figure(&self, of: impl Fn(&TracedExchange) -> Option<f64>) -> Option<Figure> {
        let each = |round: &Vec<TracedExchange>| median(&round.iter().filter_map(&of).collect::<Vec<_>>());
        let values: Vec<f64> = self.exchanges.iter().filter_map(each).collect();
        median_over(&values, Over::evidence(0.0))
    }

    /// Counts how often the wait occurred, and computes its share of the time. Uses medians if more than half of the
    /// exchanges have the wait: a mean would be dominated by a few exchanges that the machine delayed.
    pub(crate) fn frequency(&self, of_kind: impl Fn(&TracedExchange, &Wait) -> bool) -> WaitFrequency {
        let mut often = WaitFrequency { some: 0, all: 0, share_of_some: 0.0, share: 0.0 };
        // For each exchange with the wait: its duration minus the wait, and the share of the wait.
        let (mut without_ns, mut parts) = (Vec::new(), Vec::new());
        // Traced rounds start with exchanges that the kernel acknowledges at once; timed rounds exclude them.
        let (mut held_ns_past_start, mut ns_past_start, mut past_start) = (0.0, 0.0, 0);
        let has_it = |exchange: &TracedExchange| exchange.waits.iter().any(|wait| of_kind(exchange, wait));
        let first_place = self.exchanges().filter(|(_, exchange)| has_it(exchange)).map(|(place, _)| place).min();
        for (place, exchange) in self.exchanges() {
            let duration_ns = (exchange.duration_ns as f64).max(1.0);
            let held_ns = held_ns(exchange, &of_kind);
            often.all += 1;
            if has_it(exchange) {
                often.some += 1;
                without_ns.push((duration_ns - held_ns).max(0.0));
                parts.push((held_ns / duration_ns).clamp(0.0, 1.0));
            }
            if first_place.is_some_and(|first| place >= first) {
                past_start += 1;
                held_ns_past_start += held_ns;
                ns_past_start += duration_ns;
            }
        }
        let (Some(without_ns), Some(part)) = (median(&without_ns), median(&parts)) else { return often };
        let [p50_ns, mean_ns] = self.timed_ns;
        let (timed_ns, most) = if 2 * often.some > past_start {
            (p50_ns, part)
        } else {
            (mean_ns, (held_ns_past_start / ns_past_start).clamp(0.0, 1.0))
        };
        let steady = timed_ns.filter(|ns| *ns > 0.0).map_or(0.0, |ns| (1.0 - without_ns / ns).max(0.0));
        (often.share_of_some, often.share) = (part, steady.min(most));
        often
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WaitFrequency {
    /// Exchanges with the wait.
    pub(crate) some: usize,
    pub(crate) all: usize,
    pub(crate) share_of_some: f64,
    /// The reported share of the duration of a timed exchange: from the p50 if more than half of the exchanges have
    /// the wait, otherwise from the mean.
    pub(crate) share: f64,
}

impl WaitFrequency {
    pub(crate) fn of_exchanges(&self) -> Figure {
        Figure::bare(self.some as f64 / self.all.max(1) as f64)
    }

    pub(crate) fn add_facts(&self, finding: Finding) -> Finding {
        finding
            .with(keys::SEEN, self.some as f64)
            .with(keys::TRACED, self.all as f64)
            .with(keys::SHARE_OF_SEEN, self.share_of_some)
            .with(keys::SHARE_OF_UNTRACED, self.share)
    }
}

/// Returns the maximum number of messages in flight; with several, chance decides which of them wait.
fn in_flight(case: &Case) -> u64 {
    match &case.primary().load {
        Load::Paced { .. } => u64::MAX,
        Load::Exchange { exchange, .. } => exchange.pipeline,
        Load::PingPong { .. }
        | Load::Messages { .. }
        | Load::Stream { .. }
        | Load::Offered { .. }
        | Load::Periodic { .. } => 1,
    }
}

/// Returns the duration of each traced exchange without tracing, in ns: the median over untraced rounds at its position
/// in a connection. With several requests in flight, chance decides which of them stall, so exchanges are matched by
/// rank: the longest traced with the longest untraced one.
fn controls(traced: &[&TraceFigures], untraced: &[&[f64]], in_flight: u64) -> Vec<Vec<Option<f64>>> {
    if in_flight <= 1 {
        let at =
            |place: usize| median(&untraced.iter().filter_map(|round| round.get(place)).copied().collect::<Vec<_>>());
        return traced.iter().map(|round| (0..round.exchanges.len()).map(at).collect()).collect();
    }
    let mut untraced = untraced.concat();
    untraced.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut longest: Vec<(usize, usize)> = traced
        .iter()
        .enumerate()
        .flat_map(|(round, figures)| (0..figures.exchanges.len()).map(move |place| (round, place)))
        .collect();
    longest.sort_by_key(|&(round, place)| std::cmp::Reverse(traced[round].exchanges[place].duration_ns));
    let mut all: Vec<Vec<Option<f64>>> = traced.iter().map(|round| vec![None; round.exchanges.len()]).collect();
    for (rank, &(round, place)) in longest.iter().enumerate() {
        all[round][place] = untraced.get(rank * untraced.len() / longest.len()).copied();
    }
    all
}

fn filter_waits(exchange: &TracedExchange, untraced_ns: Option<f64>) -> TracedExchange {
    let excess_ns = untraced_ns.map_or(f64::INFINITY, |untraced_ns| exchange.duration_ns as f64 - untraced_ns);
    let counts = |wait: &&Wait| {
        let (from_ns, until_ns) = span(exchange, wait);
        excess_ns <= MAX_TRACING_EXCESS * (until_ns - from_ns).max(0) as f64
    };
    TracedExchange { waits: exchange.waits.iter().filter(counts).cloned().collect(), ..exchange.clone() }
}

fn span(exchange: &TracedExchange, wait: &Wait) -> (i64, i64) {
    let ended_ns = i64::try_from(exchange.duration_ns).unwrap_or(i64::MAX);
    (wait.from_ns.max(0), wait.until_ns.min(ended_ns))
}

/// Returns the time during which a wait of that kind was in progress in the exchange, in ns; overlaps count once.
pub(crate) fn held_ns(exchange: &TracedExchange, of_kind: impl Fn(&TracedExchange, &Wait) -> bool) -> f64 {
    let of_kind = exchange.waits.iter().filter(|wait| of_kind(exchange, wait));
    let mut spans: Vec<(i64, i64)> = of_kind.map(|wait| span(exchange, wait)).collect();
    spans.sort_unstable();
    let (mut held, mut done) = (0, 0);
    for (from_ns, until_ns) in spans {
        held += (until_ns - from_ns.max(done)).max(0);
        done = done.max(until_ns);
    }
    held as f64
}

#[cfg(test)]
mod tests {
    use hairpin_model::exchange_state::ExchangeState;
    use hairpin_model::trace::End;

    use super::*;

    fn exchange(duration_ns: u64, waits: &[(i64, i64)]) -> TracedExchange {
        let wait = |(from_ns, until_ns): &(i64, i64)| Wait {
            came_ns: None,
            cause: ExchangeState::Nagle,
            end: End::Client,
            from_ns: *from_ns,
            until_ns: *until_ns,
            first_byte: 2,
            end_byte: 200,
        };
        TracedExchange { duration_ns, waits: waits.iter().map(wait).collect(), ..TracedExchange::default() }
    }

    #[test]
    fn a_wait_is_valid_unless_tracing_adds_more_than_half_of_the_wait() {
        let traced = exchange(83_000, &[(0, 43_000), (43_000, 83_000), (-90_000, 1_000)]);
        let left = |untraced_ns| filter_waits(&traced, untraced_ns).waits.len();
        assert_eq!(left(Some(40_000.0)), 0, "43 us longer");
        assert_eq!(left(Some(61_500.0)), 1, "longer by exactly half of the longest wait");
        assert_eq!(left(Some(61_499.0)), 0);
        assert_eq!(left(Some(63_000.0)), 2, "the third is in the exchange for 1 us only");
        assert_eq!(left(Some(90_000.0)), 3, "shorter than untraced");
        assert_eq!(left(None), 0, "no untraced exchange");
    }

    #[test]
    fn an_exchange_is_compared_by_position_or_with_several_in_flight_by_rank() {
        let round = |durations: &[u64]| TraceFigures {
            exchanges: durations.iter().map(|duration_ns| exchange(*duration_ns, &[])).collect(),
            ..TraceFigures::default()
        };
        let (one, other) = (round(&[1, 44, 44]), round(&[1, 2, 45]));
        let untraced: [&[f64]; 3] = [&[1.0, 44.0], &[1.0, 46.0], &[2.0, 1.0]];
        let by_place = controls(&[&one, &other], &untraced, 1);
        assert_eq!(by_place, vec![vec![Some(1.0), Some(44.0), None]; 2]);
        let by_rank = controls(&[&one, &other], &untraced, 4);
        assert_eq!(by_rank[0], [Some(1.0), Some(44.0), Some(2.0)]);
        assert_eq!(by_rank[1], [Some(1.0), Some(1.0), Some(46.0)]);
        assert_eq!(controls(&[&one], &[], 4), [[None; 3]]);
    }

    fn often(exchanges: &[Vec<TracedExchange>], timed_ns: [f64; 2]) -> WaitFrequency {
        let traced = Traced { rounds: Vec::new(), exchanges: exchanges.to_vec(), timed_ns: timed_ns.map(Some) };
        traced.frequency(|_, _| true)
    }

    #[test]
    fn the_share_is_of_timed_exchanges_however_many_traced_exchanges_are_at_a_start() {
        let stalled = exchange(100, &[(0, 40), (20, 80)]);
        let quick = exchange(20, &[]);
        let diluted = [vec![quick.clone(), quick.clone(), stalled.clone()]];
        let all = often(&diluted, [100.0, 100.0]);
        assert_eq!(all, WaitFrequency { some: 1, all: 3, share_of_some: 0.8, share: 0.8 }, "all timed stall");
        assert_eq!(often(&diluted, [20.0, 20.0]).share, 0.0, "no timed exchange stalls");
        assert_eq!(often(&diluted, [9_000.0, 9_000.0]).share, 0.8, "timed exchanges have another cause");
        let none = often(&[vec![quick]], [100.0, 100.0]);
        assert_eq!(none, WaitFrequency { some: 0, all: 1, share_of_some: 0.0, share: 0.0 });
    }

    #[test]
    fn the_share_is_from_the_median_if_most_wait_and_else_from_the_mean() {
        let stalled = exchange(100, &[(0, 80)]);
        let held_up = exchange(100_000, &[(0, 80)]);
        let most = [vec![stalled.clone(), stalled.clone(), held_up]];
        assert_eq!(often(&most, [100.0, 40_000.0]).share, 0.8, "the exchange delayed by the machine does not matter");
        let quick = exchange(20, &[]);
        let now_and_then = [vec![stalled, quick.clone(), quick.clone(), quick]];
        // The waits are 80 of the 160 that the four exchanges take in total, which have a mean of 40.
        assert_eq!(often(&now_and_then, [20.0, 40.0]).share, 0.5);
    }
}
