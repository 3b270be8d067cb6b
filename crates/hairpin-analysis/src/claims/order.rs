//! `order`: the cases are in the published order, the smallest figure first.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{Figure, FigureName, Judgement, Published, Run, Selector, Value};

use super::figures::{Measured, ratio};
use super::place::{Place, without};
use super::selection::select;
use super::units::{TIMES, in_words};
use super::words;

pub(super) fn judge(name: FigureName, cases: &[Selector], published: &Published, run: &Run) -> Judgement {
    let Value::Order(names) = &published.value else {
        return without(Verdict::CannotRun, "the published value is not an order");
    };
    let steps: Vec<Pair<'_>> = cases
        .windows(2)
        .zip(names.windows(2))
        .map(|(cases, names)| Pair { names: [&names[0], &names[1]], ratio: step(name, [&cases[0], &cases[1]], run) })
        .collect();
    let verdicts: Vec<Verdict> = steps.iter().map(Pair::verdict).collect();
    let verdict = overall(&verdicts);
    let steps_told = steps.iter().map(Pair::sentence).collect::<Vec<_>>().join(" ");
    let why = format!("By {}: {steps_told}", in_words(name));
    let least_clear =
        steps.iter().filter_map(|step| step.ratio.as_ref().ok()).min_by(|a, b| a.value.total_cmp(&b.value));
    match least_clear {
        Some(figure) => {
            let what = "the step of the order with the smallest difference".to_owned();
            Measured { figure: *figure, unit: TIMES.to_owned(), what }.judged(verdict, None, why)
        }
        None => without(verdict, why),
    }
}

/// Two neighbouring cases, and the ratio of the second's figure to the first's.
struct Pair<'n> {
    names: [&'n str; 2],
    ratio: Result<Figure, Judgement>,
}

fn step(name: FigureName, [first, second]: [&Selector; 2], run: &Run) -> Result<Figure, Judgement> {
    ratio(name, (select(run, first)?, run), (select(run, second)?, run))
}

impl Pair<'_> {
    fn verdict(&self) -> Verdict {
        match &self.ratio {
            Ok(ratio) if ratio.excludes(1.0) => Place::of(ratio, 1.0, f64::INFINITY).verdict(),
            Ok(_) => Verdict::CannotTell,
            Err(absent) => absent.verdict.unwrap_or(Verdict::CannotRun),
        }
    }

    fn sentence(&self) -> String {
        let [first, second] = self.names;
        match (&self.ratio, self.verdict()) {
            (Err(absent), _) => format!("{first} and {second}: {}.", absent.why.trim_end_matches('.')),
            (Ok(ratio), verdict) => {
                let ratio = words::figure(ratio, TIMES);
                match verdict {
                    Verdict::Holds => format!("{first} < {second}: {ratio}."),
                    Verdict::DoesNotHold => format!("{first} > {second}: {ratio}."),
                    _ => format!("no difference found between {first} and {second}: {ratio}."),
                }
            }
        }
    }
}

/// One reversed step refutes the order; one that was not measured or is undecided leaves it open.
fn overall(verdicts: &[Verdict]) -> Verdict {
    let worst_first = [Verdict::DoesNotHold, Verdict::CannotRun, Verdict::CannotTell];
    let worst = worst_first.into_iter().find(|verdict| verdicts.contains(verdict));
    worst.unwrap_or(if verdicts.is_empty() { Verdict::CannotRun } else { Verdict::Holds })
}
