//! The ladder: the cases of a run by waiting and placement, the fastest first.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use hairpin_model::case::{Case, Pattern, Placement, Waiting};
use hairpin_model::exchange::Exchange;
use hairpin_model::figure::Figure;
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Comparison, Role, Verdict};

use crate::links;

/// What the rows of a group measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message and its answer.
    RoundTrips,
    /// A request of several writes and its answer.
    Exchanges,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::RoundTrips, Self::Exchanges];

    /// That of one case.
    pub(crate) fn of(case: &Case) -> Self {
        if case.exchange.is_some() { Self::Exchanges } else { Self::RoundTrips }
    }

    /// One of what is measured.
    pub(crate) fn thing(self) -> &'static str {
        match self {
            Self::RoundTrips => "round trip",
            Self::Exchanges => "exchange",
        }
    }

    /// The same with its article.
    pub(crate) fn a_thing(self) -> &'static str {
        match self {
            Self::RoundTrips => "a round trip",
            Self::Exchanges => "an exchange",
        }
    }

    /// Several of them.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::RoundTrips => "Round trips",
            Self::Exchanges => "Exchanges",
        }
    }
}

/// What all cases of a run measure: `a round trip`, or `a round trip or an exchange`.
pub(crate) fn things(run: &Run) -> String {
    let has = |kind: &Kind| run.cases.iter().any(|row| Kind::of(&row.case) == *kind);
    let things: Vec<&str> = Kind::ALL.iter().filter(|kind| has(kind)).map(|kind| kind.a_thing()).collect();
    things.join(" or ")
}

/// The cases with one path, one waiting and one placement; of exchanges also with one transport and one request.
pub(crate) struct Group<'r> {
    /// `block, together`, or `tcp 100x2 B, block, together, over home-uplink`. The path is in it where the run has several.
    pub(crate) name: String,
    /// The same without the path.
    pub(crate) ends: String,
    /// The path alone, where the run has several.
    pub(crate) path: Option<String>,
    /// What its rows measure.
    pub(crate) kind: Kind,
    /// The fastest first: round trips by p50, exchanges by bytes a millisecond. Cases without the figure are last, in the
    /// order of the plan.
    pub(crate) rows: Vec<&'r CaseSummary>,
}

/// The groups by path in the order of the plan, then in that of the words (block, poll, spin; together, apart, free),
/// then in that of the plan.
pub(crate) fn groups(run: &Run) -> Vec<Group<'_>> {
    let several = links::several(run);
    let mut paths: Vec<Option<String>> = Vec::new();
    let mut groups: Vec<((usize, Waiting, Placement), Group<'_>)> = Vec::new();
    for summary in &run.cases {
        let case = &summary.case;
        let path = several.then(|| links::over(case).unwrap_or_else(|| "without a link".to_owned()));
        let ends = match &case.exchange {
            Some(exchange) => {
                format!("{} {}, {}, {}", case.transport, request(case, exchange), case.waiting, case.placement)
            }
            None => format!("{}, {}", case.waiting, case.placement),
        };
        if !paths.contains(&path) {
            paths.push(path.clone());
        }
        match groups.iter_mut().find(|(_, group)| (&group.ends, &group.path) == (&ends, &path)) {
            Some((_, group)) => group.rows.push(summary),
            None => {
                let place = paths.iter().position(|known| *known == path).unwrap_or(0);
                let name = [Some(ends.clone()), path.clone()].into_iter().flatten().collect::<Vec<_>>().join(", ");
                let group = Group { name, ends, path, kind: Kind::of(case), rows: vec![summary] };
                groups.push(((place, case.waiting, case.placement), group));
            }
        }
    }
    groups.sort_by_key(|(words, _)| *words);
    let mut groups: Vec<Group<'_>> = groups.into_iter().map(|(_, group)| group).collect();
    for group in &mut groups {
        match group.kind {
            Kind::RoundTrips => group.rows.sort_by(|a, b| by_p50(a, b)),
            Kind::Exchanges => group.rows.sort_by(|a, b| by_bytes(a, b)),
        }
    }
    groups
}

fn by_p50(one: &CaseSummary, other: &CaseSummary) -> Ordering {
    let place = |row: &CaseSummary| p50_ns(row).unwrap_or(f64::INFINITY);
    place(one).total_cmp(&place(other))
}

/// Where some exchanges stall and most do not, the p50 shows only one sort of them; what is moved shows both.
fn by_bytes(one: &CaseSummary, other: &CaseSummary) -> Ordering {
    let place = |row: &CaseSummary| finite(bytes_per_ms(row)).unwrap_or(f64::NEG_INFINITY);
    place(other).total_cmp(&place(one)).then_with(|| by_p50(one, other))
}

/// Bytes of requests a millisecond; null where the case has no exchanges.
pub(crate) fn bytes_per_ms(summary: &CaseSummary) -> Option<Figure> {
    summary.exchanges.as_ref()?.bytes_per_ms
}

/// What is written and answered, whatever is done against its stalling, and the fault planted in the answer, if any:
/// `100x2 B`, `4,3210 B, gap 1 ms, 4 in flight`.
pub(crate) fn request(case: &Case, exchange: &Exchange) -> String {
    let mut words = exchange_words(case, exchange);
    words.remove(0);
    words.join(", ")
}

/// The remedy, and the words of [`request`]: those that a case of exchanges has beyond one of round trips.
fn exchange_words(case: &Case, exchange: &Exchange) -> Vec<String> {
    let bare = Case { exchange: Some(exchange.clone()), plant: case.plant, ..Case::ping_pong(&case.transport) };
    let sized = Case { size_bytes: case.size_bytes, reply_size_bytes: case.reply_size_bytes, ..bare };
    sized.details()
}

/// Whether the one moves more bytes a millisecond than the other: their intervals are apart. Comparisons of a run are of
/// p50, which may say the contrary where fewer than half of the exchanges stall.
pub(crate) fn moves_more(one: &CaseSummary, other: &CaseSummary) -> bool {
    let bounds = |row: &CaseSummary| interval(bytes_per_ms(row));
    bounds(one).zip(bounds(other)).is_some_and(|(one, other)| one.0 > other.1)
}

/// The median.
pub(crate) fn p50_ns(summary: &CaseSummary) -> Option<f64> {
    finite(summary.latency_ns.p50)
}

/// The figure's value, where there is one that can be shown.
pub(crate) fn finite(figure: Option<Figure>) -> Option<f64> {
    figure.map(|figure| figure.value).filter(|value| value.is_finite())
}

/// The figure's interval, where both bounds can be shown.
pub(crate) fn interval(figure: Option<Figure>) -> Option<(f64, f64)> {
    let figure = figure?;
    let (low, high) = (figure.low?, figure.high?);
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

/// The case within its group: the transport (of exchanges the remedy) and what sets it apart, but for its path.
pub(crate) fn row_name(summary: &CaseSummary) -> String {
    row_words(summary).join(" ")
}

/// The words of [`row_name`]; there is at least one.
pub(crate) fn row_words(summary: &CaseSummary) -> Vec<String> {
    let case = &summary.case;
    let (head, shared) = match &case.exchange {
        Some(exchange) => (exchange.remedy.to_string(), exchange_words(case, exchange)),
        None => (case.transport.clone(), Vec::new()),
    };
    let details = case.without_link().details().into_iter().filter(|word| !shared.contains(word));
    std::iter::once(head).chain(details).collect()
}

/// CPU time of both ends for one answered message, in ns.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn cpu_ns_per_message(summary: &CaseSummary) -> Option<f64> {
    let seconds = summary.cpu_seconds.client + summary.cpu_seconds.echo.unwrap_or(0.0);
    let measured = summary.samples > 0 && seconds.is_finite() && seconds > 0.0;
    measured.then(|| seconds * 1e9 / summary.samples as f64)
}

/// Messages lost, whatever the cause, those without a cause included.
pub(crate) fn lost(summary: &CaseSummary) -> u64 {
    summary.ledger.lost.values().sum::<u64>() + u64::try_from(summary.ledger.unexplained).unwrap_or(0)
}

/// A case that the answer may name: valid, measured, closed loop, nothing planted, no second of a pair.
pub(crate) fn speaks_for_the_machine(summary: &CaseSummary) -> bool {
    let case = &summary.case;
    summary.valid
        && p50_ns(summary).is_some()
        && case.pattern == Pattern::PingPong
        && case.plant.is_none()
        && case.twin == 0
}

/// How a case stands to the one before it in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The first of the chain.
    First,
    /// Slower than the one before.
    Slower,
    /// Faster than the one before, although its p50 over rounds is greater.
    Faster,
    /// The two cannot be told apart.
    Same,
    /// The two were not compared.
    Unknown,
}

impl Step {
    /// The sign in the chain.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::First => "",
            Self::Slower => "<",
            Self::Faster => ">",
            Self::Same => "~",
            Self::Unknown => "?",
        }
    }

    /// The sign in words.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::First => "",
            Self::Slower => "is faster than",
            Self::Faster => "is slower than, although its p50 over rounds is smaller",
            Self::Same => "cannot be told apart from",
            Self::Unknown => "was not compared with",
        }
    }
}

/// The rows of a group that were compared with a neighbour, by p50, as comparisons are of it; each with its step from
/// the one before, by whatever comparison of the two the run has.
pub(crate) fn chain<'g>(run: &Run, group: &Group<'g>) -> Vec<(Step, &'g CaseSummary)> {
    let pair = |comparison: &'_ Comparison| (comparison.baseline.clone(), comparison.candidate.clone());
    let verdicts: BTreeMap<(String, String), Verdict> =
        run.comparisons.iter().map(|comparison| (pair(comparison), comparison.verdict)).collect();
    let verdict = |one: &CaseSummary, other: &CaseSummary| verdicts.get(&(one.id.clone(), other.id.clone())).copied();
    let is_neighbour = |row: &CaseSummary| {
        let of_row = |comparison: &Comparison| comparison.baseline == row.id || comparison.candidate == row.id;
        run.comparisons.iter().any(|comparison| comparison.role == Role::Neighbours && of_row(comparison))
    };
    let mut compared: Vec<&CaseSummary> = group.rows.iter().copied().filter(|row| is_neighbour(row)).collect();
    compared.sort_by(|a, b| by_p50(a, b).then_with(|| a.label.cmp(&b.label)));
    let mut steps = Vec::with_capacity(compared.len());
    for (place, row) in compared.iter().enumerate() {
        let step = match place.checked_sub(1).map(|before| compared[before]) {
            None => Step::First,
            Some(before) => step(verdict(before, row), verdict(row, before)),
        };
        steps.push((step, *row));
    }
    steps
}

/// `forward` compares this row with the one before as its baseline, `backward` the other way round.
fn step(forward: Option<Verdict>, backward: Option<Verdict>) -> Step {
    match (forward, backward) {
        (Some(Verdict::Slower), _) | (None, Some(Verdict::Faster)) => Step::Slower,
        (Some(Verdict::Faster), _) | (None, Some(Verdict::Slower)) => Step::Faster,
        (Some(Verdict::CannotTell), _) | (None, Some(Verdict::CannotTell)) => Step::Same,
        (None, None) | (Some(Verdict::Unlike), _) | (None, Some(Verdict::Unlike)) => Step::Unknown,
    }
}

/// The rows of a chain that move more bytes a millisecond than one whose p50 is shorter, beyond both intervals.
pub(crate) fn faster_than_its_p50<'g>(chain: &[(Step, &'g CaseSummary)]) -> Vec<&'g CaseSummary> {
    let outdone = |place: usize| chain[..place].iter().any(|(_, before)| moves_more(chain[place].1, before));
    (0..chain.len()).filter(|place| outdone(*place)).map(|place| chain[place].1).collect()
}
