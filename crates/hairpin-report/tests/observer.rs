//! What observers cost, in the terminal, in the CSV table and on the page; and what Hairpin's recorder takes.

use hairpin_model::flow::Observer;
use hairpin_model::{Figure, Statement};
use hairpin_report::html;
use hairpin_report::terminal::{render, render_brief, render_more};
use hairpin_report::words::write_answer;

use crate::html::sound;
use crate::shown::{Table, assert_fits, plain};
use crate::support::{self, one_way};

#[test]
fn snapshots_of_observers() {
    let run = one_way::observers();
    insta::assert_snapshot!("observers_at_80_columns", render_brief(&run, &plain(80)));
    insta::assert_snapshot!("observers_at_60_columns", render_brief(&run, &plain(60)));
    assert_fits(&run);
    let all = render(&run, &plain(100));
    assert!(all.contains("Observers") && all.contains("Message rates"), "--all has the rates themselves: {all}");
}

#[test]
fn each_case_has_its_cost_in_the_table_and_on_the_page() {
    let run = one_way::observers();
    let table = Table::of(&run);
    let names = ["observer", "rate_against_none", "time_per_message_against_none_ns"];
    let cells = |label: &str| table.cells(table.row("label", label), names);
    assert_eq!(cells("tcp block cross-cpu up 64 B observer none"), ["none", "", ""]);
    let [observer, ratio, ns] = cells("tcp block cross-cpu up 64 B observer clock");
    assert_eq!((observer, ratio), ("clock", "0.959"));
    assert!((ns.parse::<f64>().unwrap() - 35.6).abs() < 0.1, "{ns}");
    let page = sound(&run);
    assert!(page.contains("rate against none") && page.contains("time per message against none"));
}

#[test]
fn a_cost_whose_interval_contains_none_is_not_claimed() {
    let mut run = one_way::observers();
    for row in &mut run.cases {
        let cost = row.primary_mut().one_way.as_mut().unwrap().observer.first_mut();
        let Some(cost) = cost.filter(|cost| cost.observer == Observer::Clock) else { continue };
        cost.rate_against_none = Figure::new(0.99, 0.97, 1.01);
    }
    write_answer(&mut run);
    assert_eq!(run.answer.headline, "Two clock reads per message: not separated from `none` in this run.");
    // Only over UDP.
    let tcp = run.cases.iter_mut().find(|row| row.label.starts_with("tcp") && row.label.ends_with("clock")).unwrap();
    tcp.primary_mut().one_way.as_mut().unwrap().observer[0].rate_against_none = Figure::new(0.9, 0.89, 0.91);
    write_answer(&mut run);
    let expected =
        "Two clock reads per message cost 10 % (9.0-11) of the rate over tcp; not separated from `none` over udp.";
    assert_eq!(run.answer.sentences[0], expected);
    assert!(matches!(run.answer.statements[0], Statement::ObserverCosts { .. }));
}

#[test]
fn every_report_has_the_cost_of_hairpins_recorder() {
    let mut run = support::survey(1);
    let line = "Hairpin's recorder takes 24.6 ns per message.";
    let reports = |run: &_| [render(run, &plain(80)), render_more(run, &plain(80)), render_brief(run, &plain(80))];
    assert!(reports(&run).iter().all(|report| !report.contains("recorder takes")), "a run of an earlier version");
    run.hosts[0].environment.clock.recorder_cost_ns = Some(24.6);
    for report in reports(&run) {
        assert_eq!(report.matches(line).count(), 1, "{report}");
    }
    assert!(html::render(&run).contains("Hairpin&#x27;s recorder, per message"));
}
