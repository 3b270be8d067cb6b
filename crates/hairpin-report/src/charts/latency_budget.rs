//! A latency budget: a waterfall of the median round trip, and a stacked bar for each band.

use hairpin_model::latency_budget::BandName;
use hairpin_model::{Band, BudgetPart, LatencyBudget, quantities};

use super::over_time::legend;
use super::svg::{self, escape, lane_row};
use crate::latency_budget::{colour, label};
use crate::page_text::nbsp;

/// Returns one lane for each part of a median round trip; `None` without one.
pub(crate) fn waterfall(budget: &LatencyBudget) -> Option<String> {
    let band = budget.band(BandName::P50).filter(|band| !band.parts.is_empty())?;
    let mut from = 0.0;
    let mut html = String::from("<div class=\"losses budget\" role=\"list\">");
    for part in &band.parts {
        html.push_str(&lane(&label(part), &rect(part, from), &in_words(part), part.mean_ns));
        from += part.share;
    }
    html.push_str("</div>");
    Some(html)
}

/// Returns a stacked bar for each band with enough samples, to the scale of the round trip; `None` without any.
pub(crate) fn bands(budget: &LatencyBudget) -> Option<String> {
    let bands: Vec<(&Band, f64)> = budget.bands.iter().filter_map(|band| Some((band, band.round_trip_ns?))).collect();
    let mut html = String::from("<div class=\"losses budget\" role=\"list\">");
    let mut entries = Vec::new();
    for (band, round_trip_ns) in &bands {
        let mut from = 0.0;
        let mut bar = String::new();
        for part in &band.parts {
            bar.push_str(&rect(part, from));
            from += part.share;
            let entry = (format!("key-part s{}", colour(part)), part.name.clone());
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        let words: Vec<String> = band.parts.iter().map(in_words).collect();
        html.push_str(&lane(band.band.word(), &bar, &words.join(", "), *round_trip_ns));
    }
    html.push_str("</div>");
    (!bands.is_empty()).then(|| html + &legend(entries))
}

fn in_words(part: &BudgetPart) -> String {
    format!("{} {} ({})", label(part), quantities::duration(part.mean_ns), quantities::share(part.share))
}

fn rect(part: &BudgetPart, from: f64) -> String {
    svg::part(&format!("s{}", colour(part)), from, part.share)
}

fn lane(name: &str, bar: &str, words: &str, ns: f64) -> String {
    lane_row(true, &escape(name), "lane", &nbsp(words), bar, &nbsp(&quantities::duration(ns)))
}
