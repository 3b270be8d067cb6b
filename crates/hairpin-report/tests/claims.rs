//! Claims in the terminal and on the page: snapshots, and rules that hold for any report.

use hairpin_model::claim::Kept;
use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::{Bound, CaseRatio, OrderStep, Place};
use hairpin_model::time_sequence::EventKind;
use hairpin_model::{ClaimsReport, Document, Fallback, Figure, FigureName, JudgedRow, Judgement, Reason};
use hairpin_report::html;
use hairpin_report::terminal::render_claims;
use hairpin_report::words::write_claims;
use serde_json::{Value, json};

use crate::shown::{joined, plain};

/// A row of a claim. Its result `came` is `None` if the row was not tested.
fn row(name: &str, published: &Value, came: Option<(Value, f64, &str, &str)>, missing: Option<&str>) -> Value {
    let (measured, ratio, verdict, why) = came.map_or_else(
        || (Value::Null, Value::Null, Value::Null, ""),
        |(measured, ratio, verdict, why)| {
            (measured, if ratio > 0.0 { json!(ratio) } else { Value::Null }, json!(verdict), why)
        },
    );
    json!({
        "name": name, "published": published, "measured": measured, "measured_unit": measured.is_object().then_some("bytes/ms"),
        "ratio": ratio, "verdict": verdict, "why": why, "run": missing.is_none().then_some("B-small-writes"),
        "rule_because": missing.is_none().then_some("the kernel's timer sets it"), "missing": missing,
        "stand_in": null, "beside": null, "about": "machine",
    })
}

/// Adds a stand-in, another setting, or both to a row.
fn noted(mut row: Value, stand_in: Option<&str>, beside: Option<&str>) -> Value {
    (row["stand_in"], row["beside"]) = (json!(stand_in), json!(beside));
    row
}

fn claim(id: &str, text: &str, published: &Value, coverage: &str, verdict: &Value, rows: &[Value]) -> Value {
    let mut claim = rows[0].clone();
    if rows.len() > 1 {
        claim["why"] = json!("holds: rate.");
    }
    claim["verdict"] = verdict.clone();
    for (name, value) in [("id", json!(id)), ("text", json!(text)), ("source", json!("B")), ("rows", json!(rows))] {
        claim[name] = value;
    }
    claim["stand_in"] = rows.iter().map(|row| row["stand_in"].clone()).find(|stand_in| !stand_in.is_null()).into();
    (claim["published"], claim["coverage"]) = (published.clone(), json!(coverage));
    claim
}

const SLEEPS: &str = "a server that sleeps 4 ms: these 4 ms are set here, not measured";

/// Four claims of one text, tested or only listed.
fn report(tested: bool) -> ClaimsReport {
    let figure = |value: f64| json!({"value": value, "low": value * 0.9, "high": value * 1.1});
    let came = |value: f64, ratio: f64, verdict: &'static str, why: &'static str| {
        tested.then(|| (if value > 0.0 { figure(value) } else { Value::Null }, ratio, verdict, why))
    };
    let said = |verdict: &str| if tested { json!(verdict) } else { Value::Null };
    let number = json!({"value": 4.873, "unit": "bytes/ms"});
    let order = json!({"value": ["released after the last write", "forgotten"], "unit": "order, the fastest first"});
    let holds = "The bytes-per-ms of tcp block same-cpu default 100x2 B, 4.52 bytes/ms (4.07 to 4.97), is within a factor of 2 of 4.873 bytes/ms.";
    let first = [row("", &number, came(4.52, 0.928, "holds", holds), None)];
    let second = [
        row("rate", &number, came(0.0134, 0.0027, "does-not-hold", "It is less."), None),
        noted(
            row(
                "a row whose name is longer than its column <b>",
                &number,
                came(48.7, 10.0, "cannot-tell", "It may be."),
                None,
            ),
            Some(SLEEPS),
            Some("two processes on <two> CPUs"),
        ),
        row(
            "throughput",
            &number,
            came(0.0, 0.0, "cannot-run", "missing: the experiment `bulk`"),
            Some("the experiment `bulk`"),
        ),
    ];
    let third =
        [noted(row("", &order, came(0.0, 0.0, "cannot-run", "icmp: no permission"), None), Some(SLEEPS), None)];
    let missing = came(0.0, 0.0, "cannot-run", "missing: sending from a file");
    let last = [row("", &order, missing, Some("sending from a file"))];
    let long = "With the default options 10 000 logical packets take 410 s: Nagle's algorithm waits for an ACK in each of them";
    let run = json!({
        "name": "B-small-writes", "command": "hairpin small-writes --seed 1", "because": "the published pattern",
        "folder": tested.then_some("B-small-writes"), "problem": null, "failed_rounds": u8::from(tested),
    });
    let report = json!({
        "tool": {"name": "hairpin", "version": "0.1.0", "commit": null, "build": "release"},
        "command_line": ["hairpin", "claims", "run"], "started_unix_s": 1_795_000_000, "duration_ns": 21_300_000_000_u64,
        "state": "complete", "seed": tested.then_some(1), "environment": null,
        "sources": [{"letter": "B", "title": "What <TCP_CORK> does", "what": "A manual page", "file": "001.txt", "setting": "a Linux machine"}],
        "runs": [run],
        "claims": [
            claim("B1", long, &number, "covered", &said("holds"), &first),
            claim("B2", "A table", &number, "partly", &said("does-not-hold"), &second),
            claim("B4", "The cork has to be taken out at the right moment", &order, "covered", &said("cannot-run"), &third),
            claim("B5", "Files are best sent by sendfile", &order, "not-covered", &said("cannot-run"), &last),
        ],
    });
    serde_json::from_value(report).expect("a valid report")
}

fn text(tested: bool, width: usize) -> String {
    render_claims(&report(tested), &plain(width))
}

#[test]
fn runs_with_warnings_have_a_caution() {
    let mut report = report(true);
    let shown = |report: &ClaimsReport| render_claims(report, &plain(300));
    assert!(!shown(&report).contains("idle machine"));
    report.runs[0].warnings = vec!["noisy-machine".to_owned(), "link-late".to_owned()];
    let caution = "Verdicts of these runs may differ on an idle machine: B-small-writes (noisy-machine, link-late).";
    assert!(shown(&report).contains(caution), "{}", shown(&report));
    assert!(html::render_claims(&report).contains("may differ on an idle machine"));
}

#[test]
fn snapshots_of_claims() {
    for (name, tested, width) in [
        ("a_list_at_60_columns", false, 60),
        ("a_list_at_80_columns", false, 80),
        ("tested_claims_at_60_columns", true, 60),
        ("tested_claims_at_80_columns", true, 80),
        ("tested_claims_at_100_columns", true, 100),
    ] {
        insta::assert_snapshot!(name, text(tested, width));
    }
}

#[test]
fn no_text_is_truncated_at_any_width() {
    for width in [40, 60, 80, 100] {
        for tested in [false, true] {
            let shown = joined(&text(tested, width));
            for claim in report(tested).claims {
                assert!(shown.contains(&claim.text), "{} at {width}:\n{shown}", claim.id);
            }
            assert!(shown.contains(SLEEPS), "at {width}:\n{shown}");
        }
        assert!(joined(&text(false, width)).contains("Published: released after the last write < forgotten."));
    }
}

#[test]
fn rows_with_notes_are_marked_and_each_mark_is_explained_once() {
    let shown = text(true, 100);
    let line = |begin: &str| {
        shown.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin}:\n{shown}"))
    };
    assert!(line("B4 [1]").contains("cannot run"), "{shown}");
    assert!(shown.contains("<b> [1,2]"), "{shown}");
    assert!(line("[1]").contains("Stand-in: a server that sleeps 4 ms"));
    assert!(line("[2]").contains("Also measured, not part of the verdict: two processes on <two> CPUs."));
    assert!(!line("B1 ").contains('['), "B1 has no stand-in");
    assert_eq!(shown.matches(SLEEPS).count(), 1, "{shown}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [60, 80, 100, 120] {
        for tested in [false, true] {
            let text = text(tested, width);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= width, "{widest} of {width}:\n{text}");
        }
    }
}

#[test]
fn the_page_shows_every_claim_escaped_and_loads_nothing() {
    let page = html::render_claims(&report(true));
    for id in ["B1", "B2", "B4", "B5"] {
        assert_eq!(page.matches(&format!("<b>{id}</b>")).count(), 1, "{id}");
    }
    let stand_in = "<small class=\"note\">Stand-in: a server that sleeps 4\u{a0}ms: these 4\u{a0}ms are set here, not measured.</small>";
    assert_eq!(page.matches(stand_in).count(), 2, "in two rows");
    assert!(page.contains("not part of the verdict: two processes on &lt;two&gt; CPUs."));
    assert!(page.contains("What &lt;TCP_CORK&gt; does") && page.contains("its column &lt;b&gt;"));
    assert!(
        page.contains("class=\"verdict does-not-hold\"") && page.contains("href=\"B-small-writes&#x2f;report.html\"")
    );
    assert!(!page.contains("http://") && !page.contains("https://"));
    for tag in ["table", "tr", "td", "section", "article", "small", "span", "p"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn the_page_has_a_command_that_repeats_the_run_in_a_new_folder() {
    let mut report = report(true);
    report.command_line = ["hairpin", "claims", "run", "B1", "--out", "tested"].map(str::to_owned).to_vec();
    assert!(html::render_claims(&report).contains("<code>hairpin claims run B1 --seed 1</code>"));
}

#[test]
fn claims_are_unchanged_after_a_round_trip_through_json() {
    let report = report(true);
    assert_eq!(serde_json::from_str::<ClaimsReport>(&report.to_json()).expect("a valid report"), report);
}

/// The texts of these reasons, each in its own row of the second claim.
fn because(reasons: &[(Option<Figure>, &str, Reason)]) -> String {
    let mut report = report(true);
    let row = report.claims[1].rows[0].clone();
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
    let saved = report.claims[0].clone();
    write_claims(&mut report);
    assert_eq!(report.claims[0], saved, "a saved text without a structured reason is kept");
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
    let range = |factor| Bound::Range { from: 1.0, to: 5.5, factor };
    let mut reasons: Vec<_> =
        Place::ALL.iter().map(|place| (measured, "ms", of(None, *place, within.clone()))).collect();
    let gap = |value| CaseRatio { cases: [other.clone(), case.clone()], ratio: Figure::bare(value) };
    let step = |names: [&str; 2], verdict, ratio: Option<f64>| OrderStep {
        names: names.map(str::to_owned),
        verdict,
        ratio: ratio.map(Figure::bare),
        absent: ratio.is_none().then(|| Box::new(Reason::NotMeasured { case: case.clone(), cause: None })),
    };
    let steps = vec![
        step(["pipe", "UDP"], Verdict::Holds, Some(1.5)),
        step(["UDP", "TCP"], Verdict::DoesNotHold, Some(0.8)),
        step(["TCP", "shm"], Verdict::CannotTell, Some(1.0)),
        step(["shm", "icmp"], Verdict::CannotRun, None),
    ];
    let saved = Some(Figure::new(-0.000_2, -0.0893, 0.000_7));
    let undecided = Reason::Undecided {
        because: "It delays no ACK.".to_owned(),
        measured: Box::new(of(None, Place::Inside, within)),
    };
    reasons.extend([
        (measured, "x", of(Some(&other), Place::Inside, range(1.0))),
        (Some(Figure::bare(4.5)), "x", of(Some(&other), Place::Below, range(2.0))),
        (measured, "us", of(None, Place::Above, Bound::AtMost { number: 4.0 })),
        (measured, "us", of(None, Place::Across, Bound::AtLeast { number: 4.5 })),
        (saved, "share", of(Some(&other), Place::Below, Bound::SavesAtLeast { share: 0.9 })),
        (measured, "ms", undecided),
        (None, "x", Reason::Order { figure, steps }),
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
        kept(&[Kept::CpuOverTime], &[Kept::Options], Vec::new()),
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
fn a_table_names_its_rows_by_verdict() {
    let mut report = report(true);
    let claim = &mut report.claims[1];
    claim.judgement.reason = Some(Reason::Rows);
    let mut skipped = claim.rows[0].clone();
    (skipped.name, skipped.skipped) = ("here".to_owned(), Some("it is about one machine".to_owned()));
    claim.rows.push(skipped);
    write_claims(&mut report);
    insta::assert_snapshot!(report.claims[1].judgement.why);
}
