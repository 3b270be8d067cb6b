//! Derives the verdict on a claim with several rows.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{JudgedRow, Judgement, Reason};

/// A claim with one row has the judgement of that row. A table does not hold if any row does not hold, holds if every
/// row holds, and cannot run if no row could run. Otherwise the table is undecided, because its undecided rows might
/// not hold. Rows about another setting and rows skipped between two hosts do not count; they are listed separately.
/// A table has the figure of its row `headline`.
pub(super) fn overall(rows: &[JudgedRow], headline: Option<usize>) -> Judgement {
    if let [only] = rows
        && only.name.is_empty()
    {
        return only.judgement.clone();
    }
    let counting: Vec<&JudgedRow> = rows.iter().filter(|row| row.counts()).collect();
    let count = |verdict: Verdict| counting.iter().filter(|row| row.judgement.verdict == Some(verdict)).count();
    let verdict = if count(Verdict::DoesNotHold) > 0 {
        Verdict::DoesNotHold
    } else if !counting.is_empty() && count(Verdict::Holds) == counting.len() {
        Verdict::Holds
    } else if count(Verdict::CannotRun) == counting.len() {
        Verdict::CannotRun
    } else {
        Verdict::CannotTell
    };
    let carried = headline.map(|place| rows[place].judgement.clone()).unwrap_or_default();
    Judgement { verdict: Some(verdict), reason: Some(Reason::Rows), ..carried }
}
