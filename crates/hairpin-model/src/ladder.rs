//! The ladder: the cases of a run grouped by path, waiting and placement, fastest first, with their row names.

use std::cmp::Ordering;

use crate::case::{Case, Placement, Waiting};
use crate::compared_by::ComparedBy;
use crate::exchange::Exchange;
use crate::figure::Figure;
use crate::flow::Load;
use crate::names::{distinct, grouped};
use crate::one_way::OneWayFigures;
use crate::path;
use crate::summary::CaseSummary;

/// What a case measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseKind {
    /// A message and its answer.
    RoundTrips,
    /// A request of several writes and its answer.
    Exchanges,
    /// One-way messages at maximum rate.
    Messages,
    /// One-way bytes at maximum rate.
    Streams,
    /// One-way messages at a given rate.
    Offered,
    /// Messages and their answers in each period of a control loop.
    Periods,
    /// A message and its answer before, during and after a load.
    UnderLoad,
}

impl CaseKind {
    /// Round trips first.
    pub const ALL: [Self; 7] = [
        Self::RoundTrips,
        Self::Exchanges,
        Self::Messages,
        Self::Streams,
        Self::Offered,
        Self::Periods,
        Self::UnderLoad,
    ];

    pub fn of(case: &Case) -> Self {
        match case.primary().load {
            _ if case.is_under_load() => Self::UnderLoad,
            Load::PingPong { .. } | Load::Paced { .. } => Self::RoundTrips,
            Load::Exchange { .. } => Self::Exchanges,
            Load::Messages { .. } => Self::Messages,
            Load::Stream { .. } => Self::Streams,
            Load::Offered { .. } => Self::Offered,
            Load::Periodic { .. } => Self::Periods,
        }
    }

    /// Noun for one sample, noun with its article for what the case measures, and heading of the cases of this kind.
    pub fn words(self) -> [&'static str; 3] {
        match self {
            Self::RoundTrips => ["round trip", "a round trip", "Round trips"],
            Self::Exchanges => ["exchange", "an exchange", "Exchanges"],
            Self::Messages => ["message", "a message", "Message rates"],
            Self::Streams => ["message", "a stream", "Streams"],
            Self::Offered => ["message", "a message", "Offered loads"],
            Self::Periods => ["period", "a control loop", "Control loops"],
            Self::UnderLoad => ["round trip", "a round trip under load", "Latency under load"],
        }
    }

    pub fn title(self) -> &'static str {
        self.words()[2]
    }
}

/// The figures by which these cases are compared, the decisive one first.
/// - Round trips, exchanges and probes under load: median latency, then p90 and p99; for a probe, the latencies of
///   the loaded phase, which are the figures of its flow.
/// - Messages at maximum rate: messages received per second.
/// - Streams: goodput.
/// - Offered loads, only compared at equal rates: if all were delivered, median one-way latency, with p90 and p99 if
///   nothing was lost (lost messages have no latency but belong to the tail); else the delivered rate, because the
///   latencies are then of different sets of messages.
pub fn compared_by(rows: &[&CaseSummary]) -> &'static [ComparedBy] {
    const LATENCY: &[ComparedBy] = &[ComparedBy::P50, ComparedBy::P90, ComparedBy::P99];
    let all = |is: fn(&CaseSummary) -> bool| rows.iter().all(|row| is(row));
    let kind = rows.first().map_or(CaseKind::RoundTrips, |row| CaseKind::of(&row.case));
    match kind {
        CaseKind::RoundTrips | CaseKind::Exchanges | CaseKind::Periods | CaseKind::UnderLoad => LATENCY,
        CaseKind::Messages => &[ComparedBy::Rate],
        CaseKind::Streams => &[ComparedBy::Goodput],
        CaseKind::Offered if !all(is_delivered) => &[ComparedBy::Rate],
        CaseKind::Offered if all(|row| row.primary().ledger.received == row.primary().ledger.sent) => LATENCY,
        CaseKind::Offered => LATENCY.split_at(1).0,
    }
}

/// Whether an offered load was delivered completely; false for other loads.
pub fn is_delivered(row: &CaseSummary) -> bool {
    row.one_way().and_then(OneWayFigures::arrived_whole).unwrap_or(false)
}

/// What the cases with a latency measure: `a round trip`, or `a round trip or an exchange`.
pub fn things_with_latency(cases: &[CaseSummary]) -> String {
    let has = |kind: &CaseKind| cases.iter().any(|row| CaseKind::of(&row.case) == *kind);
    let kinds = [CaseKind::RoundTrips, CaseKind::Exchanges, CaseKind::Periods, CaseKind::UnderLoad];
    let things: Vec<&str> = kinds.iter().filter(|kind| has(kind)).map(|kind| kind.words()[1]).collect();
    things.join(" or ")
}

/// Cases with the same path, waiting and placement. Exchanges also have the same transport and request, and cases under
/// load the same probe.
pub struct Group<'r> {
    /// `block, same-cpu`, or `tcp 100x2 B, block, same-cpu, over home-uplink`; includes the path if there are several.
    pub name: String,
    /// The name without the path.
    pub ends: String,
    /// The path alone, if there are several.
    pub path: Option<String>,
    /// What the rows share in addition to path, waiting and placement: transport and request of exchanges, the probe
    /// of cases under load; else empty.
    pub subject: String,
    pub waiting: Waiting,
    pub placement: Placement,
    pub kind: CaseKind,
    /// Fastest first: round trips by p50 (probes under load by p50 of the loaded phase), exchanges by bytes per
    /// millisecond, messages by messages received per second, streams by goodput. Offered loads that differ only in
    /// rate are a series; series are in plan order and sorted by rate. Cases without the figure come last, in plan
    /// order.
    pub rows: Vec<&'r CaseSummary>,
}

/// Groups the cases. Groups are sorted by path in plan order, then by waiting (block, poll, spin), then by placement
/// (same-cpu, cross-cpu, unpinned), then in plan order.
pub fn groups(cases: &[CaseSummary]) -> Vec<Group<'_>> {
    let several = path::several(cases);
    let path_of = |case: &Case| several.then(|| path::over(case).unwrap_or_else(|| "without a link".to_owned()));
    let paths = distinct(cases.iter().map(|summary| path_of(&summary.case)));
    let of = |case: &Case| (path_of(case), case.ends.waiting, case.ends.placement, subject(case));
    let all = grouped(cases.iter().map(|summary| (of(&summary.case), summary))).into_iter();
    let groups = all.map(|((path, waiting, placement, subject), rows)| {
        let ends = if subject.is_empty() {
            format!("{waiting}, {placement}")
        } else {
            format!("{subject}, {waiting}, {placement}")
        };
        let name = [Some(ends.clone()), path.clone()].into_iter().flatten().collect::<Vec<_>>().join(", ");
        Group { name, ends, path, subject, waiting, placement, kind: CaseKind::of(&rows[0].case), rows }
    });
    let mut groups: Vec<Group<'_>> = groups.collect();
    let place = |path: &Option<String>| paths.iter().position(|known| known == path);
    groups.sort_by_key(|group| (place(&group.path), group.waiting, group.placement));
    for group in &mut groups {
        match group.kind {
            CaseKind::Periods => group.rows.sort_by(|a, b| by_period(a, b)),
            CaseKind::RoundTrips | CaseKind::UnderLoad => group.rows.sort_by(|a, b| by_p50(a, b)),
            CaseKind::Exchanges => group.rows.sort_by(|a, b| by_bytes(a, b)),
            CaseKind::Messages => group.rows.sort_by(|a, b| by_highest(a, b, ComparedBy::Rate)),
            CaseKind::Streams => group.rows.sort_by(|a, b| by_highest(a, b, ComparedBy::Goodput)),
            CaseKind::Offered => by_series(&mut group.rows),
        }
    }
    groups
}

fn subject(case: &Case) -> String {
    match case.primary().load.exchange() {
        Some(exchange) => format!("{} {}", case.marked_transport(), request(case, exchange)),
        None if case.is_under_load() => case.probe_words().join(" "),
        None => String::new(),
    }
}

fn by_p50(one: &CaseSummary, other: &CaseSummary) -> Ordering {
    let place = |row: &CaseSummary| row.p50_ns().unwrap_or(f64::INFINITY);
    place(one).total_cmp(&place(other))
}

fn by_period(one: &CaseSummary, other: &CaseSummary) -> Ordering {
    let place = |row: &CaseSummary| row.case.primary().load.periodic().map(|own| own.period_ns);
    place(one).cmp(&place(other)).then_with(|| by_p50(one, other))
}

/// If fewer than half of the exchanges stall, the p50 does not show the stalls; bytes per millisecond do.
fn by_bytes(one: &CaseSummary, other: &CaseSummary) -> Ordering {
    let place = |row: &CaseSummary| row.bytes_per_ms().and_then(Figure::finite).unwrap_or(f64::NEG_INFINITY);
    place(other).total_cmp(&place(one)).then_with(|| by_p50(one, other))
}

fn by_series(rows: &mut [&CaseSummary]) {
    let series = distinct(rows.iter().map(|row| row.case.without_rate()));
    let place = |row: &CaseSummary| series.iter().position(|known| *known == row.case.without_rate());
    let rate = |row: &CaseSummary| row.case.primary().load.rate_per_s().unwrap_or(0.0);
    rows.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| rate(a).total_cmp(&rate(b))));
}

fn by_highest(one: &CaseSummary, other: &CaseSummary, figure: ComparedBy) -> Ordering {
    let place = |row: &CaseSummary| row.compared(figure).map_or(f64::NEG_INFINITY, |figure| figure.value);
    place(other).total_cmp(&place(one))
}

/// The request and its answer without the remedy, and any injected fault: `100x2 B`, `4+3210 B, gap 1 ms, 4 in
/// flight`.
pub fn request(case: &Case, exchange: &Exchange) -> String {
    let mut words = exchange_words(case, exchange);
    words.remove(0);
    words.join(", ")
}

/// The remedy and the words of [`request`]: details that only cases with exchanges have.
fn exchange_words(case: &Case, exchange: &Exchange) -> Vec<String> {
    let bare = Case::small_writes(&case.primary().transport, exchange.clone());
    let sized = bare.with(|bare| {
        bare.injected_fault = case.injected_fault;
        bare.primary_mut().load.set_sizes(0, case.primary().load.reply_size_bytes());
    });
    sized.details()
}

/// Name of a case in its group, without path: transport (exchanges: remedy; under load: load) and details.
pub fn row_name(summary: &CaseSummary) -> String {
    row_words(summary).join(" ")
}

/// The words of [`row_name`]; at least one.
pub fn row_words(summary: &CaseSummary) -> Vec<String> {
    let case = &summary.case;
    let (mut words, shared) = match case.primary().load.exchange() {
        Some(exchange) => (vec![exchange.remedy.to_string()], exchange_words(case, exchange)),
        None if case.is_under_load() => {
            (case.load_words(), case.probe_words().into_iter().chain(case.load_in_words()).collect())
        }
        None => (vec![case.marked_transport()], Vec::new()),
    };
    words.extend(case.without_link().details().into_iter().filter(|word| !shared.contains(word)));
    words
}
