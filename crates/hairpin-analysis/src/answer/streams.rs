//! Answers runs of streams: the highest goodput, its cost, fairness and limit.

use hairpin_model::answer::BusyCpu;
use hairpin_model::compared_by::ComparedBy;
use hairpin_model::flow::Direction;
use hairpin_model::ladder::CaseKind;
use hairpin_model::trace::End;
use hairpin_model::{Answer, CaseSummary, Moment, Pair, Placement, Run, Statement, Waiting};

use super::one_way::{highest, losses, report_pacing};
use super::statements::{quote_finding, single};
use crate::statistics::location::median;

/// Minimum fairness; at a lower fairness, the connections received visibly different shares.
const MIN_FAIRNESS: f64 = 0.95;
/// Minimum CPU use at which an end counts as busy.
const MIN_BUSY_SHARE: f64 = 0.98;

pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    if let [row] = run.cases.as_slice() {
        let is_measured = CaseKind::of(&row.case) == CaseKind::Streams && row.goodput().is_some();
        return is_measured.then(|| single_answer(run, row).into());
    }
    highest(run, pairs, (CaseKind::Streams, ComparedBy::Goodput), |rows| {
        let of_best = rows.first().into_iter().flat_map(|best| [cpu_time(best), limit(run, best)]).flatten();
        let both_ways = rows.iter().filter_map(|row| both_ways(row));
        of_best.chain(both_ways).chain(rows.iter().filter_map(|row| unfair(row))).collect()
    })
}

fn single_answer(run: &Run, row: &CaseSummary) -> Vec<Statement> {
    let details = [limit(run, row), both_ways(row), unfair(row), report_pacing(run, &[row])];
    std::iter::once(single(row)).chain(details.into_iter().flatten()).chain(losses(&[row])).collect()
}

fn cpu_time(row: &CaseSummary) -> Option<Statement> {
    let per_gb = row.cpu_seconds_per_gb()?;
    (per_gb.client.is_some() || per_gb.server.is_some()).then(|| Statement::CpuTime { case: row.id.clone() })
}

fn both_ways(row: &CaseSummary) -> Option<Statement> {
    row.case.goes_both_ways().then(|| Statement::BothWays { case: row.id.clone() })
}

fn unfair(row: &CaseSummary) -> Option<Statement> {
    row.one_way()?.fairness.filter(|fairness| fairness.value < MIN_FAIRNESS)?;
    Some(Statement::Unfair { case: row.id.clone() })
}

/// Code of the finding that a link limits the goodput.
const LINK_SATURATED: &str = "link-saturated";

fn limit(run: &Run, row: &CaseSummary) -> Option<Statement> {
    match busy_cpu(row) {
        Some(cpu) => Some(Statement::BusyCpu { case: row.id.clone(), cpu }),
        None => quote_finding(run, [row], |finding| finding.code == LINK_SATURATED),
    }
}

/// Returns the busy CPU that limits the goodput. `None` for ends that spin, because spinning always keeps a CPU busy.
fn busy_cpu(row: &CaseSummary) -> Option<BusyCpu> {
    if row.case.ends.waiting == Waiting::Spin {
        return None;
    }
    let over_time = row.primary().over_time.as_ref()?;
    let moments = || over_time.moments.iter().filter(|moment| moment.at_ns > over_time.measured_from_ns);
    let used = |of: fn(&Moment) -> Option<f64>| median(&moments().filter_map(of).collect::<Vec<_>>());
    let (client, server) = (used(|moment| moment.client_cpu), used(|moment| moment.server_cpu));
    let sender = if row.case.primary().direction == Direction::Up { End::Client } else { End::Server };
    let (sends, receives) = if sender == End::Client { (client, server) } else { (server, client) };
    let is_busy = |used: &f64| *used >= MIN_BUSY_SHARE;
    match (row.case.ends.placement, sends.zip(receives)) {
        (Placement::SameCpu, Some((sends, receives))) if is_busy(&(sends + receives)) => Some(BusyCpu::Shared),
        (Placement::SameCpu, _) => None,
        _ if receives.as_ref().is_some_and(is_busy) => Some(BusyCpu::Receiver),
        _ if sends.as_ref().is_some_and(is_busy) => Some(BusyCpu::Sender),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Flow, OverTime};

    use super::*;
    use crate::fixture::Fixture;

    fn row(placement: Placement, waiting: Waiting, cpu: [f64; 2]) -> CaseSummary {
        let case = Case::of(Flow::stream("tcp", 65_536, Direction::Up)).with(|case| {
            (case.ends.placement, case.ends.waiting) = (placement, waiting);
        });
        let mut fixture = Fixture::new();
        fixture.rounds_of(&case, &[1000; 6]);
        let mut row = fixture.run().cases.remove(0);
        let moment =
            |at_ns| Moment { at_ns, client_cpu: Some(cpu[0]), server_cpu: Some(cpu[1]), ..Moment::default() };
        let over_time = OverTime { measured_from_ns: 1, moments: vec![moment(2), moment(3)] };
        row.primary_mut().over_time = Some(over_time);
        row
    }

    #[test]
    fn a_busy_cpu_is_the_limit_unless_it_busy_polls() {
        let limit = |placement, waiting, cpu| busy_cpu(&row(placement, waiting, cpu));
        let (apart, block) = (Placement::CrossCpu, Waiting::Block);
        assert_eq!(limit(apart, block, [0.6, 0.99]), Some(BusyCpu::Receiver));
        assert_eq!(limit(apart, block, [0.99, 0.6]), Some(BusyCpu::Sender));
        assert_eq!(limit(apart, block, [0.6, 0.9]), None);
        assert_eq!(limit(Placement::SameCpu, block, [0.4, 0.59]), Some(BusyCpu::Shared));
        assert_eq!(limit(Placement::SameCpu, block, [0.4, 0.5]), None);
        assert_eq!(limit(apart, Waiting::Spin, [1.0, 1.0]), None);
    }
}
