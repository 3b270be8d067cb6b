//! Who is faster: the pairs of the answer, strung together from the lowest p50 to the highest.

use std::collections::BTreeMap;

use hairpin_model::answer::RankedBy;
use hairpin_model::ladder::{self, row_name};
use hairpin_model::names::joined;
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Verdict};

/// Cases that were compared with their neighbours.
pub(crate) struct Chain<'r> {
    /// The group they stand in.
    pub(crate) group: String,
    /// The case with the lowest p50.
    pub(crate) first: &'r CaseSummary,
    /// The others.
    pub(crate) steps: Vec<Step<'r>>,
}

/// A case, and how it compares with the one before it.
pub(crate) struct Step<'r> {
    pub(crate) verdict: Verdict,
    pub(crate) row: &'r CaseSummary,
}

impl Step<'_> {
    /// The sign before the case.
    pub(crate) fn sign(&self) -> &'static str {
        match self.verdict {
            Verdict::Slower => "<",
            Verdict::Faster => ">",
            Verdict::CannotTell => "~",
            Verdict::Unlike => "?",
        }
    }

    /// The sign in words.
    pub(crate) fn meaning(&self) -> &'static str {
        match self.verdict {
            Verdict::Slower => "is faster than",
            Verdict::Faster => "is slower than, although its p50 over rounds is lower",
            Verdict::CannotTell => "no difference found from",
            Verdict::Unlike => "was measured in another state of the machine than",
        }
    }
}

/// What the signs mean, where they are shown.
pub(crate) const LEGEND: &str = "a < b: a is faster; a ~ b: no difference found; a ? b: not comparable";

/// The chains in the order of their groups.
pub(crate) fn chains(run: &Run) -> Vec<Chain<'_>> {
    let groups = ladder::groups(&run.cases);
    let places = groups.iter().enumerate().flat_map(|(place, group)| {
        group.rows.iter().enumerate().map(move |(row_place, row)| (row.id.as_str(), ((place, row_place), *row)))
    });
    let places: BTreeMap<&str, ((usize, usize), &CaseSummary)> = places.collect();
    let mut chains: Vec<((usize, usize), Chain<'_>)> = Vec::new();
    for pair in run.answer.pairs.iter().filter(|pair| pair.figure == RankedBy::P50) {
        let of = |id: &String| places.get(id.as_str()).copied();
        let (Some((at, a)), Some((_, b))) = (of(&pair.a), of(&pair.b)) else { continue };
        let step = Step { verdict: pair.verdict, row: b };
        match chains.last_mut() {
            Some((_, chain)) if chain.last().id == a.id => chain.steps.push(step),
            _ => chains.push((at, Chain { group: groups[at.0].name.clone(), first: a, steps: vec![step] })),
        }
    }
    chains.sort_by_key(|(place, _)| *place);
    chains.into_iter().map(|(_, chain)| chain).collect()
}

impl<'r> Chain<'r> {
    fn rows(&self) -> impl Iterator<Item = &'r CaseSummary> {
        std::iter::once(self.first).chain(self.steps.iter().map(|step| step.row))
    }

    fn last(&self) -> &'r CaseSummary {
        self.steps.last().map_or(self.first, |step| step.row)
    }

    /// Where the order of the chain, which is by p50, is not that of what is moved.
    pub(crate) fn beyond_p50(&self) -> Option<String> {
        let outdone = |place: usize, row: &CaseSummary| self.rows().take(place).any(|before| row.moves_more(before));
        let names: Vec<String> = self
            .rows()
            .enumerate()
            .filter(|(place, row)| outdone(*place, row))
            .map(|(_, row)| row_name(row))
            .collect();
        let (is, it) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
        (!names.is_empty()).then(|| {
            format!(
                "By bytes a second {} {is} faster than some before {it}: a p50 does not show stalls in fewer than half \
                 of the exchanges.",
                joined(&names)
            )
        })
    }
}
