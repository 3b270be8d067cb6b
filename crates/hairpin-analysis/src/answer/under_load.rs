//! Answers runs of probes under load: added median latency, goodput of the load, losses of the probe.

use hairpin_model::ladder::CaseKind;
use hairpin_model::names::grouped;
use hairpin_model::summary::Verdict;
use hairpin_model::{Answer, CaseSummary, Figure, Pair, Run, Statement};

use super::one_way::usable;
use super::ranking::not_slower;
use super::statements::{answer_from, ids};
use crate::compare::cases::pointwise;

pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    let mut rows: Vec<&CaseSummary> = match run.cases.as_slice() {
        [only] if CaseKind::of(&only.case) == CaseKind::UnderLoad => vec![only],
        _ => usable(run, CaseKind::UnderLoad),
    };
    rows.retain(|row| row.under_load.is_some());
    let (mut headlines, mut details) = (Vec::new(), Vec::new());
    for (_, rows) in grouped(rows.iter().map(|row| (row.case.without_loads(), *row))) {
        let (mut loaded, unloaded): (Vec<&CaseSummary>, Vec<&CaseSummary>) =
            rows.iter().copied().partition(|row| !row.case.loads().is_empty());
        // Without any answer, only the losses of a case are reported.
        loaded.retain(|row| row.p50_ns().is_some());
        loaded.sort_by(|a, b| a.p50_ns().unwrap_or(0.0).total_cmp(&b.p50_ns().unwrap_or(0.0)));
        headlines.extend(headline(run, &loaded, pairs));
        details.extend(loads(&loaded));
        details.extend(unloaded.into_iter().filter_map(without_load));
        details.extend(rows.iter().flat_map(|row| losses(row)));
    }
    answer_from([headlines, details].concat())
}

/// Returns what the load adds to the median round trip, in ns; `None` without an interval.
fn added(row: &CaseSummary) -> Option<Figure> {
    let added = row.under_load.as_ref()?.added_ns.p50?;
    added.interval().and(added.finite()).map(|_| added)
}

fn effect(row: &CaseSummary) -> Option<Verdict> {
    Some(match added(row)? {
        added if !added.excludes(0.0) => Verdict::CannotTell,
        added if added.value < 0.0 => Verdict::Faster,
        _ => Verdict::Slower,
    })
}

/// Reports the loads, lowest latency first, and which of them add the least and the most, if a difference was found.
fn headline(run: &Run, loaded: &[&CaseSummary], pairs: &[Pair]) -> Option<Statement> {
    let (first, last) = (*loaded.first()?, *loaded.last()?);
    if loaded.len() == 1 {
        return Some(Statement::Load { case: first.id.clone(), verdict: effect(first) });
    }
    let (cases, alpha) = (ids(loaded.iter().copied()), run.plan.alpha);
    if loaded.iter().any(|row| added(row).is_none()) {
        return Some(Statement::Loads { cases, least: Vec::new(), most: Vec::new() });
    }
    let least = ids(std::iter::once(first).chain(not_slower(first, loaded, pairs, alpha)));
    if least.contains(&last.id) {
        return Some(Statement::Loads { least: cases.clone(), cases, most: Vec::new() });
    }
    let is_most = |row: &&CaseSummary| {
        !least.contains(&row.id) && (row.id == last.id || pointwise(row, last, alpha) != Verdict::Slower)
    };
    let most = ids(loaded.iter().copied().filter(is_most));
    Some(Statement::Loads { cases, least, most })
}

fn loads(loaded: &[&CaseSummary]) -> Option<Statement> {
    let has_rpm =
        |row: &&CaseSummary| row.under_load.as_ref().is_some_and(|figures| figures.responsiveness_rpm.is_some());
    if let [row] = loaded {
        let goodput = row.under_load.as_ref()?.phases.loaded.load.goodput_bytes_per_s.and_then(Figure::finite);
        return (goodput.is_some() || has_rpm(row)).then(|| Statement::LoadGets { case: row.id.clone() });
    }
    let cases = ids(loaded.iter().copied().filter(has_rpm));
    (!cases.is_empty()).then_some(Statement::Responsiveness { cases })
}

fn without_load(row: &CaseSummary) -> Option<Statement> {
    let figures = row.under_load.as_ref()?;
    figures.added_ns.p50.and_then(Figure::finite)?;
    figures.phases.idle.probe.latency_ns.p50.and_then(Figure::finite)?;
    Some(Statement::WithoutLoad { case: row.id.clone(), verdict: effect(row) })
}

fn losses(row: &CaseSummary) -> Vec<Statement> {
    let phases = row.under_load.iter().flat_map(|figures| figures.phases.each());
    let lossy = phases.filter(|(_, figures)| figures.probe.ledger.sent > figures.probe.ledger.received);
    lossy.map(|(phase, _)| Statement::ProbeLost { case: row.id.clone(), phase }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hairpin_model::flow::{Direction, FlowRole, WRITE_BYTES};
    use hairpin_model::phases::Phase;
    use hairpin_model::{Case, Flow, Ledger, Options, QueueBytes, Responsiveness};

    use super::super::answer;
    use super::*;
    use crate::fixture::Fixture;
    use crate::fixture::links::over;

    const MS: u64 = 1_000_000;

    /// A case, its loaded median in ms, and the interval of the added latency.
    type Given = (Case, f64, Option<(f64, f64)>);

    /// A probe of 64 B over UDP in a closed loop next to a stream over TCP with these options (`None`: without a load).
    fn probed(options: Option<&str>) -> Case {
        let mut case = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
        case.primary_mut().load.set_sizes(64, 64);
        case.flows.extend(options.map(|options| Flow {
            options: Options::parse(options).unwrap(),
            ..Flow::stream("tcp", WRITE_BYTES, Direction::Up).in_role(FlowRole::Load)
        }));
        case
    }

    /// Twelve rounds of each case with the loaded median and added interval given, and the idle median 10.3 ms.
    fn run_of(cases: &[Given]) -> Run {
        let mut fixture = Fixture::new();
        for (case, loaded_ms, _) in cases {
            let steps = [2.0, 5.0, 0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 0.0, 3.0, 1.0, 4.0];
            let rounds = steps.map(|step| (loaded_ms * (1.0 + step / 1000.0) * MS as f64) as u64);
            fixture.rounds_of(case, &rounds);
        }
        let mut run = fixture.run();
        for (row, (case, loaded_ms, bounds_ms)) in run.cases.iter_mut().zip(cases) {
            let ns = |ms: f64| ms * MS as f64;
            let added = ns(loaded_ms - 10.3);
            let under_load = row.under_load.as_mut().unwrap();
            under_load.phases.idle.probe.latency_ns.p50 = Some(Figure::bare(ns(10.3)));
            under_load.added_ns.p50 =
                Some(bounds_ms.map_or(Figure::bare(added), |(low, high)| Figure::new(added, ns(low), ns(high))));
            if !case.loads().is_empty() {
                under_load.phases.loaded.load.goodput_bytes_per_s = Some(Figure::bare(1.2e6));
                under_load.phases.loaded.queue_bytes =
                    Some(QueueBytes { p50: Figure::bare(loaded_ms * 1024.0), max: 262_144.0 });
            }
        }
        run
    }

    fn answer_of(cases: &[Given]) -> Answer {
        answer(&run_of(cases))
    }

    fn linked(options: &str) -> Case {
        over("delay=5ms", probed(Some(options)))
    }

    const CUBIC: &str = "congestion=cubic";
    const BBR: &str = "congestion=bbr";
    const RENO: &str = "congestion=reno";

    fn ids(options: &[&str]) -> Vec<String> {
        options.iter().map(|options| linked(options).id()).collect()
    }

    #[test]
    fn the_effect_of_one_load_is_judged_by_its_interval() {
        let said = |loaded_ms, bounds| answer_of(&[(linked(CUBIC), loaded_ms, bounds)]).statements;
        let load = |verdict| Statement::Load { case: linked(CUBIC).id(), verdict };
        let gets = Statement::LoadGets { case: linked(CUBIC).id() };
        assert_eq!(said(183.3, Some((171.0, 176.0))), [load(Some(Verdict::Slower)), gets]);
        assert_eq!(said(10.4, Some((-0.2, 0.4)))[0], load(Some(Verdict::CannotTell)));
        assert_eq!(said(9.0, Some((-1.4, -1.2)))[0], load(Some(Verdict::Faster)));
        assert_eq!(said(183.3, None)[0], load(None));
    }

    #[test]
    fn the_loads_that_add_least_and_most_are_named_if_a_difference_was_found() {
        let cubic = || (linked(CUBIC), 183.3, Some((171.0, 176.0)));
        let bbr = || (linked(BBR), 20.3, Some((9.0, 11.0)));
        let loads = |cases: &[&str], least: &[&str], most: &[&str]| {
            [Statement::Loads { cases: ids(cases), least: ids(least), most: ids(most) }]
        };
        let two = answer_of(&[cubic(), bbr()]);
        assert_eq!(two.statements, loads(&[BBR, CUBIC], &[BBR], &[CUBIC]), "the table has the rest");
        assert_eq!(two.pairs.first().map(|pair| pair.verdict), Some(Verdict::Slower), "both are on one ladder");
        let alike = answer_of(&[cubic(), (linked(RENO), 183.3, Some((171.0, 176.0)))]);
        assert_eq!(alike.statements, loads(&[CUBIC, RENO], &[CUBIC, RENO], &[]));
        let three = answer_of(&[cubic(), bbr(), (linked(RENO), 20.3, Some((9.0, 11.0)))]);
        assert_eq!(three.statements, loads(&[BBR, RENO, CUBIC], &[BBR, RENO], &[CUBIC]));
    }

    #[test]
    fn without_an_interval_no_load_is_named_the_best() {
        let unordered = [Statement::Loads { cases: ids(&[BBR, CUBIC]), least: Vec::new(), most: Vec::new() }];
        let unsure = answer_of(&[(linked(CUBIC), 183.3, None), (linked(BBR), 20.3, None)]);
        assert_eq!(unsure.statements, unordered);
        let sure = (linked(CUBIC), 183.3, Some((171.0, 176.0)));
        assert_eq!(answer_of(&[sure, (linked(BBR), 20.3, None)]).statements, unordered);
    }

    #[test]
    fn without_a_load_the_difference_of_the_phases_is_reported() {
        let unloaded = || over("delay=5ms", probed(None));
        let said = |bounds| answer_of(&[(unloaded(), 10.4, bounds)]).statements;
        let without = |verdict| Statement::WithoutLoad { case: unloaded().id(), verdict };
        assert_eq!(said(Some((-0.1, 0.3))), [without(Some(Verdict::CannotTell))]);
        assert_eq!(said(Some((0.05, 0.15))), [without(Some(Verdict::Slower))]);
        assert_eq!(said(None), [without(None)]);
        let beside =
            answer_of(&[(linked(CUBIC), 183.3, Some((171.0, 176.0))), (unloaded(), 10.4, Some((-0.1, 0.3)))]);
        let loaded = Statement::Load { case: linked(CUBIC).id(), verdict: Some(Verdict::Slower) };
        let gets = Statement::LoadGets { case: linked(CUBIC).id() };
        assert_eq!(beside.statements, [loaded, gets, without(Some(Verdict::CannotTell))]);
    }

    #[test]
    fn losses_of_the_probe_have_phases_and_every_load_has_its_responsiveness() {
        let mut run = run_of(&[(linked(CUBIC), 183.3, Some((171.0, 176.0)))]);
        let figures = run.cases[0].under_load.as_mut().unwrap();
        let lost = BTreeMap::from([("link-queue".to_owned(), 3)]);
        figures.phases.loaded.probe.ledger = Ledger { sent: 500, received: 497, lost, ..Ledger::default() }.closed();
        figures.phases.recovering.probe.ledger = Ledger { sent: 200, received: 199, ..Ledger::default() }.closed();
        let lost = |phase| Statement::ProbeLost { case: linked(CUBIC).id(), phase };
        assert_eq!(answer(&run).statements[2..], [lost(Phase::Loaded), lost(Phase::Recovering)]);
        let mut run = run_of(&[(linked(CUBIC), 183.3, Some((171.0, 176.0))), (linked(BBR), 20.3, Some((9.0, 11.0)))]);
        for (row, rpm) in run.cases.iter_mut().zip([311.0, 2_300.0]) {
            let figure = Figure::new(rpm, rpm - 6.0, rpm + 9.0);
            row.under_load.as_mut().unwrap().responsiveness_rpm =
                Some(Responsiveness { figure, draft: "draft-09".to_owned() });
        }
        let expected = Statement::Responsiveness { cases: ids(&[BBR, CUBIC]) };
        assert_eq!(answer(&run).statements[1..], [expected]);
    }

    #[test]
    fn each_path_has_its_own_loads_and_a_single_case_is_reported_even_if_invalid() {
        let codel = || over("delay=5ms codel=5ms/100ms", probed(Some(CUBIC)));
        let cases = [(linked(CUBIC), 183.3, Some((171.0, 176.0))), (codel(), 20.3, Some((9.0, 11.0)))];
        let loaded = |case: Case| Statement::Load { case: case.id(), verdict: Some(Verdict::Slower) };
        let gets = |case: Case| Statement::LoadGets { case: case.id() };
        let expected = [loaded(linked(CUBIC)), loaded(codel()), gets(linked(CUBIC)), gets(codel())];
        assert_eq!(answer_of(&cases).statements, expected);
        let mut run = run_of(&cases[..1]);
        run.cases[0].valid = false;
        assert_eq!(answer(&run).statements[0], loaded(linked(CUBIC)));
        run.cases.push(run_of(&cases[1..]).cases.remove(0));
        assert_eq!(answer(&run).statements, [loaded(codel()), gets(codel())], "invalid beside valid");
    }
}
