//! Losses by cause: one bar per flow, with the causes stacked as shares of the sent messages.

use std::fmt::Write as _;

use hairpin_model::ledger::{DEVICE, LINK, QDISC, RECEIVE_BUFFER, SEND_BUFFER, in_words};
use hairpin_model::{FlowSummary, Ledger, quantities};

use super::over_time::legend;
use super::svg::{escape, lane_row, part};
use crate::one_way::{Blocks, Panel};
use crate::page_text::nbsp;

/// Known causes and their colours, in drawing order. Other causes follow.
const CAUSES: [(&str, usize); 5] = [(RECEIVE_BUFFER, 1), (SEND_BUFFER, 3), (QDISC, 4), (DEVICE, 6), (LINK, 0)];
const OTHER_COLOUR: usize = 2;
const LATE: &str = "late";
const UNEXPLAINED: &str = "unexplained";

/// Returns the chart; `None` if fewer than two flows sent messages, or if no message was lost.
pub(crate) fn chart(blocks: &Blocks<'_>) -> Option<String> {
    let flows = |panel: &Panel<'_>| -> Vec<Lane> {
        let rows = panel.series.iter().flat_map(|series| &series.rows);
        let lanes = rows.flat_map(|row| {
            let lane =
                |(name, flow): (String, &FlowSummary)| Lane { name, ledger: flow.ledger.clone(), valid: row.valid };
            blocks.shared.flows(row).into_iter().map(lane).collect::<Vec<_>>()
        });
        lanes.filter(|lane| lane.ledger.sent > 0).collect()
    };
    let is_lossy = |lane: &Lane| !parts(&lane.ledger).is_empty();
    let sent: Vec<Lane> = blocks.all.iter().flat_map(flows).collect();
    let (lossy, all) = (sent.iter().filter(|lane| is_lossy(lane)).count(), sent.len());
    if lossy == 0 || all < 2 {
        return None;
    }
    let mut html = String::from("<div class=\"losses\" role=\"list\">");
    let mut causes: Vec<String> = Vec::new();
    for panel in &blocks.all {
        let lanes: Vec<Lane> = flows(panel).into_iter().filter(is_lossy).collect();
        if !lanes.is_empty() {
            let _ = write!(html, "<h3 class=\"lane-group\">{}</h3>", escape(&panel.title));
        }
        for lane in lanes {
            causes.extend(parts(&lane.ledger).into_iter().map(|(cause, _)| cause));
            html.push_str(&lane.draw());
        }
    }
    html.push_str("</div>");
    causes.sort_by(|a, b| order(a).cmp(&order(b)));
    causes.dedup();
    let mut entries: Vec<(String, String)> =
        causes.iter().map(|cause| (format!("key-part {}", class(cause)), words(cause))).collect();
    entries.push(("key-part received".to_owned(), "received".to_owned()));
    html.push_str(&legend(entries));
    if lossy < all {
        let others = nbsp(&quantities::counted((all - lossy) as u64, "case"));
        let _ = write!(html, "<p class=\"caption\">The other {others} lost nothing.</p>");
    }
    Some(html)
}

fn parts(ledger: &Ledger) -> Vec<(String, u64)> {
    let late = (LATE.to_owned(), ledger.late);
    let unexplained = (UNEXPLAINED.to_owned(), u64::try_from(ledger.unexplained).unwrap_or(0));
    let lost = ledger.lost.iter().map(|(cause, count)| (cause.clone(), *count));
    let mut parts: Vec<(String, u64)> =
        lost.chain([late, unexplained]).filter(|(_, count)| *count > 0 && ledger.sent > 0).collect();
    parts.sort_by(|(a, _), (b, _)| order(a).cmp(&order(b)));
    parts
}

fn order(cause: &str) -> (usize, &str) {
    let known = CAUSES.iter().position(|(known, _)| *known == cause);
    (known.unwrap_or(if cause == UNEXPLAINED { CAUSES.len() + 1 } else { CAUSES.len() }), cause)
}

fn class(cause: &str) -> String {
    if cause == UNEXPLAINED {
        return "unexplained".to_owned();
    }
    let colour = CAUSES.iter().find(|(known, _)| *known == cause).map_or(OTHER_COLOUR, |(_, colour)| *colour);
    format!("s{colour}")
}

fn words(cause: &str) -> String {
    match cause {
        UNEXPLAINED => "no cause found".to_owned(),
        LATE => "late".to_owned(),
        cause => in_words(cause),
    }
}

struct Lane {
    name: String,
    ledger: Ledger,
    valid: bool,
}

impl Lane {
    fn draw(&self) -> String {
        let ledger = &self.ledger;
        let share = |count: u64| (count as f64 / ledger.sent as f64).clamp(0.0, 1.0);
        let parts = parts(ledger);
        let lost = parts.iter().map(|(_, count)| count).sum::<u64>();
        let told: Vec<String> = parts
            .iter()
            .map(|(cause, count)| {
                format!("{} {} ({})", words(cause), quantities::share(share(*count)), quantities::count(*count))
            })
            .collect();
        let told = nbsp(&format!("{}: of {} sent {}", self.name, quantities::count(ledger.sent), told.join(", ")));
        let mut bar = String::from("<rect class=\"received\" x=\"0\" width=\"100%\" y=\"4\" height=\"15\"/>");
        let mut from = 0.0;
        for (cause, count) in &parts {
            // The drop counters can exceed the number of sent messages.
            let width = share(*count).min(1.0 - from);
            bar += &part(&class(cause), from, width);
            from += width;
        }
        lane_row(self.valid, &escape(&self.name), "lane", &told, &bar, &nbsp(&quantities::share(share(lost))))
    }
}
