//! Claims in the terminal and on the page: snapshots that were read by people, and rules that hold for any report.

use hairpin_model::judged_claim::ClaimsReport;
use hairpin_report::terminal::{Look, render_claims};
use hairpin_report::{html, json};
use serde_json::{Value, json};

/// A row: name, published, what came of it. `None` for one that was only listed.
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
    })
}

fn claim(id: &str, text: &str, published: &Value, coverage: &str, verdict: &Value, rows: &[Value]) -> Value {
    let mut claim = rows[0].clone();
    if rows.len() > 1 {
        (claim["measured"], claim["ratio"], claim["why"]) = (Value::Null, Value::Null, json!("holds: rate."));
    }
    claim["verdict"] = verdict.clone();
    for (name, value) in [("id", json!(id)), ("text", json!(text)), ("source", json!("B")), ("rows", json!(rows))] {
        claim[name] = value;
    }
    (claim["published"], claim["coverage"]) = (published.clone(), json!(coverage));
    claim
}

/// Four claims of one text; `tested` or only listed.
fn report(tested: bool) -> ClaimsReport {
    let figure = |value: f64| json!({"value": value, "low": value * 0.9, "high": value * 1.1});
    let came = |value: f64, ratio: f64, verdict: &'static str, why: &'static str| {
        tested.then(|| (if value > 0.0 { figure(value) } else { Value::Null }, ratio, verdict, why))
    };
    let said = |verdict: &str| if tested { json!(verdict) } else { Value::Null };
    let number = json!({"value": 4.873, "unit": "bytes/ms"});
    let order = json!({"value": ["released after the last write", "forgotten"], "unit": "order, the fastest first"});
    let holds = "The bytes-per-ms of tcp block together none 100x2 B, 4.52 bytes/ms (4.07 to 4.97), is within a factor of 2 of 4.873 bytes/ms.";
    let first = [row("", &number, came(4.52, 0.928, "holds", holds), None)];
    let second = [
        row("rate", &number, came(0.0134, 0.0027, "does-not-hold", "It is less."), None),
        row(
            "a row whose name is longer than its column <b>",
            &number,
            came(48.7, 10.0, "cannot-tell", "It may be."),
            None,
        ),
        row(
            "throughput",
            &number,
            came(0.0, 0.0, "cannot-run", "missing: the experiment `bulk`"),
            Some("the experiment `bulk`"),
        ),
    ];
    let third = [row("", &order, came(0.0, 0.0, "cannot-run", "icmp: no permission"), None)];
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
    serde_json::from_value(report).expect("it is a report")
}

fn text(tested: bool, width: usize) -> String {
    render_claims(&report(tested), &Look { width, colour: false })
}

#[test]
fn a_list_at_80_columns() {
    insta::assert_snapshot!(text(false, 80));
}

#[test]
fn tested_claims_at_80_columns() {
    insta::assert_snapshot!(text(true, 80));
}

#[test]
fn tested_claims_at_100_columns() {
    insta::assert_snapshot!(text(true, 100));
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
fn claims_survive_their_json() {
    let report = report(true);
    assert_eq!(serde_json::from_str::<ClaimsReport>(&json::render_claims(&report)).expect("it is JSON"), report);
}
