//! What a reader sees first on the page, and how its figures are written.

use hairpin_report::html::render;

use crate::support;

#[test]
fn the_answer_is_followed_by_the_ranking_the_findings_and_then_the_distributions() {
    let page = render(&support::survey(1));
    let sections = ["class=\"answer\"", "id=\"ranking\"", "id=\"findings\"", "id=\"percentiles\"", "id=\"rounds\""];
    let places = sections.map(|section| page.find(section).expect(section));
    assert!(places.is_sorted(), "{places:?}");
    assert!(places[4] < page.find("id=\"summary\"").expect("the table"), "{places:?}");
}

#[test]
fn figures_of_the_clock_have_few_digits() {
    let mut run = support::survey(1);
    let clock = &mut run.hosts[0].environment.clock;
    (clock.read_cost_ns, clock.ns_per_tick) = (8.523_809_523_809_524, 0.384_615_338_873_118_16);
    clock.calibration_error_ppm = 2.153_748_655_301_258;
    let page = render(&run);
    for said in ["<dd>8.52 ns</dd>", "<dd>0.384615</dd>", "<dd>2.2 ppm</dd>"] {
        assert!(page.contains(said), "{said}");
    }
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
    assert_eq!(page.matches(" gone\"").count(), 2 * hidden, "a curve and its marks each");
}

#[test]
fn a_traced_exchange_has_a_bar_to_scale() {
    let page = render(&support::small_writes::run(true));
    assert_eq!(page.matches("<figure class=\"exchange-bar\">").count(), 4, "one for each drawn exchange");
    let bar = &page[page.find("<figure class=\"exchange-bar\">").expect("a bar")..];
    let widths = bar[..bar.find("</svg>").expect("its end")].split("width=\"").skip(2);
    let sum: f64 =
        widths.map(|rest| rest.split('%').next().expect("a share").parse::<f64>().expect("a number")).sum();
    assert!((sum - 100.0).abs() < 0.1, "{sum}");
    assert!(bar.contains("to scale: held by Nagle&#39;s algorithm "), "the longest part first");
}
