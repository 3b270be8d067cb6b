//! Answers runs of messages at full rate: the highest rate, its latency, the gain from batches, and losses.

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::ladder::CaseKind;
use hairpin_model::names::distinct;
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{Answer, BatchGain, CaseSummary, Comparison, Figure, Load, Pair, Run, Statement};

use super::one_way::{highest, losses};
use super::statements::single;

pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    if let [row] = run.cases.as_slice() {
        let is_measured = CaseKind::of(&row.case) == CaseKind::Messages && row.compared(ComparedBy::Rate).is_some();
        return is_measured.then(|| Answer::from([vec![single(row)], losses(&[row])].concat()));
    }
    highest(run, pairs, (CaseKind::Messages, ComparedBy::Rate), |rows| {
        batches(run, rows).into_iter().chain(latency(rows)).collect()
    })
}

fn with_batch<'r>(row: &CaseSummary, messages: u64, rows: &[&'r CaseSummary]) -> Option<&'r CaseSummary> {
    let other = row.case.clone().with(|case| {
        if let Load::Messages { batch, .. } = &mut case.primary_mut().load {
            *batch = messages;
        }
    });
    rows.iter().copied().find(|row| row.case == other)
}

fn batches(run: &Run, rows: &[&CaseSummary]) -> Option<Statement> {
    let batch = |row: &CaseSummary| row.case.primary().load.batch();
    let messages = rows.iter().map(|row| batch(row)).max().filter(|most| *most > 1)?;
    let fastest = distinct(rows.iter().map(|row| row.case.primary().transport.as_str()));
    let gains = fastest.into_iter().filter_map(|transport| {
        let first = rows.iter().find(|row| row.case.primary().transport == transport)?;
        let (largest, one) = (with_batch(first, messages, rows)?, with_batch(first, 1, rows)?);
        Some(BatchGain { case: largest.id.clone(), ratio: gain(run, one, largest)? })
    });
    let gains: Vec<BatchGain> = gains.collect();
    (!gains.is_empty()).then_some(Statement::Batches { messages, gains })
}

/// Returns the ratio of `candidate` to `baseline`; `Some(None)` if no difference was found, `None` if not compared.
fn gain(run: &Run, baseline: &CaseSummary, candidate: &CaseSummary) -> Option<Option<Figure>> {
    let is_pair = |one: &&Comparison| {
        one.role == Role::CounterExperiment && one.baseline == baseline.id && one.candidate == candidate.id
    };
    let found = run.comparisons.iter().find(is_pair)?;
    Some(matches!(found.verdict, Verdict::Faster | Verdict::Slower).then_some(found.ratio))
}

fn latency(rows: &[&CaseSummary]) -> Option<Statement> {
    let first = rows.first().filter(|first| first.p50_ns().is_some())?;
    let one = with_batch(first, 1, rows).filter(|one| one.id != first.id && one.p50_ns().is_some());
    Some(Statement::LatencyAtRate { case: first.id.clone(), unbatched: one.map(|one| one.id.clone()) })
}
