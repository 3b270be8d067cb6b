//! The answer to exchanges of small writes: their time with default options, and the remedy with the highest
//! throughput.

use hairpin_model::answer::{Answer, BestRemedy};
use hairpin_model::exchange::Remedy;
use hairpin_model::figure::Figure;
use hairpin_model::finding::{Finding, Severity};
use hairpin_model::ladder::{self, Group, Kind, row_name};
use hairpin_model::names::joined;
use hairpin_model::path;
use hairpin_model::quantities::{byte_rate, counted, duration, factor, number_bounds, share};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Comparison, Verdict};

use super::words::{self, p50};

/// The answer, on the first group in which remedies were compared with `default`; `None` if no case is usable. Cases
/// with an injected fault are used only if there are no others, and the answer says so first.
pub(super) fn answer(run: &Run) -> Option<Answer> {
    let with = |injected: bool| -> Vec<Group<'_>> {
        let speaks = |row: &&CaseSummary| {
            row.valid
                && row.p50_ns().is_some()
                && row.case.replicate == 0
                && row.case.injected_fault.is_some() == injected
        };
        let mut groups = ladder::groups(&run.cases);
        groups.retain(|group| group.kind == Kind::Exchanges);
        groups.iter_mut().for_each(|group| group.rows.retain(speaks));
        groups.retain(|group| !group.rows.is_empty());
        groups
    };
    if let Some(answer) = of_groups(run, &with(false)) {
        return Some(answer);
    }
    let injected = of_groups(run, &with(true))?;
    let sentences = std::iter::once(injected.headline).chain(injected.sentences).collect();
    Some(Answer { headline: words::speaks_for_nothing(run), sentences, ..injected })
}

fn of_groups(run: &Run, groups: &[Group<'_>]) -> Option<Answer> {
    let compared = |group: &&Group<'_>| group.rows.iter().any(|row| row.speed_up().is_some());
    let group = groups.iter().find(compared).or(groups.first())?;
    let none = none(group);
    let best = best(run, group, none);
    let sentences = [
        none.and_then(|_| no_difference(&best)),
        without_pauses(group),
        none.and_then(|none| cause(run, none)),
        none.and_then(|none| slower(group, none)),
        none.and_then(|none| elsewhere(groups, none)),
        other_paths(run, groups, group),
    ];
    let best_remedy = best.split_first().map(|(first, ties)| BestRemedy {
        case: first.id.clone(),
        no_difference: ties.iter().map(|row| row.id.clone()).collect(),
        speed_up: first.speed_up(),
    });
    Some(Answer {
        headline: headline(group, none, &best),
        sentences: sentences.into_iter().flatten().collect(),
        best_remedy,
        ..Answer::default()
    })
}

fn remedy(row: &CaseSummary) -> Option<Remedy> {
    row.case.primary().load.exchange().map(|exchange| exchange.remedy)
}

fn none<'r>(group: &Group<'r>) -> Option<&'r CaseSummary> {
    group.rows.iter().copied().find(|row| remedy(row) == Some(Remedy::Default))
}

/// The number of `--gap` pauses in an exchange, if it does not have all of them.
fn pauses_left(row: &CaseSummary) -> Option<usize> {
    row.case.primary().load.exchange()?.pauses_left()
}

/// The remedy with the most bytes per ms, and those without a difference found from it. If `default` was measured, only
/// remedies whose speed-up excludes 1, or without an interval those that the comparison at p50 found faster; and only
/// those with the pauses of `default`, if there are any.
fn best<'r>(run: &Run, group: &Group<'r>, none: Option<&CaseSummary>) -> Vec<&'r CaseSummary> {
    let faster_at_p50 = |none: &CaseSummary, row: &CaseSummary| {
        let pair = |one: &&Comparison| one.baseline == none.id && one.candidate == row.id;
        run.comparisons.iter().find(pair).is_some_and(|one| one.verdict == Verdict::Faster)
    };
    let proved = |row: &&CaseSummary| {
        let Some(none) = none else { return true };
        row.speed_up().is_some_and(|figure| {
            figure.value > 1.0 && (figure.excludes(1.0) || (figure.low.is_none() && faster_at_p50(none, row)))
        })
    };
    // A remedy that merges writes has none of the `--gap` pauses, and would win by that alone.
    let pauses = |row: &CaseSummary| pauses_left(row).is_none();
    let any_pauses = group.rows.iter().copied().any(|row| pauses(row) && remedy(row) != Some(Remedy::Default));
    let mut rows = group.rows.iter().copied().filter(proved).filter(|row| !any_pauses || pauses(row));
    let Some(first) = rows.next() else { return Vec::new() };
    std::iter::once(first).chain(rows.filter(|row| !first.moves_more(row))).collect()
}

fn headline(group: &Group<'_>, none: Option<&CaseSummary>, best: &[&CaseSummary]) -> String {
    let case = &group.rows[0].case;
    let request = case.primary().load.exchange().map(|exchange| ladder::request(case, exchange)).unwrap_or_default();
    let what = match path::over(case) {
        Some(over) => format!("exchange of {request} by {} {over}", case.primary().transport),
        None => format!("exchange of {request} over {}", case.primary().transport),
    };
    match (none, best) {
        (Some(none), [first, ..]) => {
            let gain =
                first.speed_up().map(|figure| format!(": {} as fast{}", factor(figure.value), interval(figure)));
            format!(
                "An {what} takes {} at p50 with default options, and {} with {}{}{}.",
                p50(none),
                p50(first),
                row_name(first),
                unpaused(first),
                gain.unwrap_or_default()
            )
        }
        (Some(none), []) => {
            let tried = group.rows.iter().filter(|row| row.id != none.id && pauses_left(row).is_none());
            let has_interval = |row: &CaseSummary| row.speed_up().is_some_and(|figure| figure.low.is_some());
            let unproved = match tried.map(|row| has_interval(row)).reduce(|all, one| all && one) {
                None => "",
                Some(true) => "; no remedy was found to be faster",
                Some(false) => "; the rounds are too few to tell which remedy is faster",
            };
            format!(
                "An {what} takes {} at p50 with default options{unproved}.",
                words::with_interval(none.primary().latency_ns.p50)
            )
        }
        (None, [first, ties @ ..]) => {
            let (name, took) = (row_name(first), words::with_interval(first.primary().latency_ns.p50));
            let moved = first.bytes_per_ms().map(|figure| byte_rate(figure.value * 1e3));
            let moved = moved.unwrap_or_default();
            match ties {
                _ if group.rows.len() == 1 => format!("An {what} takes {took} at p50 with {name}: {moved}."),
                [] => format!("Fastest remedy for an {what}: {name}{}, {moved}, p50 {took}.", unpaused(first)),
                _ => format!(
                    "Fastest remedies for an {what}, no difference found: {}. {name} moves {moved}, p50 {took}.",
                    names(best)
                ),
            }
        }
        (None, []) => format!("No remedy for an {what} has usable figures."),
    }
}

fn names(rows: &[&CaseSummary]) -> String {
    joined(&rows.iter().map(|row| row_name(row)).collect::<Vec<_>>())
}

/// A note if the first remedy lacks pauses of the others, in brackets after a blank; else empty.
fn unpaused(first: &CaseSummary) -> &'static str {
    match pauses_left(first) {
        Some(0) => " (without the pauses that --gap puts between writes)",
        Some(_) => " (with fewer of the pauses that --gap puts between writes)",
        None => "",
    }
}

/// The interval of a figure without a unit, after a blank; empty if it has none.
fn interval(figure: Figure) -> String {
    figure.interval().map_or_else(String::new, |(low, high)| {
        format!(" (95 % interval {})", number_bounds(figure.value, low, high))
    })
}

/// The remedies without a difference found from the first.
fn no_difference(best: &[&CaseSummary]) -> Option<String> {
    (best.len() > 1).then(|| format!("No difference found between {}.", names(best)))
}

/// Cases that are not compared because they lack the `--gap` pauses.
fn without_pauses(group: &Group<'_>) -> Option<String> {
    let row = group.rows.iter().copied().find(|row| pauses_left(row) == Some(0))?;
    let exchange = row.case.primary().load.exchange()?;
    let pauses = exchange.writes.sizes().len().saturating_sub(1);
    let gap_ns = exchange.gap_ns as f64;
    Some(format!(
        "{} ({}) is not compared: it has none of the {} of {} that --gap puts between the writes of a request. \
         They are {} in all, which the program may need for other work.",
        row_name(row),
        p50(row),
        counted(pauses as u64, "pause"),
        duration(gap_ns),
        duration(gap_ns * pauses as f64)
    ))
}

/// Remedies found slower than the default options.
fn slower(group: &Group<'_>, none: &CaseSummary) -> Option<String> {
    let told = |row: &CaseSummary| {
        let figure = row.speed_up().filter(|figure| figure.value < 1.0 && figure.excludes(1.0))?;
        Some(format!("{} ({})", row_name(row), factor(figure.value)))
    };
    let rows: Vec<String> = group.rows.iter().filter(|row| row.id != none.id).filter_map(|row| told(row)).collect();
    let is = if rows.len() == 1 { "is" } else { "are" };
    (!rows.is_empty()).then(|| format!("{} {is} slower than default options.", joined(&rows)))
}

/// The same writes with default options over the other transports.
fn elsewhere(groups: &[Group<'_>], none: &CaseSummary) -> Option<String> {
    let alike = |row: &&CaseSummary| {
        row.case.primary().transport != none.case.primary().transport
            && row.case.primary().load.exchange() == none.case.primary().load.exchange()
            && (row.case.ends.waiting, row.case.ends.placement) == (none.case.ends.waiting, none.case.ends.placement)
            && path::alike(&row.case, &none.case)
    };
    let told = |row: &CaseSummary| format!("{} over {}", p50(row), row.case.primary().transport);
    let rows: Vec<String> = groups.iter().flat_map(|group| &group.rows).copied().filter(alike).map(told).collect();
    (!rows.is_empty()).then(|| format!("The same writes take {}.", joined(&rows)))
}

/// The same exchange over the other paths of the run: with default options, and with the best remedy.
fn other_paths(run: &Run, groups: &[Group<'_>], group: &Group<'_>) -> Option<String> {
    let told = |other: &Group<'_>| {
        let none = none(other)?;
        let best = best(run, other, Some(none));
        let best =
            best.first().map_or_else(String::new, |first| format!(", and {} with {}", p50(first), row_name(first)));
        Some(format!("{} it takes {} with default options{best}", other.path.as_ref()?, p50(none)))
    };
    let others = groups.iter().filter(|other| other.ends == group.ends && other.path != group.path);
    let rows: Vec<String> = others.filter_map(told).collect();
    (!rows.is_empty()).then(|| capitalised(&format!("{}.", rows.join("; "))))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Minimum share of an exchange for a cause in the headline.
const MUCH: f64 = 0.1;

/// The finding that explains most of an exchange with default options and was not refuted.
fn cause(run: &Run, none: &CaseSummary) -> Option<String> {
    let speaks_of_it = |finding: &&Finding| {
        finding.share >= MUCH
            && finding.severity != Severity::Note
            && finding.cases.contains(&none.id)
            && finding.proved.as_ref().is_none_or(|proved| proved.verdict == "confirmed")
    };
    let finding = run.findings.iter().find(speaks_of_it)?;
    // The share of a finding is that of the case it explains best.
    let to = if finding.cases.len() > 1 { "up to " } else { "" };
    Some(format!("Finding {} explains {to}{} of an exchange.", finding.code, share(finding.share)))
}
