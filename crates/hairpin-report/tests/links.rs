//! Links in the terminal, in the CSV table and in the JSON.

use crate::support::links::{HOME_UPLINK, run, run_over};
use hairpin_model::{Document, Run};
use hairpin_report::terminal::render;

use crate::shown::{Table, joined, plain};

fn text(run: &Run) -> String {
    joined(&render(run, &plain(100)))
}

#[test]
fn snapshots_of_links() {
    insta::assert_snapshot!("links_at_80_columns", render(&run(), &plain(80)));
    insta::assert_snapshot!("links_at_100_columns", render(&run(), &plain(100)));
    insta::assert_snapshot!("one_link_for_all_at_80_columns", render(&run_over("home-uplink"), &plain(80)));
}

#[test]
fn a_link_of_all_cases_is_shown_once_above_the_table() {
    let text = render(&run_over("home-uplink"), &plain(300));
    let named: Vec<usize> = text.match_indices("home-uplink").map(|(place, _)| place).collect();
    let table = text.find("Round trips").expect("the table");
    assert_eq!(named.len(), 3, "in the answer, above the table, and in the account of the link: {text}");
    assert!(named[1] < table && named[2] > table, "{text}");
    assert!(text.contains(&format!("\nLink: home-uplink, of all cases: {HOME_UPLINK}\n")), "{text}");
}

#[test]
fn cases_over_several_links_are_grouped_by_link() {
    let text = render(&run(), &plain(300));
    let place = |said: &str| text.find(said).unwrap_or_else(|| panic!("{said}: {text}"));
    let titles = ["without a link\n", "over bridged-vm\n", "over home-uplink\n", "reorder=1%/5ms\n"];
    let places = titles.map(|title| place(&format!("{title}  tcp ").replace("5ms\n  tcp", "5ms\n! udp")));
    assert!(places.is_sorted(), "in plan order: {places:?}");
    assert!(text.starts_with("p50 of a round trip with tcp: 13.4 us without a link, 4.05 ms over"));
}

#[test]
fn the_account_of_a_link_covers_all_its_cases() {
    let said = text(&run());
    let home = "Link: home-uplink (seed 7): 88 400 packets in, 77 040 out, dropped 11 360 (loss 40, queue 11 320), \
                late up to 1.65 us at p50, 71.2 us at p99, emulator CPU up to 4.73 us per packet";
    assert!(said.contains(home), "{said}");
    let quiet = "Link: bridged-vm (seed 3000): 10 240 packets in, 10 240 out, none dropped, late 4.64 us at p50";
    assert!(said.contains(quiet), "{said}");
}

#[test]
fn an_account_that_does_not_close_shows_the_difference() {
    let mut run = run_over("bridged-vm");
    let link = run.cases[0].path.relay.as_mut().expect("a case over a link");
    link.packets.out -= 2;
    assert!(text(&run).contains("none dropped, 2 missing without a cause, late"), "{}", text(&run));
    let link = run.cases[0].path.relay.as_mut().expect("a case over a link");
    link.packets.out += 5;
    assert!(text(&run).contains("none dropped, 3 too many, late"), "{}", text(&run));
}

#[test]
fn a_caution_is_above_the_table_and_omitted_rounds_are_before_the_packets() {
    let run = run();
    let said = text(&run);
    let left_out = "12 rounds do not count: tcp block same-cpu 2, udp block same-cpu 10 (round 0: the emulator was late by 118 us \
                    at p50, bound 100 us; round 1: the emulator was late by 125 us at p50, bound 100 us; and 10 more); 50 000 \
                    packets in";
    assert!(said.contains(left_out), "{said}");
    let caution = "1 case over up=5.5mbit down=80mbit and more is invalid, as the link did not match its profile: \
                   round 0: the emulator";
    let (first, table) = (said.find(caution).expect("the caution"), said.find("Round trips").expect("the table"));
    assert!(first < table);
    let mut valid = run.clone();
    valid.cases.pop();
    assert!(
        !text(&valid).contains("did not match its profile"),
        "the case has omitted rounds but is valid: {}",
        text(&valid)
    );
    assert!(text(&valid).contains("2 rounds do not count: tcp block same-cpu 2 (round 0"), "{}", text(&valid));
}

#[test]
fn a_case_over_a_link_that_was_never_measured_has_no_account() {
    let mut run = run_over("bridged-vm");
    run.cases[0].path.relay = None;
    let said = text(&run);
    assert!(!said.contains("bridged-vm (seed") && said.contains("Link: bridged-vm: delay=2ms"), "{said}");
}

#[test]
fn the_csv_table_has_columns_for_links_that_are_empty_on_the_loopback() {
    let table = Table::of(&run());
    let names = ["link", "link_name", "link_seed", "link_lateness_p50_ns", "link_lateness_max_ns"];
    assert_eq!(table.cells(2, names), [HOME_UPLINK, "home-uplink", "7", "1647", "412000"]);
    let packets = ["in", "out", "dropped", "dropped_by_stage", "duplicated", "reordered", "corrupted", "inside"];
    let packets = packets.map(|name| format!("link_packets_{name}"));
    let packets = packets.each_ref().map(String::as_str);
    assert_eq!(table.cells(2, packets), ["44000", "38460", "5540", "loss=20; queue=5520", "0", "0", "0", "0"]);
    assert_eq!(table.cells(5, packets)[4..], ["160", "150", "0", "30"]);
    assert_eq!(table.cells(5, ["link_rounds_left_out", "link_relay_cpu_ns_per_packet"]), ["10", "4730"]);
    assert_eq!(table.cells(0, names), ["loopback", "", "", "", ""]);
    assert_eq!(table.cells(0, packets), [""; 8]);
}

#[test]
fn the_json_has_each_link_with_its_packets() {
    let json: serde_json::Value = serde_json::from_str(&run().to_json()).expect("valid JSON");
    let cases = json["cases"].as_array().expect("cases");
    assert!(cases[0]["path"].get("relay").is_none(), "no relay on the loopback");
    for (case, row) in cases.iter().zip(&run().cases).skip(1) {
        assert_eq!(case["path"]["link"], row.case.path.link.as_str(), "the profile as one line");
    }
    assert_eq!(cases[2]["path"]["relay"]["packets"]["dropped"], serde_json::json!({"loss": 20, "queue": 5520}));
    assert_eq!(cases[1]["path"]["relay"]["packets"]["dropped"], serde_json::json!({}));
}
