//! The table of observers: a row each, and for each transport the share of the rate that it costs and the time per
//! message.

use hairpin_model::names::{distinct, grouped};
use hairpin_model::quantities::{DASH, duration, share};
use hairpin_model::{CaseSummary, ObserverCost, Run};

use super::page::{DIM, PLAIN, Page};
use super::tables::{Block, GAP};

/// Width of the longest name of an observer, and its indent.
const NAME_WIDTH: usize = 22;

/// Shows the table. Returns whether the run has observers with a known cost.
pub(super) fn table(page: &mut Page, run: &Run) -> bool {
    let costs = run.cases.iter().filter_map(|row| Some((row, row.one_way()?.observer.first()?)));
    let costs: Vec<(&CaseSummary, &ObserverCost)> = costs.filter(|(row, _)| row.valid).collect();
    if costs.is_empty() {
        return false;
    }
    page.heading("Observers", "what they cost against the same program without one");
    let legend = "at the left: share of messages/s that is lost, with its 95 % interval; each: time more per message; \
                  none: the same program again";
    page.paragraph(0, DIM, legend);
    let transport = |row: &CaseSummary| row.case.marked_transport();
    let all = distinct(costs.iter().map(|(row, _)| transport(row)));
    let titles = |name: &String| [name.clone(), "95 %".to_owned(), "each".to_owned()];
    let width_of = |name: &String| {
        let of_transport = costs.iter().filter(|(row, _)| transport(row) == *name);
        let texts: Vec<[String; 3]> = of_transport.map(|(_, cost)| cells(cost)).chain([titles(name)]).collect();
        let widest = |place: usize| texts.iter().map(|cells| cells[place].chars().count()).max().unwrap_or(0);
        (0..3).map(|place| GAP + widest(place)).sum::<usize>()
    };
    let mut rest = all.as_slice();
    while let [_, ..] = rest {
        let mut left = page.look.width.saturating_sub(NAME_WIDTH);
        let fits = rest.iter().take_while(|name| {
            let width = width_of(name);
            let fits = width <= left;
            left = left.saturating_sub(width);
            fits
        });
        let (some, others) = rest.split_at(fits.count().max(1));
        let mut block = Block::new(some.iter().flat_map(titles));
        for (words, costs) in grouped(costs.iter().map(|cost| (circumstances(cost.0), cost))) {
            block.title(&words);
            for (observer, costs) in grouped(costs.into_iter().map(|cost| (cost.1.observer, cost))) {
                let figures = some.iter().flat_map(|name| {
                    let found = costs.iter().find(|(row, _)| transport(row) == *name);
                    found.map_or_else(|| [(); 3].map(|()| DASH.to_owned()), |(_, cost)| cells(cost))
                });
                block.row(PLAIN, &[format!("  {observer}")], figures);
            }
        }
        block.show(page);
        rest = others;
    }
    true
}

fn cells(cost: &ObserverCost) -> [String; 3] {
    let lost = cost.rate_against_none.falling(|ratio| 1.0 - ratio);
    let interval = lost.interval().map(|(low, high)| {
        let between = if low < 0.0 { ".." } else { "-" };
        format!("{:.1}{between}{:.1}", 100.0 * low, 100.0 * high)
    });
    let each = duration(cost.time_per_message_against_none.value);
    [share(lost.value), interval.unwrap_or_else(|| DASH.to_owned()), each]
}

/// Returns the other settings of a case, without its transport and its observer, in words.
fn circumstances(row: &CaseSummary) -> String {
    let observer = format!("observer {}", row.case.primary().load.observer());
    let mut words = row.case.without_replicate().details();
    words.retain(|word| *word != observer);
    format!("{}, {}", words.join(" "), row.case.ends.in_words())
}
