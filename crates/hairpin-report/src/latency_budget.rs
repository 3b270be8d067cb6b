//! Texts of a latency budget: its verdict, the names of its parts, its cost, and what it lacks.

use hairpin_model::latency_budget::parts::{NETWORK, RECEIVE, RUN_QUEUE, SEND_QUEUE, SEND_STACK, WAKE_UP, WORK};
use hairpin_model::latency_budget::{BandName, MissingPoints, WhyMissing};
use hairpin_model::names::{distinct, joined};
use hairpin_model::quantities::{DASH, change_figure, count, counted, duration, share};
use hairpin_model::{Band, BudgetPart, CaseSummary, LatencyBudget, Run};

pub(crate) fn budgets(run: &Run) -> Vec<(&CaseSummary, &LatencyBudget)> {
    run.cases.iter().filter_map(|row| Some((row, row.budget.as_ref()?))).collect()
}

/// Returns `of the slowest 1 %, 82 % is waiting for a CPU at the server`; `None` with too few samples.
pub(crate) fn verdict(budget: &LatencyBudget) -> Option<String> {
    let band = budget.judged()?;
    let largest = band.largest()?;
    let of = if band.band == BandName::Slowest { "the slowest 1 %" } else { "a median round trip" };
    Some(format!("of {of}, {} is {}", share(largest.share), in_words(largest)))
}

fn in_words(part: &BudgetPart) -> String {
    let Some(end) = part.end else { return format!("{}, in both directions together", part.name) };
    match part.name.as_str() {
        RUN_QUEUE => format!("waiting for a CPU at the {end}"),
        WAKE_UP => format!("waking the {end}"),
        RECEIVE => format!("receiving at the {end}"),
        WORK => format!("work of the {end}"),
        SEND_STACK => format!("sending in the {end}'s stack"),
        SEND_QUEUE => format!("the {end}'s send queue"),
        NETWORK => format!("the network to the {end}"),
        union => format!("{union} on the way to the {end}, not separated"),
    }
}

/// The name of a part for tables and charts: `server: run-queue`.
pub(crate) fn label(part: &BudgetPart) -> String {
    match (part.name.as_str(), part.end) {
        (NETWORK, Some(end)) => format!("{NETWORK} to {end}"),
        (name, Some(end)) => format!("{end}: {name}"),
        (name, None) => format!("both ways: {name}"),
    }
}

/// The rows of the table, each with its name and a cell for each band: parts in the order of the path, the round trip,
/// the samples, and in parentheses the calls that are not on the path. A dash: too few samples.
pub(crate) fn rows(budget: &LatencyBudget) -> Vec<(String, Vec<String>)> {
    let each = |cell: &dyn Fn(&Band) -> String| budget.bands.iter().map(cell).collect::<Vec<String>>();
    let of = |parts: fn(&Band) -> &[BudgetPart]| {
        let labels = distinct(budget.bands.iter().flat_map(|band| parts(band).iter().map(label)));
        let row = |name: String| {
            let part = |band: &Band| parts(band).iter().find(|part| label(part) == name).map(share_of_time);
            let dash = |band: &Band| if band.round_trip_ns.is_none() { DASH } else { "" }.to_owned();
            let cells = each(&|band| part(band).unwrap_or_else(|| dash(band)));
            (name, cells)
        };
        labels.into_iter().map(row).collect::<Vec<_>>()
    };
    let whole =
        |band: &Band| band.round_trip_ns.map_or_else(|| DASH.to_owned(), |ns| format!("{} 100 %", duration(ns)));
    let sums = [("round trip".to_owned(), each(&whole)), ("samples".to_owned(), each(&|band| count(band.samples)))];
    let calls = of(|band| &band.beside).into_iter().map(|(name, cells)| (format!("({name})"), cells));
    of(|band| &band.parts).into_iter().chain(sums).chain(calls).collect()
}

/// Returns `1.24 us  45 %`.
fn share_of_time(part: &BudgetPart) -> String {
    // Adding 0 turns a negative zero into zero.
    let percent = (part.share * 100.0).round() + 0.0;
    format!("{} {:>4}", duration(part.mean_ns), format!("{percent} %"))
}

/// What stamping costs, what the unions consist of, and what is missing.
pub(crate) fn notes(budget: &LatencyBudget) -> Vec<String> {
    let cost = [("sampled round trips", budget.cost.stamped), ("the others in their rounds", budget.cost.others)];
    let cost: Vec<String> =
        cost.iter().filter_map(|(what, ratio)| Some(format!("{what} {}", change_figure((*ratio)?)))).collect();
    let cost = (!cost.is_empty())
        .then(|| format!("Cost of stamping: {}, p50 against rounds without stamps.", cost.join("; ")));
    // The name of a union of two says what it is.
    let unions = budget
        .unions
        .iter()
        .filter(|union| union.of.len() > 2)
        .map(|union| format!("Not separated in {}: {}.", union.name, joined(&union.of)));
    cost.into_iter().chain(unions).chain(budget.missing.iter().map(missing)).collect()
}

fn missing(points: &MissingPoints) -> String {
    let MissingPoints { end, why, detail, count } = points;
    let [round_trips, rounds] = ["round trip", "round"].map(|thing| counted(*count, thing));
    match why {
        WhyMissing::Refused => format!("The {end} has no kernel stamps in {rounds}: {detail}."),
        WhyMissing::NotReported => format!("The {end} reported no times of {round_trips}."),
        WhyMissing::Lost => format!("The {end}'s kernel gave not all stamps of {round_trips}."),
        WhyMissing::ClockSet => format!("Not counted, as the {end}'s clock was set meanwhile: {rounds}."),
    }
}

/// A layer of the table of typical values in claim A6 (docs/claims.md): its name, its range, and the parts in it.
type Layer = (&'static str, &'static str, &'static [&'static str]);

const TYPICAL: &[Layer] = &[
    ("application", "0.1-5 ms", &[WORK]),
    ("kernel buffers and stack", "0.1-5 ms", &[SEND_STACK, RECEIVE]),
    ("Nagle and delayed ACK", "40-200 ms", &[]),
    ("driver and network card", "0.05-1 ms", &[SEND_QUEUE]),
    ("network", "0.1-10 ms", &[NETWORK]),
    ("receiver's scheduling", "0.5-5 ms", &[RUN_QUEUE, WAKE_UP]),
];

/// Returns the layers of the published table, each with its typical value and this machine's: the sum over both ends in
/// a median round trip. A round trip of one write each has no wait for an ACK.
pub(crate) fn typical(budget: &LatencyBudget) -> Vec<[String; 3]> {
    let parts = budget.band(BandName::P50).map_or(&[][..], |band| &band.parts);
    let here = |names: &[&str]| {
        let of = parts.iter().filter(|part| names.contains(&part.name.as_str())).map(|part| part.mean_ns);
        of.reduce(|one, other| one + other).map_or_else(|| DASH.to_owned(), duration)
    };
    TYPICAL.iter().map(|(layer, range, names)| [(*layer).to_owned(), (*range).to_owned(), here(names)]).collect()
}

pub(crate) fn colour(part: &BudgetPart) -> usize {
    const OF_UNIONS: usize = 6;
    let names = [SEND_STACK, SEND_QUEUE, NETWORK, RUN_QUEUE, WAKE_UP, WORK];
    let name = if part.name == RECEIVE { WAKE_UP } else { &part.name };
    names.iter().position(|known| *known == name).unwrap_or(OF_UNIONS)
}

#[cfg(test)]
mod tests {
    use hairpin_model::trace::End;

    use super::*;

    #[test]
    fn each_part_has_its_words() {
        let part = |name: &str, end| BudgetPart { name: name.to_owned(), end, mean_ns: 1.0, share: 0.5 };
        let server = Some(End::Server);
        let told = |name, end| in_words(&part(name, end));
        assert_eq!(told(RUN_QUEUE, server), "waiting for a CPU at the server");
        assert_eq!(told(NETWORK, Some(End::Client)), "the network to the client");
        assert_eq!(
            told("network and wake-up", server),
            "network and wake-up on the way to the server, not separated"
        );
        assert_eq!(told("network", None), "network, in both directions together");
        assert_eq!(label(&part(WAKE_UP, server)), "server: wake-up");
        assert_eq!(label(&part(NETWORK, server)), "network to server");
        assert_eq!(label(&part(NETWORK, None)), "both ways: network");
        assert_eq!((colour(&part(WORK, server)), colour(&part("network and wake-up", server))), (5, 6));
    }
}
