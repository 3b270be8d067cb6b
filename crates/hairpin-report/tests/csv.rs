//! The flat tables.

use hairpin_model::samples::Fate;
use hairpin_model::{Case, Failure, Outcome, RoundOrder, RoundRecord, Samples, Stamps};
use hairpin_report::csv_table::{SamplesTable, summary};

use crate::support;

fn table(text: &str) -> (Vec<String>, Vec<csv::StringRecord>) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").iter().map(str::to_owned).collect();
    (header, reader.records().map(|record| record.expect("rows of one length")).collect())
}

#[test]
fn a_row_a_case_with_units_in_the_names() {
    let run = support::survey(1);
    let (header, rows) = table(&summary(&run));
    assert_eq!(rows.len(), run.cases.len());
    let column = |name: &str| header.iter().position(|known| known == name).unwrap_or_else(|| panic!("no {name}"));
    let tcp = rows.iter().find(|row| &row[column("label")] == "tcp block same-cpu").expect("it is there");
    let p50 =
        run.cases.iter().find(|row| row.label == "tcp block same-cpu").unwrap().primary().latency_ns.p50.unwrap();
    assert_eq!(tcp[column("latency_p50_ns")].parse(), Ok(p50.value));
    assert_eq!(tcp[column("latency_p50_ns_low")].parse().ok(), p50.low);
    assert_eq!(tcp[column("latency_p50_ns_high")].parse().ok(), p50.high);
    assert_eq!(&tcp[column("load")], "ping-pong");
    let cpu_ns = ["cpu_client_s", "cpu_server_s"].map(|name| tcp[column(name)].parse::<f64>().unwrap() * 1e9);
    let each_ns = cpu_ns.iter().sum::<f64>() / tcp[column("samples")].parse::<f64>().unwrap();
    assert!((tcp[column("cpu_ns_per_message")].parse::<f64>().unwrap() - each_ns).abs() < 0.001);
    let lossy = rows.iter().find(|row| &row[column("label")] == "udp block cross-cpu 1000/s").expect("it is there");
    assert_eq!(&lossy[column("latency_p99_ns")], "", "null is an empty cell");
    assert_eq!(&lossy[column("lost_by_cause")], "receive-buffer-overflow=2");
    assert_eq!(&lossy[column("asked_rate_per_s")], "1000");
    let invalid = rows.last().unwrap();
    assert_eq!(&invalid[column("options")], "nodelay=on,sndbuf=4096");
    assert_eq!(&invalid[column("valid")], "false");
    assert_eq!(&invalid[column("connections")], "1");
}

#[test]
fn a_column_without_a_value_in_the_run_is_omitted() {
    let survey = support::survey(1);
    let (header, rows) = table(&summary(&survey));
    for (place, name) in header.iter().enumerate() {
        assert!(rows.iter().any(|row| !row[place].is_empty()), "{name} is empty in every row");
    }
    let has = |header: &[String], name: &str| header.iter().any(|known| known == name);
    assert!(
        !has(&header, "remedy") && !has(&header, "link_seed") && !has(&header, "goodput_bytes_per_s"),
        "{header:?}"
    );
    assert!(has(&table(&summary(&support::small_writes::run(true))).0, "remedy"));

    // A column with a value in one row is in all rows.
    let mut mixed = survey;
    mixed.cases.push(support::small_writes::run(true).cases[0].clone());
    assert!(has(&table(&summary(&mixed)).0, "remedy"));
}

#[test]
fn the_other_state_of_the_machine_has_columns() {
    let (header, rows) = table(&summary(&support::slowed_survey()));
    let column = |name: &str| header.iter().position(|known| known == name).unwrap_or_else(|| panic!("no {name}"));
    let names = ["state", "state_share", "other_state", "other_state_share", "other_state_latency_p50_ns"];
    let cells = |label: &str| {
        let row = rows.iter().find(|row| &row[column("label")] == label).expect("it is there");
        names.map(|name| row[column(name)].to_owned())
    };
    assert_eq!(cells("tcp block same-cpu"), ["0", "0.6", "1", "0.4", "5700"]);
    assert_eq!(cells("udp block same-cpu"), ["0", "0.6", "", "", ""]);
}

#[test]
fn exchanges_have_columns_that_are_empty_for_other_cases() {
    let mut run = support::small_writes::run(true);
    run.cases.push(support::survey(1).cases[0].clone());
    let (header, rows) = table(&summary(&run));
    let column = |name: &str| header.iter().position(|known| known == name).unwrap_or_else(|| panic!("no {name}"));
    let nodelay = rows.iter().find(|row| &row[column("remedy")] == "nodelay").expect("it is there");
    let cells = ["writes", "load", "bytes_per_ms", "segments_per_exchange", "capture_file", "exchange_1_ns"];
    let expected = ["100x2", "exchange", "344", "101", "captures/tcp-nodelay.pcapng", "641000"];
    assert_eq!(cells.map(|name| &nodelay[column(name)]), expected);
    assert_eq!(nodelay[column("exchange_p50_ns")], nodelay[column("latency_p50_ns")]);
    assert_eq!(&rows[0][column("speed_up_against_default")], "", "default options are the baseline");
    let other = rows.iter().next_back().expect("the round trip is last");
    let empty = (column("writes")..header.len()).all(|place| other[place].is_empty());
    assert!(empty, "{other:?}");
}

#[test]
fn no_row_without_cases_and_only_finite_figures() {
    let mut run = support::survey(1);
    run.cases[0].ends[0].cpu_seconds = f64::NAN;
    let text = summary(&run);
    assert!(!text.contains("NaN") && !text.contains("inf,"), "{text}");
    run.cases.clear();
    assert_eq!(summary(&run), "");
}

/// A warm-up message and a lost one.
fn samples() -> Samples {
    let received = Stamps { sequence: 0, due_ns: 100, sent_ns: 120, received_ns: 13_500, fate: Fate::Received };
    Samples::of(&[received, Stamps { sequence: 1, received_ns: 0, fate: Fate::Lost, ..received }], 1, 0)
}

fn record() -> RoundRecord {
    let order = RoundOrder::of(Case::ping_pong("tcp"), 2);
    let outcome = Outcome::Failed(Failure { cause: "none".to_owned(), hint: String::new() });
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
    let mut writer = SamplesTable::new(Full).expect("the header is still in the buffer");
    let record = record();
    writer.flow(&record, record.order.case.primary(), &samples()).expect("so are the rows");
    let error = writer.finish().err().expect("the disk is full");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
