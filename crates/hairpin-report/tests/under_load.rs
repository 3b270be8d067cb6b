//! Latency under load in the terminal, in the CSV table and on the page.

use hairpin_report::html;
use hairpin_report::terminal::{render, render_brief};

use crate::html::sound;
use crate::shown::{Table, count, plain};
use crate::support::under_load;

#[test]
fn snapshots_of_loads() {
    let run = under_load::congestion();
    insta::assert_snapshot!("loads_at_80_columns", render_brief(&run, &plain(80)));
    insta::assert_snapshot!("loads_at_100_columns", render_brief(&run, &plain(100)));
    insta::assert_snapshot!("all_of_loads_at_100_columns", render(&run, &plain(100)));
    insta::assert_snapshot!("loads_on_two_cpus_at_80_columns", render_brief(&under_load::two_cpus(), &plain(80)));
}

#[test]
fn words_that_all_loads_share_are_only_in_the_heading() {
    let text = render_brief(&under_load::congestion(), &plain(160));
    let heading = text.lines().find(|line| line.starts_with("Latency under load")).expect("the heading");
    assert_eq!(heading, "Latency under load  load 64 KiB, probe udp 64 B 100/s, same CPU, blocking");
    let names: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("  u"))
        .map(|line| line.trim_start().split("  ").next().unwrap_or_default())
        .collect();
    let expected = [
        "unloaded",
        "under tcp up congestion=bbr",
        "under tcp up congestion=cubic",
        "under tcp both ways congestion=cubic",
    ];
    assert_eq!(names, expected, "{text}");
}

#[test]
fn a_row_of_the_csv_table_has_every_phase() {
    let table = Table::of(&under_load::congestion());
    let names = ["load_beside_probe", "idle_p50_ns", "loaded_p50_ns", "added_p50_ns", "load_goodput_bytes_per_s"];
    let [latency] = table.cells(1, ["latency_p50_ns"]);
    let expected = ["under tcp up 64 KiB congestion=cubic", "10300000", latency, "173300000", "1200000"];
    assert_eq!(table.cells(1, names), expected);
    let names = ["added_p50_ns_low", "added_p50_ns_high", "queue_p50_bytes", "queue_max_bytes", "recovered_after_ns"];
    let figures = table.cells(1, names).map(|cell| cell.parse::<f64>().unwrap().round());
    assert_eq!(figures, [170_700_500.0, 175_899_500.0, 218_000.0, 261_600.0, 715_000_000.0]);
    let names = ["idle_lost_share", "loaded_lost_share", "recovering_lost_share", "load_goodput_bytes_per_s"];
    assert_eq!(table.cells(3, names), ["0", "0.01", "0", "2400000"]);
    let names = ["load_beside_probe", "load_goodput_bytes_per_s", "queue_p50_bytes", "responsiveness_rpm"];
    assert_eq!(table.cells(0, names), ["unloaded", "", "", ""]);
}

fn section<'p>(page: &'p str, id: &str) -> &'p str {
    let start = page.find(&format!("<section id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}"));
    &page[start..start + page[start..].find("</section>").expect("the end of the section")]
}

#[test]
fn latency_goodput_and_queue_share_a_time_axis_with_the_phases() {
    let page = sound(&under_load::congestion());
    let charts = section(&page, "under-load");
    for title in
        ["Latency of the probe, mean in each 100\u{a0}ms", "Goodput of the load", "Queue that the load fills"]
    {
        assert_eq!(count(charts, &format!("<figcaption>{title}")), 1, "{title}");
    }
    for phase in ["idle", "ramp", "loaded", "recovering"] {
        assert_eq!(count(charts, &format!(">{phase}</text>")), 1, "{phase}");
    }
    // The ramp is from 1 s to 6 s of 13 s, in all three charts.
    assert_eq!(count(charts, "<rect class=\"warm-up\" x=\"76.9\" y=\"0\" width=\"384.6\""), 3);
    assert_eq!(count(charts, "<line class=\"phase\""), 9, "the first phase has no line, because it begins at 0");
    // A gap splits a line and its band in two. A case without a load has no goodput and no queue.
    assert_eq!(count(charts, "<polygon class=\"surface"), 2 * 4);
    assert_eq!(count(charts, "<polyline class=\"line"), 2 * 4 + 3 + 3);
    assert!(
        charts.contains("<title>under tcp up congestion=cubic: highest at 6\u{a0}s, 184\u{a0}ms</title>"),
        "{charts}"
    );
    assert!(
        charts.contains("<title>under tcp up congestion=bbr: highest at 6\u{a0}s, 11.7\u{a0}KiB</title>"),
        "{charts}"
    );
    assert!(!page.contains("id=\"over-time\"") && !page.contains("id=\"throughput\""), "only for one-way loads");
    let page = html::render(&under_load::two_cpus());
    assert!(!section(&page, "under-load").contains("Queue that the load fills"), "the queue is unknown");
}

#[test]
fn percentile_curves_are_solid_for_the_loaded_phase_and_dashed_for_the_idle_phase() {
    let run = under_load::congestion();
    let page = html::render(&run);
    let curves = section(&page, "percentiles");
    let cubic = "data-series=\"under tcp up congestion=cubic\"";
    assert_eq!(count(curves, &format!("<g class=\"curve s1 d0\" {cubic}>")), 1);
    assert_eq!(count(curves, &format!("<g class=\"curve s1 d1\" {cubic}>")), 1);
    assert_eq!(count(curves, "<g class=\"curve "), 2 * run.cases.len());
    assert_eq!(count(curves, "Solid: the loaded phase. Dashed: the idle phase."), 1);
    assert!(curves.contains(">under tcp up congestion=cubic, idle: 50 % 10."), "{curves}");
}

#[test]
fn the_table_of_the_page_has_every_figure_with_its_interval() {
    let page = html::render(&under_load::congestion());
    let table = section(&page, "summary");
    for title in ["p50, idle", "p50, loaded", "added to p50", "queue, p50", "goodput of the load", "RPM"] {
        assert_eq!(count(table, &format!("<th scope=\"col\" class=\"figure\">{title}</th>")), 1, "{title}");
    }
    assert!(table.contains("173\u{a0}ms<small>171\u{2013}176</small>"), "{table}");
    assert!(table.contains("213\u{a0}KiB<small>207\u{2013}219</small>"), "{table}");
}

#[test]
fn rounds_that_do_not_count_are_listed_with_the_reason() {
    for text in [render_brief, render].map(|render| render(&under_load::congestion(), &plain(120))) {
        let start = text.find("\nLoad: ").expect("a note") + 1;
        let note: Vec<&str> = text[start..].split_whitespace().take(40).collect();
        let note = note.join(" ");
        assert!(
            note.starts_with("Load: udp block same-cpu 64 B 100/s under tcp up 64 KiB congestion=cubic over"),
            "{note}"
        );
        assert!(note.contains("delay=5ms: 1 round does not count (round 4: the load began 700 ms late)"), "{note}");
    }
    let page = html::render(&under_load::congestion());
    assert_eq!(count(section(&page, "exceptions"), "1 round does not count (round 4: the load began"), 1);
}
