//! The time sequence in the terminal: snapshots, the choice of cases, and rules that hold for any exchange.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::time_sequence::{Event, EventKind};
use hairpin_model::trace::End;
use hairpin_model::{Run, TimeSequence, Wait};
use hairpin_report::terminal::{Look, render_time_sequences};
use hairpin_report::time_sequence::{ALL, MOST_TELLING, check, chosen};

use crate::shown::{joined, plain};
use crate::support;

fn drawn(run: &Run, which: &str, width: usize) -> String {
    render_time_sequences(run, which, &plain(width)).expect("a known case")
}

fn sequence<'r>(run: &'r mut Run, remedy: &str) -> &'r mut TimeSequence {
    let named = |label: &str| label.contains(&format!(" {remedy} "));
    let row = run.cases.iter_mut().find(|row| named(&row.label)).expect("a case of the fixture");
    row.trace.as_mut().and_then(|trace| trace.sequence.as_mut()).expect("a traced case")
}

#[test]
fn the_stall_at_80_columns_from_a_capture() {
    insta::assert_snapshot!(drawn(&support::small_writes::run(true), "default", 80));
}

#[test]
fn all_at_100_columns_from_kernel_time_stamps() {
    insta::assert_snapshot!(drawn(&support::small_writes::run(false), ALL, 100));
}

#[test]
fn the_case_with_default_options_is_shown_unless_another_is_named() {
    let run = support::small_writes::run(true);
    let labels = |which: &str| -> Vec<String> {
        chosen(&run, which).expect("known").iter().map(|row| row.label.clone()).collect()
    };
    assert_eq!(labels(MOST_TELLING), ["tcp block same-cpu default 100x2 B"]);
    let all = ["default", "cork-forgotten", "nodelay", "one-write"]
        .map(|word| format!("tcp block same-cpu {word} 100x2 B"));
    assert_eq!(labels(ALL), all, "by default options, longest wait, and duration");
    assert_eq!(labels("nodelay"), ["tcp block same-cpu nodelay 100x2 B"]);
    assert_eq!(labels("tcp block same-cpu default 100x2 B"), ["tcp block same-cpu default 100x2 B"]);
    assert_eq!(labels("default").len(), 3, "the remedy over every transport");
}

#[test]
fn an_unknown_case_is_an_error_that_names_the_known_cases() {
    let run = support::small_writes::run(true);
    let said = |which: &str| chosen(&run, which).expect_err("an unknown case").to_string();
    assert_eq!(said("nodleay"), "unknown case of the ladder `nodleay` (hint: did you mean `nodelay`?)");
    let cases = ["default", "nodelay", "cork-forgotten", "one-write"];
    let words = cases.map(|word| format!("tcp block same-cpu {word} 100x2 B"));
    let known = format!("one of all, most-telling, {}, {}", cases.join(", "), words.join(", "));
    assert_eq!(said("zzz"), format!("unknown case of the ladder `zzz` (hint: {known})"), "only traced cases");
}

#[test]
fn the_names_of_cases_can_be_checked_against_the_plan() {
    let run = support::small_writes::run(true);
    let ask = |which: &str, traced: bool| {
        check(which, run.cases.iter().map(|row| (&row.case, traced && row.case.primary().transport == "tcp")))
    };
    for which in
        [ALL, MOST_TELLING, "batch=10", "tcp block same-cpu default 100x2 B", "pipe block same-cpu default 100x2 B"]
    {
        assert_eq!((ask(which, true), ask(which, false)), (Ok(()), Ok(())), "{which}");
    }
    let hint = |traced: bool| ask("zzz", traced).expect_err("an unknown case").to_string();
    assert!(hint(true).contains("batch=10, tcp block same-cpu default 100x2 B") && !hint(true).contains("pipe"));
    assert_eq!(hint(false), "unknown case of the ladder `zzz` (hint: one of all, most-telling)", "no case is traced");
}

#[test]
fn the_awaited_ack_has_the_same_number_as_its_arrow() {
    let mut run = support::small_writes::run(true);
    for event in &mut sequence(&mut run, "default").events {
        if event.end == End::Server && event.kind == EventKind::PureAck && event.at_ns > 0 {
            (event.first_byte, event.end_byte) = (-578, -578);
        }
    }
    let text = drawn(&run, "tcp block same-cpu default 100x2 B", 120);
    assert!(text.contains(":   for ACK -578") && text.contains("- ACK -578 -"), "{text}");
    assert!(text.contains("Bytes below 0 belong to earlier exchanges."), "{text}");
    // If a segment carries the ACK, the arrow of the segment does not show it.
    for event in &mut sequence(&mut run, "default").events {
        if event.end == End::Server && event.kind == EventKind::PureAck && event.at_ns > 0 {
            (event.kind, event.first_byte, event.end_byte) = (EventKind::Segment, 0, 4);
        }
    }
    let text = drawn(&run, "tcp block same-cpu default 100x2 B", 120);
    assert!(text.contains(":   for the ACK of earlier data") && !text.contains("earlier exchanges"), "{text}");
}

#[test]
fn a_drawing_names_the_source_of_its_events() {
    let said = |kept: &dyn Fn(&Event) -> bool| {
        let mut run = support::small_writes::run(false);
        sequence(&mut run, "default").events.retain(kept);
        let text = drawn(&run, "tcp block same-cpu default 100x2 B", 100);
        let from = text.find("Drawn from ").expect("the source");
        joined(&text[from..])
    };
    let packet = |event: &Event| matches!(event.kind, EventKind::Segment | EventKind::PureAck);
    assert!(said(&|_| true).starts_with("Drawn from the kernel's time stamps of both ends; their times may be off"));
    let calls = "Drawn from the calls of both ends only: the kernel gave no time stamps, so segments and ACKs are missing. \
                 No capture: CAP_NET_RAW is missing";
    let without = said(&|event| !packet(event));
    assert!(without.starts_with(calls), "{without}");
    let client = said(&|event| !packet(event) || event.kind == EventKind::Segment && event.end == End::Client);
    let alone =
        "Drawn from the kernel's time stamps of the client only, so segments of the server are missing; their";
    assert!(client.starts_with(alone), "{client}");
}

#[test]
fn a_case_without_a_trace_has_a_note() {
    let run = support::small_writes::run(true);
    let text = drawn(&run, "pipe block same-cpu default 100x2 B", 200);
    assert!(
        text.contains("No exchange of pipe block same-cpu default 100x2 B was traced (hint: traced cases: tcp"),
        "{text}"
    );
    let text = drawn(&support::survey(1), MOST_TELLING, 80).replace('\n', " ");
    assert!(text.contains("No exchange of this run was traced") && text.contains("hairpin small-writes --ladder"));
}

#[test]
fn every_wait_is_named_next_to_its_end() {
    let mut run = support::small_writes::run(true);
    let names = [
        (ExchangeState::Nagle, End::Client, "~ held 1.00 ms by Nagle's algorithm: waits for the ACK of earlier data"),
        (ExchangeState::Cork, End::Client, "~ corked 1.00 ms"),
        (ExchangeState::Autocork, End::Client, "~ held 1.00 ms by autocorking"),
        (ExchangeState::DelayedAck, End::Server, "~ ACK delayed 1.00 ms"),
        (ExchangeState::ServerProgram, End::Server, "~ the program held the request 1.00 ms"),
        (ExchangeState::Unexplained, End::Client, "~ held 1.00 ms, cause unknown"),
    ];
    for (cause, end, name) in names {
        let wait =
            Wait { came_ns: None, cause, end, from_ns: 1_000_000, until_ns: 2_000_000, first_byte: 2, end_byte: 200 };
        sequence(&mut run, "default").waits = vec![wait];
        let text = drawn(&run, "tcp block same-cpu default 100x2 B", 100);
        let line = text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        let left = line.find(": ~").is_some();
        assert_eq!(left, end == End::Client, "{line}");
    }
    let wait = &mut sequence(&mut run, "default").waits[0];
    (wait.cause, wait.until_ns) = (ExchangeState::Cork, 201_000_000);
    assert!(drawn(&run, "default", 100).contains("kernel sends after 200 ms"));
}

#[test]
fn the_drawing_is_ascii_fits_the_width_and_is_short() {
    let mut run = support::small_writes::run(true);
    let mut turn = 0;
    sequence(&mut run, "nodelay").events = (0..9000_i64)
        .map(|number| {
            turn = (turn * 31 + 7) % 11;
            let kind = [EventKind::Write, EventKind::Segment, EventKind::Read, EventKind::PureAck][turn % 4];
            let end = if turn % 3 == 0 { End::Server } else { End::Client };
            let at_ns = number * number * 1000;
            Event { at_ns, until_ns: Some(at_ns + 500), end, kind, first_byte: number, end_byte: number + 1 }
        })
        .collect();
    let waits = &mut sequence(&mut run, "default").waits;
    for number in 0..40 {
        let mut wait = waits[0].clone();
        wait.from_ns += number;
        waits.push(wait);
    }
    for width in [40, 60, 80, 90, 100, 120, 200] {
        let text = drawn(&run, ALL, width);
        assert!(text.is_ascii());
        let wide: Vec<&str> = text.lines().filter(|line| line.len() > width && !line.contains("pcapng")).collect();
        assert!(wide.is_empty(), "wider than {width}: {wide:#?}");
        for part in text.split("Time sequence").skip(1) {
            let lines = part.lines().filter(|line| line.ends_with(['|', ':', '*'])).count();
            assert!(lines <= if width < 80 { 60 } else { 42 }, "{lines} lines at {width}: {part}");
        }
    }
    assert!(drawn(&run, "default", 80).contains("37 shorter waits are not named."));
}

#[test]
fn colour_changes_no_text() {
    let run = support::small_writes::run(true);
    let coloured = render_time_sequences(&run, ALL, &Look { width: 80, colour: true }).expect("known");
    let without: String =
        coloured
            .split('\u{1b}')
            .enumerate()
            .map(|(place, part)| {
                if place == 0 {
                    part.to_owned()
                } else {
                    part.split_once('m').map_or("", |(_, rest)| rest).to_owned()
                }
            })
            .collect();
    assert_ne!(coloured, without);
    assert_eq!(without, drawn(&run, ALL, 80));
}

#[test]
fn damaged_sequences_are_drawn_without_a_panic() {
    let mut run = support::small_writes::run(true);
    for row in &mut run.cases {
        row.label.push_str("\u{1b}[2J");
    }
    let broken = sequence(&mut run, "default");
    broken.duration_ns = i64::MIN;
    for (place, event) in broken.events.iter_mut().enumerate() {
        event.at_ns = [i64::MIN, i64::MAX, 0][place % 3];
        event.until_ns = [Some(i64::MAX), Some(i64::MIN), None][place % 3];
        (event.first_byte, event.end_byte) = (i64::MAX, i64::MIN);
    }
    for wait in &mut broken.waits {
        (wait.from_ns, wait.until_ns) = (i64::MIN, i64::MAX);
    }
    let text = drawn(&run, ALL, 80);
    assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
    let page = hairpin_report::html::render(&run);
    assert!(!page.contains("NaN") && !page.contains("=\"inf"), "on the page");
}
