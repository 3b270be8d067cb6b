//! How often latencies are above the bound of the run, and searches for the shortest period.

use hairpin_model::periodic::SearchEnd;
use hairpin_model::{Exceeds, Figure, FoundPeriod, PeriodSearchPlan, Plan, Statement};
use hairpin_report::terminal::{render, render_brief, render_more};
use hairpin_report::{announcement, words};

use crate::html::sound;
use crate::shown::{Table, plain};
use crate::support;

#[test]
fn every_format_shows_how_often_a_bound_is_exceeded() {
    let mut run = support::survey(1);
    let line = format!("{}: 1.2 % (0.50 % to 2.0 %), as sure as from 1 234 independent messages", run.cases[1].label);
    let texts = |run: &_| [render_brief, render_more, render].map(|render| render(run, &plain(200)));
    assert!(!texts(&run).concat().contains("Above") && !sound(&run).contains("id=\"bound\""));
    assert!(!Table::of(&run).has("bound_ns"));

    run.plan.knobs.push(("bound".to_owned(), vec!["1ms".to_owned()]));
    let probability = Figure::new(0.012, 0.005, 0.02);
    run.cases[1].primary_mut().exceeds =
        Some(Exceeds { bound_ns: 1_000_000, probability, effective_samples: 1234.4 });
    for text in texts(&run) {
        assert!(text.contains("Above 1 ms") && text.contains(&line), "{text}");
    }
    let page = sound(&run);
    let (_, section) = page.split_once("<section id=\"bound\">").expect("a section");
    let (section, _) = section.split_once("</section>").expect("a section ends");
    let section = section.replace('\u{a0}', " ");
    assert!(section.contains("<h2>Above 1 ms</h2>") && section.contains(&format!("<li>{line}</li>")), "{section}");
    let table = Table::of(&run);
    let names = ["bound_ns", "exceeds_share", "exceeds_share_low", "exceeds_share_high", "exceeds_effective_samples"];
    assert_eq!(table.cells(1, names), ["1000000", "0.012", "0.005", "0.02", "1234.4"]);
    assert_eq!(table.cells(0, names), [""; 5]);
}

const SEARCH: PeriodSearchPlan = PeriodSearchPlan {
    shortest_ns: 100_000,
    longest_ns: 1_000_000_000,
    max_misses: 0.001,
    confirming_periods: 3_688,
    max_confirmation_ns: 120_000_000_000,
};

#[test]
fn a_search_announces_what_a_confirmation_costs() {
    let said = |search| announcement(&Plan { period_search: Some(search), ..Plan::default() }, &[]);
    assert_eq!(
        said(SEARCH),
        "Searches periods from 100 us to 1 s; each confirmation takes at most 120 s.\n\
         To show less than 0.1 % of misses takes 3 688 periods without a miss: 3.69 s at 1 ms, 36.9 s at 10 ms"
    );
    let endless = PeriodSearchPlan { confirming_periods: u64::MAX, max_misses: 1e-5, ..SEARCH };
    assert!(said(endless).contains("less than 0.001 % of misses"), "{}", said(endless));
}

#[test]
fn each_end_of_a_search_has_a_sentence() {
    let said = |end, misses| {
        let mut run = support::survey(1);
        run.plan.period_search = Some(SEARCH);
        run.answer.statements = vec![Statement::ShortestPeriod];
        let (smallest_period_ns, periods) = (Some(3_190_000), 4_005);
        run.periodic = Some(FoundPeriod {
            end,
            misses,
            smallest_period_ns,
            periods,
            max_misses: 0.001,
            ..FoundPeriod::default()
        });
        let (headline, sentences) = words::answer(&run);
        if sentences.is_empty() { headline } else { sentences.join(" ") }
    };
    let missed = |high: f64| Some(Figure::new(2.0 / 4005.0, 0.0, high));
    for (end, misses, sentence) in [
        (
            SearchEnd::Confirmed,
            missed(0.0009),
            "Shortest period: 3.19 ms; on fresh data 2 of 4 005 deadlines missed, below 0.09 % (limit 0.1 %).",
        ),
        (
            SearchEnd::NotConfirmed,
            missed(0.0019),
            "No period was confirmed: at 3.19 ms, 2 of 4 005 deadlines missed on fresh data, up to 0.19 % (limit 0.1 %).",
        ),
        (
            SearchEnd::TooFewPeriods,
            Some(Figure::new(0.0, 0.0, 0.0011)),
            "Not confirmed: 3.19 ms seems to hold, but the 4 005 periods of 120 s show at best less than 0.11 % missed (limit \
             0.1 %; hint: a longer --over).",
        ),
        (SearchEnd::NoneHolds, None, "No period up to 1 s holds: more than 0.1 % of the deadlines are missed."),
        (SearchEnd::Incomplete, None, "The search ended before a period was confirmed."),
    ] {
        assert_eq!(said(end, misses), sentence);
    }
}
