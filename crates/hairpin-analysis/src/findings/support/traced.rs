//! What the traced rounds of a case say.

use hairpin_model::figure::Figure;
use hairpin_model::round::Purpose;
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;
use hairpin_model::time_sequence::{TraceFigures, TracedExchange, Wait};

use crate::statistics::interval::median_figure;
use crate::statistics::location::median;

/// The traces of a case, one of each traced round.
pub(in crate::findings) struct Traced<'r> {
    pub(in crate::findings) rounds: Vec<&'r TraceFigures>,
    seed: u64,
    id: &'r str,
}

impl<'r> Traced<'r> {
    /// Null where no exchange was traced.
    pub(in crate::findings) fn of(run: &'r Run, case: &'r CaseSummary) -> Option<Self> {
        let rounds = run.rounds.iter().filter(|round| round.case_id == case.id);
        let rounds: Vec<&TraceFigures> =
            rounds.filter_map(|round| round.measured_as(Purpose::Traced)?.traced.as_ref()).collect();
        let any = rounds.iter().any(|round| !round.exchanges.is_empty());
        any.then_some(Self { rounds, seed: run.seed, id: &case.id })
    }

    /// All exchanges of all rounds.
    pub(in crate::findings) fn exchanges(&self) -> impl Iterator<Item = &'r TracedExchange> {
        self.rounds.iter().flat_map(|round| &round.exchanges)
    }

    /// The median over rounds, with its interval, of the median of what exchanges of a round say; null where none says
    /// anything.
    pub(in crate::findings) fn figure(
        &self,
        name: &str,
        of: impl Fn(&TracedExchange) -> Option<f64>,
    ) -> Option<Figure> {
        let each = |round: &&TraceFigures| median(&round.exchanges.iter().filter_map(&of).collect::<Vec<_>>());
        let values: Vec<f64> = self.rounds.iter().filter_map(each).collect();
        median_figure(&values, self.seed, &format!("{} traced {name}", self.id))
    }

    /// The part of all exchanges' time in which a wait of that kind was under way.
    pub(in crate::findings) fn share(&self, of_kind: impl Fn(&TracedExchange, &Wait) -> bool) -> f64 {
        let held: f64 = self.exchanges().map(|exchange| held_ns(exchange, &of_kind)).sum();
        let whole: f64 = self.exchanges().map(|exchange| exchange.duration_ns as f64).sum();
        if whole > 0.0 { (held / whole).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// In how many exchanges there was one, and of how many.
    pub(in crate::findings) fn count(&self, of_kind: impl Fn(&TracedExchange, &Wait) -> bool) -> (usize, usize) {
        let some = self.exchanges().filter(|exchange| exchange.waits.iter().any(|wait| of_kind(exchange, wait)));
        (some.count(), self.exchanges().count())
    }
}

/// For how long a wait of that kind was under way in the exchange, in ns: where two were at once, once.
pub(in crate::findings) fn held_ns(
    exchange: &TracedExchange,
    of_kind: impl Fn(&TracedExchange, &Wait) -> bool,
) -> f64 {
    let until_ns = i64::try_from(exchange.duration_ns).unwrap_or(i64::MAX);
    let of_kind = exchange.waits.iter().filter(|wait| of_kind(exchange, wait));
    let mut spans: Vec<(i64, i64)> = of_kind.map(|wait| (wait.from_ns.max(0), wait.until_ns.min(until_ns))).collect();
    spans.sort_unstable();
    let (mut held, mut done) = (0, 0);
    for (from_ns, until_ns) in spans {
        held += (until_ns - from_ns.max(done)).max(0);
        done = done.max(until_ns);
    }
    held as f64
}
