//! What detectors share: looking cases up, the words of a finding, its counter-experiment and what came of it.

mod alternative;
mod command;
mod gone;
mod stall;
mod traced;

use hairpin_model::case::Case;
use hairpin_model::figure::Figure;
use hairpin_model::finding::{Evidence, Finding, FindingCard, Proved, Severity};
use hairpin_model::round::{Measured, RoundRecord};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Comparison, Verdict};

pub(super) use self::alternative::{Alternative, other_remedy, sibling_of, without_stage};
pub(super) use self::command::{counter_experiment, link_word, options, paired};
pub(super) use self::gone::gone;
pub(super) use self::stall::{Stall, stall};
pub(super) use self::traced::{Often, Traced, held_ns};
use crate::{counted, humane};

/// A finding to be filled in with `..`.
pub(super) fn blank(card: &FindingCard, severity: Severity) -> Finding {
    Finding {
        code: card.code.to_owned(),
        severity,
        cases: Vec::new(),
        summary: String::new(),
        evidence: Vec::new(),
        advice: String::new(),
        counter_experiment: None,
        proved: None,
        share: 0.0,
    }
}

/// A piece of evidence.
pub(super) fn evidence(what: impl Into<String>, value: Figure, unit: &str) -> Evidence {
    Evidence { what: what.into(), value, unit: unit.to_owned() }
}

/// The measured rounds of a case that its figures are made of, in order of execution.
pub(super) fn rounds_of<'r>(run: &'r Run, id: &str) -> Vec<(&'r RoundRecord, &'r Measured)> {
    counted::timed(run.rounds.iter().filter(|round| round.case_id == id))
}

/// Cases in which a detector found its cause, each with the share that it explains, the greatest first.
pub(super) struct Hits<'r, T>(pub(super) Vec<Hit<'r, T>>);

/// One of them.
pub(super) struct Hit<'r, T> {
    pub(super) case: &'r CaseSummary,
    pub(super) share: f64,
    pub(super) with: T,
}

impl<'r, T> Hits<'r, T> {
    /// Looks at every case of the run.
    pub(super) fn among(run: &'r Run, look: impl Fn(&'r CaseSummary) -> Option<(f64, T)>) -> Self {
        let hit = |case: &'r CaseSummary| look(case).map(|(share, with)| Hit { case, share, with });
        let mut hits: Vec<_> = run.cases.iter().filter_map(hit).collect();
        hits.sort_by(|a, b| b.share.total_cmp(&a.share));
        Self(hits)
    }

    /// The strongest.
    pub(super) fn first(&self) -> Option<&Hit<'r, T>> {
        self.0.first()
    }

    /// The identities of all.
    pub(super) fn ids(&self) -> Vec<String> {
        self.0.iter().map(|hit| hit.case.id.clone()).collect()
    }

    /// All cases.
    pub(super) fn cases(&self) -> Vec<&'r Case> {
        self.0.iter().map(|hit| &hit.case.case).collect()
    }

    /// ` In 3 other cases it is 61 % to 88 %.`, or nothing where there is no other.
    pub(super) fn others(&self) -> String {
        match self.0.get(1..) {
            None | Some([]) => String::new(),
            Some([one]) => format!(" In {} it is {}.", one.case.label, humane::share(one.share)),
            Some(others) => {
                let (most, least) = (others[0].share, others[others.len() - 1].share);
                let (least, most) = (humane::share(least), humane::share(most));
                let range = if least == most { most } else { format!("{least} to {most}") };
                format!(" In {} other cases it is {range}.", others.len())
            }
        }
    }
}

/// What changes from case `from` to case `to`, as the run's comparisons say, whichever of them is the baseline there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// to / from.
    pub(super) ratio: Figure,
    /// to - from, in ns.
    pub(super) difference_ns: Figure,
    /// Whether `to` is faster.
    pub(super) verdict: Verdict,
}

impl Change {
    /// The share of `from` that is gone in `to`.
    pub(super) fn saved_share(&self) -> Figure {
        self.ratio.falling(|ratio| 1.0 - ratio)
    }

    /// What is gone, in ns.
    pub(super) fn saved_ns(&self) -> Figure {
        self.difference_ns.falling(|difference| -difference)
    }
}

/// The change from one case to another, where the run compares them over enough rounds for an interval or a verdict.
pub(super) fn change(run: &Run, from: &CaseSummary, to: &CaseSummary) -> Option<Change> {
    let tells = |one: &&Comparison| one.ratio.low.is_some() || one.verdict != Verdict::CannotTell;
    run.comparisons.iter().filter(tells).find_map(|comparison| {
        if comparison.baseline == from.id && comparison.candidate == to.id {
            let &Comparison { ratio, difference_ns, verdict, .. } = comparison;
            return Some(Change { ratio, difference_ns, verdict });
        }
        if comparison.baseline != to.id || comparison.candidate != from.id {
            return None;
        }
        let ratio = comparison.ratio.falling(|ratio| 1.0 / ratio);
        let difference_ns = comparison.difference_ns.falling(|difference| -difference);
        let verdict = match comparison.verdict {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            undecided => undecided,
        };
        Some(Change { ratio, difference_ns, verdict })
    })
}

/// A counter-experiment that saves less than this at best refutes the explanation.
const REFUTED_BELOW: f64 = 0.1;

/// What became of a counter-experiment that the cause predicts to be faster.
pub(super) fn proved(change: &Change) -> Proved {
    let small = change.saved_share().high.is_some_and(|most| most < REFUTED_BELOW);
    let verdict = match change.verdict {
        _ if small => "refuted",
        Verdict::Faster => "confirmed",
        Verdict::Slower => "refuted",
        Verdict::CannotTell | Verdict::Unlike => "cannot-tell",
    };
    Proved { verdict: verdict.to_owned(), effect: change.difference_ns }
}

/// The same in a sentence; `doing` is what was changed, for instance `keeping the CPUs awake`.
pub(super) fn told(label: &str, doing: &str, change: &Change) -> String {
    let effect = humane::duration_figure(&change.saved_ns());
    match proved(change).verdict.as_str() {
        "confirmed" => format!(" Proved on {label}: {doing} saves {effect}."),
        "refuted" => format!(" Refuted on {label}: {doing} saves {effect}, next to nothing."),
        _ => format!(" On {label} {doing} saves {effect}, which settles nothing."),
    }
}
