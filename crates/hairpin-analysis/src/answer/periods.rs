//! Answers runs of control loops: misses, response time and release jitter of each loop, the one with the fewest misses first.

use hairpin_model::{Answer, CaseSummary, Run, Statement};

use super::statements::{answer_from, single};

const MAX_LOOPS: usize = 4;

pub(super) fn answer(run: &Run) -> Option<Answer> {
    if let Some(found) = &run.periodic {
        let row = found.case.as_ref().and_then(|id| run.cases.iter().find(|row| row.id == *id));
        return answer_from([Statement::ShortestPeriod].into_iter().chain(row.map(single)).collect());
    }
    let missed = |row: &CaseSummary| {
        let figures = row.primary().periodic.as_ref()?;
        (figures.periods > 0).then(|| figures.misses as f64 / figures.periods as f64)
    };
    let usable = run.cases.iter().filter(|row| row.valid && row.case.replicate == 0);
    let mut loops: Vec<(f64, &CaseSummary)> = usable.filter_map(|row| Some((missed(row)?, row))).collect();
    // Loops without a difference stay in the order of the plan.
    loops.sort_by(|one, other| one.0.total_cmp(&other.0));
    answer_from(loops.into_iter().take(MAX_LOOPS).map(|(_, row)| single(row)).collect())
}
