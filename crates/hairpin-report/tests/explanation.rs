//! Explanations and tunings, in the terminal and on the page.

use hairpin_model::explanation::evidence;
use hairpin_model::time_sequence::{Event, EventKind, Source};
use hairpin_model::trace::End;
use hairpin_model::tuning::{TriedChange, TuneMetric, TuneVerdict, Tuning};
use hairpin_model::{
    Actor, Cause, CauseText, ExchangeState, ExplainedCause, ExplainedConnection, ExplainedPackets, Explanation, Fact,
    Figure, RangeNs, StateUnion, Tier, TimeInState, TimeSequence, VantagePoint, Wait,
};
use hairpin_report::explanation::write_explanation;
use hairpin_report::html;
use hairpin_report::terminal::{render_explanation, render_tuning};

use crate::shown::plain;

fn event(at_ns: i64, end: End, kind: EventKind, bytes: (i64, i64)) -> Event {
    Event { at_ns, until_ns: Some(at_ns + 10_000), end, kind, first_byte: bytes.0, end_byte: bytes.1 }
}

fn sequence() -> TimeSequence {
    TimeSequence {
        exchange: 38,
        source: Source::Capture,
        clock_error_ns: 0,
        of_client_alone: false,
        duration_ns: 44_000_000,
        events: vec![
            event(0, End::Client, EventKind::Segment, (0, 10)),
            event(90_000, End::Server, EventKind::Segment, (0, 20)),
            event(43_500_000, End::Client, EventKind::PureAck, (20, 20)),
            event(43_900_000, End::Server, EventKind::Segment, (20, 1020)),
        ],
        waits: vec![Wait {
            cause: ExchangeState::DelayedAck,
            end: End::Client,
            from_ns: 100_000,
            until_ns: 43_500_000,
            first_byte: 0,
            end_byte: 0,
            came_ns: None,
        }],
        states: Vec::new(),
    }
}

/// A server that answers in two segments, of which the second waits for a delayed acknowledgment.
fn stalled() -> Explanation {
    let share = |state, who, share| TimeInState { state, who, share, ns: share * 44e6 };
    let states = vec![
        share(ExchangeState::DelayedAck, Actor::ClientKernel, 0.8),
        share(ExchangeState::WorkOrHeld, Actor::Server, 0.2),
    ];
    let connection = ExplainedConnection {
        id: 1,
        ends: ["python3 (127.0.0.1:51936)", "python3 (127.0.0.1:7000)"].map(str::to_owned),
        connections: 1,
        exchanges: 40,
        p50_ns: Some(43_800_000),
        p99_ns: Some(44_500_000),
        bytes: [400, 40_800],
        min_round_trip_ns: Some(25_000),
        unions: StateUnion::among(&states),
        states,
        worst: Some(sequence()),
    };
    let evidence = vec![
        Fact::number(evidence::AFFECTED, 39.0),
        Fact::number(evidence::EXCHANGES, 40.0),
        Fact::number(evidence::WAIT_NS, 43.1e6),
        Fact::number(evidence::HELD_BYTES, 1_000.0),
        Fact::number(evidence::HELD_SEGMENT, 2.0),
        Fact::word(evidence::END, "server"),
    ];
    let cause = ExplainedCause {
        code: Cause::NagleMeetsDelayedAck,
        place: "127.0.0.1:7000".to_owned(),
        share: Some(0.8),
        saved_if_fixed_ns: Some(RangeNs { low: 42.7e6, high: 43.3e6 }),
        evidence,
        text: CauseText::default(),
    };
    let idle = ExplainedCause { code: Cause::ClientIdle, share: Some(0.6), saved_if_fixed_ns: None, ..cause.clone() };
    let mut explanation = Explanation {
        tier: Tier::File,
        subject: "slow.pcap".to_owned(),
        packets: ExplainedPackets {
            frames: 414,
            connections: 1,
            lost_by_capture: 3,
            duration_ns: 1_730_000_000,
            seen_at: Some(VantagePoint::Client),
            ..ExplainedPackets::default()
        },
        programs: None,
        seen: Vec::new(),
        not_seen: Vec::new(),
        causes: vec![cause, idle],
        connections: vec![connection],
        exit_code: None,
    };
    write_explanation(&mut explanation);
    explanation
}

#[test]
fn snapshots_of_explanations() {
    let explanation = stalled();
    for width in [80, 100] {
        let text = render_explanation(&explanation, false, &plain(width));
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
    insta::assert_snapshot!("explanation_at_80_columns", render_explanation(&explanation, false, &plain(80)));
}

#[test]
fn the_page_has_the_answer_the_packets_and_what_was_not_seen() {
    let page = html::render_explanation(&stalled());
    for text in
        ["sends its answer in several segments", "<svg", "TCP_NODELAY at the server", "packets that the capture lost"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"), "the page needs no network");
    let hostile = Explanation { subject: "<script>alert(1)</script>".to_owned(), ..stalled() };
    assert!(!html::render_explanation(&hostile).contains("<script>alert"));
}

#[test]
fn without_a_cause_the_states_are_the_answer() {
    let nothing = Explanation { causes: Vec::new(), ..stalled() };
    let text = render_explanation(&nothing, false, &plain(80));
    assert!(text.starts_with("No known cause takes a notable part of the time") && text.contains("80 %"), "{text}");
    let none = Explanation { causes: Vec::new(), connections: Vec::new(), ..stalled() };
    assert!(render_explanation(&none, true, &plain(80)).starts_with("No TCP connection was seen"));
    assert!(html::render_explanation(&none).contains("No TCP connection was seen"));
}

fn tuned(verdict: TuneVerdict) -> Tuning {
    let change = TriedChange {
        change: "nodelay=on".to_owned(),
        because: Some(Cause::NagleMeetsDelayedAck),
        predicted: Some(RangeNs { low: 38e6, high: 46e6 }),
        measured: Some(Figure::new(42.4e6, 42.3e6, 42.5e6)),
        measured_share: Some(0.99),
        held: true,
        held_back: 6,
        verdict,
        keep: "setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, 1)".to_owned(),
    };
    Tuning {
        subject: "./slow".to_owned(),
        metric: TuneMetric::Exchange,
        runs: 6,
        baseline: Some(Figure::new(42.5e6, 42.4e6, 42.6e6)),
        same_again: Some(Figure::new(48e3, -121e3, 218e3)),
        supervised: Some(Figure::new(-104e3, -309e3, 101e3)),
        tune: vec![change],
        not_tried: vec!["server-work: no socket option changes it".to_owned()],
    }
}

#[test]
fn snapshots_of_tunings() {
    insta::assert_snapshot!("tuning_at_80_columns", render_tuning(&tuned(TuneVerdict::Helps), &plain(80)));
    for (verdict, told) in [
        (TuneVerdict::NoEffect, "None of the changes makes the program faster."),
        (TuneVerdict::Hurts, "hurts: "),
        (TuneVerdict::NotMade, "could not be made"),
    ] {
        let text = render_tuning(&tuned(verdict), &plain(80));
        assert!(text.contains(told) && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let nothing = Tuning { tune: Vec::new(), ..tuned(TuneVerdict::Helps) };
    assert!(render_tuning(&nothing, &plain(80)).starts_with("No socket option can change what takes the time"));
}
