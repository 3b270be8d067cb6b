//! Finds the knee of each sweep of offered rates.

use hairpin_model::knee::{NotDelivered, bracket};
use hairpin_model::names::grouped;
use hairpin_model::one_way::WHOLE;
use hairpin_model::{Case, CaseSummary, Knee, Load, Run};

/// Returns the knees of a run's sweeps. A sweep is a set of cases that differ only in the offered rate.
pub(crate) fn knees(run: &Run) -> Vec<Knee> {
    let cases = run.cases.iter().filter_map(|row| Some((sweep(&row.case)?, row)));
    let sweeps = grouped(cases.filter(|(_, row)| decides_its_rate(row)));
    sweeps.into_iter().filter_map(|(_, rows)| knee(rows)).collect()
}

/// Returns the case without its rate, as the key of its sweep; `None` if the case is not part of a sweep.
fn sweep(case: &Case) -> Option<Case> {
    let is_plain = case.replicate == 0 && case.injected_fault.is_none();
    (is_plain && matches!(case.primary().load, Load::Offered { .. })).then(|| case.without_rate())
}

fn decides_its_rate(row: &CaseSummary) -> bool {
    let delivered = row.one_way().and_then(|one_way| one_way.arrived_whole());
    match delivered {
        Some(true) => row.valid,
        Some(false) => row.valid || why_not(row) == NotDelivered::SenderBehind,
        None => false,
    }
}

fn offered_per_s(row: &CaseSummary) -> f64 {
    row.case.primary().load.rate_per_s().unwrap_or(f64::NAN)
}

fn knee(mut rows: Vec<&CaseSummary>) -> Option<Knee> {
    if rows.len() < 2 {
        return None;
    }
    rows.sort_by(|a, b| offered_per_s(a).total_cmp(&offered_per_s(b)));
    let delivered = |row: &CaseSummary| row.one_way().and_then(|one_way| one_way.arrived_whole()).unwrap_or(false);
    let rates: Vec<(f64, bool)> = rows.iter().map(|row| (offered_per_s(row), delivered(row))).collect();
    let (delivered_per_s, not_delivered_per_s) = bracket(&rates);
    let failed = rows.iter().find(|row| Some(offered_per_s(row)) == not_delivered_per_s);
    Some(Knee {
        cases: rows.iter().map(|row| row.id.clone()).collect(),
        delivered_per_s,
        not_delivered_per_s,
        why_not: failed.map(|row| why_not(row)),
        highest_power_per_s: highest_power(&rows),
    })
}

fn why_not(row: &CaseSummary) -> NotDelivered {
    let ledger = &row.primary().ledger;
    let sent_per_s = row.one_way().and_then(|one_way| one_way.sent_per_s);
    if (ledger.received as f64) < WHOLE * ledger.sent as f64 {
        NotDelivered::Lost
    } else if sent_per_s.is_none_or(|sent| sent.value < WHOLE * offered_per_s(row)) {
        NotDelivered::SenderBehind
    } else {
        NotDelivered::ReceiverBehind
    }
}

/// Returns the offered rate with the highest ratio of delivered rate to mean latency (L. Kleinrock, Power and
/// deterministic rules of thumb for probabilistic problems in computer communications, ICC 1979).
fn highest_power(rows: &[&CaseSummary]) -> Option<f64> {
    let power = |row: &&CaseSummary| {
        let delivered = row.one_way()?.delivered_per_s?;
        let mean_ns = row.primary().latency_ns.mean.filter(|mean| mean.value > 0.0)?;
        Some((offered_per_s(row), delivered.value / mean_ns.value))
    };
    let powers: Vec<(f64, f64)> = rows.iter().filter_map(power).collect();
    let highest = powers.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    highest.filter(|_| powers.len() > 1).map(|(per_s, _)| per_s)
}
