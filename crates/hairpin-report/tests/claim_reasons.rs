//! The sentences of claims, and the reasons of their rows.

use hairpin_model::claim::{Axis, Kept};
use hairpin_model::figure::NoInterval;
use hairpin_model::judged_claim::{Headline, Verdict};
use hairpin_model::reason::{Bound, CaseRatio, Place};
use hairpin_model::time_sequence::EventKind;
use hairpin_model::{Fallback, Figure, FigureName, JudgedRow, Judgement, Published, Reason};
use hairpin_report::words::write_claims;
use serde_json::json;

use crate::shown::assert_says;
use crate::support::claims::{
    DEFAULT, NODELAY, compared, invalid, judged, number, order, ordered, overview, shown, step, tested, untested,
    within,
};

/// The texts of these reasons, each in its own row of the second claim.
fn because(reasons: &[(Option<Figure>, &str, Reason)]) -> String {
    let mut report = tested();
    let row = report.claims[1].rows[1].clone();
    let with = |(measured, unit, reason): &(Option<Figure>, &str, Reason)| {
        let judgement = Judgement {
            measured: *measured,
            measured_unit: Some((*unit).to_owned()),
            reason: Some(reason.clone()),
            ..Judgement::default()
        };
        JudgedRow { judgement, ..row.clone() }
    };
    report.claims[1].rows = reasons.iter().map(with).collect();
    write_claims(&mut report);
    report.claims[1].rows.iter().map(|row| row.judgement.why.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn reasons_of_measured_figures() {
    let (figure, case, other) = (FigureName::P50, "tcp block same-cpu".to_owned(), "udp block same-cpu".to_owned());
    let measured = Some(Figure::new(4.5, 4.4, 4.61));
    let of = |against: Option<&String>, place, bound| Reason::Compared {
        figure,
        case: case.clone(),
        against: against.cloned(),
        place,
        bound,
    };
    let within = Bound::Within { number: 410_403.72, factor: 2.0 };
    let factor = Bound::Range { from: 0.000_15, to: 0.07, factor: 1.25 };
    let range = |factor| Bound::Range { from: 1.0, to: 5.5, factor };
    let mut reasons: Vec<_> = Place::ALL.iter().map(|place| (measured, "ms", of(None, *place, within))).collect();
    let gap = |value| CaseRatio { cases: [other.clone(), case.clone()], ratio: Figure::bare(value) };
    let not_measured = || Reason::NotMeasured { case: case.clone(), cause: None };
    let steps = vec![
        step(["pipe", "UDP"], Verdict::Confirmed, Ok(Figure::new(1.5, 1.4, 1.6))),
        step(["UDP", "TCP"], Verdict::Refuted, Ok(Figure::bare(0.8))),
        step(["TCP", "fifo"], Verdict::Equal, Ok(Figure::new(1.0, 0.99, 1.01))),
        step(["fifo", "file"], Verdict::Undecided, Ok(Figure::bare(1.0))),
        step(["file", "shm"], Verdict::Undecided, Ok(Figure::new(1.0, 0.8, 1.2))),
        step(["shm", "icmp"], Verdict::NotTested, Err(not_measured())),
    ];
    let absent = vec![
        step(["pipe", "UDP"], Verdict::Undecided, Err(not_measured())),
        step(["UDP", "TCP"], Verdict::Undecided, Err(not_measured())),
        step(["TCP", "shm"], Verdict::Undecided, Err(invalid())),
    ];
    let often = Reason::Often {
        figure,
        case: case.clone(),
        place: Place::Across,
        rounds: 5,
        reached: 3,
        bound: 1.5,
        share: 0.07,
    };
    let in_states = Reason::Compared {
        figure: FigureName::TimeInStates,
        case: case.clone(),
        against: None,
        place: Place::Inside,
        bound: Bound::AtLeast { number: 0.9 },
    };
    let share = Some(Figure::new(0.95, 0.93, 0.961));
    let saved = Some(Figure::new(-0.000_2, -0.0893, 0.000_7));
    let one_of_several = Reason::OneOfSeveral { measured: Box::new(of(None, Place::Above, within)), comparisons: 4 };
    let none = |why| (Some(Figure { why, ..Figure::bare(4.5) }), "ms", of(None, Place::Unknown, within));
    reasons.extend([None].into_iter().chain(NoInterval::ALL.iter().copied().map(Some)).map(none));
    reasons.extend([
        (measured, "x", of(Some(&other), Place::Inside, range(1.0))),
        (Some(Figure::bare(4.5)), "x", of(Some(&other), Place::Below, range(2.0))),
        (measured, "us", of(None, Place::Above, Bound::AtMost { number: 4.0 })),
        (measured, "us", of(None, Place::Across, Bound::AtLeast { number: 4.5 })),
        (saved, "share", of(Some(&other), Place::Below, Bound::SavesAtLeast { share: 0.9 })),
        (measured, "share", of(None, Place::Inside, factor)),
        (measured, "ms", one_of_several),
        (measured, "x", ordered(steps)),
        (None, "x", ordered(absent)),
        (measured, "share", often),
        (share, "share", in_states),
        (measured, "x", Reason::Widens { figure, full: gap(9.0), low: gap(2.0) }),
    ]);
    insta::assert_snapshot!(because(&reasons));
}

#[test]
fn reasons_without_a_measured_figure() {
    let (figure, case) = (FigureName::First, "tcp block same-cpu".to_owned());
    let text = str::to_owned;
    let option = serde_json::from_value(
        json!({"name": "sndbuf", "asked": "4096", "before": "4608", "after": "4608", "met": true}),
    );
    let kept = |reported: &[Kept], absent: &[Kept], options| Reason::Kept {
        case: case.clone(),
        reported: reported.to_vec(),
        absent: absent.to_vec(),
        options,
        timer_slack_ns: reported.contains(&Kept::TimerSlack).then_some([1, 50_000]),
    };
    let pattern = |written: Option<&str>, answer_ns, published: Option<&str>| Reason::Pattern {
        case: case.clone(),
        written: written.map(|writes| writes.parse().expect("a valid pattern")),
        ended_ns: [written.map(|_| 40_600), answer_ns],
        published: published.map(|writes| writes.parse().expect("a valid pattern")),
    };
    let fallback = Fallback { from: text("udp"), to: text("tcp"), evidence: text("none of 5 came back") };
    let seen = vec![(EventKind::Syn, -95_615_000), (EventKind::SynAck, 1_000)];
    let packets = |seen, absent| Reason::Packets { case: case.clone(), seen, absent };
    let reasons = [
        kept(&[Kept::Extremes, Kept::Curve], &[], vec![option.expect("a valid option")]),
        kept(&[], &[Kept::Percentiles, Kept::Samples, Kept::RateOverTime], Vec::new()),
        kept(&[Kept::CpuOverTime, Kept::TimerSlack], &[Kept::Options], Vec::new()),
        packets(seen.clone(), None),
        packets(seen, Some(EventKind::PureAck)),
        packets(Vec::new(), Some(EventKind::Segment)),
        pattern(Some("2x2"), Some(95_000), None),
        pattern(None, None, Some("3x2")),
        Reason::FellBack { case: case.clone(), fallback },
        Reason::NoFallback { case: case.clone(), from: text("udp"), to: text("tcp") },
        Reason::Missing { part: text("a link") },
        Reason::Skipped { because: text("it is about one machine") },
        Reason::NoRun { run: text("small-writes"), cause: Some(text("no permission")) },
        Reason::NoRun { run: text("small-writes"), cause: None },
        Reason::NoCase,
        Reason::SeveralCases { cases: vec![case.clone(), text("udp block same-cpu")] },
        Reason::Ended { case: None },
        Reason::Ended { case: Some(case.clone()) },
        Reason::NotMeasured { case: case.clone(), cause: None },
        Reason::NotMeasured { case: case.clone(), cause: Some(text("no permission")) },
        Reason::Invalid {
            case: case.clone(),
            reasons: vec![text("no message arrived"), text("all 3 rounds failed")],
        },
        Reason::NotPublished { needed: text("number") },
        Reason::NotPublished { needed: text("order") },
        Reason::WrongUnit { figure, unit: text("bytes") },
        Reason::Zero { figure, cases: Vec::new() },
        Reason::Zero { figure, cases: vec![case.clone(), text("udp block same-cpu")] },
        Reason::NeedsClocks { case: case.clone(), figure },
        Reason::TooFewSamples { case: case.clone(), figure, samples: 800 },
        Reason::NotTraced { case: case.clone() },
        Reason::NotCaptured { case: case.clone(), reason: text("no CAP_NET_RAW") },
        Reason::NoExchange { case: case.clone(), captured: true },
        Reason::NoExchange { case, captured: false },
    ];
    insta::assert_snapshot!(because(&reasons.map(|reason| (None, "ms", reason))));
}

#[test]
fn figures_of_claims_have_names() {
    let of = |figure| (None, "ms", Reason::Zero { figure, cases: Vec::new() });
    insta::assert_snapshot!(because(&FigureName::ALL.iter().map(|figure| of(*figure)).collect::<Vec<_>>()));
}

#[test]
fn every_headline_has_its_sentence() {
    let expected = [
        ("B1", Headline::Holds, "Holds: 4.52 bytes/ms (4.07-4.97) here, 4.873 bytes/ms in the text."),
        (
            "B2",
            Headline::HoldsOtherSize,
            "Holds, other size: against default: 347 x (312-382) here, 100.6 x in the text.",
        ),
        ("B3", Headline::NoDifference, "No difference: UDP and TCP are equal within 5 %: 1.01 x (0.990-1.03)."),
        (
            "B4",
            Headline::HoldsOnlyIf,
            "Holds only if NODELAY is on: NODELAY: UDP < TCP: 1.50 x (1.40-1.60); no NODELAY: UDP > TCP: 0.800 x \
             (0.750-0.850).",
        ),
        ("B5", Headline::Contradicted, "Contradicted: pipe > TCP: 0.281 x (0.270-0.292)."),
        (
            "B6",
            Headline::Undecided,
            "Undecided: median: 10.0 ms (9.00-11.0) here, 5 ms in the text, within a factor of 2 in the rule; p99: \
             1.20 ms (no interval) here, 1.5 ms in the text, at most 2 ms in the rule; worst: the maximum \
             reaches 1 ms in 3 of 5 rounds (14.7-94.7 %).",
        ),
        (
            "B7",
            Headline::Undecided,
            "Undecided: tcp block same-cpu nodelay 100x2 B has no valid figures; tcp block same-cpu default 100x2 B: \
             none of its rounds was measured.",
        ),
        (
            "B8",
            Headline::OtherHardware,
            "Figures of other hardware: 0.0702 ms (0.0632-0.0772) here, 0.25 ms in the text.",
        ),
        ("B9", Headline::Answered, "Answered: output: the run reports the extremes and every sample (CSV)."),
        ("B10", Headline::NotYet, "Not yet: it needs the experiment `periodic`."),
        ("B11", Headline::NotTestable, "Not testable here: icmp: no permission."),
    ];
    let report = overview();
    let of = |id: &str| report.claims.iter().find(|claim| claim.id == id).unwrap_or_else(|| panic!("no {id}"));
    for (id, headline, sentence) in expected {
        assert_eq!((of(id).headline, of(id).text.sentence.as_str()), (Some(headline), sentence), "{id}");
    }
    assert_eq!((of("B12").headline, of("B12").text.sentence.as_str()), (None, ""), "a claim that was only listed");
    let covered: Vec<Headline> = expected.iter().map(|(_, headline, _)| *headline).collect();
    assert!(Headline::ALL.iter().all(|headline| covered.contains(headline)), "{covered:?}");
}

#[test]
fn undecided_claims_say_what_would_decide_and_others_what_is_missing() {
    let report = overview();
    let decides = |id: &str| {
        let claim = report.claims.iter().find(|claim| claim.id == id).expect("a claim of the fixture");
        claim.decides.as_deref()
    };
    assert_eq!(decides("B6"), Some("more rounds on a machine in one state"), "which are more rounds, too");
    assert_eq!(decides("B7"), Some("valid rounds (on a quiet machine) and more rounds"));
    assert_eq!(decides("B10"), Some("the experiment `periodic`"));
    assert_eq!(decides("B11"), Some("icmp: no permission"));
    assert_eq!(["B1", "B2", "B5", "B9", "B12"].map(decides), [None; 5]);
}

#[test]
fn a_sentence_names_at_most_three_rows_and_a_row_that_may_differ_by_chance() {
    let mut report = tested();
    let claim = &mut report.claims[0];
    let mut rows = vec![claim.rows[0].clone(); 5];
    rows.iter_mut().enumerate().for_each(|(place, row)| row.name = format!("row {place}"));
    claim.rows = rows;
    let measured = Box::new(compared(Place::Below, None, within(20.0)));
    let row = untested("size", Axis::Size, number(20.0, "ms"));
    let undecided = judged(
        row,
        Some(Figure::new(9.0, 8.5, 9.5)),
        Verdict::Undecided,
        Reason::OneOfSeveral { measured, comparisons: 4 },
    );
    report.claims[5].rows = vec![undecided];
    write_claims(&mut report);
    let sentence = &report.claims[0].text.sentence;
    assert_eq!(["row 0", "row 1", "row 2", "row 3"].map(|name| sentence.contains(name)), [true, true, true, false]);
    assert_eq!(
        report.claims[5].text.sentence,
        "Undecided: size: 9.00 ms (8.50-9.50) here, 20 ms in the text, refuted alone, but not after the correction for 4 comparisons."
    );
    let page = shown(&report, 100);
    assert_says(&page, &["Rule of 2026-11-22: within a factor of 2 of 20 ms;", "Measured: bytes/ms of"]);
    assert_says(&page, &["The row is refuted alone, but not after the correction for 4 comparisons."]);
}

#[test]
fn a_row_of_any_rule_has_a_clause_in_the_sentence() {
    let sentence = |measured: Option<Figure>, published: Published, verdict, reason: Reason| {
        let mut report = tested();
        report.claims.truncate(1);
        let claim = &mut report.claims[0];
        claim.rows = vec![judged(untested("row", Axis::Cause, published), measured, verdict, reason)];
        if verdict == Verdict::Refuted {
            claim.headline = Some(Headline::Contradicted);
        }
        write_claims(&mut report);
        report.claims[0].text.sentence.clone()
    };
    let (share, figure) =
        (|| number(0.99, "share"), |value: f64| Some(Figure::new(value, 0.99 * value, 1.001 * value)));
    let saves = |place| compared(place, Some(DEFAULT), Bound::SavesAtLeast { share: 0.9 });
    let confirmed = sentence(figure(0.95), share(), Verdict::Confirmed, saves(Place::Inside));
    assert_eq!(confirmed, "Holds: row: the bytes/ms falls by 95.0 % (94.0-95.1), 99 % in the text.");
    let refuted = sentence(
        Some(Figure::new(-0.000_2, -0.0128, 0.0123)),
        order(&["a", "b"]),
        Verdict::Refuted,
        saves(Place::Below),
    );
    assert_eq!(refuted, "Contradicted: row: the bytes/ms falls by -0.02 % (-1.28 to 1.23).");
    let at_least = |number| compared(Place::Inside, None, Bound::AtLeast { number });
    let other = sentence(figure(1.8), number(2.0, "x"), Verdict::Confirmed, at_least(1.5));
    assert_eq!(other, "Holds: row: 1.80 x (1.78-1.80) here, 2 x in the text, at least 1.5 x in the rule.");
    let same = sentence(figure(3.0), number(2.0, "x"), Verdict::Confirmed, at_least(2.0));
    assert_eq!(same, "Holds: row: 3.00 x (2.97-3.00) here, 2 x in the text.");
    let gap = |ratio| CaseRatio { cases: [DEFAULT.to_owned(), NODELAY.to_owned()], ratio: Figure::bare(ratio) };
    let widens = Reason::Widens { figure: FigureName::P50, full: gap(9.0), low: gap(2.0) };
    let widens = sentence(Some(Figure::new(4.5, 4.4, 4.6)), order(&["low", "full"]), Verdict::Confirmed, widens);
    let ratio = "the ratio of the p50 is 9.00 x (no interval) at full load and 2.00 x (no interval) at low load, 4.50 x (4.40-4.60) as large";
    assert_eq!(widens, format!("Holds: row: {ratio}."));
    let packets = Reason::Packets {
        case: DEFAULT.to_owned(),
        seen: vec![(EventKind::Syn, 0)],
        absent: Some(EventKind::PureAck),
    };
    let packets = sentence(None, order(&["SYN", "ACK"]), Verdict::Refuted, packets);
    assert_eq!(packets, "Contradicted: row: a capture shows no pure ACK there.", "the packets are in the reason");
}
