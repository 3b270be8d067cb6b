//! Claims on the page, and the pictures of their rows.

use hairpin_model::{ClaimsReport, Figure, JudgedRow, Published, Value};
use hairpin_report::html;

use crate::shown::{assert_says, count};
use crate::support::claims::{listed, number, overview, page_of, report_of, shown, tested};

/// A report with one row, whose figure is in `unit`.
fn with_figure(measured: Figure, margin: Option<[Option<f64>; 2]>, published: Published, unit: &str) -> ClaimsReport {
    let mut report = tested();
    report.claims.truncate(1);
    let row = &mut report.claims[0].rows[0];
    row.published = published;
    let judgement = &mut row.judgement;
    (judgement.measured, judgement.margin, judgement.measured_unit) = (Some(measured), margin, Some(unit.to_owned()));
    report
}

/// The line of the picture, if there is one.
fn picture(report: &ClaimsReport, width: usize) -> Option<String> {
    shown(report, width).lines().map(str::trim).find(|line| is_picture(line)).map(str::to_owned)
}

fn is_picture(line: &str) -> bool {
    line.contains('*') && line.chars().all(|letter| ".=~o1[]()*".contains(letter))
}

#[test]
fn pictures_have_the_published_mark_the_margin_and_the_interval() {
    let two = Some([Some(2.5), Some(10.0)]);
    let of = |report: &ClaimsReport| picture(report, 40).expect("a picture");
    let report = with_figure(Figure::new(20.0, 10.0, 40.0), two, number(5.0, "ms"), "ms");
    assert_eq!(of(&report), ".=======o======[......*......].");
    let inside = with_figure(Figure::new(5.1, 4.9, 5.2), two, number(5.0, "ms"), "ms");
    assert_eq!(of(&inside), ".==============*]=============.");
    let at_most = with_figure(Figure::bare(1.0), Some([None, Some(4.0)]), number(4.0, "ms"), "ms");
    assert_eq!(of(&at_most), "=*===========================o.", "no interval, and no end below");
    let range = Published { value: Value::Range([1.0, 2.0]), unit: "ms".to_owned() };
    let range = with_figure(Figure::bare(8.0), Some([Some(1.0), Some(2.0)]), range, "ms");
    assert_eq!(of(&range), ".o========o..................*.");
    let elsewhere = with_figure(Figure::bare(8.0), None, number(5.0, "ms"), "x");
    assert_eq!(of(&elsewhere), "...............*...............", "a published value in another unit has no mark");
    let legend = |report: &ClaimsReport| shown(report, 100).contains("o published, = confirms, [*] measured");
    assert!(legend(&report), "{}", shown(&report, 100));
    let directions = page_of(&tested(), "B4", 100);
    assert!(directions.contains("~1~") && directions.contains("1 no difference, ~ counts as equal, [*] measured"));
    let both = shown(&tested(), 100);
    assert_eq!(
        count(&both, "o published, = confirms, 1 no difference, ~ counts as equal, [*] measured"),
        1,
        "{both}"
    );
    assert!(!shown(&listed(), 100).contains("published, ="), "without a picture there is no legend");
}

#[test]
fn a_ratio_of_two_figures_has_a_mark_at_1_and_no_published_one() {
    let report = tested();
    assert_eq!(picture(&report_of(&report, "B5"), 40).as_deref(), Some(".[*].......................~1~."));
    assert_eq!(
        picture(&report_of(&report, "B3"), 80).as_deref(),
        Some("...............~~~~~~~~~~~[~~~1~*~~~~]~~~~~~~...............")
    );
}

#[test]
fn no_figure_breaks_a_picture() {
    let extremes = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        -0.0893,
        5e-324,
        1e-308,
        1e-200,
        1e-199,
        1e199,
        1e200,
        1e308,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let mut drawn = 0;
    for value in extremes {
        let mut report = tested();
        report.claims.truncate(2);
        let [of_size, direction] = [report.claims[0].rows[0].clone(), report.claims[1].rows[0].clone()];
        let others = extremes.iter().copied().map(Some).chain([None]);
        let row = |row: &JudgedRow, measured: Figure, margin| {
            let mut row = row.clone();
            row.published =
                Published { value: Value::Range([value, measured.low.unwrap_or(3.0)]), unit: "x".to_owned() };
            let judgement = &mut row.judgement;
            (judgement.measured, judgement.margin, judgement.measured_unit) =
                (Some(measured), margin, Some("x".to_owned()));
            row
        };
        report.claims[0].rows.clear();
        for other in others {
            let figure = Figure { value, low: other, high: other.map(|_| value), why: None };
            let turned = Figure { value: 2.0, low: Some(value), high: other, why: None };
            for measured in [figure, turned, Figure { low: turned.high, high: turned.low, ..turned }] {
                let margins = [None, Some([other, Some(value)]), Some([Some(value), other]), Some([None, None])];
                for margin in margins {
                    report.claims[0]
                        .rows
                        .extend([row(&of_size, measured, margin), row(&direction, measured, margin)]);
                }
            }
        }
        for line in shown(&report, 40).lines().map(str::trim).filter(|line| is_picture(line)) {
            assert_eq!((line.len(), count(line, "*")), (31, 1), "{line}");
            drawn += 1;
        }
        assert_percentages(&html::render_claims(&report));
    }
    assert!(drawn > 1000, "{drawn} pictures");
}

#[test]
fn shares_and_values_below_0_are_on_a_linear_axis() {
    let of = |figure: Figure, published, unit| picture(&with_figure(figure, None, number(published, unit), unit), 40);
    // The axis is from -0.64 to 1.04.
    let share = of(Figure::new(-0.02, -0.5, 0.5), 0.9, "share");
    assert_eq!(share.as_deref(), Some("...[.......*........].......o.."));
    // The axis is from -5.1 to 6.1.
    let negative = of(Figure::new(0.0, -4.0, 4.0), 5.0, "ms");
    assert_eq!(negative.as_deref(), Some("...[..........*..........]..o.."));
    assert_eq!(of(Figure::bare(0.0), 5.0, "ms"), None, "a logarithmic axis has no place for 0");
    assert_eq!(of(Figure::new(f64::NAN, -0.5, 0.5), 0.9, "share"), None);
}

/// Asserts that all positions and widths of a page's pictures are from 0 to 100 %, and end there.
fn assert_percentages(page: &str) {
    let body = page.split("</style>").last().expect("the page has a style");
    for style in body.split("style=\"").skip(1).map(|rest| rest.split('"').next().expect("its end")) {
        let values = style.split(';').filter_map(|part| part.split_once(':'));
        let percent = |text: &str| text.trim_end_matches('%').parse::<f64>();
        let values: Vec<f64> = values.map(|(_, value)| percent(value).expect("a percentage")).collect();
        assert!(values.iter().all(|value| (0.0..=100.0).contains(value)), "{style}");
        assert!(values.iter().sum::<f64>() <= 100.001, "{style}");
    }
}

#[test]
fn the_page_shows_every_claim_escaped_and_loads_nothing() {
    let page = html::render_claims(&overview());
    for id in (1..=12).map(|number| format!("B{number}")) {
        assert_eq!((count(&page, &format!("<b>{id}</b>")), count(&page, &format!("id=\"{id}\""))), (1, 1), "{id}");
        assert_eq!(count(&page, &format!("href=\"#{id}\"")), 1, "the list leads to {id}");
    }
    let report = overview();
    for claim in &report.claims {
        assert!(page.contains(&claim.text.why.replace('\'', "&#x27;")), "{}: {}", claim.id, claim.text.why);
        assert!(page.contains(&claim.text.so_what), "{}", claim.id);
    }
    let stand_in =
        "<small>Stand-in: a server that sleeps 4\u{a0}ms: these 4\u{a0}ms are set here, not measured.</small>";
    assert_eq!(count(&page, stand_in), 2, "in two rows");
    assert_says(&page, &["What &lt;TCP_CORK&gt; does", "removes the wait &lt;b&gt;", "which &lt;ends&gt; the wait"]);
    assert_says(&page, &["class=\"verdict refuted\"", "href=\"B-small-writes&#x2f;report.html\""]);
    assert_says(
        &page,
        &["Source</b> What ", "does, A vendor, retrieved 2026-11-20: “使用 带有选项的程序示例 of 2 bytes”"],
    );
    assert!(!page.contains("http://") && !page.contains("https://"));
    assert_balanced(&page);
    assert_percentages(&page);
    let pictures = count(&page, "<div class=\"axis\"");
    let drawn = report.claims.iter().flat_map(|claim| &claim.rows);
    let has_figure = drawn.filter(|row| row.judgement.measured.is_some() && row.name != "worst").count();
    assert_eq!(pictures, has_figure, "a picture for each figure but the share of rounds");
    assert_eq!(count(&page, "role=\"img\" aria-label=\"published "), pictures);
}

fn assert_balanced(page: &str) {
    for tag in [
        "table", "thead", "tbody", "tr", "td", "th", "section", "article", "small", "span", "p", "div", "details",
        "i", "a",
    ] {
        let opened = count(page, &format!("<{tag}>")) + count(page, &format!("<{tag} "));
        assert_eq!(opened, count(page, &format!("</{tag}>")), "{tag}");
    }
}

#[test]
fn the_page_says_the_headline_once_and_then_the_figures() {
    let page = html::render_claims(&overview());
    let of = |class: &str, headline: &str, rest: &str| {
        format!("<p><span class=\"verdict {class}\">{headline}</span> {rest}</p>")
    };
    assert_says(
        &page,
        &[
            &of("confirmed", "Holds", "4.52 bytes&#x2f;ms (4.07-4.97) here, 4.873 bytes&#x2f;ms in the text."),
            &of("refuted", "Contradicted", "pipe &gt; TCP: 0.281\u{a0}x (0.270-0.292)."),
            &of("not-tested", "Not yet", "it needs the experiment `periodic`."),
            &of("not-tested", "Not tested", ""),
            "<span class=\"verdict confirmed\">Holds only if NODELAY is on</span> NODELAY: UDP &lt; TCP",
            "By axis: size undecided. Would decide: more rounds on a machine in one state.",
            "Tested 2 d ago.",
        ],
    );
    let not_yet = &page[page.find("id=\"B10\"").expect("B10")..page.find("id=\"B11\"").expect("B11")];
    assert!(not_yet.contains("<b>All rows</b> Missing: the experiment `periodic`."), "{not_yet}");
    assert_eq!(count(not_yet, "Missing:"), 1);
    assert!(!not_yet.contains("<details>"), "rows without an experiment have no evidence");
    let mut one = tested();
    one.claims.truncate(1);
    assert!(!html::render_claims(&one).contains("id=\"overview\""), "one claim needs no list");
    let none = html::render_claims(&listed());
    assert!(
        !none.contains("class=\"caption key\"") && page.contains("class=\"caption key\""),
        "the pictures' legend"
    );
    assert_balanced(&none);
}

#[test]
fn the_page_has_a_command_that_repeats_the_run_in_a_new_folder() {
    let mut report = tested();
    report.command_line = ["hairpin", "claims", "run", "B1", "--out", "tested"].map(str::to_owned).to_vec();
    assert!(html::render_claims(&report).contains("<code>hairpin claims run B1 --seed 1</code>"));
}
