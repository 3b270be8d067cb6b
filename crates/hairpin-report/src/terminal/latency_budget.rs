//! Latency budgets as tables of parts by band, and the median round trip as a waterfall.

use hairpin_model::latency_budget::BandName;
use hairpin_model::quantities::duration;
use hairpin_model::{Band, LatencyBudget, Run};

use super::page::{DIM, LEAD, PLAIN, Page};
use super::tables::Block;
use crate::latency_budget::{budgets, label, notes, rows};

/// Shows the budgets. Returns false for a run without budgets.
pub(super) fn tables(page: &mut Page, run: &Run) -> bool {
    let all = budgets(run);
    for (row, budget) in &all {
        page.heading("Latency budget", &row.label);
        table(page, budget);
        if let Some(median) = budget.band(BandName::P50) {
            waterfall(page, median);
        }
        notes(budget).iter().for_each(|note| page.paragraph(0, DIM, note));
    }
    !all.is_empty()
}

fn table(page: &mut Page, budget: &LatencyBudget) {
    let mut block = Block::new(budget.bands.iter().map(|band| band.band.to_string()));
    for (name, cells) in rows(budget) {
        let style = match name.as_str() {
            "round trip" => LEAD,
            other if other == "samples" || other.starts_with('(') => DIM,
            _ => PLAIN,
        };
        block.row(style, &on_lines(&name), cells.into_iter());
    }
    block.show(page);
    page.paragraph(0, DIM, "Means of each band, at least 30 samples. In parentheses: not on the path.");
}

/// Maximum width of a name in the table; the second part of a longer one is on a line of its own.
const MAX_NAME: usize = 20;

fn on_lines(name: &str) -> Vec<String> {
    let second = [" and ", " to "].iter().find_map(|word| name.find(word)).filter(|_| name.len() > MAX_NAME);
    match second {
        Some(at) => vec![name[..at].to_owned(), format!("   {}", &name[at..])],
        None => vec![name.to_owned()],
    }
}

const TIME_WIDTH: usize = 9;

fn waterfall(page: &mut Page, band: &Band) {
    let Some(round_trip_ns) = band.round_trip_ns else { return };
    page.gap();
    page.line(LEAD, &format!("Waterfall of the band p50, {}", duration(round_trip_ns)));
    let widest = band.parts.iter().map(|part| label(part).chars().count()).max().unwrap_or(0);
    let room = page.look.width.saturating_sub(widest + 2 + TIME_WIDTH);
    let column = |share: f64| (share.clamp(0.0, 1.0) * room as f64).round() as usize;
    let mut from = 0.0;
    for part in &band.parts {
        let to = from + part.share;
        let (begin, end) = (column(from.min(to)).min(room.saturating_sub(1)), column(from.max(to)));
        let length = end.saturating_sub(begin).max(usize::from(part.mean_ns != 0.0));
        let bar = format!("{}{}", " ".repeat(begin), "#".repeat(length));
        let line = format!("{:<widest$}  {bar:<room$} {:>8}", label(part), duration(part.mean_ns));
        page.line(PLAIN, &line);
        from = to;
    }
    page.gap();
}
