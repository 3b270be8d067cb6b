//! Sentences about exchanges of small writes.

use hairpin_model::ladder::{self, row_name};
use hairpin_model::names::joined;
use hairpin_model::quantities::{byte_rate, counted, duration, factor, number_bounds};
use hairpin_model::{CaseSummary, path};

use super::figures::{interval, latency, p50};

/// Returns `exchange of 100x2 B over tcp`.
fn exchange(row: &CaseSummary) -> String {
    let case = &row.case;
    let request = case.primary().load.exchange().map(|exchange| ladder::request(case, exchange)).unwrap_or_default();
    let transport = &case.primary().transport;
    match path::over(case) {
        Some(over) => format!("exchange of {request} by {transport} {over}"),
        None => format!("exchange of {request} over {transport}"),
    }
}

/// Returns `one-write takes 24.1 us instead of 43.8 ms by default: 831x as fast, for an exchange of 100x2 B over tcp.`
pub(super) fn remedy(default: &CaseSummary, best: &CaseSummary) -> String {
    let gain = best
        .speed_up()
        .map(|figure| format!(": {} as fast{}", factor(figure.value), interval(figure, number_bounds)));
    format!(
        "{}{} takes {} instead of {} by default{}, for an {}.",
        row_name(best),
        pauses(best),
        p50(best),
        p50(default),
        gain.unwrap_or_default(),
        exchange(default)
    )
}

pub(super) fn no_remedy(default: &CaseSummary, have_intervals: Option<bool>) -> String {
    let unproved = match have_intervals {
        None => "",
        Some(true) if is_one_write(default) => {
            "; not measured: a request (--writes 4,1000) or an answer (--reply-writes 4,1000) that leaves in two writes"
        }
        Some(true) => "; no remedy was found to be faster",
        Some(false) => "; the rounds are too few to tell which remedy is faster",
    };
    format!("An {} takes {} at p50 with default options{unproved}.", exchange(default), full_p50(default))
}

fn is_one_write(row: &CaseSummary) -> bool {
    row.case.primary().load.exchange().is_some_and(|exchange| exchange.writes.sizes().len() == 1)
}

/// Returns `12.3 us in one write each, 43.8 ms if the request, 43.9 ms if the answer is two writes.`, and the exchange.
pub(super) fn in_two_writes(
    default: &CaseSummary,
    request: Option<&CaseSummary>,
    answer: Option<&CaseSummary>,
) -> String {
    let times = [("request", request), ("answer", answer)];
    let times = times.into_iter().filter_map(|(name, row)| Some(format!("{} if the {name}", p50(row?))));
    format!(
        "{} in one write each, {} is two writes. All are p50s of an {} with default options; no remedy was found to be faster if \
         request and answer are one write each.",
        p50(default),
        times.collect::<Vec<_>>().join(", "),
        exchange(default)
    )
}

pub(super) fn only_remedy(row: &CaseSummary) -> String {
    format!("An {} takes {} at p50 with {}: {}.", exchange(row), full_p50(row), row_name(row), rate(row))
}

pub(super) fn fastest(rows: &[&CaseSummary]) -> Option<String> {
    let first = *rows.first()?;
    let (what, name) = (exchange(first), row_name(first));
    let (moved, took) = (rate(first), full_p50(first));
    Some(if rows.len() == 1 {
        format!("Fastest remedy for an {what}: {name}{}, {moved}, p50 {took}.", pauses(first))
    } else {
        format!(
            "Fastest remedies for an {what}, not separated in this run: {}. {name} moves {moved}, p50 {took}.",
            names(rows)
        )
    })
}

fn full_p50(row: &CaseSummary) -> String {
    latency(row.primary().latency_ns.p50)
}

fn rate(row: &CaseSummary) -> String {
    row.bytes_per_ms().map(|figure| byte_rate(figure.value * 1e3)).unwrap_or_default()
}

fn names(rows: &[&CaseSummary]) -> String {
    joined(&rows.iter().map(|row| row_name(row)).collect::<Vec<_>>())
}

/// Returns a note with a leading space if the remedy has fewer pauses than `--gap` requests; otherwise empty.
fn pauses(row: &CaseSummary) -> &'static str {
    match row.case.primary().load.exchange().and_then(|exchange| exchange.pauses_left()) {
        Some(0) => " (without the pauses that --gap puts between writes)",
        Some(_) => " (with fewer of the pauses that --gap puts between writes)",
        None => "",
    }
}

pub(super) fn equal(rows: &[&CaseSummary]) -> Option<String> {
    (rows.len() > 1).then(|| format!("Not separated in this run: {}.", names(rows)))
}

pub(super) fn without_pauses(row: &CaseSummary) -> Option<String> {
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

pub(super) fn slower(rows: &[&CaseSummary]) -> Option<String> {
    let told = |row: &&CaseSummary| Some(format!("{} ({})", row_name(row), factor(row.speed_up()?.value)));
    let told: Vec<String> = rows.iter().filter_map(told).collect();
    let is = if told.len() == 1 { "is" } else { "are" };
    (!told.is_empty()).then(|| format!("{} {is} slower than default options.", joined(&told)))
}

pub(super) fn other_transports(rows: &[&CaseSummary]) -> Option<String> {
    let told = |row: &&CaseSummary| format!("{} over {}", p50(row), row.case.primary().transport);
    let told: Vec<String> = rows.iter().map(told).collect();
    (!told.is_empty()).then(|| format!("The same writes take {}.", joined(&told)))
}

/// Returns, for each path, the times with default options and with the best remedy, if any.
pub(super) fn other_paths(paths: &[Vec<&CaseSummary>]) -> Option<String> {
    let of_path = |rows: &Vec<&CaseSummary>| {
        let default = rows.first()?;
        let best = rows.get(1).map(|best| format!(", and {} with {}", p50(best), row_name(best))).unwrap_or_default();
        let over = path::over(&default.case).unwrap_or_else(|| "without a link".to_owned());
        Some(format!("{over} it takes {} with default options{best}", p50(default)))
    };
    let told: Vec<String> = paths.iter().filter_map(of_path).collect();
    (!told.is_empty()).then(|| capitalised(&format!("{}.", told.join("; "))))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
