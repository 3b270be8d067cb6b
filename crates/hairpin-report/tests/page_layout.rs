//! The layout of the page, and the format of its figures.

use hairpin_model::Statement;
use hairpin_model::answer::BusyCpu;
use hairpin_report::html::render;

use crate::shown::assert_says;
use crate::support;

#[test]
fn the_page_has_the_answer_then_the_ranking_the_findings_and_the_distributions() {
    let page = render(&support::survey(1));
    let sections = ["class=\"answer\"", "id=\"ranking\"", "id=\"findings\"", "id=\"percentiles\"", "id=\"rounds\""];
    let places = sections.map(|section| page.find(section).expect(section));
    assert!(places.is_sorted(), "{places:?}");
    assert!(places[4] < page.find("id=\"summary\"").expect("the table"), "{places:?}");
}

#[test]
fn clock_figures_have_few_digits() {
    let mut run = support::survey(1);
    let clock = &mut run.hosts[0].environment.clock;
    (clock.read_cost_ns, clock.ns_per_tick) = (8.523_809_523_809_524, 0.384_615_338_873_118_16);
    clock.calibration_error_ppm = 2.153_748_655_301_258;
    let page = render(&run);
    assert_says(&page, &["<dd>8.52 ns</dd>", "<dd>0.384615</dd>", "<dd>2.2 ppm</dd>"]);
}

#[test]
fn at_most_four_curves_of_a_group_are_drawn_at_first() {
    let run = support::survey(1);
    let page = render(&run);
    let mut hidden = 0;
    for legend in page.split("<ul class=\"legend\">").skip(1).map(|rest| rest.split("</ul>").next().expect("its end"))
    {
        let pressed = legend.matches("aria-pressed=\"true\"").count();
        assert!((1..=4).contains(&pressed), "{pressed}: {legend}");
        hidden += legend.matches("aria-pressed=\"false\"").count();
    }
    assert!(hidden > 0, "the survey has more than four cases in a group");
    assert_eq!(page.matches(" gone\"").count(), 2 * hidden, "a curve and its marks per hidden case");
}

#[test]
fn a_traced_exchange_has_a_bar_to_scale() {
    let page = render(&support::small_writes::run(true));
    assert_eq!(page.matches("<figure class=\"exchange-bar\">").count(), 4, "one bar per traced exchange");
    let bar = &page[page.find("<figure class=\"exchange-bar\">").expect("a bar")..];
    let widths = bar[..bar.find("</svg>").expect("the end of the bar")].split("width=\"").skip(2);
    let sum: f64 =
        widths.map(|rest| rest.split('%').next().expect("a share").parse::<f64>().expect("a number")).sum();
    assert!((sum - 100.0).abs() < 0.1, "{sum}");
    assert!(bar.contains("to scale: delayed ACK at the server "), "the longest part comes first");
}

#[test]
fn the_page_of_streams_ranks_by_goodput_and_mentions_no_round_trips() {
    let run = support::bulk::run();
    let page = render(&run);
    assert_eq!(page.matches("<circle class=\"p50\"").count(), run.cases.len(), "one lane per case");
    assert_eq!(page.matches("<svg class=\"chart rounds\"").count(), run.cases.len());
    assert_says(
        &page,
        &["Goodput of one-way streams", ": goodput 8.25\u{a0}GB/s (95 % interval ", "The goodput of each round"],
    );
    let text = &page[page.find("<main>").expect("the page")..page.find("<script>").expect("the script")];
    for not_said in ["round trip", "p50</", "p99", "atency", "id=\"percentiles\"", "no ranking to draw"] {
        assert!(!text.contains(not_said), "{not_said}");
    }
    assert!(!render(&support::survey(1)).contains("oodput"), "no goodput without one-way loads");
}

#[test]
fn losses_and_failed_rounds_have_marks_that_the_legend_explains() {
    let run = support::bulk::run();
    let page = render(&run);
    let keys = |text: &str| page.matches(&format!("</svg>{text}</li>")).count();
    let marks = |class: &str| page.matches(&format!("class=\"{class}\" href=\"#m-{class}\"")).count();
    assert_eq!(
        (keys("messages lost in the round"), keys("round failed: no figure")),
        (2, 1),
        "only groups with such rounds have the legend"
    );
    let lossy = run.cases.iter().flat_map(|row| &row.round_points).filter(|point| point.lost > 0).count();
    assert_eq!(marks("lost") - 2, lossy);
    assert_eq!(marks("failed") - 1, 1);
    assert!(
        page.contains("300 messages lost</title>")
            && page.contains("<title>failed: round 3: the server is gone</title>")
    );
    assert!(page.contains("over the run; 10 rounds with losses\""), "in the description");
}

#[test]
fn time_axes_begin_with_the_first_value() {
    let mut run = support::survey(1);
    for point in run.cases.iter_mut().flat_map(|row| &mut row.round_points) {
        point.started_ns += 500_000_000_000;
    }
    let page = render(&run);
    let panel = &page[page.find("<svg class=\"chart rounds\"").expect("a panel")..];
    let line = panel.split("<polyline class=\"body\" points=\"").nth(1).expect("a line");
    let places: Vec<f64> = line
        .split('"')
        .next()
        .expect("points")
        .split(' ')
        .map(|point| point.split(',').next().expect("x").parse().expect("a number"))
        .collect();
    assert!(places[0] < 120.0 && places[9] > 880.0, "positions out of 1000: {places:?}");
    assert!(
        !panel[..panel.find("</figure>").expect("the end of the panel")].contains(">0</text>"),
        "no label before the first round"
    );

    let mut run = support::links::run();
    let before = inner_corners(&render(&run));
    for row in &mut run.cases {
        let Some(shown) = row.path.relay.as_mut().and_then(|relay| relay.shown.as_mut()) else { continue };
        for timeline in [&mut shown.up.timeline, &mut shown.down.timeline].into_iter().flatten() {
            let counts = [&mut timeline.entered, &mut timeline.out, &mut timeline.queue_bytes_max];
            for counts in counts.into_iter().chain(timeline.dropped.values_mut()) {
                counts.splice(0..0, [0; 400]);
                counts.extend([0; 400]);
            }
        }
    }
    assert!(before.len() > 100, "{before:?}");
    assert_eq!(inner_corners(&render(&run)), before, "positions do not depend on the empty ends");
}

/// The horizontal positions of the corners of all surfaces over time, except those at both edges.
fn inner_corners(page: &str) -> Vec<String> {
    let surfaces = page.split("<polygon class=\"surface entered\" points=\"").skip(1);
    let corners = surfaces.flat_map(|rest| rest.split('"').next().unwrap_or_default().split(' '));
    let across = corners.filter_map(|corner| Some(corner.split_once(',')?.0.to_owned()));
    across.filter(|x| x != "0" && x != "1000").collect()
}

#[test]
fn headings_are_in_order() {
    for run in [support::survey(1), support::small_writes::run(true), support::links::run(), support::bulk::run()] {
        let page = render(&run);
        let levels: Vec<u8> = page
            .match_indices("<h")
            .filter_map(|(at, _)| page[at + 2..].bytes().next().filter(u8::is_ascii_digit))
            .map(|digit| digit - b'0')
            .collect();
        assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
        assert!(levels[0] == 1 && levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
        assert!(page.contains("<html lang=\"en\">"));
    }
}

/// The relative luminance of a colour such as `#16191f` (WCAG 2.2).
fn luminance(colour: &str) -> f64 {
    let channel = |place: usize| {
        let value = u8::from_str_radix(&colour[place..place + 2], 16).expect("a colour");
        let share = f64::from(value) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

#[test]
fn text_has_the_contrast_that_wcag_requires_in_each_scheme() {
    let page = render(&support::survey(1));
    let schemes: Vec<&str> = page.split("--paper: #").skip(1).collect();
    assert_eq!(schemes.len(), 4, "light, dark by preference, dark by the button, and print");
    for scheme in schemes {
        let scheme = format!("--paper: #{scheme}");
        let colour = |name: &str| {
            let name = format!("--{name}: ");
            let at = scheme.find(&name).expect("a colour of each scheme") + name.len();
            &scheme[at..at + 7]
        };
        let pairs = [
            ("ink", "paper"),
            ("ink", "raised"),
            ("soft", "paper"),
            ("soft", "raised"),
            ("soft", "faint"),
            ("accent", "paper"),
            ("bad", "paper"),
            ("good", "good-paper"),
            ("bad", "bad-paper"),
            ("caution", "caution-paper"),
        ];
        for (text, ground) in pairs {
            let (one, other) = (luminance(colour(text)), luminance(colour(ground)));
            let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
            assert!(contrast >= 4.5, "{text} {} on {ground} {}: {contrast:.2}", colour(text), colour(ground));
        }
    }
}

#[test]
fn only_sentences_that_fit_a_phone_are_above_the_ranking() {
    let mut run = support::bulk::run();
    let lossy = run.cases.iter().filter(|row| row.ledger().sent > row.ledger().received);
    let lost = |row| Statement::Lost { cases: support::ids([row]) };
    let statements = [lossy.clone().map(lost), lossy.map(lost)].into_iter().flatten();
    let headline = Statement::BusyCpu { case: run.cases[0].id.clone(), cpu: BusyCpu::Shared };
    let statements = std::iter::once(headline).chain(statements).collect();
    support::answer(&mut run, statements);
    let page = render(&run);
    let (shown, rest) = page.split_once("<details class=\"rest\">").expect("collapsed sentences");
    assert_eq!(shown.matches("messages lost: 3").count(), 3);
    assert!(rest.contains("<summary>1 more sentence</summary>"));
    assert!(!render(&support::survey(1)).contains("class=\"rest\""));
}
