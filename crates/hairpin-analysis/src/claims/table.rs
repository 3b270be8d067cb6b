//! A claim's rows together.

use hairpin_model::judged_claim::{JudgedRow, Judgement, Verdict};

use super::without;

/// A claim of one row is judged as that row. A table does not hold where a row does not, holds where every row does,
/// and cannot run where none could; else it cannot be told, as rows that were not judged might contradict it.
pub(super) fn overall(rows: &[JudgedRow]) -> Judgement {
    if let [only] = rows
        && only.name.is_empty()
    {
        return only.judgement.clone();
    }
    let count = |verdict: Verdict| rows.iter().filter(|row| row.judgement.verdict == Some(verdict)).count();
    let verdict = if count(Verdict::DoesNotHold) > 0 {
        Verdict::DoesNotHold
    } else if count(Verdict::Holds) == rows.len() {
        Verdict::Holds
    } else if count(Verdict::CannotRun) == rows.len() {
        Verdict::CannotRun
    } else {
        Verdict::CannotTell
    };
    let named = Verdict::ALL.iter().filter_map(|verdict| {
        let of: Vec<&JudgedRow> = rows.iter().filter(|row| row.judgement.verdict == Some(*verdict)).collect();
        let names: Vec<&str> = of.iter().map(|row| row.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{verdict}: {}", names.join(", ")))
    });
    without(verdict, format!("{}.", named.collect::<Vec<_>>().join("; ")))
}
