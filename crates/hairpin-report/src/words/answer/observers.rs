//! Sentences about what observers cost.

use hairpin_model::flow::Observer;
use hairpin_model::names::{distinct, joined};
use hairpin_model::quantities::share_figure;
use hairpin_model::{CaseSummary, ladder};

/// Returns `Two clock reads per message cost 4.1 % (3.5-4.7) of the rate over tcp and 6.0 % (5.1-6.9) over udp.`
pub(super) fn costs(rows: &[&CaseSummary]) -> Option<String> {
    let transports = distinct(rows.iter().map(|row| row.case.primary().transport.as_str()));
    let name = |row: &CaseSummary| match transports.len() == rows.len() {
        true => row.case.marked_transport(),
        false => format!("{}, {}", ladder::row_name(row), row.case.ends.in_words()),
    };
    let costs = rows.iter().filter_map(|row| Some((*row, *row.one_way()?.observer.first()?)));
    let (found, none): (Vec<_>, Vec<_>) = costs.partition(|(_, cost)| cost.rate_against_none.excludes(1.0));
    let told = found.iter().enumerate().map(|(place, (row, cost))| {
        let of = if place == 0 { " of the rate" } else { "" };
        format!("{}{of} over {}", share_figure(cost.rate_against_none.falling(|ratio| 1.0 - ratio)), name(row))
    });
    let told: Vec<String> = told.collect();
    let observer = found.first().or(none.first())?.1.observer;
    let none: Vec<String> = none.into_iter().map(|(row, _)| name(row)).collect();
    Some(match (told.is_empty(), none.is_empty()) {
        (true, _) => format!("{}: not separated from `none` in this run.", subject(observer).0),
        (false, true) => format!("{} {}.", subject_and_verb(observer), joined(&told)),
        (false, false) => {
            format!(
                "{} {}; not separated from `none` over {}.",
                subject_and_verb(observer),
                joined(&told),
                joined(&none)
            )
        }
    })
}

fn subject_and_verb(observer: Observer) -> String {
    let (subject, verb) = subject(observer);
    format!("{subject} {verb}")
}

fn subject(observer: Observer) -> (&'static str, &'static str) {
    match observer {
        Observer::None => ("The same program again", "costs"),
        Observer::Sampled => ("Hairpin's recorder for one message in a few", "costs"),
        Observer::Counter => ("A counter per message", "costs"),
        Observer::Clock => ("Two clock reads per message", "cost"),
        Observer::Hdr => ("Two clock reads and an HDR histogram per message", "cost"),
        Observer::Recorder => ("Hairpin's own recorder for every message", "costs"),
        Observer::PrometheusCounter => ("A Prometheus counter per message", "costs"),
        Observer::PrometheusHistogram => ("Two clock reads and a Prometheus histogram per message", "cost"),
        Observer::TracingNull => ("A log line per message that is discarded", "costs"),
        Observer::TracingFile => ("A log line per message in a file", "costs"),
        Observer::Timestamps => ("The kernel's time stamp of each arrival", "costs"),
        Observer::Capture => ("A packet capture", "costs"),
    }
}
