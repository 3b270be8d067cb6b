//! Derives the verdict on each axis of a claim from its rows, and the headline from the axes.

use std::collections::BTreeSet;

use hairpin_model::claim::{Axis, ClaimKind, Knob};
use hairpin_model::judged_claim::{Axes, Headline, Verdict};
use hairpin_model::{JudgedClaim, JudgedRow};

/// The verdict on several statements that must all be true: refuted if one is refuted, else undecided if one is
/// undecided, else equal if one is equal. Statements that were not tested count only if no other is there.
pub(super) fn worst(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let all: Vec<Verdict> = verdicts.into_iter().collect();
    let order = [Verdict::Refuted, Verdict::Undecided, Verdict::Equal, Verdict::Confirmed];
    order.into_iter().find(|verdict| all.contains(verdict)).unwrap_or(Verdict::NotTested)
}

pub(super) fn decide(claim: &mut JudgedClaim) {
    let (mut only_if, rows) = (None, &claim.rows);
    let mut on = |axis: Axis| {
        let of_axis: Vec<&JudgedRow> = rows.iter().filter(|row| row.axis == axis && row.shown.is_none()).collect();
        if of_axis.is_empty() {
            return Verdict::NotClaimed;
        }
        let deciding: Vec<&JudgedRow> = of_axis.into_iter().filter(|row| row.decides()).collect();
        let side = opposite_sides(&deciding);
        let counts = |row: &&&JudgedRow| side.is_none_or(|side| row.knob.as_ref().is_none_or(|knob| knob == side));
        let verdict = worst(deciding.iter().filter(counts).filter_map(|row| row.judgement.verdict));
        only_if = only_if.take().or_else(|| side.cloned());
        verdict
    };
    claim.axes = Axes { direction: on(Axis::Direction), size: on(Axis::Size), cause: on(Axis::Cause) };
    claim.only_if = only_if;
    let headline = headline(claim);
    claim.headline = Some(headline);
    claim.only_if.take_if(|_| headline != Headline::HoldsOnlyIf);
}

/// Returns the side of a knob whose rows are all confirmed, if those of the other sides are all refuted.
fn opposite_sides<'r>(rows: &[&'r JudgedRow]) -> Option<&'r Knob> {
    let with_knob = || rows.iter().filter_map(|row| Some((row.knob.as_ref()?, row.judgement.verdict?)));
    let (confirmed, _) = with_knob().find(|(_, verdict)| *verdict == Verdict::Confirmed)?;
    let expected = |knob: &Knob| if knob == confirmed { Verdict::Confirmed } else { Verdict::Refuted };
    let of_knob = || with_knob().filter(|(knob, _)| knob.name == confirmed.name);
    let values: BTreeSet<&str> = of_knob().map(|(knob, _)| knob.value.as_str()).collect();
    (values.len() > 1 && of_knob().all(|(knob, verdict)| verdict == expected(knob))).then_some(confirmed)
}

/// The first headline that applies, in the order of the table in `docs/claims.md`.
fn headline(claim: &JudgedClaim) -> Headline {
    let Axes { direction, size, cause } = claim.axes;
    let verdicts: Vec<Verdict> =
        claim.rows.iter().filter(|row| row.decides()).filter_map(|row| row.judgement.verdict).collect();
    if verdicts.is_empty() {
        return without_deciding_rows(&claim.rows);
    }
    let is_tested = verdicts.iter().any(|verdict| *verdict != Verdict::NotTested);
    let is_done = |verdict: &Verdict| [Verdict::Confirmed, Verdict::NotTested].contains(verdict);
    if is_tested && claim.kind != ClaimKind::Statement && verdicts.iter().all(is_done) {
        return Headline::Answered;
    }
    if !is_tested {
        return Headline::NotTestable;
    }
    let axes = [direction, size, cause];
    let mechanisms = [direction, cause];
    let has_only_size = mechanisms.iter().all(|verdict| *verdict == Verdict::NotClaimed);
    if mechanisms.contains(&Verdict::Refuted) || (has_only_size && size == Verdict::Refuted) {
        Headline::Contradicted
    } else if axes.contains(&Verdict::Undecided) {
        Headline::Undecided
    } else if direction == Verdict::Equal || (has_only_size && size == Verdict::Equal) {
        Headline::NoDifference
    } else if claim.only_if.is_some() {
        Headline::HoldsOnlyIf
    } else if size == Verdict::Refuted {
        Headline::HoldsOtherSize
    } else {
        Headline::Holds
    }
}

pub(super) fn has_no_experiment(rows: &[JudgedRow]) -> bool {
    let mut own = rows.iter().filter(|row| row.shown.is_none()).peekable();
    own.peek().is_some() && own.all(|row| row.missing.is_some())
}

fn without_deciding_rows(rows: &[JudgedRow]) -> Headline {
    let shows = |row: &JudgedRow| row.other_hardware && row.judgement.measured.is_some();
    if rows.iter().any(shows) {
        Headline::OtherHardware
    } else if has_no_experiment(rows) {
        Headline::NotYet
    } else {
        Headline::NotTestable
    }
}
