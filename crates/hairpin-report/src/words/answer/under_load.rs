//! Sentences about probes under load.

use hairpin_model::names::{joined, shortened};
use hairpin_model::phases::Phase;
use hairpin_model::quantities::{
    DASH, byte_rate, bytes, counted, duration, exact_bytes, number, number_bounds, share,
};
use hairpin_model::summary::Verdict;
use hairpin_model::{Case, CaseSummary, Figure, Responsiveness, Run, path};

use super::figures::{if_invalid, latency, p50, with_interval};
use super::one_way::causes;
use crate::charts::axis::extremes;
use crate::one_way::{common_words, own_words};

/// Idle medians are reported as one value if maximum / minimum is at most this.
const MAX_IDLE_RATIO: f64 = 1.05;
const MAX_NAMED: usize = 3;

struct Probe {
    /// Path with a leading space, such as ` over home-uplink`; if the path has several probes, also the probe.
    place: String,
    is_only: bool,
    shared: Vec<String>,
}

impl Probe {
    fn of(run: &Run, row: &CaseSummary) -> Self {
        let own = row.case.without_loads();
        let is_told = |other: &&CaseSummary| other.id == row.id || other.can_be_ranked();
        let measured = run.cases.iter().filter(|other| other.under_load.is_some()).filter(is_told);
        let (same, others): (Vec<&Case>, Vec<&Case>) =
            measured.map(|other| &other.case).partition(|case| case.without_loads() == own);
        let mut place = path::over_in_short(&row.case, &run.cases).map(|over| format!(" {over}")).unwrap_or_default();
        if others.iter().any(|case| path::alike(case, &row.case)) {
            let (words, ends) = (row.case.probe_words().join(" "), row.case.ends.in_words());
            place += &format!(" with the probe {words} ({ends})");
        }
        Self { place, is_only: others.is_empty(), shared: shared(&same) }
    }

    fn elsewhere(&self) -> &str {
        if self.is_only { "" } else { &self.place }
    }

    /// Returns the name of a load without shared words: `tcp up congestion=cubic`.
    fn load(&self, row: &CaseSummary) -> String {
        let words = row.case.load_words();
        let own = own_words(&words, &self.shared).into_iter().map(|word| word.trim_start_matches("under "));
        own.collect::<Vec<_>>().join(" ")
    }

    /// Returns the added latency of each case: `9.13 ms (95 % interval 9.01-9.40) by tcp up congestion=bbr`.
    fn added(&self, rows: &[&CaseSummary]) -> String {
        let each = |row: &&CaseSummary| {
            let (added, name) = (added(row), self.load(row));
            match added.filter(|added| added.excludes(0.0)) {
                Some(_) => format!("{} by {name}", latency(added)),
                None => format!("no difference found with {name}"),
            }
        };
        shortened(&rows.iter().map(each).collect::<Vec<_>>(), MAX_NAMED)
    }
}

fn shared(cases: &[&Case]) -> Vec<String> {
    let all: Vec<Vec<String>> =
        cases.iter().filter(|case| !case.loads().is_empty()).map(|case| case.load_words()).collect();
    match all.as_slice() {
        // A single load needs no write size in its name.
        [_] => cases.iter().flat_map(|case| case.loads()).map(|flow| exact_bytes(flow.load.size_bytes())).collect(),
        several => common_words(several),
    }
}

fn idle_ns(row: &CaseSummary) -> Option<f64> {
    row.under_load.as_ref()?.phases.idle.probe.latency_ns.p50?.finite()
}

fn idle(row: &CaseSummary) -> String {
    idle_ns(row).map_or_else(|| DASH.to_owned(), duration)
}

fn idle_of_all(rows: &[&CaseSummary]) -> String {
    let Some((low, high)) = extremes(rows.iter().filter_map(|row| idle_ns(row))) else { return DASH.to_owned() };
    if high <= MAX_IDLE_RATIO * low {
        return duration(f64::midpoint(low, high));
    }
    format!("{} to {}", duration(low), duration(high))
}

fn added(row: &CaseSummary) -> Option<Figure> {
    row.under_load.as_ref()?.added_ns.p50
}

/// Returns `The load (tcp up congestion=cubic) adds 173 ms (95 % interval 171-176) to the median round trip of 10.3
/// ms, and the queue holds 213 KiB.`
pub(super) fn load(run: &Run, row: &CaseSummary, verdict: Option<Verdict>) -> String {
    let probe = Probe::of(run, row);
    let (load, place, idle, loaded) = (probe.load(row), &probe.place, idle(row), p50(row));
    let added = added(row);
    let trip = format!("the median round trip of {idle}{place}");
    let effect = match verdict {
        Some(Verdict::Slower) => format!("The load ({load}) adds {} to {trip}", latency(added)),
        Some(Verdict::Faster) => {
            let saved = added.map(|added| added.falling(|ns| -ns));
            format!("The load ({load}) saves {} of {trip}", latency(saved))
        }
        Some(_) => {
            format!("No difference found: median round trip {idle} idle, {loaded} under load ({load}){place}")
        }
        None => format!(
            "Median round trip: {idle} idle, {loaded} under load ({load}){place}; what it adds has no interval"
        ),
    };
    let queue = row.under_load.as_ref().and_then(|figures| figures.phases.loaded.queue_bytes?.p50.finite());
    let queue = queue.map(|queue| format!(", and the queue holds {}", bytes(queue))).unwrap_or_default();
    format!("{effect}{queue}.{}", if_invalid(row))
}

/// Names the loads that add the least latency and the loads that add the most.
pub(super) fn loads(
    run: &Run,
    rows: &[&CaseSummary],
    least: &[&CaseSummary],
    most: &[&CaseSummary],
) -> Option<String> {
    let probe = Probe::of(run, rows.first()?);
    let (idle, place) = (idle_of_all(rows), &probe.place);
    if least.is_empty() {
        let each = |row: &&CaseSummary| format!("{} during {}", p50(row), probe.load(row));
        let each = shortened(&rows.iter().map(each).collect::<Vec<_>>(), MAX_NAMED);
        let has_interval = |row: &&CaseSummary| added(row).and_then(Figure::interval).is_some();
        let known: Vec<&CaseSummary> = rows.iter().copied().filter(has_interval).collect();
        let known = if known.is_empty() {
            "What each adds has no interval yet, so they are not ordered".to_owned()
        } else {
            format!("Added where there is an interval: {}", probe.added(&known))
        };
        return Some(format!("Median round trip: {idle} idle, {each}{place}. {known}."));
    }
    let to = format!("to the median round trip of {idle}{place}");
    Some(if most.is_empty() {
        format!("Added, not separated in this run: {}, {to}.", probe.added(rows))
    } else {
        format!("Least added: {}; most: {}, {to}.", probe.added(least), probe.added(most))
    })
}

fn responsiveness_of(row: &CaseSummary) -> Option<&Responsiveness> {
    row.under_load.as_ref()?.responsiveness_rpm.as_ref()
}

/// Returns `311 round trips per minute (95 % interval 305-320)`.
fn per_minute(rpm: &Responsiveness) -> String {
    let unit = |per_minute| format!("{} round trips per minute", number(per_minute));
    with_interval(Some(rpm.figure), unit, number_bounds)
}

pub(super) fn load_gets(run: &Run, row: &CaseSummary) -> Option<String> {
    let goodput = row.under_load.as_ref()?.phases.loaded.load.goodput_bytes_per_s.and_then(Figure::finite);
    let gets = goodput.map(|goodput| format!("gets {}", byte_rate(goodput)));
    let rpm = responsiveness_of(row).map(|rpm| format!("responsiveness is {}, by {}", per_minute(rpm), rpm.draft));
    let said: Vec<String> = gets.into_iter().chain(rpm).collect();
    (!said.is_empty()).then(|| format!("The load{} {}.", Probe::of(run, row).elsewhere(), joined(&said)))
}

pub(super) fn responsiveness(run: &Run, rows: &[&CaseSummary]) -> Option<String> {
    let (first, probe) = (responsiveness_of(rows.first()?)?, Probe::of(run, rows.first()?));
    let each =
        |row: &&CaseSummary| Some(format!("{} during {}", per_minute(responsiveness_of(row)?), probe.load(row)));
    let each = shortened(&rows.iter().filter_map(each).collect::<Vec<_>>(), MAX_NAMED);
    Some(format!("Responsiveness{}, by {}: {each}.", probe.elsewhere(), first.draft))
}

pub(super) fn without_load(run: &Run, row: &CaseSummary, verdict: Option<Verdict>) -> String {
    let probe = Probe::of(run, row);
    let (idle, loaded, place, invalid) = (idle(row), p50(row), probe.elsewhere(), if_invalid(row));
    match verdict {
        None => {
            format!("Without a load{place}: median round trip {idle}, later {loaded}, without an interval.{invalid}")
        }
        Some(Verdict::CannotTell | Verdict::Unlike) => format!(
            "Without a load{place} no difference was found: median round trip {idle}, later {loaded}.{invalid}"
        ),
        Some(Verdict::Faster | Verdict::Slower) => format!(
            "Without a load{place} the median round trip of {idle} changed by {}.{invalid}",
            latency(added(row))
        ),
    }
}

pub(super) fn probe_lost(run: &Run, row: &CaseSummary, phase: Phase) -> Option<String> {
    let phases = row.under_load.as_ref()?.phases.each();
    let ledger = phases.into_iter().find(|(of, _)| *of == phase).map(|(_, figures)| &figures.probe.ledger)?;
    let probe = Probe::of(run, row);
    let during =
        if row.case.loads().is_empty() { "without a load".to_owned() } else { format!("during {}", probe.load(row)) };
    let (lost, sent) = (share(ledger.missing_share()), counted(ledger.sent, "message"));
    let (place, causes) = (probe.elsewhere(), causes(ledger));
    Some(format!("The probe lost {lost} of {sent} in the {phase} phase {during}{place}: {causes}."))
}
