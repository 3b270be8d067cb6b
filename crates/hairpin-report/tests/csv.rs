//! The CSV tables.

use hairpin_model::fact_names::{DECODE_NS, ENCODE_NS};
use hairpin_model::samples::Fate;
use hairpin_model::{Case, Fact, Failure, FailureKind, Outcome, RoundOrder, RoundRecord, Run, Samples, Stamps};
use hairpin_report::csv_table::{SamplesTable, summary};
use hairpin_report::terminal::render;

use crate::shown::{Table, plain};
use crate::support;

#[test]
fn there_is_one_row_per_case_and_column_names_have_units() {
    let run = support::survey(1);
    let table = Table::of(&run);
    assert_eq!(table.rows.len(), run.cases.len());
    let tcp = table.row("label", "tcp block same-cpu");
    let p50 = support::find(&run.cases, "tcp block same-cpu").primary().latency_ns.p50.unwrap();
    let names = ["latency_p50_ns", "latency_p50_ns_low", "latency_p50_ns_high"];
    let figures = table.cells(tcp, names).map(|cell| cell.parse().ok());
    assert_eq!(figures, [Some(p50.value), p50.low, p50.high]);
    assert_eq!(table.cells(tcp, ["load"]), ["ping-pong"]);
    let names = ["cpu_client_s", "cpu_server_s", "samples", "cpu_ns_per_message"];
    let [client_s, server_s, samples, each_ns] = table.cells(tcp, names).map(|cell| cell.parse::<f64>().unwrap());
    assert!((each_ns - (client_s + server_s) * 1e9 / samples).abs() < 0.001);
    let lossy = table.row("label", "udp block cross-cpu 1000/s");
    let cells = table.cells(lossy, ["latency_p99_ns", "lost_by_cause", "asked_rate_per_s"]);
    assert_eq!(cells, ["", "receive-buffer-overflow=2", "1000"], "null is an empty cell");
    let invalid = table.cells(run.cases.len() - 1, ["options", "valid", "connections"]);
    assert_eq!(invalid, ["nodelay=on,sndbuf=4096", "false", "1"]);
}

#[test]
fn a_column_without_a_value_in_the_run_is_omitted() {
    let survey = support::survey(1);
    let table = Table::of(&survey);
    for (place, name) in table.header.iter().enumerate() {
        assert!(table.rows.iter().any(|row| !row[place].is_empty()), "{name} is empty in every row");
    }
    assert!(!["remedy", "link_seed", "goodput_bytes_per_s"].iter().any(|name| table.has(name)), "{:?}", table.header);
    assert!(Table::of(&support::small_writes::run(true)).has("remedy"));

    // A column that has a value in one row is in all rows.
    let mut mixed = survey;
    mixed.cases.push(support::small_writes::run(true).cases[0].clone());
    assert!(Table::of(&mixed).has("remedy"));
}

#[test]
fn the_time_of_encoding_is_that_of_both_ends() {
    let mut run = support::survey(1);
    let facts = |encode, decode| vec![Fact::number(ENCODE_NS, encode), Fact::number(DECODE_NS, decode)];
    run.cases[0].ends[0].facts = facts(100.0, 20.0);
    run.cases[0].ends[1].facts = facts(3000.0, 400.0);
    let table = Table::of(&run);
    assert_eq!(table.cells(0, ["coding_ns_per_message"]), ["3520"]);
    assert_eq!(table.cells(1, ["coding_ns_per_message"]), [""]);
    let text = render(&run, &plain(120));
    let row = text.lines().find(|line| line.contains("3.52 us")).unwrap_or_else(|| panic!("{text}"));
    assert!(text.contains("encoding") && row.contains(&run.cases[0].case.primary().transport), "{text}");
}

#[test]
fn figures_of_a_second_machine_state_have_columns() {
    let table = Table::of(&support::slowed_survey());
    let names = ["state", "state_share", "other_state", "other_state_share", "other_state_latency_p50_ns"];
    let cells = |label: &str| table.cells(table.row("label", label), names);
    assert_eq!(cells("tcp block same-cpu"), ["0", "0.6", "1", "0.4", "5700"]);
    assert_eq!(cells("udp block same-cpu"), ["0", "0.6", "", "", ""]);
}

#[test]
fn exchanges_have_columns_that_are_empty_for_other_cases() {
    let mut run = support::small_writes::run(true);
    run.cases.push(support::survey(1).cases[0].clone());
    let table = Table::of(&run);
    let nodelay = table.row("remedy", "nodelay");
    let names = ["writes", "load", "bytes_per_ms", "segments_per_exchange", "capture_file", "exchange_1_ns"];
    let expected = ["100x2", "exchange", "344", "101", "captures/tcp-nodelay.pcapng", "641000"];
    assert_eq!(table.cells(nodelay, names), expected);
    assert_eq!(table.cells(nodelay, ["exchange_p50_ns"]), table.cells(nodelay, ["latency_p50_ns"]));
    assert_eq!(table.cells(0, ["speed_up_against_default"]), [""], "default options are the baseline");
    let other = table.rows.last().expect("a last row");
    assert!(other.iter().skip(table.column("writes")).all(str::is_empty), "{other:?}");
}

#[test]
fn a_run_without_cases_gives_an_empty_table() {
    let run = Run { cases: Vec::new(), ..support::survey(1) };
    assert_eq!(summary(&run), "");
}

/// A warm-up message and a lost message.
fn samples() -> Samples {
    let received = Stamps { sequence: 0, due_ns: 100, sent_ns: 120, received_ns: 13_500, fate: Fate::Received };
    Samples::of(&[received, Stamps { sequence: 1, received_ns: 0, fate: Fate::Lost, ..received }], 1, 0)
}

fn record() -> RoundRecord {
    let order = RoundOrder::of(Case::ping_pong("tcp"), 2);
    let outcome = Outcome::Failed(Failure::new(FailureKind::Other, "none", ""));
    RoundRecord { number: 3, started_ns: 0, case_id: "00ff".to_owned(), order, outcome }
}

#[test]
fn samples_have_the_columns_of_the_file_and_their_latency() {
    let mut writer = SamplesTable::new(Vec::new()).unwrap();
    let record = record();
    writer.flow(&record, record.order.case.primary(), &samples()).unwrap();
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    let expected = "round,case_id,label,flow,size_bytes,sequence,warm_up,due_ns,sent_ns,received_ns,fate,latency_ns\n\
                    3,00ff,tcp block same-cpu,main,4,0,true,100,120,13500,received,13400\n\
                    3,00ff,tcp block same-cpu,main,4,1,false,100,120,,lost,\n";
    assert_eq!(text, expected);
}

#[test]
fn a_failing_writer_is_an_error_without_a_panic() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::new(std::io::ErrorKind::StorageFull, "no space left on device"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = SamplesTable::new(Full).expect("the header fits the buffer");
    let record = record();
    writer.flow(&record, record.order.case.primary(), &samples()).expect("the rows fit the buffer");
    let error = writer.finish().err().expect("flushing fails");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
