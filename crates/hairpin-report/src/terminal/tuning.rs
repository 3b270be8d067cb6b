//! A tuning as text: the change that helps first, then a line for each.

use hairpin_model::Figure;
use hairpin_model::quantities::{DASH, duration, number, share};
use hairpin_model::tuning::{TriedChange, TuneMetric, TuneVerdict, Tuning};

use super::look::Look;
use super::page::{DIM, GOOD, LEAD, PLAIN, Page, WARN};

pub fn render_tuning(tuning: &Tuning, look: &Look) -> String {
    let mut page = Page::new(*look);
    let value = |value: f64| shown(tuning.metric, value);
    let figure = |figure: &Figure| match figure.low.zip(figure.high) {
        Some((low, high)) => format!("{} ({} to {})", value(figure.value), value(low), value(high)),
        None => value(figure.value),
    };
    let of = |one: Option<&Figure>| one.map_or_else(|| DASH.to_owned(), figure);
    page.paragraph(0, LEAD, &answer(tuning));
    let best = best(tuning);
    if let Some(best) = best {
        page.item("Keep      ", GOOD, &best.keep);
    }
    if let Some(baseline) = &tuning.baseline {
        let text = format!("{} {}, {} runs of each arm", figure(baseline), what(tuning.metric)[0], tuning.runs);
        page.item("Without   ", PLAIN, &text);
    }
    page.gap();
    for change in &tuning.tune {
        let style = match change.verdict {
            TuneVerdict::Helps => GOOD,
            TuneVerdict::Hurts | TuneVerdict::NotMade => WARN,
            TuneVerdict::NoEffect => PLAIN,
        };
        let part = change
            .measured_share
            .map(|part| format!(", {} of {}", share(part), what(tuning.metric)[0]))
            .unwrap_or_default();
        let predicted = change.predicted.as_ref().map_or_else(String::new, |range| {
            let [low, high] = [range.low, range.high].map(|value| shown(tuning.metric, value));
            format!("; predicted {low} to {high}")
        });
        let measured = match change.verdict {
            TuneVerdict::Helps => format!("saves {}{part}{predicted}", of(change.measured.as_ref())),
            TuneVerdict::Hurts => format!("hurts: saves {}{part}{predicted}", of(change.measured.as_ref())),
            TuneVerdict::NoEffect => format!("no effect: saves {}{predicted}", of(change.measured.as_ref())),
            TuneVerdict::NotMade => "could not be made".to_owned(),
        };
        let because = change.because.map(|cause| format!(" [{cause}]")).unwrap_or_default();
        let own = match change.held_back {
            0 => String::new(),
            times => format!("; the program set it itself {times} times, without effect"),
        };
        let held = if change.held { "" } else { "; not all sockets had the requested value" };
        page.item("  ", style, &format!("{}{because}: {measured}{own}{held}", change.change));
    }
    let arms = [("the same again (A/A)", &tuning.same_again), ("the supervisor alone", &tuning.supervised)];
    for (name, saved) in arms.into_iter().filter_map(|(name, saved)| Some((name, saved.as_ref()?))) {
        page.item("  ", DIM, &format!("{name}: saves {}", figure(saved)));
    }
    for text in &tuning.not_tried {
        page.item("Not tried ", DIM, text);
    }
    page.finish()
}

fn best(tuning: &Tuning) -> Option<&TriedChange> {
    let helps = tuning.tune.iter().filter(|change| change.verdict == TuneVerdict::Helps);
    helps.max_by(|a, b| {
        let saved = |change: &TriedChange| change.measured.as_ref().map_or(0.0, |figure| figure.value);
        saved(a).total_cmp(&saved(b))
    })
}

fn answer(tuning: &Tuning) -> String {
    match best(tuning) {
        Some(best) => {
            let saved = best.measured.as_ref().map_or_else(String::new, |figure| shown(tuning.metric, figure.value));
            let part = best.measured_share.map(|part| format!(" ({})", share(part))).unwrap_or_default();
            format!("{} helps: it saves {saved}{part} {}.", best.change, what(tuning.metric)[1])
        }
        None if tuning.tune.is_empty() => {
            "No socket option can change what takes the time of this program.".to_owned()
        }
        None => "None of the changes makes the program faster.".to_owned(),
    }
}

/// What is measured, and of what a change saves a part.
fn what(metric: TuneMetric) -> [&'static str; 2] {
    match metric {
        TuneMetric::Exchange => ["an exchange", "of each exchange"],
        TuneMetric::Time => ["a run", "of the run time"],
        TuneMetric::Output => ["in the output", "of the number in its output"],
    }
}

fn shown(metric: TuneMetric, value: f64) -> String {
    match metric {
        TuneMetric::Output => number(value),
        TuneMetric::Exchange | TuneMetric::Time if value < 0.0 => format!("-{}", duration(-value)),
        TuneMetric::Exchange | TuneMetric::Time => duration(value),
    }
}
