//! Answers runs of small writes: the time of exchanges with default options, and the remedy with the most throughput.

use hairpin_model::finding::Severity;
use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::summary::Verdict;
use hairpin_model::{Answer, BestRemedy, CaseSummary, Comparison, Group, Remedy, Run, Statement, path};

use super::ranking::{is_near, not_separated};
use super::statements::{ids, is_credible, not_ranked, quote_finding};

/// Answers from the first group in which remedies were compared with `default`; `None` if no case is usable. Uses
/// cases with an injected fault only if no other case is usable; the answer then says so first.
pub(super) fn answer(run: &Run) -> Option<Answer> {
    let with = |injected: bool| -> Vec<Group<'_>> {
        let speaks = |row: &&CaseSummary| {
            row.valid
                && row.p50_ns().is_some()
                && row.case.replicate == 0
                && row.case.injected_fault.is_some() == injected
        };
        let mut groups = ladder::groups(&run.cases);
        groups.retain(|group| group.kind == CaseKind::Exchanges);
        groups.iter_mut().for_each(|group| group.rows.retain(speaks));
        groups.retain(|group| !group.rows.is_empty());
        groups
    };
    answer_from_groups(run, &with(false)).or_else(|| {
        let mut injected = answer_from_groups(run, &with(true))?;
        injected.statements.insert(0, not_ranked(run));
        Some(injected)
    })
}

fn answer_from_groups(run: &Run, groups: &[Group<'_>]) -> Option<Answer> {
    let compared = |group: &&Group<'_>| group.rows.iter().any(|row| row.speed_up().is_some());
    let group = groups.iter().find(compared).or(groups.first())?;
    let baseline = default_case(group);
    let mut best = best(run, group, baseline);
    let moved = best.first().and_then(|first| first.bytes_per_ms());
    let far: Vec<&CaseSummary> =
        best.iter().skip(1).copied().filter(|row| !is_near(moved, row.bytes_per_ms())).collect();
    best.retain(|row| far.iter().all(|one| one.id != row.id));
    let two_writes = baseline.filter(|_| best.is_empty()).and_then(|baseline| in_two_writes(groups, baseline));
    let statements = [
        two_writes.or_else(|| headline(group, baseline, &best)),
        not_separated(&far),
        baseline.filter(|_| best.len() > 1).map(|_| Statement::EqualRemedies { cases: ids(best.iter().copied()) }),
        without_pauses(group),
        baseline.and_then(|baseline| cause(run, baseline)),
        baseline.and_then(|baseline| slower(group, baseline)),
        baseline.and_then(|baseline| other_transports(groups, baseline)),
        other_paths(run, groups, group),
    ];
    let best_remedy = best.split_first().map(|(first, ties)| BestRemedy {
        case: first.id.clone(),
        no_difference: ids(ties.iter().copied()),
        speed_up: first.speed_up(),
    });
    Some(Answer { statements: statements.into_iter().flatten().collect(), best_remedy, ..Answer::default() })
}

fn remedy(row: &CaseSummary) -> Option<Remedy> {
    row.case.primary().load.exchange().map(|exchange| exchange.remedy)
}

fn default_case<'r>(group: &Group<'r>) -> Option<&'r CaseSummary> {
    group.rows.iter().copied().find(|row| remedy(row) == Some(Remedy::Default))
}

/// Returns the number of `--gap` pauses in an exchange, if the remedy omits some of them.
fn pauses_left(row: &CaseSummary) -> Option<usize> {
    row.case.primary().load.exchange()?.pauses_left()
}

/// Returns the remedy with the most bytes per ms, and the remedies for which no difference from the first was found.
/// If `default` was measured, considers only remedies that are faster: the interval of the speed-up excludes 1, or
/// without an interval, the comparison of p50 says so. If any remedy keeps all pauses, omits remedies that do not.
fn best<'r>(run: &Run, group: &Group<'r>, baseline: Option<&CaseSummary>) -> Vec<&'r CaseSummary> {
    let faster_at_p50 = |baseline: &CaseSummary, row: &CaseSummary| {
        let pair = |one: &&Comparison| one.baseline == baseline.id && one.candidate == row.id;
        run.comparisons.iter().find(pair).is_some_and(|one| one.verdict == Verdict::Faster)
    };
    let proved = |row: &&CaseSummary| {
        let Some(baseline) = baseline else { return true };
        row.speed_up().is_some_and(|figure| {
            figure.value > 1.0 && (figure.excludes(1.0) || (figure.low.is_none() && faster_at_p50(baseline, row)))
        })
    };
    // A remedy that merges writes skips the `--gap` pauses, which alone would make it the best.
    let pauses = |row: &CaseSummary| pauses_left(row).is_none();
    let any_pauses = group.rows.iter().copied().any(|row| pauses(row) && remedy(row) != Some(Remedy::Default));
    let mut rows = group.rows.iter().copied().filter(proved).filter(|row| !any_pauses || pauses(row));
    let Some(first) = rows.next() else { return Vec::new() };
    std::iter::once(first).chain(rows.filter(|row| !first.moves_more(row))).collect()
}

fn headline(group: &Group<'_>, baseline: Option<&CaseSummary>, best: &[&CaseSummary]) -> Option<Statement> {
    Some(match (baseline, best) {
        (Some(baseline), [first, ..]) => Statement::Remedy { default: baseline.id.clone(), best: first.id.clone() },
        (Some(baseline), []) => {
            let tried = group.rows.iter().filter(|row| row.id != baseline.id && pauses_left(row).is_none());
            let has_interval = |row: &CaseSummary| row.speed_up().is_some_and(|figure| figure.low.is_some());
            let have_intervals = tried.map(|row| has_interval(row)).reduce(|all, one| all && one);
            Statement::NoRemedy { default: baseline.id.clone(), have_intervals }
        }
        (None, [only]) if group.rows.len() == 1 => Statement::OnlyRemedy { case: only.id.clone() },
        (None, best) if !best.is_empty() => Statement::FastestRemedies { cases: ids(best.iter().copied()) },
        (None, _) => return None,
    })
}

fn in_two_writes(groups: &[Group<'_>], baseline: &CaseSummary) -> Option<Statement> {
    let writes = |row: &CaseSummary| {
        let exchange = row.case.primary().load.exchange()?;
        Some((exchange.writes.sizes().len(), exchange.reply_writes.as_ref().map_or(1, |writes| writes.sizes().len())))
    };
    let in_one_write = |row: &CaseSummary| {
        row.case.clone().with(|case| {
            let is_alike = case.primary().load.size_bytes() == baseline.case.primary().load.size_bytes();
            let (own, of_baseline) =
                (case.primary_mut().load.exchange_mut(), baseline.case.primary().load.exchange());
            if let (true, Some(own), Some(of_baseline)) = (is_alike, own, of_baseline) {
                own.clone_from(of_baseline);
            }
        })
    };
    let with = |wanted| {
        let alike = |row: &&CaseSummary| writes(row) == Some(wanted) && in_one_write(row) == baseline.case;
        groups.iter().filter_map(default_case).find(alike).map(|row| row.id.clone())
    };
    let (request, answer) = (with((2, 1)), with((1, 2)));
    let is_known = writes(baseline) == Some((1, 1)) && (request.is_some() || answer.is_some());
    is_known.then(|| Statement::InTwoWrites { default: baseline.id.clone(), request, answer })
}

fn without_pauses(group: &Group<'_>) -> Option<Statement> {
    let row = group.rows.iter().find(|row| pauses_left(row) == Some(0))?;
    Some(Statement::WithoutPauses { case: row.id.clone() })
}

fn slower(group: &Group<'_>, baseline: &CaseSummary) -> Option<Statement> {
    let is_slower =
        |row: &CaseSummary| row.speed_up().is_some_and(|figure| figure.value < 1.0 && figure.excludes(1.0));
    let cases = ids(group.rows.iter().copied().filter(|row| row.id != baseline.id && is_slower(row)));
    (!cases.is_empty()).then_some(Statement::SlowerRemedies { cases })
}

fn other_transports(groups: &[Group<'_>], baseline: &CaseSummary) -> Option<Statement> {
    let alike = |row: &&CaseSummary| {
        row.case.primary().transport != baseline.case.primary().transport
            && row.case.primary().load.exchange() == baseline.case.primary().load.exchange()
            && (row.case.ends.waiting, row.case.ends.placement)
                == (baseline.case.ends.waiting, baseline.case.ends.placement)
            && path::alike(&row.case, &baseline.case)
    };
    let cases = ids(groups.iter().flat_map(|group| &group.rows).copied().filter(alike));
    (!cases.is_empty()).then_some(Statement::OtherTransports { cases })
}

fn other_paths(run: &Run, groups: &[Group<'_>], group: &Group<'_>) -> Option<Statement> {
    let of_path = |other: &Group<'_>| {
        let baseline = default_case(other)?;
        Some(ids(std::iter::once(baseline).chain(best(run, other, Some(baseline)).first().copied())))
    };
    let others = groups.iter().filter(|other| other.ends == group.ends && other.path != group.path);
    let paths: Vec<Vec<String>> = others.filter_map(of_path).collect();
    (!paths.is_empty()).then_some(Statement::OtherPaths { paths })
}

/// Minimum share of an exchange that a quoted cause must explain.
const MIN_QUOTED_SHARE: f64 = 0.1;

/// Quotes the finding that explains most of an exchange with default options and was not refuted.
fn cause(run: &Run, baseline: &CaseSummary) -> Option<Statement> {
    quote_finding(run, [baseline], |finding| {
        finding.share >= MIN_QUOTED_SHARE && finding.severity != Severity::Note && is_credible(finding)
    })
}
