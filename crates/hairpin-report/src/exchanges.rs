//! What is said of cases of exchanges: the answer, the speed-up, the first exchanges, and the evidence beside them.

use std::cmp::Ordering;

use hairpin_model::exchange::Remedy;
use hairpin_model::figure::Figure;
use hairpin_model::finding::{Finding, Severity};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Comparison, Verdict};
use hairpin_model::trace::Capture;

use crate::ladder::{self, Group, Kind};
use crate::links;
use crate::quantities::{self, Micro};
use crate::wording::{self, Answer};

/// Why the first exchanges have a table of their own.
pub(crate) const WHY_FIRST: &str = "A connection's first exchanges are not like its later ones (Linux acknowledges at \
                                    once at first, and caches are cold), so they are shown apart from the steady state.";

/// An exchange differs from the steady state where its interval excludes the p50 and it is so many times as long or
/// as short.
const DIFFERS: f64 = 1.5;

/// `bytes_per_ms` against that of the same case with remedy `none`.
pub(crate) fn speed_up(row: &CaseSummary) -> Option<Figure> {
    row.exchanges.as_ref()?.speed_up_against_none.filter(|figure| figure.value.is_finite())
}

/// The first exchanges of a connection, in ns; empty where the case has none.
pub(crate) fn early_ns(row: &CaseSummary) -> Vec<f64> {
    let early = |figures: &hairpin_model::summary::ExchangeFigures| {
        figures.early_exchanges_ns.iter().map(|figure| figure.value).collect()
    };
    row.exchanges.as_ref().map(early).unwrap_or_default()
}

/// Whether one of the first exchanges is unlike the steady state.
pub(crate) fn first_differ(row: &CaseSummary) -> bool {
    let Some((figures, p50)) = row.exchanges.as_ref().zip(ladder::p50_ns(row)) else { return false };
    let differs = |figure: &Figure| {
        let ratio = figure.value / p50;
        figure.excludes(p50) && !(1.0 / DIFFERS..=DIFFERS).contains(&ratio)
    };
    figures.early_exchanges_ns.iter().any(differs)
}

/// Which cases the table of first exchanges leaves out, and why; null where it has all.
pub(crate) fn first_left_out(groups: &[&Group<'_>]) -> Option<String> {
    let of = |group: &Group<'_>| {
        let alike = group.rows.iter().filter(|row| !first_differ(row));
        let names: Vec<String> = alike.map(|row| ladder::row_name(row)).collect();
        (!names.is_empty()).then(|| format!("{} ({})", names.join(", "), group.name))
    };
    let groups: Vec<String> = groups.iter().filter_map(|group| of(group)).collect();
    (!groups.is_empty()).then(|| {
        format!(
            "Not shown, as no first exchange is {DIFFERS} times as long or as short as the p50 with an interval that \
             excludes it: {}.",
            groups.join("; ")
        )
    })
}

/// How many of the pauses of `--gap` an exchange has, against those that its request would have in single writes; null
/// where it has all of them, or where there are none.
fn pauses_left(row: &CaseSummary) -> Option<usize> {
    let exchange = row.case.exchange.as_ref().filter(|exchange| exchange.gap_ns > 0)?;
    let calls = exchange.calls_written();
    (calls < exchange.writes.sizes().len()).then(|| calls.saturating_sub(1))
}

/// Which remedies pause less often than `--gap` says, as they merge writes; null where all pause alike.
pub(crate) fn gap_note(groups: &[&Group<'_>]) -> Option<String> {
    let (mut without, mut fewer): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for row in groups.iter().flat_map(|group| &group.rows) {
        let names = match pauses_left(row) {
            Some(0) => &mut without,
            Some(_) => &mut fewer,
            None => continue,
        };
        names.extend(remedy(row).map(|remedy| remedy.to_string()).filter(|name| !names.contains(name)));
    }
    let said = |names: &[String], what: &str| {
        let have = if names.len() == 1 { "has" } else { "have" };
        (!names.is_empty()).then(|| format!("{} {have} {what}", joined(names, "and")))
    };
    let said: Vec<String> = [said(&without, "none"), said(&fewer, "fewer")].into_iter().flatten().collect();
    (!said.is_empty()).then(|| {
        format!(
            "--gap pauses between writes: {}. If the pause is work that a request needs anyhow, add it to their figures.",
            said.join(", ")
        )
    })
}

fn remedy(row: &CaseSummary) -> Option<Remedy> {
    row.case.exchange.as_ref().map(|exchange| exchange.remedy)
}

/// A case that the answer may name: valid, measured, no second of a pair.
fn speaks(row: &CaseSummary) -> bool {
    row.valid && ladder::p50_ns(row).is_some() && row.case.twin == 0
}

/// The answer for a run of exchanges: what they take with nothing done, and which remedy is fastest. Of several groups
/// it speaks of the first in which remedies were compared with `none`; null where no case speaks. Cases with a planted
/// fault do so only where there are no others, and then that is said first.
pub(crate) fn answer(run: &Run, micro: Micro) -> Option<Answer> {
    let with = |planted: bool| -> Vec<Group<'_>> {
        let speaks = |row: &&CaseSummary| speaks(row) && row.case.plant.is_some() == planted;
        let mut groups = ladder::groups(run);
        groups.retain(|group| group.kind == Kind::Exchanges);
        groups.iter_mut().for_each(|group| group.rows.retain(speaks));
        groups.retain(|group| !group.rows.is_empty());
        groups
    };
    if let Some(answer) = answer_of(run, &with(false), micro) {
        return Some(answer);
    }
    let Answer { lead, more } = answer_of(run, &with(true), micro)?;
    Some(Answer { lead: wording::speaks_for_nothing(run), more: std::iter::once(lead).chain(more).collect() })
}

fn answer_of(run: &Run, groups: &[Group<'_>], micro: Micro) -> Option<Answer> {
    let compared = |group: &&Group<'_>| group.rows.iter().any(|row| speed_up(row).is_some());
    let group = groups.iter().find(compared).or(groups.first())?;
    let none = group.rows.iter().copied().find(|row| remedy(row) == Some(Remedy::None));
    let fastest = fastest(run, group, none);
    let lead = lead(group, none, &fastest, micro);
    let more = [
        ties(&fastest),
        without_pauses(group, micro),
        none.and_then(|none| cause(run, none)),
        none.and_then(|none| worse(group, none)),
        none.and_then(|none| elsewhere(groups, none, micro)),
        other_paths(run, groups, group, micro),
    ];
    Some(Answer { lead, more: more.into_iter().flatten().collect() })
}

/// The remedies that move most bytes a millisecond (of those that pause as `none` does, where there are any): the first, and those that cannot be told apart from it. Where
/// `none` was measured only those whose speed-up against it excludes 1, or where that has no interval those that are faster
/// at p50 by the comparison with it.
fn fastest<'r>(run: &Run, group: &Group<'r>, none: Option<&CaseSummary>) -> Vec<&'r CaseSummary> {
    let faster_at_p50 = |none: &CaseSummary, row: &CaseSummary| {
        let pair = |one: &&Comparison| one.baseline == none.id && one.candidate == row.id;
        run.comparisons.iter().find(pair).is_some_and(|one| one.verdict == Verdict::Faster)
    };
    let proved = |row: &&CaseSummary| {
        let Some(none) = none else { return true };
        speed_up(row).is_some_and(|figure| {
            figure.value > 1.0 && (figure.excludes(1.0) || (figure.low.is_none() && faster_at_p50(none, row)))
        })
    };
    // A remedy that merges writes has not the pauses of --gap: held against one that pauses it would win by those alone.
    let alike = |row: &&CaseSummary| pauses_left(row).is_none();
    let any_alike = group.rows.iter().copied().any(|row| alike(&row) && remedy(row) != Some(Remedy::None));
    let mut rows = group.rows.iter().copied().filter(proved).filter(|row| !any_alike || alike(row));
    let Some(first) = rows.next() else { return Vec::new() };
    std::iter::once(first).chain(rows.filter(|row| !ladder::moves_more(first, row))).collect()
}

fn lead(group: &Group<'_>, none: Option<&CaseSummary>, fastest: &[&CaseSummary], micro: Micro) -> String {
    let case = &group.rows[0].case;
    let request = case.exchange.as_ref().map(|exchange| ladder::request(case, exchange)).unwrap_or_default();
    let what = match links::over(case) {
        Some(over) => format!("exchange of {request} by {} {over}", case.transport),
        None => format!("exchange of {request} over {}", case.transport),
    };
    let p50 = |row: &CaseSummary| wording::with_interval(row.latency_ns.p50, micro);
    match (none, fastest.first()) {
        (Some(none), Some(first)) => {
            let short = |row: &CaseSummary| quantities::duration(ladder::p50_ns(row).unwrap_or(f64::NAN), micro);
            let name = ladder::row_name(first);
            let most = if first.id == group.rows[0].id { "the most" } else { "more" };
            let gain = speed_up(first).map(|figure| gain(figure, micro)).unwrap_or_default();
            let pauses = unpaused(first);
            format!(
                "An {what} takes {} at p50 with nothing done against stalls, and {} with {name}{pauses}, which moves \
                 {most} bytes a millisecond: {gain}.",
                short(none),
                short(first),
            )
        }
        (Some(none), None) => {
            let others = group.rows.len() > 1;
            let unproved = if others { "; no remedy is proved to be faster" } else { "" };
            format!("An {what} takes {} at p50 with nothing done against stalls{unproved}.", p50(none))
        }
        (None, Some(first)) => {
            let bytes = ladder::bytes_per_ms(first).map(|figure| moved(figure, micro)).unwrap_or_default();
            format!(
                "The fastest remedy for an {what} is {}{}: it moves {bytes}, at p50 in {}.",
                ladder::row_name(first),
                unpaused(first),
                p50(first)
            )
        }
        (None, None) => String::new(),
    }
}

/// That the fastest has not all pauses of the others, in brackets after a blank; empty where it has.
fn unpaused(first: &CaseSummary) -> &'static str {
    match pauses_left(first) {
        Some(0) => " (without the pauses of --gap, which are between writes)",
        Some(_) => " (with fewer pauses of --gap, which are between writes)",
        None => "",
    }
}

/// What is not compared, as it has not the pauses of `--gap`: `The 99 pauses of 1 ms that --gap makes in a request are none
/// of one-write (20.0 us): it is quicker by 99.0 ms of work that the program may need anyhow.`
fn without_pauses(group: &Group<'_>, micro: Micro) -> Option<String> {
    let row = group.rows.iter().copied().find(|row| pauses_left(row) == Some(0))?;
    let exchange = row.case.exchange.as_ref()?;
    let pauses = exchange.writes.sizes().len().saturating_sub(1);
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let (gap, all) = (exchange.gap_ns as f64, exchange.gap_ns as f64 * pauses as f64);
    let duration = |ns: f64| quantities::duration(ns, micro);
    Some(format!(
        "{} ({}) is not compared: it leaves out the {} of {} that --gap makes in a request, {} of work that the program may \
         need anyhow.",
        ladder::row_name(row),
        duration(ladder::p50_ns(row)?),
        wording::counted(pauses as u64, "pause"),
        duration(gap),
        duration(all)
    ))
}

/// The remedies that cannot be told apart from the fastest.
fn ties(fastest: &[&CaseSummary]) -> Option<String> {
    let (first, ties) = fastest.split_first()?;
    let names: Vec<String> = ties.iter().map(|row| ladder::row_name(row)).collect();
    let (names, first) = ((!names.is_empty()).then(|| joined(&names, "and"))?, ladder::row_name(first));
    Some(format!("By bytes a millisecond {names} cannot be told apart from {first}."))
}

/// `839 times as many as with nothing done (95 % interval 812-861)`.
fn gain(speed_up: Figure, micro: Micro) -> String {
    format!("{} as many{}", quantities::times(speed_up.value), interval(speed_up, micro))
}

/// `14125 bytes a millisecond (95 % interval 14012-14280)`.
fn moved(bytes_per_ms: Figure, micro: Micro) -> String {
    format!("{} bytes a millisecond{}", quantities::number(bytes_per_ms.value), interval(bytes_per_ms, micro))
}

/// The interval of a figure without a unit, after a blank; empty where it has none.
fn interval(figure: Figure, micro: Micro) -> String {
    ladder::interval(Some(figure)).map_or_else(String::new, |(low, high)| {
        format!(" (95 % interval {})", quantities::number_bounds(figure.value, low, high, micro))
    })
}

/// Remedies that are proved to be slower than nothing.
fn worse(group: &Group<'_>, none: &CaseSummary) -> Option<String> {
    let slower = |row: &CaseSummary| {
        let figure = speed_up(row).filter(|figure| figure.value < 1.0 && figure.excludes(1.0))?;
        Some(format!("{} ({} the bytes a millisecond)", ladder::row_name(row), quantities::factor(figure.value)))
    };
    let rows: Vec<String> = group.rows.iter().filter(|row| row.id != none.id).filter_map(|row| slower(row)).collect();
    let is = if rows.len() == 1 { "is" } else { "are" };
    (!rows.is_empty()).then(|| format!("{} {is} slower than doing nothing.", joined(&rows, "and")))
}

/// The same writes with nothing done over the other transports.
fn elsewhere(groups: &[Group<'_>], none: &CaseSummary, micro: Micro) -> Option<String> {
    let alike = |row: &&CaseSummary| {
        row.case.transport != none.case.transport
            && row.case.exchange == none.case.exchange
            && (row.case.waiting, row.case.placement) == (none.case.waiting, none.case.placement)
            && links::alike(&row.case, &none.case)
    };
    let said = |row: &CaseSummary| {
        let p50 = quantities::duration(ladder::p50_ns(row).unwrap_or(f64::NAN), micro);
        format!("{p50} over {}", row.case.transport)
    };
    let rows: Vec<String> = groups.iter().flat_map(|group| &group.rows).copied().filter(alike).map(said).collect();
    (!rows.is_empty()).then(|| format!("The same writes take {}.", joined(&rows, "and")))
}

/// The same exchange over the other paths of the run: with nothing done, and with what moves most.
fn other_paths(run: &Run, groups: &[Group<'_>], group: &Group<'_>, micro: Micro) -> Option<String> {
    let said = |other: &Group<'_>| {
        let p50 = |row: &CaseSummary| quantities::duration(ladder::p50_ns(row).unwrap_or(f64::NAN), micro);
        let none = other.rows.iter().copied().find(|row| remedy(row) == Some(Remedy::None))?;
        let best = fastest(run, other, Some(none))
            .first()
            .map_or_else(String::new, |first| format!(", and {} with {}", p50(first), ladder::row_name(first)));
        Some(format!("{} it takes {} with nothing done{best}", other.path.as_ref()?, p50(none)))
    };
    let others = groups.iter().filter(|other| other.ends == group.ends && other.path != group.path);
    let rows: Vec<String> = others.filter_map(said).collect();
    (!rows.is_empty()).then(|| capitalised(&format!("{}.", rows.join("; "))))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A cause explains at least this part of an exchange, or it is no headline.
const MUCH: f64 = 0.1;

/// The finding that explains most of an exchange with nothing done and that no counter-experiment refuted.
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
    let share = quantities::share(finding.share);
    Some(format!("Finding {} explains {to}{share} of an exchange.", finding.code))
}

/// Where the order of a chain, which is by p50, is not that of what is moved.
pub(crate) fn beyond_p50(chain: &[(ladder::Step, &CaseSummary)]) -> Option<String> {
    let names: Vec<String> = ladder::faster_than_its_p50(chain).into_iter().map(ladder::row_name).collect();
    let (is, it) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
    (!names.is_empty()).then(|| {
        format!(
            "By bytes a millisecond {} {is} faster than some before {it}: a p50 does not show stalls in fewer than half \
             of the exchanges.",
            joined(&names, "and")
        )
    })
}

/// `a, b and c`.
pub(crate) fn joined(names: &[String], last: &str) -> String {
    match names {
        [rest @ .., end] if !rest.is_empty() => format!("{} {last} {end}", rest.join(", ")),
        _ => names.join(""),
    }
}

/// What tracing adds to an exchange, by the case to which it adds most in proportion; null where it was not measured.
pub(crate) fn tracing_cost(run: &Run, micro: Micro) -> Option<String> {
    let costs = run.cases.iter().filter_map(|row| {
        let trace = row.trace.as_ref()?;
        Some((row, trace.cost_ns.filter(|cost| cost.value.is_finite())?, ladder::finite(trace.cost_ratio)?))
    });
    let costs: Vec<(&CaseSummary, Figure, f64)> = costs.collect();
    let adds = |cost: &Figure| cost.value > 0.0 && cost.excludes(0.0);
    let can_tell = costs.iter().filter(|(_, cost, _)| adds(cost)).count();
    let (row, cost, ratio) =
        costs.iter().max_by(|a, b| (adds(&a.1), a.2).partial_cmp(&(adds(&b.1), b.2)).unwrap_or(Ordering::Equal))?;
    let (case, size, bounds) = (name(row), quantities::duration(cost.value, micro), wording::range(*cost, micro));
    let said = if adds(cost) {
        let most = match (costs.len(), can_tell) {
            (1, _) => "",
            (all, some) if all == some => ", the largest relative increase of all cases",
            _ => ", the largest relative increase beyond round-to-round noise",
        };
        format!("adds {size}{bounds} to an exchange, {}, on {case}{most}", quantities::change(*ratio))
    } else {
        format!(
            "what it adds to an exchange cannot be told from the spread of its rounds; on {case} it is {size}{bounds}"
        )
    };
    Some(format!("{said}; it was measured in rounds of its own, and no figure of traced rounds is in the tables"))
}

fn name(row: &CaseSummary) -> String {
    // The name of a row begins with the transport, but for exchanges, where it begins with the remedy.
    let transport = row.case.exchange.as_ref().map(|_| row.case.transport.clone());
    let words = [transport, Some(ladder::row_name(row)), links::over(&row.case)];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The most names or files that a line lists.
const LISTED: usize = 4;

/// The first few of a list, and how many more there are.
pub(crate) fn shortened(names: &[String], most: usize) -> String {
    match names.len().saturating_sub(most) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..most].join(", ")),
    }
}

/// What became of the captures: those saved with their files, those that were not by reason. True with those lost.
pub(crate) fn captures(run: &Run) -> Vec<(bool, String)> {
    let mut saved: Vec<String> = Vec::new();
    let mut skipped: Vec<(String, Vec<String>)> = Vec::new();
    let mut notes = Vec::new();
    for (row, trace) in run.cases.iter().filter_map(|row| row.trace.as_ref().map(|trace| (row, trace))) {
        let name = name(row);
        match &trace.capture {
            Capture::Saved { file, packets, .. } if file.is_empty() => {
                let captured = wording::counted(*packets, "packet");
                notes.push((true, format!("{name}: {captured} captured and not saved: {}", why_unsaved(run))));
            }
            Capture::Saved { file, packets, dropped } => {
                if *dropped > 0 {
                    let lost = wording::counted(*dropped, "packet");
                    notes.push((true, format!("{name}: the ring had no room for {lost}, which {file} lacks")));
                }
                saved.push(format!("{file} ({name}, {})", wording::counted(*packets, "packet")));
            }
            Capture::Skipped { reason } => match skipped.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name),
                None => skipped.push((reason.clone(), vec![name])),
            },
        }
    }
    if !saved.is_empty() {
        notes.insert(0, (false, shortened(&saved, LISTED)));
    }
    notes.extend(
        skipped
            .into_iter()
            .map(|(reason, names)| (false, format!("none of {}: {reason}", shortened(&names, LISTED)))),
    );
    notes
}

/// Why a capture has no file: what the run could not save, as it says it.
fn why_unsaved(run: &Run) -> String {
    let causes: Vec<String> = run.unsaved.iter().map(|failure| failure.cause.clone()).collect();
    match causes.as_slice() {
        [] => "the run names no file of it and no cause".to_owned(),
        causes => shortened(causes, 1),
    }
}
