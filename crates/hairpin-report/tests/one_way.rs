//! One-way loads in the terminal, in the CSV table and on the page.

use hairpin_model::flow::Direction;
use hairpin_model::{
    Arrivals, BothEnds, Case, Figure, FlowSummary, LatencyFigures, Load, Moment, OneWayFigures, OverTime, Plan,
    PlannedTraffic, Run,
};
use hairpin_report::terminal::{render, render_brief, render_more};
use hairpin_report::{announcement, csv_table, html};

use crate::html::sound;
use crate::shown::{Table, assert_says, count, joined, plain};
use crate::support::{bulk, one_way};

fn runs() -> [Run; 4] {
    [one_way::message_rate(), one_way::write_sizes(), one_way::offered_load(), bulk::run()]
}

#[test]
fn the_expected_traffic_is_announced() {
    let said = |bytes: u64, at_full_speed_s: f64| {
        let sends = PlannedTraffic { bytes, at_full_speed_s };
        announcement(
            &Plan { rounds: 8, seconds: 2.5, sends, ..Plan::default() },
            &[Case::ping_pong("tcp"), Case::ping_pong("udp")],
        )
    };
    assert_eq!(said(0, 0.0), "2 cases, 8 rounds, about 3 s");
    assert_eq!(said(3 << 20, 0.0), "2 cases, 8 rounds, about 3 s; sends about 3 MiB");
    assert_eq!(said(0, 1.2), "2 cases, 8 rounds, about 3 s; sends at full speed for 2 s");
    assert_eq!(said(3 << 20, 1.2), "2 cases, 8 rounds, about 3 s; sends 3 MiB, and at full speed for 2 s");
}

#[test]
fn snapshots_of_one_way_loads() {
    let [rates, writes, offered, streams] = runs();
    for (name, text) in [
        ("message_rates_at_80_columns", render_brief(&rates, &plain(80))),
        ("message_rates_at_100_columns", render_brief(&rates, &plain(100))),
        ("all_of_message_rates_at_100_columns", render(&rates, &plain(100))),
        ("streams_at_80_columns", render_brief(&streams, &plain(80))),
        ("more_of_write_sizes_at_80_columns", render_more(&writes, &plain(80))),
        ("offered_loads_at_80_columns", render_brief(&offered, &plain(80))),
        ("all_of_offered_loads_at_100_columns", render(&offered, &plain(100))),
    ] {
        insta::assert_snapshot!(name, text);
    }
}

/// With twelve transports and three batches, the table has a row per transport, a column per batch, and every rate.
#[test]
fn batches_are_columns_if_there_are_many_cases() {
    let mut run = one_way::message_rate();
    for number in 0..8 {
        for row in one_way::message_rate().cases.into_iter().take(6) {
            let mut row = row;
            let name = format!("{}-{number}", row.case.primary().transport);
            row.case.primary_mut().transport.clone_from(&name);
            row.id = row.case.id();
            run.cases.push(row);
        }
    }
    let text = render_brief(&run, &plain(80));
    assert!(text.lines().any(|line| joined(line) == "batch 1 p50 batch 8 p50 batch 64 p50"), "{text}");
    assert!(text.lines().count() <= 45, "{text}");
    for row in &run.cases {
        let rate = row.one_way().unwrap().received_per_s.unwrap().value;
        let rate = hairpin_model::quantities::rate(rate).replace("/s", "");
        let transport = &row.case.primary().transport;
        let has = |line: &str| line.split_whitespace().next() == Some(transport) && line.contains(&rate);
        assert!(text.lines().any(has), "{transport} {rate}: {text}");
    }
}

#[test]
fn words_that_all_cases_share_are_shown_once() {
    let table = |run: &Run| {
        let text = render_brief(run, &plain(100));
        let start = text.find("client to server").expect("the heading");
        let from = text[..start].rfind('\n').unwrap();
        text[from..].split("\n\n").next().unwrap().to_owned()
    };
    let rates = table(&one_way::message_rate());
    assert!(rates.lines().count() > 24, "{rates}");
    assert_eq!((rates.matches("64 B").count(), rates.matches("client to server").count()), (1, 1), "{rates}");
    assert_eq!(rates.matches("pipe").count(), 2, "{rates}");
    assert_eq!(table(&one_way::write_sizes()).matches("two CPUs, blocking").count(), 1);
}

#[test]
fn the_line_about_pacing_counts_the_rates_that_were_not_kept() {
    let mut run = one_way::offered_load();
    let text = render_brief(&run, &plain(100));
    assert_eq!(text.matches("Pacing: sleep+spin: median gap 1.00x nominal, p99 gap 1.08x\n").count(), 1, "{text}");
    for row in run.cases.iter_mut().filter(|row| row.case.primary().transport == "udp").skip(5) {
        let pacing = row.primary_mut().one_way.as_mut().unwrap().pacing.as_mut().unwrap();
        pacing.gap_ns.p50 = Some(Figure::bare(pacing.nominal_ns * 1.5));
    }
    let text = render_brief(&run, &plain(120));
    assert!(text.contains("p99 gap 1.08x; median gap not kept at 2 rates of udp from 256 k/s on\n"), "{text}");
}

/// The median of an exponential distribution is ln 2 times its mean.
#[test]
fn gaps_of_random_arrivals_are_compared_with_the_median_of_their_distribution() {
    let mut run = one_way::offered_load();
    for row in &mut run.cases {
        if let Load::Offered { arrivals, .. } = &mut row.case.primary_mut().load {
            *arrivals = Arrivals::Poisson;
        }
        let pacing = row.primary_mut().one_way.as_mut().unwrap().pacing.as_mut().unwrap();
        pacing.gap_ns.p50 = Some(Figure::bare(pacing.nominal_ns * 0.7));
    }
    let text = render_brief(&run, &plain(120));
    let said = "Pacing: sleep+spin, poisson: median gap 0.700x nominal (due: 0.69x), p99 gap 1.08x (due: 4.61x)\n";
    assert!(text.contains(said), "{text}");
}

/// A case with several flows has a total goodput, and no figures of a single flow.
#[test]
fn flows_in_both_directions_have_a_total_goodput_and_separate_charts() {
    let mut run = one_way::write_sizes();
    for row in run.cases.iter_mut().take(5) {
        let mut down = row.case.primary().clone();
        (down.id, down.direction) = ("down".into(), Direction::Down);
        let summary = FlowSummary { flow: down.clone(), ..row.primary().clone() };
        row.case.flows.push(down);
        row.flows.push(summary);
        row.primary_mut().ledger.received -= 100_000;
        row.primary_mut().ledger = row.primary().ledger.clone().closed();
        row.goodput_of_all_bytes_per_s = Some(Figure::new(3.21e9, 3e9, 3.5e9));
        row.cpu_seconds_per_gb_of_all =
            Some(BothEnds { client: Some(Figure::bare(0.512)), server: Some(Figure::bare(0.634)) });
        (row.id, row.label) = (row.case.id(), row.case.label());
    }
    let text = render_brief(&run, &plain(80));
    let first = text.lines().find(|line| line.contains("both ways")).expect("a row with its name");
    let words: Vec<&str> = first.split_whitespace().collect();
    assert_eq!(words[..3], ["unix-stream", "both", "ways"]);
    assert!(!first.contains("both ways 64 B"), "the size has a column: {text}");
    let lost = text.lines().find(|line| line.contains("3.21 GB/s")).expect("a row");
    assert!(lost.contains("5.0 %") && lost.contains("0.512") && lost.contains("0.634"), "of all flows: {lost}");
    let page = sound(&run);
    assert_eq!(count(&page, "aria-label=\"Goodput over the time of a round, "), run.cases.len() + 5);
    assert_eq!(count(&page, "<rect class=\"received\""), 5, "only the first flow of a case lost messages");
    assert!(page.contains("unix-stream both ways 64 B, down, in each"));
}

#[test]
fn a_csv_row_has_parameters_and_figures() {
    let run = one_way::message_rate();
    assert_eq!(csv_table::summary(&run).lines().count(), run.cases.len() + 1);
    let names = ["batch", "size_bytes", "received_per_s", "cpu_seconds_per_million_server", "lost_share"];
    assert_eq!(Table::of(&run).cells(0, names), ["1", "64", "2100000", "0.26", "0"]);
    let names = ["write_size_bytes", "source", "goodput_bytes_per_s", "warm_up_goodput_bytes_per_s_low"];
    assert_eq!(Table::of(&bulk::run()).cells(0, names), ["65536", "buffer", "8250000000", "3960000000"]);
    let names = ["offered_per_s", "arrivals", "pacing", "delivered_per_s", "nominal_gap_ns", "gaps_below_half_share"];
    let expected = ["1000", "fixed", "sleep+spin", "1000", "1000000", "0.004"];
    assert_eq!(Table::of(&one_way::offered_load()).cells(0, names), expected);
}

#[test]
fn message_rates_are_ranked_and_drawn_by_batch_and_with_latency() {
    let run = one_way::message_rate();
    let page = sound(&run);
    assert_eq!(count(&page, "<circle class=\"p50\""), run.cases.len(), "one lane per case");
    assert!(page.contains(": messages/s 16.8\u{a0}M/s (95 % interval "), "{}", page.len());
    assert_eq!(count(&page, " per call: "), run.cases.len(), "one mark per case, by batch");
    assert_eq!(count(&page, ", one-way p50 "), run.cases.len(), "one mark per case, by rate");
    let bars = run.cases.len() * 3;
    assert_eq!(count(&page, "<line class=\"bar-of\""), bars, "two intervals of the rate and one of the latency");
    assert_eq!(count(&page, "<figure class=\"xy\">"), 4, "two charts for each placement");
    assert!(page.contains("one-way latency of a message (log scale)"));
    for not_said in ["round trip", "atency of a message</", "No case has a figure"] {
        let text = &page[page.find("<main>").unwrap()..page.find("<script>").unwrap()];
        assert!(!text.contains(not_said), "{not_said}");
    }
}

#[test]
fn losses_are_stacked_by_cause_and_add_up() {
    let run = one_way::message_rate();
    let page = html::render(&run);
    let lossy = run.cases.iter().filter(|row| row.primary().ledger.sent > row.primary().ledger.received).count();
    assert_eq!(count(&page, "<rect class=\"received\""), lossy);
    assert_eq!(count(&page, "<rect class=\"part "), 5 * lossy, "four causes, and losses without a cause");
    let lane = &page[page.find("<rect class=\"part ").expect("a part")..];
    let lane = &lane[..lane.find("</svg>").expect("the end of the lane")];
    let number = |part: &str, name: &str| -> Option<f64> {
        part.split(&format!("{name}=\"")).nth(1)?.split('%').next()?.parse().ok()
    };
    let places = lane.split("<rect").filter_map(|part| Some((number(part, " x")?, number(part, "width")?)));
    let mut end = 0.0;
    for (x, width) in places {
        assert!((x - end).abs() < 0.1, "each part begins at the end of the previous part: {lane}");
        end = x + width;
    }
    assert!((end - 62.0).abs() < 0.1, "{end}: {lane}");
    assert_says(&page, &["receive buffer full", "no cause found", "The other 18 cases lost nothing"]);
}

#[test]
fn the_load_curve_has_every_valid_rate_and_marks_the_knee() {
    let run = one_way::offered_load();
    let page = sound(&run);
    let valid = run.cases.iter().filter(|row| row.valid).count();
    assert_eq!(count(&page, ": delivered "), valid);
    let with_p99 = run.cases.iter().filter(|row| row.valid && row.primary().latency_ns.p99.is_some()).count();
    assert_eq!((count(&page, ": one-way p50 "), count(&page, ": one-way p99 ")), (valid, with_p99));
    assert_eq!(count(&page, "; the knee</title>"), 2);
    let delivered = |text: &str| assert!(page.contains(text), "{text}");
    delivered("tcp, offered 256\u{a0}k/s: delivered 256\u{a0}k/s (95 % interval 230\u{2013}294\u{a0}k/s), ");
    delivered("udp, offered 64.0\u{a0}k/s: delivered 64.0\u{a0}k/s (95 % interval 57.6\u{2013}73.6\u{a0}k/s), ");
    assert_eq!(count(&page, " missing; the knee"), 2);
    // Rates are sorted even if they were planned in another order.
    let mut run = run;
    let first = run.cases.remove(0);
    run.cases.push(first);
    let text = render(&run, &plain(100));
    let place = |rate: &str| text.find(rate).unwrap_or_else(|| panic!("no row of {rate}: {text}"));
    assert!(place("  tcp     1.00 k") < place("          4.00 k"), "{text}");
    assert!(!page.contains("<h2>Ranking</h2>"), "latencies at different rates are not ranked");
}

#[test]
fn goodput_is_drawn_by_write_size_and_over_time() {
    let run = one_way::write_sizes();
    let page = sound(&run);
    assert_eq!(count(&page, ", writes of "), run.cases.len());
    assert_eq!(count(&page, "<line class=\"bar-of\""), run.cases.len());
    assert_eq!(count(&page, "aria-label=\"Goodput over the time of a round, "), run.cases.len());
    assert_eq!(count(&page, "aria-label=\"CPU time used by each end over the time of a round, "), run.cases.len());
    assert_eq!(count(&page, "<rect class=\"warm-up\" x=\"0\" y=\"0\" width=\"250.0\""), 2 * run.cases.len());
    assert!(page.contains("tcp 64 KiB, in each 10\u{a0}ms"));
}

#[test]
fn a_chart_needs_two_points() {
    for mut run in [one_way::message_rate(), one_way::write_sizes(), one_way::offered_load()] {
        let load = run.cases[1].case.primary().load.size_bytes();
        let first = run.cases[1].case.primary().load.clone();
        run.cases.retain(|row| row.case.primary().load == first);
        run.cases.iter_mut().for_each(|row| row.primary_mut().over_time = None);
        run.cases.retain(|row| row.primary().ledger.lost.is_empty());
        assert!(!run.cases.is_empty(), "cases with {load} bytes");
        let page = html::render(&run);
        for none in ["id=\"throughput\"", "id=\"over-time\"", "class=\"plot xy\""] {
            assert!(!page.contains(none), "{none}: {}", run.plan.experiment);
        }
    }
}

#[test]
fn figures_that_are_missing_or_not_finite_are_not_drawn() {
    let no_number = Figure::new(f64::NAN, f64::NEG_INFINITY, f64::INFINITY);
    let nan = Some(no_number);
    let both = BothEnds { client: nan, server: None };
    let moment =
        |at_ns| Moment { at_ns, goodput_bytes_per_s: no_number, client_cpu: Some(f64::NAN), server_cpu: None };
    let damaged = OneWayFigures {
        received_per_s: nan,
        goodput_bytes_per_s: nan,
        warm_up_goodput_bytes_per_s: nan,
        system_calls_per_message: both,
        cpu_seconds_per_million: both,
        fairness: nan,
        offered_per_s: Some(f64::NAN),
        delivered_per_s: nan,
        ..OneWayFigures::default()
    };
    let over_time = OverTime { measured_from_ns: u64::MAX, moments: vec![moment(0), moment(u64::MAX), moment(3)] };
    for run in runs() {
        for (figures, over_time) in
            [(OneWayFigures::default(), OverTime::default()), (damaged.clone(), over_time.clone())]
        {
            let mut run = run.clone();
            for row in run.cases.iter_mut().step_by(2) {
                row.primary_mut().one_way = Some(figures.clone());
                row.primary_mut().latency_ns = LatencyFigures::default();
                row.primary_mut().over_time = Some(over_time.clone());
                row.primary_mut().ledger.unexplained = i64::MIN;
            }
            let mut none = run.clone();
            none.cases.iter_mut().for_each(|row| row.primary_mut().one_way = None);
            for run in [run, none] {
                sound(&run);
                for width in [40, 80] {
                    let text = render(&run, &plain(width)) + &render_brief(&run, &plain(width));
                    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
                }
                assert!(!csv_table::summary(&run).contains("NaN"));
            }
        }
    }
}

#[test]
fn names_are_escaped_on_the_page_and_in_the_terminal() {
    for mut run in runs() {
        for row in &mut run.cases {
            let flow = row.case.primary_mut();
            flow.transport = format!("<b onclick=\"x\">\u{1b}[2J'{}", flow.transport);
            flow.connections = 8;
            row.label = row.case.label();
            let cause = "<i>\u{1b}[1m".to_owned();
            row.primary_mut().ledger.lost.insert(cause, 7);
            row.primary_mut().ledger.sent += 7;
        }
        let page = sound(&run);
        assert!(!page.contains("<b onclick") && !page.contains("<i>\u{1b}") && !page.contains('\u{1b}'));
        let text = render(&run, &plain(100)) + &render_brief(&run, &plain(100));
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
