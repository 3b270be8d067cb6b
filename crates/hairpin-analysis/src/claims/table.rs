//! The verdict on a claim with several rows.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{JudgedRow, Judgement};

/// A claim with one row has the judgement of that row. A table does not hold if one row does not, holds if every row
/// does, and cannot run if no row could; otherwise it is undecided, as rows without a verdict might contradict it. Rows
/// next to the claim and rows skipped between two hosts do not count; they are listed separately. The figure of a table
/// is that of its row `headline`.
pub(super) fn overall(rows: &[JudgedRow], headline: Option<usize>) -> Judgement {
    if let [only] = rows
        && only.name.is_empty()
    {
        return only.judgement.clone();
    }
    let (tested, skipped): (Vec<&JudgedRow>, Vec<&JudgedRow>) = rows.iter().partition(|row| row.skipped.is_none());
    let (counting, beside): (Vec<&JudgedRow>, Vec<&JudgedRow>) =
        tested.into_iter().partition(|row| row.beside.is_none());
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
    let mut why = if counting.is_empty() { String::new() } else { format!("{}.", by_verdict(&counting)) };
    if !beside.is_empty() {
        why = format!("{why} Also measured, not part of the verdict: {}.", by_verdict(&beside));
    }
    if !skipped.is_empty() {
        why = format!("{why} Skipped between two hosts: {}.", names(&skipped)).trim_start().to_owned();
    }
    let carried = headline.map(|place| rows[place].judgement.clone()).unwrap_or_default();
    Judgement { verdict: Some(verdict), why, ..carried }
}

/// holds: `tcp`, `udp`; cannot-run: `wan`. Names can contain commas.
fn by_verdict(rows: &[&JudgedRow]) -> String {
    let named = Verdict::ALL.iter().filter_map(|verdict| {
        let of: Vec<&JudgedRow> =
            rows.iter().filter(|row| row.judgement.verdict == Some(*verdict)).copied().collect();
        (!of.is_empty()).then(|| format!("{verdict}: {}", names(&of)))
    });
    named.collect::<Vec<_>>().join("; ")
}

fn names(rows: &[&JudgedRow]) -> String {
    rows.iter().map(|row| format!("`{}`", row.name)).collect::<Vec<_>>().join(", ")
}
