//! Shared by the answers to one-way loads: the best of some cases, and losses.

use hairpin_model::figure::Figure;
use hairpin_model::finding::{Finding, Severity};
use hairpin_model::ladder::Kind;
use hairpin_model::ledger::in_words;
use hairpin_model::names::{distinct, grouped, joined};
use hairpin_model::quantities::{self, counted, factor, number_bounds, share};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Comparison, Role, Verdict};
use hairpin_model::{answer::Pair, path};

use super::ranking::as_fast;
use super::words;

/// Maximum number of cases named as not different.
const MAX_NAMED: usize = 3;

/// The cases of that kind that the answer may use: valid, without injected faults and replicates.
pub(super) fn spoken(run: &Run, kind: Kind) -> Vec<&CaseSummary> {
    let speaks = |row: &&CaseSummary| {
        let case = &row.case;
        Kind::of(case) == kind && row.valid && case.replicate == 0 && case.injected_fault.is_none()
    };
    run.cases.iter().filter(speaks).collect()
}

/// The cases over each path, in the order of the plan.
pub(super) fn by_path<'r>(rows: &[&'r CaseSummary]) -> Vec<Vec<&'r CaseSummary>> {
    grouped(rows.iter().map(|row| (&row.case.path.link, *row))).into_iter().map(|(_, rows)| rows).collect()
}

/// `Highest goodput over home-uplink: tcp (blocking, same CPU) at ...`: the best of the cases `ranked`, the first one.
/// A winner is named only if a difference was found from every other case.
pub(super) fn best(
    what: &str,
    ranked: &[&CaseSummary],
    (pairs, alpha): (&[Pair], f64),
    says_the_path: bool,
    figure: impl Fn(&CaseSummary) -> (Option<Figure>, String),
) -> Option<String> {
    let first = *ranked.first()?;
    let told = |row: &CaseSummary| format!("{} at {}", words::name(row), figure(row).1);
    let over = path::over(&first.case).filter(|_| says_the_path || first.case.crosses_a_network());
    let over = over.map(|over| format!(" {over}")).unwrap_or_default();
    if figure(first).0.and_then(Figure::interval).is_none() && ranked.len() > 1 {
        return Some(format!("{what}{over}: {}. It has no interval, so no winner is named.", told(first)));
    }
    let ties = as_fast(first, ranked, pairs, alpha);
    let named: Vec<String> = std::iter::once(first).chain(ties).map(told).collect();
    let more = named.len().saturating_sub(MAX_NAMED);
    Some(if named.len() == 1 {
        format!("{what}{over}: {}.", named[0])
    } else {
        let shown = named.into_iter().take(MAX_NAMED).chain((more > 0).then(|| format!("{more} more")));
        format!("{what}{over}, no difference found: {}.", joined(&shown.collect::<Vec<_>>()))
    })
}

/// The figure with its interval, both formatted.
pub(super) fn with_interval(
    figure: Option<Figure>,
    value: fn(f64) -> String,
    bounds: fn(f64, f64) -> String,
) -> String {
    let Some(figure) = figure else { return quantities::DASH.to_owned() };
    match figure.interval() {
        Some((low, high)) => format!("{} (95 % interval {})", value(figure.value), bounds(low, high)),
        None => value(figure.value),
    }
}

/// The comparison of two cases that differ in one thing: the ratio of `candidate` to `baseline` if a difference was
/// found.
pub(super) fn gain(run: &Run, baseline: &CaseSummary, candidate: &CaseSummary) -> Option<Gain> {
    let is_pair = |one: &&Comparison| {
        one.role == Role::CounterExperiment && one.baseline == baseline.id && one.candidate == candidate.id
    };
    let found = run.comparisons.iter().find(is_pair)?;
    Some(match found.verdict {
        Verdict::Faster | Verdict::Slower => Gain::Times(in_times(found.ratio)),
        Verdict::CannotTell | Verdict::Unlike => Gain::NoDifference,
    })
}

pub(super) enum Gain {
    /// `8.20x (95 % interval 8.01-8.40)`.
    Times(String),
    NoDifference,
}

fn in_times(ratio: Figure) -> String {
    let interval = ratio.interval().map_or_else(String::new, |(low, high)| {
        format!(" (95 % interval {})", number_bounds(ratio.value, low, high))
    });
    format!("{}{interval}", factor(ratio.value))
}

/// The finding that the answer quotes if it is a note, which the first screen does not show.
const CONGESTION_CONTROL: &str = "congestion-control";

/// A sentence if a congestion control paces some of the cases and no other was measured.
pub(super) fn paced(run: &Run, rows: &[&CaseSummary]) -> Option<String> {
    let concerns = |finding: &&Finding| {
        finding.code == CONGESTION_CONTROL
            && finding.severity == Severity::Note
            && rows.iter().any(|row| finding.cases.contains(&row.id))
    };
    let found = run.findings.iter().find(concerns)?;
    Some(format!("{} (finding {CONGESTION_CONTROL}).", found.summary.trim_end_matches('.')))
}

/// The losses, one sentence per transport: the table has the share of each case.
pub(super) fn losses(rows: &[&CaseSummary]) -> Vec<String> {
    let lossy = rows.iter().copied().filter(|row| causes(row).is_some());
    let of_transport = |(_, rows): (_, Vec<&CaseSummary>)| match rows.as_slice() {
        [only] => loss(only),
        several => several_losses(several),
    };
    grouped(lossy.map(|row| (row.case.primary().transport.as_str(), row)))
        .into_iter()
        .filter_map(of_transport)
        .collect()
}

/// `udp lost 0.90 % to 66 % of its messages in 6 cases: receive buffer full.`
fn several_losses(rows: &[&CaseSummary]) -> Option<String> {
    let shares = rows.iter().map(|row| {
        let ledger = row.ledger();
        ledger.sent.saturating_sub(ledger.received) as f64 / ledger.sent as f64
    });
    let (least, most) =
        shares.fold((1.0, 0.0), |(least, most): (f64, f64), share| (least.min(share), most.max(share)));
    let of_case = |row: &&CaseSummary| {
        let ledger = row.ledger();
        let lost = ledger.lost.iter().filter(|(_, lost)| **lost > 0).map(|(cause, _)| in_words(cause));
        let unexplained = (ledger.unexplained != 0).then(|| "unexplained".to_owned());
        lost.chain(unexplained).collect::<Vec<_>>()
    };
    let causes = distinct(rows.iter().flat_map(of_case));
    let transport = &rows.first()?.case.primary().transport;
    let range =
        if share(least) == share(most) { share(most) } else { format!("{} to {}", share(least), share(most)) };
    Some(format!("{transport} lost {range} of its messages in {} cases: {}.", rows.len(), joined(&causes)))
}

/// The losses of a case by cause.
pub(super) fn loss(row: &CaseSummary) -> Option<String> {
    let ledger = row.ledger();
    let of_sent = share(ledger.sent.saturating_sub(ledger.received) as f64 / ledger.sent as f64);
    let causes = causes(row)?;
    Some(format!("{}: {of_sent} of {} lost: {causes}.", words::name(row), counted(ledger.sent, "message")))
}

/// `1200 (receive buffer full) and 3 (unexplained)`; `None` without losses.
pub(super) fn causes(row: &CaseSummary) -> Option<String> {
    let ledger = row.ledger();
    if ledger.sent <= ledger.received {
        return None;
    }
    let lost = ledger.lost.iter().filter(|(_, lost)| **lost > 0);
    let lost = lost.map(|(cause, lost)| format!("{} ({})", quantities::count(*lost), in_words(cause)));
    let late = (ledger.late > 0).then(|| format!("{} (late)", quantities::count(ledger.late)));
    let unexplained = (ledger.unexplained != 0).then(|| format!("{} (unexplained)", ledger.unexplained));
    Some(joined(&lost.chain(late).chain(unexplained).collect::<Vec<_>>()))
}

/// A note for the figures of an invalid case.
pub(super) fn if_invalid(row: &CaseSummary) -> &'static str {
    if row.valid { "" } else { " Do not use these figures: see below." }
}

/// The figures of a single case.
pub(super) fn single(row: &CaseSummary, figures: &str) -> String {
    format!("{}: {figures}, {}.{}", row.label, counted(row.rounds, "round"), if_invalid(row))
}
