//! One-way loads and probes under load, for tables and charts. Cases in one series differ in a single varied
//! quantity, which has a column or an axis. The heading has the words that all cases share.

use hairpin_model::flow::Direction;
use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::names::{distinct, grouped};
use hairpin_model::quantities::{self, exact_bytes};
use hairpin_model::{Arrivals, CaseSummary, Figure, Flow, FlowSummary, Group, Load, PacingFigures, Run};

use crate::charts::axis::extremes;

#[derive(Default)]
pub(crate) struct Shared {
    way: Option<&'static str>,
    size_bytes: Option<u64>,
    /// Other words that all case names share.
    words: Vec<String>,
    /// Whether the words describe the loads of probes.
    of_loads: bool,
}

impl Shared {
    /// Returns what these cases share; empty unless they are one-way loads or under load.
    pub(crate) fn of<'r>(rows: impl Iterator<Item = &'r CaseSummary>) -> Self {
        let rows: Vec<&CaseSummary> = rows.collect();
        if rows.first().is_some_and(|row| row.case.is_under_load()) {
            return Self { words: shared_loads(&rows), of_loads: true, ..Self::default() };
        }
        let rows: Vec<&CaseSummary> = rows.into_iter().filter(|row| row.case.primary().load.is_one_way()).collect();
        let Some(first) = rows.first() else { return Self::default() };
        let flow = first.case.primary();
        let size_bytes = flow.load.size_bytes();
        let mut words = further_words(first);
        words.retain(|word| rows.iter().all(|row| further_words(row).contains(word)));
        Self {
            way: Some(way(first)).filter(|known| rows.iter().all(|row| way(row) == *known)),
            size_bytes: Some(size_bytes)
                .filter(|size| rows.iter().all(|row| row.case.primary().load.size_bytes() == *size)),
            words,
            of_loads: false,
        }
    }

    /// Formats shared words: `64 B, client to server, 8 connections` or `load 64 KiB`; empty if there are none.
    pub(crate) fn in_words(&self) -> String {
        if self.of_loads && !self.words.is_empty() {
            return format!("load {}", self.words.join(" "));
        }
        let size = self.size_bytes.map(exact_bytes);
        let way = self.way.map(str::to_owned);
        size.into_iter().chain(way).chain(self.words.iter().cloned()).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn sizes_differ(&self) -> bool {
        self.size_bytes.is_none()
    }

    /// Returns the words that name a case's series, without shared words and without the varied quantity. The first
    /// word is the transport; for a case under load, the load.
    pub(crate) fn series(&self, row: &CaseSummary) -> Vec<String> {
        let flow = row.case.primary();
        if !flow.load.is_one_way() {
            let mut words = ladder::row_words(row);
            let head = words.remove(0);
            words.retain(|word| !self.words.contains(word));
            return std::iter::once(head).chain(words).collect();
        }
        let mut words = vec![row.case.marked_transport()];
        words.extend(self.way.is_none().then(|| way(row).to_owned()));
        words.extend(
            (self.sizes_differ() && CaseKind::of(&row.case) != CaseKind::Streams)
                .then(|| exact_bytes(flow.load.size_bytes())),
        );
        words.extend(further_words(row).into_iter().filter(|word| !self.words.contains(word)));
        words
    }

    /// Returns the flows of a case with their names. If a case has several flows, names include the direction.
    pub(crate) fn flows<'r>(&self, row: &'r CaseSummary) -> Vec<(String, &'r FlowSummary)> {
        let name = self.row_words(row).join(" ");
        let named = |flow: &'r FlowSummary| match row.flows.len() {
            1 => (name.clone(), flow),
            _ => (format!("{name}, {}", flow.flow.direction), flow),
        };
        row.flows.iter().map(named).collect()
    }

    pub(crate) fn row_words(&self, row: &CaseSummary) -> Vec<String> {
        let mut words = self.series(row);
        words.extend(match &row.case.primary().load {
            Load::Messages { batch, .. } => Some(format!("batch {batch}")),
            Load::Stream { .. } if self.sizes_differ() => Some(exact_bytes(row.case.primary().load.size_bytes())),
            Load::Offered { offered_per_s, .. } => Some(quantities::rate(*offered_per_s)),
            _ => None,
        });
        words
    }
}

/// Returns the words after the first that all loads of probes share. A single load shares no words.
fn shared_loads(rows: &[&CaseSummary]) -> Vec<String> {
    let loaded: Vec<Vec<String>> =
        rows.iter().filter(|row| !row.case.loads().is_empty()).map(|row| row.case.load_words()).collect();
    if loaded.len() > 1 { common_words(&loaded) } else { Vec::new() }
}

/// Returns the words after the first that all these names have.
pub(crate) fn common_words(names: &[Vec<String>]) -> Vec<String> {
    let mut words = names.first().map_or_else(Vec::new, |first| first[1..].to_vec());
    words.retain(|word| names.iter().all(|name| name[1..].contains(word)));
    words
}

pub(crate) fn own_words<'n>(name: &'n [String], shared: &[String]) -> Vec<&'n str> {
    let own = name.iter().enumerate().filter(|(place, word)| *place == 0 || !shared.contains(word));
    own.map(|(_, word)| word.as_str()).collect()
}

fn way(row: &CaseSummary) -> &'static str {
    match distinct(row.case.flows.iter().map(|flow| flow.direction))[..] {
        [Direction::Up] => "client to server",
        [Direction::Down] => "server to client",
        _ => "both ways",
    }
}

/// Returns the details of a case, without directions, size and varied quantity.
fn further_words(row: &CaseSummary) -> Vec<String> {
    let own = |flow: &Flow| {
        [
            format!("{} {}", flow.direction, exact_bytes(flow.load.size_bytes())),
            format!("both ways {}", exact_bytes(flow.load.size_bytes())),
            format!("batch {}", flow.load.batch()),
            flow.load.rate_per_s().map_or_else(String::new, |per_s| format!("{per_s}/s")),
        ]
    };
    let case = row.case.without_rate().without_link();
    let own: Vec<String> = case.flows.iter().flat_map(own).collect();
    let mut words = distinct(case.details());
    words.retain(|word| !own.contains(word));
    words
}

/// Returns the varied quantity: messages per call, offered messages per second, or bytes per write.
pub(crate) fn varied(row: &CaseSummary) -> f64 {
    match &row.case.primary().load {
        Load::Messages { batch, .. } => *batch as f64,
        Load::Offered { offered_per_s, .. } => *offered_per_s,
        load => load.size_bytes() as f64,
    }
}

/// A series: its cases in ascending order of the varied quantity.
pub(crate) struct Series<'r> {
    /// The first word is the transport.
    pub(crate) words: Vec<String>,
    pub(crate) rows: Vec<&'r CaseSummary>,
}

pub(crate) fn series<'r>(rows: impl IntoIterator<Item = &'r CaseSummary>, shared: &Shared) -> Vec<Series<'r>> {
    let by_words = grouped(rows.into_iter().map(|row| (shared.series(row), row)));
    let sorted = |(words, mut rows): (Vec<String>, Vec<&'r CaseSummary>)| {
        rows.sort_by(|a, b| varied(a).total_cmp(&varied(b)));
        Series { words, rows }
    };
    by_words.into_iter().map(sorted).collect()
}

/// The cases of one kind, grouped by waiting mode, placement and path.
pub(crate) struct Blocks<'r> {
    pub(crate) kind: CaseKind,
    pub(crate) shared: Shared,
    pub(crate) all: Vec<Panel<'r>>,
}

pub(crate) struct Panel<'r> {
    /// Waiting mode, placement and path, such as `two CPUs, blocking`.
    pub(crate) title: String,
    pub(crate) series: Vec<Series<'r>>,
}

impl<'r> Blocks<'r> {
    pub(crate) fn of(kind: CaseKind, groups: &[Group<'r>], with_replicates: bool) -> Self {
        let groups: Vec<&Group<'r>> = groups.iter().filter(|group| group.kind == kind).collect();
        let is_shown = |row: &&CaseSummary| with_replicates || row.case.replicate == 0;
        let rows = |group: &Group<'r>| group.rows.iter().copied().filter(is_shown).collect::<Vec<_>>();
        let shared = Shared::of(groups.iter().flat_map(|group| rows(group)));
        let panel = |group: &&Group<'r>| {
            let ends = format!("{}, {}", group.placement.in_words(), group.waiting.in_words());
            let probe = (kind == CaseKind::UnderLoad).then(|| format!("probe {}", group.subject));
            let title = [probe, Some(ends), group.path.clone()].into_iter().flatten().collect::<Vec<_>>().join(", ");
            Panel { title, series: series(rows(group), &shared) }
        };
        let all = groups.iter().map(panel).filter(|panel| !panel.series.is_empty()).collect();
        Self { kind, shared, all }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &'r CaseSummary> {
        self.all.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.rows).copied()
    }

    pub(crate) fn varied(&self) -> Vec<f64> {
        let mut values = distinct(self.rows().map(|row| varied(row).to_bits()));
        values.sort_by(|a, b| f64::from_bits(*a).total_cmp(&f64::from_bits(*b)));
        values.into_iter().map(f64::from_bits).collect()
    }
}

/// Describes how senders of offered loads kept their schedule, with one line per pacing method and kind of arrivals.
/// Each line counts the rates per series at which the median gap was not kept: `sleep+spin: median gap 0.998-1.00x
/// nominal, p99 gap 1.02-1.38x; median gap not kept at 2 rates of udp from 256 k/s on`.
pub(crate) fn pacing(run: &Run) -> Vec<String> {
    let paced = run.cases.iter().filter_map(|row| {
        let Load::Offered { arrivals, .. } = row.case.primary().load else { return None };
        let pacing = row.one_way()?.pacing?;
        Some(((pacing.method.to_string(), arrivals.to_string()), Paced { row, pacing, arrivals }))
    });
    let mut methods = grouped(paced);
    methods.sort_by(|(one, _), (other, _)| one.cmp(other));
    let shared = Shared::of(run.cases.iter());
    let line = |((method, arrivals), all): ((String, String), Vec<Paced<'_>>)| {
        let is_fixed = all.iter().all(|paced| paced.arrivals == Arrivals::Fixed);
        let arrivals = if is_fixed { String::new() } else { format!(", {arrivals}") };
        Some(format!("{method}{arrivals}: {}", describe_pacing(all, &shared)?))
    };
    methods.into_iter().filter_map(line).collect()
}

struct Paced<'r> {
    row: &'r CaseSummary,
    pacing: PacingFigures,
    arrivals: Arrivals,
}

impl Paced<'_> {
    fn ratio(&self, gap_ns: Option<Figure>) -> Option<f64> {
        let ratio = gap_ns?.finite()? / self.pacing.nominal_ns;
        ratio.is_finite().then_some(ratio)
    }

    fn median(&self) -> Option<f64> {
        self.ratio(self.pacing.gap_ns.p50)
    }

    /// Whether the median gap is as requested. The median of an exponential distribution is ln 2 times its mean.
    fn is_kept(&self) -> bool {
        /// Maximum relative deviation of the median.
        const MAX_DEVIATION: f64 = 0.1;
        let wanted = if self.arrivals == Arrivals::Poisson { std::f64::consts::LN_2 } else { 1.0 };
        self.median().is_none_or(|ratio| (ratio / wanted - 1.0).abs() <= MAX_DEVIATION)
    }
}

fn describe_pacing(all: Vec<Paced<'_>>, shared: &Shared) -> Option<String> {
    let poisson = all.iter().any(|paced| paced.arrivals == Arrivals::Poisson);
    let (kept, missed): (Vec<_>, Vec<_>) = all.into_iter().partition(Paced::is_kept);
    let wanted = |text: &str| if poisson { format!(" (due: {text})") } else { String::new() };
    let p99 = kept.iter().filter_map(|paced| paced.ratio(paced.pacing.gap_ns.p99));
    let gaps = [
        range(kept.iter().filter_map(Paced::median))
            .map(|range| format!("median gap {range} nominal{}", wanted("0.69x"))),
        range(p99).map(|range| format!("p99 gap {range}{}", wanted("4.61x"))),
    ];
    let gaps = gaps.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let missed = series(missed.iter().map(|paced| paced.row), shared).into_iter().map(|series| {
        let from = series.rows.first().map_or(0.0, |row| varied(row));
        let rates = quantities::counted(series.rows.len() as u64, "rate");
        format!("{rates} of {} from {} on", series.words.join(" "), quantities::rate(from))
    });
    let missed: Vec<String> = missed.collect();
    let missed =
        if missed.is_empty() { String::new() } else { format!("median gap not kept at {}", missed.join(" and ")) };
    let parts: Vec<String> = [gaps, missed].into_iter().filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Formats a range as `1.00-1.38x`, or as `1.00x` if both ends are equal.
fn range(values: impl Iterator<Item = f64>) -> Option<String> {
    let (low, high) = extremes(values)?;
    let (low, high) = (quantities::factor(low), quantities::factor(high));
    Some(if low == high { high } else { format!("{}-{high}", low.trim_end_matches('x')) })
}
