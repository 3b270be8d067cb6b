//! Ranks the cases of the answer's pairs from best to worst.

use std::collections::BTreeMap;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::ladder::{self, row_name, row_words};
use hairpin_model::names::joined;
use hairpin_model::summary::Verdict;
use hairpin_model::{CaseSummary, Run};

use crate::one_way::{common_words, own_words};

/// A chain of cases, in which each case is compared with the previous case.
pub(crate) struct Order<'r> {
    pub(crate) group: String,
    pub(crate) figure: ComparedBy,
    pub(crate) first: &'r CaseSummary,
    pub(crate) steps: Vec<RankedCase<'r>>,
}

pub(crate) struct RankedCase<'r> {
    pub(crate) verdict: Verdict,
    pub(crate) row: &'r CaseSummary,
}

/// Cases that share a rank, because no difference was found between neighbouring cases.
pub(crate) struct Place {
    /// `1.`, or a bar if the case is not comparable with the previous case.
    pub(crate) mark: String,
    pub(crate) meaning: &'static str,
    /// Names of the cases, without the words that all cases of the chain share.
    pub(crate) names: Vec<String>,
}

impl Place {
    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.mark, self.names.join(", "))
    }
}

pub(crate) fn legend(orders: &[Order<'_>]) -> &'static str {
    let has_bar = orders.iter().flat_map(Order::places).any(|place| place.mark.contains('|'));
    if has_bar {
        "same number: no difference found; after |: not comparable"
    } else {
        "same number: no difference found"
    }
}

pub(crate) fn orders(run: &Run) -> Vec<Order<'_>> {
    let groups = ladder::groups(&run.cases);
    let places = groups.iter().enumerate().flat_map(|(place, group)| {
        group.rows.iter().enumerate().map(move |(row_place, row)| (row.id.as_str(), ((place, row_place), *row)))
    });
    let places: BTreeMap<&str, ((usize, usize), &CaseSummary)> = places.collect();
    let mut orders: Vec<((usize, usize), Order<'_>)> = Vec::new();
    let tails = [ComparedBy::P90, ComparedBy::P99];
    for pair in run.answer.pairs.iter().filter(|pair| !tails.contains(&pair.figure)) {
        let of = |id: &String| places.get(id.as_str()).copied();
        let (Some((at, a)), Some((_, b))) = (of(&pair.a), of(&pair.b)) else { continue };
        let step = RankedCase { verdict: pair.verdict, row: b };
        match orders.last_mut() {
            Some((_, chain)) if (chain.figure, &chain.last().id) == (pair.figure, &a.id) => chain.steps.push(step),
            _ => orders.push((
                at,
                Order { figure: pair.figure, group: groups[at.0].name.clone(), first: a, steps: vec![step] },
            )),
        }
    }
    orders.sort_by_key(|(place, _)| *place);
    orders.into_iter().map(|(_, chain)| chain).collect()
}

/// Returns the heading. All orders of a run compare the same quantity, because all cases have the same kind of load.
pub(crate) fn heading(orders: &[Order<'_>]) -> &'static str {
    words(orders.first().map_or(ComparedBy::P50, |chain| chain.figure))[0]
}

fn words(figure: ComparedBy) -> [&'static str; 2] {
    match figure {
        ComparedBy::Rate => ["Which has the highest message rate", "the highest rate"],
        ComparedBy::Goodput => ["Which has the highest goodput", "the highest goodput"],
        _ => ["Which is faster at p50", "the lowest p50"],
    }
}

impl<'r> Order<'r> {
    fn rows(&self) -> impl Iterator<Item = &'r CaseSummary> {
        std::iter::once(self.first).chain(self.steps.iter().map(|step| step.row))
    }

    fn last(&self) -> &'r CaseSummary {
        self.steps.last().map_or(self.first, |step| step.row)
    }

    /// Returns the words after the first that all cases share, for the chain's title.
    fn shared(&self) -> Vec<String> {
        common_words(&self.rows().map(row_words).collect::<Vec<_>>())
    }

    /// Returns the group and the shared words: `block, same-cpu, 64 KiB`.
    pub(crate) fn title(&self) -> String {
        std::iter::once(self.group.clone()).chain(self.shared()).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        let shared = self.shared();
        let name = |row: &CaseSummary| own_words(&row_words(row), &shared).join(" ");
        let meaning = words(self.figure)[1];
        let mut places = vec![Place { mark: "1.".to_owned(), meaning, names: vec![name(self.first)] }];
        let (mut number, more_is_better) = (1, self.figure.more_is_better());
        for step in &self.steps {
            let mut add = |mark: String, meaning, name| places.push(Place { mark, meaning, names: vec![name] });
            match step.verdict {
                Verdict::Slower => {
                    number += 1;
                    add(format!("{number}."), if more_is_better { "less" } else { "slower" }, name(step.row));
                }
                Verdict::Faster => {
                    number += 1;
                    let (better, meaning) = if more_is_better {
                        ("more", "less over all rounds")
                    } else {
                        ("faster", "a higher p50 over rounds")
                    };
                    let name =
                        format!("{} ({better} than the previous case, compared round by round)", name(step.row));
                    add(format!("{number}."), meaning, name);
                }
                Verdict::Unlike => add("|".to_owned(), "measured in another state of the machine", name(step.row)),
                Verdict::CannotTell => places.last_mut().into_iter().for_each(|last| last.names.push(name(step.row))),
            }
        }
        places
    }

    /// Names cases that move more bytes per second than a case with a better p50.
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
                "By bytes per second, {} {is} faster than some cases before {it}: a p50 hides stalls in fewer than half of the \
                 exchanges.",
                joined(&names)
            )
        })
    }
}
