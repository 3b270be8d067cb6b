//! Answers runs of offered loads: the knee of each sweep, uneven sends, and losses.

use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::names::grouped;
use hairpin_model::{Answer, Arrivals, CaseSummary, Knee, Load, PacingFigures, Pair, Run, Statement};

use super::one_way::{has_losses, usable};
use super::ranking::best;
use super::statements::{answer_from, ids, single};
use crate::knees::knees;

pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    if let [row] = run.cases.as_slice() {
        let is_measured = CaseKind::of(&row.case) == CaseKind::Offered && row.one_way()?.delivered_share.is_some();
        return is_measured.then(|| Answer::from([vec![single(row)], details(row)].concat()));
    }
    let knees = knees(run);
    if knees.is_empty() {
        return answer_from(report_rates(run, pairs));
    }
    let mut sweeps: Vec<&Knee> = knees.iter().collect();
    let greatest = |knee: &Knee| knee.delivered_per_s.unwrap_or(0.0);
    sweeps.sort_by(|a, b| greatest(b).total_cmp(&greatest(a)));
    let at_knees = sweeps.iter().filter_map(|knee| {
        let mut rows = knee.cases.iter().filter_map(|id| run.case(id));
        rows.find(|row| row.case.primary().load.rate_per_s() == knee.delivered_per_s)
    });
    let statements = sweeps.iter().flat_map(|knee| report_sweep(knee)).chain(at_knees.filter_map(uneven)).collect();
    Some(Answer { statements, knees, ..Answer::default() })
}

fn report_sweep(knee: &Knee) -> Vec<Statement> {
    let Some(case) = knee.cases.first() else { return Vec::new() };
    let power = knee.highest_power_per_s.filter(|per_s| Some(*per_s) != knee.delivered_per_s);
    let statements =
        [Some(Statement::Knee { case: case.clone() }), power.map(|_| Statement::HighestPower { case: case.clone() })];
    statements.into_iter().flatten().collect()
}

fn report_rates(run: &Run, pairs: &[Pair]) -> Vec<Statement> {
    let rows = usable(run, CaseKind::Offered);
    let rate = |row: &CaseSummary| row.case.primary().load.rate_per_s().unwrap_or(f64::NAN);
    let p50 = |row: &CaseSummary| row.p50_ns().unwrap_or(f64::INFINITY);
    let loads = grouped(rows.iter().map(|row| ((rate(row).to_bits(), &row.case.path.link), *row)));
    let of_load = |(_, mut rows): (_, Vec<&CaseSummary>)| {
        let per_s = rate(rows[0]);
        rows.retain(|row| ladder::is_delivered(row) && row.p50_ns().is_some());
        rows.sort_by(|a, b| p50(a).total_cmp(&p50(b)));
        rows.first().map_or(vec![Statement::NoneDelivered { per_s }], |first| best(run, first, &rows, pairs))
    };
    loads.into_iter().flat_map(of_load).chain(rows.iter().flat_map(|row| details(row))).collect()
}

fn details(row: &CaseSummary) -> Vec<Statement> {
    let lost = has_losses(row).then(|| Statement::Lost { cases: ids([row]) });
    uneven(row).into_iter().chain(lost).collect()
}

/// Minimum deviation of the median gap to report, as a share.
const MIN_DEVIATION: f64 = 0.01;
/// Minimum share of gaps below half of the requested gap to report.
const MIN_SHARE_BELOW_HALF: f64 = 0.02;

fn uneven(row: &CaseSummary) -> Option<Statement> {
    let Load::Offered { arrivals, .. } = row.case.primary().load else { return None };
    if arrivals == Arrivals::Poisson {
        return None;
    }
    let PacingFigures { nominal_ns, gap_ns, share_below_half, .. } = row.one_way()?.pacing?;
    let median_gap = gap_ns.p50.map(|gap| gap.value / nominal_ns).filter(|ratio| (ratio - 1.0).abs() > MIN_DEVIATION);
    let below_half = share_below_half.map(|below| below.value).filter(|below| *below > MIN_SHARE_BELOW_HALF);
    (median_gap.is_some() || below_half.is_some()).then(|| Statement::Uneven {
        case: row.id.clone(),
        median_gap,
        below_half,
    })
}
