//! Latency budgets in the terminal, on the page and in the answer.

use hairpin_model::latency_budget::{BandName, MissingPoints, StampingCost, Union, WhyMissing, parts};
use hairpin_model::trace::End;
use hairpin_model::{Band, BudgetPart, Figure, LatencyBudget, Run, Statement};
use hairpin_report::{html, terminal};

use crate::shown::plain;
use crate::support;

/// A band with these parts; without any it has too few samples.
fn band(band: BandName, samples: u64, of: &[(&str, Option<End>, f64)]) -> Band {
    let whole: f64 = of.iter().map(|(_, _, ns)| ns).sum();
    let part = |(name, end, mean_ns): &(&str, Option<End>, f64)| BudgetPart {
        name: (*name).to_owned(),
        end: *end,
        mean_ns: *mean_ns,
        share: mean_ns / whole,
    };
    let calls = [("send-call", Some(End::Client), 9_870.0), ("send-call", Some(End::Server), 10_020.0)];
    Band {
        band,
        samples,
        round_trip_ns: (!of.is_empty()).then_some(whole),
        parts: of.iter().map(part).collect(),
        beside: if of.is_empty() { Vec::new() } else { calls.iter().map(part).collect() },
    }
}

/// The parts of a round trip that waits for a CPU at the server.
fn path(waits_ns: f64) -> Vec<(&'static str, Option<End>, f64)> {
    let (client, server) = (Some(End::Client), Some(End::Server));
    vec![
        (parts::SEND_STACK, client, 1_210.0),
        (parts::SEND_QUEUE, client, 274.0),
        (parts::NETWORK, server, 512.0),
        (parts::RUN_QUEUE, server, waits_ns),
        (parts::WAKE_UP, server, 4_420.0),
        (parts::WORK, server, 94.0),
        (parts::SEND_STACK, server, 1_180.0),
        (parts::SEND_QUEUE, server, 221.0),
        (parts::NETWORK, client, 498.0),
        (parts::RUN_QUEUE, client, 0.0),
        (parts::WAKE_UP, client, -12.0),
    ]
}

fn budget() -> LatencyBudget {
    let union = |name: &str, of: &[&str]| Union {
        name: name.to_owned(),
        of: of.iter().map(|part| (*part).to_owned()).collect(),
    };
    LatencyBudget {
        bands: vec![
            band(BandName::P50, 4_000, &path(0.0)),
            band(BandName::P90, 1_800, &path(8_700.0)),
            band(
                BandName::P99,
                180,
                &[path(640_000.0), vec![("run-queue and wake-up", Some(End::Client), 77.0)]].concat(),
            ),
            band(BandName::Above, 20, &[]),
        ],
        slowest: band(BandName::Slowest, 200, &path(640_000.0)),
        all: band(BandName::All, 20_000, &path(6_400.0)),
        unions: vec![
            union(parts::WAKE_UP, &["receive stack", "leaving idle", "context switch", "return of the call"]),
            union("run-queue and wake-up", &[parts::RUN_QUEUE, parts::WAKE_UP]),
        ],
        cost: StampingCost {
            stamped: Some(Figure::new(1.091, 1.087, 1.095)),
            others: Some(Figure::new(1.004, 1.001, 1.007)),
        },
        missing: vec![MissingPoints { end: End::Server, why: WhyMissing::Lost, detail: String::new(), count: 3 }],
    }
}

fn run_with(budget: LatencyBudget) -> Run {
    let mut run = support::survey(1);
    run.cases.truncate(1);
    let case = run.cases[0].id.clone();
    run.cases[0].budget = Some(budget);
    run.comparisons.clear();
    run.findings.clear();
    support::answer(&mut run, vec![Statement::Budget { case }]);
    run
}

/// The tables and the waterfall, without what follows.
fn shown(run: &Run, width: usize) -> String {
    let text = terminal::render_brief(run, &plain(width));
    let begin = text.find("Latency budget").expect("it is shown");
    text[begin..].lines().take_while(|line| !line.starts_with("Not separated in")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_budget_fits_80_columns() {
    let text = shown(&run_with(budget()), 80);
    insta::assert_snapshot!(text);
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}");
}

#[test]
fn the_answer_names_the_largest_part_of_the_slowest_percent() {
    let said = |budget: LatencyBudget| run_with(budget).answer.headline;
    let expected = |what: &str| format!("memory threads (blocking, same CPU): {what}.");
    assert_eq!(said(budget()), expected("of the slowest 1 %, 99 % is waiting for a CPU at the server"));
    let few = LatencyBudget { slowest: band(BandName::Slowest, 9, &[]), ..budget() };
    assert_eq!(said(few.clone()), expected("of a median round trip, 53 % is waking the server"));
    let none = LatencyBudget { bands: Vec::new(), ..few };
    assert_eq!(said(none), expected("too few round trips were sampled"));
}

#[test]
fn what_is_missing_is_told_with_its_reason() {
    let missing =
        |why, detail: &str, count| MissingPoints { end: End::Server, why, detail: detail.to_owned(), count };
    let all = vec![
        missing(WhyMissing::Refused, "not here", 8),
        missing(WhyMissing::NotReported, "", 1),
        missing(WhyMissing::Lost, "", 2),
        missing(WhyMissing::ClockSet, "", 1),
    ];
    let text = terminal::render(&run_with(LatencyBudget { missing: all, ..budget() }), &plain(120));
    for line in [
        "Cost of stamping: sampled round trips +9.1 % (+8.7 .. +9.5); the others in their rounds +0.4 % (+0.1 .. +0.7), p50",
        "Not separated in wake-up: receive stack, leaving idle, context switch and return of the call.",
        "The server has no kernel stamps in 8 rounds: not here.",
        "The server reported no times of 1 round trip.",
        "The server's kernel gave not all stamps of 2 round trips.",
        "Not counted, as the server's clock was set meanwhile: 1 round.",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("Not separated in run-queue and wake-up"), "its name says it");
}

#[test]
fn the_page_has_a_waterfall_bars_and_the_typical_values_of_a_text() {
    let page = html::render(&run_with(budget()));
    let section = &page[page.find("<section id=\"budget\">").unwrap()..];
    let section = &section[..section.find("</section>").unwrap()];
    // Eleven parts of the waterfall, and three bars of eleven, eleven and twelve parts.
    assert_eq!(section.matches("<rect class=\"part s").count(), 11 + 11 + 11 + 12);
    assert!(!section.contains("width=\"-"), "a negative part has no width");
    let section = section.replace('\u{a0}', " ");
    let cells = |text: &str, here: &str| format!("{text}</td><td class=\"figure\">{here}</td>");
    for row in [cells("0.1-5 ms", "94.0 ns"), cells("0.5-5 ms", "4.41 µs"), cells("40-200 ms", "-")] {
        assert!(section.contains(&row), "{row}");
    }
}
